"""
What a scrub verifies next (R7), decided once at its start and kept in a temporary table.

There is no cursor that could lie: the order follows from when each file was last verified. What is due comes first;
then suspects (R2), which take turns with the others by bytes, so that they get at most half of any window; then the
files by the day of their last verification, never verified ones first, and inside a day by inode, which is roughly
their order on the disk. When more than 5 % of a root are suspects (a ``chown -R``), they have no priority: the promise
may not starve. Large files can be had apart from the others, so that each kind gets its share of a window.

On a sick disk: after a run that had to leave the device alone, what it did not come to is first. Files that are known
to be unreadable come last, for each costs failing reads and is no news.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa

from integrity.catalog.compiled_sql import CompiledStatement
from integrity.catalog.files import make_anew, make_order, sum_up
from integrity.catalog.rows import FILE_JOIN, RECORD_COLUMNS, FileRecord, inside, looked_at, to_record, unless_ahead
from integrity.catalog.schema import file, finding, folder, run
from integrity.catalog.seal import Sealer
from integrity.kinds import DEVICE_FINDINGS
from integrity.model import FindingKind, RootId

_DAY_S = 86400
_WAVE_PERCENT = 5

_worklist = make_order("worklist")

_PAGE = CompiledStatement(
    sa.select(_worklist.c.seq, *RECORD_COLUMNS)
    .select_from(_worklist.join(FILE_JOIN, _worklist.c.file_id == file.c.id))
    .where(
        _worklist.c.seq > sa.bindparam("after_seq"),
        _worklist.c.size_bytes > sa.bindparam("larger_than"),
        _worklist.c.size_bytes <= sa.bindparam("up_to"),
    )
    .order_by(_worklist.c.seq)
    .limit(sa.bindparam("most")),
    *("after_seq", "larger_than", "up_to", "most"),
)
_ANY_SIZE = (1 << 63) - 1

_DEVICE_KINDS = sorted(kind.value for kind in DEVICE_FINDINGS)
_UNRESOLVED = finding.c.state != sa.literal_column("'resolved'")  # spelled as in the partial index, which it selects
_IS_UNREADABLE = sa.and_(
    file.c.is_frozen == 1,  # as each of them is: so the findings of the others are not looked for
    sa.exists().where(finding.c.file_id == file.c.id, finding.c.kind == FindingKind.UNREADABLE.value, _UNRESOLVED),
)


@dataclass(frozen=True, slots=True)
class WorkOrder:
    """What a scrub was asked to verify."""

    root_id: RootId
    prefix: bytes  # only below this folder, or this one file; empty: everything
    now: int
    never_verified_only: bool = False
    older_than_at: int | None = None  # only what was last verified (or recorded) before
    due_before_at: int | None = None  # what was last verified (or recorded) before is due and comes first
    percent: float | None = None  # only so much of the bytes below the prefix
    at_least_bytes: int | None = None  # only what is due, and in the order of the list more, until it is so much


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
    make_anew(c, _worklist)
    size, keys = _order_keys(c, order, has_priority=_has_priority(c, order))
    ordered = sa.select(file.c.id, size).join(folder, file.c.folder_id == folder.c.id).where(*_conditions(order))
    c.execute(sa.insert(_worklist).from_select(["file_id", "size_bytes"], ordered.order_by(*keys)))
    if order.percent is not None:
        _cut(c, _count_bytes(c, order) * order.percent / 100)
    if order.at_least_bytes is not None:
        _cut(
            c,
            order.at_least_bytes,
            most_of_one=-(-order.at_least_bytes // 2),
            kept=_count_due(c, order),
            kept_ids=_due_unreadable(order),
        )
    return WorkSummary(*sum_up(c, _worklist))


def count_larger(c: sa.Connection, size_bytes: int) -> int:
    """Count the files in the list that are larger than so much."""
    return int(c.execute(sa.select(sa.func.count()).where(_worklist.c.size_bytes > size_bytes)).scalar_one())


def page_worklist(
    c: sa.Connection,
    sealer: Sealer,
    after_seq: int,
    limit: int = 1000,
    *,
    larger_than: int | None = None,
    up_to: int | None = None,
) -> list[tuple[int, FileRecord]]:
    """
    List the next files (position, record) after a position; files that are gone by now are left out.

    Args:
        c: the connection that the list was made with.
        sealer: checks the records.
        after_seq: the position.
        limit: how many at most.
        larger_than: only files of more bytes.
        up_to: only files of no more bytes.
    """
    more, most = -1 if larger_than is None else larger_than, _ANY_SIZE if up_to is None else up_to
    return [(seq, to_record(sealer, row)) for seq, *row in _PAGE.run(c, after_seq, more, most, limit)]


def _last_looked_at(order: WorkOrder) -> sa.ColumnElement[int]:
    return looked_at(file.c.verified_at, file.c.recorded_at, order.now)


def _verified_at(order: WorkOrder) -> sa.ColumnElement[int]:
    return unless_ahead(file.c.verified_at, order.now)


def _conditions(order: WorkOrder) -> list[sa.ColumnElement[bool]]:
    conditions = [inside(order.root_id, order.prefix)]
    if order.never_verified_only:
        conditions.append(_verified_at(order).is_(None))
    if order.older_than_at is not None:
        conditions.append(_last_looked_at(order) < order.older_than_at)
    return conditions


def _has_priority(c: sa.Connection, order: WorkOrder) -> bool:
    """Say whether there are suspects, and no more than a wave."""
    suspects, files = sa.func.count().filter(file.c.is_suspect == 1), sa.func.count()
    query = sa.select(suspects, files).select_from(file.join(folder, file.c.folder_id == folder.c.id))
    row = c.execute(query.where(folder.c.root_id == order.root_id)).one()
    return 0 < row[0] <= row[1] * _WAVE_PERCENT / 100


def _order_keys(c: sa.Connection, order: WorkOrder, *, has_priority: bool) -> tuple[sa.ColumnElement[int], list[Any]]:
    """Make the size of a file and what the list is ordered by."""
    day = sa.func.coalesce(_verified_at(order) // _DAY_S, -1)
    by_disk = [day, file.c.inode, file.c.id]
    keys: list[Any] = [sa.case((_IS_UNREADABLE, 1), else_=0)]
    moments = (_left_alone_at(c, order.root_id), order.due_before_at)
    keys += [sa.case((_last_looked_at(order) < at, 0), else_=1) for at in moments if at is not None]
    if has_priority:
        # Bytes before each file among its own kind: ordered by them, suspects and others take turns, suspects first.
        kind = [*keys, file.c.is_suspect]
        before = sa.func.sum(file.c.size_bytes).over(partition_by=kind, order_by=by_disk) - file.c.size_bytes
        keys += [before, file.c.is_suspect.desc()]
    return file.c.size_bytes, keys + by_disk


def _count_bytes(c: sa.Connection, order: WorkOrder) -> int:
    query = sa.select(sa.func.coalesce(sa.func.sum(file.c.size_bytes), 0)).select_from(
        file.join(folder, file.c.folder_id == folder.c.id)
    )
    return int(c.execute(query.where(inside(order.root_id, order.prefix))).scalar_one())


def _count_due(c: sa.Connection, order: WorkOrder) -> int:
    if order.due_before_at is None:
        return 0
    query = sa.select(sa.func.count()).select_from(file.join(folder, file.c.folder_id == folder.c.id))
    is_due = _last_looked_at(order) < order.due_before_at
    return int(c.execute(query.where(*_conditions(order), is_due, ~_IS_UNREADABLE)).scalar_one())


def _due_unreadable(order: WorkOrder) -> sa.Select[tuple[int]] | None:
    """Select the unreadable files that are due: they stand at the end of the list, and are not to be cut off there."""
    if order.due_before_at is None:
        return None
    joined = sa.select(file.c.id).join(folder, file.c.folder_id == folder.c.id)
    return joined.where(*_conditions(order), _last_looked_at(order) < order.due_before_at, _IS_UNREADABLE)


def _left_alone_at(c: sa.Connection, root_id: RootId) -> int | None:
    """Say when the last run began that had to leave the device alone; None if it was read to the end since."""
    query = sa.select(sa.func.max(run.c.started_at)).join(finding, finding.c.run_id == run.c.id)
    is_device = finding.c.root_id == root_id, finding.c.kind.in_(_DEVICE_KINDS), _UNRESOLVED
    return c.execute(query.where(*is_device)).scalar()


def _cut(
    c: sa.Connection,
    wanted_bytes: float,
    *,
    most_of_one: int | None = None,
    kept: int = 0,
    kept_ids: sa.Select[tuple[int]] | None = None,
) -> None:
    """
    Keep as many files from the start of the list as reach so many bytes.

    Args:
        c: the connection that the list was made with.
        wanted_bytes: how many.
        most_of_one: count no file as more: one that takes several windows would keep all others out of each.
        kept: keep so many files in any case.
        kept_ids: keep these as well.
    """
    size: sa.ColumnElement[int] = _worklist.c.size_bytes
    if most_of_one is not None:
        size = sa.case((size > most_of_one, most_of_one), else_=size)
    total = sa.func.sum(size).over(order_by=_worklist.c.seq).label("total")
    sums = sa.select(_worklist.c.seq, total).subquery()
    last = c.execute(sa.select(sa.func.min(sums.c.seq)).where(sums.c.total >= wanted_bytes)).scalar()
    if last is not None:
        is_behind = _worklist.c.seq > max(last if wanted_bytes else 0, kept)
        is_kept = sa.false() if kept_ids is None else _worklist.c.file_id.in_(kept_ids)
        c.execute(sa.delete(_worklist).where(is_behind, ~is_kept))
