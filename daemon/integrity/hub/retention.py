"""
Delete what nobody needs any more: old events, findings that are long over, and former contents of files.

Only the clock of the hub decides how old something is: a box may say anything.
"""

from __future__ import annotations

import sqlalchemy as sa

from integrity.hub.database import add_new
from integrity.hub.former import prune_former
from integrity.hub.schema import box_event, box_finding, event_mark, finding

EVENTS_KEPT_S = 90 * 86400
FINDINGS_KEPT_S = 365 * 86400


def retain(c: sa.Connection, now: int) -> None:
    """
    Delete what is older than it is kept. Unresolved findings and the audit log are kept forever.

    Args:
        c: in a transaction.
        now: seconds UTC.
    """
    _delete_old_events(c, now)
    for table in (box_finding, finding):
        c.execute(sa.delete(table).where(table.c.resolved_at < now - FINDINGS_KEPT_S))
    prune_former(c, now)


def _delete_old_events(c: sa.Connection, now: int) -> None:
    """Delete the events that the hub already had when they became too old; mark which ones it has now."""
    newest = c.execute(sa.select(sa.func.coalesce(sa.func.max(box_event.c.id), 0))).scalar_one()
    add_new(c, event_mark, [{"at": now, "event_id": newest}])
    is_old = event_mark.c.at <= now - EVENTS_KEPT_S
    last = c.execute(sa.select(sa.func.max(event_mark.c.event_id)).where(is_old)).scalar()
    if last is not None:
        c.execute(sa.delete(box_event).where(box_event.c.id <= last))
        c.execute(sa.delete(event_mark).where(is_old))
