"""The list of runs with a timeline of what they verified and found, and one run with its counts."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterable
from datetime import UTC, date, datetime, timedelta
from typing import TYPE_CHECKING
from urllib.parse import urlencode

from starlette.exceptions import HTTPException
from starlette.responses import Response

from integrity.catalog.findings import IncidentSpan, find_incident_spans
from integrity.catalog.roots import find_roots
from integrity.catalog.runs import ReadAt, RunRecord, find_reads, find_runs, get_run
from integrity.kinds import INTEGRITY_PROBLEMS
from integrity.model import FindingKind, Job, RootId, RunId
from integrity.web.drawings import DayRecord, layout_bars, layout_timeline
from integrity.web.query import read_number, read_word
from integrity.words.text import count

if TYPE_CHECKING:
    from starlette.requests import Request

    from integrity.catalog.connection import Connection
    from integrity.web.site import Site


_PAGE = 100
_RATES = 60
_TALLIES = ("verified", "new", "changed", "not_due", "skipped", "unstable", "unreadable", "missing", "damaged")


def show_runs(site: Site, request: Request) -> Response:
    job, root = read_word(request, "job", Job), read_number(request, "root")
    root_id = None if root is None else RootId(root)
    with site.open_catalog() as catalog, catalog.read() as connection:
        found = ask_runs(connection, request, _PAGE + 1)
        days = read_timeline(connection, int(time.time()), root_id)
        scrubs = find_runs(connection, root_id, _RATES, job=Job.SCRUB)
        roots = find_roots(connection)
    rates = [(one.started_at, rate) for one in reversed(scrubs) if (rate := find_rate(one))]
    shown, asked = found[:_PAGE], {key: text for key, text in request.query_params.items() if key != "before"}
    return site.render(
        request,
        "runs.html",
        title="Runs",
        runs=shown,
        roots=roots,
        paths={one.id: one.path for one in roots},
        asked={"job": job, "root": root},
        days=days,
        timeline=layout_timeline(days),
        said=f"{describe_timeline(days)} {describe_gap(days)}".rstrip(),
        rates=layout_bars(rates),
        fastest=max((rate for _, rate in rates), default=0.0),
        more=f"?{urlencode(asked | {'before': str(shown[-1].id)})}" if len(found) > _PAGE else "",
        query=f"?{urlencode(asked)}" if asked else "",
    )


def ask_runs(connection: Connection, request: Request, limit: int) -> list[RunRecord]:
    """Return the runs that a query asks for, the newest first."""
    before, root = read_number(request, "before"), read_number(request, "root")
    return find_runs(
        connection,
        before=None if before is None else RunId(before),
        limit=limit,
        root_id=None if root is None else RootId(root),
        job=read_word(request, "job", Job),
    )


def show_run(site: Site, request: Request) -> Response:
    number = RunId(request.path_params["run_id"])
    with site.open_catalog() as catalog, catalog.read() as connection:
        found = get_run(connection, number)
        roots = {one.id: one.path for one in find_roots(connection)}
    if found is None:
        raise HTTPException(404)
    counts = [(name.replace("_", " "), getattr(found.counts, name)) for name in _TALLIES]
    return site.render(
        request,
        "run.html",
        title=f"Run {found.id}",
        run=found,
        root=roots.get(found.root_id, b""),
        counts=[(name, number) for name, number in counts if number],
        rate=find_rate(found),
    )


def find_rate(run: RunRecord) -> float:
    """Return the bytes that a run read in a second; 0 if that says nothing."""
    return run.counts.bytes_read / run.duration_s if run.duration_s and run.duration_s >= 1 else 0.0


DAYS = 90


def read_timeline(connection: Connection, now: int, root_id: RootId | None) -> list[DayRecord]:
    """Return the last 90 days of a root (None: of all), the oldest first; days are those of the owner's time zone."""
    since = now - DAYS * 86400
    spans = find_incident_spans(connection, since, root_id)
    return make_days(find_reads(connection, Job.SCRUB, since, root_id), spans, _find_day(now))


def make_days(reads: Iterable[ReadAt], spans: Iterable[IncidentSpan], last: date) -> list[DayRecord]:
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
    read = sum(1 for one in days if one.verified_bytes)
    found = sum(one.problems + one.gaps for one in days)
    away = sum(1 for one in days if one.is_away)
    parts = [f"files were verified on {count(read, 'day')}" if read else "nothing was verified"]
    parts.append(f"{count(found, 'finding')} opened" if found else "nothing was found")
    parts += [f"a disk was away on {count(away, 'day')}"] if away else []
    return f"In the last {len(days)} days {', '.join(parts)}."


def describe_gap(days: list[DayRecord]) -> str:
    gap = next((back for back, one in enumerate(reversed(days)) if one.verified_bytes), None)
    if gap is None:
        return ""
    return "Last verified today." if not gap else f"Last verified {count(gap, 'day')} ago."


def _find_day(at: int) -> date:
    return datetime.fromtimestamp(at, UTC).astimezone().date()
