"""
How all boxes are: what each last reported, how long ago, and what votes found about it.

Reads boxes, their roots, and counts of unresolved findings; never rows of files. A box is called well only if it said
so itself, not longer ago than ``silent_after``, every root keeps its promise as of now, and no vote found damage on it.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

import sqlalchemy as sa

from integrity.catalog.coverage import Age
from integrity.hub import schema
from integrity.hub.boxes import Box, find_boxes
from integrity.hub.kinds import HUB_KINDS, HubFindingKind
from integrity.kinds import Weight

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
    OK = "ok"
    REVOKED = "revoked"  # its token was revoked


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
        box: as it last reported.
        roots: that it reports now.
        finding_count: unresolved findings that it reported.
        hub_kinds: unresolved findings of the hub about it.
        now: seconds UTC.
        silent_after_s: a box that reports less often is silent.
    """

    box: Box
    roots: tuple[BoxRoot, ...]
    finding_count: int
    hub_kinds: Counter[HubFindingKind]
    now: int
    silent_after_s: int

    @property
    def is_silent(self) -> bool:
        """Whether it has reported before, but not within ``silent_after``."""
        seen = self.box.seen_at
        return seen is not None and self.now - seen > self.silent_after_s

    @property
    def health(self) -> BoxHealth:
        """How it is. What is red stays red while a box is silent."""
        box = self.box
        if box.revoked_at is not None:
            return BoxHealth.REVOKED
        if box.state == _STATE_PROBLEM or any(HUB_KINDS[kind].weight is Weight.PROBLEM for kind in self.hub_kinds):
            return BoxHealth.PROBLEM
        if box.seen_at is None:
            return BoxHealth.WAITING
        if self.is_silent:
            return BoxHealth.SILENT
        is_well = box.state == _STATE_OK and self.roots and not self.overdue_roots and not self.hub_kinds
        return BoxHealth.OK if is_well else BoxHealth.GAP

    @property
    def files(self) -> int:
        """Files of all its roots."""
        return sum(one.file_count for one in self.roots)

    @property
    def bytes(self) -> int:
        """Their sizes, added up."""
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


def load_fleet(c: sa.Connection, now: int, silent_after_s: int) -> list[BoxStatus]:
    """Return the status of all boxes by name, revoked ones too."""
    roots: dict[int, list[BoxRoot]] = defaultdict(list)
    for one in find_box_roots(c):
        roots[one.box_id].append(one)
    counts, kinds = _count_box_findings(c), _count_hub_findings(c)
    return [
        BoxStatus(box, tuple(roots[box.id]), counts.get(box.id, 0), kinds[box.id], now, silent_after_s)
        for box in find_boxes(c)
    ]


def find_box_roots(c: sa.Connection, *, set_id: int | None = None) -> list[BoxRoot]:
    """Return the roots that boxes report now, or those of one set, in the order of their paths."""
    member, replica_set = schema.member, schema.replica_set
    columns = [
        replica_set.c.name.label("set_name") if name == "set_name" else member.c[name] for name in BoxRoot._fields
    ]
    query = (
        sa.select(*columns)
        .select_from(member.outerjoin(replica_set, member.c.set_id == replica_set.c.id))
        .where(member.c.removed_at.is_(None))
        .order_by(member.c.path, member.c.id)
    )
    if set_id is not None:
        query = query.where(member.c.set_id == set_id)
    return [BoxRoot(*row) for row in c.execute(query)]


def _count_box_findings(c: sa.Connection) -> dict[int, int]:
    """Return how many findings of each box are unresolved."""
    found = schema.box_finding
    query = sa.select(found.c.box_id, sa.func.count().label("number")).where(found.c.resolved_at.is_(None))
    return {row.box_id: row.number for row in c.execute(query.group_by(found.c.box_id))}


def _count_hub_findings(c: sa.Connection) -> defaultdict[int, Counter[HubFindingKind]]:
    """Return the unresolved findings of the hub that name a box, by box."""
    finding = schema.finding
    query = (
        sa.select(finding.c.box_id, finding.c.kind, sa.func.count())
        .where(finding.c.resolved_at.is_(None), finding.c.box_id.is_not(None))
        .group_by(finding.c.box_id, finding.c.kind)
    )
    counts: defaultdict[int, Counter[HubFindingKind]] = defaultdict(Counter)
    for box_id, kind, number in c.execute(query):
        counts[box_id][HubFindingKind(kind)] += number
    return counts
