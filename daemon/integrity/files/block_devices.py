"""
Say whether a disk sleeps, and how hot it is, without waking it.

A sleeping disk is asked by ATA CHECK POWER MODE, which no disk wakes up for, passed through the block device's SG_IO;
that takes root. Whatever the kernel itself put to sleep is told by sysfs. USB bridges, RAID controllers and virtual
disks often know none of it: then nothing is known, and nothing is an error.
"""

from __future__ import annotations

import ctypes
import errno
import fcntl
import os
from glob import escape as glob_escape
from glob import glob

_SYS_BLOCK = "/sys/block"

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


def is_asleep(device: str, *, blocks_folder: str = _SYS_BLOCK, nodes_folder: str = "/dev") -> bool | None:
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


def temperature(device: str, *, blocks_folder: str = _SYS_BLOCK) -> int | None:
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
