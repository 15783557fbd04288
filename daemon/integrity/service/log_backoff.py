"""Back off from repeated log lines and pings: a failure that repeats, and refusals of one client."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable

from integrity.alerts.delivery import back_off_s

_QUIET_S = 3600.0
"""After this time without a refusal, the next one is logged at once."""

_log = logging.getLogger(__name__)


class LogBackoff:
    """Decide whether a repeated failure is reported: at once, then after one minute, two, four, up to an hour."""

    def __init__(self, monotonic: Callable[[], float]) -> None:
        self._monotonic = monotonic
        self._failures = 0
        self._until = 0.0

    def is_silent(self) -> bool:
        return self._failures > 0 and self._monotonic() < self._until

    def record_failure(self) -> None:
        """Record a failure. Repeats during the back-off do not extend it."""
        if not self.is_silent():
            self._until = self._monotonic() + back_off_s(self._failures)
            self._failures += 1

    def reset(self) -> None:
        """Record a success: the next failure is reported at once."""
        self._failures = 0


class RefusalLog:
    """
    Log refusals per user: the first at once, then counted, after one minute, two minutes, up to an hour.

    Any thread may use it. It keeps one entry per user and reason; few users can open the socket.
    """

    def __init__(self, monotonic: Callable[[], float]) -> None:
        self._monotonic = monotonic
        self._lock = threading.Lock()
        self._entries: dict[tuple[int, str], _Entry] = {}

    def note(self, uid: int, pid: int, reason: str, detail: str = "") -> None:
        """
        Log a refusal, or count it for the next line.

        Args:
            pid: of the client; the line names the last one.
            reason: one of a few fixed texts, each with its own line and back-off.
            detail: of this refusal; logged only if a line is due.
        """
        with self._lock:
            entry = self._entries.setdefault((uid, reason), _Entry(self._monotonic))
            times = entry.count()
        if times:
            more = f" ({detail})" if detail else ""
            _log.warning("control.refused uid=%d pid=%d times=%d: %s%s", uid, pid, times, reason, more)


class _Entry:
    """The refusals of one user for one reason."""

    def __init__(self, monotonic: Callable[[], float]) -> None:
        self._monotonic = monotonic
        self._backoff = LogBackoff(monotonic)
        self._count = 0
        self._last_at = monotonic()

    def count(self) -> int:
        """Count a refusal. Return the number since the last line if a line is due, else 0."""
        now = self._monotonic()
        if now - self._last_at > _QUIET_S:
            self._backoff.reset()
        self._last_at = now
        self._count += 1
        if self._backoff.is_silent():
            return 0
        self._backoff.record_failure()
        times, self._count = self._count, 0
        return times
