"""
When the daemon's work falls due: schedules, windows, and what is done every so often.

Decides the moments, and that each is told once: after a downtime one run makes up for all that were missed. The work
is the caller's: it is called in the scheduler's thread and only puts a job into a queue. ``clock`` computes the moments
of cron expressions. What must outlast the process is in the catalog (``catalog.runs``).

I1  Nothing is told twice for one moment, also if the clock is set back a little, and nothing by two threads at a time.
I2  Two minutes after the clock was set, or the machine woke up, all that is due by then has been told.
"""

from __future__ import annotations

import logging
import math
import threading
import time
from collections.abc import Callable
from datetime import tzinfo
from typing import Protocol

from integrity.config.times import read_schedule
from integrity.service.schedule.clock import TriggerTimes, Windows, local_zone
from integrity.threads import RoundThread

_log = logging.getLogger(__name__)

_REPEAT_S = 3600
"""If the clock is set back by less, no reported moment is repeated; if by more, the clock was wrong before."""


class ScheduleEntry(Protocol):
    """Something that falls due again and again; not thread-safe: the scheduler holds its lock."""

    def wait_s(self) -> float:
        """Return the seconds until it is due; zero or less if it is due."""

    def fire(self) -> None:
        """Call its callbacks. Afterwards it is no longer due, even if a callback fails."""

    def rewind(self) -> None:
        """Adjust to a clock that was set back."""

    def next_at(self) -> int | None:
        """Return the next time to show to people; None if it is of no interest to them."""


class Scheduled:
    """
    The entry of a schedule.

    Args:
        call: called at each moment.
        clock: seconds UTC.
        last_at: moments up to this time are done; None if it never ran, so it is due now.
    """

    def __init__(
        self, moments: TriggerTimes, call: Callable[[], None], clock: Callable[[], float], last_at: int | None
    ) -> None:
        self._moments = moments
        self._call = call
        self._clock = clock
        now = int(clock())
        self._reported_at = now if last_at is None else min(last_at, now)  # it may come from a wrong clock
        self._due_at = now if last_at is None else max(now, moments.next_after(self._reported_at))

    def wait_s(self) -> float:
        """See ScheduleEntry."""
        return self._due_at - self._clock()

    def fire(self) -> None:
        """See ScheduleEntry."""
        self._reported_at = int(self._clock())
        self._due_at = self._moments.next_after(self._reported_at)
        self._call()

    def rewind(self) -> None:
        """See ScheduleEntry."""
        now = int(self._clock())
        if self._reported_at > now + _REPEAT_S:
            self._reported_at = now
        self._due_at = min(self._due_at, self._moments.next_after(max(now, self._reported_at)))

    def next_at(self) -> int:
        """See ScheduleEntry."""
        return self._due_at


