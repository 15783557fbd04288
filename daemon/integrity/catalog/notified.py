"""
Which incidents the user was notified of. A notification is sent once, and again when the incident changes.

An incident is a finding, or those about several names of one file; its first unresolved finding represents it. Decides
which incidents need a notification; ``alerts`` decides when and how to send it. A notified incident has a row in
``told`` until the notification of its end is recorded, too. Acknowledged and muted incidents are skipped.
"""

from collections.abc import Collection
from typing import NamedTuple

from integrity.catalog.db import Connection, numbers
from integrity.catalog.findings import INCIDENT, IS_FIRST, as_incidents, get_findings
from integrity.catalog.rows import quoted
from integrity.kinds import COVERAGE_PROBLEMS, INTEGRITY_PROBLEMS, URGENT_FINDINGS
from integrity.model import Finding, FindingId, FindingKind

# In all of these ?1 is the time.
_JOINED = f"finding LEFT JOIN told ON told.finding_id = {INCIDENT}"
_IS_WANTED = "(finding.state = 'open' OR finding.state = 'muted' AND finding.muted_until <= ?1)"
_IS_REMINDABLE = f"""
told.finding_id IS NOT NULL AND finding.state != 'resolved' AND {_IS_WANTED} AND {IS_FIRST} AND NOT EXISTS (
    SELECT 1 FROM finding AS device WHERE device.id = told.swallowed_by AND device.state != 'resolved')"""
_PENDING = f"""
SELECT finding.id, finding.root_id, finding.kind, finding.opened_at, finding.updated_at,
    told.finding_id IS NOT NULL AS is_change,
    CASE WHEN finding.kind = 'unreadable' THEN (
        SELECT min(device.id) FROM finding AS device
        WHERE device.root_id = finding.root_id AND device.run_id = finding.run_id
            AND device.kind = 'device_failing' AND device.state != 'resolved') END AS covered_by
FROM {_JOINED}
WHERE finding.state != 'resolved' AND {_IS_WANTED} AND {IS_FIRST}
    AND finding.kind IN ({quoted(INTEGRITY_PROBLEMS | COVERAGE_PROBLEMS)})
    AND (told.finding_id IS NULL OR told.blocks != finding.blocks OR told.ranges != finding.ranges
        OR told.certainty IS NOT finding.certainty)"""
_STILL = f"(SELECT {INCIDENT} FROM finding WHERE state != 'resolved')"


class PendingIncident(NamedTuple):
    """A finding that needs a notification."""

    finding: Finding
    is_change: bool  # the user was notified of it before, and it has changed
    coalesced: int  # findings that this one covers: those of a failing device's files


class NotifiedSummary(NamedTuple):
    """Counts of the notified incidents."""

    unresolved: int
    resolved: int
    remindable: int  # unresolved, neither acknowledged nor muted
    waits_since: int | None  # first notification of any that is resolved or remindable


def pending_since(c: Connection, now: int) -> int | None:
    """Return when the first finding that needs a notification was opened or changed; None: there is none."""
    # For a changed finding, the time of its last update, which is never earlier than the change.
    noticed_at = "min(CASE WHEN is_change THEN updated_at ELSE opened_at END)"
    return c.value(f"SELECT {noticed_at} FROM ({_PENDING}) WHERE covered_by IS NULL", now)


def urgent_pending_since(c: Connection, now: int, since: int) -> int | None:
    """Return the same for new grave findings, if nothing of their kind and root was first notified after ``since``."""
    query = f"""
        SELECT min(opened_at) FROM ({_PENDING})
        WHERE covered_by IS NULL AND NOT is_change AND kind IN ({quoted(URGENT_FINDINGS)}) AND (root_id, kind) NOT IN (
            SELECT finding.root_id, finding.kind FROM told JOIN finding ON finding.id = told.finding_id
            WHERE told.first_told_at > ?2)"""
    return c.value(query, now, since)


def find_pending_incidents(c: Connection, now: int) -> list[PendingIncident]:
    """Return the findings that need a notification, in the order of their ids."""
    query = f"SELECT id, is_change FROM ({_PENDING}) WHERE covered_by IS NULL"
    is_change = {number: bool(flag) for number, flag in c.rows(query, now)}
    found = as_incidents(c, get_findings(c, is_change))
    query = "SELECT swallowed_by, count(*) FROM told WHERE swallowed_by IN (SELECT value FROM json_each(?)) GROUP BY 1"
    coalesced = dict(c.rows(query, numbers(one.id for one in found if one.kind is FindingKind.DEVICE_FAILING)))
    return [PendingIncident(one, is_change[one.id], coalesced.get(one.id, 0)) for one in found]


