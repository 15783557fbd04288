"""
Delete what nobody needs: what one box reported, rows that nothing refers to any more, and what is old.

Others may begin to refer to rows at the same time. So sets are deleted only if nobody has their rows locked, and
folders while the members of their set are locked, as by whoever stores files (``trees.py``). Only the clock of the hub
decides how old something is: a box may say anything.
"""

from __future__ import annotations

import sqlalchemy as sa

from integrity.hub.database import HubDatabase, add_new, chunked
from integrity.hub.members import mark_changed, remove_files
from integrity.hub.schema import (
    box,
    box_event,
    box_finding,
    box_run,
    box_stream,
    box_usage,
    event_mark,
    file_part,
    finding,
    folder,
    former_file,
    member,
    member_folder,
    replica_set,
    tree_disk,
)
from integrity.hub.stored_files import FORMER_KEPT_S
from integrity.reporting.protocol import FIRST_CHAIN


def forget_unused(database: HubDatabase, box_id: int | None = None) -> None:
    """Delete the rows that nothing refers to; folders only of the sets of one box, if it is given."""
    with database.transaction() as c:
        forget_abandoned_sets(c)
    sets = sa.select(member.c.set_id).where(member.c.set_id.is_not(None)).distinct().order_by(member.c.set_id)
    with database.read() as c:
        ids = c.execute(sets if box_id is None else sets.where(member.c.box_id == box_id)).scalars().all()
    for set_id in ids:
        with database.transaction() as c:
            forget_unused_folders(c, set_id)


def forget_box(c: sa.Connection, box_id: int, now: int) -> None:
    """Delete what a box reported, its roots and its history; its sets vote again without it. The box stays."""
    mine = sa.select(member.c.id, member.c.set_id).where(member.c.box_id == box_id)
    rows = c.execute(mine.order_by(member.c.id).with_for_update()).all()
    mark_changed(c, {row.set_id for row in rows if row.set_id is not None}, now)
    for row in rows:
        remove_files(c, row.id)
    for table in (member, box_finding, box_event, box_stream, box_run, tree_disk):
        c.execute(sa.delete(table).where(table.c.box_id == box_id))
    usage = {"stored_bytes": 0, "counted_at": None, "full_since": None}
    c.execute(sa.update(box_usage).where(box_usage.c.box_id == box_id).values(**usage))
    values = {"stream": None, "last_number": 0, "last_chain": FIRST_CHAIN, "repeats_until": None, "shared_by": None}
    c.execute(sa.update(box).where(box.c.id == box_id).values(**values))


def forget_abandoned_sets(c: sa.Connection) -> int:
    """Delete the sets that no box reports or reported last, with their findings once they ended; return how many."""
    is_reported = sa.exists().where(member.c.set_id == replica_set.c.id)
    has_open = sa.exists().where(finding.c.set_id == replica_set.c.id, finding.c.resolved_at.is_(None))
    abandoned = sa.select(replica_set.c.id).where(~is_reported, ~has_open)
    locked = c.execute(abandoned.with_for_update(skip_locked=True)).scalars().all()
    for some in chunked(locked):
        # Asked again: a box may have reported one of them before it was locked.
        ids = c.execute(abandoned.where(replica_set.c.id.in_(some))).scalars().all()
        for column in (finding.c.set_id, folder.c.set_id, replica_set.c.id):
            c.execute(sa.delete(column.table).where(column.in_(ids)))
    return len(locked)


def forget_unused_folders(c: sa.Connection, set_id: int) -> int:
    """Delete the folders of a set that no member has or had in the time that contents are kept; return how many."""
    members = sa.select(member.c.id).where(member.c.set_id == set_id).order_by(member.c.id)
    ids = c.execute(members.with_for_update()).scalars().all()
    # With the member as well as the folder: the keys of these tables begin with the member.
    references = (
        *(table.c.folder_id for table in (member_folder, file_part, former_file)),
        member_folder.alias().c.parent_id,  # the folder above may be sent later
    )
    is_used = [sa.exists().where(column.table.c.member_id.in_(ids), column == folder.c.id) for column in references]
    return c.execute(sa.delete(folder).where(folder.c.set_id == set_id, ~sa.or_(*is_used))).rowcount


EVENTS_KEPT_S = 90 * 86400
FINDINGS_KEPT_S = 365 * 86400
_ROWS_AT_ONCE = 5000
"""Rows of one transaction: boxes that report wait for no more."""

_KEPT_S = {
    box_finding.c.resolved_at: FINDINGS_KEPT_S,
    finding.c.resolved_at: FINDINGS_KEPT_S,
    former_file.c.replaced_at: FORMER_KEPT_S,
}


def retain(database: HubDatabase, now: int) -> None:
    """Delete what is older than it is kept, and unused. Unresolved findings and the audit log are kept forever."""
    for at, kept_s in _KEPT_S.items():
        _delete(database, at.table, at < now - kept_s)
    with database.transaction() as c:
        last = _mark_events(c, now)
    if last is not None:
        _delete(database, box_event, box_event.c.id <= last)
    forget_unused(database)


def _delete(database: HubDatabase, table: sa.Table, is_old: sa.ColumnElement[bool]) -> None:
    key = tuple(table.primary_key)
    some = sa.select(*key).where(is_old).limit(_ROWS_AT_ONCE)
    is_more = True
    while is_more:
        with database.transaction() as c:
            is_more = c.execute(sa.delete(table).where(sa.tuple_(*key).in_(some))).rowcount == _ROWS_AT_ONCE


def _mark_events(c: sa.Connection, now: int) -> int | None:
    """Mark which events the hub has now; return the last one that it had when it was as old as events are kept."""
    newest = c.execute(sa.select(sa.func.coalesce(sa.func.max(box_event.c.id), 0))).scalar_one()
    add_new(c, event_mark, [{"at": now, "event_id": newest}])
    is_old = event_mark.c.at <= now - EVENTS_KEPT_S
    last: int | None = c.execute(sa.select(sa.func.max(event_mark.c.event_id)).where(is_old)).scalar()
    c.execute(sa.delete(event_mark).where(is_old))
    return last
