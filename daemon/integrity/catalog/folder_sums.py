"""
What lies in each folder of a root, with everything below it: a copy in a temporary file, for a page to look around in.

Adding up a folder reads each of its files, so all folders of a root are added up in one pass: two seconds for a million
files. The sums are kept in a temporary database of SQLite that is gone when the program ends.
"""

from __future__ import annotations

import os
import sqlite3
import threading
from collections.abc import Iterator
from typing import Any, NamedTuple

import sqlalchemy as sa

from integrity.catalog.findings import UNRESOLVED
from integrity.catalog.rows import select_last_check
from integrity.catalog.schema import file, finding, folder
from integrity.kinds import INTEGRITY_PROBLEMS
from integrity.model import FileId, RootId

_SCHEMA = """
PRAGMA journal_mode = OFF;
PRAGMA synchronous = OFF;
PRAGMA cache_size = -512;
CREATE TABLE sums (
    parent BLOB, name BLOB, files INTEGER, bytes INTEGER, oldest_at INTEGER, problems INTEGER,
    PRIMARY KEY (parent, name)
) WITHOUT ROWID, STRICT;
"""
_ADD = """
INSERT INTO sums VALUES (?, ?, ?, ?, ?, ?) ON CONFLICT DO UPDATE SET
    files = files + excluded.files, bytes = bytes + excluded.bytes, problems = problems + excluded.problems,
    oldest_at = coalesce(min(oldest_at, excluded.oldest_at), oldest_at, excluded.oldest_at)
"""
_ALL_KINDS = sorted(kind.value for kind in INTEGRITY_PROBLEMS)


class FolderSum(NamedTuple):
    """
    A folder, with everything below it.

    Attributes:
        path: relative to the root.
        files: number of its files.
        bytes: their sizes, added up.
        oldest_at: when the file was verified (or recorded) that waits longest, seconds UTC; None: no file.
        problems: number of open findings about damaged or missing files.
    """

    path: bytes
    files: int
    bytes: int
    oldest_at: int | None
    problems: int


class FolderFile(NamedTuple):
    """A recorded file in a listing. ``checked_at``: when it was last verified, or else recorded."""

    id: FileId
    name: bytes
    size_bytes: int
    mtime_ns: int
    checked_at: int
    is_verified: bool
    is_frozen: bool


class FolderSums:
    """The sums of all folders of one root. Any thread may ask."""

    def __init__(self, db: sqlite3.Connection) -> None:
        self._db = db
        self._lock = threading.Lock()

    @classmethod
    def collect(cls, c: sa.Connection, root_id: RootId, now: int) -> FolderSums:
        """Add up all folders of a root."""
        db = sqlite3.connect("", check_same_thread=False, isolation_level=None)
        db.executescript(_SCHEMA)
        db.execute("BEGIN")
        db.executemany(_ADD, _spread(_find_direct(c, root_id, now)))
        db.executemany(_ADD, _spread(_find_problems(c, root_id)))
        db.execute("COMMIT")
        return cls(db)

    def close(self) -> None:
        """Give the temporary file back."""
        with self._lock:
            self._db.close()

    def get(self, path: bytes) -> FolderSum | None:
        """Return the sum of a folder; None if nothing is recorded in it."""
        rows = self._ask("parent = ? AND name = ?", os.path.dirname(path), path)
        return rows[0] if rows else None

    def find_below(self, path: bytes, *, after: bytes = b"", limit: int) -> list[FolderSum]:
        """Return folders that lie directly in a folder, by name, beginning behind the path of one."""
        return self._ask("parent = ? AND name > ? AND name != x'' ORDER BY name LIMIT ?", path, after, limit)

    def find_largest(self, path: bytes, limit: int) -> list[FolderSum]:
        """Return the largest folders that lie directly in a folder, the largest first."""
        return self._ask("parent = ? AND name != x'' ORDER BY bytes DESC, name LIMIT ?", path, limit)

    def _ask(self, condition: str, *values: bytes | int) -> list[FolderSum]:
        query = f"SELECT name, files, bytes, oldest_at, problems FROM sums WHERE {condition}"  # noqa: S608 - ours
        with self._lock:
            return [FolderSum(*row) for row in self._db.execute(query, values)]


def find_listed(
    c: sa.Connection, root_id: RootId, folder_path: bytes, now: int, *, after: bytes = b"", limit: int
) -> list[FolderFile]:
    """Return recorded files that lie directly in a folder, by name, beginning behind a name."""
    query = _select_listed(root_id, folder_path, now).where(file.c.name > after).order_by(file.c.name).limit(limit)
    return [_to_listed(row) for row in c.execute(query)]


def find_largest_files(
    c: sa.Connection, root_id: RootId, folder_path: bytes, now: int, *, limit: int
) -> list[FolderFile]:
    """Return the largest files that lie directly in a folder, the largest first."""
    query = _select_listed(root_id, folder_path, now).order_by(file.c.size_bytes.desc(), file.c.name).limit(limit)
    return [_to_listed(row) for row in c.execute(query)]


def _select_listed(root_id: RootId, folder_path: bytes, now: int) -> sa.Select[Any]:
    last = select_last_check(file.c.verified_at, file.c.recorded_at, now)
    columns: tuple[sa.ColumnElement[Any], ...] = (
        *(file.c.id, file.c.name, file.c.size_bytes, file.c.mtime_ns, last),
        *(file.c.verified_at, file.c.is_frozen),
    )
    joined = file.join(folder, file.c.folder_id == folder.c.id)
    return sa.select(*columns).select_from(joined).where(folder.c.root_id == root_id, folder.c.path == folder_path)


def _to_listed(row: Any) -> FolderFile:
    number, name, size, mtime_ns, last, verified_at, is_frozen = row
    return FolderFile(FileId(number), name, size, mtime_ns, last, verified_at is not None, bool(is_frozen))


def _find_direct(c: sa.Connection, root_id: RootId, now: int) -> Iterator[FolderSum]:
    """Yield the sum of the files that lie directly in each folder."""
    last = select_last_check(file.c.verified_at, file.c.recorded_at, now)
    columns: tuple[sa.ColumnElement[Any], ...] = (
        *(folder.c.path, sa.func.count(), sa.func.sum(file.c.size_bytes), sa.func.min(last)),
    )
    query = sa.select(*columns).select_from(folder.join(file, file.c.folder_id == folder.c.id))
    for path, files, size, oldest_at in c.execute(query.where(folder.c.root_id == root_id).group_by(folder.c.id)):
        yield FolderSum(path, files, size, oldest_at, 0)


def _find_problems(c: sa.Connection, root_id: RootId) -> Iterator[FolderSum]:
    of_root = finding.c.root_id == root_id, finding.c.copy == "", finding.c.kind.in_(_ALL_KINDS), finding.c.path != b""
    for (path,) in c.execute(sa.select(finding.c.path).where(UNRESOLVED, *of_root)):
        yield FolderSum(os.path.dirname(path), 0, 0, None, 1)


def _spread(sums: Iterator[FolderSum]) -> Iterator[tuple[bytes, bytes, int, int, int | None, int]]:
    """Yield each sum for its folder and for every folder above it; the root's own is its own parent."""
    for one in sums:
        path = one.path
        while True:
            above = os.path.dirname(path)
            yield above, path, one.files, one.bytes, one.oldest_at, one.problems
            if not path:
                break
            path = above
