"""
Findings of shared trees: what is wrong in the catalogs of their shards, and promises that are not kept.

A finding of the hub stands for all that the shards found about one path, so it stays the same one when a shard is cut
and another shard has the path.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any

import sqlalchemy as sa

from integrity.errors import ProtocolError, printable, show_path
from integrity.hub.box_reports import read_body, read_certainty, write_box_finding
from integrity.hub.findings import forget_resolved, record_drafts
from integrity.hub.kinds import HubCertainty, HubFindingKind
from integrity.hub.replica_words import Draft
from integrity.hub.schema import finding, shard, shard_finding, shared_tree
from integrity.hub.shards.promise import TreePromise, find_promises
from integrity.hub.shards.workers import ShardLimits
from integrity.kinds import CONTENT_FINDINGS, GRAVITY, INTEGRITY_PROBLEMS, KINDS, headline
from integrity.model import Certainty, FindingKind

_MOST_LISTED, _MOST_DAMAGED = 100, 1000
"""Up to so many files with findings of one kind are listed; beyond, one finding stands for all, as in replica sets."""

_SHOWN, _NAMED = 20, 3
_OF_PATHS = (HubFindingKind.TREE_DAMAGED, HubFindingKind.TREE_UNREAD)
_GONE = "the shard's last reading did not find it any more"
_Row = sa.Row[Any]


def lock(c: sa.Connection, tree_id: int) -> None:
    """Have other visits of a tree wait until the transaction ends: ``follow`` has to see what they found."""
    c.execute(sa.select(shared_tree.c.id).where(shared_tree.c.id == tree_id).with_for_update(key_share=True))


def follow(c: sa.Connection, tree_id: int, now: int) -> None:
    """
    Open, update and resolve the findings of the hub about files of a tree. Many of one kind are one finding.

    Args:
        c: in a transaction that began with ``lock``.
    """
    kinds = finding.c.kind.in_([kind.value for kind in _OF_PATHS])
    record_drafts(c, (kinds, finding.c.tree_id == tree_id), list(_draft_all(c, tree_id)), now, _GONE)
    forget_resolved(c, finding.c.tree_id == tree_id)


def _draft_all(c: sa.Connection, tree_id: int) -> Iterator[Draft]:
    tree = sa.select(shared_tree.c.name).where(shared_tree.c.id == tree_id)
    name = printable(c.execute(tree).scalar_one())
    many = _count_many(c, tree_id)
    found: dict[tuple[HubFindingKind, bytes], list[_Row]] = {}
    is_listed = sa.or_(shard_finding.c.path == b"", shard_finding.c.kind.not_in(many))
    for row in _find_rows(c, tree_id, is_listed):
        found.setdefault((_kind_of(row.kind), bytes(row.path)), []).append(row)
    grouped: dict[HubFindingKind, list[Draft]] = {}
    for word, number in many.items():
        some = _find_rows(c, tree_id, shard_finding.c.path != b"", shard_finding.c.kind == word, limit=_SHOWN)
        grouped.setdefault(_kind_of(word), []).append(_draft_many(word, number, tree_id, name, some))
    for (kind, path), rows in found.items():
        draft = _draft(kind, path, tree_id, name, rows)
        if path or kind not in grouped:
            yield draft
        else:
            grouped[kind].append(draft)
    for drafts in grouped.values():
        yield _join(drafts)


def _count_many(c: sa.Connection, tree_id: int) -> dict[str, int]:
    """Return the kinds of findings of which a tree has so many that they are one, and how many."""
    number = sa.func.count().label("number")
    query = sa.select(shard_finding.c.kind, number).join(shard, shard.c.id == shard_finding.c.shard_id)
    where = shard.c.tree_id == tree_id, shard_finding.c.path != b""
    rows = c.execute(query.where(*where).group_by(shard_finding.c.kind).order_by(shard_finding.c.kind))
    return {row.kind: int(row.number) for row in rows if row.number > _get_most_listed(row.kind)}


def _get_most_listed(word: str) -> int:
    is_damage = word in set(FindingKind) and FindingKind(word) in CONTENT_FINDINGS
    return _MOST_DAMAGED if is_damage else _MOST_LISTED


def _find_rows(
    c: sa.Connection, tree_id: int, *where: sa.ColumnElement[bool], limit: int | None = None
) -> Sequence[_Row]:
    query = (
        sa.select(shard_finding)
        .join(shard, shard.c.id == shard_finding.c.shard_id)
        .where(shard.c.tree_id == tree_id, *where)
        .order_by(shard_finding.c.opened_at, shard_finding.c.number, shard_finding.c.path)
    )
    return c.execute(query.limit(limit)).all()


def _draft_many(word: str, number: int, tree_id: int, name: str, some: Sequence[_Row]) -> Draft:
    """Return the finding that stands for many of one kind. ``some``: a few of them."""
    entry = KINDS[FindingKind(word)] if word in set(FindingKind) else None
    what = entry.phrase.of(number) if entry else f"{number:,} files: {printable(word)}"
    names = ", ".join(show_path(bytes(row.path)) for row in some[:_NAMED])
    return Draft(
        kind=_kind_of(word),
        certainty=HubCertainty.LIKELY,
        headline=f"{what}: {name}",
        explanation=f"Among them are {names}. {_explain(word, '')}".strip(),
        evidence=json.dumps([_write_evidence(row) for row in some]),
        tree_id=tree_id,
        subjects=number,
    )


def _join(drafts: Sequence[Draft]) -> Draft:
    """Return one finding for what is about no single file: there is at most one of each kind."""
    evidence = [one for draft in drafts for one in json.loads(draft.evidence)]
    return drafts[0]._replace(
        headline="; ".join(draft.headline for draft in drafts),
        explanation=" ".join(draft.explanation for draft in drafts),
        evidence=json.dumps(evidence),
        subjects=sum(draft.subjects for draft in drafts),
    )


def _kind_of(word: str) -> HubFindingKind:
    is_problem = word in INTEGRITY_PROBLEMS or word not in set(FindingKind)
    return HubFindingKind.TREE_DAMAGED if is_problem else HubFindingKind.TREE_UNREAD


def _draft(kind: HubFindingKind, path: bytes, tree_id: int, name: str, rows: Sequence[_Row]) -> Draft:
    worst = min(rows, key=lambda row: GRAVITY.get(row.kind, 0))
    body = read_body(str(worst.body))
    certainty = read_certainty(body)
    place = f"{name}: {show_path(path)}" if path else name
    message, is_known = body.get("message"), worst.kind in set(FindingKind)
    return Draft(
        kind=kind,
        certainty=HubCertainty.PROVEN if certainty is Certainty.PROVEN else HubCertainty.LIKELY,
        path=path,
        headline=f"{headline(FindingKind(worst.kind), certainty) if is_known else printable(worst.kind)}: {place}",
        explanation=_explain(worst.kind, message if isinstance(message, str) else ""),
        evidence=json.dumps([_write_evidence(row) for row in rows]),
        tree_id=tree_id,
    )


def _explain(word: str, message: str) -> str:
    """Return what a worker says of a finding, and what to do; its commands name the tree as it is mounted there."""
    entry = KINDS[FindingKind(word)] if word in set(FindingKind) else None
    said = printable(message) or (entry.explanation if entry else "")
    step = f"Do this: {entry.steps[0].words}; the next reading of the shard checks it." if entry and entry.steps else ""
    return f"{said} {step}".strip()


def _write_evidence(row: _Row) -> dict[str, object]:
    try:
        return {"shard": row.shard_id, "finding": write_box_finding(row.number, row.kind, read_body(str(row.body)))}
    except ProtocolError:
        return {"shard": row.shard_id}


def check_promises(c: sa.Connection, limits: ShardLimits, now: int, *which: sa.ColumnElement[bool]) -> None:
    """Open, update or resolve the findings that trees are not verified in time, also if all workers are away."""
    for promise in find_promises(c, limits.lease_s, now, *which):
        about = (finding.c.kind == HubFindingKind.TREE_OVERDUE.value, finding.c.tree_id == promise.tree_id)
        drafts = [] if promise.is_kept else [_draft_promise(promise, now)]
        record_drafts(c, about, drafts, now, "everything was verified in time again")


def _draft_promise(promise: TreePromise, now: int) -> Draft:
    return Draft(
        kind=HubFindingKind.TREE_OVERDUE,
        certainty=HubCertainty.PROVEN,
        headline=f"Not verified in time: {printable(promise.name)}",
        explanation=promise.describe(now),
        tree_id=promise.tree_id,
    )
