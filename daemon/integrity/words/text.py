"""How values are written, wherever they stand: times, numbers, styles."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Protocol

JsonObject = dict[str, object]
"""An object of ``--json``: its fields are pinned, so programs can rely on them."""


class Styler(Protocol):
    """Makes words stand out."""

    def style(self, text: str, color: str) -> str: ...


class _Plain:
    def style(self, text: str, color: str) -> str:  # noqa: ARG002 - the signature is the protocol's
        return text


PLAIN: Styler = _Plain()
"""Leaves words as they are."""


def local_time(seconds: int) -> str:
    """Write a time in the reader's time zone; in seconds what no calendar has."""
    try:
        return datetime.fromtimestamp(seconds, UTC).astimezone().strftime("%Y-%m-%d %H:%M")
    except (ValueError, OverflowError, OSError):
        return f"{seconds} s after 1970"


def exact_time(nanoseconds: int) -> str:
    """Write a file's time to the last digit: they are what verdicts rest on."""
    seconds, rest = divmod(nanoseconds, 1_000_000_000)
    try:
        text = datetime.fromtimestamp(seconds, UTC).astimezone().strftime("%Y-%m-%d %H:%M:%S")
    except (ValueError, OverflowError):  # file systems can hold years that calendars can't
        return f"{seconds} s after 1970"
    return f"{text}.{rest:09d}"


def utc_time(seconds: int) -> str:
    """Write a time with its zone: a mail may be read in another time zone than it was written in."""
    try:
        return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d %H:%M UTC")
    except (ValueError, OverflowError, OSError):
        return "at no possible time"  # no calendar has it: a box may report anything


def iso_time(seconds: int | None) -> str | None:
    """Write a time for programs: UTC, ISO 8601; None for what no calendar has."""
    try:
        return None if seconds is None else datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    except (ValueError, OverflowError, OSError):
        return None


def count(number: int, noun: str) -> str:
    """Write "1 file", "1,234 files"."""
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


def list_counts(named: Iterable[tuple[int, str]]) -> str:
    """Write "3 verified, 1 DAMAGED", without what there is none of."""
    return ", ".join(f"{number:,} {name}" for number, name in named if number)


def describe_core() -> str:
    from integrity.hashing import native_status

    core = native_status()
    return f"native, {core.path}" if core.is_native else f"hashlib ({core.path})"


def percent(share: float) -> str:
    """Write a share so that only nothing is 0 % and only all is 100 %."""
    if 0 < share < 0.01:
        return "under 1 %"
    return "over 99 %" if 0.99 < share < 1 else f"{share:.0%}".replace("%", " %")
