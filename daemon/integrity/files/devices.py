"""
Say which disks a root lies on, and where on them a file begins.

Rotational disks are read by one thread and in disk order (R4); two roots on one disk share its pace. So devices are
told by the physical disks behind them: behind partitions, LVM, RAID, loop devices, and the several disks of a btrfs.
"""

from __future__ import annotations

import errno
import fcntl
import os
import struct
from collections.abc import Iterator
from dataclasses import dataclass, field

from integrity.files.identity import get_fs_id
from integrity.files.mounts import Mount, find_uuid, get_block_device, get_mount

_SYS_BLOCK = "/sys/dev/block"

# linux/fiemap.h
_FS_IOC_FIEMAP = 0xC020660B
_HEAD = struct.Struct("=QQLLLL")  # start, length, flags, mapped extents, extent count, reserved
_EXTENT_BYTES = 56
_NOWHERE = 0x2 | 0x4 | 0x200  # FIEMAP_EXTENT_UNKNOWN, _DELALLOC, _DATA_INLINE
_NO_FIEMAP = frozenset({errno.EOPNOTSUPP, errno.ENOTTY, errno.EINVAL, errno.ENOSYS, errno.EPERM})

# A question about one extent, and room for the answer.
_QUESTION = _HEAD.pack(0, 0xFFFF_FFFF_FFFF_FFFF, 0, 0, 1, 0) + bytes(_EXTENT_BYTES)


@dataclass(frozen=True, slots=True)
class Device:
    """What a root lies on."""

    is_rotational: bool  # any of its disks; virtual disks often claim to be
    name: str  # for people: "sda", "sda+sdb", or the source of the mount
    key: str  # the same for all roots on the same disks
    layers: tuple[str, ...] = field(default=(), compare=False)  # names in sysfs: of its file system, and of all below


def find_device(root_fd: int) -> Device:
    """
    Find out which disks an open root lies on.

    What lies on no disk that this machine knows (a server, a pool, memory) is a device of its own, not rotational.

    Raises:
        OSError: the root can't be looked at.
    """
    mount = get_mount(root_fd)
    nodes = set(_find_nodes(root_fd, mount))
    disks = set().union(*(_find_disks(node) for node in nodes))
    if not disks:
        return Device(False, mount.source, f"fs:{get_fs_id(root_fd, mount)}")
    name = "+".join(sorted(os.path.basename(disk) for disk in disks))
    layers = tuple(sorted({os.path.basename(node) for node in nodes | disks}))
    return Device(any(_is_rotational(disk) for disk in disks), name, f"disk:{name}", layers)


def physical_position(fd: int) -> int | None:
    """
    Say where on its device a file's first extent begins, in bytes.

    On btrfs the address is a logical one: good for an order, not for reading the device.

    Returns:
        None where the file system does not tell, or the file has no bytes of its own on the device (yet).
    """
    buffer = bytearray(_QUESTION)
    try:
        fcntl.ioctl(fd, _FS_IOC_FIEMAP, buffer)
    except OSError as error:
        if error.errno in _NO_FIEMAP:
            return None
        raise
    if not _HEAD.unpack_from(buffer)[3]:
        return None
    _, physical, _, _, _, flags = struct.unpack_from("=QQQQQL", buffer, _HEAD.size)
    return None if flags & _NOWHERE else int(physical)


def _find_nodes(root_fd: int, mount: Mount) -> Iterator[str]:
    """Yield the folders in sysfs of the block devices that a file system lies on."""
    if mount.fs_type == "btrfs":
        folder = f"/sys/fs/btrfs/{find_uuid(root_fd, mount)}/devices"
        if os.path.isdir(folder):
            yield from (os.path.realpath(os.path.join(folder, name)) for name in os.listdir(folder))
            return
    for device in (os.fstat(root_fd).st_dev, mount.device, get_block_device(mount)):
        node = None if device is None else _get_node(device)
        if node is not None:
            yield node
            return


def _get_node(device: int) -> str | None:
    node = f"{_SYS_BLOCK}/{os.major(device)}:{os.minor(device)}"
    return os.path.realpath(node) if os.path.isdir(node) else None


def _find_disks(node: str) -> set[str]:
    """Find the physical disks behind a block device in sysfs."""
    if os.path.exists(f"{node}/partition"):
        return _find_disks(os.path.dirname(node))
    below = [os.path.realpath(f"{node}/slaves/{name}") for name in _list(f"{node}/slaves")]
    backing = _read(f"{node}/loop/backing_file")
    if backing is not None:
        try:
            lower = _get_node(os.stat(backing).st_dev)
        except (FileNotFoundError, NotADirectoryError, PermissionError):
            lower = None  # deleted, or outside of our view: the loop device stands for itself
        below += [] if lower is None else [lower]
    if not below:
        return {node}
    return set().union(*(_find_disks(lower) for lower in below))


def _is_rotational(node: str) -> bool:
    return _read(f"{node}/queue/rotational") == "1"


def _list(folder: str) -> list[str]:
    try:
        return os.listdir(folder)
    except FileNotFoundError:
        return []


def _read(path: str) -> str | None:
    try:
        with open(path, encoding="utf-8", errors="surrogateescape") as file:
            return file.read().strip()
    except FileNotFoundError:
        return None
