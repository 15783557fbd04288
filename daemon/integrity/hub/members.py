"""
Which replica sets and shared trees a box may be in; the members of sets; which sets vote again.

A root keeps its rows while its box does not name it, for it may come back. They are removed when it moves to another
set, whose folders have other numbers. A set counts what changes in it, and remembers which count its last vote saw.
Times would not do: what was written before a vote began may become visible after it.

G1  A box is a member of no set, and works on no tree, that it was not granted: whoever has its token could make all
    files of a set look missing, or have other boxes read from where it likes. The owner of the hub says so.
G2  A grant that was taken back holds from the next call of the box on.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum
from typing import Any, NamedTuple

import sqlalchemy as sa

from integrity import program
from integrity.errors import ConfigError
from integrity.hub import schema
from integrity.hub.database import add_new
from integrity.hub.reported import AnnouncedRoot
from integrity.hub.schema import box, box_grant, member, replica_set
from integrity.reporting.protocol import encode

ANY = "*"
"""In place of a name: all of them."""

_LONGEST_NAME = 200


class GrantKind(StrEnum):
    """What a grant is about."""

    SET = "set"
    TREE = "tree"


class Grants(NamedTuple):
    """Names of replica sets and of shared trees."""

    sets: frozenset[str] = frozenset()
    trees: frozenset[str] = frozenset()


def is_granted(names: frozenset[str], name: str) -> bool:
    """Return whether a name is among those of sets or trees that were granted."""
    return not names.isdisjoint((name, ANY))


def read_grants(sets: Iterable[str], trees: Iterable[str]) -> Grants:
    """Return the grants of some names, or raise ConfigError if one is no name."""
    found = Grants(frozenset(sets), frozenset(trees))
    for name in (*found.sets, *found.trees):
        if not name or len(name) > _LONGEST_NAME or not name.isprintable():
            raise ConfigError(f"{name!r}: not a name: use up to {_LONGEST_NAME} printable characters, or {ANY} for all")
    return found


def load_grants(c: sa.Connection, box_id: int) -> Grants:
    rows = c.execute(sa.select(box_grant.c.kind, box_grant.c.name).where(box_grant.c.box_id == box_id)).all()
    return Grants(*(frozenset(row.name for row in rows if row.kind == kind) for kind in GrantKind))


def add_grants(c: sa.Connection, box_name: str, grants: Grants) -> None:
    """Let a box be in some more sets and trees. ConfigError: there is no such box."""
    add_new(c, box_grant, _rows(_get_box_id(c, box_name), grants))


def remove_grants(c: sa.Connection, box_name: str, grants: Grants) -> None:
    """Take grants back (G2), those that the box has. ConfigError: there is no such box."""
    for row in _rows(_get_box_id(c, box_name), grants):
        c.execute(sa.delete(box_grant).filter_by(**row))


def get_grants(c: sa.Connection, box_name: str) -> Grants:
    """Return what a box may be in, by its name. ConfigError: there is no such box."""
    return load_grants(c, _get_box_id(c, box_name))


def find_granted_boxes(c: sa.Connection, tree: str) -> list[str]:
    where = box_grant.c.kind == GrantKind.TREE.value, box_grant.c.name.in_((tree, ANY)), box.c.revoked_at.is_(None)
    query = sa.select(box.c.name).join_from(box, box_grant).where(*where).distinct().order_by(box.c.name)
    return list(c.execute(query).scalars())


def _get_box_id(c: sa.Connection, name: str) -> int:
    found = c.execute(sa.select(box.c.id).where(box.c.name == name)).scalar()
    if found is None:
        raise ConfigError(f"{name}: there is no box with this name; add it: {program.command(f'hub add {name}')}")
    return int(found)


def _rows(box_id: int, grants: Grants) -> list[dict[str, object]]:
    return [
        {"box_id": box_id, "kind": kind.value, "name": name}
        for kind, names in zip(GrantKind, grants, strict=True)
        for name in sorted(names)
    ]


_WAITING_VOTE_S = 600
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
    is_waiting = sa.and_(replica_set.c.is_waiting == 1, replica_set.c.voted_at <= now - _WAITING_VOTE_S)
    is_changed = replica_set.c.changes != replica_set.c.voted_changes
    query = sa.select(replica_set.c.id).where(sa.or_(is_changed, is_waiting))
    return list(c.execute(query.order_by(sa.func.coalesce(replica_set.c.voted_at, 0), replica_set.c.id)).scalars())


_VOTED_ON = ("set_id", "removed_at", "excludes", "path", "url")
"""What a vote depends on, or names in the commands that it finds."""

_NOTHING_STORED: dict[str, Any] = {"settled_tree": None, "settled_at": None}


def update_members(c: sa.Connection, box_id: int, roots: Iterable[AnnouncedRoot], now: int) -> set[int]:
    """
    Store the roots that a box has; all others of it are not reported any more. Return the sets whose members changed.

    A root in a set that was not granted to the box is stored as one without a set, with the name that was refused.
    """
    known = {row.root_id: row for row in c.execute(sa.select(member).where(member.c.box_id == box_id))}
    changed: set[int] = set()
    granted = load_grants(c, box_id).sets
    for root in roots:
        name = root.set_name
        refused = None if name is None or is_granted(granted, name) else name
        set_id = None if name is None or refused is not None else _get_set(c, name, now)
        values = _values(root, set_id) | {"refused_set": refused}
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

    The numbers of those, as on the box, whose announced tree is not what is stored; and the sets that it may not be in.
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
