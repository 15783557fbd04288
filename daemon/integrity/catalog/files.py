"""
Find recorded files by name, id, path, inode, content, or page; store them in temporary tables in a job's order.

Pages come in the order of ids, or of folder path and name. Changes of rows are in ``baselines`` and ``removal``.
Temporary tables are kept in temporary files, so that millions of rows take no memory.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial
from operator import itemgetter
from typing import Any, NamedTuple

import sqlalchemy as sa
from sqlalchemy.schema import CreateTable, DropTable

from integrity.catalog.baselines import require_record
from integrity.catalog.blocks import load_blocks, load_run
from integrity.catalog.compiled_sql import CompiledStatement
from integrity.catalog.folders import get_folder_id
from integrity.catalog.row_seals import find_damaged, find_odd
from integrity.catalog.rows import (
    FILE_JOIN,
    RECORD_COLUMNS,
    FileContent,
    FileRecord,
    below,
    chunked,
    in_list,
    inside,
    join_path,
    load_records,
    padded,
    require_rising,
    split_path,
    to_record,
    to_records,
)
from integrity.catalog.schema import file, folder, history, root
from integrity.catalog.seal import Sealer
from integrity.catalog.sqlite_errors import DamagedRow, note_damage
from integrity.model import Blocks, FileId, FolderId, RootId, Stamps

_SMALL_SUBTREE = 50_000


class KnownFile(NamedTuple):
    """
    The fields of a recorded file that a walk compares. Flags are 0 or 1. The seal is not checked.

    ``seen_inode`` and ``seen_ctime_ns`` are set for a suspect: the unread file that was last seen under its name.
    """

    id: FileId
    size_bytes: int
    mtime_ns: int
    ctime_ns: int
    inode: int
    is_racy: int
    is_suspect: int
    is_frozen: int
    seen_inode: int | None
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

_KNOWN = (*(file.c[name] for name in KnownFile._fields), file.c.name)
_IN_FOLDER = file.c.folder_id == sa.bindparam("folder_id")
_KNOWN_OF_FOLDER = CompiledStatement(
    sa.select(*_KNOWN)
    .select_from(file.join(folder, file.c.folder_id == folder.c.id))
    .where(folder.c.root_id == sa.bindparam("root_id"), folder.c.path == sa.bindparam("path")),
    "root_id",
    "path",
)
_IN_NAMES, _NAMES = in_list(file.c.name)
_KNOWN_OF_NAMES = CompiledStatement(sa.select(*_KNOWN).where(_IN_FOLDER, _IN_NAMES), "folder_id", *_NAMES)
_IN_PATHS, _PATHS = in_list(folder.c.path)
_PLAIN_OF_ROOT = (
    sa.select(
        folder.c.path,
        file.c.name,
        sa.case((file.c.is_racy + file.c.is_frozen == sa.literal_column("0"), file.c.size_bytes)),
        *(file.c[name] for name in ("mtime_ns", "ctime_ns", "inode", "id")),
    )
    .select_from(folder.join(file, file.c.folder_id == folder.c.id))
    .where(folder.c.root_id == sa.bindparam("root_id"))
    .order_by(folder.c.path, file.c.name)
)
_PLAIN = CompiledStatement(_PLAIN_OF_ROOT.where(_IN_PATHS), "root_id", *_PATHS)
_PLAIN_OF_NAMES = CompiledStatement(
    _PLAIN_OF_ROOT.where(folder.c.path == sa.bindparam("path"), _IN_NAMES), "root_id", "path", *_NAMES
)
_BY_NAME = CompiledStatement(
    sa.select(*RECORD_COLUMNS).select_from(FILE_JOIN).where(_IN_FOLDER, file.c.name == sa.bindparam("name")),
    "folder_id",
    "name",
)
_LAST_INODE: sa.BindParameter[int] = sa.bindparam("inode")
_HAS_INODE = sa.or_(file.c.seen_inode == _LAST_INODE, sa.and_(file.c.inode == _LAST_INODE, file.c.seen_inode.is_(None)))
_BY_INODE = CompiledStatement(
    sa.select(*RECORD_COLUMNS)
    .select_from(FILE_JOIN)
    .where(_HAS_INODE, folder.c.root_id == sa.bindparam("root_id"))
    .order_by(file.c.id),
    "inode",
    "root_id",
)
_IDS_OF_INODE = CompiledStatement(
    sa.select(file.c.id)
    .join(folder, file.c.folder_id == folder.c.id)
    .where(_HAS_INODE, folder.c.root_id == sa.bindparam("root_id"))
    .order_by(file.c.recorded_at, file.c.id),
    "inode",
    "root_id",
)
_BY_INODE_OF_FILE_SYSTEM = CompiledStatement(
    sa.select(*RECORD_COLUMNS)
    .select_from(FILE_JOIN)
    .where(_HAS_INODE, root.c.fs_id == sa.bindparam("fs_id"))
    .order_by(file.c.id),
    "inode",
    "fs_id",
)


def find_known(c: sa.Connection, root_id: RootId, folder_path: bytes) -> dict[bytes, KnownFile]:
    """Return the recorded files of a folder by name."""
    return _by_name(_KNOWN_OF_FOLDER.run(c, root_id, folder_path).fetchall())


def find_known_names(c: sa.Connection, folder_id: FolderId, names: Sequence[bytes]) -> dict[bytes, KnownFile]:
    """Return the recorded files of a folder that have one of these names."""
    known: dict[bytes, KnownFile] = {}
    for chunk in chunked(names):
        known |= _by_name(_KNOWN_OF_NAMES.run(c, folder_id, *padded(chunk)).fetchall())
    return known


def find_plain(c: sa.Connection, root_id: RootId, folder_paths: Sequence[bytes]) -> list[PlainRow]:
    """
    Return what a walk compares of the recorded files of folders, in the order of folder and name.

    The size of a racy or frozen file is None: it equals no size, so the file never counts as unchanged. Few columns are
    fetched, because the driver's cost is per column and a scan runs this for every file.
    """
    rows: list[PlainRow] = []
    for chunk in chunked(sorted(folder_paths)):
        rows += _PLAIN.run(c, root_id, *padded(chunk)).fetchall()
    return rows


def find_plain_names(c: sa.Connection, root_id: RootId, folder_path: bytes, names: Sequence[bytes]) -> list[PlainRow]:
    """Return the same rows for the files of one folder that have one of these names, in the order of the names."""
    rows: list[PlainRow] = []
    for chunk in chunked(sorted(names)):
        rows += _PLAIN_OF_NAMES.run(c, root_id, folder_path, *padded(chunk)).fetchall()
    return rows


def _by_name(rows: list[Any]) -> dict[bytes, KnownFile]:
    """Turn rows of _KNOWN into records. All loops run in C, because a scan runs this for every file."""
    return dict(zip(map(_name_of, rows), map(_make_known, map(_fields_of, rows)), strict=True))


_name_of = itemgetter(-1)
_fields_of = itemgetter(slice(0, -1))
_make_known = partial(tuple.__new__, KnownFile)


def get_file(c: sa.Connection, sealer: Sealer, file_id: FileId) -> FileRecord:
    """
    Return one file.

    Raises:
        CatalogError: the file is not recorded.
    """
    return require_record(c, sealer, file_id)


def find_file(c: sa.Connection, sealer: Sealer, root_id: RootId, path: bytes) -> FileRecord | None:
    """Return the file of a path; None if it is not recorded."""
    folder_path, name = split_path(path)
    folder_id = get_folder_id(c, root_id, folder_path)
    row = None if folder_id is None else _BY_NAME.run(c, folder_id, name).fetchone()
    return None if row is None else to_record(sealer, row)


def check_unlisted(c: sa.Connection, sealer: Sealer, root_id: RootId, path: bytes) -> None:
    """
    Note damaged rows that may explain why a path is not recorded.

    Parities do not cover names. So this checks the seals of the files in the path's folder, or of one file per folder
    if that folder is not recorded, and of all history.
    """
    folder_id = get_folder_id(c, root_id, split_path(path)[0])
    query = sa.select(file.c.id).where(file.c.folder_id == folder_id)
    if folder_id is None:
        query = sa.select(sa.func.min(file.c.id)).join(folder).where(folder.c.root_id == root_id)
        query = query.group_by(file.c.folder_id)
    records = load_records(c, sealer, list(c.execute(query).scalars()))
    note_damage(c, (DamagedRow(file.name, (one.id,)) for one in records if not one.is_sealed))
    note_damage(c, (*find_odd(c, (folder.name, file.name)), *find_damaged(c, [history])))


def find_files(c: sa.Connection, sealer: Sealer, ids: Iterable[FileId]) -> list[FileRecord]:
    """Return files in the order of ``ids``, without those that are gone."""
    return list(load_records(c, sealer, ids))


def find_by_inode(c: sa.Connection, sealer: Sealer, root_id: RootId, inode: int) -> list[FileRecord]:
    """Return the files of a root that had this inode when last seen."""
    return to_records(sealer, _BY_INODE.run(c, inode, root_id).fetchall())


def find_ids_of_inode(c: sa.Connection, root_id: RootId, inode: int) -> list[FileId]:
    """Return the ids of these files, oldest baseline first. For an inode with very many names."""
    return [row[0] for row in _IDS_OF_INODE.run(c, inode, root_id)]


def find_by_inode_of_file_system(c: sa.Connection, sealer: Sealer, fs_id: str, inode: int) -> list[FileRecord]:
    """Return the files in all roots of a file system that had this inode when last seen."""
    return to_records(sealer, _BY_INODE_OF_FILE_SYSTEM.run(c, inode, fs_id).fetchall())


def find_by_content(
    c: sa.Connection, sealer: Sealer, root_id: RootId | None, contents: Sequence[FileContent]
) -> list[list[FileRecord]]:
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
    digests = [digest for _, digest in by_digest]
    size, is_large = file.c.size_bytes, file.c.block_size_bytes.is_not(None)
    is_same = sa.or_(
        size.in_({size for size, _ in by_digest}) & (file.c.xxh3_128.in_(digests) | file.c.md5.in_(digests)),
        size.in_(by_blocks) & is_large,
    )
    query = sa.select(*RECORD_COLUMNS).select_from(FILE_JOIN).where(is_same)
    if root_id is not None:
        query = query.where(inside(root_id, b"", is_hidden=True))
    for record in to_records(sealer, c.execute(query.order_by(file.c.id)).all()):
        if not record.is_sealed:
            continue
        size_bytes, digests_of = record.witness.size_bytes, (record.digests.md5, record.digests.xxh3_128)
        same = {number for one in digests_of if one for number in by_digest.get((size_bytes, one), ())}
        large = by_blocks.get(size_bytes, ())
        same |= {number for number in large if _has_blocks(c, sealer, record, contents[number].blocks)}
        for number in same:
            found[number].append(record)
    return found


def _has_blocks(c: sa.Connection, sealer: Sealer, record: FileRecord, blocks: Blocks | None) -> bool:
    """Return whether a file is recorded with these blocks. Comparing the first run rules out most files."""
    if blocks is None or record.block_size_bytes != blocks.block_size_bytes:
        return False
    first = load_run(c, sealer, record.id, record.version, 0)
    if first is None or not blocks.xxh3_128.startswith(first.xxh3_128):
        return False
    known = load_blocks(c, sealer, record.id, record.version, blocks.block_size_bytes)
    return known is not None and known.xxh3_128 == blocks.xxh3_128


def page_files(
    c: sa.Connection, root_id: RootId, *, prefix: bytes = b"", after: int = 0, limit: int = 2000
) -> list[tuple[FileId, bytes, int]]:
    """
    Return one page of files (id, path, size) in the order of their ids.

    Args:
        c: a connection.
        prefix: only files below this folder, or this one file; empty: all.
        after: the last id of the previous page.
        limit: size of the page; an empty page is the end.
    """
    columns = file.c.id, folder.c.path, file.c.name, file.c.size_bytes
    query = sa.select(*columns).join(folder, file.c.folder_id == folder.c.id).order_by(file.c.id).limit(limit)
    part = inside(root_id, prefix)
    # "+ 0" hides a column from SQLite's planner: a small part of a large root is found by folder, anything else is
    # read in the order of the table.
    if prefix and _is_small(c, part):
        query = query.where(part, file.c.id + sa.literal_column("0") > after)
    else:
        query = query.where(inside(root_id, prefix, is_hidden=True), file.c.id > after)
    rows = c.execute(query).all()
    require_rising((row[0] for row in rows), after)
    return [(FileId(row[0]), join_path(row[1], row[2]), row[3]) for row in rows]


def count_files_below(c: sa.Connection, root_id: RootId, folder_path: bytes, *, is_deep: bool) -> int:
    """Count the files of a folder; ``is_deep``: with those of all folders below it."""
    is_in = below(folder.c.path, folder_path) if is_deep else folder.c.path == folder_path
    query = sa.select(sa.func.count()).select_from(folder.join(file, file.c.folder_id == folder.c.id))
    return int(c.execute(query.where(folder.c.root_id == root_id, is_in)).scalar_one())


def _is_small(c: sa.Connection, part: sa.ColumnElement[bool]) -> bool:
    some = sa.select(file.c.id).join(folder, file.c.folder_id == folder.c.id).where(part).limit(_SMALL_SUBTREE)
    return int(c.execute(sa.select(sa.func.count()).select_from(some.subquery())).scalar_one()) < _SMALL_SUBTREE


Position = tuple[bytes, bytes]
"""Folder path, and file name in it."""

_COLUMNS_OF_POSITION = slice(4, 6)


def page_in_order(
    c: sa.Connection,
    sealer: Sealer,
    root_id: RootId,
    *,
    prefix: bytes = b"",
    after: Position | None = None,
    limit: int = 2000,
) -> tuple[list[FileRecord], Position | None]:
    """
    Return one page of files in the order of folder path and name, both bytewise, which the indexes provide.

    Args:
        c: a connection; hold a snapshot to read all pages from the same state.
        sealer: checks the rows.
        prefix: only files below this folder, or this one file; empty: all.
        after: end of the previous page, as returned.
        limit: size of the page.

    Returns:
        The page, and its end; None if the page is empty.

    Raises:
        CatalogCorrupt: the rows are out of order.
    """
    rows: list[Any] = []
    if after is None:
        folder_path, name = split_path(prefix)
        if prefix:
            rows += _run(c, root_id, folder.c.path == folder_path, file.c.name == name, limit=limit)
        if not rows:  # the prefix names a folder, not a file
            rows += _run(c, root_id, *_within(prefix), limit=limit)
    else:
        rows += _run(c, root_id, folder.c.path == after[0], file.c.name > after[1], *_within(prefix), limit=limit)
        if len(rows) < limit:
            rows += _run(c, root_id, folder.c.path > after[0], *_within(prefix), limit=limit - len(rows))
    positions = [tuple(row[_COLUMNS_OF_POSITION]) for row in rows]
    require_rising(positions, after)
    return [to_record(sealer, row) for row in rows], (positions[-1] if positions else None)


def _run(c: sa.Connection, root_id: RootId, *conditions: sa.ColumnElement[bool], limit: int) -> list[Any]:
    query = sa.select(*RECORD_COLUMNS).select_from(FILE_JOIN).where(folder.c.root_id == root_id, *conditions)
    return list(c.execute(query.order_by(folder.c.path, file.c.name).limit(limit)))


def _within(prefix: bytes) -> tuple[sa.ColumnElement[bool], ...]:
    """Match the folders at and below ``prefix``: a range of the index, without siblings that share the prefix."""
    if not prefix:
        return ()
    return folder.c.path >= prefix, folder.c.path < prefix + b"0", below(folder.c.path, prefix)


def make_temporary(name: str, *columns: sa.Column[Any] | sa.UniqueConstraint) -> sa.Table:
    """Define a temporary table, which lives with the connection in a temporary file, outside the catalog."""
    return sa.Table(name, sa.MetaData(), *columns, prefixes=["TEMPORARY"], schema="temp")


def make_order(name: str) -> sa.Table:
    """Define a temporary table of files in the order of ``seq``."""
    return make_temporary(
        name,
        sa.Column("seq", sa.Integer, primary_key=True),
        sa.Column("file_id", sa.Integer, nullable=False),
        sa.Column("size_bytes", sa.Integer, nullable=False),
    )


def make_anew(c: sa.Connection, table: sa.Table) -> None:
    """Create a temporary table, dropping the connection's last one of that name."""
    c.execute(DropTable(table, if_exists=True))
    c.execute(CreateTable(table))


def sum_up(c: sa.Connection, order: sa.Table) -> tuple[int, int]:
    """Return the number of files in an order, and their total size in bytes."""
    row = c.execute(sa.select(sa.func.count(), sa.func.coalesce(sa.func.sum(order.c.size_bytes), 0))).one()
    return int(row[0]), int(row[1])