class WindowEntry:
    """
    The entry of windows.

    Args:
        opened: called when a window opens, or is found open.
        closed: called when a window that was reported as open has closed.
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
        self._closes_at: float = 0  # of the window reported as open, to recognize the next one
        self._change_at: float = clock()

    def shut(self) -> None:
        """Report an open window as closed, because another entry replaces this one."""
        if self._is_open:
            self._closed()

    def follow(self, other: WindowEntry) -> None:
        """Take over the reported state of the entry that this one replaces."""
        self._is_open, self._closes_at = other._is_open, other._closes_at

    def wait_s(self) -> float:
        """See ScheduleEntry."""
        return self._change_at - self._clock()

    def fire(self) -> None:
        """Check which window is open, and report changes."""
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
        """See ScheduleEntry."""
        self._change_at = min(self._change_at, self._clock())

    def next_at(self) -> int | None:
        """See ScheduleEntry."""
        return self._windows.next_opening(int(self._clock()))


class IntervalEntry:
    """
    The entry of a fixed interval, independent of clock changes.

    Args:
        seconds: between two calls.
        call: called each time.
        monotonic: seconds, never set.
    """

    def __init__(self, seconds: float, call: Callable[[], None], monotonic: Callable[[], float]) -> None:
        self._seconds = seconds
        self._call = call
        self._monotonic = monotonic
        self._due_at = monotonic()

    def wait_s(self) -> float:
        """See ScheduleEntry."""
        return self._due_at - self._monotonic()

    def fire(self) -> None:
        """See ScheduleEntry."""
        self._due_at = self._monotonic() + self._seconds
        self._call()

    def rewind(self) -> None:
        """Do nothing: the monotonic clock is never set back."""

    def next_at(self) -> int | None:
        """See ScheduleEntry."""
        return None


_LONGEST_WAIT_S = 60.0
_SHORTEST_WAIT_S = 0.001
_SET_BACK_S = 1.0
"""Smaller steps back are corrections, not a clock that was set."""


class Scheduler(RoundThread):
    """
    Call functions when schedules and windows fall due. Any thread may use it, callbacks too.

    Args:
        zone: time zone of the schedules; None uses the machine's.
        clock: seconds UTC.
        monotonic: seconds, never set, for intervals.
    """

    def __init__(
        self,
        *,
        zone: tzinfo | None = None,
        clock: Callable[[], float] = time.time,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        super().__init__("schedule")
        self._zone = zone or local_zone()
        self._clock = clock
        self._monotonic = monotonic
        self._entries: dict[str, ScheduleEntry] = {}
        self._seen_at = clock()
        self._lock = threading.RLock()

    @property
    def zone(self) -> tzinfo:
        """The time zone of the schedules."""
        return self._zone

    def add(self, name: str, schedule: str, due: Callable[[], None], *, last_started_at: int | None) -> None:
        """
        Call ``due`` at the moments of a schedule. Replaces an entry of this name.

        If moments were missed since ``last_started_at``, it is called at once, and only once.

        Args:
            schedule: in the config's syntax.
            due: returns at once.
            last_started_at: last start; None if it never ran, so it is due now.

        Raises:
            ValueError: not a schedule.
        """
        moments = TriggerTimes(read_schedule(schedule), self._zone)
        self._put(name, Scheduled(moments, due, self._clock, last_started_at))

    def replace(self, name: str, schedule: str, due: Callable[[], None]) -> None:
        """
        Replace the schedule of this name, as after a change of the config.

        What is due is still reported; the new schedule's earlier moments are not.

        Raises:
            KeyError: there is no entry of this name.
            ValueError: not a schedule.
        """
        moments = TriggerTimes(read_schedule(schedule), self._zone)
        with self._lock:
            old = self._entries[name]
            is_due = old.wait_s() <= 0
            self._entries[name] = Scheduled(moments, due, self._clock, None if is_due else int(self._clock()))
        self.call()

    def add_window(
        self,
        name: str,
        windows: Windows,
        opened: Callable[[], None],
        closed: Callable[[], None],
        *,
        last_opened_at: int | None = None,
    ) -> None:
        """
        Call ``opened`` when a window opens (at once if one is open) and ``closed`` when it closes.

        Replaces windows of this name: an open window is reported as closed unless the new ones are open too.

        Args:
            name: of the windows.
            windows: for a cron expression, ``opened`` is called at each moment and ``closed`` never.
            opened: returns at once.
            closed: returns at once.
            last_opened_at: for a cron expression, as in ``add``; ignored if replaced windows have already reported.
        """
        with self._lock:
            old = self._entries.get(name)
            if windows.moments is not None:
                if old is not None and old.wait_s() > 0:
                    last_opened_at = int(self._clock())
                self._entries[name] = Scheduled(windows.moments, opened, self._clock, last_opened_at)
                if isinstance(old, WindowEntry):
                    old.shut()
            else:
                entry = WindowEntry(windows, opened, closed, self._clock)
                if isinstance(old, WindowEntry):
                    entry.follow(old)
                self._entries[name] = entry
        self.call()

    def every(self, name: str, seconds: float, call: Callable[[], None]) -> None:
        """Call a function at a fixed interval, starting now, independent of clock changes."""
        self._put(name, IntervalEntry(seconds, call, self._monotonic))

    def remove(self, name: str) -> None:
        """Remove the entry of this name, if any. Nothing is called."""
        with self._lock:
            self._entries.pop(name, None)

    def stop(self) -> None:
        """Tell no more, and wait for the call that is being made. Not from a callback; may be called again."""
        self.end()
        self.join()

    def next_runs(self) -> list[tuple[str, int]]:
        """Return what falls due next as (name, seconds UTC), soonest first; for windows, the next opening."""
        with self._lock:
            runs = [(name, entry.next_at()) for name, entry in self._entries.items()]
        return sorted(((name, at) for name, at in runs if at is not None), key=lambda run: (run[1], run[0]))

    def tick(self) -> None:
        """Tell all that is due now. Called by the thread; whoever knows that the clock was set may, too."""
        with self._lock:
            now = self._clock()
            if now < self._seen_at - _SET_BACK_S:
                for entry in self._entries.values():
                    entry.rewind()
            self._seen_at = now
            for name, entry in list(self._entries.items()):
                if self._entries.get(name) is entry and entry.wait_s() <= 0:  # a callback may have replaced it
                    entry.fire()

    def _put(self, name: str, entry: ScheduleEntry) -> None:
        with self._lock:
            self._entries[name] = entry
        self.call()

    def _round(self) -> float:
        try:
            self.tick()
        except Exception:  # noqa: BLE001 - the top of this thread: a bug in one call must not end the schedule
            _log.exception("schedule_bug")
        return self._wait_s()

    def _wait_s(self) -> float:
        """Return the seconds until the next entry is due, limited because the clock may be set."""
        with self._lock:
            waits = [entry.wait_s() for entry in self._entries.values()]
        return max(_SHORTEST_WAIT_S, min([_LONGEST_WAIT_S, *waits]))
