"""
History of actions: what a person had done, who it was, and from where.

An action is recorded in the transaction of the change that it describes, so that neither exists without the other.
Rows refer to nothing: they outlive roots and findings.
"""

from __future__ import annotations

import json
from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa

from integrity.catalog.row_seals import check_seals, select_sealed
from integrity.catalog.rows import read_numbers, read_word
from integrity.catalog.schema import action
from integrity.model import ActionVerb, Actor, FindingId


@dataclass(frozen=True, slots=True)
class Action:
    """
    An action to record.

    Args:
        root: absolute path of its root; None if it concerned none.
        path: file or folder, relative to the root; None if it concerned the whole root, or none.
        findings: numbers of the findings that it concerned.
        reason: as the person gave it; empty if none was asked for.
        outcome: what was done, for people.
    """

    actor: Actor
    verb: ActionVerb
    outcome: str
    root: bytes | None = None
    path: bytes | None = None
    findings: tuple[FindingId, ...] = ()
    reason: str = ""


@dataclass(frozen=True, slots=True)
class ActionRecord:
    """A recorded action. ``at``: seconds UTC."""

    id: int
    at: int
    action: Action


def record_action(c: sa.Connection, done: Action, now: int) -> None:
    """Record an action."""
    values = {
        "at": now,
        "who": _encode(done.actor.who),
        "address": _encode(done.actor.address),
        "verb": done.verb.value,
        "root": done.root,
        "path": done.path or None,
        "findings": json.dumps(done.findings, separators=(",", ":")),
        "reason": _encode(done.reason),
        "outcome": _encode(done.outcome),
    }
    c.execute(sa.insert(action).values(values))


def find_actions(c: sa.Connection, *, before: int | None = None, limit: int = 100) -> list[ActionRecord]:
    """
    Return the newest actions, newest first.

    Args:
        before: number of the last action of the page before; None: the first page.
        limit: size of a page.
    """
    query = select_sealed(action).order_by(action.c.id.desc()).limit(limit)
    if before is not None:
        query = query.where(action.c.id < before)
    return [_to_record(row) for row in check_seals(c, action, c.execute(query))]


def get_actions(c: sa.Connection, ids: Collection[int]) -> list[ActionRecord]:
    """Return actions by their numbers, without those that do not exist."""
    query = select_sealed(action).where(action.c.id.in_(ids)).order_by(action.c.id)
    return [_to_record(row) for row in check_seals(c, action, c.execute(query))]


def _encode(text: str) -> str:
    """Return text that SQLite can store: undecodable bytes of a command line are escaped."""
    return text.encode("utf-8", "backslashreplace").decode()


def _to_record(row: sa.Row[Any]) -> ActionRecord:
    return ActionRecord(
        row.id,
        row.at,
        Action(
            actor=Actor(row.who, row.address),
            verb=read_word(ActionVerb, row.verb),
            outcome=row.outcome,
            root=row.root,
            path=row.path,
            findings=tuple(FindingId(number) for number in read_numbers(row.findings)),
            reason=row.reason,
        ),
    )
