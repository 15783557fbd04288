"""
Whole files of the catalog: made, copied and named so that they survive a power cut and belong to the right person.

Every file that the catalog makes belongs to whoever owns the catalog (or its folder), also when root made it (R9), and
is readable by nobody else: it names every file of its owner.
"""

from __future__ import annotations

import errno
import logging
import os
import re
import sqlite3
import time
from contextlib import closing

from integrity.catalog import failure
from integrity.errors import CatalogError, show_path

logger = logging.getLogger(__name__)

_PAGES_AT_ONCE = 1000  # between two steps of a backup, writers get their turn
_PARTIAL = b".partial"
_NO_OWNERS = frozenset({errno.EPERM, errno.EOPNOTSUPP, errno.ENOSYS})  # vfat, exFAT and some FUSE say these


def make_folder(folder: bytes) -> None:
    """Make the catalog's folder, 0700; as root for the owner of what lies above it."""
    if os.path.isdir(folder):
        return
    above = os.path.dirname(folder) or b"."
    make_folder(above)
    owner = os.stat(above)
    try:
        os.mkdir(folder, 0o700)
    except FileExistsError:
        return
    if os.geteuid() == 0 and (owner.st_uid, owner.st_gid) != (0, 0):
        os.chown(folder, owner.st_uid, owner.st_gid)


def make_private_file(path: bytes, owner: os.stat_result) -> None:
    """Make an empty file, 0600, in place of a left-over one; as root for ``owner``."""
    if os.path.lexists(path):
        os.unlink(path)
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    try:
        if os.geteuid() == 0 and (owner.st_uid, owner.st_gid) != (0, 0):
            os.fchown(fd, owner.st_uid, owner.st_gid)
    except OSError as error:
        if error.errno not in _NO_OWNERS:
            raise
        logger.warning("catalog_copy_without_owner path=%s: its file system knows no owners", show_path(path))
    finally:
        os.close(fd)


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

    Args:
        source: a connection without a transaction.
        path: of the copy; replaced if it exists.
        owner: stat of the file or folder whose owner gets the copy.

    Raises:
        CatalogError: it could not be written, or the copy is not whole.
    """
    partial = path + _PARTIAL
    try:
        make_private_file(partial, owner)
        with closing(failure.connect(partial, "mode=rw")) as target:
            source.backup(target, pages=_PAGES_AT_ONCE)
        sync_file(partial)
        complaint = failure.quick_check(partial, is_alone=True)
        if complaint is not None:
            raise CatalogError(f"{show_path(path)}: the copy is not whole: {complaint}; check both disks")
        os.rename(partial, path)
        sync_file(os.path.dirname(path) or b".")
    except OSError as error:
        raise CatalogError(f"{show_path(path)}: cannot write a copy of the catalog: {error.strerror}") from error
    except sqlite3.Error as error:
        raise CatalogError(f"{show_path(path)}: cannot copy the catalog there: {error}") from error
    finally:
        if os.path.lexists(partial):
            os.unlink(partial)


def time_stamp(now: int) -> bytes:
    """Write a time so that names sort by it."""
    return time.strftime("%Y%m%dT%H%M%SZ", time.gmtime(now)).encode()


def backup_name(path: bytes, now: int) -> bytes:
    """Name a backup of the catalog ``path`` taken ``now``."""
    stem, suffix = os.path.splitext(os.path.basename(path))
    return stem + b"-" + time_stamp(now) + suffix


def own_names(path: bytes) -> re.Pattern[bytes]:
    """Match the names of all files that stand beside the catalog ``path`` because of it: log, locks, backups, ..."""
    stem, suffix = (re.escape(part) for part in os.path.splitext(os.path.basename(path)))
    tail = rb"(-wal|-shm|-journal|\.root-\d+\.lock|\.control|\.restoring|\.damaged-.*|\.partial)*"
    return re.compile(stem + rb"(-\d{8}T\d{6}Z)?" + suffix + tail)


def find_backups(path: bytes, folder: bytes = b"") -> list[bytes]:
    """
    List the backups of a catalog, oldest first.

    Args:
        path: of the catalog.
        folder: where they are; beside the catalog when empty.
    """
    stem, suffix = os.path.splitext(os.path.basename(path))
    pattern = re.compile(re.escape(stem) + rb"-\d{8}T\d{6}Z" + re.escape(suffix))
    folder = folder or os.path.dirname(path) or b"."
    if not os.path.isdir(folder):
        return []
    return [os.path.join(folder, name) for name in sorted(os.listdir(folder)) if pattern.fullmatch(name)]
