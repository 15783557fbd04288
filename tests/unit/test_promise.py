"""What the promise asks for, window by window, and what is said when it can't be kept."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from integrity.catalog.coverage import DueDay
from integrity.catalog.runs import RunRecord
from integrity.jobs.scrub.plan import Facts, Overdue, Plan, make_plan, plan_window
from integrity.jobs.scrub.promise import describe_overdue, measure_rate
from integrity.model import Job, Outcome, RootId, RunCounts, RunId
from integrity.service.schedule.clock import Windows, parse_windows
from support.berlin import BERLIN, at

HOUR_S = 3600
DAY_S = 24 * HOUR_S
MIB = 1 << 20
GIB = 1 << 30
NIGHTS = parse_windows("01:00-03:00", BERLIN)


NOW = at("2026-06-15 01:00")  # as a window opens


def spread(size_bytes: int, *, now: int = NOW) -> tuple[DueDay, ...]:
    """Make a root that was verified evenly by windows that did what they were told."""
    return tuple(DueDay(now - day * DAY_S, 10, size_bytes // 28) for day in range(28, 0, -1))


def plan(facts: Facts, windows: Windows = NIGHTS, *, days: int = 30, now: int = NOW) -> Plan:
    return make_plan(facts, windows, verify_every_s=days * DAY_S, now=now)


def test_empty_root_keeps_every_promise() -> None:
    """Nothing to verify, nothing needed."""
    found = plan(Facts(()))

    assert found == Plan(0, 0, 0, 0, 0.0, None, True, NOW, None)
    assert plan_window(Facts(()), NIGHTS, verify_every_s=DAY_S, now=NOW).at_least_bytes == 0


def test_rate_that_is_needed_is_that_of_open_windows() -> None:
    """60 hours in 30 nights: so many bytes a second are needed in them."""
    found = plan(Facts(spread(600 * GIB), rate_bytes_per_s=100 * MIB))

    assert found.bytes_total == 600 * GIB // 28 * 28
    assert 600 * GIB / (62 * HOUR_S) <= found.needed_bytes_per_s <= 600 * GIB / (58 * HOUR_S)
    assert (found.is_kept, found.met_at, found.advice) == (True, NOW, None)
    assert found.bytes_due_soon == 0


@pytest.mark.parametrize(
    ("days", "least", "most"),
    [
        pytest.param(((1, 600),), 0, 600 * GIB / (56 * HOUR_S), id="recorded on one day: no more than spread out"),
        pytest.param(((27, 300), (1, 300)), 300 * GIB / (6 * HOUR_S), 300 * GIB / (5 * HOUR_S), id="due in three days"),
    ],
)
def test_need_follows_from_the_windows_until_the_deadline(
    days: tuple[tuple[int, int], ...], least: float, most: float
) -> None:
    """Whatever falls due together."""
    due = tuple(DueDay(NOW - back * DAY_S, 10, size * GIB) for back, size in days)

    assert least <= plan(Facts(due, rate_bytes_per_s=100 * MIB)).needed_bytes_per_s <= most


def test_too_slow_a_disk_is_told_with_a_window_that_would_do() -> None:
    """Two hours a night are not enough, three and a half are."""
    facts = Facts(spread(1200 * GIB), rate_bytes_per_s=4 * MIB, last_scrub_at=NOW - DAY_S)
    found = plan(facts)

    assert not found.is_kept
    assert found.met_at is None
    assert found.advice == 'open the window longer: "01:00-04:30" would do'
    longer = parse_windows("01:00-04:30", BERLIN)
    assert plan(facts, longer).is_kept


def test_where_no_window_is_long_enough_another_promise_is() -> None:
    """A day has 24 hours; then it takes more days."""
    found = plan(Facts(spread(12_000 * GIB), rate_bytes_per_s=4 * MIB, last_scrub_at=NOW - DAY_S))

    assert found.advice is not None
    assert found.advice.startswith('verify_every = "')
    days = int(found.advice.split('"')[1][:-1])
    assert plan(Facts(spread(12_000 * GIB), rate_bytes_per_s=4 * MIB), days=days).needed_bytes_per_s <= 4 * MIB


def test_promise_beyond_hope_is_said_to_be() -> None:
    """Years would be needed."""
    found = plan(Facts(spread(10**17), rate_bytes_per_s=4 * MIB, last_scrub_at=NOW - DAY_S))

    assert found.advice == "this much can't be verified at this rate: open more windows, or watch less"


def test_backlog_is_caught_up_and_the_day_is_told() -> None:
    """After a month in the cellar everything is overdue; at the measured rate it takes ten nights."""
    facts = Facts(
        (DueDay(NOW - 40 * DAY_S, 100, 2000 * GIB),),
        Overdue(100, 2000 * GIB),
        rate_bytes_per_s=2000 * GIB / (20 * HOUR_S),
        last_scrub_at=NOW - DAY_S,
    )
    found = plan(facts)

    assert not found.is_kept
    assert found.bytes_overdue == 2000 * GIB
    assert found.met_at == at("2026-06-24 03:00")
    assert found.advice is None


def test_windows_that_pass_unused_are_suspected() -> None:
    """A box that is off at night: the finding says where to look."""
    facts = Facts(
        (DueDay(NOW - 40 * DAY_S, 3, 50 * GIB),), Overdue(3, 50 * GIB), rate_bytes_per_s=100 * MIB, last_scrub_at=None
    )
    found = plan(facts)
    text = describe_overdue(facts, found, verify_every_s=30 * DAY_S, now=NOW)

    assert text == (
        "3 files (50.0 GiB) not verified within 30 days, the oldest 10 days late;"
        " no scrub has begun in the last windows (01:00-03:00): is the machine on then, and the service running?"
    )


def test_window_takes_what_falls_due_before_the_end_of_the_next() -> None:
    """That one may be missed; and the share is an even one."""
    options = plan_window(Facts(spread(600 * GIB)), NIGHTS, verify_every_s=30 * DAY_S, now=NOW)

    assert options.due_within_s == 26 * HOUR_S
    assert options.time_limit_s == 2 * HOUR_S
    assert not options.scan_first
    assert options.at_least_bytes is not None
    assert 600 * GIB // 29 <= options.at_least_bytes <= 600 * GIB // 27


@pytest.mark.parametrize(
    ("verified_days_ago", "begun_late_s", "least", "most"),
    [
        pytest.param(1, HOUR_S, 10 * GIB, 11.7 * GIB, id="half of the time, half of the share"),
        pytest.param(15, 0, 600 * GIB // 15, 600 * GIB // 13, id="missed windows raise the share"),
    ],
)
def test_share_follows_from_the_time_that_is_left(
    verified_days_ago: int, begun_late_s: int, least: float, most: float
) -> None:
    """Of a window that was begun late, and after half of the time in which nothing was verified."""
    facts = Facts((DueDay(NOW - verified_days_ago * DAY_S, 10, 600 * GIB),))
    options = plan_window(facts, NIGHTS, verify_every_s=30 * DAY_S, now=NOW + begun_late_s)

    assert options.time_limit_s == 2 * HOUR_S - begun_late_s
    assert options.at_least_bytes is not None
    assert least <= options.at_least_bytes <= most


def test_long_windows_take_more_than_short_ones() -> None:
    """A weekend's day does more than a night of the week."""
    windows = parse_windows("mon-fri 01:00-03:00, sat,sun 00:00-24:00", BERLIN)
    facts = Facts((DueDay(NOW - DAY_S, 10, 600 * GIB),))
    night = plan_window(facts, windows, verify_every_s=30 * DAY_S, now=NOW)
    weekend = plan_window(facts, windows, verify_every_s=30 * DAY_S, now=at("2026-06-20 00:00"))

    assert night.at_least_bytes is not None
    assert weekend.at_least_bytes is not None
    assert weekend.at_least_bytes > 15 * night.at_least_bytes


