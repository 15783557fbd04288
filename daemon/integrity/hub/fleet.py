"""
How all boxes are: what each last reported, how long ago, and what votes found about it.

Reads boxes, their roots, and counts of unresolved findings; never rows of files. A box is called well only if it said
so itself, not longer ago than ``silent_after``, every root keeps its promise as of now, and no vote found damage on it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, NamedTuple

import sqlalchemy as sa

from integrity.catalog.coverage import Age
from integrity.hub import schema
from integrity.hub.boxes import Box, find_boxes
from integrity.hub.open_findings import NOTHING_OPEN, OpenFindings, count_open_by

_DAY_S = 86400
_CLOCK_SLACK_S = 3600
_STATE_OK = "ok"
_STATE_PROBLEM = "problem"


class BoxHealth(StrEnum):
    """How a box is, the worst first."""

    PROBLEM = "problem"  # it reports damage, or a vote found some on it
    SILENT = "silent"  # it has not reported for longer than silent_after
    GAP = "gap"  # something on it could not be checked, or is overdue
    WAITING = "waiting"  # it was added, and has not reported yet
    WORKING = "working"  # it reads shared trees, and reports no folders of its own
    OK = "ok"
    REVOKED = "revoked"  # its token was revoked

    @property
    def words(self) -> str:
        return _HEALTH_WORDS[self]


_HEALTH_WORDS = {
    BoxHealth.PROBLEM: "problem",
    BoxHealth.SILENT: "stopped reporting",
    BoxHealth.GAP: "not everything is checked",
    BoxHealth.WAITING: "has not reported yet",
    BoxHealth.WORKING: "reads shared trees",
    BoxHealth.OK: "well",
    BoxHealth.REVOKED: "may not report",
}
HEALTH_ORDER = {health: number for number, health in enumerate(BoxHealth)}


class BoxRoot(NamedTuple):
    """A root as its box reports it; see the columns of ``schema.member``. ``set_name``: None for a root without set."""

    id: int
    box_id: int
    root_id: int
    set_id: int | None
    set_name: str | None
    path: bytes
    url: str
    excludes: str
    policy: str
    verify_every_s: int
    file_count: int
    byte_count: int
    oldest_verified_at: int | None
    announced_tree: bytes | None
    settled_tree: bytes | None
    settled_at: int | None

    @property
    def is_complete(self) -> bool:
        """Whether the hub has all files of the root as the box last announced them."""
        return self.announced_tree is not None and self.announced_tree == self.settled_tree


@dataclass(frozen=True, slots=True)
class BoxStatus:
    """
    A box, what it reports, and what is unresolved about it.

    Attributes:
        finding_count: unresolved findings that it reported.
        hub_found: unresolved findings of the hub about it.
        silent_after_s: a box that reports less often is silent.
        health: how it is. What is red stays red while a box is silent.
    """

    box: Box
    roots: tuple[BoxRoot, ...]
    finding_count: int
    hub_found: OpenFindings
    now: int
    silent_after_s: int
    health: BoxHealth = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "health", self._find_health())  # once: ten thousand boxes are sorted by it

    @property
    def is_silent(self) -> bool:
        """Whether it has reported before, or worked on a shared tree, but not within ``silent_after``."""
        silence_s = self.silence_s
        return silence_s is not None and silence_s > self.silent_after_s

    @property
    def silence_s(self) -> int | None:
        """
        For how long it has been silent; None: it never called.

        Calls of its workers count only of a box that never reported: those of another one may go on while its reports
        have stopped.
        """
        last = self.box.worked_at if self.box.seen_at is None else self.box.seen_at
        return None if last is None else max(0, self.now - last)

    def _find_health(self) -> BoxHealth:
        box = self.box
        if box.revoked_at is not None:
            return BoxHealth.REVOKED
        if box.state == _STATE_PROBLEM or self.hub_found.has_problem:
            return BoxHealth.PROBLEM
        if self.silence_s is None:
            return BoxHealth.WAITING
        if self.is_silent:
            return BoxHealth.SILENT
        if box.seen_at is None:
            return BoxHealth.WORKING
        is_well = box.state == _STATE_OK and self.roots and not self.overdue_roots and not self.hub_found
        return BoxHealth.OK if is_well else BoxHealth.GAP

    @property
    def files(self) -> int:
        return sum(one.file_count for one in self.roots)

    @property
    def bytes(self) -> int:
        return sum(one.byte_count for one in self.roots)

    @property
    def oldest_at(self) -> int | None:
        """When the file was verified that waits longest, by the clock of the hub; None: no file."""
        return min((at for one in self.roots if (at := self.oldest_of(one)) is not None), default=None)

    @property
    def overdue_roots(self) -> list[BoxRoot]:
        """The roots that break their promise as of now, whether or not the box has said so."""
        return [one for one in self.roots if self.age_of(one) is Age.OVERDUE]

    def oldest_of(self, root: BoxRoot) -> int | None:
        """Return when the file of a root was verified that waits longest, by the clock of the hub; None: no file."""
        return None if root.oldest_verified_at is None else root.oldest_verified_at - (self.box.clock_ahead_s or 0)

    def age_of(self, root: BoxRoot) -> Age | None:
        """Return the age of the oldest verification in a root; None: it has no files."""
        oldest = self.oldest_of(root)
        if oldest is None:
            return Age.NEVER if root.file_count else None
        age = self.now - oldest
        if not -_CLOCK_SLACK_S <= age <= root.verify_every_s:
            return Age.OVERDUE  # also of a time to come, which proves nothing
        return Age.DAY if age <= _DAY_S else Age.WEEK if age <= 7 * _DAY_S else Age.KEPT


def load_fleet(
    c: sa.Connection, now: int, silent_after_s: int, *, ids: Collection[int] | None = None
) -> list[BoxStatus]:
    """Return the status of all boxes by name, or of some; revoked ones too."""

    def select_some(column: sa.Column[Any]) -> tuple[sa.ColumnElement[bool], ...]:
        return () if ids is None else (column.in_(ids),)

    roots: dict[int, list[BoxRoot]] = defaultdict(list)
    for one in find_box_roots(c, *select_some(schema.member.c.box_id)):
        roots[one.box_id].append(one)
    counts = _count_box_findings(c, *select_some(schema.box_finding.c.box_id))
    found = count_open_by(c, schema.finding.c.box_id, *select_some(schema.finding.c.box_id))
    return [
        BoxStatus(
            box, tuple(roots[box.id]), counts.get(box.id, 0), found.get(box.id, NOTHING_OPEN), now, silent_after_s
        )
        for box in find_boxes(c, *select_some(schema.box.c.id))
    ]


def find_box_roots(c: sa.Connection, *where: sa.ColumnElement[bool]) -> list[BoxRoot]:
    """Return the roots that boxes report now, all or some, in the order of their paths."""
    member, replica_set = schema.member, schema.replica_set
    columns = [
        replica_set.c.name.label("set_name") if name == "set_name" else member.c[name] for name in BoxRoot._fields
    ]
    query = (
        sa.select(*columns)
        .select_from(member.outerjoin(replica_set, member.c.set_id == replica_set.c.id))
        .where(member.c.removed_at.is_(None), *where)
        .order_by(member.c.path, member.c.id)
    )
    return [BoxRoot._make(row) for row in c.execute(query).all()]


def _count_box_findings(c: sa.Connection, *where: sa.ColumnElement[bool]) -> dict[int, int]:
    """Return how many findings of each box are unresolved."""
    found = schema.box_finding
    query = sa.select(found.c.box_id, sa.func.count().label("number")).where(found.c.resolved_at.is_(None), *where)
    return {row.box_id: row.number for row in c.execute(query.group_by(found.c.box_id))}
