"""How everything is: roots and what runs now, the copies, the alerts, the configuration in force."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from typing import TYPE_CHECKING, NamedTuple

from sse_starlette import EventSourceResponse, ServerSentEvent
from starlette.concurrency import run_in_threadpool
from starlette.responses import Response

from integrity.alerts.status import find_alert_status
from integrity.catalog.coverage import Age
from integrity.catalog.outbox import find_sent
from integrity.config.sample import list_settings
from integrity.model import Policy
from integrity.units import format_duration, format_size
from integrity.views.copies import describe_unreachable, make_copy_card
from integrity.views.roots import make_root_card
from integrity.views.sentence import describe_hub, sum_up_status
from integrity.views.service import find_idleness, make_alerts_card
from integrity.web.drawings import BarPart, layout_bar
from integrity.words.text import PLAIN, count

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence

    from starlette.requests import Request

    from integrity.config.sample import Setting
    from integrity.jobs.compare.deadline import CopyStatus
    from integrity.jobs.status import RootStatus, Status
    from integrity.model import FindingKind
    from integrity.views.service import ServiceView
    from integrity.web.security import Sessions
    from integrity.web.site import Site

    Section = tuple[str, list[Setting]]


_CLASSES = {Age.UNCOVERED: "problem"}


_POLICIES = {
    Policy.MUTABLE: "files may change",
    Policy.ARCHIVE: "files never change",
    Policy.GROWING: "files are only appended to",
}


class RootCard(NamedTuple):
    """What the card of a root shows; ``rows``: what is known of it, by labels."""

    status: RootStatus
    bar: list[BarPart]
    rows: dict[str, str]
    copies: tuple[CopyStatus, ...]


def show_overview(site: Site, request: Request) -> Response:
    status, live = site.find_status(), site.find_live()
    return site.render(
        request,
        "overview.html",
        title="Overview",
        read_at=status.at,
        sentence=sum_up_status(status, live),
        cards=[make_card(one, status, live) for one in status.roots],
        live=live,
        idleness=find_idleness(live),
        hub=list(describe_hub(status.hub, live)),
        policies=_POLICIES,
    )


def make_card(one: RootStatus, status: Status, live: ServiceView) -> RootCard:
    rows = dict(make_root_card(one, live, status.at, PLAIN).rows)
    return RootCard(one, make_age_bar(one), rows, tuple(copy for copy in status.copies if copy.root.id == one.root.id))


def make_age_bar(one: RootStatus) -> list[BarPart]:
    """Lay out how long ago the bytes of a root were verified."""
    promise = format_duration(one.settings.verify_every_s)
    words = {
        Age.DAY: "verified within a day",
        Age.WEEK: "verified within a week",
        Age.KEPT: f"verified within {promise}",
        Age.OVERDUE: f"not verified within {promise}",
        Age.NEVER: "not read again since recorded",
        Age.UNCOVERED: "damaged or uncertain",
    }
    return layout_bar(
        (
            _CLASSES.get(share.age, share.age.value),
            f"{words[share.age]}: {format_size(share.bytes)}, {count(share.files, 'file')}",
            max(share.bytes, 1) if share.files else 0,
        )
        for share in one.coverage.ages
    )


class CopyRow(NamedTuple):
    """A copy, what is known of it by labels, and that it can't be reached."""

    copy: CopyStatus
    rows: dict[str, str]
    unreachable: str
    open_kinds: Counter[FindingKind]


def show_copies(site: Site, request: Request) -> Response:
    status, live = site.find_status(), site.find_live()
    rows = [
        CopyRow(
            one,
            dict(make_copy_card(one, status, live, PLAIN).rows),
            describe_unreachable(one.name, status.find_unreachable(one)),
            status.count_open(one),
        )
        for one in status.copies
    ]
    return site.render(
        request, "copies.html", title="Backup copies", read_at=status.at, rows=rows, lost=status.lost_copies
    )


_SHOWN = 100
_LOOK_S = 2.0


def show_alerts(site: Site, request: Request) -> Response:
    live = site.find_live()
    with site.open_catalog() as catalog, catalog.read() as connection:
        # Not that of the known status: whoever has just sent a test looks for what came of it.
        alerts = find_alert_status(connection, site.config, int(time.time()))
        sent = find_sent(connection, _SHOWN)
    card = make_alerts_card(alerts, live, site.config_place)
    return site.render(
        request,
        "alerts.html",
        title="Alerts",
        rows=[("", card.title), *card.rows],
        channels=alerts.channels,
        sent=sent,
    )


def _select(sections: Sequence[Section], *, is_default: bool) -> list[Section]:
    """Return the headings with those of their keys that have, or do not have, their default."""
    chosen = [
        # The first key of a root or copy is its path or name.
        (
            f"{heading} {keys[0].value}" if heading.startswith("[[") else heading,
            [one for one in keys if one.is_default is is_default],
        )
        for heading, keys in sections
    ]
    return [section for section in chosen if section[1]]


def show_settings(site: Site, request: Request) -> Response:
    sections = list_settings(site.config)
    return site.render(
        request,
        "settings.html",
        title="Settings",
        place=site.config_place,
        changed=_select(sections, is_default=False),
        defaults=_select(sections, is_default=True),
    )


async def send_live(site: Site, sessions: Sessions, request: Request) -> Response:
    """
    Send what runs now, as it changes, until the viewer goes or the session ends.

    All viewers share one question to the service each two seconds (``Site.find_live``).
    """
    session = request.scope["state"]["session"]

    async def list_events() -> AsyncIterator[ServerSentEvent]:
        template, said = site.templates.get_template("now.html"), ""
        while sessions.holds(session):
            live = await run_in_threadpool(site.find_live)
            text = template.render(live=live, idleness=find_idleness(live))
            if text != said:
                said = text
                yield ServerSentEvent(text, event="state")
            await asyncio.sleep(_LOOK_S)

    return EventSourceResponse(list_events(), ping=30)
