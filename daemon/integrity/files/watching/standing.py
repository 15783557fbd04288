"""Say what stands at a root's path right now, without touching its disk."""

from __future__ import annotations

import errno
import os
from collections.abc import Sequence
from typing import NamedTuple

from integrity.files.mounts import Mount, get_mount_id


class Standing(NamedTuple):
    """The folder that a path leads to. It is compared within one life of a watch only, and never stored."""

    device: int
    inode: int
    mount_id: int
    mount_point: bytes
    beneath: frozenset[tuple[int, bytes]]  # id and place, relative to the root, of each mount below it

    def is_same_folder(self, other: Standing) -> bool:
        """Tell whether both are one folder, seen through one mount."""
        return self._replace(beneath=other.beneath) == other

    def is_at(self, fd: int) -> bool:
        """Tell whether an open folder is this one."""
        status = os.fstat(fd)
        return (status.st_dev, status.st_ino) == (self.device, self.inode)


def look(path: bytes, mounts: Sequence[Mount]) -> Standing:
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
    return Standing(status.st_dev, status.st_ino, mount_id, point, beneath)
