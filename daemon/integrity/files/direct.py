"""
Ask whether and how a file can be read past the page cache.

STATX_DIOALIGN (``statx``) vouches for O_DIRECT: with journalled data, encryption or inline data the file system says 0
there, while opening with O_DIRECT succeeds all the same and reads through the cache. Where it says nothing (btrfs,
older kernels), callers can't be sure and drop clean pages first.
"""

from __future__ import annotations

import errno
import fcntl
import os
import struct

USUAL_ALIGNMENT_BYTES = 4096  # where the kernel doesn't say: no less than any logical block in use

_FS_IOC_FIEMAP = 0xC020660B
_FIEMAP_HEADER = struct.Struct("=QQLLLL")
_FIEMAP_EXTENT = struct.Struct("=QQQ16xL12x")
_EXTENTS_AT_ONCE = 256
_EXTENT_LAST = 0x1
_EXTENT_ENCODED_OR_INLINE = 0x8 | 0x200


def set_direct(fd: int, is_direct: bool) -> bool:
    """
    Switch O_DIRECT on or off for an open descriptor.

    The other flags are read first: F_SETFL would take O_NOATIME away.

    Returns:
        False when the file system refuses.
    """
    flags = fcntl.fcntl(fd, fcntl.F_GETFL)
    try:
        fcntl.fcntl(fd, fcntl.F_SETFL, flags | os.O_DIRECT if is_direct else flags & ~os.O_DIRECT)
    except OSError as error:
        if error.errno == errno.EINVAL:
            return False
        raise
    return True


def has_encoded_extents(fd: int) -> bool:
    """Say whether some of the file is compressed, encrypted or stored inside metadata: not read past any cache."""
    start = 0
    while True:
        request = bytearray(_FIEMAP_HEADER.size + _EXTENTS_AT_ONCE * _FIEMAP_EXTENT.size)
        _FIEMAP_HEADER.pack_into(request, 0, start, (1 << 64) - 1 - start, 0, 0, _EXTENTS_AT_ONCE, 0)
        fcntl.ioctl(fd, _FS_IOC_FIEMAP, request)
        count = _FIEMAP_HEADER.unpack_from(request)[3]
        if count == 0:
            return False
        for index in range(count):
            position = _FIEMAP_HEADER.size + index * _FIEMAP_EXTENT.size
            logical, _, length, flags = _FIEMAP_EXTENT.unpack_from(request, position)
            if flags & _EXTENT_ENCODED_OR_INLINE:
                return True
            if flags & _EXTENT_LAST:
                return False
            start = logical + length


def sector_bytes(device: int) -> int:
    """
    Return the smallest unit that a disk reads or loses: its physical block.

    Args:
        device: ``st_dev`` of a file.

    Returns:
        4,096 where it isn't known: anonymous devices (btrfs, FUSE, NFS).
    """
    node = f"/sys/dev/block/{os.major(device)}:{os.minor(device)}"
    for queue in (f"{node}/queue", f"{node}/../queue"):  # a partition has its disk's
        try:
            with open(f"{queue}/physical_block_size", encoding="ascii") as file:
                return int(file.read())
        except FileNotFoundError:
            continue
    return USUAL_ALIGNMENT_BYTES
