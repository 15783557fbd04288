"""The first page: a card for each box, the worst first. The audit log. And what programs ask that watch the hub."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

import sqlalchemy as sa
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from integrity.catalog.coverage import Age
from integrity.config import format_duration, format_size
from integrity.errors import AppError, printable
from integrity.hub.audit import find_entries
from integrity.hub.database import read_revision
from integrity.hub.fleet import (
    MOST_SHOWN,
    BoxHealth,
    BoxStatus,
    add_details,
    count_open,
    describe_agreement,
    load_boxes,
    load_sets,
)
from integrity.hub.fleet_sentence import describe_gap, load_fleet, sum_up_fleet
from integrity.hub.metrics import MOST_SETS, write_hub_metrics
from integrity.hub.pages.site import HubSite
from integrity.hub.schema import member, replica_set
from integrity.web.drawings import BarPart, layout_bar
from integrity.web.metrics import CONTENT_TYPE
from integrity.web.query import read_at, read_number
from integrity.words.text import count

_MOST_SETS = 20
_ENTRIES = 100
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


class HubOverview:
    """The first page."""

    def __init__(self, site: HubSite) -> None:
        self._site = site

    def routes(self) -> Sequence[Route]:
        return (read_at("/", self.show),)

    def show(self, request: Request) -> Response:
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


def make_card(one: BoxStatus) -> BoxCard:
    """Collect what the card of a box shows."""
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


class AuditPages:
    """The page of the audit log."""

    def __init__(self, site: HubSite) -> None:
        self._site = site

    def routes(self) -> Sequence[Route]:
        return (read_at("/audit", self.show),)

    def show(self, request: Request) -> Response:
        """Show a page of the log."""
        with self._site.read() as c:
            found = find_entries(c, before=read_number(request, "before"), limit=_ENTRIES + 1)
        return self._site.render(
            request,
            "audit.html",
            title="Audit log",
            entries=found[:_ENTRIES],
            more=f"?before={found[_ENTRIES - 1].id}" if len(found) > _ENTRIES else "",
        )


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
