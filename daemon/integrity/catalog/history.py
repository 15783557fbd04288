"""
History: former baselines, with the reason why each was replaced or removed (R6); and the sources of imports.

During a run, a name can be reused before its old file is found under a new name with the same inode. That file is then
compared with the history of the inode, but never with a damaged row.

Each import that recorded files has one row in ``meta``, instead of a column for each file: key
``import/ROOT_ID/FIRST_FILE_ID``, value the manifest's name. File ids rise and are never reused (I3 of ``schema.py``),
and one job at a time works on a root. So an imported file belongs to the last import of its root that began at or
before its id.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any, NamedTuple

import sqlalchemy as sa

from integrity.catalog.compiled_sql import CompiledStatement
from integrity.catalog.days_run import is_outdated
from integrity.catalog.gate_passes import follow_history
from integrity.catalog.row_seals import check_seals, is_sealed, select_sealed
from integrity.catalog.rows import FileContent, FileRecord, chunked, read_word
from integrity.catalog.schema import block_run, candidate, file, history, meta
from integrity.model import BaselineReason, Digests, FileId, RootId, Witness
from integrity.same_time import GRAINS_NS, is_same_time

KEEP_DELETED_DAYS = 90
"""How long deleted files are kept, to detect moves and restores (R2)."""

_WITHOUT_USER = (
    BaselineReason.EDITED,
    BaselineReason.ROLLED_BACK,
    BaselineReason.GROWN,
    BaselineReason.ROTATED,
    BaselineReason.REWRITTEN_IN_PLACE,
    BaselineReason.DELETED,
)
_DISCARDED = (BaselineReason.ACCEPTED, BaselineReason.FORGOTTEN)
_ALL = (
    *("root_id", "file_id", "path", *Witness._fields, *Digests._fields, "block_size_bytes", "version"),
    *("recorded_at", "reason", "replaced_at", "replaced_because", "note"),
)
_INSERT = CompiledStatement(sa.insert(history).values({name: sa.bindparam(name) for name in _ALL}), *_ALL)
_IS_DELETED = history.c.replaced_because == sa.literal_column("'deleted'")  # must match the text of the partial index
_IS_BACK = sa.exists().where(file.c.id == history.c.file_id)
_DELETED = (
    sa.select(*history.c)
    .where(
        history.c.root_id == sa.bindparam("root_id"),
        history.c.size_bytes == sa.bindparam("size_bytes"),
        _IS_DELETED,
        ~_IS_BACK,
        is_sealed(history),
    )
    .order_by(history.c.replaced_at.desc(), history.c.id.desc())
)
_IN_TIME = history.c.mtime_ns >= sa.bindparam("first_mtime_ns"), history.c.mtime_ns <= sa.bindparam("last_mtime_ns")
_OF_INODE = CompiledStatement(
    sa.select(*history.c)
    .where(*(history.c[name] == sa.bindparam(name) for name in ("root_id", "inode", "size_bytes")))
    .where(*_IN_TIME, is_sealed(history))
    .order_by(history.c.id.desc()),
    *("root_id", "inode", "size_bytes", "first_mtime_ns", "last_mtime_ns"),
)
_DELETED_OF_CONTENT = CompiledStatement(
    _DELETED.where(history.c.md5 == sa.bindparam("md5")), "root_id", "size_bytes", "md5"
)
_DELETED_OF_TIME = CompiledStatement(
    _DELETED.where(*_IN_TIME), "root_id", "size_bytes", "first_mtime_ns", "last_mtime_ns"
)


@dataclass(frozen=True, slots=True)
class HistoryRecord:
    """A former baseline."""

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
    block_size_bytes: int | None  # None: it fitted one block, or they are not kept
    is_racy: bool
    ctime_ns: int | None  # None: older than version 0004 of the catalog
    inode: int | None  # None: the same

    @property
    def witness(self) -> Witness:
        """Return the witness of the former content; 0 for fields that were not stored."""
        return Witness(self.size_bytes, self.mtime_ns, self.ctime_ns or 0, self.inode or 0, self.is_racy)


def add_history(
    c: sa.Connection, records: Iterable[FileRecord], *, because: BaselineReason, now: int, note: str | None = None
) -> None:
    """Record baselines before they are replaced or removed."""
    _INSERT.run_many(
        c,
        (
            (
                *(one.root_id, one.id, one.path, *map(int, one.witness), *one.digests, one.block_size_bytes),
                *(one.version, one.recorded_at, one.reason.value, now, because.value, note),
            )
            for one in records
        ),
    )


def history_of(c: sa.Connection, root_id: RootId, key: bytes | FileId) -> list[HistoryRecord]:
    """Return the former baselines of a path or of a file id, newest first."""
    condition = history.c.path == key if isinstance(key, bytes) else history.c.file_id == key
    query = select_sealed(history).where(history.c.root_id == root_id, condition).order_by(history.c.id.desc())
    return [_to_record(row) for row in check_seals(c, history, c.execute(query))]


def find_deleted(c: sa.Connection, root_id: RootId, size_bytes: int, md5: bytes) -> list[HistoryRecord]:
    """Return the deleted files with this content, last deleted first, without those that were recorded again."""
    return _to_records(_DELETED_OF_CONTENT.run(c, root_id, size_bytes, md5))


def find_deleted_of_time(c: sa.Connection, root_id: RootId, seen: Witness) -> list[HistoryRecord]:
    """Return the deleted files with a witness's size and time, like ``find_deleted``."""
    found = _to_records(_DELETED_OF_TIME.run(c, root_id, seen.size_bytes, *_around(seen.mtime_ns)))
    return [one for one in found if is_same_time(one.mtime_ns, seen.mtime_ns)]


