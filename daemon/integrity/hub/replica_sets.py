"""The replica sets: their members, when they were last compared, and what is unresolved about them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import sqlalchemy as sa

from integrity.hub import schema
from integrity.hub.fleet import BoxRoot, BoxStatus, find_box_roots, load_fleet
from integrity.hub.open_findings import OpenFindings, count_open_by
from integrity.views.sentence import Gravity


@dataclass(frozen=True, slots=True)
class SetStatus:
    """
    A replica set.

    Attributes:
        name: as its members report it: any text.
        created_at: when a box first reported it.
        voted_at: when its last vote was completed; None: none yet.
        vote_ms: how long that took.
    """

    id: int
    name: str
    created_at: int
    voted_at: int | None
    vote_ms: int | None
    members: tuple[BoxRoot, ...]
    found: OpenFindings


class Agreement(NamedTuple):
    """Whether the members of a set are known to agree; gravity None: nothing can be said."""

    gravity: Gravity | None
    text: str


def describe_agreement(one: SetStatus, fleet: Mapping[int, BoxStatus]) -> Agreement:
    """
    Say whether the members of a set agree, as far as it is known.

    Args:
        fleet: the status of each box, by number.
    """
    if one.found:
        return Agreement(Gravity.PROBLEM, one.found.describe())
    if len(one.members) < 2:
        return Agreement(None, "nothing to compare with")
    if one.voted_at is None:
        return Agreement(None, "not compared yet")
    silent = sum(fleet[root.box_id].is_silent for root in one.members)
    if silent:
        return Agreement(Gravity.WARNING, f"no difference is known, but {count_boxes(silent)} stopped reporting")
    if any(root.settled_at is None for root in one.members):
        return Agreement(Gravity.WARNING, "no difference is known, but not all files were reported yet")
    return Agreement(Gravity.GOOD, "all boxes agree")


def count_boxes(number: int) -> str:
    """Write "1 box", "3 boxes"."""
    return f"{number:,} {'box' if number == 1 else 'boxes'}"


def load_sets(c: sa.Connection) -> list[SetStatus]:
    """Return all sets by name, those without members too."""
    return _load(c, None)


def find_set(c: sa.Connection, name: str) -> SetStatus | None:
    """Return the set of a name; None: there is none."""
    number = c.execute(sa.select(schema.replica_set.c.id).where(schema.replica_set.c.name == name)).scalar()
    return None if number is None else _load(c, number)[0]


def _load(c: sa.Connection, set_id: int | None) -> list[SetStatus]:
    def select_one(column: sa.Column[Any]) -> tuple[sa.ColumnElement[bool], ...]:
        return () if set_id is None else (column == set_id,)

    members: dict[int, list[BoxRoot]] = defaultdict(list)
    for one in find_box_roots(c, *select_one(schema.member.c.set_id)):
        if one.set_id is not None:
            members[one.set_id].append(one)
    found = count_open_by(c, schema.finding.c.set_id, *select_one(schema.finding.c.set_id))
    query = (
        sa.select(schema.replica_set).where(*select_one(schema.replica_set.c.id)).order_by(schema.replica_set.c.name)
    )
    return [
        SetStatus(row.id, row.name, row.created_at, row.voted_at, row.vote_ms, tuple(members[row.id]), found[row.id])
        for row in c.execute(query.order_by(schema.replica_set.c.name))
    ]


def load_their_boxes(c: sa.Connection, sets: Iterable[SetStatus], now: int, silent_after_s: int) -> list[BoxStatus]:
    """Return the status of the boxes that are members of some sets, by name."""
    return load_fleet(c, now, silent_after_s, ids={root.box_id for one in sets for root in one.members})
