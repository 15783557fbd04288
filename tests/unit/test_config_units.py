"""Sizes and durations, as people write them and back."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from integrity.units import format_duration, format_size, parse_duration, parse_size, spell_duration, spell_size


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("0", 0),
        ("4096", 4096),
        ("512B", 512),
        ("1K", 1024),
        ("50M", 50 << 20),
        ("8MiB", 8 << 20),
        ("8mib", 8 << 20),
        ("1.5G", 3 << 29),
        ("2 TiB", 2 << 40),
        ("1P", 1 << 50),
    ],
)
def test_sizes_are_powers_of_1024(text: str, expected: int) -> None:
    """K, M, G, T and P mean powers of 1024, with or without "iB"."""
    assert expected == parse_size(text)


@pytest.mark.parametrize("text", ["", "M", "-1M", "1X", "1.M", "1 M B", "0x10", "1e3", "٣M x", "1MiBs"])
def test_what_is_no_size_is_refused(text: str) -> None:
    """What is refused is told with an example of what is not."""
    with pytest.raises(ValueError, match=r"must be a size such as \"50M\""):
        parse_size(text)


def test_decimal_units_are_refused_with_a_reason() -> None:
    """The unit in "50MB" could mean either; nobody should find out which by counting bytes."""
    with pytest.raises(ValueError, match='"50M" or "50MiB"'):
        parse_size("50MB")


@pytest.mark.parametrize(
    ("text", "expected"),
    [("90s", 90), ("30m", 1800), ("5h", 18000), ("10d", 864_000), ("2w", 1_209_600), ("1.5h", 5400), ("0s", 0)],
)
def test_durations_are_seconds(text: str, expected: int) -> None:
    """Each unit counts for what its name says."""
    assert expected == parse_duration(text)


@pytest.mark.parametrize("text", ["", "90", "s", "-1d", "1y", "5H", "1d12h"])
def test_what_is_no_duration_is_refused(text: str) -> None:
    """A bare number is refused too: nobody knows whether it means seconds or days."""
    with pytest.raises(ValueError, match="must be a duration with a unit"):
        parse_duration(text)


@given(st.integers(0, 1 << 60))
def test_spelled_sizes_come_back(size: int) -> None:
    """What spell_size writes, parse_size reads as the same number."""
    assert size == parse_size(spell_size(size))


@given(st.integers(0, 1 << 40))
def test_spelled_durations_come_back(seconds: int) -> None:
    """What spell_duration writes, parse_duration reads as the same number."""
    assert seconds == parse_duration(spell_duration(seconds))


@pytest.mark.parametrize(
    ("size", "expected"),
    [
        (0, "0 B"),
        (1023, "1023 B"),
        (1024, "1.0 KiB"),
        (1_048_575, "1.0 MiB"),
        (5_847_789_497, "5.4 GiB"),
        (120 << 30, "120 GiB"),
        (3000 << 50, "3,000 PiB"),
    ],
)
def test_formatted_sizes_are_short(size: int, expected: str) -> None:
    """People read at most three digits and a unit."""
    assert expected == format_size(size)


@pytest.mark.parametrize(
    ("seconds", "expected"),
    [
        (0.42, "0.4 s"),
        (9.96, "10 s"),
        (59.6, "1 min"),
        (200, "3 min 20 s"),
        (3600, "1 h"),
        (18_600, "5 h 10 min"),
        (1_036_800, "12 days"),
    ],
)
def test_formatted_durations_are_short(seconds: float, expected: str) -> None:
    """People read the two largest units."""
    assert expected == format_duration(seconds)
