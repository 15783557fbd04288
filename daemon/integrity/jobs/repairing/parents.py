"""The folders above a file that is gone, where they are gone as well: they are made anew for it."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from typing import NamedTuple

from integrity.files.opening import open_beneath, stat_beneath

_FOLDER = os.O_RDONLY | os.O_DIRECTORY


class NewFolder(NamedTuple):
    """A folder to be made: its path in the root, and its permission bits; None: as of the folder that it lies in."""

    path: bytes
    mode: int | None


def find_gone_folders(root_fd: int, path: bytes) -> list[bytes]:
    """
    List the folders above a path that are not there, the outermost first.

    Raises:
        OSError: something else stands in the place of one, or it can't be looked at.
    """
    gone: list[bytes] = []
    folder = path.rpartition(b"/")[0]
    while folder:
        try:
            there = stat_beneath(root_fd, folder)
        except FileNotFoundError:
            gone.append(folder)
            folder = folder.rpartition(b"/")[0]
            continue
        if not stat.S_ISDIR(there.st_mode):
            raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), folder)
        break
    return gone[::-1]


@contextmanager
def making_folders(root_fd: int, folders: Sequence[NewFolder]) -> Iterator[None]:
    """
    Make folders, and take them away again if what is done in them fails; one that is not empty by then stays.

    Each gets the owner of the folder that it lies in. One that somebody else has made meanwhile is left as it is.

    Raises:
        OSError: one can't be made.
    """
    with ExitStack() as undoing:
        for one in folders:
            if _make(root_fd, one):
                undoing.callback(_take_away, root_fd, one.path)
        yield
        undoing.pop_all()


def _make(root_fd: int, new: NewFolder) -> bool:
    above, _, name = new.path.rpartition(b"/")
    above_fd = open_beneath(root_fd, above, _FOLDER)
    try:
        try:
            os.mkdir(name, 0o700, dir_fd=above_fd)
        except FileExistsError:
            return False
        fd = open_beneath(root_fd, new.path, _FOLDER)
        try:
            _dress(fd, os.fstat(above_fd), new.mode)
            os.fsync(fd)
        finally:
            os.close(fd)
        os.fsync(above_fd)
    finally:
        os.close(above_fd)
    return True


def _dress(fd: int, above: os.stat_result, mode: int | None) -> None:
    mine = os.fstat(fd)
    if (mine.st_uid, mine.st_gid) != (above.st_uid, above.st_gid):
        os.fchown(fd, above.st_uid, above.st_gid)
    inherited = mine.st_mode & stat.S_ISGID  # where files are to belong to the folder's group
    os.fchmod(fd, (above.st_mode if mode is None else mode) & 0o777 | inherited)


def _take_away(root_fd: int, path: bytes) -> None:
    above, _, name = path.rpartition(b"/")
    with suppress(OSError):  # an empty folder is no loss
        above_fd = open_beneath(root_fd, above, _FOLDER)
        try:
            os.rmdir(name, dir_fd=above_fd)
        finally:
            os.close(above_fd)
