"""
What a watcher is given, and what it tells.

Say what stands at a root's path right now, without touching its disk.
"""

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

    OVERFLOW = "overflow"  # events were lost: more came than the kernel keeps, or nobody read them any more
    WATCH_LIMIT = "watch_limit"  # some folders have no watch: the user has no more
    INSTANCE_LIMIT = "instance_limit"  # the root has none at all: the user has no more queues of events
    UNREADABLE = "unreadable"  # a folder can't be opened or listed, so what lies below it is not watched
    UNMOUNTED = "unmounted"  # what was watched was unmounted
    ROOT_GONE = "root_gone"  # the root's folder was removed, renamed or replaced, or was never there
    REMOTE = "remote"  # others may write past this machine's kernel: nothing can be seen, which is no fault


class Blindness(NamedTuple):
    """What is not seen, and why."""

    reason: BlindReason
    path: bytes  # relative to the root; empty for the root itself
    message: str  # what, where, what to do next


class WatchSink(Protocol):
    """
    Take what a watcher tells.

    Called from the watcher's threads, and from those that call ``watch`` and ``tend``, by several at a time. It returns
    at once, raises nothing, and may ask for ``blindness`` but not call ``watch``, ``tend`` or ``close``.
    """

    def touched(self, root: bytes, path: bytes) -> None:
        """
        Take a hint that something happened to a name, and look there.

        What lies below a folder may be new, too, for a folder can be filled before it has a watch. A path may be
        outdated: that of a folder that was moved away goes on being told until the next ``tend``.

        Args:
            root: its absolute path.
            path: of a file or a folder that was created, written and closed, deleted or moved; relative to the root,
                empty for the root itself. Excluded names are not told.
        """

    def went_blind(self, root: bytes, blindness: Blindness) -> None:
        """
        Take the news that changes were or may have been missed, so that the whole root has to be scanned.

        Told once when it happens, and once more when the root is watched again: what a scan that starts then does not
        see, is told. ``Watcher.blindness`` says what holds by now.
        """


class WatchedRoot(NamedTuple):
    """A root that is to be watched."""

    path: bytes  # absolute, real
    excludes: Excludes
    is_remote: bool  # from its file system's capability
    cross_mounts: bool = False  # whether other file systems mounted below belong to it


class WatchCoverage(NamedTuple):
    """The folder that a path leads to. It is compared within one life of a watch only, and never stored."""

    device: int
    inode: int
    mount_id: int
    mount_point: bytes
    beneath: frozenset[tuple[int, bytes]]  # id and place, relative to the root, of each mount below it

    def is_same_folder(self, other: WatchCoverage) -> bool:
        """Tell whether both are one folder, seen through one mount."""
        return self._replace(beneath=other.beneath) == other

    def is_at(self, fd: int) -> bool:
        """Tell whether an open folder is this one."""
        status = os.fstat(fd)
        return (status.st_dev, status.st_ino) == (self.device, self.inode)


def look(path: bytes, mounts: Sequence[Mount]) -> WatchCoverage:
    """
    Look at what a path leads to.

    The descriptor is closed at once: an open one would keep the root from being unmounted, and would keep the kernel
    from telling that its folder was removed.

    Raises:
        OSError: there is no folder, or it can't be looked at.
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
