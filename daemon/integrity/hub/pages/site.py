"""
What all pages of a hub share: its database, when a box or a worker counts as silent, and templates.

I1  A page that only reads has a transaction of its own that can't write; it sees one state of the database.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from functools import partial
from urllib.parse import quote

from integrity.config import HubServer
from integrity.hub.database import HubDatabase
from integrity.hub.findings import is_problem
from integrity.hub.fleet import BoxHealth
from integrity.hub.fleet_sentence import shorten
from integrity.hub.work import FailingPart
from integrity.views.sentence import Gravity
from integrity.web.rendering import Renderer
from integrity.words.text import exact_time

_PLACES = (
    ("/", "Overview"),
    ("/boxes", "Boxes"),
    ("/sets", "Replica sets"),
    ("/trees", "Shared trees"),
    ("/findings", "Findings"),
    ("/audit", "Audit log"),
    ("/manual", "Manual"),
)

_GRAVITIES = {
    BoxHealth.PROBLEM: Gravity.PROBLEM,
    BoxHealth.WORKING: Gravity.GOOD,
    BoxHealth.OK: Gravity.GOOD,
}


class HubSite(Renderer):
    """What all pages of a hub share."""

    def __init__(
        self,
        database: HubDatabase,
        settings: HubServer,
        find_failing: Callable[[], Sequence[FailingPart]],
        clock: Callable[[], float] = time.time,
    ) -> None:
        super().__init__(("integrity.hub", "integrity.web"), _PLACES, "integrity-hub")
        self.database = database
        self.read = database.read  # I1
        self.find_failing = find_failing
        self.silent_after_s = settings.silent_after_s
        self.lease_s = settings.shard_lease_s
        self._clock = clock
        self.templates.globals["public_url"] = settings.public_url
        self.templates.filters |= {
            "health": lambda health: health.words,
            "box_gravity": lambda one: _GRAVITIES.get(one.health, Gravity.WARNING),
            "finding_gravity": lambda finding: "is-bad" if is_problem(finding) else "is-warn",
            "short": shorten,
            "exact_time": exact_time,
            "box_url": partial(_link, "boxes"),
            "set_url": partial(_link, "sets"),
            "tree_url": partial(_link, "trees"),
        }

    @property
    def has_actions(self) -> bool:
        """Acknowledging and muting change nothing on a box, so whoever has logged in may do it."""
        return True

    @property
    def now(self) -> int:
        return int(self._clock())


def _link(kind: str, name: str) -> str:
    """Return the page of a box, a replica set or a shared tree, whose name may be any text."""
    return f"/{kind}/{quote(name, safe='')}"
