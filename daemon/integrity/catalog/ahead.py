"""
Times that lie ahead of the clock: it was wrong when they were written, so nothing follows from them.

Taken as they are, a file that was verified while the clock was a year ahead would not be due for a year.
"""

from __future__ import annotations

import sqlalchemy as sa

TOLERANCE_S = 15 * 60
"""A clock that is corrected by so little makes nobody read a file again."""

NEVER_AT = 0
"""The time of a last look that is not known."""


def unless_ahead(column: sa.ColumnElement[int], now: int) -> sa.ColumnElement[int]:
    """Take a time as it is; null if it lies ahead of the clock."""
    return sa.case((column <= now + TOLERANCE_S, column))


def looked_at(
    verified_at: sa.ColumnElement[int], recorded_at: sa.ColumnElement[int], now: int
) -> sa.ColumnElement[int]:
    """Tell when a file was last looked at: the clock of the promise starts when it is recorded."""
    return sa.func.coalesce(unless_ahead(verified_at, now), unless_ahead(recorded_at, now), NEVER_AT)


def when_looked_at(verified_at: int | None, recorded_at: int, now: int) -> int:
    """Tell of one file when it was last looked at, as ``looked_at`` does of many."""
    known = (at for at in (verified_at, recorded_at) if at is not None and at <= now + TOLERANCE_S)
    return next(known, NEVER_AT)
