"""
What a time zone does with its clocks.

When a schedule's moments are, in a time zone.

APScheduler finds them on a clock that is never changed; what the changes of a real one make of them is decided here,
for its own answer skips the midnight after clocks were put on, and doubles moments when they are put back. It also
counts the week's days from Monday, and wants both of two limits on the day met: cron does neither.

When windows are open, in a time zone.

Decides what a window of the clock on the wall means in time that passes: one hour more in the night in which clocks are
put back, one less in spring. A window that begins at an hour that is left out opens when the clock has been put on; one
that touches an hour that comes twice is open as a whole.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import UTC, date, datetime, timedelta, tzinfo
from functools import cached_property, lru_cache

from apscheduler.triggers.base import BaseTrigger
from apscheduler.triggers.combining import OrTrigger
from apscheduler.triggers.cron import CronTrigger
from tzlocal import get_localzone

from integrity.config.times import DAYS, Cron, Span, read_windows, spell_windows


def local_zone() -> tzinfo:
    """Find the machine's time zone, with its rules for summer time."""
    return get_localzone()


def offset_at(zone: tzinfo, at: int) -> int:
    """Tell how many seconds a zone's clocks are ahead of UTC."""
    offset = datetime.fromtimestamp(at, zone).utcoffset()
    assert offset is not None
    return int(offset.total_seconds())


def find_change(zone: tzinfo, before: int, after: int) -> int:
    """Find the first second with the offset that a zone has at ``after`` and not yet at ``before``."""
    offset = offset_at(zone, after)
    while after - before > 1:
        middle = (before + after) // 2
        if offset_at(zone, middle) == offset:
            after = middle
        else:
            before = middle
    return after


_MOST_LEFT_OUT_S = 2 * 3600
"""No clock is put on by more; where a whole day was once left out, so were its moments."""


class TriggerTimes:
    """
    The moments of a schedule in a time zone.

    Args:
        cron: which.
        zone: with its rules, not a mere offset.
    """

    def __init__(self, cron: Cron, zone: tzinfo) -> None:
        self._zone = zone
        self._is_every_hour = cron.is_every_hour
        self._trigger = _make_trigger(cron)

    def next_after(self, at: int) -> int:
        """
        Find the first moment after a time.

        One that a clock change leaves out comes as much later as the clock was put on; one that it doubles comes once,
        unless every hour has one: then there is one in each real hour.
        """
        return self._next_in_hours(at) if self._is_every_hour else self._next_in_days(at)

    def _next_in_days(self, at: int) -> int:
        """Go by what a clock on the wall shows, the first time that it does."""
        wall = at + offset_at(self._zone, at) - _MOST_LEFT_OUT_S
        while True:
            wall = self._next_shown(wall)
            shown = datetime.fromtimestamp(wall, UTC).replace(tzinfo=self._zone)
            if (moment := int(shown.timestamp())) > at:
                return moment

    def _next_in_hours(self, at: int) -> int:
        """Go by the time that passes: as if the clock were never changed, and again from each change on."""
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
        assert found is not None  # the grammar refuses days that never come
        return int(found.timestamp())


def _make_trigger(cron: Cron) -> BaseTrigger:
    on_days, on_weekdays = _spell(cron.days), ",".join(DAYS[day] for day in cron.weekdays)
    on_weekdays = on_weekdays if cron.has_weekdays else "*"
    if cron.has_days and cron.has_weekdays:
        return OrTrigger([_make_cron_trigger(cron, on_days, "*"), _make_cron_trigger(cron, "*", on_weekdays)])
    return _make_cron_trigger(cron, on_days, on_weekdays)


def _make_cron_trigger(cron: Cron, days: str, weekdays: str) -> CronTrigger:
    return CronTrigger(
        minute=_spell(cron.minutes),
        hour=_spell(cron.hours),
        day=days,
        month=_spell(cron.months),
        day_of_week=weekdays,
        timezone=UTC,
    )


def _spell(numbers: Sequence[int]) -> str:
    """Write numbers as short as can be: each part of a list is asked each time."""
    if len(numbers) > 2 and numbers[-1] - numbers[0] == len(numbers) - 1:
        return f"{numbers[0]}-{numbers[-1]}"
    return ",".join(str(number) for number in numbers)


_MINUTE_S = 60
_DAY_MIN = 24 * 60
_AHEAD_DAYS = 16
"""Every window of the week comes within so many days, even if its first turn falls into an hour that is left out."""


def parse_windows(text: str, zone: tzinfo) -> Windows:
    """
    Read windows as they stand in the config.

    Raises:
        ValueError: they are none.
    """
    return Windows(read_windows(text), zone)


