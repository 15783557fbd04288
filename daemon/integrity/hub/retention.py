"""Delete what nobody needs any more: old events, findings that are long over, and former contents of files."""

from __future__ import annotations

import sqlalchemy as sa

from integrity.hub.database import HubDatabase
from integrity.hub.former import FORMER_KEPT_S
from integrity.hub.schema import box_event, box_finding, finding, former_file

EVENTS_KEPT_S = 90 * 86400
FINDINGS_KEPT_S = 365 * 86400
_AT_ONCE = 5000
"""Rows of one transaction: boxes that report wait for no more."""

_KEPT_S = {
    box_event.c.at: EVENTS_KEPT_S,
    box_finding.c.resolved_at: FINDINGS_KEPT_S,
    finding.c.resolved_at: FINDINGS_KEPT_S,
    former_file.c.replaced_at: FORMER_KEPT_S,
}


def retain(database: HubDatabase, now: int) -> None:
    """
    Delete what is older than it is kept. Unresolved findings and the audit log are kept forever.

    Args:
        database: of the hub.
        now: seconds UTC.
    """
    for at, kept_s in _KEPT_S.items():
        is_more = True
        while is_more:
            with database.transaction() as c:
                is_more = _delete_some(c, at, now - kept_s) == _AT_ONCE


def _delete_some(c: sa.Connection, at: sa.Column[int], before: int) -> int:
    """Delete some rows of the table of a column that has the time; return how many."""
    key = tuple(at.table.primary_key)
    some = sa.select(*key).where(at < before).limit(_AT_ONCE)
    return c.execute(sa.delete(at.table).where(sa.tuple_(*key).in_(some))).rowcount