@pytest.mark.parametrize("text", ["0 1 * * *", "0 0 * * *", "0 1 * * sun", "00:00-24:00", "sat,sun 00:00-24:00"])
def test_windows_of_every_kind_have_a_share(text: str) -> None:
    """Moments count openings; a window that never closes is cut into days."""
    windows = parse_windows(text, BERLIN)
    opened = windows.next_opening(NOW) or NOW
    for now in (opened, opened + HOUR_S):  # on time, and made up for
        facts = Facts((DueDay(now - DAY_S, 10, 600 * GIB),))
        options = plan_window(facts, windows, verify_every_s=30 * DAY_S, now=now)
        assert options.at_least_bytes is not None
        assert 18 * GIB < options.at_least_bytes < 310 * GIB
        assert options.due_within_s >= DAY_S
    assert plan(Facts(spread(600 * GIB), rate_bytes_per_s=100 * MIB), windows).is_kept


def test_promise_shorter_than_the_time_between_windows_takes_everything() -> None:
    """All of the root each time is the best that can be done."""
    windows = parse_windows("sun 01:00-06:00", BERLIN)
    options = plan_window(Facts(spread(GIB)), windows, verify_every_s=3 * DAY_S, now=at("2026-06-14 01:00"))

    assert options.at_least_bytes is not None
    assert options.at_least_bytes >= GIB // 28 * 28


