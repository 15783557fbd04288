"""
Say which disks a root lies on, and where on them a file begins.

Rotational disks are read by one thread and in disk order (R4); two roots on one disk share its pace. So devices are
told by the physical disks behind them: behind partitions, LVM, RAID, loop devices, and the several disks of a btrfs.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from dataclasses import dataclass, field

from integrity.files.extents import read_extents
from integrity.files.identity import get_fs_id
from integrity.files.mounts import Mount, find_uuid, get_block_device, get_mount

_SYS_BLOCK = "/sys/dev/block"

_NO_FIEMAP = frozenset({errno.EOPNOTSUPP, errno.ENOTTY, errno.EINVAL, errno.ENOSYS, errno.EPERM})


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
    nodes = set(find_nodes(root_fd, mount))
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
    try:
        extents = read_extents(fd, 0, 1)
    except OSError as error:
        if error.errno in _NO_FIEMAP:
            return None
        raise
    return extents[0].position if extents and not extents[0].is_nowhere else None


def find_nodes(root_fd: int, mount: Mount) -> Iterator[str]:
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
    below = [os.path.realpath(f"{node}/slaves/{name}") for name in list_attributes(f"{node}/slaves")]
    backing = read_attribute(f"{node}/loop/backing_file")
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
    return read_attribute(f"{node}/queue/rotational") == "1"


def list_attributes(folder: str) -> list[str]:
    """List a folder of sysfs; one that is not there is empty."""
    try:
        return os.listdir(folder)
    except (FileNotFoundError, NotADirectoryError):
        return []


def read_attribute(path: str) -> str | None:
    """Read an attribute in sysfs, without the line feed; None if it is not there."""
    try:
        with open(path, encoding="utf-8", errors="surrogateescape") as file:
            return file.read().strip()
    except (FileNotFoundError, NotADirectoryError):
        return None
