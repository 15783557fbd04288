"""Write the numbered messages that are sent to a hub, from references to what changed."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Protocol

from integrity.catalog import findings, report_queue, runs
from integrity.catalog.connection import Connection
from integrity.catalog.report_queue import QueuedChange, QueuedMessage
from integrity.catalog.roots import find_roots
from integrity.catalog.runs import ActionRecord, RunRecord
from integrity.model import Finding, FindingId, FindingState, RunId
from integrity.reporting.protocol import JsonObject, MessageKind, ReportMessage, decode, encode

MESSAGES_AT_ONCE = 500
_MOST_IN_LIST = 1000
"""A damaged file of a terabyte may have a million damaged blocks."""

_GONE = "the folder that it was about was forgotten"


class ReportWords(Protocol):
    """Writes values as ``--json`` does."""

    def write_finding(self, finding: Finding) -> JsonObject:
        """Write a finding."""

    def write_run(self, run: RunRecord, root: bytes) -> JsonObject:
        """Write a run. ``root``: path of its root."""

    def write_action(self, action: ActionRecord) -> JsonObject:
        """Write an action."""


def write_messages(
    c: Connection, changes: Sequence[QueuedChange], first: int, words: ReportWords, now: int
) -> list[QueuedMessage]:
    """
    Write what changed as messages. A run or an action that is gone has none.

    Args:
        first: number of the first message.
    """
    written = _Writing(c, changes, words, now)
    found = ((change, written.write(change)) for change in changes)
    kept = [(change, *message) for change, message in found if message is not None]
    return [
        QueuedMessage(number, at, change.kind, change.item_id, encode(_shorten(body)).decode("ascii"))
        for number, (change, at, body) in enumerate(kept, first)
    ]


def to_message(queued: QueuedMessage) -> ReportMessage:
    """Return a stored message as the protocol has it."""
    return ReportMessage(queued.number, queued.at, MessageKind(queued.kind), decode(queued.body.encode("ascii")))


class _Writing:
    """Writes messages, of values that are read at once."""

    def __init__(self, c: Connection, changes: Sequence[QueuedChange], words: ReportWords, now: int) -> None:
        self._c = c
        self._words = words
        self._now = now
        self._roots = {root.path: root.id for root in find_roots(c)}
        self._paths = {root_id: path for path, root_id in self._roots.items()}
        numbers = (FindingId(number) for number in _find_items(changes, MessageKind.FINDING))
        self._findings = {one.id: one for one in findings.get_findings(c, numbers)}
        self._actions = {one.id: one for one in runs.get_actions(c, _find_items(changes, MessageKind.ACTION))}

    def write(self, change: QueuedChange) -> tuple[int, JsonObject] | None:
        """Return when it happened, and the body."""
        match change.kind:
            case MessageKind.FINDING:
                return self._write_finding(FindingId(change.item_id))
            case MessageKind.RUN:
                return self._write_run(RunId(change.item_id))
            case MessageKind.ACTION:
                return self._write_action(change.item_id)
        return self._now, {"findings": report_queue.count_queued(self._c, MessageKind.FINDING)}

    def _write_finding(self, number: FindingId) -> tuple[int, JsonObject]:
        found = self._findings.get(number)
        if found is None:
            resolved = {"state": FindingState.RESOLVED.value, "resolved_at": None, "resolution": _GONE}
            return self._now, {"id": number, **resolved}
        place = {"root_id": self._roots[found.root], "relative_path": _text(found.path)}
        return found.updated_at, {**self._words.write_finding(found), **place}

    def _write_run(self, number: RunId) -> tuple[int, JsonObject] | None:
        run = runs.get_run(self._c, number)
        if run is None or run.finished_at is None:
            return None
        return run.finished_at, {**self._words.write_run(run, self._paths[run.root_id]), "root_id": run.root_id}

    def _write_action(self, number: int) -> tuple[int, JsonObject] | None:
        done = self._actions.get(number)
        if done is None:
            return None
        place = {"root_id": self._roots.get(done.action.root or b""), "relative_path": _text(done.action.path)}
        return done.at, {**self._words.write_action(done), **place}


def _find_items(changes: Iterable[QueuedChange], kind: MessageKind) -> list[int]:
    return [change.item_id for change in changes if change.kind == kind]


def _text(path: bytes | None) -> str | None:
    return None if path is None else path.decode("utf-8", "surrogateescape")


def _shorten(body: JsonObject) -> JsonObject:
    """Cut long lists, and say how long they were."""
    cut = {name: value for name, value in body.items() if isinstance(value, list) and len(value) > _MOST_IN_LIST}
    totals = {f"{name}_total": len(value) for name, value in cut.items()}
    return {**body, **{name: value[:_MOST_IN_LIST] for name, value in cut.items()}, **totals}
