"""
Rows for the digest tree that is reported to a hub: the digests of folders that are known, and the files of a folder.

A digest is stored in three steps, so that no lock is held while a large folder is read: ``begin_digests`` makes a row
without digests, the files are read, and ``save_digest`` fills the row. A file that changes meanwhile removes the row
(I3 of ``report_triggers.py``), so the digest of a mixed state is never kept.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from enum import IntEnum
from typing import NamedTuple

import sqlalchemy as sa

from integrity.catalog.compiled_sql import CompiledStatement
from integrity.catalog.row_seals import check_seals, select_sealed
from integrity.catalog.rows import FILE_JOIN, RECORD_COLUMNS, FileRecord, chunked, require_rising, to_records
from integrity.catalog.schema import file, folder, meta, report_folder
from integrity.catalog.seal import Sealer
from integrity.model import FolderId, RootId

_PAGE = 2000

_FILES = CompiledStatement(
    sa.select(*RECORD_COLUMNS)
    .select_from(FILE_JOIN)
    .where(file.c.folder_id == sa.bindparam("folder_id"), file.c.name > sa.bindparam("after"))
    .order_by(file.c.name)
    .limit(sa.bindparam("limit")),
    *("folder_id", "after", "limit"),
)
_FIRST_FILES = CompiledStatement(
    sa.select(*RECORD_COLUMNS)
    .select_from(FILE_JOIN)
    .where(file.c.folder_id == sa.bindparam("folder_id"))
    .order_by(file.c.name)
    .limit(sa.bindparam("limit")),
    *("folder_id", "limit"),
)
# Components are compared one by one: a folder comes before what lies in it, and that before "folder-b".
_IN_TREE_ORDER = sa.func.replace(sa.cast(folder.c.path, sa.Text), "/", sa.func.char(0))


_COLUMNS = "path, parent, own, content, subtree"
_SCHEMA = """
PRAGMA journal_mode = OFF;
PRAGMA synchronous = OFF;
PRAGMA cache_size = -2048;
CREATE TABLE tree (
    path BLOB PRIMARY KEY, parent BLOB, own BLOB, content BLOB, subtree BLOB, mark INTEGER NOT NULL DEFAULT 0
) WITHOUT ROWID, STRICT;
"""


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


def find_undigested(c: sa.Connection, root_id: RootId, after: int, limit: int) -> list[FolderKey]:
    """Return folders of a root whose digests are not known, in the order of their numbers, behind a number."""
    known = sa.and_(report_folder.c.folder_id == folder.c.id, report_folder.c.own.is_not(None))
    query = sa.select(folder.c.id, folder.c.path).where(folder.c.root_id == root_id, folder.c.id > after)
    undigested = query.where(~sa.exists().where(known)).order_by(folder.c.id).limit(limit)
    return [FolderKey(*row) for row in c.execute(undigested)]


def has_rules(c: sa.Connection, root_id: RootId, rules: str) -> bool:
    """Return whether the digests of a root were made with these rules of what is left out."""
    return c.execute(sa.select(meta.c.value).where(meta.c.key == _key(root_id))).scalar() == rules


def set_rules(c: sa.Connection, root_id: RootId, rules: str) -> None:
    """Forget the digests of a root, because other rules say what is left out."""
    of_root = sa.select(folder.c.id).where(folder.c.root_id == root_id)
    c.execute(sa.delete(report_folder).where(report_folder.c.folder_id.in_(of_root)))
    c.execute(sa.delete(meta).where(meta.c.key == _key(root_id)))
    c.execute(sa.insert(meta).values(key=_key(root_id), value=rules))


def _key(root_id: RootId) -> str:
    return f"report/{root_id}"


def begin_digests(c: sa.Connection, ids: Sequence[FolderId]) -> None:
    """Make rows without digests."""
    for chunk in chunked(ids):
        c.execute(sa.delete(report_folder).where(report_folder.c.folder_id.in_(chunk)))
        c.execute(sa.insert(report_folder), [{"folder_id": number} for number in chunk])


def save_digest(c: sa.Connection, folder_id: FolderId, own: bytes, content: bytes) -> None:
    """Store the digests of a folder, unless one of its files changed since ``begin_digests``."""
    c.execute(sa.update(report_folder).where(report_folder.c.folder_id == folder_id).values(own=own, content=content))


def drop_digests(c: sa.Connection, ids: Sequence[FolderId]) -> None:
    """Forget the digests of folders, so that they are computed again."""
    for chunk in chunked(ids):
        c.execute(sa.delete(report_folder).where(report_folder.c.folder_id.in_(chunk)))


def find_digested(c: sa.Connection, root_id: RootId) -> Iterator[FolderDigestRow]:
    """Yield the folders of a root whose digests are known, each before those in it, siblings in the order of names."""
    query = select_sealed(report_folder, folder.c.id, folder.c.path, report_folder.c.own, report_folder.c.content)
    joined = query.join(folder, folder.c.id == report_folder.c.folder_id)
    of_root = joined.where(folder.c.root_id == root_id, report_folder.c.own.is_not(None))
    rows = c.execution_options(yield_per=1000).execute(of_root.order_by(_IN_TREE_ORDER))
    for row in check_seals(c, report_folder, rows):
        yield FolderDigestRow(FolderId(row.id), row.path, row.own, row.content)


def find_files(c: sa.Connection, sealer: Sealer, folder_id: FolderId) -> Iterator[FileRecord]:
    """Yield the files that lie directly in a folder, in the order of their names, page by page."""
    page = to_records(sealer, _FIRST_FILES.run(c, folder_id, _PAGE).fetchall())
    while page:
        names = [record.path.rpartition(b"/")[2] for record in page]
        require_rising(names)
        yield from page
        page = to_records(sealer, _FILES.run(c, folder_id, names[-1], _PAGE).fetchall())


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
        self._db = sqlite3.connect("", check_same_thread=False, isolation_level=None)
        self._db.executescript(_SCHEMA)

    def close(self) -> None:
        """Give the temporary file back."""
        self._db.close()

    @contextmanager
    def filling(self) -> Iterator[None]:
        """Add folders in the block; then they can be found by the folder that they lie in."""
        self._db.execute("BEGIN")
        yield
        self._db.execute("CREATE INDEX tree_parent ON tree (parent, path)")
        self._db.execute("COMMIT")

    def add(self, one: TreeFolder) -> None:
        """Add a folder."""
        self._db.execute("INSERT INTO tree (path, parent, own, content, subtree) VALUES (?, ?, ?, ?, ?)", one)

    def get(self, path: bytes) -> TreeFolder:
        """Return a folder that is there."""
        return TreeFolder(*self._db.execute(f"SELECT {_COLUMNS} FROM tree WHERE path = ?", (path,)).fetchone())  # noqa: S608

    def find_below(self, path: bytes) -> Iterator[TreeFolder]:
        """Yield the folders that lie directly in a folder, in the order of their names."""
        found = self._db.execute(f"SELECT {_COLUMNS} FROM tree WHERE parent = ? ORDER BY path", (path,))  # noqa: S608
        return map(TreeFolder._make, found)

    def mark(self, paths: Iterable[bytes], mark: Mark) -> None:
        """Mark folders."""
        self._db.executemany("UPDATE tree SET mark = ? WHERE path = ?", ((int(mark), path) for path in paths))

    def unmark(self) -> None:
        """Remove all marks."""
        self._db.execute("UPDATE tree SET mark = 0 WHERE mark != 0")

    def find_marked(self) -> Iterator[tuple[TreeFolder, Mark]]:
        """Yield the marked folders, each after those in it."""
        # A path is longer than that of each folder above it.
        query = f"SELECT {_COLUMNS}, mark FROM tree WHERE mark != 0 ORDER BY length(path) DESC, path"  # noqa: S608 - ours
        for *columns, mark in self._db.execute(query):
            yield TreeFolder(*columns), Mark(mark)
