"""
Say which mount of a file system this is: whether it was unmounted, or lost its disk, since it was last looked at.

A crash of a file system can leave new content under old times, and not only when the machine crashes: a disk on a
cable loses power by itself, or crashes in another machine. Nothing shows afterwards whether a journal had to be
replayed. What can be seen, without rights and from every mount namespace, is that a mount is another one than before.

    mount        The folder that the driver makes in sysfs for each mounted file system has an inode number of its own,
                 which is not given twice in a boot. Mount ids will not do: a service with a mount namespace of its own
                 gets other ones at each start. Drivers without such a folder (jfs, reiserfs) have the number of the
                 block device instead, which is another one when the disk was reconnected.
    mount_count  ext2, ext3 and ext4 count in the superblock how often they were mounted for writing: shows mounts that
                 nobody here has seen, in another machine or in a boot without this program. Linux 6.18 tells everybody,
                 before it takes the right to read the block device.
"""

from __future__ import annotations

import errno
import fcntl
import os
import struct
from typing import NamedTuple

from integrity.files.block_devices import find_nodes, read_attribute
from integrity.files.mounts import EXT_TYPES, Mount, find_uuid, get_block_device

_SYS_FS = "/sys/fs"
_SYSFS_NAMES = dict.fromkeys(EXT_TYPES, "ext4") | {name: name for name in ("xfs", "f2fs", "nilfs2")}
"""Drivers that name a file system's folder after its block device."""
_SYSFS_NAMES_BY_UUID = frozenset({"btrfs", "bcachefs"})

_EXT4_IOC_GET_TUNE_SB_PARAM = 0x80E8662D  # linux/ext4.h: struct ext4_tune_sb_params; Linux 6.18
_TUNE_BYTES = 232
_TUNE_MOUNT_COUNT_AT = 10

# fs/ext4/ext4.h: struct ext4_super_block
_SUPERBLOCK_AT, _SUPERBLOCK_BYTES = 1024, 1024
_MOUNT_COUNT_AT, _MAGIC_AT = 0x34, 0x38
_MAGIC = 0xEF53


class MountState(NamedTuple):
    """What tells one mount of a file system from another; see the module."""

    mount: str  # folder in sysfs and its number; empty if it can't be told
    mount_count: int | None = None


def find_mount_state(fd: int, mount: Mount) -> MountState:
    """
    Find out which mount of its file system an open file lies on.

    Args:
        fd: anything on it.
        mount: where ``fd`` lies.

    Raises:
        OSError: the file system does not answer.
    """
    folder = _find_folder(fd, mount)
    number = None if folder is None else _get_number(folder)
    count = _find_mount_count(fd, mount) if mount.fs_type in EXT_TYPES else None
    return MountState("" if number is None else f"{folder} {number}", count)


def is_still_mounted(mount: str) -> bool:
    """Say whether a mount that ``find_mount_state`` found in this boot is still there; one that is not known is."""
    folder, _, number = mount.rpartition(" ")
    return not mount or _get_number(folder) == number


def _find_folder(fd: int, mount: Mount) -> str | None:
    if mount.fs_type in _SYSFS_NAMES_BY_UUID:
        return f"{_SYS_FS}/{mount.fs_type}/{find_uuid(fd, mount)}"
    node = next(find_nodes(fd, mount), None)
    if node is None or mount.fs_type not in _SYSFS_NAMES:
        return node
    return f"{_SYS_FS}/{_SYSFS_NAMES[mount.fs_type]}/{os.path.basename(node)}"


def _get_number(folder: str) -> str | None:
    """Return what changes when a folder of sysfs is made anew, or the medium of its device changes."""
    try:
        number = os.stat(folder).st_ino
    except (FileNotFoundError, NotADirectoryError):
        return None
    sequence = read_attribute(f"{folder}/diskseq") or read_attribute(f"{folder}/../diskseq")
    return f"{number}.{sequence}" if sequence else str(number)


def _find_mount_count(fd: int, mount: Mount) -> int | None:
    buffer = bytearray(_TUNE_BYTES)
    try:
        fcntl.ioctl(fd, _EXT4_IOC_GET_TUNE_SB_PARAM, buffer)
    except OSError as error:
        if error.errno not in (errno.ENOTTY, errno.EOPNOTSUPP, errno.EPERM):
            raise
        return _read_mount_count(mount)
    return int(struct.unpack_from("=H", buffer, _TUNE_MOUNT_COUNT_AT)[0])


def _read_mount_count(mount: Mount) -> int | None:
    """Read the superblock through the block device: of a mounted file system it comes from memory, as it is now."""
    if get_block_device(mount) != mount.device:
        return None
    try:
        with open(mount.source, "rb", buffering=0) as device:
            block = os.pread(device.fileno(), _SUPERBLOCK_BYTES, _SUPERBLOCK_AT)
    except OSError:
        return None  # no right to read it, or no such node here: the other signs remain
    if len(block) < _SUPERBLOCK_BYTES or struct.unpack_from("<H", block, _MAGIC_AT)[0] != _MAGIC:
        return None
    return int(struct.unpack_from("<H", block, _MOUNT_COUNT_AT)[0])
