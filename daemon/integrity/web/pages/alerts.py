"""The alerts: who is told, what was sent when, what waits, and which channels fail."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from starlette.responses import Response
from starlette.routing import Route

from integrity.alerts.status import find_alert_status
from integrity.catalog.outbox import find_sent
from integrity.views.service import describe_alerts
from integrity.web.query import read_at

if TYPE_CHECKING:
    from collections.abc import Sequence

    from starlette.requests import Request

    from integrity.web.site import Site

_SHOWN = 100


class AlertPages:
    """The page about alerts."""

    def __init__(self, site: Site) -> None:
        self._site = site

    def routes(self) -> Sequence[Route]:
        """Return the route."""
        return (read_at("/alerts", self.show),)

    def show(self, request: Request) -> Response:
        """Show who is told, and the last messages."""
        live = self._site.find_live()
        with self._site.open_catalog() as catalog, catalog.read() as connection:
            # Not that of the known status: whoever has just sent a test looks for what came of it.
            alerts = find_alert_status(connection, self._site.config, int(time.time()))
            sent = find_sent(connection, _SHOWN)
        return self._site.render(
            request,
            "alerts.html",
            title="Alerts",
            lines=list(describe_alerts(alerts, live, self._site.config_place)),
            channels=alerts.channels,
            sent=sent,
        )
