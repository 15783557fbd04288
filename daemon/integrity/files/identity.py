"""
Say what a root is recognised by (R5).

The UUID of its file system and the inode of its folder: both outlive reboots, another order of the disks and another
mount point. Where a file system has no UUID its type and source stand in (``nfs4:server:/export``). On btrfs the
subvolume's UUID is part of it, for each subvolume begins with the same inode number and a snapshot repeats them all: a
root whose subvolume was replaced is not itself.
"""

from __future__ import annotations

import os

from integrity.errors import RootSuspended
from integrity.files.mounts import Mount, find_subvolume_uuid, find_uuid, get_mount
from integrity.files.stamps import fold_inode
from integrity.model import RootIdentity


def identify(root_fd: int, path: bytes) -> RootIdentity:
    """
    Find out what an open root is recognised by.

    ``fs_id`` and ``folder_inode`` are to be compared; type and mount point are there to be shown.

    Args:
        root_fd: from ``open_root``. It is what gets identified, not what ``path`` leads to by now.
        path: of the root, for messages.

    Raises:
        RootSuspended: it can't be told: the disk does not answer, or was unmounted.
    """
    try:
        mount = get_mount(root_fd)
        return RootIdentity(
            fs_id=get_fs_id(root_fd, mount),
            folder_inode=fold_inode(os.fstat(root_fd).st_ino),
            fs_type=mount.fs_type,
            mount_point=mount.mount_point,
        )
    except OSError as error:
        raise RootSuspended(
            f"{path.decode('utf-8', 'backslashreplace')}: can't tell which file system this is: {error.strerror}; "
            "check that its disk is mounted and answers"
        ) from error


def get_fs_id(fd: int, mount: Mount) -> str:
    """Name the file system of an open file for good: ``uuid:...`` where it has one, else its type and source."""
    uuid = find_uuid(fd, mount)
    if uuid is None:
        return f"{mount.fs_type}:{mount.source}"
    subvolume = find_subvolume_uuid(fd) if mount.fs_type == "btrfs" else None
    return f"uuid:{uuid}/{subvolume}" if subvolume else f"uuid:{uuid}"
