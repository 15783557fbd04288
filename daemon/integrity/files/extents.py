"""
Read from FIEMAP where the content of a file lies on its device.

Offsets are bytes. On btrfs the physical address is a logical address that the chunk tree maps to devices
(``mirrors.py``): valid for ordering, not for reading the device.
"""

from __future__ import annotations

import fcntl
import struct
from collections.abc import Iterator
from typing import NamedTuple

# linux/fiemap.h
_FS_IOC_FIEMAP = 0xC020660B
_HEAD = struct.Struct("=QQLLLL")  # start, length, flags, mapped extents, extent count, reserved
_EXTENT = struct.Struct("=QQQ16xL12x")  # logical, physical, length, flags
_EXTENT_LAST = 0x1
_ENCODED = 0x8 | 0x200  # FIEMAP_EXTENT_ENCODED (compressed, encrypted), _DATA_INLINE
_NOWHERE = 0x2 | 0x4 | 0x200  # FIEMAP_EXTENT_UNKNOWN, _DELALLOC, _DATA_INLINE
_UNWRITTEN = 0x800
_TO_THE_END = (1 << 64) - 1
_AT_ONCE = 256


class Extent(NamedTuple):
    """A part of a file that is contiguous on its device."""

    offset: int  # in the file
    position: int  # on the device
    length: int
    flags: int

    @property
    def is_encoded(self) -> bool:
        """Return whether the device's bytes differ from a reader's: compressed, encrypted or inline in metadata."""
        return bool(self.flags & _ENCODED)

    @property
    def has_no_position(self) -> bool:
        """Return whether this part has no blocks of its own on the device, or none yet."""
        return bool(self.flags & _NOWHERE)

    @property
    def is_plain(self) -> bool:
        """Return whether the device holds the same bytes that a reader gets."""
        return not self.flags & (_ENCODED | _NOWHERE | _UNWRITTEN)


def iterate_extents(fd: int, start: int = 0) -> Iterator[Extent]:
    """
    Yield the extents of an open file in order, from the one that contains ``start``; holes have none.

    Raises:
        OSError: the file system does not support FIEMAP (EOPNOTSUPP, ENOTTY), or the query failed.
    """
    while extents := read_extents(fd, start, _AT_ONCE):
        yield from extents
        last = extents[-1]
        start = last.offset + last.length
        if last.flags & _EXTENT_LAST:
            return


def read_extents(fd: int, start: int, count: int) -> list[Extent]:
    """Read the next extents of an open file, at most ``count``; raise OSError as ``iterate_extents`` does."""
    buffer = bytearray(_HEAD.size + count * _EXTENT.size)
    _HEAD.pack_into(buffer, 0, start, _TO_THE_END - start, 0, 0, count, 0)
    fcntl.ioctl(fd, _FS_IOC_FIEMAP, buffer)
    end = _HEAD.size + _HEAD.unpack_from(buffer)[3] * _EXTENT.size
    return [Extent(*fields) for fields in _EXTENT.iter_unpack(memoryview(buffer)[_HEAD.size : end])]
