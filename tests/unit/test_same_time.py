"""Two times are the same if one is what a file system or a tool keeps of the other."""

from __future__ import annotations

import sqlite3
from contextlib import closing

import pytest
from hypothesis import given
from hypothesis import strategies as st

from integrity.catalog.versions import IS_NEAR
from integrity.same_time import GRAINS_NS, Beside, TimeMove, find_grain, is_same_time, moved_by_shift

S = 10**9
FULL = 1_577_872_801_123_456_789  # 2020-01-01 10:00:01.123456789
times = st.integers(min_value=0, max_value=2**62)


@pytest.mark.parametrize("grain", [*GRAINS_NS, 1])
def test_time_that_was_cut_or_rounded_up(grain: int) -> None:
    """Cut or rounded up to any grain, a time stays the same."""
    cut = FULL // grain * grain
    assert is_same_time(FULL, cut)
    assert is_same_time(cut + (grain if grain > 1 else 0), FULL)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (FULL, FULL + S),  # both to the nanosecond, a second apart
        (FULL, FULL + 5_000),  # two writes after each other
        (FULL // S * S, FULL // S * S + 3 * S),  # whole seconds
        (FULL // S * S, FULL + S),  # the second before
        (FULL, FULL + 3_600 * S),
    ],
)
def test_times_of_two_writes(one: int, other: int) -> None:
    """What no grain explains was written twice."""
    assert not is_same_time(one, other)


def test_time_that_went_through_a_double() -> None:
    """Python's tarfile and JavaScript keep times as floating point."""
    assert is_same_time(FULL, int(FULL / S * S))


@given(times, st.sampled_from([*GRAINS_NS, 1]), st.integers(-1_200, 1_200))
def test_the_catalog_finds_every_time_that_is_the_same(one: int, grain: int, difference: int) -> None:
    """Its query leaves out none of those between which this decides."""
    query = f"SELECT {IS_NEAR} FROM (SELECT ?1 AS mtime_ns) AS version WHERE ?2 IS NULL"
    with closing(sqlite3.connect(":memory:")) as connection:

        def is_found(recorded_ns: int, seen_ns: int) -> bool:
            return bool(connection.execute(query, (recorded_ns, None, seen_ns)).fetchone()[0])

        for other in (one // grain * grain, -(-one // grain) * grain, one + difference):
            assert is_found(one, other) or not is_same_time(one, other)
            assert is_found(other, one) or not is_same_time(other, one)
        assert not is_found(FULL, FULL + 5_000)


def test_odd_second_on_fat() -> None:
    """FAT keeps even seconds, cut by Linux and rounded up by Windows."""
    odd = 1_577_872_801 * S
    assert is_same_time(odd, odd - S)
    assert is_same_time(odd, odd + S)
    assert not is_same_time(odd, odd + 3 * S)


@given(times, times)
def test_order_does_not_matter(one: int, other: int) -> None:
    """I1."""
    assert is_same_time(one, other) == is_same_time(other, one)
    assert is_same_time(one, one)


@given(times, times)
def test_equal_grains(one: int, other: int) -> None:
    """I2."""
    if find_grain(one) == find_grain(other) and abs(one - other) >= 1_000:
        assert not is_same_time(one, other)


def test_file_systems_of_whole_seconds() -> None:
    """What such a file system can store are times of two writes, unless they are equal; others were cut to it."""
    whole = FULL // S * S
    assert not is_same_time(whole - S, whole, kept_ns=S)
    assert not is_same_time(1_577_872_800 * S, 1_577_872_830 * S, kept_ns=2 * S)
    assert is_same_time(FULL, whole, kept_ns=S)
    assert is_same_time(1_577_872_801 * S, 1_577_872_800 * S, kept_ns=2 * S)


@pytest.mark.parametrize(
    ("shift_ns", "others", "is_together"), [(4_000_000, 2, False), (4_000_000, 3, True), (3_600 * S, 1, True)]
)
def test_times_of_a_ticking_clock_are_alike_by_chance(shift_ns: int, others: int, is_together: bool) -> None:
    """Unless their shift is one of whole seconds, or there are several of them."""
    before_ns = 17 * 10**17 + 123_456_789
    moves = [TimeMove(before_ns + one * 10**9, before_ns + one * 10**9 + shift_ns) for one in range(others + 1)]

    beside = Beside(moves[1:], moves[:1], unread=0, files=10)

    assert is_together == moved_by_shift(moves[0], beside)
