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

from xxhash import xxh3_128_digest

from integrity.catalog.db import Connection, numbers
from integrity.catalog.files import ORDER_COLUMNS, make_anew, sum_up
from integrity.catalog.rows import DAY_S, FILE_JOIN, RECORD_COLUMNS, FileRecord, inside, split_path
from integrity.model import CopyId, FileId, RootId

_PATH_BYTES = 1 << 14
_LONGEST = 4096  # characters kept of one file's digests: a manifest may name a file a million times

_TABLES = {
    # One portion of the listing.
    "entry": "seq INTEGER PRIMARY KEY, file_id INTEGER, path BLOB NOT NULL, size_bytes INTEGER, mtime_ns INTEGER,"
    " inode INTEGER, published TEXT NOT NULL",
    "listed": "file_id INTEGER PRIMARY KEY, size_bytes INTEGER, mtime_ns INTEGER, inode INTEGER,"
    " published TEXT NOT NULL, is_contradictory INTEGER NOT NULL",
    # size_bytes 0: also unknown
    "extra": "seq INTEGER PRIMARY KEY, size_bytes INTEGER NOT NULL, path BLOB NOT NULL, published TEXT NOT NULL,"
    " is_renamed INTEGER NOT NULL DEFAULT 0, UNIQUE (size_bytes, path)",
    "spelling": "path BLOB PRIMARY KEY, spelled BLOB NOT NULL",
    # Recorded files that are compared one by one, and those that need not be.
    "alone": "file_id INTEGER PRIMARY KEY",
    "same": "file_id INTEGER PRIMARY KEY",
}

_RECORDED = """
    SELECT file.id FROM folder JOIN file ON file.folder_id = folder.id
    WHERE folder.root_id = ? AND folder.path = ? AND file.name = ?"""
_READ_AT = """
    CASE
        WHEN coalesce(copy_file.found_mtime_ns = listed.mtime_ns, 1)
            AND coalesce(copy_file.found_inode = listed.inode, 1)
        THEN copy_file.read_at
    END"""
"""When a copy's file was last read; null if another file is there now, as in another night's snapshot."""


class StatedFile(NamedTuple):
    """A file in a copy's listing."""

    size_bytes: int | None
    published: tuple[tuple[str, bytes, tuple[int, ...], int], ...]  # kind, value, sizes and number of parts
    is_contradictory: bool = False  # listed twice with different content
    mtime_ns: int | None = None  # None: none is listed
    inode: int | None = None  # to be stored; None where there is none, or where it is given anew


new_stated = partial(tuple.__new__, StatedFile)
"""The same as the class, without a Python call per file."""


class CompareRow(NamedTuple):
    """A recorded file and what the copy knows about it."""

    seq: int
    record: FileRecord
    listed: StatedFile | None  # None: not in the copy's listing
    read_at: int | None  # when the copy's bytes were last read
    stated: bytes | None = None  # digest of what the copy stated, if the last reading of the file proved it right
    was_found_bad: bool = False  # these bytes did not match, or could not be read


new_row = partial(tuple.__new__, CompareRow)


