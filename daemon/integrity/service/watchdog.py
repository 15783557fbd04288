"""
Check that the threads that must never hang are alive, for systemd's watchdog.

Idle threads are healthy. Threads of jobs are not checked: a job that hangs on a dead disk becomes a finding, and a
restarted service would hang again.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable

from integrity.service.sd_notify import Notifier, watchdog_interval_s

_log = logging.getLogger(__name__)


class Watchdog:
    """
    Keep the time of each thread's last beat. Any thread may use it; ``feed`` belongs to one.

    Args:
        patience_s: longest silence in seconds, by thread name.
        notifier: reports to systemd.
    """

    def __init__(
        self, patience_s: dict[str, float], notifier: Notifier, *, monotonic: Callable[[], float] = time.monotonic
    ) -> None:
        self._notifier = notifier
        self._fed_at = monotonic()
        self._patience_s = patience_s
        self._monotonic = monotonic
        self._lock = threading.Lock()
        self._last_at = dict.fromkeys(patience_s, monotonic())

    def beat(self, name: str) -> None:
        """Record a beat of a thread."""
        with self._lock:
            self._last_at[name] = self._monotonic()

    def feed(self) -> None:
        """Notify systemd if all threads are alive and a quarter of its interval has passed; else it restarts us."""
        interval_s = watchdog_interval_s()
        now = self._monotonic()
        if interval_s is None or now - self._fed_at < interval_s / 4:
            return
        self._fed_at = now
        silent = self.find_silent()
        if silent:
            _log.error("hangs: %s; systemd will start the service anew", ", ".join(silent))
        else:
            self._notifier.watchdog()

    def find_silent(self) -> list[str]:
        """Return the names of threads that have been silent for too long."""
        now = self._monotonic()
        with self._lock:
            return [name for name, at in self._last_at.items() if now - at > self._patience_s[name]]
