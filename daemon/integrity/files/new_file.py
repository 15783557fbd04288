"""Write a file that must not replace another one: whole, or not at all."""

from __future__ import annotations

import os
import time
from contextlib import suppress
from typing import BinaryIO

from integrity.files.replace_file import rename_to_free

_WRITING_S = 60
"""No writer needs longer."""


def write_new_file(path: bytes, content: bytes, *, mode: int, folder_mode: int) -> None:
    """
    Write a file under a name that is free, and flush it to the disk. Missing folders are made.

    Args:
        path: of the file; one that is relative begins at the working directory.
        mode: permission bits, whatever the umask.
        folder_mode: those of folders that are made.

    Raises:
        FileExistsError: the name is taken, if only by a dangling link.
        OSError: it can't be written; nothing is left.
    """
    folder, name = os.path.split(os.path.abspath(path))
    made = _make_folders(folder, folder_mode)
    try:
        folder_fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            _write(folder_fd, name, content, mode)
        finally:
            os.close(folder_fd)
    except BaseException:
        for one in reversed(made):
            with suppress(OSError):
                os.rmdir(one)
        raise


def find_obstacle(path: bytes) -> str | None:
    """Return why a file can't be written at a path, as far as that can be told; None if it can."""
    folder = os.path.dirname(os.path.abspath(path))
    while not os.path.lexists(folder):
        folder = os.path.dirname(folder)
    if not os.path.isdir(folder):
        return "a file lies in the way"
    if os.access(folder, os.W_OK | os.X_OK):
        return None
    is_read_only = bool(os.statvfs(folder).f_flag & os.ST_RDONLY)
    return "the file system is mounted read-only" if is_read_only else "you may not write there"


def _make_folders(folder: bytes, mode: int) -> list[bytes]:
    """Make the missing folders of an absolute path; return them, the outermost first."""
    made: list[bytes] = []
    missing = []
    while not os.path.isdir(folder):
        missing.append(folder)
        folder = os.path.dirname(folder)
    for one in reversed(missing):
        os.mkdir(one, mode)
        made.append(one)
        os.chmod(one, mode)
    return made


def _write(folder_fd: int, name: bytes, content: bytes, mode: int) -> None:
    """Write a file without a name, and name it in the end: a killed writer leaves nothing."""
    try:
        fd = os.open(b".", os.O_WRONLY | os.O_TMPFILE | os.O_CLOEXEC, 0o600, dir_fd=folder_fd)
    except OSError:  # FUSE and some network file systems have none; the other way finds out if it was something else
        _write_named(folder_fd, name, content, mode)
        return
    with open(fd, "wb") as file:
        _fill(file, content, mode)
        try:
            os.link(b"/proc/self/fd/%d" % fd, name, dst_dir_fd=folder_fd)
        except FileExistsError:
            raise
        except OSError:
            _write_named(folder_fd, name, content, mode)
            return
    os.fsync(folder_fd)


def _write_named(folder_fd: int, name: bytes, content: bytes, mode: int) -> None:
    partial = make_partial_name(folder_fd, name)
    try:
        fd = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600, dir_fd=folder_fd)
        with open(fd, "wb") as file:
            _fill(file, content, mode)
        rename_to_free(folder_fd, partial, name, has_flags=True)
        os.fsync(folder_fd)
    finally:
        with suppress(FileNotFoundError):
            os.unlink(partial, dir_fd=folder_fd)


def _fill(file: BinaryIO, content: bytes, mode: int) -> None:
    file.write(content)
    os.fchmod(file.fileno(), mode)
    file.flush()
    os.fsync(file.fileno())


def make_partial_name(folder_fd: int, name: bytes) -> bytes:
    """Return a free name beside a file, for its content until that is complete; remove what killed writers left."""
    prefix = b"." + name + b".new-"
    for left in map(os.fsencode, os.listdir(folder_fd)):
        if left.startswith(prefix):
            with suppress(OSError):
                if os.stat(left, dir_fd=folder_fd).st_mtime < time.time() - _WRITING_S:
                    os.unlink(left, dir_fd=folder_fd)
    return prefix + os.urandom(4).hex().encode()