class StoredListing:
    """A copy's listing, in temporary tables of a connection, in place of the last one."""

    def __init__(self, c: Connection, root_id: RootId) -> None:
        self._root_id = root_id
        for name, columns in _TABLES.items():
            make_anew(c, name, columns)

    def add(self, c: Connection, entries: Sequence[tuple[bytes, StatedFile]]) -> None:
        """Add listed files, recorded or not: path in the root, and its entry."""
        query = f"""
            INSERT INTO entry (file_id, path, size_bytes, mtime_ns, inode, published)
            VALUES (({_RECORDED}), ?, ?, ?, ?, ?)"""
        rows = (
            (self._root_id, *split_path(path), path, one.size_bytes, one.mtime_ns, one.inode, _pack(one))
            for path, one in entries
        )
        c.run_many(query, rows)
        query = """
            INSERT INTO listed (file_id, size_bytes, mtime_ns, inode, published, is_contradictory)
            SELECT file_id, size_bytes, mtime_ns, inode, published, 0 FROM entry WHERE file_id NOT NULL ORDER BY seq
            ON CONFLICT (file_id) DO UPDATE SET
                size_bytes = coalesce(size_bytes, excluded.size_bytes),
                published = CASE
                    WHEN published != excluded.published AND excluded.published != '' AND length(published) < ?1
                    THEN published || char(10) || excluded.published ELSE published
                END,
                is_contradictory = CASE
                    WHEN size_bytes != excluded.size_bytes THEN 1
                    WHEN excluded.published != '' AND (published = excluded.published OR length(published) < ?1)
                    THEN is_contradictory ELSE 1
                END"""
        c.run(query, _LONGEST)
        query = """
            INSERT OR IGNORE INTO extra (size_bytes, path, published)
            SELECT coalesce(size_bytes, 0), path, published FROM entry WHERE file_id IS NULL ORDER BY seq"""
        c.run(query)
        c.run("DELETE FROM entry")

    def find_recorded(self, c: Connection, path: bytes) -> tuple[FileId | None, bool]:
        """Return the id of a recorded file, and whether it was listed; None if it is not recorded."""
        file_id = c.value(_RECORDED, self._root_id, *split_path(path))
        return file_id, c.row("SELECT 1 FROM listed WHERE file_id = ?", file_id) is not None


def find_extra(c: Connection, size_bytes: int, limit: int) -> list[tuple[bytes, StatedFile]]:
    """Return listed but unrecorded files of one size: path in the root, and entry."""
    rows = c.rows("SELECT path, published FROM extra WHERE size_bytes = ? ORDER BY path LIMIT ?", size_bytes, limit)
    return [(path, _unpack(size_bytes, published, 0)) for path, published in rows]


def mark_renamed(c: Connection, size_bytes: int, path: bytes) -> None:
    """Mark an unrecorded file as a recorded file under its former name."""
    c.run("UPDATE extra SET is_renamed = 1 WHERE size_bytes = ? AND path = ?", size_bytes, path)


def store_spelling(c: Connection, path: bytes, spelled: bytes) -> None:
    """Store the path in the root under whose spelling the copy has a recorded file."""
    c.run("INSERT OR IGNORE INTO spelling (path, spelled) VALUES (?, ?)", path, spelled)


def find_spelling(c: Connection, path: bytes) -> bytes | None:
    """Return the path that ``store_spelling`` stored for a recorded file; None if there is none."""
    return c.value("SELECT spelled FROM spelling WHERE path = ?", path)


def iterate_extra(c: Connection) -> Iterator[bytes]:
    """Yield the paths of files that only the copy has. Do not use the table until the last one was yielded."""
    for (path,) in c.rows("SELECT path FROM extra WHERE is_renamed = 0 ORDER BY seq"):
        yield path


def page_extra(c: Connection, after_seq: int, limit: int) -> list[tuple[int, bytes, StatedFile]]:
    """Return the next listed but unrecorded files, without those of endless names: position, path, and entry."""
    query = """
        SELECT seq, path, size_bytes, published FROM extra WHERE seq > ? AND length(path) <= ? ORDER BY seq LIMIT ?"""
    rows = c.rows(query, after_seq, _PATH_BYTES, limit)
    return [(seq, path, _unpack(size_bytes or None, published, 0)) for seq, path, size_bytes, published in rows]


def leave_alone(c: Connection, root_id: RootId, paths: Iterable[bytes]) -> None:
    """Leave recorded files to be compared one by one, as are those that the copy has under another spelling."""
    query = f"INSERT OR IGNORE INTO alone (file_id) {_RECORDED}"
    every = (*paths, *c.column("SELECT path FROM spelling"))
    c.run_many(query, ((root_id, *split_path(path)) for path in every))


