"""
Measure how much of a file is in the page cache, without changing that, and drop clean pages.

cachestat(2) (Linux 6.5) counts; before 6.5, mincore(2) does, on a PROT_NONE mapping, so that no read error or
truncation can raise a signal. Both need the file's owner or root, because residency reveals what others read (newer
kernels refuse cachestat, mincore answers "all"): otherwise the result is None, and callers leave the cache alone.
"""

from __future__ import annotations

import ctypes
import errno
import mmap
import os
from collections.abc import Iterator

from integrity.files.syscalls import CACHESTAT
from integrity.model import ByteRange

_LITTLE = 16
"""At most 1/16 of a file may be missing from memory: the kernel also evicts a few pages of files in use."""

_PROT_NONE = 0
_MAP_FAILED = ctypes.c_void_p(-1).value
_WINDOW_BYTES = 1 << 30  # mincore: a vector of 256 KiB per call


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


# Looked up and typed once: a scan calls these for every file.
_libc = ctypes.CDLL(None, use_errno=True)
_syscall = _libc.syscall
_syscall.restype = ctypes.c_long
_syscall.argtypes = (ctypes.c_long, ctypes.c_int, ctypes.POINTER(_Range), ctypes.POINTER(_CacheCounts), ctypes.c_uint)
_mmap = _libc.mmap
_mmap.restype = ctypes.c_void_p
_mmap.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_int64)
_munmap = _libc.munmap
_munmap.argtypes = (ctypes.c_void_p, ctypes.c_size_t)
_mincore = _libc.mincore
_mincore.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_char_p)


def lies_in_memory(fd: int) -> bool:
    """Return whether an open file is (nearly) all in the page cache; False if unknown."""
    size = os.fstat(fd).st_size
    return (resident_bytes(fd, size) or 0) >= size - size // _LITTLE


def resident_bytes(fd: int, size: int, start: int = 0) -> int | None:
    """
    Count the bytes of whole cached pages that overlap ``size`` bytes from ``start``.

    Returns:
        None if unknown: the kernel does not support it, or the file belongs to somebody else.
    """
    if size <= 0:
        return 0
    counts = _CacheCounts()
    if _syscall(CACHESTAT, fd, _Range(start, size), counts, 0) == 0:
        return int(counts.cache) * mmap.PAGESIZE
    code = ctypes.get_errno()
    if code in (errno.ENOSYS, errno.EPERM):  # older container filters also answer EPERM to unknown calls
        return resident_bytes_by_mincore(fd, size, start)
    if code == errno.EOPNOTSUPP:
        return None
    raise OSError(code, os.strerror(code))


def resident_bytes_by_mincore(fd: int, size: int, start: int = 0) -> int | None:
    """Count as ``resident_bytes`` does, on kernels before 6.5."""
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
    """Return the value of ``resident_bytes`` for a range that is all in memory."""
    if size <= 0:
        return 0
    return ((start + size - 1) // mmap.PAGESIZE - start // mmap.PAGESIZE + 1) * mmap.PAGESIZE


def find_absent(fd: int, start: int, size: int, grain_bytes: int = mmap.PAGESIZE) -> Iterator[ByteRange]:
    """
    Yield the parts of a range that are not in memory, in order, by bisection; adjacent parts may touch.

    Yields nothing where residency is unknown, or for a piece of at most ``grain_bytes`` that is partly in memory.
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
    Drop the clean pages of a range; dirty, mapped and in-flight pages stay.

    A page or folio that is only partly inside stays as well: the range must begin where reading began, not at the last
    chunk.

    Args:
        start: first byte.
        size: 0 means "to the end". A range that ends at the end of the file includes its last, partial page.
    """
    os.posix_fadvise(fd, start, size, os.POSIX_FADV_DONTNEED)


def _count_window(fd: int, offset: int, length: int) -> int | None:
    """Count the resident pages of one window; None if the file cannot be mapped (some FUSE file systems)."""
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