def count_pending(c: Connection, now: int) -> int:
    """Count the findings that need a notification."""
    return c.value(f"SELECT count(*) FROM ({_PENDING}) WHERE covered_by IS NULL", now)


def has_coalescible(c: Connection, now: int) -> bool:
    """Return whether there are unreadable files that the notification of a failing device covers."""
    return c.row(f"SELECT id FROM ({_PENDING}) WHERE covered_by IS NOT NULL LIMIT 1", now) is not None


def coalesce(c: Connection, now: int) -> None:
    """Mark unreadable files as notified by the failing device of the same root and run: one message, not thousands."""
    files: dict[int, list[FindingId]] = {}
    for number, by in c.rows(f"SELECT id, covered_by FROM ({_PENDING}) WHERE covered_by IS NOT NULL", now):
        files.setdefault(by, []).append(number)
    for device_id, ids in files.items():
        mark_notified(c, ids, now, swallowed_by=device_id)


def mark_notified(c: Connection, ids: Collection[FindingId], now: int, *, swallowed_by: int | None = None) -> None:
    """Record that the user was notified of findings in their present state, or by one about a device."""
    query = f"""
        INSERT INTO told (finding_id, certainty, blocks, ranges, first_told_at, swallowed_by)
        SELECT {INCIDENT}, certainty, blocks, ranges, ?, ? FROM finding WHERE id IN (SELECT value FROM json_each(?))
        ON CONFLICT (finding_id) DO UPDATE SET
            certainty = excluded.certainty, blocks = excluded.blocks, ranges = excluded.ranges,
            swallowed_by = excluded.swallowed_by"""
    c.run(query, now, swallowed_by, numbers(ids))


def count_resolved(c: Connection, ids: Collection[int]) -> int:
    """Count the findings that are resolved, or were deleted with their root."""
    query = "SELECT count(*) FROM finding WHERE id IN (SELECT value FROM json_each(?)) AND state != 'resolved'"
    return len(ids) - int(c.value(query, numbers(ids)))


def unmark_notified(c: Connection, ids: Collection[int], since: int) -> None:
    """Record that a message of ``since`` never reached the user: its findings need a notification again."""
    incidents = numbers(
        c.column(f"SELECT {INCIDENT} FROM finding WHERE id IN (SELECT value FROM json_each(?))", numbers(ids))
    )
    mine = "finding_id IN (SELECT value FROM json_each(?))"
    c.run(f"DELETE FROM told WHERE {mine} AND first_told_at >= ?", incidents, since)
    c.run(f"UPDATE told SET certainty = '' WHERE {mine}", incidents)


def summarize(c: Connection, now: int) -> NotifiedSummary:
    """Summarize the notified incidents."""
    # One query for all would join each row of told with all findings.
    open_ones = f"SELECT count(*), min(told.first_told_at) FROM {_JOINED} WHERE {_IS_REMINDABLE}"
    remindable, open_since = next(c.rows(open_ones, now))
    over = f"SELECT count(*), min(first_told_at) FROM told WHERE finding_id NOT IN {_STILL}"
    resolved, over_since = next(c.rows(over))
    unresolved = c.value("SELECT count(*) FROM told") - resolved
    since = min((at for at in (open_since, over_since) if at is not None), default=None)
    return NotifiedSummary(unresolved, resolved, remindable, since)


def find_remindable(c: Connection, now: int) -> list[Finding]:
    """Return the notified findings that are still open, without acknowledged and muted ones."""
    ids = c.column(f"SELECT finding.id FROM {_JOINED} WHERE {_IS_REMINDABLE}", now)
    return as_incidents(c, get_findings(c, ids))


def find_over(c: Connection) -> list[Finding]:
    """Return the notified findings that are resolved now; findings of removed roots no longer exist."""
    return get_findings(c, c.column(f"SELECT finding_id FROM told WHERE finding_id NOT IN {_STILL}"))


def drop_over(c: Connection) -> None:
    """Record that the user was notified of the end of all resolved incidents."""
    c.run(f"DELETE FROM told WHERE finding_id NOT IN {_STILL}")


def count_verified_since(c: Connection, since: int) -> tuple[int, int]:
    """Return how many files were verified since a time, and their bytes. Scans all files."""
    return next(c.rows("SELECT count(*), coalesce(sum(size_bytes), 0) FROM file WHERE verified_at >= ?", since))
