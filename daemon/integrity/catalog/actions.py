"""
History of actions: what a person had done, who it was, and from where.

An action is recorded in the transaction of the change that it describes, so that neither exists without the other.
Rows refer to nothing: they outlive roots and findings.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

from integrity.catalog.db import Connection, numbers
from integrity.catalog.rows import given, read_numbers, read_word
from integrity.model import ActionVerb, Actor, FindingId


@dataclass(frozen=True, slots=True)
class Action:
    """An action to record."""

    actor: Actor
    verb: ActionVerb
    outcome: str  # what was done, for people
    root: bytes | None = None  # absolute path of its root; None if it concerned none
    path: bytes | None = None  # relative to the root; None if it concerned the whole root, or none
    findings: tuple[FindingId, ...] = ()  # that it concerned
    reason: str = ""  # as the person gave it; empty if none was asked for


@dataclass(frozen=True, slots=True)
class ActionRecord:
    """A recorded action. ``at``: seconds UTC."""

    id: int
    at: int
    action: Action


_ACTIONS = "SELECT id, at, who, address, verb, outcome, root, path, findings, reason FROM action"


def record_action(c: Connection, done: Action, now: int) -> None:
    """Record an action."""
    c.run(
        "INSERT INTO action (at, who, address, verb, root, path, findings, reason, outcome) VALUES (?,?,?,?,?,?,?,?,?)",
        *(now, _encode(done.actor.who), _encode(done.actor.address), done.verb, done.root, done.path or None),
        *(numbers(done.findings), _encode(done.reason), _encode(done.outcome)),
    )


def find_actions(c: Connection, *, before: int | None = None, limit: int = 100) -> list[ActionRecord]:
    """Return the newest actions, newest first; ``before``: number of the last action of the page before."""
    is_before, values = given({"id < ?": before})
    return c.all(_to_record, f"{_ACTIONS} WHERE {is_before} ORDER BY id DESC LIMIT ?", *values, limit)


def get_actions(c: Connection, ids: Collection[int]) -> list[ActionRecord]:
    """Return actions by their numbers, without those that do not exist."""
    return c.all(_to_record, f"{_ACTIONS} WHERE id IN (SELECT value FROM json_each(?)) ORDER BY id", numbers(ids))


def _encode(text: str) -> str:
    """Return text that SQLite can store: undecodable bytes of a command line are escaped."""
    return text.encode("utf-8", "backslashreplace").decode()


def _to_record(number: int, at: int, who: str, address: str, verb: str, *rest: Any) -> ActionRecord:
    outcome, root, path, findings, reason = rest
    known = tuple(map(FindingId, read_numbers(findings)))
    return ActionRecord(
        *(number, at, Action(Actor(who, address), read_word(ActionVerb, verb), outcome, root, path, known, reason))
    )
