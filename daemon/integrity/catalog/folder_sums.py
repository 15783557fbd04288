"""
What lies in each folder of a root, with everything below it: a copy in a temporary file, for a page to look around in.

Adding up a folder reads each of its files, so all folders of a root are added up in one pass: two seconds for a million
files. The sums are kept in a temporary database of SQLite that is gone when the program ends.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterable, Iterator
from itertools import starmap
from typing import NamedTuple

from integrity.catalog.db import Connection
from integrity.catalog.rows import quoted, select_last_check
from integrity.kinds import INTEGRITY_PROBLEMS
from integrity.model import FileId, RootId

_SCHEMA = """
PRAGMA journal_mode = OFF;
PRAGMA synchronous = OFF;
PRAGMA cache_size = -512;
CREATE TABLE sums (
    parent BLOB, name BLOB, files INTEGER, bytes INTEGER, oldest_at INTEGER, problems INTEGER,
    PRIMARY KEY (parent, name)
) WITHOUT ROWID, STRICT;"""
_ADD = """
INSERT INTO sums VALUES (?, ?, ?, ?, ?, ?) ON CONFLICT DO UPDATE SET
    files = files + excluded.files, bytes = bytes + excluded.bytes, problems = problems + excluded.problems,
    oldest_at = coalesce(min(oldest_at, excluded.oldest_at), oldest_at, excluded.oldest_at)"""


class FolderSum(NamedTuple):
    """A folder, with everything below it."""

    path: bytes  # relative to the root
    files: int
    bytes: int
    oldest_at: int | None  # when the file was verified (or recorded) that waits longest; None: no file
    problems: int  # open findings about damaged or missing files


class FolderFile(NamedTuple):
    """A recorded file in a listing. ``checked_at``: when it was last verified, or else recorded. Flags are 0 or 1."""

    id: FileId
    name: bytes
    size_bytes: int
    mtime_ns: int
    checked_at: int
    is_verified: int
    is_frozen: int


class FolderSums:
    """The sums of all folders of one root. Any thread may ask."""

    def __init__(self, db: Connection) -> None:
        self._db = db
        self._lock = threading.Lock()

    @classmethod
    def collect(cls, c: Connection, root_id: RootId, now: int) -> FolderSums:
        """Add up all folders of a root."""
        db = Connection(b"")
        db.driver.execute(_SCHEMA).fetchall()
        db.run("BEGIN")
        last = select_last_check(now)
        direct = f"""
            SELECT folder.path, count(*), sum(file.size_bytes), min({last}), 0
            FROM folder JOIN file ON file.folder_id = folder.id WHERE folder.root_id = ? GROUP BY folder.id"""
        db.run_many(_ADD, _spread(starmap(FolderSum, c.rows(direct, root_id))))
        problems = f"""
            SELECT path FROM finding
            WHERE state != 'resolved' AND root_id = ? AND copy = '' AND path != x''
                AND kind IN ({quoted(INTEGRITY_PROBLEMS)})"""
        folders = map(os.path.dirname, c.column(problems, root_id))
        db.run_many(_ADD, _spread(FolderSum(folder, 0, 0, None, 1) for folder in folders))
        db.run("COMMIT")
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
        query = f"SELECT name, files, bytes, oldest_at, problems FROM sums WHERE {condition}"
        with self._lock:
            return self._db.all(FolderSum, query, *values)


def find_listed(
    c: Connection, root_id: RootId, folder_path: bytes, now: int, *, after: bytes = b"", limit: int
) -> list[FolderFile]:
    """Return recorded files that lie directly in a folder, by name, beginning behind a name."""
    ending = "AND file.name > ? ORDER BY file.name LIMIT ?"
    return c.all(FolderFile, _list_files(now) + ending, root_id, folder_path, after, limit)


def find_largest_files(c: Connection, root_id: RootId, folder_path: bytes, now: int, *, limit: int) -> list[FolderFile]:
    """Return the largest files that lie directly in a folder, the largest first."""
    ending = "ORDER BY file.size_bytes DESC, file.name LIMIT ?"
    return c.all(FolderFile, _list_files(now) + ending, root_id, folder_path, limit)


def _list_files(now: int) -> str:
    return f"""
        SELECT file.id, file.name, file.size_bytes, file.mtime_ns,
            {select_last_check(now)},
            file.verified_at IS NOT NULL, file.is_frozen
        FROM file JOIN folder ON folder.id = file.folder_id WHERE folder.root_id = ? AND folder.path = ?"""


def _spread(sums: Iterable[FolderSum]) -> Iterator[tuple[bytes, bytes, int, int, int | None, int]]:
    """Yield each sum for its folder and for every folder above it; the root's own is its own parent."""
    for one in sums:
        path = one.path
        while True:
            above = os.path.dirname(path)
            yield above, path, one.files, one.bytes, one.oldest_at, one.problems
            if not path:
                break
            path = above
