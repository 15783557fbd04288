"""
Which replica sets are to be voted on.

A set counts what changes in it, and remembers which count its last vote saw. Times would not do: what was written
before a vote began may become visible after it.
"""

from __future__ import annotations

from collections.abc import Iterable

import sqlalchemy as sa

from integrity.hub.schema import replica_set

_WAITING_S = 600
"""A vote that left files open, until a box reports again, is repeated so often."""


def mark_changed(c: sa.Connection, set_ids: Iterable[int], now: int) -> None:
    """Note that something changed that votes of these sets depend on, in the transaction that changes it."""
    for set_id in sorted(set_ids):  # sorted, so that two transactions can't wait for each other in a circle
        values = {"changes": replica_set.c.changes + 1, "changed_at": now}
        c.execute(sa.update(replica_set).where(replica_set.c.id == set_id).values(**values))


def read_changes(c: sa.Connection, set_id: int) -> int:
    """Return the count of changes that the transaction sees; 0: there is no such set any more."""
    return c.execute(sa.select(replica_set.c.changes).where(replica_set.c.id == set_id)).scalar() or 0


def find_changed_sets(c: sa.Connection) -> list[int]:
    """Return the sets with changes that their last vote did not see."""
    query = sa.select(replica_set.c.id).where(replica_set.c.changes != replica_set.c.voted_changes)
    return list(c.execute(query.order_by(replica_set.c.id)).scalars())


def find_due_sets(c: sa.Connection, now: int) -> list[int]:
    """Return the sets to vote on: changed ones, and now and then those with files left open; oldest votes first."""
    is_waiting = sa.and_(replica_set.c.is_waiting == 1, replica_set.c.voted_at <= now - _WAITING_S)
    is_changed = replica_set.c.changes != replica_set.c.voted_changes
    query = sa.select(replica_set.c.id).where(sa.or_(is_changed, is_waiting))
    return list(c.execute(query.order_by(sa.func.coalesce(replica_set.c.voted_at, 0), replica_set.c.id)).scalars())
