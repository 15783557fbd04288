"""
When a schedule's moments are, in a time zone.

APScheduler finds them on a clock that is never changed; what the changes of a real one make of them is decided here,
for its own answer skips the midnight after clocks were put on, and doubles moments when they are put back. It also
counts the week's days from Monday, and wants both of two limits on the day met: cron does neither.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, tzinfo

from apscheduler.triggers.base import BaseTrigger
from apscheduler.triggers.combining import OrTrigger
from apscheduler.triggers.cron import CronTrigger

from integrity.config.times import DAYS, Cron
from integrity.service.zones import find_change, offset_at

_MOST_LEFT_OUT_S = 2 * 3600
"""No clock is put on by more; where a whole day was once left out, so were its moments."""


class Moments:
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
