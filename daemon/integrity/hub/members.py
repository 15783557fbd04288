"""
The members of replica sets: the roots that boxes report, what is stored of their files, and when that is removed.

A root keeps its rows while its box does not name it, for it may come back. They are removed when it moves to another
set, whose folders have other numbers.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import sqlalchemy as sa

from integrity.hub import schema
from integrity.hub.database import add_new
from integrity.hub.grants import load_grants
from integrity.hub.reported import AnnouncedRoot
from integrity.hub.schema import member, replica_set
from integrity.reporting.protocol import encode

_VOTED_ON = ("set_id", "removed_at", "excludes", "path", "url")
"""What a vote depends on, or names in the commands that it finds."""

_NOTHING_STORED: dict[str, Any] = {"settled_tree": None, "settled_at": None}


def update_members(c: sa.Connection, box_id: int, roots: Iterable[AnnouncedRoot], now: int) -> set[int]:
    """
    Store the roots that a box has; all others of it are not reported any more.

    A root in a set that was not granted to the box is stored as one without a set, with the name that was refused.

    Returns:
        The sets whose members changed.
    """
    known = {row.root_id: row for row in c.execute(sa.select(member).where(member.c.box_id == box_id))}
    changed: set[int] = set()
    grants = load_grants(c, box_id)
    for root in roots:
        is_granted = root.set_name is not None and grants.has_set(root.set_name)
        set_id = _get_set(c, root.set_name, now) if root.set_name is not None and is_granted else None
        values = _values(root, set_id) | {"refused_set": None if is_granted else root.set_name}
        row = known.pop(root.root_id, None)
        if row is None:
            c.execute(sa.insert(member).values(box_id=box_id, root_id=root.root_id, **values))
            continue
        if row.set_id != set_id:
            remove_files(c, row.id)
            values |= _NOTHING_STORED
        if any(getattr(row, name) != value for name, value in values.items()):
            c.execute(sa.update(member).where(member.c.id == row.id).values(**values))
        if any(getattr(row, name) != values[name] for name in _VOTED_ON):
            changed |= {row.set_id, set_id} - {None}
    for row in known.values():
        if row.removed_at is None:
            c.execute(sa.update(member).where(member.c.id == row.id).values(removed_at=now))
            changed |= {row.set_id} - {None}
    return changed


def _values(root: AnnouncedRoot, set_id: int | None) -> dict[str, Any]:
    return {
        "set_id": set_id,
        "path": root.path,
        "url": root.url,
        "excludes": encode(root.excludes).decode("ascii"),
        "policy": root.policy,
        "verify_every_s": root.verify_every_s,
        "file_count": root.file_count,
        "byte_count": root.byte_count,
        "oldest_verified_at": root.oldest_verified_at,
        "announced_tree": root.tree,
        "removed_at": None,
    }


def find_wanting(c: sa.Connection, box_id: int) -> tuple[list[int], list[str]]:
    """
    Return what is wrong with the roots that a box reports.

    Returns:
        The numbers of those, as on the box, whose announced tree is not what is stored; and the names of the sets that
        it may not be in.
    """
    columns = member.c.root_id, member.c.set_id, member.c.announced_tree, member.c.settled_tree, member.c.refused_set
    query = sa.select(*columns).where(member.c.box_id == box_id, member.c.removed_at.is_(None))
    rows = c.execute(query.order_by(member.c.root_id)).all()
    announced = (row for row in rows if row.set_id is not None and row.announced_tree is not None)
    unsettled = [row.root_id for row in announced if row.announced_tree != row.settled_tree]
    return unsettled, sorted({row.refused_set for row in rows} - {None})


def find_sets_of_roots(c: sa.Connection, box_id: int, root_ids: Iterable[int]) -> set[int]:
    wanted = list(root_ids)
    if not wanted:
        return set()
    query = sa.select(member.c.set_id).where(
        member.c.box_id == box_id, member.c.root_id.in_(wanted), member.c.set_id.is_not(None)
    )
    return set(c.execute(query).scalars())


def remove_files(c: sa.Connection, member_id: int) -> None:
    for table in (schema.file_part, schema.file, schema.former_file, schema.member_folder):
        c.execute(sa.delete(table).where(table.c.member_id == member_id))


def _get_set(c: sa.Connection, name: str, now: int) -> int:
    """Return the number of a replica set; one that is new is created."""
    find = sa.select(replica_set.c.id).where(replica_set.c.name == name)
    find = find.with_for_update(read=True, key_share=True)  # nobody may forget it before this transaction ends
    found = c.execute(find).scalar()
    if found is None:
        add_new(c, replica_set, [{"name": name, "created_at": now}])
        found = c.execute(find).scalar_one()
    return int(found)
