"""
Findings of shared trees: what is wrong in the catalogs of their shards, and promises that are not kept.

A finding of the hub stands for all that the shards found about one path, so it stays the same one when a shard is cut
and another shard has the path.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator

import sqlalchemy as sa

from integrity.errors import ProtocolError, printable, show_path
from integrity.hub.box_bodies import read_body, read_certainty, write_box_finding
from integrity.hub.findings import forget_resolved, record_drafts
from integrity.hub.kinds import HubCertainty, HubFindingKind
from integrity.hub.replica_words import Draft
from integrity.hub.schema import finding
from integrity.hub.shards.promise import TreePromise, find_promises
from integrity.hub.shards.schema import shard, shard_finding, shared_tree
from integrity.hub.shards.workers import ShardLimits
from integrity.kinds import GRAVITY, INTEGRITY_PROBLEMS, KINDS, headline
from integrity.model import Certainty, FindingKind

_PATHS_AT_ONCE = 500
_OF_PATHS = (HubFindingKind.TREE_DAMAGED, HubFindingKind.TREE_UNREAD)
_GONE = "the shard's last reading did not find it any more"


def follow(c: sa.Connection, tree_id: int, paths: Collection[bytes], now: int) -> None:
    """Open, update and resolve the findings of the hub about some paths of a tree."""
    ordered = sorted(paths)
    for start in range(0, len(ordered), _PATHS_AT_ONCE):
        some = ordered[start : start + _PATHS_AT_ONCE]
        kinds = finding.c.kind.in_([kind.value for kind in _OF_PATHS])
        about = (kinds, finding.c.tree_id == tree_id, finding.c.path.in_(some))
        record_drafts(c, about, list(_draft_paths(c, tree_id, some)), now, _GONE)
    forget_resolved(c, finding.c.tree_id == tree_id)


def _draft_paths(c: sa.Connection, tree_id: int, paths: Collection[bytes]) -> Iterator[Draft]:
    query = (
        sa.select(shard_finding, shared_tree.c.name)
        .join(shard, shard.c.id == shard_finding.c.shard_id)
        .join(shared_tree, shared_tree.c.id == shard.c.tree_id)
        .where(shard.c.tree_id == tree_id, shard_finding.c.path.in_(paths))
        .order_by(shard_finding.c.opened_at, shard_finding.c.number)
    )
    found: dict[tuple[HubFindingKind, bytes], list[sa.Row[tuple[object, ...]]]] = {}
    for row in c.execute(query):
        found.setdefault((_kind_of(row.kind), bytes(row.path)), []).append(row)
    for (kind, path), rows in found.items():
        yield _draft(kind, path, tree_id, rows)


def _kind_of(word: str) -> HubFindingKind:
    is_problem = word in INTEGRITY_PROBLEMS or word not in set(FindingKind)
    return HubFindingKind.TREE_DAMAGED if is_problem else HubFindingKind.TREE_UNREAD


def _draft(kind: HubFindingKind, path: bytes, tree_id: int, rows: list[sa.Row[tuple[object, ...]]]) -> Draft:
    worst = min(rows, key=lambda row: GRAVITY.get(row.kind, 0))
    body = read_body(str(worst.body))
    certainty = read_certainty(body)
    place = f"{printable(worst.name)}: {show_path(path)}" if path else printable(worst.name)
    message = body.get("message")
    return Draft(
        kind=kind,
        certainty=HubCertainty.PROVEN if certainty is Certainty.PROVEN else HubCertainty.LIKELY,
        set_id=None,
        box_id=None,
        path=path,
        headline=f"{_headline(worst.kind, certainty)}: {place}",
        explanation=_explain(worst.kind, message if isinstance(message, str) else ""),
        command=None,
        command_box_id=None,
        evidence=json.dumps([_write_evidence(row) for row in rows]),
        tree_id=tree_id,
    )


def _headline(word: str, certainty: Certainty | None) -> str:
    return headline(FindingKind(word), certainty) if word in set(FindingKind) else printable(word)


def _explain(word: str, message: str) -> str:
    """Return what a worker says of a finding, and what to do; its commands name the tree as it is mounted there."""
    entry = KINDS[FindingKind(word)] if word in set(FindingKind) else None
    said = printable(message) or (entry.explanation if entry else "")
    step = f"Do this: {entry.steps[0].words}; the next reading of the shard checks it." if entry and entry.steps else ""
    return f"{said} {step}".strip()


def _write_evidence(row: sa.Row[tuple[object, ...]]) -> dict[str, object]:
    try:
        return {"shard": row.shard_id, "finding": write_box_finding(row.number, row.kind, read_body(str(row.body)))}
    except ProtocolError:
        return {"shard": row.shard_id}


def check_promise(c: sa.Connection, tree_id: int, limits: ShardLimits, now: int) -> None:
    """Open, update or resolve the finding that a tree is not verified in time."""
    for promise in find_promises(c, limits.lease_s, now, shared_tree.c.id == tree_id):
        about = (finding.c.kind == HubFindingKind.TREE_OVERDUE.value, finding.c.tree_id == tree_id)
        drafts = [] if promise.is_kept else [_draft_promise(promise, now)]
        record_drafts(c, about, drafts, now, "everything was verified in time again")


def check_promises(c: sa.Connection, limits: ShardLimits, now: int) -> None:
    """Do so for all trees: one whose workers are all away is not checked by their calls."""
    for tree_id in c.execute(sa.select(shared_tree.c.id)).scalars().all():
        check_promise(c, tree_id, limits, now)


def _draft_promise(promise: TreePromise, now: int) -> Draft:
    return Draft(
        kind=HubFindingKind.TREE_OVERDUE,
        certainty=HubCertainty.PROVEN,
        set_id=None,
        box_id=None,
        path=b"",
        headline=f"Not verified in time: {printable(promise.name)}",
        explanation=promise.describe(now),
        command=None,
        command_box_id=None,
        evidence="[]",
        tree_id=promise.tree_id,
    )
