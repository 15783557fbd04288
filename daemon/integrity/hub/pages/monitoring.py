"""``/metrics`` for Prometheus, and ``/healthz`` for whoever only asks whether the hub works."""

from __future__ import annotations

from typing import TYPE_CHECKING

from starlette.responses import PlainTextResponse, Response

from integrity.errors import AppError, printable
from integrity.hub.database import read_revision
from integrity.hub.fleet import load_fleet
from integrity.hub.metrics import write_hub_metrics
from integrity.hub.open_findings import count_open
from integrity.hub.replica_sets import load_sets
from integrity.web.metrics import CONTENT_TYPE
from integrity.web.query import read_at

if TYPE_CHECKING:
    from collections.abc import Sequence

    from starlette.requests import Request
    from starlette.routing import Route

    from integrity.hub.pages.site import HubSite


class HubMonitoring:
    """Pages for programs that watch the hub."""

    def __init__(self, site: HubSite) -> None:
        self._site = site

    def routes(self) -> Sequence[Route]:
        return (
            read_at("/metrics", self.show_metrics),
            read_at("/healthz", self.show_health),
        )

    def show_metrics(self, _: Request) -> Response:
        with self._site.read() as c:
            fleet = load_fleet(c, self._site.now, self._site.silent_after_s)
            sets, found = load_sets(c), count_open(c)
        return Response(write_hub_metrics(fleet, sets, found, self._site.find_failing()), media_type=CONTENT_TYPE)

    def show_health(self, _: Request) -> Response:
        """Answer 200 only if the database answers and all parts of the hub work."""
        try:
            with self._site.read() as c:
                read_revision(c)
        except AppError as error:
            return PlainTextResponse(f"the database can't be read: {printable(str(error))}\n", 503)
        failing = self._site.find_failing()
        if failing:
            return PlainTextResponse("".join(f"{one.text}\n" for one in failing), 503)
        return PlainTextResponse("ok\n")
