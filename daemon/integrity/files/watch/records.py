"""The input and output of a watcher, and a check of what a root's path leads to, without touching its disk."""

from __future__ import annotations

import errno
import os
from collections.abc import Sequence
from enum import StrEnum
from typing import NamedTuple, Protocol

from integrity.files.excludes import Excludes
from integrity.files.mounts import Mount, get_mount_id


class BlindReason(StrEnum):
    """Why changes are not seen."""

    OVERFLOW = "overflow"  # events were lost: the kernel's queue overflowed, or its reader stopped
    WATCH_LIMIT = "watch_limit"  # some folders have no watch: the user's limit is reached
    INSTANCE_LIMIT = "instance_limit"  # the root has no watch: the user's limit of event queues is reached
    UNREADABLE = "unreadable"  # a folder cannot be opened or listed, so nothing below it is watched
    UNMOUNTED = "unmounted"  # the watched file system was unmounted
    ROOT_GONE = "root_gone"  # the root's folder was removed, renamed or replaced, or never existed
    REMOTE = "remote"  # others can write without this machine's kernel: changes are invisible, which is no fault


class Blindness(NamedTuple):
    """What is not seen, and why."""

    reason: BlindReason
    path: bytes  # relative to the root; empty for the root itself
    message: str  # what happened, where, and the remedy


class WatchSink(Protocol):
    """
    Receive a watcher's reports.

    Called concurrently from the watcher's threads and from those that call ``watch`` and ``tend``. Implementations
    return at once, raise nothing, and may call ``blindness`` but not ``watch``, ``tend`` or ``close``.
    """

    def touched(self, root: bytes, path: bytes) -> None:
        """
        Receive a hint that a name changed and must be checked.

        Everything below a folder may be new, too: it may have been filled before it was watched. A path may be
        outdated: a folder that was moved away is reported under its old path until the next ``tend``.

        Args:
            root: its absolute path.
            path: of a file or folder that was created, written and closed, deleted or moved; relative to the root,
                empty for the root itself. Excluded names are not reported.
        """

    def went_blind(self, root: bytes, blindness: Blindness) -> None:
        """
        Receive a report that changes were or may have been missed, so that the whole root must be scanned.

        Called once when it happens, and again when the root is watched again: every change that a scan started then
        misses is reported by ``touched``. ``Watcher.blindness`` returns the current state.
        """


class WatchedRoot(NamedTuple):
    """A root to watch."""

    path: bytes  # absolute, real
    excludes: Excludes
    is_remote: bool  # from its file system's capability
    cross_mounts: bool = False  # whether file systems mounted below belong to it


class WatchCoverage(NamedTuple):
    """The folder that a path leads to. Compared only within the lifetime of a watch, and never stored."""

    device: int
    inode: int
    mount_id: int
    mount_point: bytes
    beneath: frozenset[tuple[int, bytes]]  # id and path, relative to the root, of each mount below it

    def is_same_folder(self, other: WatchCoverage) -> bool:
        """Return whether both are the same folder, seen through the same mount."""
        return self._replace(beneath=other.beneath) == other

    def is_at(self, fd: int) -> bool:
        """Return whether an open folder is this one."""
        status = os.fstat(fd)
        return (status.st_dev, status.st_ino) == (self.device, self.inode)


def look(path: bytes, mounts: Sequence[Mount]) -> WatchCoverage:
    """
    Return the folder that a path leads to.

    Closes the descriptor at once: an open one would prevent an unmount of the root, and hide the removal of its folder.

    Raises:
        OSError: there is no folder, or it cannot be queried.
    """
    fd = os.open(path, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        status = os.fstat(fd)
        mount_id = get_mount_id(fd)
    finally:
        os.close(fd)
    point = next((mount.mount_point for mount in mounts if mount.mount_id == mount_id), None)
    if point is None:
        raise FileNotFoundError(errno.ENOENT, "its mount went away in this moment", path)
    top = path.rstrip(b"/") + b"/"
    beneath = frozenset(
        (mount.mount_id, mount.mount_point[len(top) :]) for mount in mounts if mount.mount_point.startswith(top)
    )
    return WatchCoverage(status.st_dev, status.st_ino, mount_id, point, beneath)
