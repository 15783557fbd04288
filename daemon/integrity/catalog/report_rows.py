"""
Rows for the digest tree that is reported to a hub: the digests of folders that are known, and the files of a folder.

A digest is stored in three steps, so that no lock is held while a large folder is read: ``begin_digests`` makes a row
without digests, the files are read, and ``save_digest`` fills the row. A file that changes meanwhile removes the row
by a trigger, so the digest of a mixed state is never kept.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from enum import IntEnum
from typing import NamedTuple

from integrity.catalog.db import Connection, numbers
from integrity.catalog.rows import FILE_JOIN, RECORD_COLUMNS, FileRecord
from integrity.model import FolderId, RootId

_PAGE = 2000
_COLUMNS = "path, parent, own, content, subtree"
_SCHEMA = """
PRAGMA journal_mode = OFF;
PRAGMA synchronous = OFF;
PRAGMA cache_size = -2048;
CREATE TABLE tree (
    path BLOB PRIMARY KEY, parent BLOB, own BLOB, content BLOB, subtree BLOB, mark INTEGER NOT NULL DEFAULT 0
) WITHOUT ROWID, STRICT;"""


class FolderDigestRow(NamedTuple):
    """A folder with recorded files, or that had some, and the digests of those."""

    id: FolderId
    path: bytes
    own: bytes
    content: bytes


class FolderKey(NamedTuple):
    """A folder with recorded files, or that had some."""

    id: FolderId
    path: bytes


def find_undigested(c: Connection, root_id: RootId, after: int, limit: int) -> list[FolderKey]:
    """Return folders of a root whose digests are not known, in the order of their numbers, behind a number."""
    query = """
        SELECT id, path FROM folder
        WHERE root_id = ? AND id > ?
            AND NOT EXISTS (SELECT 1 FROM report_folder WHERE folder_id = folder.id AND own IS NOT NULL)
        ORDER BY id LIMIT ?"""
    return c.all(FolderKey, query, root_id, after, limit)


def has_rules(c: Connection, root_id: RootId, rules: str) -> bool:
    """Return whether the digests of a root were made with these rules of what is left out."""
    return bool(c.value("SELECT value FROM meta WHERE key = ?", f"report/{root_id}") == rules)


def set_rules(c: Connection, root_id: RootId, rules: str) -> None:
    """Forget the digests of a root, because other rules say what is left out."""
    c.run("DELETE FROM report_folder WHERE folder_id IN (SELECT id FROM folder WHERE root_id = ?)", root_id)
    c.run("INSERT OR REPLACE INTO meta (key, value) VALUES (?, ?)", f"report/{root_id}", rules)


def begin_digests(c: Connection, ids: Sequence[FolderId]) -> None:
    """Make rows without digests."""
    c.run("INSERT OR REPLACE INTO report_folder (folder_id) SELECT value FROM json_each(?)", numbers(ids))


def save_digest(c: Connection, folder_id: FolderId, own: bytes, content: bytes) -> None:
    """Store the digests of a folder, unless one of its files changed since ``begin_digests``."""
    c.run("UPDATE report_folder SET own = ?, content = ? WHERE folder_id = ?", own, content, folder_id)


def drop_digests(c: Connection, ids: Sequence[FolderId]) -> None:
    """Forget the digests of folders, so that they are computed again."""
    c.run("DELETE FROM report_folder WHERE folder_id IN (SELECT value FROM json_each(?))", numbers(ids))


def find_digested(c: Connection, root_id: RootId) -> Iterator[FolderDigestRow]:
    """Yield the folders of a root whose digests are known, each before those in it, siblings in the order of names."""
    # Components are compared one by one: a folder comes before what lies in it, and that before "folder-b".
    query = """
        SELECT folder.id, folder.path, report_folder.own, report_folder.content
        FROM report_folder JOIN folder ON folder.id = report_folder.folder_id
        WHERE folder.root_id = ? AND report_folder.own IS NOT NULL
        ORDER BY replace(CAST(folder.path AS TEXT), '/', char(0))"""
    return map(FolderDigestRow._make, c.rows(query, root_id))


def find_files(c: Connection, folder_id: FolderId) -> Iterator[FileRecord]:
    """Yield the files that lie directly in a folder, in the order of their names, page by page."""
    query = f"""
        SELECT {RECORD_COLUMNS} FROM {FILE_JOIN}
        WHERE file.folder_id = ? AND file.name > ? ORDER BY file.name LIMIT ?"""
    after = b""
    while page := c.all(FileRecord.make, query, folder_id, after, _PAGE):
        yield from page
        after = page[-1].path.rpartition(b"/")[2]


class TreeFolder(NamedTuple):
    """A folder of a digest tree. ``parent``: path of the folder that it lies in; None: it is the root's own."""

    path: bytes
    parent: bytes | None
    own: bytes
    content: bytes
    subtree: bytes


class Mark(IntEnum):
    """What of a folder is to be sent."""

    NOTHING = 0
    DIGESTS = 1  # what lies below it changed
    FILES = 2


class StoredTree:
    """A digest tree in a temporary file, which is gone when the program ends."""

    def __init__(self) -> None:
        self._db = Connection(b"")
        self._db.driver.execute(_SCHEMA).fetchall()

    def close(self) -> None:
        """Give the temporary file back."""
        self._db.close()

    @contextmanager
    def filling(self) -> Iterator[None]:
        """Add folders in the block; then they can be found by the folder that they lie in."""
        self._db.run("BEGIN")
        yield
        self._db.run("CREATE INDEX tree_parent ON tree (parent, path)")
        self._db.run("COMMIT")

    def add(self, one: TreeFolder) -> None:
        """Add a folder."""
        self._db.run("INSERT INTO tree (path, parent, own, content, subtree) VALUES (?, ?, ?, ?, ?)", *one)

    def get(self, path: bytes) -> TreeFolder:
        """Return a folder that is there."""
        return TreeFolder(*next(self._db.rows(f"SELECT {_COLUMNS} FROM tree WHERE path = ?", path)))

    def find_below(self, path: bytes) -> Iterator[TreeFolder]:
        """Yield the folders that lie directly in a folder, in the order of their names."""
        rows = self._db.rows(f"SELECT {_COLUMNS} FROM tree WHERE parent = ? ORDER BY path", path)
        return map(TreeFolder._make, rows)

    def mark(self, paths: Iterable[bytes], mark: Mark) -> None:
        """Mark folders."""
        self._db.run_many("UPDATE tree SET mark = ? WHERE path = ?", ((int(mark), path) for path in paths))

    def unmark(self) -> None:
        """Remove all marks."""
        self._db.run("UPDATE tree SET mark = 0 WHERE mark != 0")

    def find_marked(self) -> Iterator[tuple[TreeFolder, Mark]]:
        """Yield the marked folders, each after those in it."""
        # A path is longer than that of each folder above it.
        query = f"SELECT {_COLUMNS}, mark FROM tree WHERE mark != 0 ORDER BY length(path) DESC, path"
        for *columns, mark in self._db.rows(query):
            yield TreeFolder(*columns), Mark(mark)
