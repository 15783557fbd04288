"""What happened on each of the last days: what was verified, what was found and resolved, when a disk was away."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from datetime import UTC, date, datetime, timedelta
from typing import TYPE_CHECKING

from integrity.catalog.findings import IncidentSpan, find_incident_spans
from integrity.catalog.runs import ReadAt, find_reads
from integrity.kinds import INTEGRITY_PROBLEMS
from integrity.model import FindingKind, Job
from integrity.web.drawings import DayRecord
from integrity.words.text import count

if TYPE_CHECKING:
    from integrity.catalog.connection import Connection
    from integrity.model import RootId

DAYS = 90


def read_timeline(connection: Connection, now: int, root_id: RootId | None) -> list[DayRecord]:
    """Return the last 90 days of a root (None: of all), the oldest first; days are those of the owner's time zone."""
    since = now - DAYS * 86400
    spans = find_incident_spans(connection, since, root_id)
    return make_days(find_reads(connection, Job.SCRUB, since, root_id), spans, _find_day(now))


def make_days(reads: Iterable[ReadAt], spans: Iterable[IncidentSpan], last: date) -> list[DayRecord]:
    """Return 90 days, the last one included."""
    verified, problems, gaps, resolved = (Counter[date]() for _ in range(4))
    away: set[date] = set()
    first = last - timedelta(days=DAYS - 1)
    for one in reads:
        verified[_find_day(one.finished_at)] += one.bytes_read
    for span in spans:
        opened, ended = _find_day(span.opened_at), last if span.resolved_at is None else _find_day(span.resolved_at)
        (problems if span.kind in INTEGRITY_PROBLEMS else gaps)[opened] += span.number
        if span.resolved_at is not None:
            resolved[ended] += span.number
        if span.kind is FindingKind.ROOT_SUSPENDED:
            begin = max(opened, first)
            away |= {begin + timedelta(days=number) for number in range((min(ended, last) - begin).days + 1)}
    days = (first + timedelta(days=number) for number in range(DAYS))
    return [DayRecord(day, verified[day], problems[day], gaps[day], resolved[day], day in away) for day in days]


def describe_timeline(days: list[DayRecord]) -> str:
    """Say in a sentence what the days had."""
    read = sum(1 for one in days if one.verified_bytes)
    found = sum(one.problems + one.gaps for one in days)
    away = sum(1 for one in days if one.is_away)
    parts = [f"files were verified on {count(read, 'day')}" if read else "nothing was verified"]
    parts.append(f"{count(found, 'finding')} opened" if found else "nothing was found")
    parts += [f"a disk was away on {count(away, 'day')}"] if away else []
    return f"In the last {len(days)} days {', '.join(parts)}."


def describe_gap(days: list[DayRecord]) -> str:
    """Say when something was last verified."""
    gap = next((back for back, one in enumerate(reversed(days)) if one.verified_bytes), None)
    if gap is None:
        return ""
    return "Last verified today." if not gap else f"Last verified {count(gap, 'day')} ago."


def _find_day(at: int) -> date:
    return datetime.fromtimestamp(at, UTC).astimezone().date()