def find_same(
    c: Connection, copy_id: CopyId, after: int, limit: int, *, not_since: int | None
) -> list[tuple[FileId, int, int | None, int]]:
    """
    Find the next files, by id, of which a copy was read and has what is recorded: its digest is the recorded one.

    Suspects are left out, and what ``leave_alone`` named.

    Args:
        after: the last file of the page before.
        not_since: leave out files that were compared later than this time; None: none.

    Returns:
        Of each file its id, the recorded mtime, that in the copy, and when it was last read here.
    """
    is_compared = f"""
        EXISTS (
            SELECT 1 FROM copy_file
            WHERE copy_id = {copy_id} AND file_id = file.id AND version = file.version AND compared_at > {not_since}
        )"""
    query = f"""
        SELECT file.id, file.mtime_ns, listed.mtime_ns, coalesce(file.verified_at, file.recorded_at)
        FROM listed CROSS JOIN file ON file.id = listed.file_id
        WHERE listed.file_id > ? AND listed.size_bytes = file.size_bytes AND listed.is_contradictory = 0
            AND listed.published = {_RECORDED_WHOLE} AND file.is_suspect = 0
            AND file.id NOT IN (SELECT file_id FROM alone) AND NOT {"0" if not_since is None else is_compared}
        ORDER BY listed.file_id LIMIT ?"""
    return list(c.rows(query, after, limit))


def save_same(c: Connection, copy_id: CopyId, ids: Iterable[FileId], now: int) -> None:
    """Record that a copy was read, and has what is recorded, unless that was replaced meanwhile; see ``find_same``."""
    some = numbers(ids)
    c.run("INSERT INTO same (file_id) SELECT value FROM json_each(?)", some)
    query = f"""
        INSERT OR REPLACE INTO copy_file (
            copy_id, file_id, version, vote, compared_at, read_at, found_version, found_at, found_mtime_ns
        )
        SELECT ?, file.id, file.version, 'same', ?2, ?2, file.version, ?2, listed.mtime_ns
        FROM json_each(?3) CROSS JOIN file ON file.id = value JOIN listed ON listed.file_id = value
        WHERE listed.published = {_RECORDED_WHOLE}"""
    c.run(query, copy_id, now, some)


def find_names(c: Connection, root_id: RootId, path: bytes) -> list[bytes]:
    """Return the names of the recorded files and folders in a folder."""
    sql = f"SELECT file.name FROM {FILE_JOIN} WHERE folder.root_id = ? AND folder.path = ?"
    names: list[bytes] = c.column(sql, root_id, path)
    first = path + b"/" if path else b""
    if path:
        last = path + b"0"  # the byte behind the slash
        folders = c.column("SELECT path FROM folder WHERE root_id = ? AND path > ? AND path < ?", root_id, first, last)
    else:
        folders = c.column("SELECT path FROM folder WHERE root_id = ? AND path != x''", root_id)
    return names + list(dict.fromkeys(one[len(first) :].partition(b"/")[0] for one in folders))


def is_any_recorded(c: Connection, root_id: RootId, paths: Iterable[bytes]) -> bool:
    """Return whether any of these files is recorded."""
    return any(c.value(_RECORDED, root_id, *split_path(path)) is not None for path in paths)


def count_listed(c: Connection) -> int:
    """Count the recorded files that the copy listed."""
    return c.value("SELECT count(*) FROM listed")


def order_files(
    c: Connection, copy_id: CopyId, root_id: RootId, prefix: bytes, after: int | None = None
) -> tuple[int, int]:
    """
    Order the recorded files for comparison: first those whose copy is not known to be good, then the longest unread.

    Within a day, files are in the order of recording, which is roughly their order on the disk. Only answers about the
    present version count. ``after``: leave out files that were compared later than this time. Returns number and bytes,
    with those of ``save_same``, which are not in the order.
    """
    make_anew(c, "compare_order", ORDER_COLUMNS)
    part, values = inside(root_id, prefix)
    query = f"""
        INSERT INTO compare_order (file_id, size_bytes) SELECT file.id, file.size_bytes FROM {FILE_JOIN}
        LEFT JOIN copy_file
            ON copy_file.copy_id = {copy_id} AND copy_file.file_id = file.id AND copy_file.version = file.version
        LEFT JOIN listed ON listed.file_id = file.id
        WHERE {part} AND {"1" if after is None else f"coalesce(copy_file.compared_at, -1) <= {after}"}
            AND file.id NOT IN (SELECT file_id FROM same)
        ORDER BY coalesce(copy_file.vote = 'same', 0), coalesce({_READ_AT} / {DAY_S}, -1), file.id"""
    c.run(query, *values)
    files, size = sum_up(c, "compare_order")
    same = "SELECT count(*), coalesce(sum(size_bytes), 0) FROM same CROSS JOIN file ON file.id = same.file_id"
    same_files, same_bytes = next(c.rows(same))
    return files + same_files, size + same_bytes


