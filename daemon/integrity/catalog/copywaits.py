"""
How long the files of a root have waited to be held against a copy of it.

The clock of a file starts when its present content was recorded, or when the copy was first known, if that was later;
and again each time it is compared, whatever the copy said then: that is told by findings.
"""

from __future__ import annotations

from dataclasses import dataclass

import sqlalchemy as sa

from integrity.catalog.ahead import NEVER_AT, unless_ahead
from integrity.catalog.copies import CopyRecord
from integrity.catalog.rows import inside
from integrity.catalog.schema import copy_file, file, folder
from integrity.verdict import CopyVote

_SILENT = (CopyVote.NOT_COMPARABLE.value, CopyVote.UNREADABLE.value)


@dataclass(frozen=True, slots=True)
class CopyWaits:
    """What is known of a copy's comparisons."""

    files: int
    compared: int  # in their present version
    same: int  # as the copy says
    read: int  # the same by the copy's bytes
    silent: int  # compared, but nothing could be said
    last_compared_at: int | None  # of all; None: never
    waits_since: int | None  # of the file that has waited longest; None: there is no file
    overdue: int


def find_waits(c: sa.Connection, record: CopyRecord, *, now: int, verify_every_s: int) -> CopyWaits:
    """Sum up one copy: one pass over the files that it should have."""
    is_current = sa.and_(
        copy_file.c.copy_id == record.id, copy_file.c.file_id == file.c.id, copy_file.c.version == file.c.version
    )
    is_same = copy_file.c.vote == CopyVote.SAME.value
    compared_at = unless_ahead(copy_file.c.compared_at, now)
    starts = (unless_ahead(at, now) for at in (file.c.recorded_at, sa.literal(record.created_at)))
    began = sa.func.max(*(sa.func.coalesce(start, NEVER_AT) for start in starts))
    since = sa.func.coalesce(compared_at, began)
    columns = [
        sa.func.count().label("files"),
        sa.func.count(copy_file.c.file_id).label("compared"),
        sa.func.count().filter(is_same).label("same"),
        sa.func.count(copy_file.c.read_at).filter(is_same).label("read"),
        sa.func.count().filter(copy_file.c.vote.in_(_SILENT)).label("silent"),
        sa.func.max(compared_at).label("last_compared_at"),
        sa.func.min(since).label("waits_since"),
        sa.func.count().filter(since < now - verify_every_s).label("overdue"),
    ]
    joined = file.join(folder, file.c.folder_id == folder.c.id).outerjoin(copy_file, is_current)
    query = sa.select(*columns).select_from(joined).where(inside(record.root_id, record.prefix))
    return CopyWaits(**c.execute(query).one()._asdict())
