"""Times in Berlin, where clocks are put forward in March and back in October."""

from __future__ import annotations

from datetime import datetime
from zoneinfo import ZoneInfo

BERLIN = ZoneInfo("Europe/Berlin")


def at(text: str) -> int:
    """Return "2026-11-21 03:00" in Berlin as seconds of UTC."""
    return round(datetime.fromisoformat(text).replace(tzinfo=BERLIN).timestamp())
