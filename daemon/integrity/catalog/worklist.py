"""
The order in which a scrub verifies files (R7), decided at its start and stored in a temporary table.

No cursor is stored: the order follows from the time of each file's last verification. Files that are due come first;
then suspects (R2), interleaved with others by bytes, so that suspects get at most half of any window; then the rest by
day of the last verification (never verified first), and within a day by inode, which is roughly disk order. If more
than 5 % of a root are suspects (``chown -R``), they get no priority, so that due dates are kept. Large files can be
listed separately, so that each kind gets its share of a window. After a run that stopped because of a failing device,
the files that it did not reach come first. Files known to be unreadable come last, because each costs failing reads.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa

from integrity.catalog.compiled_sql import CompiledStatement
from integrity.catalog.files import make_anew, make_order, sum_up
from integrity.catalog.rows import (
    FILE_JOIN,
    RECORD_COLUMNS,
    FileRecord,
    inside,
    select_last_check,
    to_record,
    unless_ahead,
)
from integrity.catalog.schema import file, finding, folder, run
from integrity.catalog.seal import Sealer
from integrity.kinds import STOPPED_READING
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

_STOPPED_KINDS = sorted(kind.value for kind in STOPPED_READING)
_UNRESOLVED = finding.c.state != sa.literal_column("'resolved'")  # must match the text of the partial index
_IS_UNREADABLE = sa.and_(
    file.c.is_frozen == 1,  # true for each unreadable file; avoids a search for findings of the others
    sa.exists().where(finding.c.file_id == file.c.id, finding.c.kind == FindingKind.UNREADABLE.value, _UNRESOLVED),
)


@dataclass(frozen=True, slots=True)
class WorkOrder:
    """What a scrub must verify."""

    root_id: RootId
    prefix: bytes  # only below this folder, or this one file; empty: all files
    now: int
    never_verified_only: bool = False
    older_than_at: int | None = None  # only files last verified (or recorded) before this time
    due_before_at: int | None = None  # files last verified (or recorded) before this time are due and come first
    percent: float | None = None  # only this share of the bytes below the prefix
    at_least_bytes: int | None = None  # due files, and more in the order of the list until this size is reached


@dataclass(frozen=True, slots=True)
class WorkSummary:
    """Amount of work."""

    files: int
    bytes: int


def create_worklist(c: sa.Connection, order: WorkOrder) -> WorkSummary:
    """
    Create the list of files to verify, replacing the connection's last one.

    The list is a temporary table in a temporary file, not part of the catalog.
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
    """Count the files in the list that are larger than a size."""
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
    Return the next files (position, record) after a position; files that were removed meanwhile are left out.

    Args:
        c: the connection that created the list.
        sealer: checks the records.
        after_seq: the position.
        limit: size of the page.
        larger_than: only files larger than this many bytes.
        up_to: only files of at most this many bytes.
    """
    more, most = -1 if larger_than is None else larger_than, _ANY_SIZE if up_to is None else up_to
    return [(seq, to_record(sealer, row)) for seq, *row in _PAGE.run(c, after_seq, more, most, limit)]


def _last_check(order: WorkOrder) -> sa.ColumnElement[int]:
    return select_last_check(file.c.verified_at, file.c.recorded_at, order.now)


def _verified_at(order: WorkOrder) -> sa.ColumnElement[int]:
    return unless_ahead(file.c.verified_at, order.now)


def _conditions(order: WorkOrder) -> list[sa.ColumnElement[bool]]:
    conditions = [inside(order.root_id, order.prefix)]
    if order.never_verified_only:
        conditions.append(_verified_at(order).is_(None))
    if order.older_than_at is not None:
        conditions.append(_last_check(order) < order.older_than_at)
    return conditions


def _has_priority(c: sa.Connection, order: WorkOrder) -> bool:
    """Return whether suspects exist and are few enough to get priority."""
    suspects, files = sa.func.count().filter(file.c.is_suspect == 1), sa.func.count()
    query = sa.select(suspects, files).select_from(file.join(folder, file.c.folder_id == folder.c.id))
    row = c.execute(query.where(folder.c.root_id == order.root_id)).one()
    return 0 < row[0] <= row[1] * _WAVE_PERCENT / 100


def _order_keys(c: sa.Connection, order: WorkOrder, *, has_priority: bool) -> tuple[sa.ColumnElement[int], list[Any]]:
    """Return the size column, and the sort keys of the list."""
    day = sa.func.coalesce(_verified_at(order) // _DAY_S, -1)
    by_disk = [day, file.c.inode, file.c.id]
    keys: list[Any] = [sa.case((_IS_UNREADABLE, 1), else_=0)]
    moments = (_left_alone_at(c, order.root_id), order.due_before_at)
    keys += [sa.case((_last_check(order) < at, 0), else_=1) for at in moments if at is not None]
    if has_priority:
        # Running total of bytes within each kind: sorting by it interleaves suspects with others, suspects first.
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
    is_due = _last_check(order) < order.due_before_at
    return int(c.execute(query.where(*_conditions(order), is_due, ~_IS_UNREADABLE)).scalar_one())


def _due_unreadable(order: WorkOrder) -> sa.Select[tuple[int]] | None:
    """Select the unreadable files that are due: they are at the end of the list and must not be cut off."""
    if order.due_before_at is None:
        return None
    joined = sa.select(file.c.id).join(folder, file.c.folder_id == folder.c.id)
    return joined.where(*_conditions(order), _last_check(order) < order.due_before_at, _IS_UNREADABLE)


def _left_alone_at(c: sa.Connection, root_id: RootId) -> int | None:
    """Return when the last run started that stopped because of a failing device; None: no such finding is open."""
    query = sa.select(sa.func.max(run.c.started_at)).join(finding, finding.c.run_id == run.c.id)
    is_device = finding.c.root_id == root_id, finding.c.kind.in_(_STOPPED_KINDS), _UNRESOLVED
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
    Shorten the list to the first files that reach ``wanted_bytes`` in total.

    Args:
        c: the connection that created the list.
        wanted_bytes: total size to keep.
        most_of_one: count a file as at most this size: one file larger than a window would displace all others.
        kept: keep at least this many files.
        kept_ids: keep these files, too.
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
