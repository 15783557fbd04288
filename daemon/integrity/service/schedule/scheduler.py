"""
When the daemon's work falls due: schedules, windows, and what is done every so often.

Decides the moments, and that each is told once: after a downtime one run makes up for all that were missed. The work
is the caller's: it is called in the scheduler's thread and only puts a job into a queue. APScheduler computes the
moments of cron expressions (``clock``). Waiting for them is done here: its own job store and thread hold the time of
the next run by the clock, which can be set, and forget it with the process. What must outlast the process is in the
catalog (``catalog.runs``).

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
"""A clock that is set back by less repeats no moment that has been told; by more, it was wrong then."""


class ScheduleEntry(Protocol):
    """Something that falls due again and again; not thread-safe: the scheduler holds its lock."""

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
        self, moments: TriggerTimes, call: Callable[[], None], clock: Callable[[], float], last_at: int | None
    ) -> None:
        self._moments = moments
        self._call = call
        self._clock = clock
        now = int(clock())
        self._told_at = now if last_at is None else min(last_at, now)  # the clock may have been wrong when it was noted
        self._due_at = now if last_at is None else max(now, moments.next_after(self._told_at))

    def wait_s(self) -> float:
        """See ScheduleEntry."""
        return self._due_at - self._clock()

    def fire(self) -> None:
        """See ScheduleEntry."""
        self._told_at = int(self._clock())
        self._due_at = self._moments.next_after(self._told_at)
        self._call()

    def rewind(self) -> None:
        """See ScheduleEntry."""
        now = int(self._clock())
        if self._told_at > now + _REPEAT_S:
            self._told_at = now
        self._due_at = min(self._due_at, self._moments.next_after(max(now, self._told_at)))

    def next_at(self) -> int:
        """See ScheduleEntry."""
        return self._due_at


class WindowEntry:
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

    def follow(self, other: WindowEntry) -> None:
        """Take the place of another: what that one told holds until it is found to be otherwise."""
        self._is_open, self._closes_at = other._is_open, other._closes_at

    def wait_s(self) -> float:
        """See ScheduleEntry."""
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
        """See ScheduleEntry."""
        self._change_at = min(self._change_at, self._clock())

    def next_at(self) -> int | None:
        """See ScheduleEntry."""
        return self._windows.next_opening(int(self._clock()))


class IntervalEntry:
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
        """See ScheduleEntry."""
        return self._due_at - self._monotonic()

    def fire(self) -> None:
        """See ScheduleEntry."""
        self._due_at = self._monotonic() + self._seconds
        self._call()

    def rewind(self) -> None:
        """Do nothing: its clock is another."""

    def next_at(self) -> int | None:
        """See ScheduleEntry."""
        return None


_LONGEST_WAIT_S = 60.0
_SHORTEST_WAIT_S = 0.001
_SET_BACK_S = 1.0
"""The clock may be moved back by less without anybody having set it."""


class Scheduler(RoundThread):
    """
    Tell when schedules and windows fall due. Any thread may use it; callbacks, too.

    Args:
        zone: in which schedules are meant; None for the machine's.
        clock: seconds UTC.
        monotonic: seconds that nobody sets, for what is done every so often.
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
        """The time zone in which schedules are meant."""
        return self._zone

    def add(self, name: str, schedule: str, due: Callable[[], None], *, last_started_at: int | None) -> None:
        """
        Have ``due`` called at the moments of a schedule; one of this name is replaced.

        If a moment was missed since ``last_started_at``, it is called at once; however many were missed, once.

        Args:
            name: of the schedule.
            schedule: as in the config.
            due: returns at once.
            last_started_at: when it was last begun; None: never, so it is due now.

        Raises:
            ValueError: it is no schedule.
        """
        moments = TriggerTimes(read_schedule(schedule), self._zone)
        self._put(name, Scheduled(moments, due, self._clock, last_started_at))

    def replace(self, name: str, schedule: str, due: Callable[[], None]) -> None:
        """
        Take another schedule in place of the one of this name, as after a change of the config.

        What is due is still told; what has been told is not told again for the new schedule's earlier moments.

        Raises:
            KeyError: there is none of this name.
            ValueError: it is no schedule.
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
        Have ``opened`` called when a window opens (at once if one is open) and ``closed`` when it closes.

        Windows of this name are replaced: those that were told to be open are told to be closed unless the new ones are
        open, too.

        Args:
            name: of the windows.
            windows: when. Of moments each is told by ``opened``, and nothing ever by ``closed``.
            opened: returns at once.
            closed: returns at once.
            last_opened_at: for moments, as in ``add``; where others are replaced, what these told counts.
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
                door = WindowEntry(windows, opened, closed, self._clock)
                if isinstance(old, WindowEntry):
                    door.follow(old)
                self._entries[name] = door
        self.call()

    def every(self, name: str, seconds: float, call: Callable[[], None]) -> None:
        """Have something called every so many seconds, however the clock is set; the first time at once."""
        self._put(name, IntervalEntry(seconds, call, self._monotonic))

    def remove(self, name: str) -> None:
        """Forget what has this name, if anything has; nothing is told."""
        with self._lock:
            self._entries.pop(name, None)

    def stop(self) -> None:
        """Tell no more, and wait for the call that is being made. Not from a callback; may be called again."""
        self.end()
        self.join()

    def next_runs(self) -> list[tuple[str, int]]:
        """List what falls due next, (name, seconds UTC), the soonest first; of windows when one opens."""
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
                if self._entries.get(name) is entry and entry.wait_s() <= 0:  # a call may have replaced it
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
        """Tell how long nothing falls due, as far as the clock can be trusted."""
        with self._lock:
            waits = [entry.wait_s() for entry in self._entries.values()]
        return max(_SHORTEST_WAIT_S, min([_LONGEST_WAIT_S, *waits]))
