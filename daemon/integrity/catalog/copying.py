"""
Whole files of the catalog: made and copied so that they survive a power cut and belong to the right person.

Every file that the catalog makes belongs to whoever owns the catalog (or its folder), also when root made it (R9), and
is readable by nobody else: it names every file of its owner.
"""

from __future__ import annotations

import os
import shutil
import sqlite3
from collections.abc import Callable
from contextlib import closing

from integrity.catalog import own_files, sqlite_errors
from integrity.errors import CatalogError, show_path
from integrity.files.open_beneath import make_folder_at

_BYTES_AT_ONCE = 1 << 20


def make_folder(folder: bytes) -> None:
    """Make the catalog's folder, 0700; as root for the owner of what lies above it."""
    if os.path.isdir(folder):
        return
    above = os.path.dirname(folder) or b"."
    make_folder(above)
    above_fd = os.open(above, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        make_folder_at(above_fd, os.path.basename(folder), mode=0o700)
    finally:
        os.close(above_fd)


def sync_file(path: bytes) -> None:
    """
    Bring a file or a folder to the disk, so that what is done next may rely on it.

    Never a database that is open: closing any descriptor of a file drops the locks that SQLite holds on it, fcntl(2).
    """
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def copy_database(source: sqlite3.Connection, path: bytes, owner: os.stat_result) -> None:
    """
    Copy a database while others use it: checked, on the disk, and under its name only when it is whole.

    What others commit meanwhile is not in it: the copy is of one moment, or it would begin anew with each commit.

    Args:
        source: a connection without a transaction.
        path: of the copy; replaced if it exists.
        owner: stat of the file or folder whose owner gets the copy.

    Raises:
        CatalogError: it could not be written, or the copy is not whole.
    """

    def write(partial: bytes, fd: int) -> None:
        with closing(sqlite_errors.connect(partial, "mode=rw")) as target:
            own_files.require_opened(partial, fd)
            target.execute("PRAGMA journal_mode = OFF")  # it is thrown away if it is not finished
            source.backup(target)

    _make_copy(path, owner, write)


def copy_file(source: bytes, path: bytes, owner: os.stat_result, *, is_trusted: bool) -> None:
    """
    Copy a database that nobody uses, such as a backup, as ``copy_database`` does.

    Args:
        source: the database.
        path: of the copy; replaced if it exists.
        owner: stat of the file or folder whose owner gets the copy.
        is_trusted: a person named the source. Else it must be a file of that owner, of the caller or of root.

    Raises:
        CatalogError: it could not be written, or the copy is not whole, or is not the owner's to have.
    """

    def write(_: bytes, fd: int) -> None:
        flags = os.O_RDONLY | os.O_CLOEXEC
        from_fd = os.open(source, flags) if is_trusted else own_files.open_own(source, flags, owner)
        with open(from_fd, "rb") as reader, open(fd, "wb", closefd=False) as writer:
            shutil.copyfileobj(reader, writer, _BYTES_AT_ONCE)

    _make_copy(path, owner, write)


def _make_copy(path: bytes, owner: os.stat_result, write: Callable[[bytes, int], None]) -> None:
    """Give a copy its name when it is whole; ``write`` gets the name that it has before, and its open file."""
    partial = own_files.partial_path(path)
    try:
        with own_files.claim(partial, owner) as fd:
            write(partial, fd)
            os.fsync(fd)
            complaint = sqlite_errors.quick_check(partial, is_alone=True)
            if complaint is not None:
                raise CatalogError(f"{show_path(path)}: the copy is not whole: {complaint}; check both disks")
            os.rename(partial, path)
            sync_file(os.path.dirname(path) or b".")
    except OSError as error:
        raise CatalogError(f"{show_path(path)}: cannot write a copy of the catalog: {error.strerror}") from error
    except sqlite3.Error as error:
        raise CatalogError(f"{show_path(path)}: cannot copy the catalog there: {error}") from error
