"""Times as programs print them."""

from __future__ import annotations

from datetime import datetime


def parse_time(text: object) -> int | None:
    """Return a time of RFC 3339 in nanoseconds since 1970, which datetime can't represent; None if it is none."""
    if not isinstance(text, str) or not text:
        return None
    whole, point, rest = text.partition(".")
    digits = rest[: len(rest) - len(rest.lstrip("0123456789"))]
    zone = rest[len(digits) :]
    try:
        seconds = datetime.fromisoformat(whole + zone if point else whole)
    except ValueError:
        return None
    if seconds.tzinfo is None:
        return None
    return int(seconds.timestamp()) * 1_000_000_000 + int(digits.ljust(9, "0")[:9] or "0")
