"""
Keep the service small between its jobs.

The C library keeps what a job has freed, and has each thread keep its own: a service that records a large tree once
would stay as large for months. Other libraries than glibc have no such calls, and need none.
"""

from __future__ import annotations

import ctypes
import gc

# malloc.h
_M_TRIM_THRESHOLD = -1
_M_MMAP_THRESHOLD = -3
_M_ARENA_MAX = -8

_ARENAS = 2
_LARGE_BYTES = 256 << 10

_libc = ctypes.CDLL(None)


def be_small() -> None:
    """Have threads share what they free, and large buffers go back at once; to be called before threads are started."""
    if hasattr(_libc, "mallopt"):
        _libc.mallopt(_M_ARENA_MAX, _ARENAS)
        _libc.mallopt(_M_MMAP_THRESHOLD, _LARGE_BYTES)  # else it grows with what is freed
        _libc.mallopt(_M_TRIM_THRESHOLD, _LARGE_BYTES)


def give_back() -> None:
    """Give the system what is not used; takes some milliseconds."""
    gc.collect()
    if hasattr(_libc, "malloc_trim"):
        _libc.malloc_trim(0)