def _around(mtime_ns: int) -> tuple[int, int]:
    """Return the first and the last time that may be the same as this one."""
    return mtime_ns - GRAINS_NS[0], mtime_ns + GRAINS_NS[0]


def find_former_of_inode(c: sa.Connection, root_id: RootId, seen: Witness) -> HistoryRecord | None:
    """Return the newest former baseline with a witness's inode, size, and time; None if a user discarded it."""
    found = _to_records(_OF_INODE.run(c, root_id, seen.inode, seen.size_bytes, *_around(seen.mtime_ns)))
    last = next((one for one in found if is_same_time(one.mtime_ns, seen.mtime_ns)), None)
    return None if last is None or last.because in _DISCARDED else last


class FormerFile(NamedTuple):
    """A file that had some content before and may be gone. ``path``: the last one that is known."""

    file_id: FileId | None
    path: bytes
    recorded_at: int
    was_damage: bool  # it inherited the damage of another file before that damage was known


def find_by_former_content(c: sa.Connection, root_id: RootId, contents: Sequence[FileContent]) -> list[set[FormerFile]]:
    """
    Return, for each content, the files of a root that had it before, including deleted ones.

    History keeps no blocks of most files: content without whole-file digests is matched by size alone, so a file
    returned for it may have had different content.
    """
    sizes = {content.size_bytes for content in contents}
    names = "size_bytes", "md5", "xxh3_128", "file_id", "path", "recorded_at"
    kept = [history.c[name] for name in names]
    was_damage = history.c.replaced_because == BaselineReason.INHERITED.value
    rows: Sequence[Any] = c.execute(
        sa.select(*kept, was_damage.label("was_damage")).where(
            *(history.c.root_id == root_id, history.c.size_bytes.in_(sizes), is_sealed(history))
        )
    ).all()
    by_size: dict[int, set[FormerFile]] = {}
    by_digest: dict[tuple[int, bytes], set[FormerFile]] = {}
    for size_bytes, md5, xxh3_128, file_id, path, recorded_at, is_damage in rows:
        former = FormerFile(file_id, path, recorded_at, bool(is_damage))
        by_size.setdefault(size_bytes, set()).add(former)
        for digest in filter(None, (md5, xxh3_128)):
            by_digest.setdefault((size_bytes, digest), set()).add(former)
    found: list[set[FormerFile]] = []
    for size_bytes, digests, blocks in contents:
        whole = FileContent(size_bytes, digests, blocks).whole_digests
        same = [by_digest.get((size_bytes, digest), set()) for digest in whole] or [by_size.get(size_bytes, set())]
        found.append(set().union(*same))
    return found


def has_history(c: sa.Connection, root_id: RootId) -> bool:
    """Return whether a root has any history."""
    return c.execute(sa.select(sa.literal(1)).where(history.c.root_id == root_id).limit(1)).first() is not None


def adopt_history(c: sa.Connection, from_id: FileId, to_id: FileId) -> None:
    """Assign the history of a deleted file to another file, which has, or should have, its content (R2)."""
    values = {"file_id": to_id, "block_size_bytes": None}  # versions of another file: they have no blocks under this id
    c.execute(sa.update(history).where(history.c.file_id == from_id).values(values))
    c.execute(sa.delete(block_run).where(block_run.c.file_id == from_id))


