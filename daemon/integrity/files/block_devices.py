"""
Find the disks below a root, and query them: rotation, power state, temperature, error counters, file positions.

One thread reads a rotational disk, in disk order (R4), and all roots on a disk share its pace. So a device is
identified by the physical disks behind partitions, LVM, RAID, loop devices and multi-disk btrfs.

Power state comes from ATA CHECK POWER MODE, which wakes no disk; it goes through SG_IO and needs root. sysfs shows what
the kernel itself suspended. USB bridges, RAID controllers and virtual disks often support neither: then the answer is
"unknown", not an error.

btrfs returns EIO both for a failed read and for a checksum mismatch, but counts them separately; reading the counters
needs no rights. Other file systems do not checksum data and report damaged metadata with errors of their own.
"""

from __future__ import annotations

import ctypes
import errno
import fcntl
import os
import stat
import struct
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from glob import escape as glob_escape
from glob import glob
from typing import NamedTuple

from integrity.files.extents import read_extents
from integrity.files.mounts import Mount, find_uuid, get_block_device, get_mount
from integrity.files.open_beneath import open_beneath

_SYS_BLOCK = "/sys/dev/block"

_NO_FIEMAP = frozenset({errno.EOPNOTSUPP, errno.ENOTTY, errno.EINVAL, errno.ENOSYS, errno.EPERM})


@dataclass(frozen=True, slots=True)
class Device:
    """The disks that a root lies on."""

    is_rotational: bool  # true if any of its disks is; virtual disks often claim to be
    name: str  # to display: "sda", "sda+sdb", or the source of the mount
    key: str  # equal for all roots on the same disks
    layers: tuple[str, ...] = field(default=(), compare=False)  # sysfs names of the file system's devices and its disks


def find_device(root_fd: int) -> Device:
    """
    Find the disks that an open root lies on.

    A root on no disk known to this machine (a server, a pool, memory) gets a device of its own, not rotational.

    Raises:
        OSError: the root cannot be queried.
    """
    mount = get_mount(root_fd)
    nodes = set(find_nodes(root_fd, mount))
    disks = find_disks_of(node for top in nodes for node in _walk_down(top))
    if not disks:
        return Device(False, mount.source, f"fs:{find_uuid(root_fd, mount) or f'{mount.fs_type}:{mount.source}'}")
    name = "+".join(sorted(os.path.basename(disk) for disk in disks))
    layers = tuple(sorted({os.path.basename(node) for node in nodes | disks}))
    return Device(any(_is_rotational(disk) for disk in disks), name, f"disk:{name}", layers)


def find_stack(root_fd: int, mount: Mount) -> list[str]:
    """Return the sysfs folders of all block devices below a file system: partitions, arrays, encryption, disks."""
    return list(dict.fromkeys(node for top in find_nodes(root_fd, mount) for node in _walk_down(top)))


def find_stack_of(device: str) -> list[str]:
    """Return the sysfs folders of a block device, given by its node in /dev, and of all below it; empty if absent."""
    try:
        status = os.stat(device)
    except OSError:
        return []
    node = _get_node(status.st_rdev) if stat.S_ISBLK(status.st_mode) else None
    return [] if node is None else list(dict.fromkeys(_walk_down(node)))


def find_disks_of(stack: Iterable[str]) -> set[str]:
    return {node for node in stack if not _find_below(node)}


def physical_position(fd: int) -> int | None:
    """
    Return the position on the device, in bytes, where a file's first extent begins.

    On btrfs the address is logical: valid for ordering, not for reading the device.

    Returns:
        None if the file system does not report it, or the file has no blocks of its own on the device (yet).
    """
    try:
        extents = read_extents(fd, 0, 1)
    except OSError as error:
        if error.errno in _NO_FIEMAP:
            return None
        raise
    return extents[0].position if extents and not extents[0].has_no_position else None


def find_nodes(root_fd: int, mount: Mount) -> Iterator[str]:
    """Yield the sysfs folders of the block devices below a file system."""
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


_FACTS = {"wwid": ("wwid", "device/wwid"), "serial": ("serial", "device/serial")}
"""What tells a disk from its clone, and the attributes that show it: NVMe, SCSI and ATA, virtio, MMC."""

_SECTOR_BYTES = 512
"""The unit of the attribute ``size``, whatever the disk's own sectors are."""


