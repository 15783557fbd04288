"""
Which incidents the user was notified of. A notification is sent once, and again when the incident changes.

An incident is a finding, or those about several names of one file; its first unresolved finding represents it. Decides
which incidents need a notification; ``alerts`` decides when and how to send it. A notified incident has a row in
``told`` until the notification of its end is recorded, too. Acknowledged and muted incidents are skipped.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

import sqlalchemy as sa

from integrity.catalog.findings import (
    INCIDENT,
    RESOLVED,
    UNRESOLVED,
    as_incidents,
    get_findings,
    is_first_of_incident,
    of_incident,
)
from integrity.catalog.rows import chunked
from integrity.catalog.schema import file, finding, told
from integrity.kinds import COVERAGE_PROBLEMS, INTEGRITY_PROBLEMS, URGENT_FINDINGS
from integrity.model import Finding, FindingId, FindingKind, FindingState

_NOTIFIED_KINDS = sorted(kind.value for kind in INTEGRITY_PROBLEMS | COVERAGE_PROBLEMS)
_URGENT_KINDS = sorted(kind.value for kind in URGENT_FINDINGS)
_JOINED = finding.outerjoin(told, told.c.finding_id == INCIDENT)


@dataclass(frozen=True, slots=True)
class PendingIncident:
    """A finding that needs a notification."""

    finding: Finding
    is_change: bool  # the user was notified of it before, and it has changed
    coalesced: int  # findings that this one covers: those of a failing device's files


@dataclass(frozen=True, slots=True)
class NotifiedSummary:
    """Counts of the notified incidents."""

    unresolved: int
    resolved: int
    remindable: int  # unresolved, neither acknowledged nor muted
    waits_since: int | None  # first notification of any that is resolved or remindable


def pending_since(c: sa.Connection, now: int) -> int | None:
    """Return when the first finding that needs a notification was opened or changed; None: there is none."""
    # For a changed finding, the time of its last update, which is never earlier than the change.
    noticed_at = sa.case((told.c.finding_id.is_(None), finding.c.opened_at), else_=finding.c.updated_at)
    query = (
        sa.select(sa.func.min(noticed_at)).select_from(_JOINED).where(*_is_pending(now), _covering_finding().is_(None))
    )
    return c.execute(query).scalar()


def urgent_pending_since(c: sa.Connection, now: int, since: int) -> int | None:
    """Return the same for new grave findings, if nothing of their kind and root was first notified after ``since``."""
    others, earlier = finding.alias("other"), told.alias("earlier")
    was_notified = sa.exists().where(
        *(others.c.id == earlier.c.finding_id, others.c.root_id == finding.c.root_id, others.c.kind == finding.c.kind),
        earlier.c.first_told_at > since,
    )
    query = sa.select(sa.func.min(finding.c.opened_at)).select_from(_JOINED)
    is_new_urgent = told.c.finding_id.is_(None), finding.c.kind.in_(_URGENT_KINDS), ~was_notified
    return c.execute(query.where(*_is_pending(now), _covering_finding().is_(None), *is_new_urgent)).scalar()


def find_pending_incidents(c: sa.Connection, now: int) -> list[PendingIncident]:
    """Return the findings that need a notification, in the order of their ids."""
    query = sa.select(finding.c.id, told.c.finding_id.is_not(None).label("is_change")).select_from(_JOINED)
    rows = c.execute(query.where(*_is_pending(now), _covering_finding().is_(None)).order_by(finding.c.id)).all()
    changed = {row.id for row in rows if row.is_change}
    found = as_incidents(c, get_findings(c, [row.id for row in rows]))
    return [PendingIncident(one, one.id in changed, _count_coalesced(c, one)) for one in found]


def count_pending(c: sa.Connection, now: int) -> int:
    """Count the findings that need a notification."""
    query = sa.select(sa.func.count()).select_from(_JOINED).where(*_is_pending(now), _covering_finding().is_(None))
    return int(c.execute(query).scalar_one())


def has_coalescible(c: sa.Connection, now: int) -> bool:
    """Return whether there are unreadable files that the notification of a failing device covers."""
    query = (
        sa.select(finding.c.id).select_from(_JOINED).where(*_is_pending(now), _covering_finding().is_not(None)).limit(1)
    )
    return c.execute(query).first() is not None


def coalesce(c: sa.Connection, now: int) -> None:
    """Mark unreadable files as notified by the failing device of the same root and run: one message, not thousands."""
    by = _covering_finding()
    query = sa.select(finding.c.id, by.label("by")).select_from(_JOINED).where(*_is_pending(now), by.is_not(None))
    files: dict[int, list[FindingId]] = {}
    for row in c.execute(query).all():
        files.setdefault(row.by, []).append(row.id)
    for device_id, ids in files.items():
        _mark(c, ids, now, swallowed_by=device_id)


def mark_notified(c: sa.Connection, ids: Collection[FindingId], now: int) -> None:
    """Record that the user was notified of findings in their present state."""
    _mark(c, ids, now, swallowed_by=None)


def count_resolved(c: sa.Connection, ids: Collection[int]) -> int:
    """Count the findings that are resolved, or were deleted with their root."""
    queries = (sa.select(sa.func.count()).where(finding.c.id.in_(chunk), UNRESOLVED) for chunk in chunked(ids))
    return len(ids) - sum(int(c.execute(query).scalar_one()) for query in queries)


def unmark_notified(c: sa.Connection, ids: Collection[int], since: int) -> None:
    """
    Record that a message of ``since`` about findings never reached the user.

    Those that an earlier message told of need a notification again, as changed ones; others as new ones.
    """
    for chunk in chunked(ids):
        mine = told.c.finding_id.in_(sa.select(INCIDENT).where(finding.c.id.in_(chunk)))
        c.execute(sa.delete(told).where(mine, told.c.first_told_at >= since))
        c.execute(sa.update(told).where(mine).values(certainty=""))


def summarize(c: sa.Connection, now: int) -> NotifiedSummary:
    """Summarize the notified incidents."""
    is_over = finding.c.id.is_(None)
    remindable = _is_remindable(now)
    query = sa.select(
        sa.func.count().filter(~is_over).label("unresolved"),
        sa.func.count().filter(is_over).label("resolved"),
        sa.func.count().filter(remindable).label("remindable"),
        sa.func.min(told.c.first_told_at).filter(sa.or_(is_over, remindable)).label("waits_since"),
    ).select_from(told.outerjoin(finding, sa.and_(of_incident(told.c.finding_id), UNRESOLVED, is_first_of_incident())))
    return NotifiedSummary(**c.execute(query).one()._asdict())


def find_remindable(c: sa.Connection, now: int) -> list[Finding]:
    """Return the notified findings that are still open, without acknowledged and muted ones."""
    query = sa.select(finding.c.id).select_from(_JOINED).where(_is_remindable(now)).order_by(finding.c.id)
    return as_incidents(c, get_findings(c, c.execute(query).scalars().all()))


def find_over(c: sa.Connection) -> list[Finding]:
    """Return the notified findings that are resolved now; findings of removed roots no longer exist."""
    query = sa.select(told.c.finding_id).where(told.c.finding_id.not_in(_find_still())).order_by(told.c.finding_id)
    return get_findings(c, c.execute(query).scalars().all())


def drop_over(c: sa.Connection) -> None:
    """Record that the user was notified of the end of all resolved incidents."""
    c.execute(sa.delete(told).where(told.c.finding_id.not_in(_find_still())))


def _find_still() -> sa.Select[tuple[int]]:
    """Select the unresolved incidents."""
    return sa.select(INCIDENT).where(UNRESOLVED)


def count_verified_since(c: sa.Connection, since: int) -> tuple[int, int]:
    """Return how many files were verified since a time, and their bytes. Scans all files."""
    query = sa.select(sa.func.count(), sa.func.coalesce(sa.func.sum(file.c.size_bytes), 0))
    files, size_bytes = c.execute(query.where(file.c.verified_at >= since)).one()
    return int(files), int(size_bytes)


def _count_coalesced(c: sa.Connection, one: Finding) -> int:
    if one.kind is not FindingKind.DEVICE_FAILING:
        return 0
    query = sa.select(sa.func.count()).select_from(told).where(told.c.swallowed_by == one.id)
    return int(c.execute(query).scalar_one())


def _is_wanted(now: int) -> sa.ColumnElement[bool]:
    was_muted = sa.and_(finding.c.state == FindingState.MUTED.value, finding.c.muted_until <= now)
    return sa.or_(finding.c.state == FindingState.OPEN.value, was_muted)


def _is_pending(now: int) -> tuple[sa.ColumnElement[bool], ...]:
    is_new = sa.or_(
        told.c.finding_id.is_(None),
        told.c.blocks != finding.c.blocks,
        told.c.ranges != finding.c.ranges,
        told.c.certainty.is_distinct_from(finding.c.certainty),
    )
    return UNRESOLVED, _is_wanted(now), finding.c.kind.in_(_NOTIFIED_KINDS), is_new, is_first_of_incident()


def _is_remindable(now: int) -> sa.ColumnElement[bool]:
    device = finding.alias()
    by_device = sa.exists().where(device.c.id == told.c.swallowed_by, device.c.state != RESOLVED)
    return sa.and_(told.c.finding_id.is_not(None), UNRESOLVED, _is_wanted(now), ~by_device, is_first_of_incident())


def _covering_finding() -> sa.ColumnElement[int | None]:
    """Return, as SQL, the open device_failing finding that covers an unreadable file, or NULL."""
    device = finding.alias()
    of_same_run = device.c.root_id == finding.c.root_id, device.c.run_id == finding.c.run_id
    is_failing = device.c.kind == FindingKind.DEVICE_FAILING.value, device.c.state != RESOLVED
    by = sa.select(sa.func.min(device.c.id)).where(*of_same_run, *is_failing).scalar_subquery()
    return sa.case((finding.c.kind == FindingKind.UNREADABLE.value, by), else_=None)


def _mark(c: sa.Connection, ids: Collection[FindingId], now: int, *, swallowed_by: int | None) -> None:
    for chunk in chunked(ids):
        query = sa.select(INCIDENT.label("incident"), finding.c.certainty, finding.c.blocks, finding.c.ranges)
        incidents = c.execute(query.where(finding.c.id.in_(chunk))).all()
        same = told.c.finding_id.in_([row.incident for row in incidents])
        before = sa.select(told.c.finding_id, told.c.first_told_at).where(same)
        first = {row.finding_id: row.first_told_at for row in c.execute(before)}
        c.execute(sa.delete(told).where(same))
        rows = [
            {
                "finding_id": row.incident,
                "certainty": row.certainty,
                "blocks": row.blocks,
                "ranges": row.ranges,
                "first_told_at": first.get(row.incident, now),
                "swallowed_by": swallowed_by,
            }
            for row in incidents
        ]
        if rows:
            c.execute(sa.insert(told), rows)
