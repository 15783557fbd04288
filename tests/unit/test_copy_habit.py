"""How a copy keeps times is learned from its equal files; only then is a time older, the same or newer."""

from __future__ import annotations

import pytest

from integrity.arbitration import CopyTime
from integrity.jobs.compare.copy_habit import KNOWN_AFTER, CopyHabit

S = 10**9
HOUR = 3600 * S
DAY = 24 * HOUR
T = 1_700_000_000 * S + 123_456_789


def learn(*pairs: tuple[int, int | None], keeps_times: bool = True) -> CopyHabit:
    """Return a habit that was learned from pairs of times."""
    habit = CopyHabit(keeps_times=keeps_times)
    for recorded, copy in pairs:
        habit.add(recorded, copy)
    return habit


def test_copy_that_keeps_times() -> None:
    """Cut times are the same; others are older or newer."""
    habit = learn(*((T + n * DAY, (T + n * DAY) // S * S) for n in range(5)))
    assert CopyTime.SAME is habit.find_time(T, T // (2 * S) * (2 * S))
    assert CopyTime.OLDER is habit.find_time(T, T - DAY)
    assert CopyTime.NEWER is habit.find_time(T, T + DAY)


def test_copy_without_times() -> None:
    """Most equal files have other times: the time of the upload says nothing about age."""
    habit = learn(*((T - n * DAY, T + 500 * DAY + n * 7 * S) for n in range(3)), (T, T))
    assert not habit.has_times
    assert CopyTime.NONE is habit.find_time(T, T - DAY)


def test_half_of_the_files_is_enough() -> None:
    """A file that was touched does not make a copy one without times."""
    assert learn((T, T), (T, T + 5 * DAY)).has_times
    assert not learn((T, T), (T, T + 5 * DAY), (T, T + 6 * DAY)).has_times


def test_kind_of_copy_without_times() -> None:
    """What only states when it was uploaded keeps no times, whatever its files look like."""
    habit = learn((T, T), keeps_times=False)
    assert habit.is_known
    assert CopyTime.NONE is habit.find_time(T, T)


@pytest.mark.parametrize("shift", [HOUR, -HOUR, 5 * HOUR + HOUR // 2, -11 * HOUR, 900 * S])
def test_shift_of_a_zone(shift: int) -> None:
    """FAT after a change of zone: all files moved by quarter hours, which is taken off."""
    habit = learn(*((T + n * DAY, (T + n * DAY) // (2 * S) * (2 * S) + shift) for n in range(10)))
    assert habit.has_times
    assert CopyTime.SAME is habit.find_time(T, T // (2 * S) * (2 * S) + shift)
    assert CopyTime.NEWER is habit.find_time(T, T + shift + 10 * S)
    assert (CopyTime.OLDER if shift > 0 else CopyTime.NEWER) is habit.find_time(T, T)


def test_shift_of_some_files_is_none() -> None:
    """Half of the files an hour off, half of them as they were: no shift of the disk's clock."""
    habit = learn(*((T, T) for _ in range(5)), *((T, T + HOUR) for _ in range(5)))
    assert CopyTime.NEWER is habit.find_time(T, T + HOUR)


def test_impossible_times() -> None:
    """Times from before 1980 were lost, or made under a clock that nobody had set."""
    habit = learn((T, T))
    assert CopyTime.NONE is habit.find_time(T, 0)
    assert CopyTime.NONE is habit.find_time(1000 * S, T)
    assert CopyTime.NONE is habit.find_time(T, None)


def test_habit_is_known_after_some_files() -> None:
    """Until then, disagreements wait."""
    assert not learn(*((T, T) for _ in range(KNOWN_AFTER - 1))).is_known
    assert learn(*((T, T) for _ in range(KNOWN_AFTER))).is_known
    assert learn().has_times
