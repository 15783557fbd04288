"""
Findings of the hub in the database: open, update, resolve, acknowledge, mute, list.

I1  What a vote or a check gives is the whole truth about its subject: findings that it does not give any more end.
I2  A finding that changed in what matters (how sure it is, what mends it) is open again, though it was acknowledged.
I3  Evidence was written by votes from what boxes report; each value is used only if it is of the expected type.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from datetime import datetime
from typing import Any

import sqlalchemy as sa

from integrity.errors import AppError
from integrity.hub.box_reports import JsonObject, read_blocks, read_count, read_ranges, read_text
from integrity.hub.database import chunked
from integrity.hub.kinds import HUB_KINDS, HubCertainty, HubFindingKind
from integrity.hub.replica_words import Draft
from integrity.hub.schema import box, finding, replica_set, shared_tree
from integrity.kinds import Weight
from integrity.model import FindingKind, FindingState
from integrity.paths import path_fields
from integrity.words.text import iso_time

RESOLVED_BY_VOTE = "no longer the case"
_MOST_RESOLVED = 10_000
"""Of one set or tree; the oldest are forgotten beyond: a box can have findings open and end with every report."""

UNRESOLVED = finding.c.resolved_at.is_(None)


class NoSuchFinding(AppError):
    """Say that there is no finding of this number, or that it is over."""


@dataclass(frozen=True, slots=True)
class HubFinding:
    """A finding of the hub, as stored: see the columns of ``schema.finding``."""

    id: int
    kind: HubFindingKind
    certainty: HubCertainty
    set_id: int | None
    box_id: int | None
    path: bytes
    state: FindingState
    opened_at: int
    updated_at: int
    resolved_at: int | None
    resolution: str | None
    muted_until: int | None
    headline: str
    explanation: str
    command: str | None
    command_box_id: int | None
    evidence: str
    alerted: str | None
    subjects: int
    box_name: str | None
    set_name: str | None
    tree_name: str | None
    command_box_name: str | None

    @property
    def objects(self) -> list[dict[str, Any]]:
        """The evidence: an object for each member, or one about many files."""
        return list(json.loads(self.evidence))


_FIELDS = fields(HubFinding)
_Key = tuple[HubFindingKind, int | None, int | None, int | None, bytes]
_VALUES = "headline", "explanation", "command", "command_box_id", "evidence", "subjects"


def record_drafts(
    c: sa.Connection, about: Sequence[sa.ColumnElement[bool]], drafts: Iterable[Draft], now: int, resolution: str
) -> None:
    """
    Open, update and resolve the findings about one subject (I1).

    Args:
        about: which unresolved findings the drafts replace.
        drafts: all that is wrong now.
        resolution: why the others end.
    """
    new = {(one.kind, one.set_id, one.tree_id, one.box_id, one.path): one for one in drafts}
    over = []
    for row in c.execute(sa.select(finding).where(UNRESOLVED, *about).with_for_update()).all():
        key: _Key = HubFindingKind(row.kind), row.set_id, row.tree_id, row.box_id, bytes(row.path)
        draft = new.pop(key, None)
        if draft is None:
            over.append(row.id)
        else:
            _update(c, row, draft, now)
    resolve_ids(c, over, resolution, now)
    times = {"opened_at": now, "updated_at": now, "state": FindingState.OPEN.value}
    rows = [
        {**one._asdict(), "kind": one.kind.value, "certainty": one.certainty.value, **times} for one in new.values()
    ]
    if rows:
        c.execute(sa.insert(finding), rows)


def _update(c: sa.Connection, row: sa.Row[Any], draft: Draft, now: int) -> None:
    values: dict[str, Any] = {name: getattr(draft, name) for name in _VALUES} | {"certainty": draft.certainty.value}
    if all(getattr(row, name) == value for name, value in values.items()):
        return
    is_other = (row.certainty, row.command, row.command_box_id) != (
        draft.certainty.value,
        draft.command,
        draft.command_box_id,
    )
    if is_other:
        values["is_news"] = 1
        if row.state == FindingState.ACKNOWLEDGED.value:
            values["state"] = FindingState.OPEN.value  # I2
    c.execute(sa.update(finding).where(finding.c.id == row.id).values(**values, updated_at=now))


def resolve_ids(c: sa.Connection, ids: Sequence[int], resolution: str, now: int) -> None:
    was_sent = sa.case((finding.c.alerted.is_(None), 0), else_=1)
    values = {"state": FindingState.RESOLVED.value, "resolved_at": now, "resolution": resolution, "is_news": was_sent}
    for some in chunked(ids):
        c.execute(sa.update(finding).where(finding.c.id.in_(some), UNRESOLVED).values(**values, updated_at=now))


def forget_resolved(c: sa.Connection, subject: sa.ColumnElement[bool], *, most: int = _MOST_RESOLVED) -> None:
    """Delete the oldest resolved findings about a subject, a set or a tree, if there are more than ``most``."""
    resolved = sa.and_(subject, finding.c.resolved_at.is_not(None))
    ids = sa.select(finding.c.id).where(resolved).order_by(finding.c.id.desc())
    last = c.execute(ids.offset(most).limit(1)).scalar()
    if last is not None:
        c.execute(sa.delete(finding).where(resolved, finding.c.id <= last))


def acknowledge(c: sa.Connection, finding_id: int, now: int) -> None:
    """Record that a person has seen a finding: no reminders until it changes. NoSuchFinding: it is over, or none."""
    _set_state(c, finding_id, FindingState.ACKNOWLEDGED, None, now)


def mute(c: sa.Connection, finding_id: int, until: int, now: int) -> None:
    """Send no reminders of a finding before a time, seconds UTC. NoSuchFinding: it is over, or none."""
    _set_state(c, finding_id, FindingState.MUTED, until, now)


def _set_state(c: sa.Connection, finding_id: int, state: FindingState, until: int | None, now: int) -> None:
    values = {"state": state.value, "muted_until": until, "updated_at": now}
    done = c.execute(sa.update(finding).where(finding.c.id == finding_id, UNRESOLVED).values(**values))
    if done.rowcount != 1:
        raise NoSuchFinding(f"finding {finding_id}: there is none of this number, or it is resolved")


def get_finding(c: sa.Connection, finding_id: int) -> HubFinding:
    """Return a finding, or raise NoSuchFinding."""
    for one in find_findings(c, finding.c.id == finding_id):
        return one
    raise NoSuchFinding(f"finding {finding_id}: there is none of this number")


def find_findings(c: sa.Connection, *where: sa.ColumnElement[bool], limit: int | None = None) -> Iterator[HubFinding]:
    """Return findings, the oldest first; all without a condition."""
    about, runs_on = box.alias(), box.alias()
    named = {"box": about, "set": replica_set, "tree": shared_tree, "command_box": runs_on}
    names = {f"{what}_name": table.c.name for what, table in named.items()}
    columns = [names[one.name].label(one.name) if one.name in names else finding.c[one.name] for one in _FIELDS]
    query = sa.select(*columns).select_from(finding)
    for what, table in named.items():
        query = query.outerjoin(table, table.c.id == finding.c[f"{what}_id"])
    rows = c.execute(query.where(*where).order_by(finding.c.id).limit(limit))
    return (_to_finding(row) for row in rows)


def _to_finding(row: sa.Row[Any]) -> HubFinding:
    words = HubFindingKind(row.kind), HubCertainty(row.certainty), FindingState(row.state)
    known = dict(zip(("kind", "certainty", "state"), words, strict=True)) | {"path": bytes(row.path)}
    return HubFinding(**{**row._mapping, **known})  # noqa: SLF001 - part of the interface, says its documentation


_MOST_MEMBERS = 1000


@dataclass(frozen=True, slots=True)
class DamageReport:
    """What a box found in its copy of a file; ``blocks``, ``ranges``: what is damaged, as far as it said so."""

    number: int
    kind: str
    message: str
    blocks: tuple[int, ...]
    block_size_bytes: int
    ranges: tuple[tuple[int, int], ...]

    @property
    def is_unreadable(self) -> bool:
        return self.kind == FindingKind.UNREADABLE


@dataclass(frozen=True, slots=True)
class MemberEvidence:
    """
    What one member of a set has of a file. Texts are printable.

    Attributes:
        holding: ``replica_verdict.Holding``, as text.
        is_source: it has what the other one needs.
        verified_at: seconds UTC, as all times; None: not since it was recorded.
    """

    box: str
    path: str
    url: str
    holding: str
    is_source: bool
    size_bytes: int | None
    mtime_ns: int | None
    md5: str
    xxh3: str
    recorded_at: int | None
    verified_at: int | None
    read_how: str
    reported_at: int | None
    reports: tuple[DamageReport, ...]


def page_findings(c: sa.Connection, *where: sa.ColumnElement[bool], before: int | None, limit: int) -> list[HubFinding]:
    """Return findings, those with the highest numbers first. ``where``: conditions on ``schema.finding``."""
    query = sa.select(finding.c.id).where(*where).order_by(finding.c.id.desc()).limit(limit)
    if before is not None:
        query = query.where(finding.c.id < before)
    parts = chunked(sorted(c.execute(query).scalars()))
    return [one for some in parts for one in find_findings(c, finding.c.id.in_(some))][::-1]


def is_problem(finding: HubFinding) -> bool:
    """Return whether something is damaged or differs; else something is not known."""
    return HUB_KINDS[finding.kind].weight is Weight.PROBLEM


def hub_finding_object(finding: HubFinding) -> dict[str, object]:
    return {
        "id": finding.id,
        "kind": finding.kind.value,
        "certainty": finding.certainty.value,
        "set": finding.set_name,
        "tree": finding.tree_name,
        "box": finding.box_name,
        **path_fields("path", finding.path),
        "state": finding.state.value,
        "opened_at": iso_time(finding.opened_at),
        "updated_at": iso_time(finding.updated_at),
        "resolved_at": iso_time(finding.resolved_at),
        "resolution": finding.resolution,
        "muted_until": iso_time(finding.muted_until),
        "headline": finding.headline,
        "explanation": finding.explanation,
        "command": finding.command,
        "command_box": finding.command_box_name,
        "evidence": finding.objects,
    }


def read_evidence(finding: HubFinding) -> list[MemberEvidence]:
    """Return what each member has; empty if the finding is not about one file."""
    return [_read_member(row) for row in finding.objects[:_MOST_MEMBERS] if "holding" in row]


def read_examples(finding: HubFinding) -> list[str]:
    """Return paths of some files, where one finding stands for many."""
    return [
        read_text(one, "path")
        for row in finding.objects[:1]
        for one in _read_list(row, "examples")
        if isinstance(one, dict)
    ]


def read_shard_reports(finding: HubFinding) -> list[tuple[int, DamageReport]]:
    """Return what was found in the shards of a shared tree, with the number of each shard."""
    rows = [(read_count(row, "shard"), row.get("finding")) for row in finding.objects[:_MOST_MEMBERS]]
    return [(number, _read_report(found)) for number, found in rows if isinstance(found, dict)]


def _read_member(row: JsonObject) -> MemberEvidence:
    mtime_ns = row.get("mtime_ns")
    return MemberEvidence(
        box=read_text(row, "box"),
        path=read_text(row, "path"),
        url=read_text(row, "url"),
        holding=read_text(row, "holding"),
        is_source=row.get("is_source") is True,
        size_bytes=read_count(row, "size_bytes") if isinstance(row.get("size_bytes"), int) else None,
        mtime_ns=mtime_ns if isinstance(mtime_ns, int) and abs(mtime_ns) < 1 << 63 else None,
        md5=read_text(row, "md5"),
        xxh3=read_text(row, "xxh3_128"),
        recorded_at=_read_time(row, "recorded_at"),
        verified_at=_read_time(row, "verified_at"),
        read_how=read_text(row, "read_how"),
        reported_at=_read_time(row, "reported_at"),
        reports=tuple(_read_report(one) for one in _read_list(row, "findings") if isinstance(one, dict)),
    )


def _read_report(row: JsonObject) -> DamageReport:
    return DamageReport(
        number=read_count(row, "id"),
        kind=read_text(row, "kind"),
        message=read_text(row, "message"),
        blocks=tuple(read_blocks(row)),
        block_size_bytes=read_count(row, "block_size_bytes"),
        ranges=tuple(read_ranges(row)),
    )


def _read_time(row: JsonObject, name: str) -> int | None:
    try:
        return int(datetime.fromisoformat(read_text(row, name)).timestamp())
    except (ValueError, OverflowError):
        return None


def _read_list(row: Mapping[str, object], name: str) -> Sequence[object]:
    value = row.get(name)
    return value[:_MOST_MEMBERS] if isinstance(value, list) else ()
