"""
Ask when an inode was made: what tells a file that was renamed from another one that got its inode number.

The time of birth can't be set, and no rename, write or touch moves it. Where the file system keeps none (ext4 with
inodes of 128 bytes, HFS+), or the kernel is not to be asked, nothing is said.
"""

from __future__ import annotations

import ctypes
import errno
import os
import struct

from integrity.files.opening import open_beneath

_AT_EMPTY_PATH = 0x1000
_STATX_BTIME = 0x800
_STATX_BYTES = 256
_MASK = struct.Struct("=L")  # stx_mask
_BIRTH = struct.Struct("=qL")  # stx_btime: seconds, nanoseconds
_BIRTH_AT = 80

_SECOND_NS = 1_000_000_000

_statx = ctypes.CDLL(None, use_errno=True).statx
_statx.restype = ctypes.c_int
_statx.argtypes = (ctypes.c_int, ctypes.c_char_p, ctypes.c_int, ctypes.c_uint, ctypes.c_void_p)


def find_birth_ns(root_fd: int, path: bytes) -> int | None:
    """
    Find out when the inode was made that stands under a name of a root.

    Returns:
        Nanoseconds since 1970; None where that is not known.

    Raises:
        OSError: the name can't be looked at, or is gone.
    """
    fd = open_beneath(root_fd, path, os.O_PATH)
    try:
        return _find_birth_ns(fd)
    finally:
        os.close(fd)


def _find_birth_ns(fd: int) -> int | None:
    buffer = ctypes.create_string_buffer(_STATX_BYTES)
    if _statx(fd, b"", _AT_EMPTY_PATH, _STATX_BTIME, buffer) < 0:
        code = ctypes.get_errno()
        if code in (errno.ENOSYS, errno.EPERM):  # container filters
            return None
        raise OSError(code, os.strerror(code))
    if not _MASK.unpack_from(buffer)[0] & _STATX_BTIME:
        return None
    seconds, nanoseconds = _BIRTH.unpack_from(buffer, _BIRTH_AT)
    return int(seconds) * _SECOND_NS + int(nanoseconds)