@settings(max_examples=40)
@given(
    st.lists(st.tuples(st.integers(0, 29), st.integers(1, 100)), min_size=1, max_size=12),
    st.integers(4, 40),
    st.sampled_from(["01:00-03:00", "22:00-02:00", "sat,sun 00:00-06:00", "mon,wed,fri 05:00-09:00"]),
)
def test_following_the_plan_keeps_the_promise(given_days: list[tuple[int, int]], hours: int, text: str) -> None:
    """Whatever was verified when: if windows do what they are told, nothing is ever overdue."""
    windows = parse_windows(text, BERLIN)
    now = windows.next_opening(at("2026-03-01 00:00"))
    assert now is not None
    every_s = 30 * DAY_S
    looked_at = [now - age * DAY_S + number for number, (age, _) in enumerate(given_days)]
    sizes = [size for _, size in given_days]
    for _ in range(60):
        days = sorted(
            (DueDay(when, 1, size) for when, size in zip(looked_at, sizes, strict=True)), key=lambda day: day.oldest_at
        )
        options = plan_window(Facts(tuple(days)), windows, verify_every_s=every_s, now=now)
        assert options.at_least_bytes is not None
        done = 0
        for number in sorted(range(len(sizes)), key=lambda number: looked_at[number]):
            due = looked_at[number] + every_s
            assert due >= now, "overdue"
            if due < now + options.due_within_s or done < options.at_least_bytes:
                looked_at[number] = now + 1
                done += sizes[number]
        following = windows.next_opening(now)
        assert following is not None
        now = following


def run_of(bytes_read: int, duration_s: float, outcome: Outcome | None = Outcome.CLEAN) -> RunRecord:
    counts = RunCounts(bytes_read=bytes_read)
    return RunRecord(RunId(1), RootId(1), Job.SCRUB, NOW, NOW, outcome, 1, 1, counts, duration_s, None)


def test_rate_is_the_best_of_runs_that_read_much() -> None:
    """Small runs say little, slow ones may have been held back, failed ones nothing."""
    assert measure_rate([]) is None
    assert measure_rate([run_of(0, 5.0), run_of(10, 1.0, Outcome.FAILED), run_of(10, 1.0, None)]) is None
    assert measure_rate([run_of(1000, 10.0), run_of(800, 4.0), run_of(50, 0.01)]) == 200.0
