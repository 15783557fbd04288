"""
Let records age by the days on which the program ran, so that none is deleted because of a clock.

A clock jumps: an empty battery starts a machine in 1970, a restored one is years ahead for an hour. So the days that
the clock showed are kept (``days_run`` in ``meta``), each once, in the order in which they were last seen.

I1  A record is outdated only after the program ran on as many different days since the last time that the clock showed
    the day of the record.
"""

from __future__ import annotations

from integrity.catalog.db import Connection

DAY_S = 86_400

MOST_DAYS = 400
"""How many days are kept, and so the longest that a record can be kept by them."""


def note_day(c: Connection, now: int) -> list[int]:
    """Record that the program runs today; return all days, the last one seen at the end. Call it in a transaction."""
    text = c.value("SELECT value FROM meta WHERE key = 'days_run'") or ""
    days, today = [int(day) for day in text.split() if day.lstrip("-").isdigit()], now // DAY_S
    if days[-1:] != [today]:
        days = [*(day for day in days if day != today), today][-MOST_DAYS:]
        c.run("INSERT OR REPLACE INTO meta (key, value) VALUES ('days_run', ?)", " ".join(map(str, days)))
    return days


def is_outdated(c: Connection, written_at: str, keep_days: int, now: int) -> str:
    """
    Return, as SQL, the condition that a record is older than this many days on which the program ran.

    Args:
        c: in a transaction, since today is noted.
        written_at: the column with the time of the record, by the clock of that moment.
        keep_days: at most ``MOST_DAYS``.
    """
    days = note_day(c, now)[-keep_days:]
    if len(days) < keep_days:
        return "0"
    return f"({written_at} < {min(days) * DAY_S} OR {written_at} >= {(max(days) + 1) * DAY_S})"
