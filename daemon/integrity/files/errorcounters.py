"""
Tell what a disk could not deliver from what it delivered and the file system refused.

btrfs answers both with EIO, and counts them apart. Anybody may read its counters. Other file systems have no checksums
of data; what they refuse is their own metadata, and they say so with an error of its own (``badsectors``).
"""

from __future__ import annotations

import errno
import fcntl
import struct
from typing import NamedTuple

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
