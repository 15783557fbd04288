"""
What stands under the name of a recorded file that is not there: nothing, or something that is no regular file.

Where something is mounted inside a root that is no part of it: what is recorded there is out of sight, and not gone.

A walk meets such a mount and says so. Who looks at names alone, below it, would find another tree, or nothing.
"""

from __future__ import annotations

import errno
import os
import stat
from typing import TYPE_CHECKING

from integrity.files.mounts import find_mounts_beneath
from integrity.files.open_beneath import stat_beneath

if TYPE_CHECKING:
    from integrity.jobs.context import RootRun


_GONE = frozenset({errno.ENOENT, errno.ENOTDIR, errno.ELOOP})
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
    Say whether no regular file has this name any more: what took its place is not what was recorded.

    Args:
        root_fd: the open folder of the root.
        path: relative to it.
        stay_on_mount: what is mounted over the name hides it, and does not take its place.

    Raises:
        OSError: it can't be looked at, so it is not known.
    """
    try:
        if stat.S_ISREG(stat_beneath(root_fd, path).st_mode):
            return False
        return not (stay_on_mount and _is_on_other_mount(root_fd, path))
    except OSError as error:
        if error.errno in _GONE:
            return True
        raise


def may_be_there(root_fd: int, path: bytes) -> bool:
    """Say whether a file may still be there: one that can't be looked at is not known to be gone."""
    try:
        return not is_gone(root_fd, path, stay_on_mount=True)
    except OSError:
        return True


def describe_instead(root_fd: int, path: bytes) -> str:
    """Say, for the end of a sentence, what stands in the place of a file that is gone; empty if nothing does."""
    try:
        mode = stat_beneath(root_fd, path).st_mode
    except OSError as error:
        if error.errno in _GONE:
            return ""
        return f"; what is in its place can't be looked at: {os.strerror(error.errno or 0)}"
    kind = _KINDS.get(stat.S_IFMT(mode))
    return "" if kind is None else f"; {kind} stands in its place"


def _is_on_other_mount(root_fd: int, path: bytes) -> bool:
    try:
        stat_beneath(root_fd, path, stay_on_mount=True)
    except OSError as error:
        if error.errno != errno.EXDEV:
            raise
        return True
    return False


def find_overmounts(run: RootRun) -> list[bytes]:
    """List the names in a root that another file system hides now; none where these belong to the root."""
    if run.settings.cross_mounts:
        return []
    return [point for point in sorted(find_mounts_beneath(run.root_fd)) if _is_barred(run.root_fd, point)]


def _is_barred(root_fd: int, point: bytes) -> bool:
    try:
        stat_beneath(root_fd, point, stay_on_mount=True)
    except OSError as error:
        return error.errno == errno.EXDEV  # any other is for those to tell who look at what lies there
    return False  # mounted over something above the root, and not to be seen from in here
