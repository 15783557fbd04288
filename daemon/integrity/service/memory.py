"""
Keep the service small between its jobs.

The C library keeps what a job has freed, and has each thread keep its own: a service that records a large tree once
would stay as large for months. Other libraries than glibc have no such calls, and need none.

Python frees a job's objects late: they refer to each other in cycles, and full garbage collections become the rarer
the more a process holds. Until then they keep their memory, and descriptors as well.
"""

from __future__ import annotations

import ctypes
import gc
import time
from collections.abc import Callable

# malloc.h
_M_TRIM_THRESHOLD = -1
_M_MMAP_THRESHOLD = -3
_M_ARENA_MAX = -8

_ARENAS = 2
_LARGE_BYTES = 256 << 10

_BUSY_S = 60.0
"""So often memory is given back by a service that is never idle: 0.1 s of a minute, on the slowest machines 1 s."""

_libc = ctypes.CDLL(None)


def be_small() -> None:
    """Have threads share what they free, and large buffers go back at once; to be called before threads are started."""
    if hasattr(_libc, "mallopt"):
        _libc.mallopt(_M_ARENA_MAX, _ARENAS)
        _libc.mallopt(_M_MMAP_THRESHOLD, _LARGE_BYTES)  # else it grows with what is freed
        _libc.mallopt(_M_TRIM_THRESHOLD, _LARGE_BYTES)


class MemoryTrimmer:
    """
    Gives the system what jobs have left: when the last one has ended, and once a minute while others follow.

    Args:
        monotonic: seconds.
    """

    def __init__(self, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._monotonic = monotonic
        self._trimmed_at = monotonic()
        self._has_worked = False

    def job_ended(self) -> None:
        """Learn that there is something to give back; for any thread."""
        self._has_worked = True

    def trim(self, *, is_busy: bool) -> None:
        """Give memory back if it is time to; takes some tens of milliseconds then."""
        now = self._monotonic()
        if not self._has_worked or (is_busy and now - self._trimmed_at < _BUSY_S):
            return
        self._has_worked, self._trimmed_at = False, now
        gc.collect()
        if hasattr(_libc, "malloc_trim"):
            _libc.malloc_trim(0)
