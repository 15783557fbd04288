"""
Map schedules and windows to a time zone, including clock changes.

APScheduler computes the moments on a UTC clock, and ``TriggerTimes`` applies the clock changes. APScheduler's own
handling skips the midnight after clocks go forward and repeats moments when they go back; it also counts weekdays from
Monday, and requires the day of the month and the weekday to match both, which cron does not.

``Windows`` follow the wall clock: a window is an hour longer in the night in which clocks go back, and an hour shorter
in spring. A window that begins in the skipped hour opens after the change; one that touches the repeated hour is open
for both.

Whoever asks what is due says what time it is, in seconds UTC; what must outlast the process is in ``catalog.runs``.

I1  Nothing is due twice for one moment, also if the clock is set back a little. After a downtime, a suspend or a jump
    of the clock ahead, one run makes up for all moments that were missed.
I2  A clock that is set back by more than an hour was wrong before: what is due next follows from the new time.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from datetime import UTC, date, datetime, timedelta, tzinfo
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING

from tzlocal import get_localzone

from integrity.units import DAYS, Cron, Span, read_windows, spell_windows

if TYPE_CHECKING:
    from apscheduler.triggers.base import BaseTrigger


def local_zone() -> tzinfo:
    """Return the machine's time zone, with its daylight saving rules; UTC if none is set, as in a container."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Can not find any timezone")  # which the C library takes for UTC, too
        return get_localzone()


def offset_at(zone: tzinfo, at: int) -> int:
    offset = datetime.fromtimestamp(at, zone).utcoffset()
    assert offset is not None
    return int(offset.total_seconds())


def find_change(zone: tzinfo, before: int, after: int) -> int:
    """Return the first second after ``before`` with the offset that the zone has at ``after``."""
    offset = offset_at(zone, after)
    while after - before > 1:
        middle = (before + after) // 2
        if offset_at(zone, middle) == offset:
            after = middle
        else:
            before = middle
    return after


_MOST_LEFT_OUT_S = 2 * 3600
"""Largest forward jump of a clock. Where a zone once skipped a whole day, its moments are skipped too."""


class TriggerTimes:
    """
    The moments of a schedule in a time zone.

    Args:
        zone: with its rules, not just an offset.
    """

    def __init__(self, cron: Cron, zone: tzinfo) -> None:
        self._zone = zone
        self._is_every_hour = cron.is_every_hour
        self._trigger = _make_trigger(cron)

    def next_after(self, at: int) -> int:
        """
        Return the first moment after a time.

        A moment that a clock change skips comes later by the length of the jump. A moment in a repeated hour comes
        once, except if the hour field begins with ``*``: then moments follow elapsed time.
        """
        return self._next_in_hours(at) if self._is_every_hour else self._next_in_days(at)

    def _next_in_days(self, at: int) -> int:
        """Follow the wall clock; a repeated time counts when it is first shown."""
        wall = at + offset_at(self._zone, at) - _MOST_LEFT_OUT_S
        while True:
            wall = self._next_shown(wall)
            shown = datetime.fromtimestamp(wall, UTC).replace(tzinfo=self._zone)
            if (moment := int(shown.timestamp())) > at:
                return moment

    def _next_in_hours(self, at: int) -> int:
        """Follow elapsed time: as if the clock never changed, starting again at each change."""
        while True:
            offset = offset_at(self._zone, at)
            moment = self._next_shown(at + offset) - offset
            if offset_at(self._zone, moment) == offset:
                return moment
            change = find_change(self._zone, at, moment)
            following = offset_at(self._zone, change)
            if (moment := self._next_shown(change - 1 + following) - following) == change:
                return moment
            at = change

    def _next_shown(self, wall: int) -> int:
        found = self._trigger.get_next_fire_time(None, datetime.fromtimestamp(wall + 1, UTC))
        assert found is not None  # the parser refuses dates that never occur
        return int(found.timestamp())


def _make_trigger(cron: Cron) -> BaseTrigger:
    from apscheduler.triggers.combining import OrTrigger  # here, for windows do without: 60 ms

    on_days = _spell(cron.days)
    on_weekdays = "*" if len(cron.weekdays) == len(DAYS) else ",".join(DAYS[day] for day in cron.weekdays)
    if cron.has_days and cron.has_weekdays:
        return OrTrigger([_make_cron_trigger(cron, on_days, "*"), _make_cron_trigger(cron, "*", on_weekdays)])
    return _make_cron_trigger(cron, on_days, on_weekdays)


def _make_cron_trigger(cron: Cron, days: str, weekdays: str) -> BaseTrigger:
    from apscheduler.triggers.cron import CronTrigger

    return CronTrigger(
        minute=_spell(cron.minutes),
        hour=_spell(cron.hours),
        day=days,
        month=_spell(cron.months),
        day_of_week=weekdays,
        timezone=UTC,
    )


def _spell(numbers: Sequence[int]) -> str:
    """Write numbers as a range if possible: APScheduler evaluates each part of a list every time."""
    if len(numbers) > 2 and numbers[-1] - numbers[0] == len(numbers) - 1:
        return f"{numbers[0]}-{numbers[-1]}"
    return ",".join(str(number) for number in numbers)


