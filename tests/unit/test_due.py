"""What falls due is due once: after downtimes, suspends and changes of the clock, too."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from integrity.service.schedule.clock import Openings, Recurrence, TriggerTimes, parse_windows
from integrity.units import read_schedule
from support.berlin import BERLIN, at

HOUR_S = 3600
DAY_S = 24 * HOUR_S
NOON = "2026-11-21 12:00"


def moments(schedule: str) -> TriggerTimes:
    return TriggerTimes(read_schedule(schedule), BERLIN)


class Box:
    """A schedule and windows on a clock that only the test moves, and what was due at each look."""

    def __init__(self, text: str) -> None:
        self.now = at(text)
        self.told: list[str] = []
        self.schedule: Recurrence | None = None
        self.openings: Openings | None = None

    def look(self) -> None:
        """Look once, as the service does each half minute."""
        is_due = self.schedule is not None and self.schedule.take(self.now)
        has_closed, has_opened = (False, False) if self.openings is None else self.openings.look(self.now)
        moment = datetime.fromtimestamp(self.now, UTC).astimezone(BERLIN)
        for what, is_so in (("scan", is_due), ("close", has_closed), ("open", has_opened)):
            self.told += [f"{what} {moment:%d %H:%M}"] if is_so else []

    def pass_time(self, seconds: int, *, step_s: int = 60) -> list[str]:
        """Let time pass, with a look at each step; return what was due."""
        end = self.now + seconds
        while self.now < end:
            self.now += step_s
            self.look()
        told, self.told = self.told, []
        return told

    def add(self, schedule: str, last: int | None) -> None:
        self.schedule = Recurrence(moments(schedule), last_at=last, now=self.now)

    def add_window(self, text: str, last: int | None = None) -> None:
        self.openings = Openings(parse_windows(text, BERLIN), last_at=self.now if last is None else last, now=self.now)

    def change_window(self, text: str) -> None:
        assert self.openings is not None
        self.openings.change(parse_windows(text, BERLIN), self.now)
        self.look()


@pytest.mark.parametrize(
    ("schedule", "begin", "last", "told"),
    [
        pytest.param("daily", NOON, "2026-11-21 00:00", ["22 00:00", "23 00:00"], id="once each"),
        pytest.param("daily", NOON, "2026-11-14 00:00", ["21 12:01", "22 00:00", "23 00:00"], id="missed"),
        pytest.param("daily", NOON, None, ["21 12:01", "22 00:00", "23 00:00"], id="never ran"),
        pytest.param("daily", NOON, "2030-01-01 00:00", ["22 00:00", "23 00:00"], id="noted in future"),
        pytest.param("02:30", "2026-10-24 12:00", "2026-10-24 02:30", ["25 02:30", "26 02:30"], id="comes twice"),
        pytest.param("02:30", "2026-03-28 12:00", "2026-03-28 02:30", ["29 03:30", "30 02:30"], id="is left out"),
    ],
)
def test_schedule_is_told_at_its_moments(schedule: str, begin: str, last: str | None, told: list[str]) -> None:
    """
    Once each, and the next is known before.

    What was missed is made up for once, at once; what never ran is due, or a box that is off at each of its moments
    would never run it.
    """
    box = Box(begin)
    box.add(schedule, None if last is None else at(last))

    assert box.schedule is not None
    first = datetime.fromtimestamp(max(box.schedule.next_at(box.now), box.now + 60), BERLIN)  # it looks each minute
    assert told[0] == f"{first:%d %H:%M}"
    assert [f"scan {one}" for one in told] == box.pass_time(2 * DAY_S)


def test_box_that_is_on_by_day_only_runs_each_day() -> None:
    """The moment lies in the night; each morning makes up for it."""
    box = Box("2026-11-21 08:00")
    last: int | None = at("2026-11-20 20:00")
    for day in range(21, 25):
        box.add("daily", last)
        assert [f"scan {day} 08:01"] == box.pass_time(10 * HOUR_S)
        last = box.now - 10 * HOUR_S
        box.now += 14 * HOUR_S


def test_suspend_over_several_moments_is_made_up_for_once() -> None:
    """The clock jumps ahead; one call, at the first look after it."""
    box = Box("2026-11-21 12:00")
    box.add("hourly", box.now)
    box.now += 30 * HOUR_S

    assert ["scan 22 18:01", "scan 22 19:00"] == box.pass_time(HOUR_S)


def test_clock_that_is_set_back_a_little_repeats_nothing() -> None:
    """A moment that was told is not told again when it comes a second time."""
    box = Box("2026-11-21 23:59")
    box.add("daily", box.now)

    assert ["scan 22 00:00"] == box.pass_time(120)
    box.now -= 300
    assert ["scan 23 00:00"] == box.pass_time(DAY_S + 300)


def test_clock_that_was_far_ahead_holds_nothing_up() -> None:
    """Set back by years it was wrong before: the schedule goes on by the right time."""
    box = Box("2031-11-21 12:00")
    box.add("hourly", box.now)
    box.add_window("01:00-06:00")
    box.pass_time(2 * HOUR_S)
    box.now = at("2026-11-21 00:30")

    assert ["scan 21 01:00", "open 21 01:00", "scan 21 02:00"] == box.pass_time(2 * HOUR_S)


@pytest.mark.parametrize(
    ("begin", "text", "told"),
    [
        (
            "2026-10-24 12:00",  # the night in which clocks are put back
            "01:00-03:00, sun 20:00-24:00",
            ["open 25 01:00", "close 25 03:00", "open 25 20:00", "close 26 00:00"],
        ),
        ("2026-11-21 03:00", "01:00-06:00", ["open 21 03:00", "close 21 06:00", "open 22 01:00", "close 22 06:00"]),
        ("2026-11-24 12:00", "00:00-24:00", ["open 24 12:00", "close 25 12:00", "open 25 12:00"]),
    ],
)
def test_windows_are_told_when_they_open_and_close(begin: str, text: str, told: list[str]) -> None:
    """One that is open at the start at once; one that is always open each day: it has no next opening."""
    box = Box(begin)
    box.add_window(text)
    box.look()

    assert box.openings is not None
    assert (text == "00:00-24:00") == (box.openings.next_at(box.now) is None)
    assert told == box.pass_time(37 * HOUR_S)


def test_sleep_from_one_window_into_the_next_closes_the_first() -> None:
    """What was begun in the one night is not taken for the work of the other."""
    box = Box("2026-11-21 03:00")
    box.add_window("01:00-06:00")
    box.look()
    box.now += DAY_S

    assert ["open 21 03:00", "close 22 03:01", "open 22 03:01"] == box.pass_time(60)


def test_open_window_survives_a_reload_and_a_correction_of_the_clock() -> None:
    """Work is not torn apart because the config was read again, or the clock was set by seconds."""
    box = Box("2026-11-21 03:00")
    box.add_window("01:00-06:00")
    box.look()
    box.change_window("01:00-05:00")
    box.now -= 30
    assert ["open 21 03:00", "close 21 05:00"] == box.pass_time(3 * HOUR_S, step_s=30)


def test_open_window_that_is_made_longer_stays_the_same() -> None:
    """Its new end counts."""
    box = Box("2026-11-21 03:00")
    box.add_window("01:00-05:00")
    box.look()
    box.change_window("01:00-06:00")

    assert ["open 21 03:00", "close 21 06:00"] == box.pass_time(5 * HOUR_S)


def test_reload_that_closes_a_window_tells_it() -> None:
    """The new config says that now is no time to work."""
    box = Box("2026-11-21 03:00")
    box.add_window("01:00-06:00")
    box.look()
    box.change_window("22:00-23:00")

    assert ["open 21 03:00", "close 21 03:00"] == box.told


def test_window_of_moments_opens_and_makes_up_for_what_was_missed() -> None:
    """A cron expression closes nothing."""
    box = Box("2026-11-24 12:00")
    box.add_window("0 1 * * sun", last=at("2026-11-15 01:00"))

    assert ["open 24 12:01", "open 29 01:00"] == box.pass_time(7 * DAY_S)


def test_reload_of_moments_begins_nothing() -> None:
    """They are due at their next moment; a window that was open before is closed, for nothing else would close it."""
    box = Box("2026-11-24 03:00")
    box.add_window("01:00-06:00")
    box.look()
    box.change_window("0 5 * * *")
    assert ["open 24 03:00", "close 24 03:00"] == box.told
    box.told.clear()
    box.change_window("0 7 * * *")
    assert ["open 24 07:00"] == box.pass_time(12 * HOUR_S)
    box.change_window("14:00-16:00")

    assert ["open 24 15:00", "close 24 16:00"] == box.pass_time(3 * HOUR_S)


def test_changed_schedule_loses_nothing_and_repeats_nothing() -> None:
    """What is due stays due; what the new one would have told before is past."""
    box = Box("2026-11-21 12:00")
    box.add("daily", box.now)
    assert box.schedule is not None
    box.schedule.change(moments("06:00"), box.now)
    assert ["scan 22 06:00"] == box.pass_time(DAY_S)

    box.add("daily", None)
    box.schedule.change(moments("weekly"), box.now)
    assert ["scan 22 12:01"] == box.pass_time(HOUR_S)


@given(st.integers(0, 400 * DAY_S), st.lists(st.tuples(st.integers(-2 * DAY_S, 3 * DAY_S), st.booleans()), max_size=20))
def test_no_moment_is_due_twice_whatever_the_clock_does(start: int, jumps: list[tuple[int, bool]]) -> None:
    """I1, I2: between two looks that find it due lies a moment, or the clock was set back by more than an hour."""
    begin = at("2026-01-01 00:00") + start
    daily = moments("02:30")
    schedule, last, highest = Recurrence(daily, last_at=begin, now=begin), begin, begin
    now = begin
    for jump_s, is_small in jumps:
        now += jump_s // (1000 if is_small else 1)
        if now < highest - HOUR_S:
            last = highest = now
        highest = max(highest, now)
        is_due = schedule.take(now)
        if is_due:
            assert daily.next_after(last) <= now
            last = now
        assert daily.next_after(max(now, last)) >= schedule.next_at(now)
