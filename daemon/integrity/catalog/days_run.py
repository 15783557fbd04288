"""
Let records age by the days on which the program ran, so that none is deleted because of a clock.

A clock jumps: an empty battery starts a machine in 1970, a restored one is years ahead for an hour. So the days that
the clock showed are kept (``days_run`` in ``meta``), each once, in the order in which they were last seen.

I1  A record is outdated only after the program ran on as many different days since the last time that the clock showed
    the day of the record.
"""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa

from integrity.catalog.schema import meta

DAY_S = 86_400

MOST_DAYS = 400
"""How many days are kept, and so the longest that a record can be kept by them."""

_KEY = "days_run"


def note_day(c: sa.Connection, now: int) -> list[int]:
    """Record that the program runs today; return all days, the last one seen at the end. Call it in a transaction."""
    text = c.execute(sa.select(meta.c.value).where(meta.c.key == _KEY)).scalar()
    days, today = [int(day) for day in (text or "").split() if day.lstrip("-").isdigit()], now // DAY_S
    if days[-1:] != [today]:
        days = [*(day for day in days if day != today), today][-MOST_DAYS:]
        c.execute(sa.delete(meta).where(meta.c.key == _KEY))
        c.execute(sa.insert(meta).values(key=_KEY, value=" ".join(map(str, days))))
    return days


def is_outdated(
    c: sa.Connection, written_at: sa.ColumnElement[Any], keep_days: int, now: int
) -> sa.ColumnElement[bool]:
    """
    Return the condition that a record is older than this many days on which the program ran.

    Args:
        c: in a transaction, since today is noted.
        written_at: the column with the time of the record, in UTC seconds by the clock of that moment.
        keep_days: at most ``MOST_DAYS``.
        now: seconds UTC.
    """
    days = note_day(c, now)[-keep_days:]
    if len(days) < keep_days:
        return sa.false()
    return sa.or_(written_at < min(days) * DAY_S, written_at >= (max(days) + 1) * DAY_S)
