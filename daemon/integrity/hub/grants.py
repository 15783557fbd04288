"""
Which replica sets and shared trees a box may be in. The owner of the hub says so; a box only asks.

G1  A box is a member of no set, and works on no tree, that it was not granted: whoever has its token could make all
    files of a set look missing, or have other boxes read from where it likes.
G2  A grant that was taken back holds from the next call of the box on.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum
from typing import NamedTuple

import sqlalchemy as sa

from integrity import program
from integrity.errors import ConfigError
from integrity.hub.database import add_new
from integrity.hub.schema import box, box_grant

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

    def has_set(self, name: str) -> bool:
        """Return whether a box with these grants may be in a replica set."""
        return not self.sets.isdisjoint((name, ANY))

    def has_tree(self, name: str) -> bool:
        """Return whether a box with these grants may work on a shared tree."""
        return not self.trees.isdisjoint((name, ANY))


def read_grants(sets: Iterable[str], trees: Iterable[str]) -> Grants:
    """
    Return the grants of some names.

    Raises:
        ConfigError: one is no name.
    """
    found = Grants(frozenset(sets), frozenset(trees))
    for name in (*found.sets, *found.trees):
        if not name or len(name) > _LONGEST_NAME or not name.isprintable():
            raise ConfigError(f"{name!r}: not a name: use up to {_LONGEST_NAME} printable characters, or {ANY} for all")
    return found


def load_grants(c: sa.Connection, box_id: int) -> Grants:
    rows = c.execute(sa.select(box_grant.c.kind, box_grant.c.name).where(box_grant.c.box_id == box_id)).all()
    return Grants(*(frozenset(row.name for row in rows if row.kind == kind) for kind in GrantKind))


def add_grants(c: sa.Connection, box_name: str, grants: Grants) -> None:
    """
    Let a box be in some more sets and trees.

    Raises:
        ConfigError: there is no such box.
    """
    add_new(c, box_grant, _rows(_get_box_id(c, box_name), grants))


def remove_grants(c: sa.Connection, box_name: str, grants: Grants) -> None:
    """
    Take grants back (G2); those that the box does not have are left out.

    Raises:
        ConfigError: there is no such box.
    """
    for row in _rows(_get_box_id(c, box_name), grants):
        c.execute(sa.delete(box_grant).filter_by(**row))


def get_grants(c: sa.Connection, box_name: str) -> Grants:
    """
    Return what a box may be in, by its name.

    Raises:
        ConfigError: there is no such box.
    """
    return load_grants(c, _get_box_id(c, box_name))


def find_granted_boxes(c: sa.Connection, tree: str) -> list[str]:
    """Return the names of the boxes that may work on a shared tree."""
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
