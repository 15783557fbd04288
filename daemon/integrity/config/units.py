"""
Parse and format sizes and durations.

K, M, G and T are powers of 1024, as in ``ls -h``. ``spell_*`` is exact and can be parsed again (for the config);
``format_*`` is rounded for reading (for screens and mails).
"""

from __future__ import annotations

import re

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
    """Return a percentage exactly."""
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
