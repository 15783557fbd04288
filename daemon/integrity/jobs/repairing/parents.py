"""The folders above a file that is gone, where they are gone as well: they are made anew for it."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from typing import NamedTuple

from integrity.files.new_folder import make_folder_at
from integrity.files.open_beneath import open_beneath, stat_beneath

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
        return make_folder_at(above_fd, name, mode=new.mode)
    finally:
        os.close(above_fd)


def _take_away(root_fd: int, path: bytes) -> None:
    above, _, name = path.rpartition(b"/")
    with suppress(OSError):  # an empty folder is no loss
        above_fd = open_beneath(root_fd, above, _FOLDER)
        try:
            os.rmdir(name, dir_fd=above_fd)
        finally:
            os.close(above_fd)
