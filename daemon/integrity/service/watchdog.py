"""
Check that the threads that must never hang are alive, for systemd's watchdog.

Idle threads are healthy. Threads of jobs are not checked: a job that hangs on a dead disk becomes a finding, and a
restarted service would hang again.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable


class Watchdog:
    """
    Keep the time of each thread's last beat. Any thread may use it.

    Args:
        patience_s: longest silence in seconds, by thread name.
        monotonic: seconds.
    """

    def __init__(self, patience_s: dict[str, float], *, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._patience_s = patience_s
        self._monotonic = monotonic
        self._lock = threading.Lock()
        self._last_at = dict.fromkeys(patience_s, monotonic())

    def beat(self, name: str) -> None:
        """Record a beat of a thread."""
        with self._lock:
            self._last_at[name] = self._monotonic()

    def find_silent(self) -> list[str]:
        """Return the names of threads that have been silent for too long."""
        now = self._monotonic()
        with self._lock:
            return [name for name, at in self._last_at.items() if now - at > self._patience_s[name]]
