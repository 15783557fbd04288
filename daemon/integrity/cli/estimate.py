"""
How long a job will still take, estimated from what it did so far.

A file costs time of its own, besides that of its bytes: with bytes alone, thousands of small files followed by a few
large ones let the estimate swing by a factor of 50. So work is counted as bytes plus a fixed number of them for each
file. The speed is that of a window that grows with the run.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable

_FILE_BYTES = 512 << 10
"""
Bytes that take as long as opening a file: some 100 KB on an NVMe disk, over 1 MB on a hard disk.

With the middle of these the total swings by a factor of 2 on a hard disk, of 3 on an NVMe disk.
"""

_BASIS_S = 10.0
_SAMPLE_S = 1.0
_WINDOW_S = 60.0
_WINDOW_SHARE = 0.5  # of the time that the job has run
_RATE_WINDOW_S = 10.0


class TimeLeft:
    """
    Estimates for one job, from the first observation on.

    Args:
        monotonic: a clock in seconds.
    """

    def __init__(self, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._monotonic = monotonic
        self._last: tuple[float, int, int] | None = None  # when, files, bytes
        self._ran_s = 0.0
        self._work = _Speed()
        self._bytes = _Speed()

    @property
    def bytes_per_s(self) -> float | None:
        """Return how fast the last bytes were read; None: not known yet."""
        return self._bytes.per_s

    def observe(self, files_done: int, bytes_done: int) -> None:
        """Note how far the job is now."""
        now = self._monotonic()
        if self._last is None:
            self._last = now, files_done, bytes_done
            return
        at, files_before, bytes_before = self._last
        if now - at < _SAMPLE_S:
            return
        self._last = now, files_done, bytes_done
        self._ran_s += now - at
        size = max(0, bytes_done - bytes_before)
        work = size + max(0, files_done - files_before) * _FILE_BYTES
        self._work.add(work, now - at, max(_WINDOW_S, self._ran_s * _WINDOW_SHARE))
        self._bytes.add(size, now - at, _RATE_WINDOW_S)

    def estimate_s(self, files_left: int, bytes_left: int) -> float | None:
        """Return the seconds that the rest takes; None while there is no basis for an estimate."""
        speed = self._work.per_s
        if self._ran_s < _BASIS_S or not speed:
            return None
        return (max(0, files_left) * _FILE_BYTES + max(0, bytes_left)) / speed


class _Speed:
    """An amount per second, in which what is longer ago counts less."""

    def __init__(self) -> None:
        self._amount = self._seconds = 0.0

    @property
    def per_s(self) -> float | None:
        return self._amount / self._seconds if self._seconds else None

    def add(self, amount: float, seconds: float, window_s: float) -> None:
        kept = math.exp(-seconds / window_s)
        self._amount = self._amount * kept + amount
        self._seconds = self._seconds * kept + seconds


def about(seconds: float) -> str:
    """Write an estimated time without digits that it does not have: "about 20 min", "about 3 h 30 min"."""
    if seconds < 60:
        return "less than a minute"
    minutes = seconds / 60
    # Up to so many minutes, rounded to so many.
    steps = ((10, 1), (60, 5), (120, 10), (600, 30), (2880, 60))
    step = next((step for limit, step in steps if minutes < limit), None)
    if step is None:
        return f"about {round(minutes / 1440)} days"
    hours, rest = divmod(round(minutes / step) * step, 60)
    words = [f"{hours} h"] if hours else []
    words += [f"{rest} min"] if rest else []
    return f"about {' '.join(words)}"
