"""The table of boxes, and one box: its folders, its sets, what it found, and what happened on it."""

from __future__ import annotations

from collections.abc import Sequence
from urllib.parse import urlencode

import sqlalchemy as sa
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from integrity.config import format_duration
from integrity.hub import schema
from integrity.hub.box_reports import ReportCursor, page_box_findings, page_events
from integrity.hub.finding_list import HubFindingFilter, page_findings
from integrity.hub.fleet import BoxHealth, BoxOrder, BoxStatus, add_details, load_boxes
from integrity.hub.fleet_sentence import describe_gap
from integrity.hub.pages.overview import make_box_bar
from integrity.hub.pages.site import HubSite
from integrity.web.query import includes_resolved, read_at, read_number, read_word

_PAGE = 100
_FINDINGS = 50
_EVENTS = 50
_CLOCK_SLACK_S = 5
"""A report takes some time to arrive."""


class BoxPages:
    """The pages about boxes."""

    def __init__(self, site: HubSite) -> None:
        self._site = site

    def routes(self) -> Sequence[Route]:
        return (
            read_at("/boxes", self.show_list),
            read_at("/boxes/{name}", self.show_box),
        )

    def show_list(self, request: Request) -> Response:
        """Show a page of the table, as its filters say."""
        with self._site.read() as c:
            found = page_boxes(c, self._site, request, limit=_PAGE + 1)
        shown, asked = found[:_PAGE], {key: text for key, text in request.query_params.items() if key != "after"}
        return self._site.render(
            request,
            "boxes.html",
            title="Boxes",
            boxes=shown,
            orders=list(BoxOrder),
            healths={health: health.words for health in BoxHealth},
            asked={key: asked.get(key, "") for key in ("name", "health", "sort")},
            more=f"?{urlencode(asked | {'after': shown[-1].name})}" if len(found) > _PAGE else "",
            query=f"?{urlencode(asked)}" if asked else "",
        )

    def show_box(self, request: Request) -> Response:
        before, shows_all = read_cursor(request, "findings_before"), includes_resolved(request, "findings")
        with self._site.read() as c:
            one = get_box(c, self._site, request)
            findings = page_box_findings(c, one.id, before=before, limit=_FINDINGS + 1, include_resolved=shows_all)
            events = page_events(c, one.id, before=read_number(request, "events_before"), limit=_EVENTS + 1)
            hub_findings = page_findings(c, HubFindingFilter(box_id=one.id), before=None, limit=_FINDINGS)
        last = findings[:_FINDINGS][-1].cursor if len(findings) > _FINDINGS else None
        asked = {"findings": "all"} if shows_all else {}
        return self._site.render(
            request,
            "box.html",
            title=one.name,
            one=one,
            gap=describe_gap(one) if one.health is BoxHealth.GAP and one.state != "gap" else "",
            bar=make_box_bar(one),
            clock=describe_clock(one.clock_ahead_s),
            findings=findings[:_FINDINGS],
            shows_all=shows_all,
            more_findings=f"?{urlencode(asked | {'findings_before': write_cursor(last)})}" if last else "",
            hub_findings=hub_findings,
            events=events[:_EVENTS],
            more_events=f"?events_before={events[_EVENTS - 1].id}" if len(events) > _EVENTS else "",
        )


def describe_clock(ahead_s: int | None) -> str:
    """Say how the clock of a box compares with that of the hub."""
    if ahead_s is None:
        return "not known"
    if abs(ahead_s) <= _CLOCK_SLACK_S:
        return "agrees with the hub's"
    return f"{format_duration(abs(ahead_s))} {'ahead of' if ahead_s > 0 else 'behind'} the hub's"


def get_box(c: sa.Connection, site: HubSite, request: Request) -> BoxStatus:
    """
    Return the status of the box that a URL names, with details.

    Raises:
        HTTPException: 404, there is none with this name.
    """
    ids = c.execute(sa.select(schema.box.c.id).where(schema.box.c.name == request.path_params["name"])).scalars().all()
    for one in add_details(c, load_boxes(c, site.now, site.silent_after_s, ids=ids), site.now) if ids else ():
        return one
    raise HTTPException(404, "there is no box with this name")


def page_boxes(c: sa.Connection, site: HubSite, request: Request, *, limit: int) -> list[BoxStatus]:
    """Return a page of boxes as a query asks for: ``name`` (a part of it), ``health``, ``sort``, ``after`` (a name)."""
    return load_boxes(
        *(c, site.now, site.silent_after_s),
        order=read_word(request, "sort", BoxOrder) or BoxOrder.NAME,
        part=request.query_params.get("name", ""),
        health=read_word(request, "health", BoxHealth),
        after=request.query_params.get("after", ""),
        limit=limit,
    )


def read_cursor(request: Request, name: str) -> ReportCursor | None:
    """Return where a page of reported findings begins; None: at the newest."""
    text = request.query_params.get(name, "")
    if not text:
        return None
    parts = text.split(".")
    if len(parts) != 2 or not all(part.isascii() and part.isdecimal() and len(part) <= 18 for part in parts):
        raise HTTPException(400, f"{name}: must be taken from a link.")
    return ReportCursor(int(parts[0]), int(parts[1]))


def write_cursor(cursor: ReportCursor) -> str:
    """Write where a page of reported findings begins."""
    return f"{cursor.number}.{cursor.opened_at}"
