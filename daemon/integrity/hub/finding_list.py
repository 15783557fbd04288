"""
The findings of the hub as pages show them: page by page, the newest first, and one with the evidence of each member.

The evidence was written by votes from what boxes report; each value is used only if it is of the expected type.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

import sqlalchemy as sa

from integrity.hub import schema
from integrity.hub.box_bodies import JsonObject
from integrity.hub.box_reports import read_count, read_text
from integrity.hub.findings import UNRESOLVED, HubFinding, find_by_ids
from integrity.hub.kinds import HUB_KINDS, HubFindingKind
from integrity.kinds import Weight
from integrity.model import FindingKind

_MOST_MEMBERS = 1000


@dataclass(frozen=True, slots=True)
class HubFindingFilter:
    """Which findings are listed; None: all of them."""

    kind: HubFindingKind | None = None
    set_id: int | None = None
    box_id: int | None = None
    tree_id: int | None = None
    include_resolved: bool = False


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
        """Whether the ranges could not be read."""
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


def page_findings(c: sa.Connection, wanted: HubFindingFilter, *, before: int | None, limit: int) -> list[HubFinding]:
    """Return findings, those with the highest numbers first."""
    finding = schema.finding
    query = sa.select(finding.c.id).order_by(finding.c.id.desc()).limit(limit)
    equal = {"kind": wanted.kind, "set_id": wanted.set_id, "box_id": wanted.box_id, "tree_id": wanted.tree_id}
    for name, value in equal.items():
        if value is not None:
            query = query.where(finding.c[name] == value)
    if not wanted.include_resolved:
        query = query.where(UNRESOLVED)
    if before is not None:
        query = query.where(finding.c.id < before)
    return find_by_ids(c, c.execute(query).scalars().all())[::-1]


def is_problem(finding: HubFinding) -> bool:
    """Return whether something is damaged or differs; else something is not known."""
    return HUB_KINDS[finding.kind].weight is Weight.PROBLEM


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
        blocks=tuple(one for one in _read_list(row, "blocks") if isinstance(one, int) and one >= 0),
        block_size_bytes=read_count(row, "block_size_bytes"),
        ranges=tuple(_read_ranges(_read_list(row, "ranges"))),
    )


def _read_ranges(values: Iterable[object]) -> Iterable[tuple[int, int]]:
    for one in values:
        match one:
            case [int(first), int(length)] if 0 <= first < 1 << 62 and 0 < length < 1 << 62:
                yield first, length


def _read_time(row: JsonObject, name: str) -> int | None:
    """Return a time, seconds UTC; None if there is none."""
    try:
        return int(datetime.fromisoformat(read_text(row, name)).timestamp())
    except (ValueError, OverflowError):
        return None


def _read_list(row: Mapping[str, object], name: str) -> Sequence[object]:
    value = row.get(name)
    return value[:_MOST_MEMBERS] if isinstance(value, list) else ()