def find_disk_facts(root_fd: int, mount: Mount) -> dict[str, str]:
    """
    Return what the kernel tells of the disk of a file system besides the UUID, which a clone repeats.

    Empty for file systems on several disks, and on LVM, RAID and encryption, whose disks may be exchanged.
    """
    nodes = list(find_nodes(root_fd, mount))
    if len(nodes) != 1:
        return {}
    node = os.path.dirname(nodes[0]) if os.path.exists(f"{nodes[0]}/partition") else nodes[0]
    if any(os.path.exists(f"{node}/{kind}") for kind in ("dm", "md", "bcache")):
        return {}
    shown = {fact: map(read_attribute, (f"{node}/{name}" for name in names)) for fact, names in _FACTS.items()}
    found = {fact: next(filter(None, values), None) for fact, values in shown.items()}
    found["usb"] = _find_usb_serial(node)
    sectors = read_attribute(f"{node}/size")
    found["size"] = str(int(sectors) * _SECTOR_BYTES) if sectors else None
    return {fact: " ".join(value.split()) for fact, value in found.items() if value}


def _find_usb_serial(node: str) -> str | None:
    """Return the serial number of the USB device that a disk is, or stands in; few of them show any other."""
    while node.startswith("/sys/devices/"):
        node = os.path.dirname(node)
        if os.path.exists(f"{node}/idVendor"):
            return read_attribute(f"{node}/serial")
    return None


def _get_node(device: int) -> str | None:
    node = f"{_SYS_BLOCK}/{os.major(device)}:{os.minor(device)}"
    return os.path.realpath(node) if os.path.isdir(node) else None


def _walk_down(node: str) -> Iterator[str]:
    """Yield a block device in sysfs and all that it lies on."""
    yield node
    for lower in _find_below(node):
        yield from _walk_down(lower)


def _find_below(node: str) -> list[str]:
    """Return the block devices that a block device lies on; none for a physical disk."""
    if os.path.exists(f"{node}/partition"):
        return [os.path.dirname(node)]
    below = [os.path.realpath(f"{node}/slaves/{name}") for name in list_attributes(f"{node}/slaves")]
    backing = read_attribute(f"{node}/loop/backing_file")
    if backing is not None:
        try:
            lower = _get_node(os.stat(backing).st_dev)
        except (FileNotFoundError, NotADirectoryError, PermissionError):
            lower = None  # deleted, or in another namespace: use the loop device itself
        below += [] if lower is None else [lower]
    return below


def _is_rotational(node: str) -> bool:
    return read_attribute(f"{node}/queue/rotational") == "1"


def list_attributes(folder: str) -> list[str]:
    """List a folder of sysfs; return an empty list if it does not exist."""
    try:
        return os.listdir(folder)
    except (FileNotFoundError, NotADirectoryError):
        return []


def read_attribute(path: str) -> str | None:
    """Read a sysfs attribute and strip whitespace; return None if it does not exist."""
    try:
        with open(path, encoding="utf-8", errors="surrogateescape") as file:
            return file.read().strip()
    except (FileNotFoundError, NotADirectoryError):
        return None


DISKS_FOLDER = "/sys/block"
"""Where sysfs lists the disks."""

# scsi/sg.h
_SG_IO = 0x2285
_SG_DXFER_NONE = -1
_TIMEOUT_MS = 5_000
_SENSE_BYTES = 32

# SAT-4: ATA PASS-THROUGH (16), protocol non-data, CK_COND: return the disk's registers as sense data.
_ATA_PASS_THROUGH_16 = 0x85
_NON_DATA = 3 << 1
_CK_COND = 1 << 5
_CHECK_POWER_MODE = 0xE5
_ATA_ERROR = 0x01
_ATA_INFORMATION = b"\x00\x1d"  # additional sense: "ATA pass through information available"

# ACS-4, CHECK POWER MODE, register COUNT: standby (z, y), and spun down behind a flash cache.
_ASLEEP = frozenset({0x00, 0x01, 0x40})

_NO_ANSWER = frozenset(
    {errno.ENOENT, errno.ENOTDIR, errno.ENODEV, errno.ENXIO, errno.EACCES, errno.EPERM, errno.ENOTTY, errno.EINVAL}
    | {errno.EOPNOTSUPP, errno.ENODATA, errno.EAGAIN, errno.ETIMEDOUT, errno.EIO, errno.ENOMEDIUM}
)
"""Missing, forbidden, unsupported, or no answer: the state is unknown."""

_SENSORS = ("device/hwmon/hwmon*", "device/hwmon*", "device/device/hwmon/hwmon*")
"""Where drivetemp and nvme put their sensors, below the disk's sysfs folder; depends on the kernel."""


