"""
Ask whether and how a file can be read past the page cache.

STATX_DIOALIGN (``statx``) vouches for O_DIRECT: with journalled data, encryption or inline data the file system says 0
there, while opening with O_DIRECT succeeds all the same and reads through the cache. Where it says nothing (btrfs,
older kernels), callers can't be sure and drop clean pages first.

Ask statx(2) for what os.stat does not tell: when an inode was made, and whether O_DIRECT can be relied on.

Bring a file's changed pages to its disk, so that what is read afterwards is what was stored.

sync_file_range(2) writes and waits for the pages of this one file and asks the device for no flush: on a clean file it
costs about a microsecond. After it a store through a shared mapping has to take a page fault again, and that fault
moves the mtime: without the write-back a mapped file could change between two equal fstats (R1).
"""

from __future__ import annotations

import ctypes
import errno
import fcntl
import os
import struct

from integrity.files.extents import iterate_extents
from integrity.files.open_beneath import open_beneath

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


_AT_EMPTY_PATH = 0x1000
_BYTES = 256  # of struct statx
_BTIME = 0x800
_DIOALIGN = 0x2000
_MASK = struct.Struct("=L")  # stx_mask
_TIME = struct.Struct("=qL")  # struct statx_timestamp: seconds, nanoseconds
_BTIME_AT = 80
_LENGTH = struct.Struct("=L")
_DIO_OFFSET_ALIGN_AT = 156  # stx_dio_mem_align before it never exceeds a page

_SECOND_NS = 1_000_000_000

_statx = ctypes.CDLL(None, use_errno=True).statx
_statx.restype = ctypes.c_int
_statx.argtypes = (ctypes.c_int, ctypes.c_char_p, ctypes.c_int, ctypes.c_uint, ctypes.c_void_p)


def find_birth_ns(root_fd: int, path: bytes) -> int | None:
    """
    Find out when the inode was made that stands under a name of a root.

    The time of birth can't be set, and no rename, write or touch moves it: it tells a file that was renamed from one
    that got its inode number.

    Returns:
        Nanoseconds since 1970; None where that is not kept (ext4 with inodes of 128 bytes, HFS+), or not told.

    Raises:
        OSError: the name can't be looked at, or is gone.
    """
    fd = open_beneath(root_fd, path, os.O_PATH)
    try:
        return get_birth_ns(fd)
    finally:
        os.close(fd)


def get_birth_ns(fd: int) -> int | None:
    """Return when an open inode was made, as ``find_birth_ns`` does; a descriptor of O_PATH is enough."""
    answer = _ask(fd, _BTIME)
    if answer is None:
        return None
    seconds, nanoseconds = _TIME.unpack_from(answer, _BTIME_AT)
    return int(seconds) * _SECOND_NS + int(nanoseconds)


def direct_alignment(fd: int) -> int | None:
    """
    Return what offsets and lengths of O_DIRECT must be multiples of (STATX_DIOALIGN, Linux 6.1).

    Returns:
        Bytes; 0 when this file has no O_DIRECT; None when the kernel doesn't say.
    """
    answer = _ask(fd, _DIOALIGN)
    return None if answer is None else int(_LENGTH.unpack_from(answer, _DIO_OFFSET_ALIGN_AT)[0])


def _ask(fd: int, wanted: int) -> bytes | None:
    buffer = ctypes.create_string_buffer(_BYTES)
    if _statx(fd, b"", _AT_EMPTY_PATH, wanted, buffer) < 0:
        code = ctypes.get_errno()
        if code in (errno.ENOSYS, errno.EPERM):  # container filters
            return None
        raise OSError(code, os.strerror(code))
    return buffer.raw if _MASK.unpack_from(buffer)[0] & wanted else None


_WAIT_BEFORE_WRITE_WAIT_AFTER = 1 | 2 | 4

_sync_file_range = ctypes.CDLL(None, use_errno=True).sync_file_range
_sync_file_range.restype = ctypes.c_int
_sync_file_range.argtypes = (ctypes.c_int, ctypes.c_int64, ctypes.c_int64, ctypes.c_uint)


def write_back(fd: int) -> None:
    """
    Write the file's dirty pages and wait for them; a descriptor opened for reading is enough.

    Raises:
        OSError: EIO when pages could not be written, now or earlier without anybody having been told; ESPIPE when it is
            no file.
    """
    while _sync_file_range(fd, 0, 0, _WAIT_BEFORE_WRITE_WAIT_AFTER) < 0:
        code = ctypes.get_errno()
        if code == errno.ENOSYS:  # gVisor and strict seccomp filters: dearer, as it flushes the device
            os.fdatasync(fd)
            return
        if code != errno.EINTR:  # Python runs its signal handlers between two turns of this loop
            raise OSError(code, os.strerror(code))
