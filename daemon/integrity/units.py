"""
Parse and format sizes, durations, schedules and windows.

K, M, G and T are powers of 1024, as in ``ls -h``. ``spell_*`` is exact and can be parsed again (for the config);
``format_*`` is rounded for reading (for screens and mails). Schedules and windows are sets of local minutes, hours and
days; ``service.schedule`` maps them to a time zone, including clock changes.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple, NoReturn

_SIZE = re.compile(r"(\d+(?:\.\d+)?)\s*(?:([KMGTP])(?:iB)?|B)?", re.IGNORECASE)
_DECIMAL_SIZE = re.compile(r"\d+(?:\.\d+)?\s*[KMGTP]B", re.IGNORECASE)
_DURATION = re.compile(r"(\d+(?:\.\d+)?)\s*([smhdw])")
_SHARE = re.compile(r"(\d+(?:\.\d+)?)\s*%")
_SIZE_UNITS = "KMGTP"
_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86400, "w": 604800}


def parse_size(text: str) -> int:
    """
    Parse "50M", "8MiB", "1.5G" or "4096" into bytes.

    Raises:
        ValueError: not a size; the message gives examples.
    """
    match = _SIZE.fullmatch(text.strip())
    if match is None:
        if _DECIMAL_SIZE.fullmatch(text.strip()):
            raise ValueError(f'must say whether a power of 1024 is meant ("50M" or "50MiB"), not "{text}"')
        raise ValueError(f'must be a size such as "50M", "8MiB" or "1.5G", not "{text}"')
    number, unit = match.groups()
    power = _SIZE_UNITS.index(unit.upper()) + 1 if unit else 0
    return int(number) << 10 * power if number.isdecimal() else round(float(number) * (1 << 10 * power))


def parse_duration(text: str) -> int:
    """
    Parse "90s", "30m", "5h", "10d" or "2w" into seconds.

    Raises:
        ValueError: not a duration, or without a unit; the message gives examples.
    """
    match = _DURATION.fullmatch(text.strip())
    if match is None:
        raise ValueError(f'must be a duration with a unit such as "90s", "30m", "5h", "10d" or "2w", not "{text}"')
    return round(float(match[1]) * _SECONDS[match[2]])


def parse_share(text: str) -> float:
    """
    Parse "5%" or "0.5 %" into a percentage.

    Raises:
        ValueError: not a share of up to 100 %.
    """
    match = _SHARE.fullmatch(text.strip())
    if match is None or float(match[1]) > 100:
        raise ValueError(f'must be a share of at most 100 % such as "5%", not "{text}"')
    return float(match[1])


def spell_share(percent: float) -> str:
    """Write a percentage exactly."""
    return f"{percent:g}%"


def spell_size(size_bytes: int) -> str:
    """Return a size exactly, in the largest unit that divides it: 1048576 is "1MiB"."""
    for power in range(len(_SIZE_UNITS), 0, -1):
        if size_bytes and size_bytes % 1024**power == 0:
            return f"{size_bytes // 1024**power}{_SIZE_UNITS[power - 1]}iB"
    return str(size_bytes)


def spell_duration(seconds: int) -> str:
    """Return a duration exactly, in the largest of days, hours, minutes and seconds that divides it."""
    for unit in ("d", "h", "m"):
        if seconds and seconds % _SECONDS[unit] == 0:
            return f"{seconds // _SECONDS[unit]}{unit}"
    return f"{seconds}s"


def format_size(size_bytes: float) -> str:
    """Return a size for people: "0 B", "1.4 KiB", "5.4 GiB", "120 GiB"."""
    size = float(size_bytes)
    if size < 1024:
        return f"{size:.0f} B"
    for unit in _SIZE_UNITS:
        size /= 1024
        # 1023.5 would round to "1024": use the next unit.
        if size < 1023.5 or unit == _SIZE_UNITS[-1]:
            break
    return f"{size:.1f} {unit}iB" if size < 99.95 else f"{size:,.0f} {unit}iB"


def format_duration(seconds: float) -> str:
    """Return a duration for people: "0.4 s", "12 s", "3 min 20 s", "5 h 10 min", "12 days"."""
    if seconds < 9.95:
        return f"{seconds:.1f} s"
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min" + (f" {whole % 60} s" if whole % 60 else "")
    if whole < 2 * 86400:
        return f"{whole // 3600} h" + (f" {whole % 3600 // 60} min" if whole % 3600 // 60 else "")
    return f"{whole // 86400} days"


DAYS = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_LONGEST_MONTHS = (31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)
_DAY_MIN = 24 * 60
_WORDS = {"hourly": "0 * * * *", "daily": "0 0 * * *", "weekly": "0 0 * * mon"}  # as in systemd.time(7)
_SPAN = re.compile(r"(?:(?P<days>[a-z,-]+)\s+)?(?P<start>\d\d:\d\d)-(?P<end>\d\d:\d\d)")
_MOMENT = re.compile(r"(?:(?P<days>[a-z,-]+)\s+)?(?P<start>\d\d:\d\d)")
_SCHEDULE_HINT = 'a cron expression with day names ("30 2 * * sun"), "hourly", "daily", "weekly" or "sun 03:00"'
_WINDOWS_HINT = (
    'windows such as "01:00-06:00" or "sat,sun 00:00-08:00, 22:00-24:00", or a cron expression ("0 1 * * sun")'
)


class Span(NamedTuple):
    """A window on some weekdays, in minutes since local midnight. An end beyond 1440 lies on the next day."""

    days: tuple[int, ...]  # weekdays on which it begins; 0 is Monday
    start_min: int
    end_min: int


class Cron(NamedTuple):
    """
    The times that match five cron fields.

    As in cron, if both the day of the month and the day of the week are limited, a match of either is enough. If the
    hour field begins with ``*``, matches follow elapsed time: clock changes neither skip nor repeat one.
    """

    minutes: tuple[int, ...]
    hours: tuple[int, ...]
    days: tuple[int, ...]
    months: tuple[int, ...]
    weekdays: tuple[int, ...]  # 0 is Monday
    is_every_hour: bool
    has_days: bool  # the day of the month is limited
    has_weekdays: bool


class _Field(NamedTuple):
    name: str
    lowest: int
    highest: int
    words: tuple[str, ...] = ()
    first_word: int = 0


_FIELDS = (
    _Field("minute", 0, 59),
    _Field("hour", 0, 23),
    _Field("day of the month", 1, 31),
    _Field("month", 1, 12, _MONTHS, 1),
    _Field("day of the week", 0, 7, ("sun", *DAYS[:-1])),
)


def read_schedule(text: str) -> Cron:
    """
    Parse a word, a time on some weekdays, or a cron expression.

    Raises:
        ValueError: none of these; the message gives examples.
    """
    match = _MOMENT.fullmatch(text.strip())
    if match is None:
        return _read_cron(_WORDS.get(text, text), _SCHEDULE_HINT)
    moment = _read_time(match["start"])
    if moment is None or moment == _DAY_MIN:
        _refuse(_SCHEDULE_HINT, text)
    days = _read_days(match["days"], _SCHEDULE_HINT, text)
    hour, minute = divmod(moment, 60)
    every_day, every_month = tuple(range(1, 32)), tuple(range(1, 13))
    return Cron((minute,), (hour,), every_day, every_month, days, False, False, len(days) < len(DAYS))


def read_windows(text: str) -> tuple[Span, ...] | Cron:
    """
    Parse the windows in which a job may run, or the cron expression that starts it.

    Raises:
        ValueError: neither of these; the message gives examples.
    """
    # Commas separate windows, and also the days of one window. Only the former are followed by a blank or a digit.
    matches = [_SPAN.fullmatch(part.strip()) for part in re.split(r",\s+|,(?=\d)", text)]
    if not any(matches):
        return _read_cron(text, _WINDOWS_HINT)
    return tuple(_read_span(match, text) for match in matches)


def spell_windows(spans: Sequence[Span]) -> str:
    """Return windows in the syntax of the config."""
    return ", ".join(_spell_span(span) for span in spans)


def _spell_span(span: Span) -> str:
    end = span.end_min if span.end_min <= _DAY_MIN else span.end_min - _DAY_MIN
    days = "" if len(span.days) == len(DAYS) else ",".join(DAYS[day] for day in span.days) + " "
    return f"{days}{_spell_time(span.start_min)}-{_spell_time(end)}"


def _spell_time(minute: int) -> str:
    return f"{minute // 60:02}:{minute % 60:02}"


def _read_span(match: re.Match[str] | None, text: str) -> Span:
    start, end = (None, None) if match is None else (_read_time(match["start"]), _read_time(match["end"]))
    if match is None or start is None or end is None or start == _DAY_MIN:
        _refuse(_WINDOWS_HINT, text)
    if start == end:
        raise ValueError(f'must be {_WINDOWS_HINT}; all day long is "00:00-24:00", not "{match[0]}"')
    return Span(_read_days(match["days"], _WINDOWS_HINT, text), start, end if end > start else end + _DAY_MIN)


def _read_time(text: str) -> int | None:
    hours, minutes = int(text[:2]), int(text[3:])
    return hours * 60 + minutes if minutes < 60 and hours * 60 + minutes <= _DAY_MIN else None


def _read_days(text: str | None, hint: str, whole: str) -> tuple[int, ...]:
    """Parse "sat,sun" or "fri-mon". None means all days."""
    if text is None:
        return tuple(range(len(DAYS)))
    found: set[int] = set()
    for part in text.split(","):
        ends = part.split("-")
        if len(ends) > 2 or not all(end in DAYS for end in ends):
            _refuse(hint, whole)
        first, last = DAYS.index(ends[0]), DAYS.index(ends[-1])
        found.update((first + step) % len(DAYS) for step in range((last - first) % len(DAYS) + 1))
    return tuple(sorted(found))


def _read_cron(text: str, hint: str) -> Cron:
    parts = text.split()
    if len(parts) != len(_FIELDS):
        _refuse(hint, text)
    minutes, hours, days, months, weekdays = (
        _read_field(part, field, hint, text) for part, field in zip(parts, _FIELDS, strict=True)
    )
    cron = Cron(
        minutes,
        hours,
        days,
        months,
        tuple(sorted({(day - 1) % len(DAYS) for day in weekdays})),  # cron's week begins on Sunday, which is 0 and 7
        is_every_hour=parts[1].startswith("*"),
        has_days=not parts[2].startswith("*"),
        has_weekdays=not parts[4].startswith("*"),
    )
    _require_some_day(cron, hint, text)
    return cron


def _read_field(text: str, field: _Field, hint: str, whole: str) -> tuple[int, ...]:
    found: set[int] = set()
    for part in text.split(","):
        values = _read_part(part, field)
        if not values:
            raise ValueError(f'must be {hint}; "{part}" is no {field.name} in "{whole}"')
        found.update(values)
    return tuple(sorted(found))


def _read_part(text: str, field: _Field) -> Sequence[int]:
    """Parse "*", "5", "1-5" or "mon-fri", each with or without "/2". Return an empty sequence for anything else."""
    span, slash, step = text.partition("/")
    if slash and not (step.isascii() and step.isdecimal() and int(step) > 0):
        return ()
    if span == "*":
        # Sunday only as 0: if 7 were included, a step could hit it twice.
        first, last = field.lowest, min(field.highest, 6) if field.name == "day of the week" else field.highest
    else:
        ends = [_read_end(end, field) for end in span.split("-")]
        if len(ends) > 2 or ends[0] is None or ends[-1] is None:
            return ()
        first, last = ends[0], field.highest if slash and len(ends) == 1 else ends[-1]
        if field.name == "day of the week" and last < first:  # "fri-mon", "mon-sun"
            last += len(DAYS)
    return range(first, last + 1, int(step) if slash else 1)


def _read_end(text: str, field: _Field) -> int | None:
    if text in field.words:
        return field.words.index(text) + field.first_word
    is_number = text.isascii() and text.isdecimal() and field.lowest <= int(text) <= field.highest
    return int(text) if is_number else None


def _require_some_day(cron: Cron, hint: str, text: str) -> None:
    """Raise ValueError for a date that never occurs, such as "0 0 31 2 *"."""
    if not cron.has_weekdays and all(_LONGEST_MONTHS[month - 1] < cron.days[0] for month in cron.months):
        raise ValueError(f'must be {hint}; "{text}" names a day that never comes')


def _refuse(hint: str, text: str) -> NoReturn:
    raise ValueError(f'must be {hint}, not "{text}"')
