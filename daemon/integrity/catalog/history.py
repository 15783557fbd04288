"""History: the baselines that were replaced or removed, with the reason (R6)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa

from integrity.catalog.gates import follow_history
from integrity.catalog.hot import Hot
from integrity.catalog.rows import FileRecord, chunked
from integrity.catalog.tables import block_run, candidate, file, history
from integrity.catalog.words import read_word
from integrity.model import BaselineReason, Digests, FileId, RootId

KEEP_DELETED_S = 90 * 86400
"""How long deleted files are remembered, for moves and restores (R2)."""

_BY_ITSELF = (
    BaselineReason.EDITED,
    BaselineReason.ROLLED_BACK,
    BaselineReason.GROWN,
    BaselineReason.ROTATED,
    BaselineReason.REWRITTEN_IN_PLACE,
    BaselineReason.DELETED,
)
_NAMES = ("root_id", "file_id", "path", "size_bytes", "mtime_ns", "md5", "xxh3_128", "blake3", "version")
_WHEN = ("recorded_at", "reason", "replaced_at", "replaced_because", "note", "crc64nvme")
_INSERT = Hot(sa.insert(history).values({name: sa.bindparam(name) for name in _NAMES + _WHEN}), *_NAMES, *_WHEN)
_IS_DELETED = history.c.replaced_because == sa.literal_column("'deleted'")  # spelled as in the partial index


@dataclass(frozen=True, slots=True)
class HistoryRecord:
    """One baseline that is none any more."""

    id: int
    root_id: RootId
    file_id: FileId | None
    path: bytes
    size_bytes: int
    mtime_ns: int
    digests: Digests
    version: int
    recorded_at: int
    reason: BaselineReason  # why it had been taken
    replaced_at: int
    because: BaselineReason  # why it was replaced
    note: str | None


def add_history(
    c: sa.Connection, records: Iterable[FileRecord], *, because: BaselineReason, now: int, note: str | None = None
) -> None:
    """Write baselines down before they are replaced or removed."""
    _INSERT.run_many(
        c,
        (
            (
                *(one.root_id, one.id, one.path, one.witness.size_bytes, one.witness.mtime_ns),
                *(one.digests.md5, one.digests.xxh3_128, one.digests.blake3, one.version),
                *(one.recorded_at, one.reason.value, now, because.value, note, one.digests.crc64nvme),
            )
            for one in records
        ),
    )


def history_of(c: sa.Connection, root_id: RootId, key: bytes | FileId) -> list[HistoryRecord]:
    """List the former baselines of a path or of a file, newest first."""
    condition = history.c.path == key if isinstance(key, bytes) else history.c.file_id == key
    query = sa.select(history).where(history.c.root_id == root_id, condition)
    return [_to_record(row) for row in c.execute(query.order_by(history.c.id.desc()))]


def find_deleted(c: sa.Connection, root_id: RootId, size_bytes: int, md5: bytes) -> list[HistoryRecord]:
    """List the deleted files that had this content, the last deleted first; none that has come back since."""
    is_back = sa.exists().where(file.c.id == history.c.file_id)
    same = history.c.root_id == root_id, history.c.size_bytes == size_bytes, history.c.md5 == md5, ~is_back
    query = sa.select(history).where(*same, _IS_DELETED).order_by(history.c.replaced_at.desc(), history.c.id.desc())
    return [_to_record(row) for row in c.execute(query)]


def has_deleted(c: sa.Connection, root_id: RootId) -> bool:
    """Say whether any deleted file of a root is remembered."""
    return (
        c.execute(sa.select(sa.literal(1)).where(history.c.root_id == root_id, _IS_DELETED).limit(1)).first()
        is not None
    )


def adopt_history(c: sa.Connection, from_id: FileId, to_id: FileId) -> None:
    """Let the history of a deleted file go on as that of another, which has its content (R2)."""
    c.execute(sa.update(history).where(history.c.file_id == from_id).values(file_id=to_id))


def count_replaced(c: sa.Connection, root_id: RootId, since: int, until: int) -> tuple[int, int]:
    """
    Count the files whose baselines were replaced, and those removed, by what happened to them between two times.

    However often, a file counts once, and not at all if it waits for a decision, where it is counted. What a person
    agreed to is left out: it must not make the next honest change look like part of a wave.
    """
    is_removed = sa.case((history.c.replaced_because == BaselineReason.DELETED.value, 1), else_=0)
    is_waiting = sa.exists().where(candidate.c.file_id == history.c.file_id, candidate.c.state.in_(["staged", "held"]))
    each = (
        sa.select(sa.func.max(is_removed).label("is_removed"))
        .where(
            history.c.root_id == root_id,
            history.c.replaced_at.between(since, until),
            history.c.replaced_because.in_([reason.value for reason in _BY_ITSELF]),
            ~is_waiting,
        )
        .group_by(sa.func.coalesce(history.c.file_id, -history.c.id))
        .subquery()
    )
    removed = each.c.is_removed == 1
    row = c.execute(
        sa.select(sa.func.count().filter(~removed), sa.func.count().filter(removed)).select_from(each)
    ).one()
    return int(row[0]), int(row[1])


def purge_deleted(c: sa.Connection, now: int) -> int:
    """Forget the files that were deleted longer ago than they are kept, with all of their history, and say how many."""
    query = sa.select(history.c.file_id).where(_IS_DELETED, history.c.replaced_at < now - KEEP_DELETED_S)
    gone = c.execute(query.where(~sa.exists().where(file.c.id == history.c.file_id))).scalars().all()
    for chunk in chunked(gone):
        c.execute(sa.delete(block_run).where(block_run.c.file_id.in_(chunk)))
        c.execute(sa.delete(history).where(history.c.file_id.in_(chunk)))
    if gone:
        follow_history(c)
    return len(gone)


def _to_record(row: sa.Row[Any]) -> HistoryRecord:
    return HistoryRecord(
        id=row.id,
        root_id=row.root_id,
        file_id=row.file_id,
        path=row.path,
        size_bytes=row.size_bytes,
        mtime_ns=row.mtime_ns,
        digests=Digests(row.md5, row.xxh3_128, row.blake3, row.crc64nvme),
        version=row.version,
        recorded_at=row.recorded_at,
        reason=read_word(BaselineReason, row.reason),
        replaced_at=row.replaced_at,
        because=read_word(BaselineReason, row.replaced_because),
        note=row.note,
    )
