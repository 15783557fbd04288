"""How fast a job may read: a ceiling in bytes a second, kept over any stretch longer than a second."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from integrity.jobs.stop import Stop

BURST_S = 0.25
"""So much of a second's allowance may be read at once; what was not used up is not saved for longer."""


class Throttle:
    """
    Make readers wait so that together they keep below a rate. Thread-safe.

    Args:
        rate_bytes_per_s: the ceiling.
        stop: ends all waiting at once.
        monotonic: the clock, in seconds.
        wait: how to wait; True when the job was asked to stop meanwhile.
    """

    def __init__(
        self,
        rate_bytes_per_s: int,
        stop: Stop,
        *,
        monotonic: Callable[[], float] = time.monotonic,
        wait: Callable[[float], bool] | None = None,
    ) -> None:
        self._rate = rate_bytes_per_s
        self._wait = wait or stop.wait
        self._monotonic = monotonic
        self._lock = threading.Lock()
        self._paid_until = monotonic()

    def duration_s(self, size_bytes: int) -> float:
        """Tell how long so many bytes take at this rate."""
        return size_bytes / self._rate

    def take(self, size_bytes: int) -> None:
        """Wait until ``size_bytes`` more may be read: what is read has been waited for, the first piece, too."""
        with self._lock:
            now = self._monotonic()
            self._paid_until = max(self._paid_until, now - BURST_S) + size_bytes / self._rate
            delay = self._paid_until - now
        if delay > 0:
            self._wait(delay)
