"""
Delete what nobody needs any more: old events, findings that are long over, and former contents of files.

Only the clock of the hub decides how old something is: a box may say anything.
"""

from __future__ import annotations

import sqlalchemy as sa

from integrity.hub.database import HubDatabase, add_new
from integrity.hub.former import FORMER_KEPT_S
from integrity.hub.schema import box_event, box_finding, event_mark, finding, former_file

EVENTS_KEPT_S = 90 * 86400
FINDINGS_KEPT_S = 365 * 86400
_AT_ONCE = 5000
"""Rows of one transaction: boxes that report wait for no more."""

_KEPT_S = {
    box_finding.c.resolved_at: FINDINGS_KEPT_S,
    finding.c.resolved_at: FINDINGS_KEPT_S,
    former_file.c.replaced_at: FORMER_KEPT_S,
}


def retain(database: HubDatabase, now: int) -> None:
    """Delete what is older than it is kept. Unresolved findings and the audit log are kept forever."""
    for at, kept_s in _KEPT_S.items():
        _delete(database, at.table, at < now - kept_s)
    with database.transaction() as c:
        last = _mark_events(c, now)
    if last is not None:
        _delete(database, box_event, box_event.c.id <= last)


def _delete(database: HubDatabase, table: sa.Table, is_old: sa.ColumnElement[bool]) -> None:
    """Delete rows, some at a time."""
    key = tuple(table.primary_key)
    some = sa.select(*key).where(is_old).limit(_AT_ONCE)
    is_more = True
    while is_more:
        with database.transaction() as c:
            is_more = c.execute(sa.delete(table).where(sa.tuple_(*key).in_(some))).rowcount == _AT_ONCE


def _mark_events(c: sa.Connection, now: int) -> int | None:
    """Mark which events the hub has now; return the last one that it had when it was as old as events are kept."""
    newest = c.execute(sa.select(sa.func.coalesce(sa.func.max(box_event.c.id), 0))).scalar_one()
    add_new(c, event_mark, [{"at": now, "event_id": newest}])
    is_old = event_mark.c.at <= now - EVENTS_KEPT_S
    last: int | None = c.execute(sa.select(sa.func.max(event_mark.c.event_id)).where(is_old)).scalar()
    c.execute(sa.delete(event_mark).where(is_old))
    return last
