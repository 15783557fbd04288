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

from integrity.files.extents import iterate_extents

USUAL_ALIGNMENT_BYTES = 4096  # where the kernel doesn't say: no less than any logical block in use


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
    return any(extent.is_encoded for extent in iterate_extents(fd))


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
