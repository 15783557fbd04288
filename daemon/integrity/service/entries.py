"""
What the scheduler looks after: schedules, windows, and what is done every so often.

Each knows when it falls due next and what is called then. They are not thread-safe; the scheduler's lock is held
whenever one is used.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Protocol

from integrity.service.moments import Moments
from integrity.service.schedule.clock import Windows

_REPEAT_S = 3600
"""A clock that is set back by less repeats no moment that has been told; by more, it was wrong then."""


class Entry(Protocol):
    """Something that falls due again and again."""

    def wait_s(self) -> float:
        """Tell in how many seconds it falls due; not above 0 if it is due."""

    def fire(self) -> None:
        """Call what is to be called; afterwards it is not due any more, even if the call fails."""

    def rewind(self) -> None:
        """Learn that the clock was set back."""

    def next_at(self) -> int | None:
        """Tell when people would say that it comes next; None if they need not know."""


class Scheduled:
    """
    A schedule.

    Args:
        moments: of it.
        call: is called at each of them.
        clock: seconds UTC.
        last_at: what was due before has been done; None: nothing has.
    """

    def __init__(
        self, moments: Moments, call: Callable[[], None], clock: Callable[[], float], last_at: int | None
    ) -> None:
        self._moments = moments
        self._call = call
        self._clock = clock
        now = int(clock())
        self._told_at = now if last_at is None else min(last_at, now)  # the clock may have been wrong when it was noted
        self._due_at = now if last_at is None else max(now, moments.next_after(self._told_at))

    def wait_s(self) -> float:
        """See Entry."""
        return self._due_at - self._clock()

    def fire(self) -> None:
        """See Entry."""
        self._told_at = int(self._clock())
        self._due_at = self._moments.next_after(self._told_at)
        self._call()

    def rewind(self) -> None:
        """See Entry."""
        now = int(self._clock())
        if self._told_at > now + _REPEAT_S:
            self._told_at = now
        self._due_at = min(self._due_at, self._moments.next_after(max(now, self._told_at)))

    def next_at(self) -> int:
        """See Entry."""
        return self._due_at


class Door:
    """
    Windows: what is called when one opens and when it closes.

    Args:
        windows: of the week.
        opened: is called when one opens, or is found open.
        closed: is called when one that was told to be open has closed.
        clock: seconds UTC.
    """

    def __init__(
        self, windows: Windows, opened: Callable[[], None], closed: Callable[[], None], clock: Callable[[], float]
    ) -> None:
        self._windows = windows
        self._opened = opened
        self._closed = closed
        self._clock = clock
        self._is_open = False
        self._closes_at: float = 0  # of what was told to be open: the next night's window is another one
        self._change_at: float = clock()

    def shut(self) -> None:
        """Tell that what was open is closed: something else takes its place."""
        if self._is_open:
            self._closed()

    def follow(self, other: Door) -> None:
        """Take the place of another: what that one told holds until it is found to be otherwise."""
        self._is_open, self._closes_at = other._is_open, other._closes_at

    def wait_s(self) -> float:
        """See Entry."""
        return self._change_at - self._clock()

    def fire(self) -> None:
        """Find out what is open now, and call what says so if that is new."""
        now, was_open = int(self._clock()), self._is_open
        is_same = was_open and now < self._closes_at
        self._is_open = self._windows.is_open(now)
        change_at = self._windows.closes_at(now) if self._is_open else self._windows.next_opening(now)
        self._change_at = math.inf if change_at is None else change_at
        self._closes_at = self._change_at
        if was_open and not (self._is_open and is_same):
            self._closed()
        if self._is_open and not is_same:
            self._opened()

    def rewind(self) -> None:
        """See Entry."""
        self._change_at = min(self._change_at, self._clock())

    def next_at(self) -> int | None:
        """See Entry."""
        return self._windows.next_opening(int(self._clock()))


class Beat:
    """
    What is done every so often, however the clock is set.

    Args:
        seconds: between two calls.
        call: is called.
        monotonic: seconds that nobody sets.
    """

    def __init__(self, seconds: float, call: Callable[[], None], monotonic: Callable[[], float]) -> None:
        self._seconds = seconds
        self._call = call
        self._monotonic = monotonic
        self._due_at = monotonic()

    def wait_s(self) -> float:
        """See Entry."""
        return self._due_at - self._monotonic()

    def fire(self) -> None:
        """See Entry."""
        self._due_at = self._monotonic() + self._seconds
        self._call()

    def rewind(self) -> None:
        """Do nothing: its clock is another."""

    def next_at(self) -> int | None:
        """See Entry."""
        return None
