"""Back off from saying the same again and again: a failure that repeats, and refusals of one client."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable

from integrity.alerts.delivery import back_off_s

_QUIET_S = 3600.0
"""After so long without a refusal the next one is news."""

_log = logging.getLogger(__name__)


class LogBackoff:
    """
    Decide whether a repeated failure is logged: at once, after a minute, twice as long each time, up to an hour.

    Args:
        monotonic: seconds.
    """

    def __init__(self, monotonic: Callable[[], float]) -> None:
        self._monotonic = monotonic
        self._failures = 0
        self._until = 0.0

    def is_silent(self) -> bool:
        """Say whether the back-off is not over."""
        return self._failures > 0 and self._monotonic() < self._until

    def record_failure(self) -> None:
        """Record a failure. Repeats during the back-off do not extend it."""
        if not self.is_silent():
            self._until = self._monotonic() + back_off_s(self._failures)
            self._failures += 1

    def reset(self) -> None:
        """Record a success: the next failure is logged at once."""
        self._failures = 0


class RefusalLog:
    """
    Log what was refused to a user: at once, then counted, after a minute, two minutes, up to an hour.

    Any thread may use it. It keeps one entry for each user and reason, and users who can open the socket are few.

    Args:
        monotonic: seconds.
    """

    def __init__(self, monotonic: Callable[[], float]) -> None:
        self._monotonic = monotonic
        self._lock = threading.Lock()
        self._entries: dict[tuple[int, str], _Entry] = {}

    def note(self, uid: int, pid: int, reason: str, detail: str = "") -> None:
        """
        Log a refusal, or count it for the next line.

        Args:
            uid: of the user.
            pid: of the client; the line names the last one.
            reason: one of a few fixed texts: each has a line of its own.
            detail: of this refusal, for the line if there is one.
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
        """Count a refusal; return how many there were since the last line if it is time for another one, else 0."""
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
