"""What falls due is told once: after downtimes, suspends and changes of the clock, too."""

from __future__ import annotations

import threading
import time
from datetime import UTC, datetime

import pytest

from integrity.service.schedule.clock import parse_windows
from integrity.service.schedule.scheduler import Scheduler
from support.berlin import BERLIN, at
from support.waiting import wait_until

HOUR_S = 3600
DAY_S = 24 * HOUR_S
DEADLINE_S = 10.0
NOON = "2026-11-21 12:00"


class Box:
    """A scheduler on clocks that only the test moves, and what it told."""

    def __init__(self, text: str) -> None:
        self.now = float(at(text))
        self.steady = 500.0
        self.told: list[str] = []
        self.scheduler = self.restart()

    def restart(self) -> Scheduler:
        """Begin anew, as after a boot."""
        self.scheduler = Scheduler(zone=BERLIN, clock=lambda: self.now, monotonic=lambda: self.steady)
        return self.scheduler

    def tell(self, what: str) -> None:
        """Note what fell due, and when."""
        moment = datetime.fromtimestamp(self.now, UTC).astimezone(BERLIN)
        self.told.append(f"{what} {moment:%d %H:%M}")

    def pass_time(self, seconds: float, *, step_s: float = 60) -> list[str]:
        """Let time pass, with a look at each step; return what was told."""
        end = self.now + seconds
        while self.now < end:
            self.now += step_s
            self.steady += step_s
            self.scheduler.tick()
        told, self.told = self.told, []
        return told

    def add(self, schedule: str, last: int | None) -> None:
        self.scheduler.add("scan", schedule, lambda: self.tell("scan"), last_started_at=last)

    def add_window(self, text: str) -> None:
        self.scheduler.add_window(
            "scrub", parse_windows(text, BERLIN), lambda: self.tell("open"), lambda: self.tell("close")
        )


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

    ((_, due_at),) = box.scheduler.next_runs()
    first = datetime.fromtimestamp(max(due_at, box.now + 60), BERLIN)  # it looks each minute
    assert told[0] == f"{first:%d %H:%M}"
    assert [f"scan {one}" for one in told] == box.pass_time(2 * DAY_S)


def test_box_that_is_on_by_day_only_runs_each_day() -> None:
    """The moment lies in the night; each morning makes up for it."""
    box = Box("2026-11-21 08:00")
    last: int | None = at("2026-11-20 20:00")
    for day in range(21, 25):
        box.restart()
        box.add("daily", last)
        assert [f"scan {day} 08:01"] == box.pass_time(10 * HOUR_S)
        last = int(box.now - 10 * HOUR_S)
        box.now += 14 * HOUR_S


def test_suspend_over_several_moments_is_made_up_for_once() -> None:
    """The clock jumps ahead; one call, at the first look after it."""
    box = Box("2026-11-21 12:00")
    box.add("hourly", int(box.now))
    box.now += 30 * HOUR_S

    assert ["scan 22 18:01", "scan 22 19:00"] == box.pass_time(HOUR_S)


def test_clock_that_is_set_back_a_little_repeats_nothing() -> None:
    """A moment that was told is not told again when it comes a second time."""
    box = Box("2026-11-21 23:59")
    box.add("daily", int(box.now))

    assert ["scan 22 00:00"] == box.pass_time(120)
    box.now -= 300
    assert ["scan 23 00:00"] == box.pass_time(DAY_S + 300)


def test_clock_that_was_far_ahead_holds_nothing_up() -> None:
    """Set back by years it was wrong before: the schedule goes on by the right time."""
    box = Box("2031-11-21 12:00")
    box.add("hourly", int(box.now))
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
        ("2026-11-24 12:00", "00:00-24:00", ["open 24 12:00"]),
    ],
)
def test_windows_are_told_when_they_open_and_close(begin: str, text: str, told: list[str]) -> None:
    """One that is open at the start at once; one that is always open once: it has no next opening."""
    box = Box(begin)
    box.add_window(text)
    box.scheduler.tick()

    assert (len(told) == 1) == (box.scheduler.next_runs() == [])
    assert told == box.pass_time(37 * HOUR_S)


