"""
Decide what is due when somebody looks: the moments of a schedule, and windows that open and close.

Whoever looks says what time it is, in seconds UTC. What must outlast the process is in the catalog (``catalog.runs``).

I1  Nothing is due twice for one moment, also if the clock is set back a little. After a downtime, a suspend or a jump
    of the clock ahead, one run makes up for all moments that were missed.
I2  A clock that is set back by more than an hour was wrong before: what is due next follows from the new time.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from integrity.service.schedule.clock import TriggerTimes, Windows

_REPEAT_S = 3600
_DAY_S = 86_400


class Recurrence:
    """
    The moments of a schedule, each of which is due once.

    Args:
        last_at: moments up to this time are done; None: it never ran, so it is due now.
    """

    def __init__(self, moments: TriggerTimes, *, last_at: int | None, now: int) -> None:
        self._moments = moments
        self._due_at = self._done_at = now
        if last_at is not None:
            self._wait(min(last_at, now))  # it may come from a wrong clock

    def take(self, now: int) -> bool:
        """Return whether it is due; then it no longer is."""
        is_due = self._due_at <= now
        if is_due or self._done_at > now + _REPEAT_S:
            self._wait(now)
        return is_due

    def change(self, moments: TriggerTimes, now: int) -> None:
        """Follow other moments from now on; what is due stays due."""
        self._moments = moments
        if self._due_at > now:
            self._wait(now)

    def next_at(self, now: int) -> int:
        """Return when it is due next."""
        return max(now, self._due_at)

    def _wait(self, done_at: int) -> None:
        self._done_at, self._due_at = done_at, self._moments.next_after(done_at)


class Openings:
    """
    Windows, of which the same one is open at two looks or not; moments of a cron expression open one that never closes.

    A window that is always open counts as a new one each day.

    Args:
        last_at: of the last opening, for a cron expression: as for ``Recurrence``.
    """

    def __init__(self, windows: Windows, *, last_at: int, now: int) -> None:
        self._windows = windows
        self._recurrence = _make_recurrence(windows, last_at=last_at, now=now)
        self._closes_at = 0  # of the window that was open at the last look

    def look(self, now: int) -> tuple[bool, bool]:
        """Return whether the window that was open has closed, and whether one has opened."""
        was_open, is_same, closes_at = self._closes_at > 0, False, 0
        if self._recurrence is not None:
            is_open = self._recurrence.take(now)
        elif is_open := self._windows.is_open(now):
            is_same = now < self._closes_at
            closes_at = self._windows.closes_at(now) or (self._closes_at if is_same else now + _DAY_S)
        self._closes_at = closes_at
        return was_open and not is_same, is_open and not is_same

    def change(self, windows: Windows, now: int) -> None:
        """Follow other windows; an open one stays the same if they are open, too. What is due stays due."""
        self._windows = windows
        if self._recurrence is not None and windows.moments is not None:
            self._recurrence.change(windows.moments, now)
        else:
            self._recurrence = _make_recurrence(windows, last_at=now, now=now)

    def next_at(self, now: int) -> int | None:
        """Return when a window opens next; None: it is always open."""
        return self._windows.next_opening(now) if self._recurrence is None else self._recurrence.next_at(now)


def _make_recurrence(windows: Windows, *, last_at: int, now: int) -> Recurrence | None:
    return None if windows.moments is None else Recurrence(windows.moments, last_at=last_at, now=now)
