"""Delete what nobody needs any more: old events, findings that are long over, and former contents of files."""

from __future__ import annotations

import sqlalchemy as sa

from integrity.hub.former import prune_former
from integrity.hub.schema import box_event, box_finding, finding

EVENTS_KEPT_S = 90 * 86400
FINDINGS_KEPT_S = 365 * 86400


def retain(c: sa.Connection, now: int) -> None:
    """
    Delete what is older than it is kept. Unresolved findings and the audit log are kept forever.

    Args:
        c: in a transaction.
        now: seconds UTC.
    """
    c.execute(sa.delete(box_event).where(box_event.c.at < now - EVENTS_KEPT_S))
    for table in (box_finding, finding):
        c.execute(sa.delete(table).where(table.c.resolved_at < now - FINDINGS_KEPT_S))
    prune_former(c, now)
