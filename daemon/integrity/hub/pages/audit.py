"""The audit log: who did what on the hub, and which boxes began anew."""

from __future__ import annotations

from typing import TYPE_CHECKING

from starlette.responses import Response

from integrity.hub.audit import find_entries
from integrity.web.query import read_at, read_number

if TYPE_CHECKING:
    from collections.abc import Sequence

    from starlette.requests import Request
    from starlette.routing import Route

    from integrity.hub.pages.site import HubSite

_PAGE = 100


class AuditPages:
    """The page of the audit log."""

    def __init__(self, site: HubSite) -> None:
        self._site = site

    def routes(self) -> Sequence[Route]:
        return (read_at("/audit", self.show),)

    def show(self, request: Request) -> Response:
        """Show a page of the log."""
        with self._site.read() as c:
            found = find_entries(c, before=read_number(request, "before"), limit=_PAGE + 1)
        return self._site.render(
            request,
            "audit.html",
            title="Audit log",
            entries=found[:_PAGE],
            more=f"?before={found[_PAGE - 1].id}" if len(found) > _PAGE else "",
        )
