"""The list of runs with a timeline of what they verified and found, and one run with its counts."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING
from urllib.parse import urlencode

from starlette.exceptions import HTTPException
from starlette.responses import Response
from starlette.routing import Route

from integrity.catalog.roots import find_roots
from integrity.catalog.runs import RunRecord, find_runs, get_run
from integrity.model import Job, RootId, RunId
from integrity.web.drawings import layout_bars, layout_timeline
from integrity.web.query import read_at, read_number, read_word
from integrity.web.timeline import describe_gap, describe_timeline, read_timeline

if TYPE_CHECKING:
    from collections.abc import Sequence

    from starlette.requests import Request

    from integrity.web.site import Site

_PAGE = 100
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
        """Show the last 90 days and a page of the list."""
        job, root, before = read_word(request, "job", Job), read_number(request, "root"), read_number(request, "before")
        root_id = None if root is None else RootId(root)
        with self._site.open_catalog() as catalog, catalog.read() as connection:
            found = find_runs(
                connection,
                before=None if before is None else RunId(before),
                limit=_PAGE + 1,
                root_id=root_id,
                job=job,
            )
            days = read_timeline(connection, int(time.time()), root_id)
            scrubs = find_runs(connection, root_id, _RATES, job=Job.SCRUB)
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
            days=days,
            timeline=layout_timeline(days),
            said=f"{describe_timeline(days)} {describe_gap(days)}".rstrip(),
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
