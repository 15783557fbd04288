"""
What a scrub verifies next (R7), decided once at its start and kept in a temporary table.

There is no cursor that could lie: the order follows from when each file was last verified. Overdue files come first;
then suspects (R2), which take turns with the others by bytes, so that they get at most half of any window; then the
files by the day of their last verification, never verified ones first, and inside a day by inode, which is roughly
their order on the disk. When more than 5 % of a root are suspects (a ``chown -R``), they have no priority: the promise
may not starve.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa
from sqlalchemy.schema import CreateTable, DropTable

from integrity.catalog.rows import FILE_JOIN, RECORD_COLUMNS, FileRecord, inside, to_record
from integrity.catalog.seal import Sealer
from integrity.catalog.tables import file, folder
from integrity.model import RootId

_DAY_S = 86400
_WAVE_PERCENT = 5

_worklist = sa.Table(
    "worklist",
    sa.MetaData(),
    sa.Column("seq", sa.Integer, primary_key=True),
    sa.Column("file_id", sa.Integer, nullable=False),
    sa.Column("size_bytes", sa.Integer, nullable=False),
    prefixes=["TEMPORARY"],
    schema="temp",
)


@dataclass(frozen=True, slots=True)
class WorkOrder:
    """What a scrub was asked to verify."""

    root_id: RootId
    prefix: bytes  # only below this folder, or this one file; empty: everything
    now: int
    never_verified_only: bool = False
    older_than_at: int | None = None  # only what was last verified (or recorded) before
    due_before_at: int | None = None  # what was last verified (or recorded) before is overdue and comes first
    percent: float | None = None  # only so much of the bytes below the prefix


@dataclass(frozen=True, slots=True)
class WorkSummary:
    """How much work there is."""

    files: int
    bytes: int


def create_worklist(c: sa.Connection, order: WorkOrder) -> WorkSummary:
    """
    Make the list of what is to be verified, in place of the connection's last one.

    It lives with the connection, in a temporary file; nothing of it is in the catalog.
    """
    c.execute(DropTable(_worklist, if_exists=True))
    c.execute(CreateTable(_worklist))
    size, keys = _order_keys(order, has_priority=_has_priority(c, order))
    ordered = sa.select(file.c.id, size).join(folder, file.c.folder_id == folder.c.id).where(*_conditions(order))
    c.execute(sa.insert(_worklist).from_select(["file_id", "size_bytes"], ordered.order_by(*keys)))
    if order.percent is not None:
        _cut(c, order, order.percent)
    row = c.execute(sa.select(sa.func.count(), sa.func.coalesce(sa.func.sum(_worklist.c.size_bytes), 0))).one()
    return WorkSummary(int(row[0]), int(row[1]))


def page_worklist(c: sa.Connection, sealer: Sealer, after_seq: int, limit: int = 1000) -> list[tuple[int, FileRecord]]:
    """List the next files (position, record) after a position; files that are gone by now are left out."""
    query = (
        sa.select(_worklist.c.seq, *RECORD_COLUMNS)
        .select_from(_worklist.join(FILE_JOIN, _worklist.c.file_id == file.c.id))
        .where(_worklist.c.seq > after_seq)
        .order_by(_worklist.c.seq)
        .limit(limit)
    )
    return [(row[0], to_record(sealer, row[1:])) for row in c.execute(query)]


def _last_looked_at() -> sa.ColumnElement[int]:
    return sa.func.coalesce(file.c.verified_at, file.c.recorded_at)


def _conditions(order: WorkOrder) -> list[sa.ColumnElement[bool]]:
    conditions = [inside(order.root_id, order.prefix)]
    if order.never_verified_only:
        conditions.append(file.c.verified_at.is_(None))
    if order.older_than_at is not None:
        conditions.append(_last_looked_at() < order.older_than_at)
    return conditions


def _has_priority(c: sa.Connection, order: WorkOrder) -> bool:
    """Say whether there are suspects, and no more than a wave."""
    suspects, files = sa.func.count().filter(file.c.is_suspect == 1), sa.func.count()
    query = sa.select(suspects, files).select_from(file.join(folder, file.c.folder_id == folder.c.id))
    row = c.execute(query.where(folder.c.root_id == order.root_id)).one()
    return 0 < row[0] <= row[1] * _WAVE_PERCENT / 100


def _order_keys(order: WorkOrder, *, has_priority: bool) -> tuple[sa.ColumnElement[int], list[Any]]:
    """Make the size of a file and what the list is ordered by."""
    day = sa.func.coalesce(file.c.verified_at // _DAY_S, -1)
    by_disk = [day, file.c.inode, file.c.id]
    keys: list[Any] = []
    if order.due_before_at is not None:
        keys.append(sa.case((_last_looked_at() < order.due_before_at, 0), else_=1))
    if has_priority:
        # Bytes before each file among its own kind: ordered by them, suspects and others take turns, suspects first.
        kind = [*keys, file.c.is_suspect]
        before = sa.func.sum(file.c.size_bytes).over(partition_by=kind, order_by=by_disk) - file.c.size_bytes
        keys += [before, file.c.is_suspect.desc()]
    return file.c.size_bytes, keys + by_disk


def _cut(c: sa.Connection, order: WorkOrder, percent: float) -> None:
    """Keep as many files from the start of the list as reach a share of the bytes below the prefix."""
    everything = sa.select(sa.func.coalesce(sa.func.sum(file.c.size_bytes), 0)).select_from(
        file.join(folder, file.c.folder_id == folder.c.id)
    )
    wanted = c.execute(everything.where(inside(order.root_id, order.prefix))).scalar_one() * percent / 100
    total = sa.func.sum(_worklist.c.size_bytes).over(order_by=_worklist.c.seq).label("total")
    sums = sa.select(_worklist.c.seq, total).subquery()
    last = c.execute(sa.select(sa.func.min(sums.c.seq)).where(sums.c.total >= wanted)).scalar()
    if last is not None:
        c.execute(sa.delete(_worklist).where(_worklist.c.seq > last))
