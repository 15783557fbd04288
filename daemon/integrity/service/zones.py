"""What a time zone does with its clocks."""

from __future__ import annotations

from datetime import datetime, tzinfo

from tzlocal import get_localzone


def local_zone() -> tzinfo:
    """Find the machine's time zone, with its rules for summer time."""
    return get_localzone()


def offset_at(zone: tzinfo, at: int) -> int:
    """Tell how many seconds a zone's clocks are ahead of UTC."""
    offset = datetime.fromtimestamp(at, zone).utcoffset()
    assert offset is not None
    return int(offset.total_seconds())


def find_change(zone: tzinfo, before: int, after: int) -> int:
    """Find the first second with the offset that a zone has at ``after`` and not yet at ``before``."""
    offset = offset_at(zone, after)
    while after - before > 1:
        middle = (before + after) // 2
        if offset_at(zone, middle) == offset:
            after = middle
        else:
            before = middle
    return after
