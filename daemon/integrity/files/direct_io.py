"""
Control how a file is read from its disk: O_DIRECT, statx(2) beyond ``os.stat``, and write-back.

STATX_DIOALIGN vouches for O_DIRECT: with journalled data, encryption or inline data the file system reports 0, although
opening with O_DIRECT succeeds and reads through the cache. If it reports nothing (btrfs, older kernels), callers cannot
be sure and drop clean pages first.

sync_file_range(2) writes one file's pages and waits, without a device flush: about a microsecond for a clean file.
Afterwards a store through a shared mapping takes a page fault again, which updates the mtime: without the write-back a
mapped file could change between two equal fstats (R1).
"""

from __future__ import annotations

import ctypes
import errno
import fcntl
import os
import struct

from integrity.files.extents import iterate_extents
from integrity.files.open_beneath import open_beneath
from integrity.files.syscalls import find_function

USUAL_ALIGNMENT_BYTES = 4096  # if the kernel does not report it: no smaller than any logical block in use


def set_direct(fd: int, is_direct: bool) -> bool:
    """
    Switch O_DIRECT on or off for an open descriptor.

    Reads the other flags first: F_SETFL would clear O_NOATIME.

    Returns:
        False if the file system refuses.
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
    """Return whether any extent is compressed, encrypted or inline: O_DIRECT cannot bypass the cache for it."""
    return any(extent.is_encoded for extent in iterate_extents(fd))


def sector_bytes(device: int) -> int:
    """
    Return the smallest unit that a disk reads or loses: its physical block.

    Args:
        device: ``st_dev`` of a file.

    Returns:
        4,096 if unknown: anonymous devices (btrfs, FUSE, NFS).
    """
    node = f"/sys/dev/block/{os.major(device)}:{os.minor(device)}"
    for queue in (f"{node}/queue", f"{node}/../queue"):  # a partition uses its disk's queue
        try:
            with open(f"{queue}/physical_block_size", encoding="ascii") as file:
                return int(file.read())
        except FileNotFoundError:
            continue
    return USUAL_ALIGNMENT_BYTES


_AT_EMPTY_PATH = 0x1000
_BYTES = 256  # sizeof(struct statx)
_BTIME = 0x800
_DIOALIGN = 0x2000
_MASK = struct.Struct("=L")  # stx_mask
_TIME = struct.Struct("=qL")  # struct statx_timestamp: seconds, nanoseconds
_BTIME_AT = 80
_LENGTH = struct.Struct("=L")
_DIO_OFFSET_ALIGN_AT = 156  # stx_dio_mem_align before it never exceeds a page

_SECOND_NS = 1_000_000_000

_statx = find_function("statx", ctypes.c_int, ctypes.c_char_p, ctypes.c_int, ctypes.c_uint, ctypes.c_void_p)


def find_birth_ns(root_fd: int, path: bytes) -> int | None:
    """
    Return when the inode under a path of a root was created.

    The birth time cannot be set, and no rename, write or touch changes it: it distinguishes a renamed file from a new
    file with a reused inode number.

    Returns:
        Nanoseconds since 1970; None if it is not stored (ext4 with 128-byte inodes, HFS+) or not reported.

    Raises:
        OSError: the path cannot be queried or no longer exists.
    """
    fd = open_beneath(root_fd, path, os.O_PATH)
    try:
        return get_birth_ns(fd)
    finally:
        os.close(fd)


def get_birth_ns(fd: int) -> int | None:
    """Return when an open inode was created, as ``find_birth_ns`` does; an O_PATH descriptor is enough."""
    answer = _statx_fields(fd, _BTIME)
    if answer is None:
        return None
    seconds, nanoseconds = _TIME.unpack_from(answer, _BTIME_AT)
    return int(seconds) * _SECOND_NS + int(nanoseconds)


def direct_alignment(fd: int) -> int | None:
    """
    Return the alignment of offsets and lengths for O_DIRECT (STATX_DIOALIGN, Linux 6.1).

    Returns:
        Bytes; 0 if this file does not support O_DIRECT; None if the kernel does not report it.
    """
    answer = _statx_fields(fd, _DIOALIGN)
    return None if answer is None else int(_LENGTH.unpack_from(answer, _DIO_OFFSET_ALIGN_AT)[0])


def _statx_fields(fd: int, wanted: int) -> bytes | None:
    buffer = ctypes.create_string_buffer(_BYTES)
    if _statx(fd, b"", _AT_EMPTY_PATH, wanted, buffer) < 0:
        code = ctypes.get_errno()
        if code in (errno.ENOSYS, errno.EPERM):  # blocked by a container's seccomp filter
            return None
        raise OSError(code, os.strerror(code))
    return buffer.raw if _MASK.unpack_from(buffer)[0] & wanted else None


_WAIT_BEFORE_WRITE_WAIT_AFTER = 1 | 2 | 4

_sync_file_range = find_function("sync_file_range", ctypes.c_int, ctypes.c_int64, ctypes.c_int64, ctypes.c_uint)


def write_back(fd: int) -> None:
    """
    Write the file's dirty pages and wait for them; a descriptor opened for reading is enough.

    Raises:
        OSError: EIO: pages could not be written, now or earlier with the error still unreported; ESPIPE: not a regular
            file.
    """
    while _sync_file_range(fd, 0, 0, _WAIT_BEFORE_WRITE_WAIT_AFTER) < 0:
        code = ctypes.get_errno()
        if code == errno.ENOSYS:  # gVisor and strict seccomp filters: slower, because it flushes the device
            os.fdatasync(fd)
            return
        if code != errno.EINTR:  # Python runs signal handlers between iterations
            raise OSError(code, os.strerror(code))
