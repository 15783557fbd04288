"""When windows are open: the grammar, the days, and the two nights of the year in which clocks are changed."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from integrity.service.schedule.clock import TriggerTimes, Windows, parse_windows
from integrity.units import DAYS, Span, read_schedule, read_windows, spell_windows
from support.berlin import BERLIN

ZONES = [ZoneInfo(name) for name in ("Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "Africa/Cairo", "UTC")]
HOUR_S = 3600
DAY_S = 24 * HOUR_S


def at(text: str, zone: ZoneInfo = BERLIN, *, fold: int = 0) -> int:
    """Turn "2026-11-21 03:00" into seconds UTC; ``fold`` 1: the second time that the clock shows it."""
    return round(datetime.fromisoformat(text).replace(tzinfo=zone, fold=fold).timestamp())


def show(moment: int | None, zone: ZoneInfo = BERLIN) -> str | None:
    return None if moment is None else datetime.fromtimestamp(moment, zone).strftime("%Y-%m-%d %H:%M")


def opening(text: str, begin: str) -> tuple[str | None, str | None, int]:
    """Find the first opening after a time: when it opens, when it closes, how many seconds lie between."""
    windows = parse_windows(text, BERLIN)
    opens = windows.next_opening(at(begin))
    assert opens is not None
    closes = windows.closes_at(opens)
    assert closes is not None
    assert windows.is_open(opens)
    assert not windows.is_open(opens - 1)
    assert windows.is_open(closes - 1)
    assert not windows.is_open(closes)
    return show(opens), show(closes), closes - opens


@pytest.mark.parametrize(
    ("text", "begin", "opens", "closes"),
    [
        ("01:00-06:00", "2026-11-21 00:00", "2026-11-21 01:00", "2026-11-21 06:00"),
        ("01:00-06:00", "2026-11-21 01:00", "2026-11-22 01:00", "2026-11-22 06:00"),
        ("22:00-06:00", "2026-11-21 12:00", "2026-11-21 22:00", "2026-11-22 06:00"),
        ("sat,sun 00:00-24:00", "2026-11-20 12:00", "2026-11-21 00:00", "2026-11-23 00:00"),
        ("mon-fri 01:00-06:00", "2026-11-20 12:00", "2026-11-23 01:00", "2026-11-23 06:00"),
        ("fri-mon 22:00-02:00", "2026-11-20 12:00", "2026-11-20 22:00", "2026-11-21 02:00"),
        ("sun 22:00-02:00", "2026-11-21 12:00", "2026-11-22 22:00", "2026-11-23 02:00"),
        ("22:00-24:00, 00:00-02:00", "2026-11-21 12:00", "2026-11-21 22:00", "2026-11-22 02:00"),
        ("sun 01:00-03:00,02:00-06:00", "2026-11-21 12:00", "2026-11-22 01:00", "2026-11-22 06:00"),
    ],
)
def test_windows_open_and_close_by_the_clock(text: str, begin: str, opens: str, closes: str) -> None:
    """Days, ranges of days, windows across midnight, and windows that touch, which are one."""
    assert (opens, closes) == opening(text, begin)[:2]


@pytest.mark.parametrize(
    ("text", "opens", "closes", "hours"),
    [
        ("01:00-06:00", "2026-03-29 01:00", "2026-03-29 06:00", 4.0),
        ("02:30-06:00", "2026-03-29 03:00", "2026-03-29 06:00", 3.0),
        ("01:00-02:30", "2026-03-29 01:00", "2026-03-29 03:00", 1.0),
        ("02:15-02:45", "2026-03-30 02:15", "2026-03-30 02:45", 0.5),
        ("01:00-06:00", "2026-10-25 01:00", "2026-10-25 06:00", 6.0),
        ("02:30-06:00", "2026-10-25 02:30", "2026-10-25 06:00", 4.5),
        ("01:00-02:30", "2026-10-25 01:00", "2026-10-25 02:30", 2.5),
        ("02:15-02:45", "2026-10-25 02:15", "2026-10-25 02:45", 1.5),
    ],
)
def test_hour_that_is_left_out_or_comes_twice(text: str, opens: str, closes: str, hours: float) -> None:
    """
    In spring what begins or ends in it does so when the clock is put on; what lies in it does not open that night.

    In autumn a window that touches it opens once, and is open as a whole.
    """
    night = "2026-03-29 00:00" if opens < "2026-06" else "2026-10-25 00:00"
    assert (opens, closes, hours * HOUR_S) == opening(text, night)


def test_always_open_windows_never_close() -> None:
    """All day long, every day: there is no closing and no next opening."""
    windows = parse_windows("00:00-24:00", BERLIN)
    now = at("2026-11-21 12:00")

    assert windows.is_open(now)
    assert windows.closes_at(now) is None
    assert windows.next_opening(now) is None
    assert 400 * DAY_S == windows.open_seconds(now, now + 400 * DAY_S)


def test_closed_windows_close_now() -> None:
    """Who asks how long there is time while nothing is open gets no time."""
    assert at("2026-11-21 12:00") == parse_windows("01:00-06:00", BERLIN).closes_at(at("2026-11-21 12:00"))


def test_moments_open_and_do_not_close() -> None:
    """A cron expression opens for as long as the work takes."""
    windows = parse_windows("0 1 * * sun", BERLIN)
    sunday = at("2026-11-22 01:00")

    assert windows.is_open(sunday)
    assert windows.is_open(sunday + 59)
    assert not windows.is_open(sunday + 60)
    assert not windows.is_open(sunday - 1)
    assert windows.closes_at(sunday) is None
    assert sunday == windows.next_opening(sunday - DAY_S)
    assert sunday + 7 * DAY_S == windows.next_opening(sunday)
    assert 3 * DAY_S == windows.open_seconds(sunday - DAY_S, sunday + 3 * DAY_S)
    assert 0 == windows.open_seconds(sunday + 1, sunday + DAY_S)
    assert windows.text is None
    assert windows.longer(30) is None


def test_windows_can_be_made_longer() -> None:
    """For advice: each closes later, and it can be written into the config as it is."""
    longer = parse_windows("01:00-06:00, sat,sun 22:00-23:30", BERLIN).longer(60)

    assert longer is not None
    assert "01:00-07:00, sat,sun 22:00-00:30" == longer.text
    assert parse_windows(longer.text, BERLIN).text == longer.text
    assert longer.longer(18 * 60) is None


spans = st.builds(
    lambda days, start, length: Span(tuple(sorted(days)), start, start + length),
    st.sets(st.integers(0, 6), min_size=1),
    st.integers(0, 1439),
    st.integers(1, 1440),
).filter(lambda span: span.end_min <= 1440 or span.end_min - span.start_min < 1440)
days_of_change = st.sampled_from(
    [date(2026, 3, 29), date(2026, 10, 25), date(2026, 3, 8), date(2026, 4, 5), date(2026, 4, 24)]
)


@given(st.lists(spans, min_size=1, max_size=4), st.sampled_from(ZONES), days_of_change, st.integers(-DAY_S, 9 * DAY_S))
def test_answers_agree_with_each_other_across_clock_changes(
    given_spans: list[Span], zone: ZoneInfo, day: date, offset: int
) -> None:
    """Open, closing, next opening and the seconds in between tell one story, whatever the windows and the night."""
    windows = Windows(tuple(given_spans), zone)
    now = round(datetime(day.year, day.month, day.day, tzinfo=UTC).timestamp()) + offset
    closes, opens = windows.closes_at(now), windows.next_opening(now)
    if not windows.is_open(now):
        assert closes == now
        assert opens is not None
        assert 0 == windows.open_seconds(now, opens)
        assert windows.is_open(opens)
    elif closes is not None:
        assert closes > now
        assert closes - now == windows.open_seconds(now, closes)
        assert not windows.is_open(closes)
        assert opens is not None
        assert 0 == windows.open_seconds(closes, opens)
    else:
        assert opens is None
        assert 9 * DAY_S == windows.open_seconds(now, now + 9 * DAY_S)


@given(st.lists(spans, min_size=1, max_size=3), st.sampled_from(ZONES), days_of_change)
def test_windows_are_open_when_the_clock_on_the_wall_says_so(
    given_spans: list[Span], zone: ZoneInfo, day: date
) -> None:
    """Away from doubled hours, a minute is open exactly if its wall time lies in a window."""
    windows = Windows(tuple(given_spans), zone)
    begin = round(datetime(day.year, day.month, day.day, tzinfo=UTC).timestamp()) - DAY_S
    for moment in range(begin, begin + 3 * DAY_S, 37 * 60):
        wall = datetime.fromtimestamp(moment, zone)
        doubled = wall.replace(fold=0).utcoffset() != wall.replace(fold=1).utcoffset()
        minute = wall.hour * 60 + wall.minute
        today, yesterday = wall.weekday(), (wall.weekday() - 1) % 7
        expected = any(
            (today in span.days and span.start_min <= minute < span.end_min)
            or (yesterday in span.days and minute + 1440 < span.end_min)
            for span in given_spans
        )
        if not doubled:
            assert windows.is_open(moment) is expected, wall


@given(st.lists(spans, min_size=1, max_size=4))
def test_windows_can_be_spelled_and_read_again(given_spans: list[Span]) -> None:
    """What is shown as advice can be written into the config."""
    assert tuple(given_spans) == read_windows(spell_windows(given_spans))


@pytest.mark.parametrize(
    "text",
    [
        "01:00-25:00",
        "24:00-02:00",
        "01:00-01:00",
        "01:60-02:00",
        "01:00-02:00, nonsense",
        "son 01:00-02:00",
        "mon-wed-fri 01:00-02:00",
        "mon- 01:00-02:00",
        "1:00-2:00",
        "",
        "0 0 31 2 *",
        "0 0 30-31 feb *",
        "60 * * * *",
        "5-1 * * * *",
        "* * * * 8",
        "*/0 * * * *",
        "1-2-3 * * * *",
        "a * * * *",
        "², * * * *",
        "* * * *",
    ],
)
def test_no_windows(text: str) -> None:
    """What can't be read is refused in words that say what can."""
    with pytest.raises(ValueError, match="must be windows such as"):
        read_windows(text)


