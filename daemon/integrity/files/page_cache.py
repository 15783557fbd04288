"""
Tell how much of a file is in the page cache, without touching it.

cachestat(2) (Linux 6.5) counts; before it mincore(2) does, on a mapping that allows no access at all, so that neither a
read error nor a truncation can ever turn into a signal. Both need the file's owner or root (newer kernels refuse
cachestat, mincore answers "all"), because residency tells what others read: then the answer is None, and callers leave
the cache alone.
"""

from __future__ import annotations

import ctypes
import errno
import mmap
import os
from collections.abc import Iterator

from integrity.model import ByteRange

_LITTLE = 16
"""So small a part of a file may be missing from memory: systems drop a few pages of what is in use, too."""

_CACHESTAT = 451  # the same on every architecture but Alpha
_PROT_NONE = 0
_MAP_FAILED = ctypes.c_void_p(-1).value
_WINDOW_BYTES = 1 << 30  # mincore: a vector of 256 KiB at a time


class _Range(ctypes.Structure):
    """``struct cachestat_range``."""

    _fields_ = (("off", ctypes.c_uint64), ("len", ctypes.c_uint64))


class _CacheCounts(ctypes.Structure):
    """``struct cachestat``, all in pages."""

    _fields_ = (
        ("cache", ctypes.c_uint64),
        ("dirty", ctypes.c_uint64),
        ("writeback", ctypes.c_uint64),
        ("evicted", ctypes.c_uint64),
        ("recently_evicted", ctypes.c_uint64),
    )


# Looked up and typed once: a scan asks once a file.
_libc = ctypes.CDLL(None, use_errno=True)
_syscall = _libc.syscall
_syscall.restype = ctypes.c_long
_syscall.argtypes = (
    ctypes.c_long,
    ctypes.c_int,
    ctypes.POINTER(_Range),
    ctypes.POINTER(_CacheCounts),
    ctypes.c_uint,
)
_mmap = _libc.mmap
_mmap.restype = ctypes.c_void_p
_mmap.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_int64)
_munmap = _libc.munmap
_munmap.argtypes = (ctypes.c_void_p, ctypes.c_size_t)
_mincore = _libc.mincore
_mincore.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_char_p)


def lies_in_memory(fd: int) -> bool:
    """Say whether an open file is in the page cache, all or nearly all of it; not where that can't be told."""
    size = os.fstat(fd).st_size
    return (resident_bytes(fd, size) or 0) >= size - size // _LITTLE


def resident_bytes(fd: int, size: int, start: int = 0) -> int | None:
    """
    Count the bytes of whole pages in memory that belong to ``size`` bytes from ``start``.

    Returns:
        None when it can't be told: the kernel has no way, or the file is somebody else's.
    """
    if size <= 0:
        return 0
    counts = _CacheCounts()
    if _syscall(_CACHESTAT, fd, _Range(start, size), counts, 0) == 0:
        return int(counts.cache) * mmap.PAGESIZE
    code = ctypes.get_errno()
    if code in (errno.ENOSYS, errno.EPERM):  # EPERM is also how older container filters refuse an unknown call
        return resident_bytes_by_mincore(fd, size, start)
    if code == errno.EOPNOTSUPP:
        return None
    raise OSError(code, os.strerror(code))


def resident_bytes_by_mincore(fd: int, size: int, start: int = 0) -> int | None:
    """Count like ``resident_bytes``, on kernels before 6.5."""
    if os.geteuid() not in (0, os.fstat(fd).st_uid):
        return None
    first = start // mmap.PAGESIZE * mmap.PAGESIZE
    total = 0
    for offset in range(first, start + size, _WINDOW_BYTES):
        pages = _count_window(fd, offset, min(_WINDOW_BYTES, start + size - offset))
        if pages is None:
            return None
        total += pages
    return total * mmap.PAGESIZE


def page_bytes(size: int, start: int = 0) -> int:
    """Say what ``resident_bytes`` returns when all of it is in memory."""
    if size <= 0:
        return 0
    return ((start + size - 1) // mmap.PAGESIZE - start // mmap.PAGESIZE + 1) * mmap.PAGESIZE


def find_absent(fd: int, start: int, size: int, grain_bytes: int = mmap.PAGESIZE) -> Iterator[ByteRange]:
    """
    Yield what of a range is not in memory, in order, by halving: neighbouring ranges may touch.

    Nothing is yielded where it can't be told, nor of a piece of ``grain_bytes`` or less that is partly in memory.
    """
    pending = [(start, size)]
    while pending:
        offset, length = pending.pop()
        resident = resident_bytes(fd, length, offset)
        if resident == 0:
            yield offset, length
        elif resident is not None and resident < page_bytes(length, offset) and length > grain_bytes:
            half = max(mmap.PAGESIZE, length // 2 // mmap.PAGESIZE * mmap.PAGESIZE)
            pending.append((offset + half, length - half))
            pending.append((offset, half))


def drop_clean_pages(fd: int, start: int = 0, size: int = 0) -> None:
    """
    Drop the clean pages of a range; dirty, mapped and in-flight ones stay.

    A page or folio that is only partly inside stays as well: ranges must cover what was read from its beginning, not
    the last chunk of it.

    Args:
        fd: of the file.
        start: first byte.
        size: 0 stands for "to the end". A range that ends where the file ends takes its last, partial page too.
    """
    os.posix_fadvise(fd, start, size, os.POSIX_FADV_DONTNEED)


def _count_window(fd: int, offset: int, length: int) -> int | None:
    """Count the resident pages of one window; None where the file can't be mapped (some FUSE file systems)."""
    vector = ctypes.create_string_buffer((length + mmap.PAGESIZE - 1) // mmap.PAGESIZE)
    address = _mmap(None, length, _PROT_NONE, mmap.MAP_SHARED, fd, offset)
    if address == _MAP_FAILED:
        return None
    try:
        if _mincore(address, length, vector) != 0:
            return None
    finally:
        _munmap(address, length)
    return sum(byte & 1 for byte in vector.raw)
