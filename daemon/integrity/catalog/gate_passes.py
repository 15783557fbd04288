"""
The gate before backups: when it last passed a folder, and what happened to the files below it since.

"Since" is decided by ids, not by the clock, which may have been wrong: history ids rise, and file ids are never reused.
The last history ids are reused only if the newest history rows are deleted; ``follow_history`` then adjusts the gates.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import sqlalchemy as sa

from integrity.catalog.rows import below, inside, join_path, require_rising
from integrity.catalog.schema import file, folder, gate, history, meta, run
from integrity.model import BaselineReason, RootId

_PAGE = 2000
ABOVE_ALL = (1 << 63) - 1
"""Larger than any file id in use."""

_BY_USER = (BaselineReason.ACCEPTED.value, BaselineReason.REPAIRED.value)
_BY_WRITES = (BaselineReason.EDITED.value, BaselineReason.ROLLED_BACK.value, BaselineReason.REWRITTEN_IN_PLACE.value)
"""Without grown and rotated files: all of their recorded content was proven to be still there."""

_IS_DELETED = history.c.replaced_because == sa.literal_column("'deleted'")


class Passed(NamedTuple):
    """Position of a gate when it passed: rows with higher ids are newer."""

    at: int
    last_history_id: int
    last_file_id: int


class PassedContent(NamedTuple):
    """Size and digests of a file, as far as they are known."""

    size_bytes: int
    md5: bytes | None
    xxh3_128: bytes | None

    def is_same(self, other: PassedContent) -> bool:
        """Return whether both contents are known to be equal."""
        pairs = (self.md5, other.md5), (self.xxh3_128, other.xxh3_128)
        known = [one == another for one, another in pairs if one is not None and another is not None]
        return self.size_bytes == other.size_bytes and bool(known) and all(known)


class Rewritten(NamedTuple):
    """A recorded file whose baseline was replaced."""

    path: bytes
    before: PassedContent
    now: PassedContent


class RecordedChange(NamedTuple):
    """A path and the content that is or was recorded there."""

    path: bytes
    content: PassedContent


def get_passed(c: sa.Connection, root_id: RootId, prefix: bytes) -> Passed | None:
    """Return the position at which the gate last passed a part of a root; None: never."""
    columns = gate.c.passed_at, gate.c.last_history_id, gate.c.last_file_id
    row = c.execute(sa.select(*columns).where(*_is(root_id, prefix))).one_or_none()
    return None if row is None else Passed(*row)


def get_present(c: sa.Connection, now: int) -> Passed:
    """Return the position of a gate that passes now."""
    last_history_id = c.execute(sa.select(sa.func.max(history.c.id))).scalar() or 0
    next_file_id = c.execute(sa.select(meta.c.value).where(meta.c.key == "next_file_id")).scalar_one()
    return Passed(now, last_history_id, int(next_file_id) - 1)


def get_past(c: sa.Connection, root_id: RootId, at: int) -> Passed:
    """
    Return the position that a gate of a root would have had at a time.

    Files are new if they were recorded since the last run that ended before that time. Without such a run, the files
    that the root's first run recorded are not new. While the first run is in progress, no file is new.
    """
    earlier = sa.select(sa.func.max(history.c.id)).where(history.c.root_id == root_id, history.c.replaced_at < at)
    ended = sa.select(run.c.last_file_id).where(run.c.root_id == root_id, run.c.last_file_id.is_not(None))
    last_before = ended.where(run.c.finished_at < at).order_by(run.c.id.desc()).limit(1)
    first = ended.order_by(run.c.id).limit(1)
    last_file_id = c.execute(last_before).scalar()
    if last_file_id is None:
        last_file_id = c.execute(first).scalar()
    return Passed(at, c.execute(earlier).scalar() or 0, ABOVE_ALL if last_file_id is None else last_file_id)


def set_passed(c: sa.Connection, root_id: RootId, prefix: bytes, passed: Passed) -> None:
    """Record that the gate passed a part of a root, or that its present state was accepted as seen."""
    values = {"passed_at": passed.at, "last_history_id": passed.last_history_id, "last_file_id": passed.last_file_id}
    c.execute(sa.delete(gate).where(*_is(root_id, prefix)))
    c.execute(sa.insert(gate).values(root_id=root_id, prefix=prefix, **values))


def follow_history(c: sa.Connection) -> None:
    """Move gates back to the newest history row. Call it after history rows were deleted."""
    last = sa.select(sa.func.coalesce(sa.func.max(history.c.id), 0)).scalar_subquery()
    c.execute(sa.update(gate).where(gate.c.last_history_id > last).values(last_history_id=last))


def has_been_there(c: sa.Connection, root_id: RootId, prefix: bytes) -> bool:
    """
    Return whether a gate ever passed this path or a part of it, or history has a file at or below it.

    A gate that passed a folder above proves nothing: it never asked for this name.
    """
    passed = sa.select(gate.c.root_id).where(gate.c.root_id == root_id, below(gate.c.prefix, prefix)).limit(1)
    gone = sa.select(history.c.id).where(history.c.root_id == root_id, below(history.c.path, prefix)).limit(1)
    return any(c.execute(query).first() is not None for query in (passed, gone))


def count_files(c: sa.Connection, root_id: RootId, prefix: bytes) -> int:
    """Count the recorded files below a path, or the file at it."""
    query = sa.select(sa.func.count()).select_from(file.join(folder, file.c.folder_id == folder.c.id))
    return int(c.execute(query.where(inside(root_id, prefix))).scalar_one())


def find_paths(c: sa.Connection, root_id: RootId) -> Iterator[bytes]:
    """Yield the paths of all recorded files of a root, in no particular order."""
    query = sa.select(folder.c.path, file.c.name).join(folder, file.c.folder_id == folder.c.id)
    for row in c.execute(query.where(folder.c.root_id == root_id)):
        yield join_path(row.path, row.name)


def find_rewritten(c: sa.Connection, root_id: RootId, prefix: bytes, since: Passed) -> Iterator[Rewritten]:
    """
    Yield the files that were recorded before ``since`` and were rewritten after it, without a user decision.

    Each file is yielded once, with its content before the first rewrite; a user decision restarts this.
    """
    columns = history.c.file_id, history.c.replaced_because, *_content(history)
    now = *(one.label(f"now_{one.name}") for one in _content(file)), folder.c.path.label("folder_path"), file.c.name
    query = (
        sa.select(*columns, *now)
        .join(file, file.c.id == history.c.file_id)
        .join(folder, folder.c.id == file.c.folder_id)
        .where(
            history.c.root_id == root_id,
            history.c.id > since.last_history_id,
            history.c.file_id <= since.last_file_id,
            history.c.replaced_because.in_(_BY_WRITES + _BY_USER),
            below(history.c.path, prefix),
        )
        .order_by(history.c.file_id, history.c.id)
    )
    first: Any = None
    for row in c.execute(query):
        if first is not None and first.file_id != row.file_id:
            yield _rewritten(first)
            first = None
        if row.replaced_because in _BY_USER:
            first = None
        elif first is None:
            first = row
    if first is not None:
        yield _rewritten(first)


def find_removed(c: sa.Connection, root_id: RootId, prefix: bytes, since: Passed) -> Iterator[RecordedChange]:
    """Yield the files that were recorded before ``since`` and deleted after it, without a user decision."""
    is_back = sa.exists().where(file.c.id == history.c.file_id)
    gone = (
        history.c.root_id == root_id,
        history.c.id > since.last_history_id,
        _IS_DELETED,
        below(history.c.path, prefix),
    )
    was_there = sa.func.coalesce(history.c.file_id, 0) <= since.last_file_id
    for row in c.execute(sa.select(history.c.path, *_content(history)).where(*gone, ~is_back, was_there)):
        yield RecordedChange(row.path, PassedContent(row.size_bytes, row.md5, row.xxh3_128))


def find_new(c: sa.Connection, root_id: RootId, prefix: bytes, since: Passed | None) -> Iterator[RecordedChange]:
    """Yield the files that were first recorded after ``since``, newest first; None: all files."""
    columns = file.c.id, folder.c.root_id, folder.c.path, file.c.name, *_content(file)
    is_new = file.c.id > (0 if since is None else since.last_file_id)
    query = sa.select(*columns).join(folder, file.c.folder_id == folder.c.id).where(is_new).order_by(file.c.id.desc())
    last = ABOVE_ALL
    while rows := c.execute(query.where(file.c.id < last).limit(_PAGE)).all():
        require_rising((-row.id for row in rows), -last)
        for row in rows:
            path = join_path(row.path, row.name)
            if row.root_id == root_id and (not prefix or path == prefix or path.startswith(prefix + b"/")):
                yield RecordedChange(path, PassedContent(row.size_bytes, row.md5, row.xxh3_128))
        last = rows[-1].id


def find_touched(c: sa.Connection, root_id: RootId, prefix: bytes) -> Iterator[bytes]:
    """Yield the files whose ctime or inode changed alone and that no scrub has read since."""
    query = sa.select(folder.c.path, file.c.name).join(folder, file.c.folder_id == folder.c.id)
    for row in c.execute(query.where(inside(root_id, prefix, is_hidden=True), file.c.is_suspect == 1)):
        yield join_path(row.path, row.name)


def _is(root_id: RootId, prefix: bytes) -> tuple[sa.ColumnElement[bool], ...]:
    return gate.c.root_id == root_id, gate.c.prefix == prefix


def _content(table: sa.Table) -> tuple[sa.Column[Any], ...]:
    return tuple(table.c[name] for name in PassedContent._fields)


def _rewritten(row: Any) -> Rewritten:
    return Rewritten(
        path=join_path(row.folder_path, row.name),
        before=PassedContent(row.size_bytes, row.md5, row.xxh3_128),
        now=PassedContent(row.now_size_bytes, row.now_md5, row.now_xxh3_128),
    )