def keep_listed(c: Connection) -> None:
    """Leave out of the order the files that the copy did not list."""
    c.run("DELETE FROM compare_order WHERE file_id NOT IN (SELECT file_id FROM listed)")


def count_compared(c: Connection, copy_id: CopyId, root_id: RootId, prefix: bytes, after: int) -> int:
    """Count the files whose present version was compared later than ``after``."""
    part, values = inside(root_id, prefix)
    sql = f"""
        SELECT count(*) FROM {FILE_JOIN}
        JOIN copy_file ON copy_file.file_id = file.id AND copy_file.version = file.version
        WHERE {part} AND copy_file.copy_id = ? AND copy_file.compared_at > ?"""
    return c.value(sql, *values, copy_id, after)


def page_files(c: Connection, copy_id: CopyId, after_seq: int, limit: int) -> list[CompareRow]:
    """Return the next files in that order; files that were removed meanwhile are left out."""
    rows = []
    for seq, size, mtime, published, contradictory, read_at, stated, was_bad, *record in c.rows(
        f"""
        SELECT compare_order.seq, listed.size_bytes, listed.mtime_ns, listed.published, listed.is_contradictory,
            {_READ_AT}, copy_file.stated, copy_file.read_at IS NOT NULL AND copy_file.vote != 'same', {RECORD_COLUMNS}
        FROM compare_order CROSS JOIN {FILE_JOIN} LEFT JOIN listed ON listed.file_id = file.id
        LEFT JOIN copy_file
            ON copy_file.copy_id = ? AND copy_file.file_id = file.id AND copy_file.version = file.version
        WHERE file.id = compare_order.file_id AND compare_order.seq > ? ORDER BY compare_order.seq LIMIT ?""",
        *(copy_id, after_seq, limit),
    ):
        if published == "" and not contradictory:  # the most common case: files of a mounted copy
            listed: StatedFile | None = new_stated((size, (), False, mtime, None))
        elif published is None:
            listed = None
        else:
            listed = _unpack(size, published, contradictory, mtime_ns=mtime)
        rows.append(new_row((seq, FileRecord.make(*record), listed, read_at, stated, bool(was_bad))))
    return rows


def digest_stated(listed: StatedFile) -> bytes:
    """Return a digest of the checksums that a copy states for a file, to detect a change of them."""
    return xxh3_128_digest(_pack(listed).encode())


_OF_WHOLE = '[["%s", "%s", [], 0]]'
"""How ``_pack`` writes one digest of a whole file."""

_RECORDED_WHOLE = "'" + _OF_WHOLE % ("xxh3_128", "' || lower(hex(file.xxh3_128)) || '") + "'"
"""The same, as SQL, for the recorded digest of a file."""


def _pack(listed: StatedFile) -> str:
    if not listed.published:
        return ""  # the most common case: files of a mounted copy
    kind, value, sizes, parts = listed.published[0]
    if len(listed.published) == 1 and not (sizes or parts):
        return _OF_WHOLE % (kind, value.hex())
    return json.dumps([(kind, value.hex(), sizes, parts) for kind, value, sizes, parts in listed.published])


def _unpack(size_bytes: int | None, published: str, contradictory: int, *, mtime_ns: int | None = None) -> StatedFile:
    found = [one for line in published.split("\n") if line for one in json.loads(line)]
    digests = dict.fromkeys((kind, bytes.fromhex(value), tuple(sizes), parts) for kind, value, sizes, parts in found)
    is_contradictory = contradictory != 0 or len({kind for kind, *_ in digests}) < len(digests)
    return StatedFile(size_bytes, tuple(digests), is_contradictory, mtime_ns)
