"""
Decide whether a missing recorded file is gone or only hidden.

A file is gone if its name leads to nothing or to no regular file. It is hidden if another file system that is no part
of the root is mounted over it. A walk reports such mounts itself; a job that looks up single names below the mount
would find another tree, or nothing.
"""

from __future__ import annotations

import errno
import os
import stat
from typing import TYPE_CHECKING

from integrity.files.mounts import find_mounts_beneath
from integrity.files.open_beneath import GONE, stat_beneath
from integrity.files.stamps import witness_of
from integrity.words.findings import IN_ITS_PLACE

if TYPE_CHECKING:
    from integrity.files.spelling import Spelling
    from integrity.jobs.context import RootRun


_KINDS = {
    stat.S_IFLNK: "a symbolic link",
    stat.S_IFDIR: "a folder",
    stat.S_IFIFO: "a FIFO",
    stat.S_IFSOCK: "a socket",
    stat.S_IFBLK: "a device",
    stat.S_IFCHR: "a device",
}


def is_gone(root_fd: int, path: bytes, *, stay_on_mount: bool) -> bool:
    """
    Return whether no regular file has this name any more; another kind of file is not the recorded one.

    Args:
        root_fd: the open folder of the root.
        path: relative to it.
        stay_on_mount: a mount over the name hides the file and does not replace it.

    Raises:
        OSError: the name can't be read, so nothing is known.
    """
    try:
        if stat.S_ISREG(stat_beneath(root_fd, path).st_mode):
            return False
        return not (stay_on_mount and is_on_other_mount(root_fd, path))
    except OSError as error:
        if error.errno in GONE:
            return True
        raise


def is_respelled(root_fd: int, path: bytes, spelling: Spelling) -> bool:
    """
    Return whether a name that leads to a file is only another spelling of one that the listings show.

    The file system ignores letter case or the form of accents, and the file was renamed by these alone.

    Raises:
        OSError: the names can't be looked at.
    """
    shown = spelling.find(path)
    if shown is None or shown == path:
        return False
    asked, listed = stat_beneath(root_fd, path), stat_beneath(root_fd, shown)
    return os.path.samestat(asked, listed) or witness_of(asked).size_and_mtime == witness_of(listed).size_and_mtime


def may_be_there(root_fd: int, path: bytes) -> bool:
    """Return whether a file may still exist; True if its name can't be read."""
    try:
        return not is_gone(root_fd, path, stay_on_mount=True)
    except OSError:
        return True


def describe_instead(root_fd: int, path: bytes) -> str:
    """Return what replaced a missing file, as the end of a sentence; empty if nothing did."""
    try:
        mode = stat_beneath(root_fd, path).st_mode
    except OSError as error:
        if error.errno in GONE:
            return ""
        return f"; what is in its place can't be looked at: {os.strerror(error.errno or 0)}"
    kind = _KINDS.get(stat.S_IFMT(mode))
    return "" if kind is None else f"; {kind} {IN_ITS_PLACE}"


def is_on_other_mount(root_fd: int, path: bytes) -> bool:
    """
    Return whether a name leads to another mount than the root's.

    Raises:
        OSError: the name can't be read.
    """
    try:
        stat_beneath(root_fd, path, stay_on_mount=True)
    except OSError as error:
        if error.errno != errno.EXDEV:
            raise
        return True
    return False


def find_hidden_mounts(run: RootRun) -> list[bytes]:
    """Return the names in a root hidden by another file system; none if such file systems belong to the root."""
    if run.settings.cross_mounts:
        return []
    return [point for point in sorted(find_mounts_beneath(run.root_fd)) if _is_hidden(run.root_fd, point)]


def _is_hidden(root_fd: int, point: bytes) -> bool:
    try:
        stat_beneath(root_fd, point, stay_on_mount=True)
    except OSError as error:
        return error.errno == errno.EXDEV  # other errors are reported by the jobs that read there
    return False  # mounted over a folder above the root, and not visible inside it
