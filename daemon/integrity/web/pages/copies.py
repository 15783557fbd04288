"""The backup copies: what of each was compared, how closely, and what differs."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, NamedTuple

from starlette.responses import Response
from starlette.routing import Route

from integrity.views.copies import describe_comparisons, describe_level, describe_unreachable
from integrity.views.service import find_wait
from integrity.web.query import read_at
from integrity.words.text import PLAIN

if TYPE_CHECKING:
    from collections.abc import Sequence

    from starlette.requests import Request

    from integrity.jobs.compare.deadline import CopyStatus
    from integrity.model import FindingKind
    from integrity.web.site import Site


class CopyRow(NamedTuple):
    """A copy, in words what of it was compared, how closely, why it waits, and that it can't be reached."""

    copy: CopyStatus
    compared: str
    level: str
    waits: str | None
    unreachable: str
    open_kinds: Counter[FindingKind]


class CopyPages:
    """The page about copies."""

    def __init__(self, site: Site) -> None:
        self._site = site

    def routes(self) -> Sequence[Route]:
        """Return the route."""
        return (read_at("/copies", self.show),)

    def show(self, request: Request) -> Response:
        """Show all copies."""
        status, live = self._site.find_status(), self._site.find_live()
        rows = [
            CopyRow(
                one,
                describe_comparisons(one, PLAIN),
                describe_level(one),
                find_wait(live, one.name),
                describe_unreachable(one.name, status.find_unreachable(one)),
                status.count_open(one),
            )
            for one in status.copies
        ]
        return self._site.render(
            request, "copies.html", title="Backup copies", read_at=status.at, rows=rows, lost=status.lost_copies
        )
