"""
Detect that a file system was unmounted, or lost its disk, since the last check.

A file system crash can leave new content under old times, even without a machine crash: an external disk can lose
power, or crash in another machine. Nothing shows afterwards whether a journal was replayed. What is visible, without
rights and from every mount namespace, is that the mount is a different one.

    mount        Inode number of the sysfs folder that the driver creates per mounted file system; not reused within a
                 boot. Mount ids do not work: a service with its own mount namespace gets new ones at each start.
                 Drivers without such a folder (jfs, reiserfs) use the block device's number, which changes when the
                 disk is reconnected.
    mount_count  ext2, ext3 and ext4 count read-write mounts in the superblock: reveals mounts in another machine or in
                 a boot without this program. Readable by anybody since Linux 6.18, before only with read access to the
                 device.
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
"""Drivers that name a file system's sysfs folder after its block device."""
_SYSFS_NAMES_BY_UUID = frozenset({"btrfs", "bcachefs"})

_EXT4_IOC_GET_TUNE_SB_PARAM = 0x80E8662D  # linux/ext4.h: struct ext4_tune_sb_params; Linux 6.18
_TUNE_BYTES = 232
_TUNE_MOUNT_COUNT_AT = 10

# fs/ext4/ext4.h: struct ext4_super_block
_SUPERBLOCK_AT, _SUPERBLOCK_BYTES = 1024, 1024
_MOUNT_COUNT_AT, _MAGIC_AT = 0x34, 0x38
_MAGIC = 0xEF53


class MountState(NamedTuple):
    """Identifies one mount of a file system; see the module."""

    mount: str  # sysfs folder and its number; empty if unknown
    mount_count: int | None = None


def find_mount_state(fd: int, mount: Mount) -> MountState:
    """
    Return which mount of its file system an open file lies on.

    Args:
        fd: anything on it.
        mount: the mount that ``fd`` lies on.

    Raises:
        OSError: the file system does not answer.
    """
    folder = _find_folder(fd, mount)
    number = None if folder is None else _get_number(folder)
    count = _find_mount_count(fd, mount) if mount.fs_type in EXT_TYPES else None
    return MountState("" if number is None else f"{folder} {number}", count)


def is_still_mounted(mount: str) -> bool:
    """Return whether a mount found by ``find_mount_state`` in this boot still exists; True if it is unknown."""
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
    """Return a number that changes when a sysfs folder is recreated or the medium of its device changes."""
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
        if error.errno not in (errno.ENOTTY, errno.EOPNOTSUPP, errno.EPERM, errno.ENOSYS):  # the last: emulators
            raise
        return _read_mount_count(mount)
    return int(struct.unpack_from("=H", buffer, _TUNE_MOUNT_COUNT_AT)[0])


def _read_mount_count(mount: Mount) -> int | None:
    """Read the superblock through the block device; while mounted, the page cache holds its current state."""
    if get_block_device(mount) != mount.device:
        return None
    try:
        with open(mount.source, "rb", buffering=0) as device:
            block = os.pread(device.fileno(), _SUPERBLOCK_BYTES, _SUPERBLOCK_AT)
    except OSError:
        return None  # forbidden, or no device node here: only ``mount`` can be compared
    if len(block) < _SUPERBLOCK_BYTES or struct.unpack_from("<H", block, _MAGIC_AT)[0] != _MAGIC:
        return None
    return int(struct.unpack_from("<H", block, _MOUNT_COUNT_AT)[0])
