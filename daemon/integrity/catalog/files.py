"""
Find recorded files by name, id, path, inode, content, or page; store them in temporary tables in a job's order.

Pages come in the order of ids, or of folder path and name. Changes of rows are in ``baselines``. Temporary tables are
kept in temporary files, so that millions of rows take no memory.

The worklist of a scrub (R7) is decided at its start. No cursor is stored: the order follows from the time of each
file's last verification. Files that are due come first; then suspects (R2), interleaved with others by bytes, so that
suspects get at most half of any window; then the rest by day of the last verification (never verified first), and
within a day by inode, which is roughly disk order. If many files of a root are suspects (``chown -R``), they get no
priority, so that due dates are kept. A suspect with an open finding about its content was read since: it has no
priority. After a run that stopped because of a failing device, the files that it did not reach come first. Files known
to be unreadable come last, because each costs failing reads.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from itertools import starmap
from operator import itemgetter
from typing import NamedTuple

from integrity.catalog.baselines import require_record
from integrity.catalog.blocks import load_blocks, load_run
from integrity.catalog.coverage import IS_SUSPECT, has_prioritized
from integrity.catalog.db import Connection, names, numbers
from integrity.catalog.rows import (
    DAY_S,
    FILE_JOIN,
    RECORD_COLUMNS,
    FileContent,
    FileRecord,
    below,
    inside,
    inside_by_id,
    inside_in_order,
    join_path,
    load_records,
    quoted,
    select_last_check,
    split_path,
    unless_ahead,
)
from integrity.kinds import STOPPED_READING
from integrity.model import Blocks, FileId, RootId, Stamps


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


_KNOWN = """
    SELECT
        file.id, file.size_bytes, file.mtime_ns, file.ctime_ns, file.inode, file.is_racy, file.is_suspect,
        file.is_frozen, file.seen_inode, file.seen_ctime_ns, file.name
    FROM folder JOIN file ON file.folder_id = folder.id WHERE folder.root_id = ?"""
_HAS_INODE = "(file.seen_inode = ?1 OR (file.inode = ?1 AND file.seen_inode IS NULL))"


def find_known(
    c: Connection, root_id: RootId, folder_path: bytes, some: Sequence[bytes] | None = None
) -> dict[bytes, KnownFile]:
    """Return the recorded files of a folder, or those that have one of these names, by name. All loops run in C."""
    query, values = f"{_KNOWN} AND folder.path = ?", (root_id, folder_path)
    if some is None:
        rows = list(c.rows(query, *values))
    else:
        rows = list(c.rows(f"{query} AND file.name IN (SELECT unhex(value) FROM json_each(?))", *values, names(some)))
    return dict(zip(map(_name_of, rows), map(_make_known, map(_fields_of, rows)), strict=True))


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


class KnownInode(NamedTuple):
    """What a file of an inode is recognized by."""

    inode: int
    size_bytes: int
    mtime_ns: int
    is_frozen: int


def find_known_inodes(c: Connection, place: RootId | str, inodes: Iterable[int]) -> list[KnownInode]:
    """Return what is recorded of some inodes, of a root or of all roots on a file system; one may be there twice."""
    is_there = "root.fs_id = ?2" if isinstance(place, str) else "root.id = ?2"
    parts = (
        f"""
        SELECT file.{column}, file.size_bytes, file.mtime_ns, file.is_frozen
        FROM {FILE_JOIN} JOIN root ON root.id = folder.root_id
        WHERE file.{column} IN (SELECT value FROM json_each(?1)) AND {is_there}"""
        for column in ("inode", "seen_inode")
    )
    return c.all(KnownInode, " UNION ALL ".join(parts), numbers(inodes), place)


def find_ids_of_inode(c: Connection, root_id: RootId, inode: int) -> list[FileId]:
    """Return the ids of these files, oldest baseline first. For an inode with very many names."""
    query = f"""
        SELECT file.id FROM {FILE_JOIN} WHERE {_HAS_INODE} AND folder.root_id = ?2 ORDER BY file.recorded_at, file.id"""
    return c.column(query, inode, root_id)


def find_by_content(c: Connection, root_id: RootId | None, contents: Sequence[FileContent]) -> list[list[FileRecord]]:
    """Return the files of a root (None: of all) recorded with each content. Scans all: pass many at once."""
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
    part, values = inside_by_id(c, root_id, prefix, after)
    query = f"""
        SELECT file.id, folder.path, file.name, file.size_bytes FROM {FILE_JOIN}
        WHERE {part} ORDER BY file.id LIMIT ?"""
    return [(row[0], join_path(row[1], row[2]), row[3]) for row in c.rows(query, *values, limit)]


def count_files_below(c: Connection, root_id: RootId, folder_path: bytes, *, is_deep: bool) -> int:
    """Count the files of a folder; ``is_deep``: with those of all folders below it."""
    is_in, values = below("folder.path", folder_path) if is_deep else ("folder.path = ?", (folder_path,))
    return c.value(f"SELECT count(*) FROM {FILE_JOIN} WHERE folder.root_id = ? AND {is_in}", root_id, *values)


def find_in_order(c: Connection, root_id: RootId, prefix: bytes = b"") -> Iterator[FileRecord]:
    """Yield the files at or below a path, in the order of folder path and name, both bytewise."""
    part, values = inside_in_order(root_id, prefix)
    query = f"SELECT {RECORD_COLUMNS} FROM {FILE_JOIN} WHERE {part} ORDER BY folder.path, file.name"
    return starmap(FileRecord.make, c.rows(query, *values))


ORDER_COLUMNS = "seq INTEGER PRIMARY KEY, file_id INTEGER NOT NULL, size_bytes INTEGER NOT NULL"
"""Of a temporary table of files in the order of ``seq``."""


def make_anew(c: Connection, name: str, columns: str) -> None:
    """Create a temporary table in a temporary file of the connection, in place of the last one of that name."""
    c.run(f"DROP TABLE IF EXISTS temp.{name}")
    c.run(f"CREATE TEMPORARY TABLE {name} ({columns})")


def sum_up(c: Connection, order: str) -> tuple[int, int]:
    """Return the number of files in a temporary table with ``ORDER_COLUMNS``, and their total size in bytes."""
    return next(c.rows(f"SELECT count(*), coalesce(sum(size_bytes), 0) FROM temp.{order}"))


LEAST_INODE = -(1 << 63)


class FoundName(NamedTuple):
    """A name under which a walk found an inode that may be the one of another record."""

    inode: int
    folder: bytes
    name: bytes
    is_recorded: int  # the name has a record, with another inode


def make_found_names(c: Connection) -> None:
    """Create the list of found names, a temporary table, in place of the last one."""
    columns = "inode INTEGER NOT NULL, folder BLOB NOT NULL, name BLOB NOT NULL, is_recorded INTEGER NOT NULL"
    make_anew(c, "found_name", f"seq INTEGER PRIMARY KEY, {columns}")
    c.run("CREATE INDEX temp.found_name_inode ON found_name (inode)")


def add_found_names(c: Connection, names: Iterable[FoundName]) -> None:
    """Add names to the list."""
    c.run_many("INSERT INTO temp.found_name (inode, folder, name, is_recorded) VALUES (?, ?, ?, ?)", names)


def page_found_names(c: Connection, least_inode: int, limit: int) -> list[FoundName]:
    """Return about so many names, sorted by inode from this one on, with all names of each inode."""
    query = """
        SELECT inode, folder, name, is_recorded FROM temp.found_name
        WHERE inode >= ?1 AND inode <= (
            SELECT max(inode) FROM (SELECT inode FROM temp.found_name WHERE inode >= ?1 ORDER BY inode LIMIT ?2)
        ) ORDER BY inode, seq"""
    return c.all(FoundName, query, least_inode, limit)


_ANY_SIZE = (1 << 63) - 1


class WorkOrder(NamedTuple):
    """What a scrub must verify."""

    root_id: RootId
    prefix: bytes  # only below this folder, or this one file; empty: all files
    now: int
    never_verified_only: bool = False
    older_than_at: int | None = None  # only files last verified (or recorded) before this time
    due_before_at: int | None = None  # files last verified (or recorded) before this time are due and come first
    percent: float | None = None  # only this share of the bytes below the prefix
    at_least_bytes: int | None = None  # due files, and more in the order of the list until this size is reached
    has_suspects: bool = False  # besides, suspects that have priority: whatever else the order leaves out


def create_worklist(c: Connection, order: WorkOrder) -> tuple[int, int]:
    """Create the list of files to verify, a temporary table, in place of the last one; return number and bytes."""
    make_anew(c, "worklist", f"{ORDER_COLUMNS}, is_due INTEGER NOT NULL")
    last_check = select_last_check(order.now)
    part, values = inside(order.root_id, order.prefix)
    conditions = ["verified_at IS NULL"] if order.never_verified_only else []
    if order.older_than_at is not None:
        conditions.append(f"last_check < {order.older_than_at}")
    left_alone_at = _find_left_alone_at(c, order.root_id)
    is_prioritized = has_prioritized(c, order.root_id)
    is_early = "is_suspect" if order.has_suspects and is_prioritized else "0"
    # is_frozen is true for each unreadable file: it avoids a search for findings of the others.
    query = f"""
        INSERT INTO worklist (file_id, size_bytes, is_due)
        WITH checked AS (
            SELECT file.id, file.size_bytes, file.inode, {IS_SUSPECT} AS is_suspect, {last_check} AS last_check,
                {unless_ahead("file.verified_at", order.now)} AS verified_at,
                {"0" if order.due_before_at is None else f"{last_check} < {order.due_before_at}"} AS is_due,
                {"0" if left_alone_at is None else f"{last_check} < {left_alone_at}"} AS is_left_alone,
                file.is_frozen = 1 AND EXISTS (
                    SELECT 1 FROM finding
                    WHERE finding.file_id = file.id AND finding.kind = 'unreadable' AND finding.state != 'resolved'
                ) AS is_unreadable
            FROM file JOIN folder ON folder.id = file.folder_id WHERE {part}
        ) SELECT id, size_bytes, is_due OR {is_early} FROM checked WHERE {" AND ".join(conditions) or "1"} OR {is_early}
        ORDER BY is_unreadable, is_left_alone DESC, is_due DESC, {_INTERLEAVED if is_prioritized else ""} {_BY_DISK}"""
    c.run(query, *values)
    if order.percent is not None:
        sql = f"SELECT sum(file.size_bytes) FROM file JOIN folder ON folder.id = file.folder_id WHERE {part}"
        _cut(c, (c.value(sql, *values) or 0) * order.percent / 100)
    if order.at_least_bytes is not None:
        # One file larger than a window would displace all others.
        size = f"min(size_bytes, {-(-order.at_least_bytes // 2)})"
        _cut(c, order.at_least_bytes, size=size, keeps_due=True)
    return sum_up(c, "worklist")


_BY_DISK = f"coalesce(verified_at / {DAY_S}, -1), inode, id"
_INTERLEAVED = f"""
    sum(size_bytes) OVER (
        PARTITION BY is_unreadable, is_left_alone, is_due, is_suspect ORDER BY {_BY_DISK}
    ) - size_bytes, is_suspect DESC,"""
"""Running total of bytes within each kind: sorting by it interleaves suspects with others, suspects first."""


def _find_left_alone_at(c: Connection, root_id: RootId) -> int | None:
    """Return when the last run started that stopped because of a failing device; None: no such finding is open."""
    query = f"""
        SELECT max(run.started_at) FROM run JOIN finding ON finding.run_id = run.id
        WHERE finding.root_id = ? AND finding.kind IN ({quoted(STOPPED_READING)}) AND finding.state != 'resolved'"""
    return c.value(query, root_id)


def _cut(c: Connection, wanted_bytes: float, *, size: str = "size_bytes", keeps_due: bool = False) -> None:
    """Shorten the list to the first files that reach ``wanted_bytes`` in total, and those that are due if asked to."""
    sums = f"SELECT seq, sum({size}) OVER (ORDER BY seq) AS total FROM worklist"
    last = c.value(f"SELECT min(seq) FROM ({sums}) WHERE total >= ?", wanted_bytes)
    if last is not None:
        is_cut = "seq > ? AND NOT is_due" if keeps_due else "seq > ?"
        c.run(f"DELETE FROM worklist WHERE {is_cut}", last if wanted_bytes else 0)


def count_larger(c: Connection, size_bytes: int) -> int:
    """Count the files in the list that are larger than a size."""
    return c.value("SELECT count(*) FROM worklist WHERE size_bytes > ?", size_bytes)


def page_worklist(
    c: Connection, after_seq: int, limit: int = 1000, *, larger_than: int | None = None, up_to: int | None = None
) -> list[tuple[int, FileRecord]]:
    """Return the next files (position, record) after a position, without those that were removed meanwhile."""
    rows = c.rows(
        f"""
        SELECT worklist.seq, {RECORD_COLUMNS} FROM worklist CROSS JOIN {FILE_JOIN}
        WHERE worklist.file_id = file.id AND worklist.seq > ? AND worklist.size_bytes > ? AND worklist.size_bytes <= ?
        ORDER BY worklist.seq LIMIT ?""",
        *(after_seq, -1 if larger_than is None else larger_than, _ANY_SIZE if up_to is None else up_to, limit),
    )
    return [(seq, FileRecord.make(*row)) for seq, *row in rows]