def drop_former_runs(c: sa.Connection, record: FileRecord) -> None:
    """Delete the blocks of a file's earlier baselines, except of those without whole-file digests."""
    has_others = sa.or_(history.c.md5.is_not(None), history.c.xxh3_128.is_not(None))
    versions = sa.select(history.c.version).where(history.c.file_id == record.id, has_others)
    earlier = block_run.c.version < record.version, block_run.c.version.in_(versions)
    c.execute(sa.delete(block_run).where(block_run.c.file_id == record.id, *earlier))


def count_replaced(c: sa.Connection, root_id: RootId, since: int, until: int) -> tuple[int, int]:
    """
    Return how many files were replaced and how many removed between two times.

    A file counts once, and not at all if its candidate waits for a decision, because it is counted there. Changes that
    a user approved do not count: they must not make the next normal change look like part of a mass change.
    """
    is_removed = sa.case((history.c.replaced_because == BaselineReason.DELETED.value, 1), else_=0)
    is_counted = candidate.c.kind != sa.literal_column("'times'"), candidate.c.state.in_(["staged", "held"])
    is_waiting = sa.exists().where(candidate.c.file_id == history.c.file_id, *is_counted)
    each = (
        sa.select(sa.func.max(is_removed).label("is_removed"))
        .where(
            history.c.root_id == root_id,
            history.c.replaced_at.between(since, until),
            history.c.replaced_because.in_([reason.value for reason in _WITHOUT_USER]),
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


def find_outdated(c: sa.Connection, now: int) -> list[FileId]:
    """Return the files that were deleted longer ago than ``KEEP_DELETED_DAYS``. Call it in a transaction."""
    is_old = is_outdated(c, history.c.replaced_at, KEEP_DELETED_DAYS, now)
    query = sa.select(history.c.file_id).where(_IS_DELETED, is_old)
    is_back = sa.exists().where(file.c.id == history.c.file_id)
    return [FileId(one) for one in c.execute(query.where(~is_back)).scalars() if one is not None]


def forget_deleted(c: sa.Connection, ids: Iterable[FileId]) -> None:
    """Delete all history and blocks of deleted files."""
    for chunk in chunked(ids):
        c.execute(sa.delete(block_run).where(block_run.c.file_id.in_(chunk)))
        c.execute(sa.delete(history).where(history.c.file_id.in_(chunk)))
    follow_history(c)


def _to_records(rows: Iterable[Sequence[Any]]) -> list[HistoryRecord]:
    """Make records of rows that have all columns."""
    names = tuple(column.name for column in history.c)
    return [_to_record(SimpleNamespace(**dict(zip(names, row, strict=True)))) for row in rows]


def _to_record(row: Any) -> HistoryRecord:
    return HistoryRecord(
        id=row.id,
        root_id=row.root_id,
        file_id=row.file_id,
        path=row.path,
        size_bytes=row.size_bytes,
        mtime_ns=row.mtime_ns,
        digests=Digests(*(getattr(row, name) for name in Digests._fields)),
        version=row.version,
        recorded_at=row.recorded_at,
        reason=read_word(BaselineReason, row.reason),
        replaced_at=row.replaced_at,
        because=read_word(BaselineReason, row.replaced_because),
        note=row.note,
        block_size_bytes=row.block_size_bytes,
        is_racy=bool(row.is_racy),
        ctime_ns=row.ctime_ns,
        inode=row.inode,
    )


def keep_import(c: sa.Connection, root_id: RootId, first_id: FileId, manifest: str) -> None:
    """
    Record the manifest of an import.

    Args:
        c: in the transaction that records the first file of the import.
        first_id: id of that file.
        manifest: its name, for people.
    """
    c.execute(sa.insert(meta).values(key=f"{_prefix(root_id)}{first_id}", value=manifest))


def find_import(c: sa.Connection, root_id: RootId, file_id: FileId) -> str | None:
    """Return the manifest that an imported file came from; None if unknown. Call it for imported files only."""
    prefix = _prefix(root_id)
    found: tuple[int, str] | None = None
    for key, value in c.execute(sa.select(meta.c.key, meta.c.value).where(meta.c.key.startswith(prefix))):
        digits = key.removeprefix(prefix)
        if digits.isdigit() and int(digits) <= file_id and (found is None or int(digits) > found[0]):
            found = int(digits), value
    return None if found is None else found[1]


def drop_imports(c: sa.Connection, root_id: RootId) -> None:
    """Delete the imports of a root that is being removed."""
    c.execute(sa.delete(meta).where(meta.c.key.startswith(_prefix(root_id))))


def _prefix(root_id: RootId) -> str:
    return f"import/{root_id}/"