_MINUTE_S = 60
_DAY_MIN = 24 * 60
_AHEAD_DAYS = 16
"""Each weekly window opens within this many days, even if a clock change skips its first occurrence."""


def parse_windows(text: str, zone: tzinfo) -> Windows:
    """
    Parse windows in the config's syntax.

    Raises:
        ValueError: invalid syntax.
    """
    return Windows(read_windows(text), zone)


class Windows:
    """
    Weekly windows, or the moments of a cron expression.

    A moment opens a window that only the end of the work closes. All times are seconds UTC.

    Args:
        zone: with its rules, not just an offset.
    """

    def __init__(self, times: tuple[Span, ...] | Cron, zone: tzinfo) -> None:
        self._spans = () if isinstance(times, Cron) else times
        self._cron = times if isinstance(times, Cron) else None
        self._zone = zone

    @cached_property
    def moments(self) -> TriggerTimes | None:
        if self._cron is None:
            return None

        return TriggerTimes(self._cron, self._zone)

    @property
    def text(self) -> str | None:
        """The windows in the config's syntax; None for a cron expression."""
        return spell_windows(self._spans) if self._spans else None

    def is_open(self, at: int) -> bool:
        """Return whether work may start; for a cron expression, only in the minute of a moment."""
        if self.moments is not None:
            return self.moments.next_after(at - _MINUTE_S) <= at
        return any(opens <= at < closes for opens, closes in self._around(at, 1))

    def closes_at(self, at: int) -> int | None:
        """Return when the open window closes: ``at`` if none is open, None if it never closes by itself."""
        if self.moments is not None:
            return None
        closes = next((closes for opens, closes in self._around(at, _AHEAD_DAYS) if opens <= at < closes), at)
        return None if closes - at > (_AHEAD_DAYS - 2) * _DAY_MIN * _MINUTE_S else closes

    def next_opening(self, at: int) -> int | None:
        """Return the next opening after ``at``; None if the windows never close."""
        if self.moments is not None:
            return self.moments.next_after(at)
        return next((opens for opens, _ in self._around(at, _AHEAD_DAYS) if opens > at), None)

    def open_seconds(self, begin: int, end: int) -> int:
        """Return the seconds of a period in which work may run; for a cron expression, all from its first moment."""
        if end <= begin:
            return 0
        if self.moments is not None:
            return max(0, end - self.moments.next_after(begin - 1))
        days = self._merged(self._day(begin) - timedelta(2), self._day(end) + timedelta(1))
        return sum(max(0, min(closes, end) - max(opens, begin)) for opens, closes in days)

    def longer(self, minutes: int) -> Windows | None:
        """Return windows that close later; None for a cron expression, or if a window would last all day."""
        if not self._spans or any(span.end_min - span.start_min + minutes >= _DAY_MIN for span in self._spans):
            return None
        return Windows(tuple(span._replace(end_min=span.end_min + minutes) for span in self._spans), self._zone)

    def _day(self, at: int) -> date:
        return datetime.fromtimestamp(at, self._zone).date()

    def _around(self, at: int, days: int) -> Iterator[tuple[int, int]]:
        """Yield the open periods from before ``at`` until ``days`` after it."""
        return self._merged(self._day(at) - timedelta(2), self._day(at) + timedelta(days))

    def _merged(self, first: date, last: date) -> Iterator[tuple[int, int]]:
        """Yield the open periods that begin between two days, adjacent ones merged."""
        days = (first + timedelta(number) for number in range((last - first).days + 1))
        begun: tuple[int, int] | None = None
        for opens, closes in sorted(one for day in days for one in _stretches_of(self._zone, self._spans, day)):
            if begun is not None and opens <= begun[1]:
                begun = begun[0], max(begun[1], closes)
                continue
            if begun is not None:
                yield begun
            begun = opens, closes
        if begun is not None:
            yield begun


@lru_cache(maxsize=1024)  # plans query the same days repeatedly
def _stretches_of(zone: tzinfo, spans: tuple[Span, ...], day: date) -> tuple[tuple[int, int], ...]:
    """Return the open periods that begin on a day, without those inside a skipped hour."""
    found = (
        (_instant(zone, day, span.start_min, fold=0), _instant(zone, day, span.end_min, fold=1))
        for span in spans
        if day.weekday() in span.days
    )
    return tuple((opens, closes) for opens, closes in found if closes > opens)


def _instant(zone: tzinfo, day: date, minute: int, fold: int) -> int:
    """Return when the wall clock shows a time: the first or second time (``fold``), or when it jumps over it."""
    midnight = datetime(day.year, day.month, day.day, tzinfo=zone)
    wall = (midnight.replace(tzinfo=None) + timedelta(minutes=minute)).replace(tzinfo=zone, fold=fold)
    at = _seconds(wall)
    if datetime.fromtimestamp(at, zone).replace(tzinfo=None) == wall.replace(tzinfo=None):
        return at
    return find_change(zone, _seconds(wall.replace(fold=1)), _seconds(wall.replace(fold=0)))


def _seconds(wall: datetime) -> int:
    return round(wall.astimezone(UTC).timestamp())


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
