"""``/metrics`` for Prometheus, and ``/healthz`` for whoever only asks whether this answers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from integrity.catalog.sqlite_errors import find_full_folder
from integrity.errors import AppError, printable, show_path
from integrity.web.metrics import CONTENT_TYPE, write_metrics
from integrity.web.query import patient, read_at

if TYPE_CHECKING:
    from collections.abc import Sequence

    from starlette.requests import Request

    from integrity.web.site import Site


class Monitoring:
    """Pages for programs that watch this one."""

    def __init__(self, site: Site) -> None:
        self._site = site

    def routes(self) -> Sequence[Route]:
        """Return the routes."""
        return (
            read_at("/metrics", self.show_metrics),
            read_at("/healthz", self.show_health),
        )

    def show_metrics(self, _: Request) -> Response:
        """Write the metrics."""
        status, live = self._site.find_status(), self._site.find_live()
        with self._site.open_catalog() as catalog:
            return Response(write_metrics(catalog, status, live), media_type=CONTENT_TYPE)

    def show_health(self, request: Request) -> Response:
        """Answer 200 only if the service answers and the catalog can be read."""
        try:
            patient(self._open_catalog)(request)
        except AppError as error:
            return PlainTextResponse(f"the catalog can't be read: {printable(str(error))}\n", 503)
        folder = find_full_folder(self._site.catalog_path)
        if folder is not None:
            return PlainTextResponse(f"the disk with the catalog is full: free space on {show_path(folder)}\n", 503)
        live = self._site.find_live()
        if live.state is None:
            return PlainTextResponse("the service does not answer\n", 503)
        if live.stop_reason:
            return PlainTextResponse(f"the service can't record what it finds: {live.stop_reason}\n", 503)
        return PlainTextResponse("ok\n")

    def _open_catalog(self, _: Request) -> None:
        with self._site.open_catalog() as catalog, catalog.read():
            pass