class Windows:
    """
    Windows of the week, or moments of a cron expression.

    At such a moment one opens that nothing but the end of the work closes. All times are seconds UTC.

    Args:
        times: which.
        zone: with its rules, not a mere offset.
    """

    def __init__(self, times: tuple[Span, ...] | Cron, zone: tzinfo) -> None:
        self._spans = () if isinstance(times, Cron) else times
        self._cron = times if isinstance(times, Cron) else None
        self._zone = zone

    @cached_property
    def moments(self) -> TriggerTimes | None:
        """The moments at which a cron expression opens; None for windows of the week."""
        if self._cron is None:
            return None

        return TriggerTimes(self._cron, self._zone)

    @property
    def text(self) -> str | None:
        """The windows as the config spells them; None for a cron expression."""
        return spell_windows(self._spans) if self._spans else None

    def is_open(self, at: int) -> bool:
        """Say whether work may be begun; with a cron expression that is so for the minute that it names."""
        if self.moments is not None:
            return self.moments.next_after(at - _MINUTE_S) <= at
        return any(opens <= at < closes for opens, closes in self._around(at, 1))

    def closes_at(self, at: int) -> int | None:
        """Tell when what is open closes: ``at`` itself if nothing is open, None if it never closes by itself."""
        if self.moments is not None:
            return None
        closes = next((closes for opens, closes in self._around(at, _AHEAD_DAYS) if opens <= at < closes), at)
        return None if closes - at > (_AHEAD_DAYS - 2) * _DAY_MIN * _MINUTE_S else closes

    def next_opening(self, at: int) -> int | None:
        """Tell when one opens the next time after ``at``; None if they never close."""
        if self.moments is not None:
            return self.moments.next_after(at)
        return next((opens for opens, _ in self._around(at, _AHEAD_DAYS) if opens > at), None)

    def open_seconds(self, begin: int, end: int) -> int:
        """Count the seconds of a stretch of time in which work may be done: with moments, all from the first one on."""
        if end <= begin:
            return 0
        if self.moments is not None:
            return max(0, end - self.moments.next_after(begin - 1))
        days = self._merged(self._day(begin) - timedelta(2), self._day(end) + timedelta(1))
        return sum(max(0, min(closes, end) - max(opens, begin)) for opens, closes in days)

    def longer(self, minutes: int) -> Windows | None:
        """Make windows that close so much later; None for a cron expression, or if one would last all day."""
        if not self._spans or any(span.end_min - span.start_min + minutes >= _DAY_MIN for span in self._spans):
            return None
        return Windows(tuple(span._replace(end_min=span.end_min + minutes) for span in self._spans), self._zone)

    def _day(self, at: int) -> date:
        return datetime.fromtimestamp(at, self._zone).date()

    def _around(self, at: int, days: int) -> Iterator[tuple[int, int]]:
        """Go through the openings from before ``at`` until so many days after it."""
        return self._merged(self._day(at) - timedelta(2), self._day(at) + timedelta(days))

    def _merged(self, first: date, last: date) -> Iterator[tuple[int, int]]:
        """Go through the stretches of time that begin on some days; what touches is one."""
        stretches = sorted(self._stretches(first, last))
        begun: tuple[int, int] | None = None
        for opens, closes in stretches:
            if begun is not None and opens <= begun[1]:
                begun = begun[0], max(begun[1], closes)
                continue
            if begun is not None:
                yield begun
            begun = opens, closes
        if begun is not None:
            yield begun

    def _stretches(self, first: date, last: date) -> Iterator[tuple[int, int]]:
        for number in range((last - first).days + 1):
            yield from _stretches_of(self._zone, self._spans, first + timedelta(number))


@lru_cache(maxsize=1024)  # plans ask for the same days again and again
def _stretches_of(zone: tzinfo, spans: tuple[Span, ...], day: date) -> tuple[tuple[int, int], ...]:
    """List the stretches of time that begin on a day; none of those that lie in an hour that is left out."""
    found = (
        (_instant(zone, day, span.start_min, fold=0), _instant(zone, day, span.end_min, fold=1))
        for span in spans
        if day.weekday() in span.days
    )
    return tuple((opens, closes) for opens, closes in found if closes > opens)


def _instant(zone: tzinfo, day: date, minute: int, fold: int) -> int:
    """Tell when a clock on the wall shows a time: the first or second time (``fold``), or when it jumps over it."""
    midnight = datetime(day.year, day.month, day.day, tzinfo=zone)
    wall = (midnight.replace(tzinfo=None) + timedelta(minutes=minute)).replace(tzinfo=zone, fold=fold)
    at = _seconds(wall)
    if datetime.fromtimestamp(at, zone).replace(tzinfo=None) == wall.replace(tzinfo=None):
        return at
    return find_change(zone, _seconds(wall.replace(fold=1)), _seconds(wall.replace(fold=0)))


def _seconds(wall: datetime) -> int:
    return round(wall.astimezone(UTC).timestamp())