def test_sleep_from_one_window_into_the_next_closes_the_first() -> None:
    """What was begun in the one night is not taken for the work of the other."""
    box = Box("2026-11-21 03:00")
    box.add_window("01:00-06:00")
    box.scheduler.tick()
    box.now += DAY_S

    assert ["open 21 03:00", "close 22 03:01", "open 22 03:01"] == box.pass_time(60)


def test_open_window_survives_a_reload_and_a_correction_of_the_clock() -> None:
    """Work is not torn apart because the config was read again, or the clock was set by seconds."""
    box = Box("2026-11-21 03:00")
    box.add_window("01:00-06:00")
    box.scheduler.tick()
    box.add_window("01:00-05:00")
    box.scheduler.tick()
    box.now -= 30

    assert ["open 21 03:00", "close 21 05:00"] == box.pass_time(3 * HOUR_S)


def test_reload_that_closes_a_window_tells_it() -> None:
    """The new config says that now is no time to work."""
    box = Box("2026-11-21 03:00")
    box.add_window("01:00-06:00")
    box.scheduler.tick()
    box.add_window("22:00-23:00")
    box.scheduler.tick()

    assert ["open 21 03:00", "close 21 03:00"] == box.told


def test_window_of_moments_opens_and_makes_up_for_what_was_missed() -> None:
    """A cron expression closes nothing."""
    box = Box("2026-11-24 12:00")
    windows = parse_windows("0 1 * * sun", BERLIN)
    box.scheduler.add_window(
        "scrub", windows, lambda: box.tell("open"), lambda: box.tell("close"), last_opened_at=at("2026-11-15 01:00")
    )

    assert ["open 24 12:01", "open 29 01:00"] == box.pass_time(7 * DAY_S)


def test_reload_of_moments_begins_nothing() -> None:
    """They are told at their next moment; a window that was open before is closed, for nothing else would close it."""
    box = Box("2026-11-24 03:00")
    box.add_window("01:00-06:00")
    box.scheduler.tick()
    box.add_window("0 5 * * *")
    assert ["open 24 03:00", "close 24 03:00"] == box.told
    box.told.clear()
    box.add_window("0 7 * * *")
    assert ["open 24 07:00"] == box.pass_time(12 * HOUR_S)
    box.add_window("14:00-16:00")

    assert ["open 24 15:01", "close 24 16:00"] == box.pass_time(3 * HOUR_S)


def test_replaced_schedule_loses_nothing_and_repeats_nothing() -> None:
    """What is due stays due; what the new one would have told before is past."""
    box = Box("2026-11-21 12:00")
    box.add("daily", int(box.now))
    box.scheduler.replace("scan", "06:00", lambda: box.tell("new"))
    assert ["new 22 06:00"] == box.pass_time(DAY_S)

    box.add("daily", None)
    box.scheduler.replace("scan", "weekly", lambda: box.tell("newer"))
    assert ["newer 22 12:01"] == box.pass_time(HOUR_S)
    with pytest.raises(KeyError):
        box.scheduler.replace("compare", "daily", lambda: None)


def test_removed_schedule_is_not_told() -> None:
    """A root that is gone has no schedules."""
    box = Box("2026-11-21 12:00")
    box.add("hourly", int(box.now))
    box.scheduler.remove("scan")
    box.scheduler.remove("scan")

    assert [] == box.pass_time(3 * HOUR_S)
    assert [] == box.scheduler.next_runs()


def test_heartbeat_does_not_look_at_the_clock() -> None:
    """Set back by a year, it still beats each minute; and nobody is told of it."""
    box = Box("2026-11-21 12:00")
    box.scheduler.every("heart", 60, lambda: box.tell("beat"))
    assert 10 == len(box.pass_time(600))
    box.now -= 365 * DAY_S

    assert 10 == len(box.pass_time(600))
    assert [] == box.scheduler.next_runs()


def test_call_may_change_the_schedules() -> None:
    """A reload happens where it is noticed; what it took out is not told in the same look."""
    box = Box("2026-11-21 12:00")
    box.scheduler.add("first", "hourly", lambda: box.scheduler.remove("second"), last_started_at=None)
    box.scheduler.add("second", "hourly", lambda: box.tell("second"), last_started_at=None)

    assert [] == box.pass_time(HOUR_S)


