"""
Say which disks a root lies on, and where on them a file begins.

Rotational disks are read by one thread and in disk order (R4); two roots on one disk share its pace. So devices are
told by the physical disks behind them: behind partitions, LVM, RAID, loop devices, and the several disks of a btrfs.

Say whether a disk sleeps, and how hot it is, without waking it.

A sleeping disk is asked by ATA CHECK POWER MODE, which no disk wakes up for, passed through the block device's SG_IO;
that takes root. Whatever the kernel itself put to sleep is told by sysfs. USB bridges, RAID controllers and virtual
disks often know none of it: then nothing is known, and nothing is an error.

Tell what a disk could not deliver from what it delivered and the file system refused.

btrfs answers both with EIO, and counts them apart. Anybody may read its counters. Other file systems have no checksums
of data; what they refuse is their own metadata, and they say so with an error of its own (``badsectors``).

Say where on their device files begin: in that order a rotational disk reads them without going back and forth.
"""

from __future__ import annotations

import ctypes
import errno
import fcntl
import os
import struct
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from glob import escape as glob_escape
from glob import glob
from typing import NamedTuple

from integrity.files.capability import get_fs_id
from integrity.files.extents import read_extents
from integrity.files.mounts import Mount, find_uuid, get_block_device, get_mount
from integrity.files.open_beneath import open_beneath

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


_DISKS = "/sys/block"

# scsi/sg.h
_SG_IO = 0x2285
_SG_DXFER_NONE = -1
_TIMEOUT_MS = 5_000
_SENSE_BYTES = 32

# SAT-4: ATA PASS-THROUGH (16), protocol non-data, CK_COND: the disk's registers come back as sense data.
_ATA_PASS_THROUGH_16 = 0x85
_NON_DATA = 3 << 1
_CK_COND = 1 << 5
_CHECK_POWER_MODE = 0xE5
_ATA_ERROR = 0x01
_ATA_INFORMATION = b"\x00\x1d"  # additional sense: "ATA pass through information available"

# ACS-4, CHECK POWER MODE, the register COUNT: standby (z, y), and spun down behind a cache of flash.
_ASLEEP = frozenset({0x00, 0x01, 0x40})

_NOT_TOLD = frozenset(
    {errno.ENOENT, errno.ENOTDIR, errno.ENODEV, errno.ENXIO, errno.EACCES, errno.EPERM, errno.ENOTTY, errno.EINVAL}
    | {errno.EOPNOTSUPP, errno.ENODATA, errno.EAGAIN, errno.ETIMEDOUT, errno.EIO, errno.ENOMEDIUM}
)
"""Not there, not allowed, no such command, or no answer: in each case it can't be told."""

_SENSORS = ("device/hwmon/hwmon*", "device/hwmon*", "device/device/hwmon/hwmon*")
"""Where drivetemp and nvme put theirs, below the disk's folder in sysfs; it depends on the kernel."""


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


def is_asleep(device: str, *, blocks_folder: str = _DISKS, nodes_folder: str = "/dev") -> bool | None:
    """
    Say whether a disk is spun down, without waking it.

    Args:
        device: its name in sysfs, such as "sda".
        blocks_folder: in sysfs.
        nodes_folder: where the device nodes are.

    Returns:
        None where it can't be told.
    """
    if _read(f"{blocks_folder}/{device}/device/power/runtime_status") in ("suspended", "suspending"):
        return True  # by the kernel, which would wake it for a command
    sense = _ask_power_mode(f"{nodes_folder}/{device.replace('!', '/')}")
    return None if sense is None else read_power_mode(sense)


def temperature(device: str, *, blocks_folder: str = _DISKS) -> int | None:
    """
    Read how hot a disk is, in degrees C; some disks wake up for that: ask none that sleeps.

    Returns:
        None where the disk or the kernel (module drivetemp) does not tell.
    """
    for pattern in _SENSORS:
        for folder in sorted(glob(f"{glob_escape(blocks_folder)}/{glob_escape(device)}/{pattern}")):
            text = _read(f"{folder}/temp1_input")
            if text is not None:
                return int(text) // 1000
    return None


