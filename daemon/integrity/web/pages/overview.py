"""The first page: how everything is, a card for each root, and what runs now."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from starlette.responses import Response
from starlette.routing import Route

from integrity.catalog.coverage import Age
from integrity.config import format_duration, format_size
from integrity.model import Policy
from integrity.views.roots import describe_devices, describe_protection, forecast
from integrity.views.runs import describe_root_run
from integrity.views.sentence import describe_hub, sum_up_status
from integrity.views.service import find_idleness
from integrity.web.drawings import BarPart, layout_bar
from integrity.web.query import read_at
from integrity.words.text import PLAIN, count

if TYPE_CHECKING:
    from collections.abc import Sequence

    from starlette.requests import Request

    from integrity.jobs.compare.deadline import CopyStatus
    from integrity.jobs.status import RootStatus, Status
    from integrity.web.site import Site

_CLASSES = {Age.UNCOVERED: "problem"}


_POLICIES = {
    Policy.MUTABLE: "files may change",
    Policy.ARCHIVE: "files never change",
    Policy.GROWING: "files are only appended to",
}


class RootCard(NamedTuple):
    """What the card of a root shows."""

    status: RootStatus
    bar: list[BarPart]
    forecast: str
    parity: str
    last_scan: str
    last_scrub: str
    copies: tuple[CopyStatus, ...]
    devices: tuple[str, ...]


class Overview:
    """The first page."""

    def __init__(self, site: Site) -> None:
        self._site = site

    def routes(self) -> Sequence[Route]:
        """Return the route of the page."""
        return (read_at("/", self.show),)

    def show(self, request: Request) -> Response:
        """Show the page."""
        status, live = self._site.find_status(), self._site.find_live()
        return self._site.render(
            request,
            "overview.html",
            title="Overview",
            read_at=status.at,
            sentence=sum_up_status(status, live),
            cards=[make_card(one, status) for one in status.roots],
            live=live,
            idleness=find_idleness(live),
            hub=list(describe_hub(status.hub, live)),
            policies=_POLICIES,
        )


def make_card(one: RootStatus, status: Status) -> RootCard:
    """Collect what the card of a root shows."""
    return RootCard(
        one,
        make_age_bar(one),
        forecast(one, PLAIN),
        describe_protection(one),
        describe_root_run(one.last_scan),
        describe_root_run(one.last_scrub),
        tuple(copy for copy in status.copies if copy.root.id == one.root.id),
        tuple(describe_devices(one.devices, status.at, PLAIN)),
    )


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
