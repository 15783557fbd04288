"""The replica sets: their members, when they were last compared, and what is unresolved about them."""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa

from integrity.hub import schema
from integrity.hub.fleet import ReportedRoot, find_reported_roots
from integrity.hub.kinds import HubFindingKind


@dataclass(frozen=True, slots=True)
class SetStatus:
    """
    A replica set.

    Attributes:
        id: its number.
        name: as its members report it: any text.
        created_at: when a box first reported it.
        voted_at: when its last vote was completed; None: none yet.
        vote_ms: how long that took.
        members: the roots that boxes report in it now.
        kinds: unresolved findings about it.
    """

    id: int
    name: str
    created_at: int
    voted_at: int | None
    vote_ms: int | None
    members: tuple[ReportedRoot, ...]
    kinds: Counter[HubFindingKind]


def load_sets(c: sa.Connection) -> list[SetStatus]:
    """Return all sets by name, those without members too."""
    return _load(c, sa.select(schema.replica_set).order_by(schema.replica_set.c.name), None)


def find_set(c: sa.Connection, name: str) -> SetStatus | None:
    """Return the set of a name; None: there is none."""
    query = sa.select(schema.replica_set).where(schema.replica_set.c.name == name)
    row = c.execute(query).first()
    return None if row is None else _load(c, query, row.id)[0]


def count_hub_findings(c: sa.Connection) -> Counter[HubFindingKind]:
    """Return how many findings of the hub are unresolved, by kind."""
    finding = schema.finding
    query = sa.select(finding.c.kind, sa.func.count()).where(finding.c.resolved_at.is_(None)).group_by(finding.c.kind)
    return Counter({HubFindingKind(kind): number for kind, number in c.execute(query)})


def _load(c: sa.Connection, query: sa.Select[Any], set_id: int | None) -> list[SetStatus]:
    members: dict[int, list[ReportedRoot]] = defaultdict(list)
    for one in find_reported_roots(c, set_id=set_id):
        if one.set_id is not None:
            members[one.set_id].append(one)
    kinds = _count_by_set(c, set_id)
    return [
        SetStatus(row.id, row.name, row.created_at, row.voted_at, row.vote_ms, tuple(members[row.id]), kinds[row.id])
        for row in c.execute(query)
    ]


def _count_by_set(c: sa.Connection, set_id: int | None) -> defaultdict[int, Counter[HubFindingKind]]:
    finding = schema.finding
    query = (
        sa.select(finding.c.set_id, finding.c.kind, sa.func.count())
        .where(finding.c.resolved_at.is_(None), finding.c.set_id.is_not(None))
        .group_by(finding.c.set_id, finding.c.kind)
    )
    if set_id is not None:
        query = query.where(finding.c.set_id == set_id)
    counts: defaultdict[int, Counter[HubFindingKind]] = defaultdict(Counter)
    for found_id, kind, number in c.execute(query):
        counts[found_id][HubFindingKind(kind)] += number
    return counts