def read_power_mode(sense: bytes) -> bool | None:
    """
    Read the answer to CHECK POWER MODE from SCSI sense data, of either format.

    Returns:
        Whether the disk is spun down; None if this is no such answer.
    """
    if len(sense) >= 22 and sense[0] & 0x7F == 0x72 and sense[8] == 0x09:
        status, count = sense[21], sense[13]
    elif len(sense) >= 14 and sense[0] & 0x7F == 0x70 and sense[12:14] == _ATA_INFORMATION:
        status, count = sense[4], sense[6]
    else:
        return None
    return None if status & _ATA_ERROR else count in _ASLEEP


def _ask_power_mode(node: str) -> bytes | None:
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
        fd = os.open(node, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)  # O_NONBLOCK: no look for a medium
        try:
            fcntl.ioctl(fd, _SG_IO, header)
        finally:
            os.close(fd)
    except OSError as error:
        if error.errno in _NOT_TOLD:
            return None
        raise
    return bytes(sense[: header.sb_len_wr])


def _read(path: str) -> str | None:
    try:
        with open(path, encoding="ascii") as file:
            return file.read().strip()
    except OSError as error:
        if error.errno in _NOT_TOLD:
            return None
        raise


# linux/btrfs.h; a device that is missing gives ENODEV, an id that was never given or is no more, too
_BTRFS_IOC_FS_INFO = 0x8400941F
_BTRFS_IOC_GET_DEV_STATS = 0xC4089434
_FS_INFO = struct.Struct("=Q1016x")  # the highest device id
_DEV_STATS = struct.Struct("=QQQ5Q968x")  # device id, number of values, flags; write, read, flush, checksum, generation
_VALUES = 5


class _Counts(NamedTuple):
    """Errors since the file system was made: of reads that a device failed, and of what was refused."""

    failed: int
    refused: int


class ErrorCounters:
    """
    The counters of a btrfs, against what they were when this was made. Any thread may use it.

    Args:
        fd: any open file or folder of it; stays the caller's and open for as long as this is used.
    """

    def __init__(self, fd: int) -> None:
        self._fd = fd
        self._before = _count(fd)

    def show_refusals_only(self) -> bool:
        """Say whether reads were refused since and no device failed one; False if it can't be told."""
        try:
            now = _count(self._fd)
        except OSError:
            return False
        return now.refused > self._before.refused and now.failed == self._before.failed


def find_counters(fd: int, fs_type: str) -> ErrorCounters | None:
    """Find the counters of the file system that an open file or folder is on; None if it has none, or tells none."""
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
"""So many are opened between two looks at whether the run is to end: each may cost a disk some milliseconds."""


def find_positions(root_fd: int, paths: Sequence[bytes], is_over: Callable[[], bool]) -> list[int]:
    """
    Find the positions of files, in bytes; see ``devices.physical_position``.

    Args:
        root_fd: the root's folder.
        paths: relative to it.
        is_over: says that nobody needs the rest any more.

    Returns:
        One for each path; 0 where none can be told, or none is needed.
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
        import integrity._native  # noqa: F401 - can it be loaded?
    except ImportError:
        return find_singly  # the program says why where it shows its version
    return find_in_batch


def find_in_batch(root_fd: int, paths: Sequence[bytes]) -> list[int]:
    """Find the positions of some files in one call of the C core, which has to be there."""
    from integrity._native import ffi, lib

    text = b"\0".join(paths) + b"\0"
    if text.count(b"\0") != len(paths):
        return [0] * len(paths)  # one of them is none that any file can have, and all behind it would be mistaken
    positions, held = ffi.new("uint64_t[]", len(paths)), ffi.from_buffer(text)
    lib.position_batch_find(root_fd, ffi.new("file_batch_paths *", (held, len(text), len(paths))), positions)
    return memoryview(ffi.buffer(positions)).cast("B").cast("Q").tolist()


def find_singly(root_fd: int, paths: Sequence[bytes]) -> list[int]:
    """Do the same without it."""
    return [_find(root_fd, path) for path in paths]


def _find(root_fd: int, path: bytes) -> int:
    try:
        fd = open_beneath(root_fd, path, os.O_RDONLY)
    except OSError:
        return 0  # reading it will say what is wrong
    try:
        return physical_position(fd) or 0
    except OSError:
        return 0  # the same
    finally:
        os.close(fd)
