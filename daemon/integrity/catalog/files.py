"""
Find recorded files by name, id, path, inode, content, or page; store them in temporary tables in a job's order.

Pages come in the order of ids, or of folder path and name. Changes of rows are in ``baselines`` and ``removal``.
Temporary tables are kept in temporary files, so that millions of rows take no memory.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial
from operator import itemgetter
from typing import NamedTuple

from integrity.catalog.baselines import require_record
from integrity.catalog.blocks import load_blocks, load_run
from integrity.catalog.db import Connection, Value, names, numbers
from integrity.catalog.rows import (
    FILE_JOIN,
    RECORD_COLUMNS,
    FileContent,
    FileRecord,
    below,
    inside,
    join_path,
    load_records,
    split_path,
)
from integrity.model import Blocks, FileId, RootId, Stamps

_SMALL_SUBTREE = 50_000


class KnownFile(NamedTuple):
    """The fields of a recorded file that a walk compares. Flags are 0 or 1."""

    id: FileId
    size_bytes: int
    mtime_ns: int
    ctime_ns: int
    inode: int
    is_racy: int
    is_suspect: int
    is_frozen: int
    seen_inode: int | None  # of a suspect: of the unread file that was last seen under its name
    seen_ctime_ns: int | None

    @property
    def stamps(self) -> Stamps:
        """Return size, mtime, ctime and inode of the recorded witness."""
        return self[1:5]

    @property
    def last_inode(self) -> int:
        """Return the inode that was last seen under the name."""
        return self.inode if self.seen_inode is None else self.seen_inode


PlainRow = tuple[bytes, bytes, int | None, int, int, int, FileId]
"""Folder path, name in it, size_bytes, mtime_ns, ctime_ns, inode, id; see ``find_plain``."""

_KNOWN = """
    SELECT
        file.id, file.size_bytes, file.mtime_ns, file.ctime_ns, file.inode, file.is_racy, file.is_suspect,
        file.is_frozen, file.seen_inode, file.seen_ctime_ns, file.name
    FROM folder JOIN file ON file.folder_id = folder.id WHERE folder.root_id = ?"""
_PLAIN = """
    SELECT
        folder.path, file.name, CASE WHEN file.is_racy + file.is_frozen = 0 THEN file.size_bytes END,
        file.mtime_ns, file.ctime_ns, file.inode, file.id
    FROM folder JOIN file ON file.folder_id = folder.id WHERE folder.root_id = ?"""
_HAS_INODE = "(file.seen_inode = ?1 OR (file.inode = ?1 AND file.seen_inode IS NULL))"


def find_known(
    c: Connection, root_id: RootId, folder_path: bytes, some: Sequence[bytes] | None = None
) -> dict[bytes, KnownFile]:
    """Return the recorded files of a folder, or those that have one of these names, by name. All loops run in C."""
    is_wanted, values = _among(some)
    rows = list(c.rows(f"{_KNOWN} AND folder.path = ? AND {is_wanted}", root_id, folder_path, *values))
    return dict(zip(map(_name_of, rows), map(_make_known, map(_fields_of, rows)), strict=True))


def find_plain(
    c: Connection, root_id: RootId, folder_paths: Sequence[bytes], some: Sequence[bytes] | None = None
) -> list[PlainRow]:
    """
    Return what a walk compares of the recorded files of folders, or of these names, in the order of folder and name.

    The size of a racy or frozen file is None: it equals no size, so the file never counts as unchanged. Few columns are
    fetched, because the driver's cost is per column and a scan runs this for every file.
    """
    is_wanted, values = _among(some)
    query = f"""{_PLAIN}
        AND folder.path IN (SELECT unhex(value) FROM json_each(?)) AND {is_wanted} ORDER BY folder.path, file.name"""
    return list(c.rows(query, root_id, names(folder_paths), *values))


def _among(some: Sequence[bytes] | None) -> tuple[str, tuple[Value, ...]]:
    return ("1", ()) if some is None else ("file.name IN (SELECT unhex(value) FROM json_each(?))", (names(some),))


_name_of = itemgetter(-1)
_fields_of = itemgetter(slice(0, -1))
_make_known = partial(tuple.__new__, KnownFile)


get_file = require_record


def find_file(c: Connection, root_id: RootId, path: bytes) -> FileRecord | None:
    """Return the file of a path; None if it is not recorded."""
    query = f"SELECT {RECORD_COLUMNS} FROM {FILE_JOIN} WHERE folder.root_id = ? AND folder.path = ? AND file.name = ?"
    return c.one(FileRecord.make, query, root_id, *split_path(path))


def find_files(c: Connection, ids: Iterable[FileId]) -> list[FileRecord]:
    """Return files in the order of ``ids``, without those that are gone."""
    return list(load_records(c, ids))


def find_by_inode(c: Connection, place: RootId | str, inode: int) -> list[FileRecord]:
    """Return the files of a root, or of all roots on a file system, that had this inode when last seen."""
    is_there = "root.fs_id = ?2" if isinstance(place, str) else "root.id = ?2"
    query = f"""
        SELECT {RECORD_COLUMNS} FROM {FILE_JOIN} JOIN root ON root.id = folder.root_id
        WHERE {_HAS_INODE} AND {is_there} ORDER BY file.id"""
    return c.all(FileRecord.make, query, inode, place)


def find_ids_of_inode(c: Connection, root_id: RootId, inode: int) -> list[FileId]:
    """Return the ids of these files, oldest baseline first. For an inode with very many names."""
    query = f"""
        SELECT file.id FROM {FILE_JOIN} WHERE {_HAS_INODE} AND folder.root_id = ?2 ORDER BY file.recorded_at, file.id"""
    return c.column(query, inode, root_id)


def find_by_content(c: Connection, root_id: RootId | None, contents: Sequence[FileContent]) -> list[list[FileRecord]]:
    """
    Return, for each content, the files of a root (None: of all roots) that are recorded with it.

    Scans all files, because digests have no index: 0.5 s for a million. Pass many contents at once.
    """
    found: list[list[FileRecord]] = [[] for _ in contents]
    by_digest: dict[tuple[int, bytes], list[int]] = {}
    by_blocks: dict[int, list[int]] = {}
    for number, content in enumerate(contents):
        for digest in content.whole_digests:
            by_digest.setdefault((content.size_bytes, digest), []).append(number)
        if not content.whole_digests and content.blocks is not None:
            by_blocks.setdefault(content.size_bytes, []).append(number)
    in_root, values = ("1", ()) if root_id is None else inside(root_id, b"", is_hidden=True)
    query = f"""
        SELECT {RECORD_COLUMNS} FROM {FILE_JOIN}
        WHERE (
            file.size_bytes IN (SELECT value FROM json_each(?1)) AND (
                file.xxh3_128 IN (SELECT unhex(value) FROM json_each(?2))
                OR file.md5 IN (SELECT unhex(value) FROM json_each(?2))
            ) OR file.size_bytes IN (SELECT value FROM json_each(?3)) AND file.block_size_bytes IS NOT NULL
        ) AND {in_root} ORDER BY file.id"""
    digests = names({digest for _, digest in by_digest})
    sizes = numbers({size for size, _ in by_digest}), digests, numbers(by_blocks)
    for record in c.all(FileRecord.make, query, *sizes, *values):
        size_bytes, digests_of = record.witness.size_bytes, (record.digests.md5, record.digests.xxh3_128)
        same = {number for one in digests_of if one for number in by_digest.get((size_bytes, one), ())}
        large = by_blocks.get(size_bytes, ())
        same |= {number for number in large if _has_blocks(c, record, contents[number].blocks)}
        for number in same:
            found[number].append(record)
    return found


def _has_blocks(c: Connection, record: FileRecord, blocks: Blocks | None) -> bool:
    """Return whether a file is recorded with these blocks. Comparing the first run rules out most files."""
    if blocks is None or record.block_size_bytes != blocks.block_size_bytes:
        return False
    first = load_run(c, record.id, record.version, 0)
    if first is None or not blocks.xxh3_128.startswith(first.xxh3_128):
        return False
    known = load_blocks(c, record.id, record.version, blocks.block_size_bytes)
    return known is not None and known.xxh3_128 == blocks.xxh3_128


def page_files(
    c: Connection, root_id: RootId, *, prefix: bytes = b"", after: int = 0, limit: int = 2000
) -> list[tuple[FileId, bytes, int]]:
    """
    Return one page of files (id, path, size) in the order of their ids; an empty page is the end.

    Args:
        prefix: only files below this folder, or this one file; empty: all.
        after: the last id of the previous page.
    """
    # "+" hides a column from SQLite's planner: a small part of a large root is found by folder, anything else is read
    # in the order of the table.
    part, values = inside(root_id, prefix)
    some = f"SELECT file.id FROM {FILE_JOIN} WHERE {part} LIMIT {_SMALL_SUBTREE}"
    if prefix and c.value(f"SELECT count(*) FROM ({some})", *values) < _SMALL_SUBTREE:
        is_in = f"{part} AND +file.id > ?"
    else:
        part, values = inside(root_id, prefix, is_hidden=True)
        is_in = f"{part} AND file.id > ?"
    query = f"""
        SELECT file.id, folder.path, file.name, file.size_bytes FROM {FILE_JOIN}
        WHERE {is_in} ORDER BY file.id LIMIT ?"""
    return [(row[0], join_path(row[1], row[2]), row[3]) for row in c.rows(query, *values, after, limit)]


def count_files_below(c: Connection, root_id: RootId, folder_path: bytes, *, is_deep: bool) -> int:
    """Count the files of a folder; ``is_deep``: with those of all folders below it."""
    is_in, values = below("folder.path", folder_path) if is_deep else ("folder.path = ?", (folder_path,))
    query = f"SELECT count(*) FROM {FILE_JOIN} WHERE folder.root_id = ? AND {is_in}"
    return c.value(query, root_id, *values)


Position = tuple[bytes, bytes]
"""Folder path, and file name in it."""


def page_in_order(
    c: Connection, root_id: RootId, *, prefix: bytes = b"", after: Position | None = None, limit: int = 2000
) -> tuple[list[FileRecord], Position | None]:
    """
    Return one page of files in the order of folder path and name, both bytewise, and its end; None: it is empty.

    Args:
        c: a connection; hold a snapshot to read all pages from the same state.
        prefix: only files below this folder, or this one file; empty: all.
        after: end of the previous page, as returned.
    """
    within, bounds = below("folder.path", prefix)
    if prefix:  # a range of the index, without siblings that share the prefix
        within, bounds = f"folder.path >= ? AND folder.path < ? AND {within}", (prefix, prefix + b"0", *bounds)
    page: list[FileRecord] = []

    def add(condition: str, *values: Value) -> None:
        query = f"""
            SELECT {RECORD_COLUMNS} FROM {FILE_JOIN}
            WHERE folder.root_id = ? AND {condition} ORDER BY folder.path, file.name LIMIT ?"""
        page.extend(c.all(FileRecord.make, query, root_id, *values, limit - len(page)))

    if after is None:
        if prefix:
            add("folder.path = ? AND file.name = ?", *split_path(prefix))
        if not page:  # the prefix names a folder, not a file
            add(within, *bounds)
    else:
        add(f"folder.path = ? AND file.name > ? AND {within}", *after, *bounds)
        if len(page) < limit:
            add(f"folder.path > ? AND {within}", after[0], *bounds)
    return page, split_path(page[-1].path) if page else None


ORDER_COLUMNS = "seq INTEGER PRIMARY KEY, file_id INTEGER NOT NULL, size_bytes INTEGER NOT NULL"
"""Of a temporary table of files in the order of ``seq``."""


def make_anew(c: Connection, name: str, columns: str) -> None:
    """Create a temporary table in a temporary file of the connection, in place of the last one of that name."""
    c.run(f"DROP TABLE IF EXISTS temp.{name}")
    c.run(f"CREATE TEMPORARY TABLE {name} ({columns})")


def sum_up(c: Connection, order: str) -> tuple[int, int]:
    """Return the number of files in a temporary table with ``ORDER_COLUMNS``, and their total size in bytes."""
    return next(c.rows(f"SELECT count(*), coalesce(sum(size_bytes), 0) FROM temp.{order}"))
