"""
Say what a root is recognised by (R5).

The UUID of its file system and the inode of its folder: both outlive reboots, another order of the disks and another
mount point. On btrfs the subvolume's UUID is part of it, for each subvolume begins with the same inode number and a
snapshot repeats them all: a root whose subvolume was replaced is not itself.

One file system can have several names, and not every process sees all of them: where the kernel does not tell the UUID,
it takes udev. From the surest to the weakest:

    uuid:...      the UUID
    fsid:...      what ext2, ext3 and ext4 make of their UUID for statfs(2): proves a recorded UUID, and needs no udev
    TYPE:SOURCE   what was mounted (``nfs4:server:/export``)
"""

from __future__ import annotations

import os
import uuid
from collections.abc import Sequence

from integrity.errors import RootSuspended
from integrity.files.mounts import EXT_TYPES, Mount, find_subvolume_uuid, find_uuid, get_mount
from integrity.files.stamps import fold_inode
from integrity.model import RootIdentity

_UUID, _FSID = "uuid:", "fsid:"


def identify(root_fd: int, path: bytes) -> RootIdentity:
    """
    Find out what an open root is recognised by.

    ``names`` and ``folder_inode`` are to be compared; type and mount point are there to be shown.

    Args:
        root_fd: from ``open_root``. It is what gets identified, not what ``path`` leads to by now.
        path: of the root, for messages.

    Raises:
        RootSuspended: it can't be told: the disk does not answer, or was unmounted.
    """
    try:
        mount = get_mount(root_fd)
        names = find_fs_names(root_fd, mount)
        return RootIdentity(
            fs_id=names[0],
            folder_inode=fold_inode(os.fstat(root_fd).st_ino),
            fs_type=mount.fs_type,
            mount_point=mount.mount_point,
            names=names,
        )
    except OSError as error:
        raise RootSuspended(
            f"{path.decode('utf-8', 'backslashreplace')}: can't tell which file system this is: {error.strerror}; "
            "check that its disk is mounted and answers"
        ) from error


def get_fs_id(fd: int, mount: Mount) -> str:
    """Return the surest name of the file system of an open file."""
    return find_fs_names(fd, mount)[0]


def find_fs_names(fd: int, mount: Mount) -> tuple[str, ...]:
    """Return all names of the file system of an open file that can be seen now, the surest first; see the module."""
    names = [f"{mount.fs_type}:{mount.source}"]
    if mount.fs_type in EXT_TYPES:
        fsid = os.fstatvfs(fd).f_fsid
        if fsid:  # zero: the file system has no UUID
            names.insert(0, f"{_FSID}{fsid:016x}")
    value = find_uuid(fd, mount)
    if value is not None:
        subvolume = find_subvolume_uuid(fd) if mount.fs_type == "btrfs" else None
        names.insert(0, f"{_UUID}{value}/{subvolume}" if subvolume else f"{_UUID}{value}")
    return tuple(names)


def recognise(recorded: str, names: Sequence[str]) -> str | None:
    """
    Decide whether a file system is the recorded one.

    Args:
        recorded: the name that it had when it was recorded.
        names: from ``find_fs_names``.

    Returns:
        The surest name known of it, to be recorded from now on; None if it is another file system, or can't be proved
        to be the same.
    """
    if recorded in names:
        return names[0]
    return recorded if _make_fsid(recorded) in names else None


def spell_folder(names: Sequence[str], inode: int) -> str:
    """Write down in one text what a folder is recognised by: its file system and its inode."""
    return f"{names[0]} {inode}"


def get_fs_name(folder: str) -> str:
    """Return the name of the file system from what ``spell_folder`` wrote down."""
    return folder.rpartition(" ")[0]


def recognise_folder(recorded: str, names: Sequence[str], inode: int) -> str | None:
    """Decide as ``recognise`` whether a folder is the one that was written down by ``spell_folder``."""
    name, _, folder = recorded.rpartition(" ")
    surest = recognise(name, names) if folder == str(inode) else None
    return None if surest is None else f"{surest} {folder}"


def explain_unrecognised(recorded: str, names: Sequence[str]) -> str:
    """Say what stands against a file system that was not recognised: another one, or one that can't be proved."""
    if recorded.startswith(_UUID) and not names[0].startswith(_UUID):
        return (
            f"which file system is there can't be proved: its UUID can't be seen now ({names[0]}, recorded was"
            f" {recorded}): run this where /run/udev or /dev/disk/by-uuid can be seen"
        )
    found = f"another file system is there ({names[0]}, recorded was {recorded})"
    return f"{found}: the disk is not mounted, or another one is"


def _make_fsid(name: str) -> str | None:
    """Compute from a UUID what ext4 answers to statfs(2): both halves, low byte first, combined by XOR."""
    if not name.startswith(_UUID):
        return None
    try:
        value = uuid.UUID(name.removeprefix(_UUID)).bytes
    except ValueError:
        return None  # of FAT or NTFS, or with a subvolume
    return f"{_FSID}{int.from_bytes(value[:8], 'little') ^ int.from_bytes(value[8:], 'little'):016x}"
