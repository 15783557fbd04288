"""Ask statx(2) for what os.stat does not tell: when an inode was made, and whether O_DIRECT can be relied on."""

from __future__ import annotations

import ctypes
import errno
import os
import struct

from integrity.files.open_beneath import open_beneath

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
