"""
The listing of a copy next to the recorded files, and the order in which they are compared.

The listing is kept in two temporary tables of the connection, in temporary files: a listing of any length takes no
memory, does not touch the catalog, and is evaluated only when complete. ``extra`` holds the files that are not
recorded: a file that was renamed since the backup is found there by size.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from typing import NamedTuple

import sqlalchemy as sa
from sqlalchemy.dialects.sqlite import insert as sqlite_insert
from xxhash import xxh3_128_digest

from integrity.catalog.compiled_sql import CompiledInsert, CompiledStatement
from integrity.catalog.files import make_anew, make_order, make_temporary, sum_up
from integrity.catalog.folders import get_folder_id
from integrity.catalog.rows import FILE_JOIN, RECORD_COLUMNS, FileRecord, inside, split_path, to_record
from integrity.catalog.schema import copy_file, file, folder
from integrity.catalog.seal import Sealer
from integrity.model import CopyId, FileId, FolderId, RootId
from integrity.verdict import CopyVote

_DAY_S = 86400
_PATH_BYTES = 1 << 14

_listed = make_temporary(
    "listed",
    sa.Column("file_id", sa.Integer, primary_key=True),
    sa.Column("size_bytes", sa.Integer),
    sa.Column("mtime_ns", sa.Integer),
    sa.Column("inode", sa.Integer),
    sa.Column("published", sa.Text, nullable=False),
    sa.Column("is_contradictory", sa.Integer, nullable=False),
)
_extra = make_temporary(
    "extra",
    sa.Column("seq", sa.Integer, primary_key=True),
    sa.Column("size_bytes", sa.Integer, nullable=False),  # 0: also unknown
    sa.Column("path", sa.LargeBinary, nullable=False),
    sa.Column("published", sa.Text, nullable=False),
    sa.Column("is_renamed", sa.Integer, nullable=False, server_default="0"),
    sa.UniqueConstraint("size_bytes", "path"),
)
_entry = make_temporary(  # of one portion of the listing
    "entry",
    sa.Column("seq", sa.Integer, primary_key=True),
    sa.Column("folder_id", sa.Integer),
    sa.Column("name", sa.LargeBinary, nullable=False),
    sa.Column("path", sa.LargeBinary, nullable=False),
    sa.Column("size_bytes", sa.Integer),
    sa.Column("mtime_ns", sa.Integer),
    sa.Column("inode", sa.Integer),
    sa.Column("published", sa.Text, nullable=False),
)
_ENTRY_NAMES = ("folder_id", "name", "path", "size_bytes", "mtime_ns", "inode", "published")
_ADD_ENTRY = CompiledInsert(
    sa.insert(_entry).values({name: sa.bindparam(name) for name in _ENTRY_NAMES}), *_ENTRY_NAMES
)
_REMOVE_ENTRIES = CompiledStatement(sa.delete(_entry))
_is_recorded = sa.and_(file.c.folder_id == _entry.c.folder_id, file.c.name == _entry.c.name)
_ADD_EXTRA = CompiledStatement(
    sa.insert(_extra)
    .prefix_with("OR IGNORE")
    .from_select(
        ["size_bytes", "path", "published"],
        sa.select(sa.func.coalesce(_entry.c.size_bytes, sa.literal_column("0")), _entry.c.path, _entry.c.published)
        .where(~sa.exists(sa.select(file.c.id).where(_is_recorded)))
        .order_by(_entry.c.seq),
        include_defaults=False,
    )
)
_order = make_order("compare_order")


class StatedFile(NamedTuple):
    """
    A file in a copy's listing.

    Attributes:
        published: kind, value, sizes and number of parts of each digest.
        is_contradictory: listed twice with different content.
        mtime_ns: the time that is listed; None if there is none.
        inode: its inode; None where there is none, or where it is given anew.
    """

    size_bytes: int | None
    published: tuple[tuple[str, bytes, tuple[int, ...], int], ...]
    is_contradictory: bool = False
    mtime_ns: int | None = None
    inode: int | None = None


new_stated = partial(tuple.__new__, StatedFile)
"""The same as the class, without a Python call per file."""


class CompareRow(NamedTuple):
    """
    A recorded file and what the copy knows about it.

    Attributes:
        listed: its entry in the copy's listing; None: not listed.
        read_at: when the copy's bytes were last read.
        was_found_bad: these bytes did not match, or could not be read.
        stated: digest of the checksums that the copy stated, if the last reading of the file proved them right.
    """

    seq: int
    record: FileRecord
    listed: StatedFile | None
    read_at: int | None
    stated: bytes | None = None
    was_found_bad: bool = False


class StoredListing:
    """
    Store a copy's listing, replacing the last one of this connection.

    Args:
        c: the connection whose temporary tables hold the listing.
        root_id: the root whose files the copy holds.
    """

    def __init__(self, c: sa.Connection, root_id: RootId) -> None:
        self._names = _Names(root_id)
        make_anew(c, _entry)
        make_anew(c, _listed)
        make_anew(c, _extra)

    def add(self, c: sa.Connection, entries: Sequence[tuple[bytes, StatedFile]]) -> None:
        """Add listed files, recorded or not: path in the root, and its entry."""
        rows = []
        for path, listed in entries:
            folder_path, name = split_path(path)
            folder_id = self._names.find_folder(c, folder_path)
            row = (folder_id, name, path, listed.size_bytes, listed.mtime_ns, listed.inode, _pack(listed))
            rows.append(row)
        _ADD_ENTRY.run_many(c, rows)
        _ADD.run(c)
        _ADD_EXTRA.run(c)
        _REMOVE_ENTRIES.run(c)

    def find_recorded(self, c: sa.Connection, path: bytes) -> tuple[FileId | None, bool]:
        """Return the id of a recorded file, and whether it was listed; None if it is not recorded."""
        file_id = self._names.find(c, path)
        query = sa.select(_listed.c.file_id).where(_listed.c.file_id == file_id)
        return file_id, file_id is not None and c.execute(query).first() is not None


class _Names:
    """Look up recorded files by path; caches the last folder."""

    def __init__(self, root_id: RootId) -> None:
        self._root_id = root_id
        self._folder: tuple[bytes, FolderId | None] | None = None

    def find(self, c: sa.Connection, path: bytes) -> FileId | None:
        """Return the id of a file; None if it is not recorded."""
        folder_path, name = split_path(path)
        folder_id = self.find_folder(c, folder_path)
        found = None if folder_id is None else _FIND.run(c, folder_id, name).fetchone()
        return None if found is None else FileId(found[0])

    def find_folder(self, c: sa.Connection, path: bytes) -> FolderId | None:
        """Return the id of a folder; None if no file in it is recorded."""
        if self._folder is None or self._folder[0] != path:
            self._folder = path, get_folder_id(c, self._root_id, path)
        return self._folder[1]


def find_extra(c: sa.Connection, size_bytes: int, limit: int) -> list[tuple[bytes, StatedFile]]:
    """Return listed but unrecorded files of one size: path in the root, and entry."""
    query = sa.select(_extra.c.path, _extra.c.published).where(_extra.c.size_bytes == size_bytes)
    rows = c.execute(query.order_by(_extra.c.path).limit(limit))
    return [(row.path, listed) for row in rows if (listed := _unpack(size_bytes, row.published, 0)) is not None]


def mark_renamed(c: sa.Connection, size_bytes: int, path: bytes) -> None:
    """Mark an unrecorded file as a recorded file under its former name."""
    is_it = _extra.c.size_bytes == size_bytes, _extra.c.path == path
    c.execute(sa.update(_extra).where(*is_it).values(is_renamed=1))


def iterate_extra(c: sa.Connection) -> Iterator[bytes]:
    """
    Yield the paths in the root of files that only the copy has. There may be any number of them.

    Do not use the table until the last path was yielded: the query keeps it locked.
    """
    query = sa.select(_extra.c.path).where(_extra.c.is_renamed == 0).order_by(_extra.c.seq)
    for row in c.execute(query):
        yield row.path


def page_extra(c: sa.Connection, after_seq: int, limit: int) -> list[tuple[int, bytes, StatedFile]]:
    """Return the next listed but unrecorded files, without those of endless names: position, path, and entry."""
    is_short = sa.func.length(_extra.c.path) <= _PATH_BYTES
    query = sa.select(_extra).where(_extra.c.seq > after_seq, is_short).order_by(_extra.c.seq).limit(limit)
    return [
        (row.seq, row.path, _unpack(row.size_bytes or None, row.published, 0) or StatedFile(None, ()))
        for row in c.execute(query)
    ]


def find_names(c: sa.Connection, root_id: RootId, path: bytes) -> list[bytes]:
    """Return the names of the recorded files and folders in a folder."""
    files = sa.select(file.c.name).join(folder, file.c.folder_id == folder.c.id)
    names = [row.name for row in c.execute(files.where(folder.c.root_id == root_id, folder.c.path == path))]
    first = path + b"/" if path else b""
    below = sa.select(folder.c.path).where(folder.c.root_id == root_id, folder.c.path > first)
    if path:
        below = below.where(folder.c.path < path + b"0")  # the byte behind the slash
    return names + list(dict.fromkeys(row.path[len(first) :].partition(b"/")[0] for row in c.execute(below)))


def is_any_recorded(c: sa.Connection, root_id: RootId, paths: Iterable[bytes]) -> bool:
    """Return whether any of these files is recorded."""
    names = _Names(root_id)
    return any(names.find(c, path) is not None for path in paths)


def count_listed(c: sa.Connection) -> int:
    """Count the recorded files that the copy listed."""
    return int(c.execute(sa.select(sa.func.count()).select_from(_listed)).scalar_one())


def count_below(c: sa.Connection, root_id: RootId, prefix: bytes) -> int:
    """Count the recorded files at or below a path."""
    joined = file.join(folder, file.c.folder_id == folder.c.id)
    query = sa.select(sa.func.count()).select_from(joined).where(inside(root_id, prefix))
    return int(c.execute(query).scalar_one())


def order_files(
    c: sa.Connection, copy_id: CopyId, root_id: RootId, prefix: bytes, after: int | None = None
) -> tuple[int, int]:
    """
    Order the recorded files for comparison: first those whose copy is not known to be good, then the longest unread.

    Within a day, files are in the order of recording, which is roughly their order on the disk. Only answers about the
    present version count. ``after``: leave out files that were compared later than this time.

    Returns:
        Number of files, and number of bytes.
    """
    make_anew(c, _order)
    is_good = sa.func.coalesce(copy_file.c.vote == CopyVote.SAME.value, sa.false())
    day = sa.func.coalesce(_read_at // _DAY_S, -1)
    is_due = sa.true() if after is None else sa.func.coalesce(copy_file.c.compared_at, -1) <= after
    query = (
        sa.select(file.c.id, file.c.size_bytes)
        .select_from(
            file.join(folder, file.c.folder_id == folder.c.id)
            .outerjoin(copy_file, _is_current(copy_id))
            .outerjoin(_listed, _listed.c.file_id == file.c.id)
        )
        .where(inside(root_id, prefix), is_due)
        .order_by(is_good, day, file.c.id)
    )
    c.execute(sa.insert(_order).from_select(["file_id", "size_bytes"], query))
    return sum_up(c, _order)


def count_compared(c: sa.Connection, copy_id: CopyId, root_id: RootId, prefix: bytes, after: int) -> int:
    """Count the files whose present version was compared later than ``after``."""
    joined = file.join(folder, file.c.folder_id == folder.c.id).join(copy_file, _is_current(copy_id))
    query = sa.select(sa.func.count()).select_from(joined)
    return int(c.execute(query.where(inside(root_id, prefix), copy_file.c.compared_at > after)).scalar_one())


def page_files(c: sa.Connection, sealer: Sealer, copy_id: CopyId, after_seq: int, limit: int) -> list[CompareRow]:
    """Return the next files in that order; files that were removed meanwhile are left out."""
    rows = []
    for seq, size, mtime, inode, published, contradictory, read_at, stated, was_bad, *record in _PAGE.run(
        c, copy_id, after_seq, limit
    ):
        listed = _unpack(size, published, contradictory, mtime_ns=mtime, inode=inode)
        rows.append(CompareRow(seq, to_record(sealer, record), listed, read_at, stated, bool(was_bad)))
    return rows


_FIND = CompiledStatement(
    sa.select(file.c.id).where(file.c.folder_id == sa.bindparam("folder_id"), file.c.name == sa.bindparam("name")),
    "folder_id",
    "name",
)


_LONGEST = 4096  # characters kept of one file's digests: a manifest may name a file a million times
_add = sqlite_insert(_listed).from_select(
    ["file_id", "size_bytes", "mtime_ns", "inode", "published", "is_contradictory"],
    sa.select(
        *(file.c.id, _entry.c.size_bytes, _entry.c.mtime_ns, _entry.c.inode, _entry.c.published),
        sa.literal_column("0"),
    )
    .select_from(_entry.join(file, _is_recorded))
    .where(sa.literal_column("true"))  # without a WHERE, SQLite takes the ON of the conflict for one of the join
    .order_by(_entry.c.seq),
)
_is_repeated = sa.and_(_listed.c.published == _add.excluded.published, _listed.c.published != "")
_has_room = sa.and_(sa.func.length(_listed.c.published) < _LONGEST, _add.excluded.published != "")
_ADD = CompiledStatement(
    _add.on_conflict_do_update(
        index_elements=["file_id"],
        set_={
            "size_bytes": sa.func.coalesce(_listed.c.size_bytes, _add.excluded.size_bytes),
            "published": sa.case(
                (_is_repeated, _listed.c.published),
                (_has_room, _listed.c.published + "\n" + _add.excluded.published),
                else_=_listed.c.published,
            ),
            "is_contradictory": sa.case(
                (sa.func.coalesce(_listed.c.size_bytes != _add.excluded.size_bytes, sa.false()), 1),
                (sa.or_(_is_repeated, _has_room), _listed.c.is_contradictory),
                else_=1,
            ),
        },
    )
)


def digest_stated(listed: StatedFile) -> bytes:
    """Return a digest of the checksums that a copy states for a file, to detect a change of them."""
    return xxh3_128_digest(_pack(listed).encode())


def _is_current(copy_id: CopyId | sa.BindParameter[int]) -> sa.ColumnElement[bool]:
    """Match the answer of a copy about a file's present version."""
    mine = copy_file.c.copy_id == copy_id, copy_file.c.file_id == file.c.id
    return sa.and_(*mine, copy_file.c.version == file.c.version)