@pytest.mark.parametrize("text", ["sometimes", "24:00", "son 03:00", "0 0 31 4,6 *", "01:00-02:00"])
def test_no_schedule(text: str) -> None:
    """A schedule names moments, not windows."""
    with pytest.raises(ValueError, match="must be a cron expression"):
        read_schedule(text)


@pytest.mark.parametrize(
    ("text", "days"),
    [
        ("0", "sun"),
        ("7", "sun"),
        ("1-5", "mon,tue,wed,thu,fri"),
        ("mon-fri", "mon,tue,wed,thu,fri"),
        ("fri-mon", "mon,fri,sat,sun"),
        ("5-1", "mon,fri,sat,sun"),
        ("*/2", "tue,thu,sat,sun"),
        ("0-6/3", "wed,sat,sun"),
        ("sun-tue", "mon,tue,sun"),
        ("mon-sun", "mon,tue,wed,thu,fri,sat,sun"),
        ("0-7", "mon,tue,wed,thu,fri,sat,sun"),
    ],
)
def test_days_of_the_week_are_those_of_cron(text: str, days: str) -> None:
    """0 and 7 are Sunday, and steps count from it."""
    assert days == ",".join(DAYS[day] for day in read_schedule(f"0 3 * * {text}").weekdays)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("hourly", "2026-11-21 13:00"),
        ("daily", "2026-11-22 00:00"),
        ("weekly", "2026-11-23 00:00"),
        ("sun 03:00", "2026-11-22 03:00"),
        ("03:00", "2026-11-22 03:00"),
        ("sat,mon 12:30", "2026-11-21 12:30"),
        ("30 2 * * sun", "2026-11-22 02:30"),
        ("*/20 12 * * *", "2026-11-21 12:20"),
        ("5/20 * * * *", "2026-11-21 12:05"),
        ("0 0 1 jan-feb *", "2027-01-01 00:00"),
        ("0 0 29 2 *", "2028-02-29 00:00"),
        ("0 0 24 * mon", "2026-11-23 00:00"),
        ("0 0 22 * mon", "2026-11-22 00:00"),
        ("0 5 * dec */3", "2026-12-02 05:00"),  # on Sunday, Wednesday, and Saturday
    ],
)
def test_next_moment_of_a_schedule(text: str, expected: str) -> None:
    """As cron has it: with both limited, a day of the month or a day of the week is enough."""
    assert expected == show(TriggerTimes(read_schedule(text), BERLIN).next_after(at("2026-11-21 12:00")))


@given(st.integers(0, 23), st.integers(0, 59), st.sampled_from(ZONES), days_of_change)
def test_daily_moment_comes_once_a_day_whatever_the_clocks_do(
    hour: int, minute: int, zone: ZoneInfo, day: date
) -> None:
    """Neither twice in autumn nor never in spring."""
    moments = TriggerTimes(read_schedule(f"{minute} {hour} * * *"), zone)
    moment = round(datetime(day.year, day.month, day.day, tzinfo=zone).timestamp()) - 2 * DAY_S - 1
    found: list[date] = []
    for _ in range(5):
        moment = moments.next_after(moment)
        found.append(datetime.fromtimestamp(moment, zone).date())

    assert [found[0] + timedelta(number) for number in range(5)] == found


def test_hourly_moment_comes_each_real_hour() -> None:
    """The hour that comes twice has two of them, the one that is left out none."""
    hourly = TriggerTimes(read_schedule("hourly"), BERLIN)
    autumn, spring = at("2026-10-25 00:30"), at("2026-03-29 00:30")
    for begin in (autumn, spring):
        moment = begin
        for _ in range(6):
            following = hourly.next_after(moment)
            assert (HOUR_S if moment != begin else HOUR_S // 2) == following - moment
            moment = following
