"""The replica sets: their members, when they were last compared, and what is unresolved about them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import sqlalchemy as sa

from integrity.hub import schema
from integrity.hub.fleet import BoxRoot, BoxStatus, find_box_roots, load_fleet
from integrity.hub.open_findings import NOTHING_OPEN, OpenFindings, count_open_by
from integrity.hub.schema import replica_set
from integrity.views.sentence import Gravity

_FEW = 1000


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


def load_sets(
    c: sa.Connection, *, fleet: Iterable[BoxStatus] | None = None, after: str = "", limit: int | None = None
) -> list[SetStatus]:
    """
    Return sets by name, those without members too.

    Args:
        fleet: all boxes, if they are known, so that their roots are not read again.
        after: only sets behind this name.
        limit: so many at most.
    """
    query = sa.select(replica_set).order_by(replica_set.c.name).limit(limit)
    rows = c.execute(query.where(replica_set.c.name > after) if after else query).all()
    if fleet is not None:
        return _complete(c, rows, [root for one in fleet for root in one.roots])
    return _complete(c, rows, None if limit is None else find_box_roots(c, _is_in(schema.member.c.set_id, rows)))


def find_set(c: sa.Connection, name: str) -> SetStatus | None:
    """Return the set of a name; None: there is none."""
    rows = c.execute(sa.select(replica_set).where(replica_set.c.name == name)).all()
    return _complete(c, rows, find_box_roots(c, _is_in(schema.member.c.set_id, rows)))[0] if rows else None


def _is_in(column: sa.Column[Any], sets: Sequence[sa.Row[Any]]) -> sa.ColumnElement[bool]:
    return column.in_([row.id for row in sets])


def _complete(c: sa.Connection, rows: Sequence[sa.Row[Any]], roots: Iterable[BoxRoot] | None) -> list[SetStatus]:
    """Add members and findings to sets. ``roots``: those of their members, and others; None: they are not known."""
    members: dict[int, list[BoxRoot]] = defaultdict(list)
    for one in find_box_roots(c) if roots is None else roots:
        if one.set_id is not None:
            members[one.set_id].append(one)
    column = schema.finding.c.set_id
    found = count_open_by(c, column, *([_is_in(column, rows)] if len(rows) <= _FEW else []))
    return [
        SetStatus(
            row.id,
            row.name,
            row.created_at,
            row.voted_at,
            row.vote_ms,
            tuple(members[row.id]),
            found.get(row.id, NOTHING_OPEN),
        )
        for row in rows
    ]


def load_their_boxes(c: sa.Connection, sets: Iterable[SetStatus], now: int, silent_after_s: int) -> list[BoxStatus]:
    """Return the status of the boxes that are members of some sets, by name."""
    return load_fleet(c, now, silent_after_s, ids={root.box_id for one in sets for root in one.members})