class _SgIoHeader(ctypes.Structure):
    _fields_ = (
        ("interface_id", ctypes.c_int),
        ("dxfer_direction", ctypes.c_int),
        ("cmd_len", ctypes.c_ubyte),
        ("mx_sb_len", ctypes.c_ubyte),
        ("iovec_count", ctypes.c_ushort),
        ("dxfer_len", ctypes.c_uint),
        ("dxferp", ctypes.c_void_p),
        ("cmdp", ctypes.c_void_p),
        ("sbp", ctypes.c_void_p),
        ("timeout", ctypes.c_uint),
        ("flags", ctypes.c_uint),
        ("pack_id", ctypes.c_int),
        ("usr_ptr", ctypes.c_void_p),
        ("status", ctypes.c_ubyte),
        ("masked_status", ctypes.c_ubyte),
        ("msg_status", ctypes.c_ubyte),
        ("sb_len_wr", ctypes.c_ubyte),
        ("host_status", ctypes.c_ushort),
        ("driver_status", ctypes.c_ushort),
        ("resid", ctypes.c_int),
        ("duration", ctypes.c_uint),
        ("info", ctypes.c_uint),
    )


def is_asleep(device: str, *, blocks_folder: str = DISKS_FOLDER, nodes_folder: str = "/dev") -> bool | None:
    """
    Return whether a disk is spun down, without waking it; None if unknown.

    Args:
        device: its name in sysfs, such as "sda".
        blocks_folder: /sys/block.
    """
    if _read(f"{blocks_folder}/{device}/device/power/runtime_status") in ("suspended", "suspending"):
        return True  # suspended by the kernel, which would resume it for a command
    sense = _send_check_power_mode(f"{nodes_folder}/{device.replace('!', '/')}")
    return None if sense is None else read_power_mode(sense)


def temperature(device: str, *, blocks_folder: str = DISKS_FOLDER) -> int | None:
    """
    Read a disk's temperature in degrees C. Some disks wake up for this: do not query a sleeping disk.

    Returns:
        None if the disk or the kernel (module drivetemp) does not report it.
    """
    for pattern in _SENSORS:
        for folder in sorted(glob(f"{glob_escape(blocks_folder)}/{glob_escape(device)}/{pattern}")):
            text = _read(f"{folder}/temp1_input")
            if text is not None:
                return int(text) // 1000
    return None


def read_power_mode(sense: bytes) -> bool | None:
    """
    Parse the answer to CHECK POWER MODE from SCSI sense data in fixed or descriptor format.

    Returns:
        Whether the disk is spun down; None if the data is no such answer.
    """
    if len(sense) >= 22 and sense[0] & 0x7F == 0x72 and sense[8] == 0x09:
        status, count = sense[21], sense[13]
    elif len(sense) >= 14 and sense[0] & 0x7F == 0x70 and sense[12:14] == _ATA_INFORMATION:
        status, count = sense[4], sense[6]
    else:
        return None
    return None if status & _ATA_ERROR else count in _ASLEEP


def _send_check_power_mode(node: str) -> bytes | None:
    """Send CHECK POWER MODE to a disk; return the sense data."""
    command = bytearray(16)
    command[0], command[1], command[2], command[14] = _ATA_PASS_THROUGH_16, _NON_DATA, _CK_COND, _CHECK_POWER_MODE
    command_buffer = (ctypes.c_ubyte * len(command)).from_buffer(command)
    sense = (ctypes.c_ubyte * _SENSE_BYTES)()
    header = _SgIoHeader(
        interface_id=ord("S"),
        dxfer_direction=_SG_DXFER_NONE,
        cmd_len=len(command),
        mx_sb_len=_SENSE_BYTES,
        cmdp=ctypes.addressof(command_buffer),
        sbp=ctypes.addressof(sense),
        timeout=_TIMEOUT_MS,
    )
    try:
        fd = os.open(node, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)  # O_NONBLOCK: skip the check for a medium
        try:
            fcntl.ioctl(fd, _SG_IO, header)
        finally:
            os.close(fd)
    except OSError as error:
        if error.errno in _NO_ANSWER:
            return None
        raise
    return bytes(sense[: header.sb_len_wr])


def _read(path: str) -> str | None:
    try:
        with open(path, encoding="ascii") as file:
            return file.read().strip()
    except OSError as error:
        if error.errno in _NO_ANSWER:
            return None
        raise


