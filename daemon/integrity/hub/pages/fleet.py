"""
The overview with a card for each box; the tables of boxes, replica sets, and shared trees, and one of each.

Beside them the audit log, and what programs ask that watch the hub.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple
from urllib.parse import urlencode

import sqlalchemy as sa
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from integrity.catalog.coverage import Age
from integrity.errors import AppError, printable
from integrity.hub import schema
from integrity.hub.audit import find_entries
from integrity.hub.box_reports import ReportCursor, page_box_findings, page_events
from integrity.hub.database import read_revision
from integrity.hub.findings import UNRESOLVED, page_findings
from integrity.hub.fleet import (
    MOST_SHOWN,
    BoxHealth,
    BoxOrder,
    BoxStatus,
    SetStatus,
    add_details,
    count_open,
    describe_agreement,
    load_boxes,
    load_sets,
)
from integrity.hub.fleet_sentence import describe_gap, load_fleet, shorten, sum_up_fleet
from integrity.hub.metrics import MOST_SETS, write_hub_metrics
from integrity.hub.pages.site import HubSite
from integrity.hub.schema import finding, member, replica_set, shared_tree
from integrity.hub.shards.promise import TreePromise, find_promises, find_workers, page_shards
from integrity.units import format_duration, format_size
from integrity.views.sentence import Gravity
from integrity.web.drawings import BarPart, layout_bar
from integrity.web.metrics import CONTENT_TYPE
from integrity.web.query import includes_resolved, read_at, read_number, read_word
from integrity.words.text import count

_MOST_SETS = 20
_PAGE = 100
_WORDS = {
    Age.DAY: "verified within a day",
    Age.WEEK: "verified within a week",
    Age.KEPT: "verified as promised",
    Age.OVERDUE: "overdue",
    Age.NEVER: "not read again since recorded",
}


class BoxCard(NamedTuple):
    """What the card of a box shows. ``gap``: why it is not known to be well, if it does not say so itself."""

    status: BoxStatus
    bar: list[BarPart]
    gap: str


def make_card(one: BoxStatus) -> BoxCard:
    is_said = one.health is not BoxHealth.GAP or one.state == "gap"
    return BoxCard(one, make_box_bar(one), "" if is_said else describe_gap(one))


def make_box_bar(one: BoxStatus) -> list[BarPart]:
    """
    Lay out how long ago the bytes of a box were verified.

    Each folder counts as a whole, with the file in it that waits longest. Of a silent box nothing is known: what was
    verified when it last reported may have been lost since.
    """
    if one.is_silent:
        silence = format_duration(one.silence_s or 0)
        size = f"{format_size(one.bytes)}, {count(one.files, 'file')}"
        return layout_bar([("never", f"not known, no report for {silence}: {size}", max(one.bytes, 1))])
    files, sizes = Counter[Age](), Counter[Age]()
    for root in one.roots:
        if root.age is not None:
            files[Age(root.age)] += root.file_count
            sizes[Age(root.age)] += root.byte_count
    parts = [
        (
            age.value,
            f"{words}: {format_size(sizes[age])}, {count(files[age], 'file')}",
            max(sizes[age], 1) if files[age] else 0,
        )
        for age, words in _WORDS.items()
    ]
    # How large the files with findings are is not reported: the part is as narrow as one that can be seen.
    return layout_bar([*parts, ("problem", count(one.finding_count, "open finding"), int(one.finding_count > 0))])


_FINDINGS = 50
_EVENTS = 50
_CLOCK_SLACK_S = 5
"""A report takes some time to arrive."""


def describe_clock(ahead_s: int | None) -> str:
    if ahead_s is None:
        return "not known"
    if abs(ahead_s) <= _CLOCK_SLACK_S:
        return "agrees with the hub's"
    return f"{format_duration(abs(ahead_s))} {'ahead of' if ahead_s > 0 else 'behind'} the hub's"


def get_box(c: sa.Connection, site: HubSite, request: Request) -> BoxStatus:
    """Return the status of the box that a URL names, with details, or raise HTTPException (404)."""
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
    text = request.query_params.get(name, "")
    if not text:
        return None
    parts = text.split(".")
    if len(parts) != 2 or not all(part.isascii() and part.isdecimal() and len(part) <= 18 for part in parts):
        raise HTTPException(400, f"{name}: must be taken from a link.")
    return ReportCursor(int(parts[0]), int(parts[1]))


def write_cursor(cursor: ReportCursor) -> str:
    return f"{cursor.number}.{cursor.opened_at}"


def get_set(c: sa.Connection, site: HubSite, request: Request) -> SetStatus:
    """Return the set that a URL names, or raise HTTPException (404)."""
    is_it = replica_set.c.name == request.path_params["name"]
    for one in load_sets(c, site.now, site.silent_after_s, is_it):
        return one
    raise HTTPException(404, "there is no set with this name")


def page_sets(c: sa.Connection, site: HubSite, request: Request, *, limit: int) -> list[SetStatus]:
    """Return a page of sets: those behind the name ``after`` of the query."""
    is_behind = replica_set.c.name > request.query_params.get("after", "")
    return load_sets(c, site.now, site.silent_after_s, is_behind, limit=limit)


class TreeView(NamedTuple):
    """A tree with its state in a sentence; a tree that nobody reads now is not green."""

    promise: TreePromise
    sentence: str
    gravity: Gravity


def make_view(promise: TreePromise, now: int) -> TreeView:
    is_well = promise.is_surveyed and promise.workers and not promise.unread_shards and promise.is_kept
    return TreeView(promise, promise.describe(now), Gravity.GOOD if is_well else Gravity.WARNING)


def get_promise(c: sa.Connection, site: HubSite, name: str) -> TreePromise:
    for one in find_promises(c, site.lease_s, site.now, shared_tree.c.name == name):
        return one
    raise HTTPException(404, "there is no shared tree with this name")


class FleetPages:
    """The pages about boxes, sets, and trees; the audit log; and what programs ask that watch the hub."""

    def __init__(self, site: HubSite) -> None:
        self._site = site

    def routes(self) -> Sequence[Route]:
        pages = {
            "/": self.show_overview,
            "/boxes": self.show_boxes,
            "/boxes/{name}": self.show_box,
            "/sets": self.show_sets,
            "/sets/{name:path}": self.show_set,
            "/trees": self.show_trees,
            "/trees/{name:path}": self.show_tree,
            "/audit": self.show_audit,
            "/metrics": self.show_metrics,
            "/healthz": self.show_health,
        }
        return [read_at(path, page) for path, page in pages.items()]

    def show_overview(self, request: Request) -> Response:
        now, silent_after_s = self._site.now, self._site.silent_after_s
        with self._site.read() as c:
            fleet = load_fleet(c, now, silent_after_s)
            sentence = sum_up_fleet(c, fleet, now, self._site.find_failing())
            groups = [group for group in fleet.groups if group.first[0].health is not BoxHealth.REVOKED]
            places = {health: place for place, health in enumerate(BoxHealth)}
            first = [one for group in groups for one in group.first]
            first.sort(key=lambda one: (places[one.health], one.name))
            boxes = add_details(c, first[:MOST_SHOWN], now)
            sets = load_sets(c, now, silent_after_s, limit=_MOST_SETS, order=("has_open", "name"))
        numbers = Counter[BoxHealth]()
        for group in groups:
            numbers[group.first[0].health] += group.number
        return self._site.render(
            request,
            "hub_overview.html",
            title="Overview",
            sentence=sentence,
            found=fleet.found,
            cards=[make_card(one) for one in boxes],
            total=numbers.total(),
            numbers=[(health, numbers[health]) for health in BoxHealth if numbers[health]],
            sets=[(one, describe_agreement(one)) for one in sets],
            set_count=sum(one.number for one in fleet.sets.values()),
        )

    def show_audit(self, request: Request) -> Response:
        with self._site.read() as c:
            found = find_entries(c, before=read_number(request, "before"), limit=_PAGE + 1)
        return self._site.render(
            request,
            "audit.html",
            title="Audit log",
            entries=found[:_PAGE],
            more=f"?before={found[_PAGE - 1].id}" if len(found) > _PAGE else "",
        )

    def show_metrics(self, _: Request) -> Response:
        at = self._site.now, self._site.silent_after_s
        with self._site.read() as c:
            boxes, found = load_boxes(c, *at), count_open(c)
            is_reported = sa.exists().where(member.c.set_id == replica_set.c.id, member.c.removed_at.is_(None))
            sets = load_sets(c, *at, is_reported, limit=MOST_SETS, order=("created_at", "id"))
            set_count = c.execute(sa.select(sa.func.count()).select_from(replica_set)).scalar_one()
        text = write_hub_metrics(boxes, sets, set_count, found, self._site.find_failing())
        return Response(text, media_type=CONTENT_TYPE)

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

    def show_boxes(self, request: Request) -> Response:
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
            hub_findings = page_findings(c, UNRESOLVED, finding.c.box_id == one.id, before=None, limit=_FINDINGS)
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

    def show_sets(self, request: Request) -> Response:
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
                c, UNRESOLVED, finding.c.set_id == one.id, before=read_number(request, "before"), limit=_PAGE + 1
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

    def show_trees(self, request: Request) -> Response:
        now = self._site.now
        with self._site.read() as c:
            trees = [make_view(one, now) for one in find_promises(c, self._site.lease_s, now)]
        return self._site.render(request, "trees.html", title="Shared trees", trees=trees)

    def show_tree(self, request: Request) -> Response:
        with self._site.read() as c:
            promise = get_promise(c, self._site, request.path_params["name"])
            workers = find_workers(c, promise.tree_id)
            shards = page_shards(c, promise.tree_id, after=read_number(request, "after") or 0, limit=_PAGE + 1)
            findings = page_findings(c, UNRESOLVED, finding.c.tree_id == promise.tree_id, before=None, limit=_FINDINGS)
        return self._site.render(
            request,
            "tree.html",
            title=shorten(promise.name),
            tree=make_view(promise, self._site.now),
            lost_before=self._site.now - self._site.lease_s,
            workers=workers,
            shards=shards[:_PAGE],
            more=f"?after={shards[_PAGE - 1].id}" if len(shards) > _PAGE else "",
            findings=findings,
        )
