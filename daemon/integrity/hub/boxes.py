"""
The boxes that may report, and their tokens.

I1  A token is shown once. Stored is its SHA-256: it is random, so nothing slower is needed.
I2  A box keeps its number and its history when its token is revoked and it is added again.
"""

from __future__ import annotations

import hashlib
import re
import secrets
from typing import NamedTuple

import sqlalchemy as sa

from integrity import program
from integrity.errors import ConfigError
from integrity.hub import schema
from integrity.hub.forgetting import forget_box
from integrity.hub.members import Grants, add_grants, mark_changed
from integrity.hub.schema import tree_disk
from integrity.reporting.protocol import FIRST_CHAIN

TOKEN_PREFIX = "integrity-box-"  # noqa: S105 - what secret scanners recognize a token by
_TOKEN_BYTES = 32
_LONGEST_BOX = 64


class Box(NamedTuple):
    """A box, as far as it is known by its token; see the columns of ``schema.box``."""

    id: int
    name: str
    revoked_at: int | None


def add_box(c: sa.Connection, name: str, now: int, grants: Grants) -> str:
    """
    Add a box, or give a revoked one a new token (I2); return the token.

    Args:
        grants: the sets and trees that it may be in; those that a revoked one had stay.

    Raises:
        ConfigError: the name is in use, or none that a box can have.
    """
    if re.fullmatch(r"\w[\w.-]*", name) is None or len(name) > _LONGEST_BOX:
        raise ConfigError(f"{name!r}: not a name for a box: use up to {_LONGEST_BOX} letters, digits, dots and dashes")
    token = TOKEN_PREFIX + secrets.token_urlsafe(_TOKEN_BYTES)
    known = c.execute(sa.select(schema.box.c.revoked_at).where(schema.box.c.name == name)).first()
    if known is None:
        values = {"name": name, "created_at": now, "last_number": 0, "last_chain": FIRST_CHAIN}
        added = c.execute(sa.insert(schema.box).values(token_hash=hash_token(token), **values)).inserted_primary_key
        assert added is not None
        c.execute(sa.insert(schema.box_usage).values(box_id=added[0], stored_bytes=0))
        add_grants(c, name, grants)
        return token
    if known.revoked_at is None:
        raise ConfigError(
            f"{name}: there is a box with this name; choose another one, or, to give it a new token:"
            f" {program.command(f'hub revoke {name}')}, and add it again"
        )
    values = {"token_hash": hash_token(token), "revoked_at": None, "shared_by": None}
    c.execute(sa.update(schema.box).where(schema.box.c.name == name).values(**values))
    is_its = sa.select(schema.box.c.id).where(schema.box.c.name == name).scalar_subquery()
    for table in (schema.box_run, tree_disk):  # another machine may have the name from now on
        c.execute(sa.delete(table).where(table.c.box_id == is_its))
    add_grants(c, name, grants)
    _mark_changed(c, name, now)
    return token


def revoke_box(c: sa.Connection, name: str, now: int, *, forgets: bool = False) -> None:
    """
    Revoke the token of a box: votes do not count it any more. What it reported stays, unless it is to be forgotten.

    Raises:
        ConfigError: no such box, or its token was revoked before and nothing is to be forgotten.
    """
    box_id = c.execute(sa.select(schema.box.c.id).where(schema.box.c.name == name)).scalar()
    is_valid = schema.box.c.id == box_id, schema.box.c.revoked_at.is_(None)
    done = c.execute(sa.update(schema.box).where(*is_valid).values(revoked_at=now)).rowcount
    if forgets and box_id is not None:
        forget_box(c, box_id, now)
    elif not done:
        raise ConfigError(f"{name}: no box with this name has a token; the boxes: {program.command('hub list')}")
    else:
        _mark_changed(c, name, now)


def _mark_changed(c: sa.Connection, name: str, now: int) -> None:
    """Mark the sets of a box: they vote again, with it or without it."""
    sets = sa.select(schema.member.c.set_id).join(schema.box).where(schema.box.c.name == name)
    mark_changed(c, c.execute(sets.where(schema.member.c.set_id.is_not(None)).distinct()).scalars(), now)


def load_tokens(c: sa.Connection) -> dict[bytes, Box]:
    """Return all boxes, revoked ones too, by what is stored of their tokens (I1)."""
    query = sa.select(schema.box.c.token_hash, *(schema.box.c[name] for name in Box._fields))
    return {bytes(row[0]): Box(*row[1:]) for row in c.execute(query)}


def has_token(c: sa.Connection, box_id: int, token: str) -> bool:
    box = schema.box.c
    where = box.id == box_id, box.token_hash == hash_token(token), box.revoked_at.is_(None)
    return c.execute(sa.select(box.id).where(*where)).first() is not None


def hash_token(token: str) -> bytes:
    return hashlib.sha256(token.encode("utf-8", "surrogateescape")).digest()
