"""The list of runs with the calendar of verified bytes, and one run with its counts."""

from __future__ import annotations

import time
from collections import defaultdict
from datetime import UTC, date, datetime, timedelta
from typing import TYPE_CHECKING
from urllib.parse import urlencode

from starlette.exceptions import HTTPException
from starlette.responses import Response
from starlette.routing import Route

from integrity.catalog.roots import find_roots
from integrity.catalog.runs import RunRecord, find_reads, get_run, page_runs
from integrity.model import Job, RootId, RunId
from integrity.views.text import count
from integrity.web.drawings import layout_bars, layout_calendar
from integrity.web.query import read_at, read_number, read_word

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from starlette.requests import Request

    from integrity.catalog.runs import ReadAt
    from integrity.web.site import Site

_PAGE = 100
_WEEKS = 53
_RATES = 60
_TALLIES = ("verified", "new", "changed", "not_due", "skipped", "unstable", "unreadable", "missing", "damaged")


class RunPages:
    """The pages about runs."""

    def __init__(self, site: Site) -> None:
        self._site = site

    def routes(self) -> Sequence[Route]:
        """Return the routes."""
        return (
            read_at("/runs", self.show_list),
            read_at("/runs/{run_id:number}", self.show_run),
        )

    def show_list(self, request: Request) -> Response:
        """Show the calendar and a page of the list."""
        job, root, before = read_word(request, "job", Job), read_number(request, "root"), read_number(request, "before")
        root_id = None if root is None else RootId(root)
        with self._site.open_catalog() as catalog, catalog.read() as connection:
            found = page_runs(
                connection,
                before=None if before is None else RunId(before),
                limit=_PAGE + 1,
                root_id=root_id,
                job=job,
            )
            since = int(time.time()) - _WEEKS * 7 * 86400
            reads = find_reads(connection, Job.SCRUB, since, root_id)
            scrubs = page_runs(connection, before=None, limit=_RATES, root_id=root_id, job=Job.SCRUB)
            roots = find_roots(connection)
        rates = [(one.started_at, rate) for one in reversed(scrubs) if (rate := find_rate(one))]
        shown, asked = found[:_PAGE], {key: text for key, text in request.query_params.items() if key != "before"}
        return self._site.render(
            request,
            "runs.html",
            title="Runs",
            runs=shown,
            roots=roots,
            paths={one.id: one.path for one in roots},
            asked={"job": job, "root": root},
            calendar=layout_calendar(sum_by_day(reads), date.today(), _WEEKS),
            weeks=_WEEKS,
            gap=describe_gap(sum_by_day(reads), date.today()),
            rates=layout_bars(rates),
            fastest=max((rate for _, rate in rates), default=0.0),
            more=f"?{urlencode(asked | {'before': str(shown[-1].id)})}" if len(found) > _PAGE else "",
            query=f"?{urlencode(asked)}" if asked else "",
        )

    def show_run(self, request: Request) -> Response:
        """Show one run."""
        number = RunId(request.path_params["run_id"])
        with self._site.open_catalog() as catalog, catalog.read() as connection:
            found = get_run(connection, number)
            roots = {one.id: one.path for one in find_roots(connection)}
        if found is None:
            raise HTTPException(404)
        counts = [(name.replace("_", " "), getattr(found.counts, name)) for name in _TALLIES]
        return self._site.render(
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


def sum_by_day(reads: Iterable[ReadAt]) -> dict[date, int]:
    """Add up what was read on each day, in the owner's time zone."""
    days: dict[date, int] = defaultdict(int)
    for one in reads:
        days[datetime.fromtimestamp(one.finished_at, UTC).astimezone().date()] += one.bytes_read
    return days


def describe_gap(days: dict[date, int], last: date) -> str:
    """Say when something was last verified."""
    gap = next((back for back in range(_WEEKS * 7) if days.get(last - timedelta(days=back))), None)
    if gap is None:
        return "Nothing was verified in the last year."
    return "Verified today." if not gap else f"Last verified {count(gap, 'day')} ago."