def test_call_that_fails_keeps_nothing_else_from_being_told() -> None:
    """It is not repeated before its next moment, and the others come at the next look."""
    box = Box("2026-11-21 12:30")

    def fail() -> None:
        raise ValueError("a bug")

    box.scheduler.add("first", "hourly", fail, last_started_at=None)
    box.add("hourly", None)
    with pytest.raises(ValueError, match="a bug"):
        box.scheduler.tick()
    box.scheduler.tick()

    assert ["scan 21 12:30"] == box.told


def test_real_time_passes() -> None:
    """With the real clock: what is due comes at once, what is added while it waits wakes it, and stop is the end."""
    scheduler = Scheduler(zone=BERLIN)
    beats, due, opened = threading.Semaphore(0), threading.Event(), threading.Event()
    scheduler.every("heart", 0.02, beats.release)
    scheduler.start()
    try:
        assert all(beats.acquire(timeout=DEADLINE_S) for _ in range(5))
        scheduler.remove("heart")
        scheduler.add("scan", "daily", due.set, last_started_at=None)
        assert due.wait(DEADLINE_S)
        scheduler.add_window("scrub", parse_windows("00:00-24:00", BERLIN), opened.set, opened.clear)
        assert opened.wait(DEADLINE_S)
    finally:
        scheduler.stop()
    scheduler.stop()
    due.clear()
    scheduler.add("scan", "daily", due.set, last_started_at=None)

    assert not due.is_set()
    assert "schedule" not in [thread.name for thread in threading.enumerate()]


def test_calls_come_from_one_thread_while_others_change_the_schedules() -> None:
    """No call is made twice at a time, and nobody waits for anybody for ever."""
    scheduler = Scheduler(zone=BERLIN)
    within = threading.Lock()
    calls: list[int] = []

    def call() -> None:
        assert within.acquire(blocking=False)
        calls.append(1)
        within.release()

    def add_many(number: int) -> None:
        for count in range(50):
            scheduler.every(f"{number}-{count}", 0.001, call)
            scheduler.next_runs()
            scheduler.remove(f"{number}-{count - 5}")

    scheduler.start()
    threads = [threading.Thread(target=add_many, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(DEADLINE_S)
        assert not thread.is_alive()
    wait_until(lambda: bool(calls), "a call")
    scheduler.stop()


def test_clock_that_is_set_back_while_it_waits_does_not_hold_the_thread_up() -> None:
    """The thread waits by a clock that nobody sets: beats go on, and what falls due by the new time is told."""
    offset_s = 0.0
    scheduler = Scheduler(zone=BERLIN, clock=lambda: time.time() + offset_s)
    beat, due = threading.Semaphore(0), threading.Event()
    scheduler.every("heart", 0.02, beat.release)
    scheduler.start()
    try:
        assert beat.acquire(timeout=DEADLINE_S)
        offset_s = -365.0 * DAY_S
        while beat.acquire(blocking=False):
            pass
        assert all(beat.acquire(timeout=DEADLINE_S) for _ in range(3))
        scheduler.add("scan", "daily", due.set, last_started_at=None)
        assert due.wait(DEADLINE_S)
    finally:
        scheduler.stop()


def test_call_that_fails_does_not_end_the_thread(caplog: pytest.LogCaptureFixture) -> None:
    """With the real clock: it is logged, called again at its next moment, and the others are told meanwhile."""
    scheduler = Scheduler(zone=BERLIN)
    failed, beat = threading.Semaphore(0), threading.Semaphore(0)

    def fail() -> None:
        failed.release()
        raise ValueError("a bug")

    scheduler.every("first", 0.02, fail)
    scheduler.every("second", 0.02, beat.release)
    scheduler.start()
    try:
        assert all(failed.acquire(timeout=DEADLINE_S) and beat.acquire(timeout=DEADLINE_S) for _ in range(3))
    finally:
        scheduler.stop()
    assert "a bug" in caplog.text
