"""
Whether the threads that must never hang still turn; systemd's watchdog is fed from it.

Idle is healthy. A job that hangs on a dead disk is none of these threads: it is a finding, and no reason to restart the
service, which would hang again.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable


class Watchdog:
    """
    Keep the last sign of life of some threads. Any thread may use it.

    Args:
        patience_s: tells for each name how long its thread may be silent.
        monotonic: seconds.
    """

    def __init__(self, patience_s: dict[str, float], *, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._patience_s = patience_s
        self._monotonic = monotonic
        self._lock = threading.Lock()
        self._last_at = dict.fromkeys(patience_s, monotonic())

    def beat(self, name: str) -> None:
        """Take a sign of life."""
        with self._lock:
            self._last_at[name] = self._monotonic()

    def find_silent(self) -> list[str]:
        """Name the threads that have been silent for too long."""
        now = self._monotonic()
        with self._lock:
            return [name for name, at in self._last_at.items() if now - at > self._patience_s[name]]
