"""
Find where a sparse file has data, so that a terabyte of zeros costs nothing.

What lies outside is zeros, as far as the file system says. Such a map is only worth something together with the stable
check at the end of a reading (R1), and a confirming re-read does without it (R3).
"""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator

from integrity.model import ByteRange

_GRAIN_BYTES = 4096  # so that every data range can be read with O_DIRECT, whatever the file system's block size is


def find_data(fd: int, start: int, size: int) -> Iterator[ByteRange]:
    """
    Yield the ranges of data between ``start`` and ``size``, in order, widened to multiples of 4,096.

    The map is read while it is used: a range is looked up when it is asked for.

    Raises:
        OSError: EIO, say, when the map itself can't be read.
    """
    position = start
    while position < size:
        data = _seek_data(fd, position)
        if data is None or data >= size:
            return
        hole = os.lseek(fd, data, os.SEEK_HOLE)
        first = max(position, data // _GRAIN_BYTES * _GRAIN_BYTES)
        position = min(size, -(-hole // _GRAIN_BYTES) * _GRAIN_BYTES)
        yield first, position - first


def _seek_data(fd: int, position: int) -> int | None:
    """Return the next position with data; None when only a hole follows."""
    try:
        return os.lseek(fd, position, os.SEEK_DATA)
    except OSError as error:
        if error.errno == errno.ENXIO:
            return None
        if error.errno in (errno.EINVAL, errno.EOPNOTSUPP):  # no hole maps here: everything is data
            return position
        raise