_is_same_file = sa.and_(
    *(
        sa.func.coalesce(copy_file.c[found] == _listed.c[listed], sa.true())
        for found, listed in (("found_mtime_ns", "mtime_ns"), ("found_inode", "inode"))
    )
)
_read_at = sa.case((_is_same_file, copy_file.c.read_at))
"""When a copy's file was last read; null if another file is there now, as in another night's snapshot."""

_was_good = sa.or_(copy_file.c.read_at.is_(None), copy_file.c.vote == CopyVote.SAME.value)
_PAGE = CompiledStatement(
    sa.select(
        _order.c.seq,
        *(_listed.c[name] for name in ("size_bytes", "mtime_ns", "inode", "published", "is_contradictory")),
        *(_read_at, copy_file.c.stated, sa.func.coalesce(~_was_good, sa.false())),
        *RECORD_COLUMNS,
    )
    .select_from(
        _order.join(FILE_JOIN, _order.c.file_id == file.c.id)
        .outerjoin(_listed, _listed.c.file_id == _order.c.file_id)
        .outerjoin(copy_file, _is_current(sa.bindparam("copy")))
    )
    .where(_order.c.seq > sa.bindparam("after"))
    .order_by(_order.c.seq)
    .limit(sa.bindparam("most")),
    *("copy", "after", "most"),
)


def _pack(listed: StatedFile) -> str:
    if not listed.published:
        return ""  # the most common case: files of a mounted copy
    return json.dumps([(kind, value.hex(), sizes, parts) for kind, value, sizes, parts in listed.published])


def _unpack(
    size_bytes: int | None,
    published: str | None,
    contradictory: int | None,
    *,
    mtime_ns: int | None = None,
    inode: int | None = None,
) -> StatedFile | None:
    if published is None:
        return None
    if not published and not contradictory:
        return new_stated((size_bytes, (), False, mtime_ns, inode))  # the most common case: files of a mounted copy
    found = [one for line in published.split("\n") if line for one in json.loads(line)]
    digests = dict.fromkeys((kind, bytes.fromhex(value), tuple(sizes), parts) for kind, value, sizes, parts in found)
    is_contradictory = contradictory != 0 or len({kind for kind, *_ in digests}) < len(digests)
    return StatedFile(size_bytes, tuple(digests), is_contradictory, mtime_ns, inode)
