"""The replica sets, and one set: its members side by side, and what differs between them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple
from urllib.parse import urlencode

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from integrity.catalog.coverage import Age
from integrity.hub.finding_list import HubFindingFilter, page_findings
from integrity.hub.fleet import BoxRoot, BoxStatus
from integrity.hub.fleet_sentence import shorten
from integrity.hub.pages.site import HubSite
from integrity.hub.replica_sets import Agreement, SetStatus, describe_agreement, find_set, load_sets, load_their_boxes
from integrity.web.query import read_at, read_number

_PAGE = 100


class SetMemberView(NamedTuple):
    """A member of a set with its box. ``oldest_at``: by the clock of the hub."""

    root: BoxRoot
    status: BoxStatus
    oldest_at: int | None
    is_overdue: bool


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
            found = load_sets(c, after=request.query_params.get("after", ""), limit=_PAGE + 1)
            fleet = load_their_boxes(c, found, self._site.now, self._site.silent_after_s)
        shown = found[:_PAGE]
        return self._site.render(
            request,
            "sets.html",
            title="Replica sets",
            sets=pair_agreements(shown, fleet),
            boxes={status.box.id: status.box for status in fleet},
            more=f"?{urlencode({'after': shown[-1].name})}" if len(found) > _PAGE else "",
        )

    def show_set(self, request: Request) -> Response:
        with self._site.read() as c:
            one = find_set(c, request.path_params["name"])
            if one is None:
                raise HTTPException(404, "there is no set with this name")
            fleet = load_their_boxes(c, [one], self._site.now, self._site.silent_after_s)
            found = page_findings(
                c, HubFindingFilter(set_id=one.id), before=read_number(request, "before"), limit=_PAGE + 1
            )
        return self._site.render(
            request,
            "set.html",
            title=shorten(one.name),
            one=one,
            agreement=pair_agreements([one], fleet)[0][1],
            members=join_members(one, fleet),
            findings=found[:_PAGE],
            more=f"?before={found[_PAGE - 1].id}" if len(found) > _PAGE else "",
        )


def pair_agreements(sets: Iterable[SetStatus], fleet: Iterable[BoxStatus]) -> list[tuple[SetStatus, Agreement]]:
    statuses = {status.box.id: status for status in fleet}
    return [(one, describe_agreement(one, statuses)) for one in sets]


def join_members(one: SetStatus, fleet: Iterable[BoxStatus]) -> list[SetMemberView]:
    """Return the members of a set with their boxes, in the order of their names."""
    statuses = {status.box.id: status for status in fleet}
    views = []
    for root in one.members:
        status = statuses[root.box_id]
        views.append(SetMemberView(root, status, status.oldest_of(root), status.age_of(root) is Age.OVERDUE))
    return sorted(views, key=lambda view: view.status.box.name)
