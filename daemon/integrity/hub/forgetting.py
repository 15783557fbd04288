"""
Delete what one box reported, and rows that nothing refers to any more: sets that no box reports, folders of no member.

Others may begin to refer to them at the same time. So sets are deleted only if nobody has their rows locked, and
folders while the members of their set are locked, as by whoever stores files (``trees.py``).
"""

from __future__ import annotations

import sqlalchemy as sa

from integrity.hub.database import HubDatabase
from integrity.hub.due_votes import mark_changed
from integrity.hub.members import remove_files
from integrity.hub.schema import (
    box,
    box_event,
    box_finding,
    box_run,
    box_stream,
    box_usage,
    file_part,
    finding,
    folder,
    former_file,
    member,
    member_folder,
    replica_set,
    tree_disk,
)
from integrity.reporting.protocol import FIRST_CHAIN

_AT_ONCE = 500


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
    for start in range(0, len(locked), _AT_ONCE):
        # Asked again: a box may have reported one of them before it was locked.
        some = abandoned.where(replica_set.c.id.in_(locked[start : start + _AT_ONCE]))
        ids = c.execute(some).scalars().all()
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
