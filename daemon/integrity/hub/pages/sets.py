"""The replica sets, and one set: its members side by side, and what differs between them."""

from __future__ import annotations

from collections.abc import Sequence
from urllib.parse import urlencode

import sqlalchemy as sa
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from integrity.hub.finding_list import HubFindingFilter, page_findings
from integrity.hub.fleet import SetStatus, describe_agreement, load_boxes, load_sets
from integrity.hub.fleet_sentence import shorten
from integrity.hub.pages.site import HubSite
from integrity.hub.schema import replica_set
from integrity.web.query import read_at, read_number

_PAGE = 100


class SetPages:
    """The pages about replica sets."""

    def __init__(self, site: HubSite) -> None:
        self._site = site

    def routes(self) -> Sequence[Route]:
        return (
            read_at("/sets", self.show_list),
            read_at("/sets/{name:path}", self.show_set),
        )

    def show_list(self, request: Request) -> Response:
        with self._site.read() as c:
            found = page_sets(c, self._site, request, limit=_PAGE + 1)
        shown = found[:_PAGE]
        return self._site.render(
            request,
            "sets.html",
            title="Replica sets",
            sets=[(one, describe_agreement(one)) for one in shown],
            more=f"?{urlencode({'after': shown[-1].name})}" if len(found) > _PAGE else "",
        )

    def show_set(self, request: Request) -> Response:
        with self._site.read() as c:
            one = get_set(c, self._site, request)
            ids = {root.box_id for root in one.members}
            boxes = load_boxes(c, self._site.now, self._site.silent_after_s, ids=ids)
            found = page_findings(
                c, HubFindingFilter(set_id=one.id), before=read_number(request, "before"), limit=_PAGE + 1
            )
        return self._site.render(
            request,
            "set.html",
            title=shorten(one.name),
            one=one,
            agreement=describe_agreement(one),
            members=sorted(one.members, key=lambda root: root.box_name),
            boxes={box.id: box for box in boxes},
            findings=found[:_PAGE],
            more=f"?before={found[_PAGE - 1].id}" if len(found) > _PAGE else "",
        )


def get_set(c: sa.Connection, site: HubSite, request: Request) -> SetStatus:
    """
    Return the set that a URL names.

    Raises:
        HTTPException: 404, there is none with this name.
    """
    is_it = replica_set.c.name == request.path_params["name"]
    for one in load_sets(c, site.now, site.silent_after_s, is_it):
        return one
    raise HTTPException(404, "there is no set with this name")


def page_sets(c: sa.Connection, site: HubSite, request: Request, *, limit: int) -> list[SetStatus]:
    """Return a page of sets: those behind the name ``after`` of the query."""
    is_behind = replica_set.c.name > request.query_params.get("after", "")
    return load_sets(c, site.now, site.silent_after_s, is_behind, limit=limit)