# linux/btrfs.h; ENODEV: the device is missing, or the id was never assigned or was freed
_BTRFS_IOC_FS_INFO = 0x8400941F
_BTRFS_IOC_GET_DEV_STATS = 0xC4089434
_FS_INFO = struct.Struct("=Q1016x")  # the highest device id
_DEV_STATS = struct.Struct("=QQQ5Q968x")  # device id, number of values, flags; write, read, flush, checksum, generation
_VALUES = 5


class _Counts(NamedTuple):
    """Error counts over the file system's lifetime: reads that a device failed, and data that btrfs rejected."""

    failed: int
    refused: int


class ErrorCounters:
    """
    Compare a btrfs's error counters with their values when this object was made. Any thread may use it.

    Args:
        fd: any open file or folder of the btrfs; stays the caller's and must stay open while this is used.
    """

    def __init__(self, fd: int) -> None:
        self._fd = fd
        self._before = _count(fd)

    def show_refusals_only(self) -> bool:
        """Return whether btrfs has since rejected data and no device failed a read; False if unknown."""
        try:
            now = _count(self._fd)
        except OSError:
            return False
        return now.refused > self._before.refused and now.failed == self._before.failed


def find_counters(fd: int, fs_type: str) -> ErrorCounters | None:
    """Return the error counters of the file system of an open file; None if it has none or does not report them."""
    if fs_type != "btrfs":
        return None
    try:
        return ErrorCounters(fd)
    except OSError:
        return None


def _count(fd: int) -> _Counts:
    info = bytearray(_FS_INFO.size)
    fcntl.ioctl(fd, _BTRFS_IOC_FS_INFO, info, True)
    failed = refused = 0
    for device in range(1, _FS_INFO.unpack(info)[0] + 1):
        stats = bytearray(_DEV_STATS.size)
        _DEV_STATS.pack_into(stats, 0, device, _VALUES, 0, 0, 0, 0, 0, 0)
        try:
            fcntl.ioctl(fd, _BTRFS_IOC_GET_DEV_STATS, stats, True)
        except OSError as error:
            if error.errno == errno.ENODEV:
                continue
            raise
        _, _, _, _, reads, _, checksums, generations = _DEV_STATS.unpack(stats)
        failed += reads
        refused += checksums + generations
    return _Counts(failed, refused)


_FILES_AT_ONCE = 100
"""Files opened between two checks of ``is_over``: each may cost a disk some milliseconds."""


def find_positions(root_fd: int, paths: Sequence[bytes], is_over: Callable[[], bool]) -> list[int]:
    """
    Find the positions of files, in bytes, as ``physical_position`` does.

    Args:
        root_fd: descriptor of the root's folder.
        paths: relative to it.
        is_over: returns True once the remaining positions are not needed.

    Returns:
        One per path; 0 if unknown or not needed.
    """
    find = _choose_way()
    positions: list[int] = []
    for start in range(0, len(paths), _FILES_AT_ONCE):
        if is_over():
            break
        positions += find(root_fd, paths[start : start + _FILES_AT_ONCE])
    return positions + [0] * (len(paths) - len(positions))


def _choose_way() -> Callable[[int, Sequence[bytes]], list[int]]:
    if os.environ.get("INTEGRITY_NATIVE") == "off":
        return find_singly
    try:
        import integrity._native  # noqa: F401 - check that it loads
    except ImportError:
        return find_singly  # `integrity --version` shows why
    return find_in_batch


def find_in_batch(root_fd: int, paths: Sequence[bytes]) -> list[int]:
    """Find the positions of files in one call of the C core, which must be loadable."""
    from integrity._native import ffi, lib

    text = b"\0".join(paths) + b"\0"
    if text.count(b"\0") != len(paths):
        return [0] * len(paths)  # a NUL byte inside a path would shift all paths after it
    positions, held = ffi.new("uint64_t[]", len(paths)), ffi.from_buffer(text)
    lib.position_batch_find(root_fd, ffi.new("file_batch_paths *", (held, len(text), len(paths))), positions)
    return memoryview(ffi.buffer(positions)).cast("B").cast("Q").tolist()


def find_singly(root_fd: int, paths: Sequence[bytes]) -> list[int]:
    """Find the positions of files one by one, without the C core."""
    return [_find(root_fd, path) for path in paths]


def _find(root_fd: int, path: bytes) -> int:
    try:
        fd = open_beneath(root_fd, path, os.O_RDONLY)
    except OSError:
        return 0  # reading the file reports the error
    try:
        return physical_position(fd) or 0
    except OSError:
        return 0  # as above
    finally:
        os.close(fd)
