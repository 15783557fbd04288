"""
The order in which a scrub verifies files (R7), decided at its start and stored in a temporary table.

No cursor is stored: the order follows from the time of each file's last verification. Files that are due come first;
then suspects (R2), interleaved with others by bytes, so that suspects get at most half of any window; then the rest by
day of the last verification (never verified first), and within a day by inode, which is roughly disk order. If many
files of a root are suspects (``chown -R``), they get no priority, so that due dates are kept. A suspect with an open
finding about its content was read since: it has no priority. Large files can be listed separately, so that each kind
gets its share of a window. After a run that stopped because of a failing device, the files that it did not reach come
first. Files known to be unreadable come last, because each costs failing reads.
"""

from __future__ import annotations

from dataclasses import dataclass

from integrity.catalog.coverage import IS_SUSPECT, has_prioritized
from integrity.catalog.db import Connection
from integrity.catalog.files import ORDER_COLUMNS, make_anew, sum_up
from integrity.catalog.rows import (
    DAY_S,
    FILE_JOIN,
    RECORD_COLUMNS,
    FileRecord,
    inside,
    quoted,
    select_last_check,
    unless_ahead,
)
from integrity.kinds import STOPPED_READING
from integrity.model import RootId

_ANY_SIZE = (1 << 63) - 1


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
    has_suspects: bool = False  # besides, suspects that have priority: whatever else the order leaves out


@dataclass(frozen=True, slots=True)
class WorkSummary:
    """Amount of work."""

    files: int
    bytes: int


def create_worklist(c: Connection, order: WorkOrder) -> WorkSummary:
    """Create the list of files to verify, a temporary table in a temporary file, in place of the last one."""
    make_anew(c, "worklist", f"{ORDER_COLUMNS}, is_due INTEGER NOT NULL")
    last_check = select_last_check("file.verified_at", "file.recorded_at", order.now)
    part, values = inside(order.root_id, order.prefix)
    conditions = ["verified_at IS NULL"] if order.never_verified_only else []
    if order.older_than_at is not None:
        conditions.append(f"last_check < {order.older_than_at}")
    left_alone_at = _find_left_alone_at(c, order.root_id)
    is_prioritized = has_prioritized(c, order.root_id)
    is_early = "is_suspect" if order.has_suspects and is_prioritized else "0"
    # is_frozen is true for each unreadable file: it avoids a search for findings of the others.
    query = f"""
        INSERT INTO worklist (file_id, size_bytes, is_due)
        WITH checked AS (
            SELECT file.id, file.size_bytes, file.inode, {IS_SUSPECT} AS is_suspect, {last_check} AS last_check,
                {unless_ahead("file.verified_at", order.now)} AS verified_at,
                {"0" if order.due_before_at is None else f"{last_check} < {order.due_before_at}"} AS is_due,
                {"0" if left_alone_at is None else f"{last_check} < {left_alone_at}"} AS is_left_alone,
                file.is_frozen = 1 AND EXISTS (
                    SELECT 1 FROM finding
                    WHERE finding.file_id = file.id AND finding.kind = 'unreadable' AND finding.state != 'resolved'
                ) AS is_unreadable
            FROM file JOIN folder ON folder.id = file.folder_id WHERE {part}
        ) SELECT id, size_bytes, is_due OR {is_early} FROM checked WHERE {" AND ".join(conditions) or "1"} OR {is_early}
        ORDER BY is_unreadable, is_left_alone DESC, is_due DESC, {_INTERLEAVED if is_prioritized else ""} {_BY_DISK}"""
    c.run(query, *values)
    if order.percent is not None:
        sql = f"SELECT sum(file.size_bytes) FROM file JOIN folder ON folder.id = file.folder_id WHERE {part}"
        _cut(c, (c.value(sql, *values) or 0) * order.percent / 100)
    if order.at_least_bytes is not None:
        # One file larger than a window would displace all others.
        size = f"min(size_bytes, {-(-order.at_least_bytes // 2)})"
        _cut(c, order.at_least_bytes, size=size, keeps_due=True)
    return WorkSummary(*sum_up(c, "worklist"))


_BY_DISK = f"coalesce(verified_at / {DAY_S}, -1), inode, id"
_INTERLEAVED = f"""
    sum(size_bytes) OVER (
        PARTITION BY is_unreadable, is_left_alone, is_due, is_suspect ORDER BY {_BY_DISK}
    ) - size_bytes, is_suspect DESC,"""
"""Running total of bytes within each kind: sorting by it interleaves suspects with others, suspects first."""


def _find_left_alone_at(c: Connection, root_id: RootId) -> int | None:
    """Return when the last run started that stopped because of a failing device; None: no such finding is open."""
    query = f"""
        SELECT max(run.started_at) FROM run JOIN finding ON finding.run_id = run.id
        WHERE finding.root_id = ? AND finding.kind IN ({quoted(STOPPED_READING)}) AND finding.state != 'resolved'"""
    return c.value(query, root_id)


def _cut(c: Connection, wanted_bytes: float, *, size: str = "size_bytes", keeps_due: bool = False) -> None:
    """Shorten the list to the first files that reach ``wanted_bytes`` in total, and those that are due if asked to."""
    sums = f"SELECT seq, sum({size}) OVER (ORDER BY seq) AS total FROM worklist"
    last = c.value(f"SELECT min(seq) FROM ({sums}) WHERE total >= ?", wanted_bytes)
    if last is not None:
        is_cut = "seq > ? AND NOT is_due" if keeps_due else "seq > ?"
        c.run(f"DELETE FROM worklist WHERE {is_cut}", last if wanted_bytes else 0)


def count_larger(c: Connection, size_bytes: int) -> int:
    """Count the files in the list that are larger than a size."""
    return c.value("SELECT count(*) FROM worklist WHERE size_bytes > ?", size_bytes)


def page_worklist(
    c: Connection, after_seq: int, limit: int = 1000, *, larger_than: int | None = None, up_to: int | None = None
) -> list[tuple[int, FileRecord]]:
    """Return the next files (position, record) after a position, without those that were removed meanwhile."""
    rows = c.rows(
        f"""
        SELECT worklist.seq, {RECORD_COLUMNS} FROM worklist CROSS JOIN {FILE_JOIN}
        WHERE worklist.file_id = file.id AND worklist.seq > ? AND worklist.size_bytes > ? AND worklist.size_bytes <= ?
        ORDER BY worklist.seq LIMIT ?""",
        *(after_seq, -1 if larger_than is None else larger_than, _ANY_SIZE if up_to is None else up_to, limit),
    )
    return [(seq, FileRecord.make(*row)) for seq, *row in rows]
