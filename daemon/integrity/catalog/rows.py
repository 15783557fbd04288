"""
Rows of ``file`` as records, and pieces of SQL that several modules share.

A time ahead of the clock is ignored, because the clock was wrong when it was written. Otherwise a file that was
verified while the clock was a year ahead would not be due for a year.

Records age by the days on which the program ran, so that none is deleted because of a clock: an empty battery starts a
machine in 1970. The days that the clock showed are kept (``days_run`` in ``meta``), each once, as they were last seen.

I1  A record is outdated only after the program ran on as many different days since the last time that the clock showed
    the day of the record.
"""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from enum import StrEnum
from typing import Any, NamedTuple, TypeVar

from integrity import program
from integrity.catalog.db import Connection, Value, numbers
from integrity.errors import CatalogCorrupt, RecordSuperseded, show_path
from integrity.model import BaselineReason, Blocks, Digests, FileId, FolderId, ReadHow, RootId, Witness

Word = TypeVar("Word", bound=StrEnum)

TOLERANCE_S = 15 * 60  # clock corrections up to this size do not make files due
NEVER_AT = 0  # time of the last verification when it is unknown
DAY_S = 86_400

_SMALL_SUBTREE = 50_000
MOST_DAYS = 400  # how many days are kept, and so the longest that a record can be kept by them


class Sighting(NamedTuple):
    """The file that was last seen under a name, unread, with the recorded size and mtime."""

    inode: int
    ctime_ns: int


class FileRecord(NamedTuple):
    """The record of one file."""

    id: FileId
    root_id: RootId
    folder_id: FolderId
    path: bytes  # relative to the root, whole
    witness: Witness
    digests: Digests
    block_size_bytes: int | None  # None: the file fits one block and is judged by its whole-file digests
    version: int
    recorded_at: int
    reason: BaselineReason
    verified_at: int | None
    read_how: ReadHow | None
    boot_id: int | None
    is_suspect: bool
    is_frozen: bool
    seen: Sighting | None = None  # of a suspect; None: unknown
    stored: "FileRecord | None" = None  # the stored record, if this one was given other content of the file

    @classmethod
    def make(cls, *row: Any) -> "FileRecord":
        """Make a record from ``RECORD_COLUMNS``."""
        file_id, root_id, folder_id, folder_path, name, *rest = row
        size_bytes, mtime_ns, ctime_ns, inode, is_racy, md5, xxh3_128, blake3, crc64nvme, *rest = rest
        block_size_bytes, version, recorded_at, reason, verified_at, read_how, boot_id, *rest = rest
        is_suspect, is_frozen, seen_inode, seen_ctime_ns = rest
        place = file_id, root_id, folder_id, join_path(folder_path, name)
        witness = Witness(size_bytes, mtime_ns, ctime_ns, inode, bool(is_racy))
        digests = Digests(md5, xxh3_128, blake3, crc64nvme)
        baseline = block_size_bytes, version, recorded_at, read_word(BaselineReason, reason)
        state = verified_at, read_optional_word(ReadHow, read_how), boot_id, bool(is_suspect), bool(is_frozen)
        seen = None if seen_inode is None else Sighting(seen_inode, seen_ctime_ns)
        return cls._make((*place, witness, digests, *baseline, *state, seen, None))

    @property
    def is_candidate(self) -> bool:
        """Return whether this record was given the content of the file's candidate."""
        return self.stored is not None and self.stored.id == self.id and self.version == self.stored.version + 1

    @property
    def last_inode(self) -> int:
        """Return the inode that was last seen under the name."""
        return self.witness.inode if self.seen is None else self.seen.inode

    def is_same_baseline(self, other: "FileRecord") -> bool:
        """Return whether all that decides a verdict is the same: no user accepted, forgot, or repaired it."""
        one, another = self.stored or self, other.stored or other
        return (one.path, one.witness, one.digests, one.block_size_bytes, one.version) == (
            *(another.path, another.witness, another.digests, another.block_size_bytes, another.version),
        )


class FileContent(NamedTuple):
    """Content of a file for comparison: its size, and digests of the whole file or of all blocks."""

    size_bytes: int
    digests: Digests
    blocks: Blocks | None

    @property
    def whole_digests(self) -> tuple[bytes, ...]:
        """Return the whole-file digests that records are looked up by."""
        return tuple(one for one in (self.digests.md5, self.digests.xxh3_128) if one is not None)


RECORD_COLUMNS = """
    file.id, folder.root_id, file.folder_id, folder.path, file.name,
    file.size_bytes, file.mtime_ns, file.ctime_ns, file.inode, file.is_racy,
    file.md5, file.xxh3_128, file.blake3, file.crc64nvme, file.block_size_bytes, file.version,
    file.recorded_at, file.reason, file.verified_at, file.read_how, file.boot_id,
    file.is_suspect, file.is_frozen, file.seen_inode, file.seen_ctime_ns"""
"""For ``FileRecord.make``."""

FILE_JOIN = "file JOIN folder ON folder.id = file.folder_id"


def join_path(folder_path: bytes, name: bytes) -> bytes:
    """Join a folder's path (empty for the root's own) and a file name."""
    return folder_path + b"/" + name if folder_path else name


def split_path(path: bytes) -> tuple[bytes, bytes]:
    """Split a path into its folder's path (empty for the root's own) and the file name."""
    folder_path, _, name = path.rpartition(b"/")
    return folder_path, name


def below(column: str, prefix: bytes) -> tuple[str, tuple[bytes, ...]]:
    """Return the condition, and its values, for ``prefix`` and all paths below it, by an index; empty: all."""
    if not prefix:
        return "1", ()
    # "0" follows "/"
    return f"({column} = ? OR ({column} > ? AND {column} < ?))", (prefix, prefix + b"/", prefix + b"0")


def inside(root_id: RootId, prefix: bytes, *, is_hidden: bool = False) -> tuple[str, tuple[Value, ...]]:
    """
    Return the condition, and its values, for the files of a root below ``prefix``, or the file at this path.

    ``is_hidden``: keep SQLite from starting at the folders, for statements that scan the table of files.
    """
    plus = "+" if is_hidden else ""
    if not prefix:
        return f"{plus}folder.root_id = ?", (root_id,)
    # Two conditions on file alone, each with an index: a condition on the join would make SQLite scan every file.
    is_below, bounds = below("folder.path", prefix)
    condition = f"""(
        {plus}file.folder_id IN (SELECT folder.id FROM folder WHERE folder.root_id = ? AND {is_below})
        OR {plus}file.id = (
            SELECT file.id FROM file JOIN folder ON folder.id = file.folder_id
            WHERE folder.root_id = ? AND folder.path = ? AND file.name = ?
        )
    )"""
    return condition, (root_id, *bounds, root_id, *split_path(prefix))


def inside_by_id(c: Connection, root_id: RootId, prefix: bytes, after: int) -> tuple[str, tuple[Value, ...]]:
    """Return the same for a page in the order of ids, ``after`` the last one before it."""
    # "+" hides a column from SQLite's planner: a small part of a large root is found by folder, anything else is read
    # in the order of the table.
    part, values = inside(root_id, prefix)
    some = f"SELECT file.id FROM {FILE_JOIN} WHERE {part} LIMIT {_SMALL_SUBTREE}"
    if prefix and c.value(f"SELECT count(*) FROM ({some})", *values) < _SMALL_SUBTREE:
        return f"{part} AND +file.id > ?", (*values, after)
    part, values = inside(root_id, prefix, is_hidden=True)
    return f"{part} AND file.id > ?", (*values, after)


def inside_in_order(root_id: RootId, prefix: bytes, begin: bytes = b"") -> tuple[str, tuple[Value, ...]]:
    """
    Return the same for statements in the order of folder path and name, which then sort nothing.

    ``begin``: only files of this folder and of those that follow it.
    """
    folder_path, name = split_path(prefix)
    part, values = "folder.root_id = ? AND folder.path >= ?", (root_id, max(folder_path, begin))
    if not prefix:
        return part, values
    is_below, bounds = below("folder.path", prefix)
    part += f" AND folder.path < ? AND (folder.path = ? OR {is_below}) AND (folder.path != ? OR file.name = ?)"
    return part, (*values, prefix + b"0", folder_path, *bounds, folder_path, name)


def given(conditions: Mapping[str, Value]) -> tuple[str, tuple[Value, ...]]:
    """Return those of the conditions that have a value, joined, and these values; without any: ``1``."""
    known = {condition: value for condition, value in conditions.items() if value is not None}
    return " AND ".join(known) or "1", tuple(known.values())


def quoted(words: Iterable[str]) -> str:
    """Write words of ours, such as kinds, for ``IN (...)``."""
    return ", ".join(f"'{word}'" for word in sorted(words))


def load_record(c: Connection, file_id: FileId) -> FileRecord | None:
    """Load one record; None if the file is not recorded."""
    return c.one(FileRecord.make, f"SELECT {RECORD_COLUMNS} FROM {FILE_JOIN} WHERE file.id = ?", file_id)


def load_records(c: Connection, ids: Iterable[FileId]) -> Iterator[FileRecord]:
    """Load records in the order of ``ids``, leaving out those that are gone."""
    ids = list(ids)
    query = f"SELECT {RECORD_COLUMNS} FROM {FILE_JOIN} WHERE file.id IN (SELECT value FROM json_each(?))"
    found = {one.id: one for one in c.all(FileRecord.make, query, numbers(ids))}
    return (found[file_id] for file_id in ids if file_id in found)


def is_current(c: Connection, record: FileRecord) -> bool:
    """Return whether the record of a file still has the baseline of ``record``."""
    now = load_record(c, record.id)
    return now is not None and now.is_same_baseline(record)


def find_current(c: Connection, records: Sequence[FileRecord]) -> set[FileId]:
    """Return the files whose records still have the baselines of these (``is_current``)."""
    known = {one.id: one for one in records}
    return {one.id for one in load_records(c, known) if one.is_same_baseline(known[one.id])}


def require_current(c: Connection, record: FileRecord) -> None:
    """Raise RecordSuperseded if a file's record is not the one any more that it was judged against."""
    if not is_current(c, record):
        raise RecordSuperseded(f"{show_path(record.path)}: its record was replaced or forgotten meanwhile")


def unless_ahead(column: str, now: int) -> str:
    """Return, as SQL, a time, or NULL if it is ahead of the clock."""
    return f"CASE WHEN {column} <= {now + TOLERANCE_S} THEN {column} END"


def select_last_check(now: int) -> str:
    """Return, as SQL, when a file was last verified, or recorded if it never was."""
    return f"coalesce({unless_ahead('file.verified_at', now)}, {unless_ahead('file.recorded_at', now)}, {NEVER_AT})"


def get_last_check(verified_at: int | None, recorded_at: int, now: int) -> int:
    """Return the same for one file."""
    known = (at for at in (verified_at, recorded_at) if at is not None and at <= now + TOLERANCE_S)
    return next(known, NEVER_AT)


def read_word(kind: type[Word], stored: str) -> Word:
    """Convert a stored word to its enumeration, or raise CatalogCorrupt."""
    try:
        return kind(stored)
    except ValueError as error:
        raise CatalogCorrupt(
            f"the catalog holds {stored!r} where a {kind.__name__} should be; look at it with:"
            f" {program.command('catalog check')}"
        ) from error


def read_optional_word(kind: type[Word], stored: str | None) -> Word | None:
    """Convert a stored word or NULL."""
    return None if stored is None else read_word(kind, stored)


def read_numbers(stored: str) -> tuple[int, ...]:
    """Parse a stored list of numbers."""
    return tuple(json.loads(stored))


def note_day(c: Connection, now: int) -> list[int]:
    """Record that the program runs today; return all days, the last one seen at the end. Call it in a transaction."""
    text = c.value("SELECT value FROM meta WHERE key = 'days_run'") or ""
    days, today = [int(day) for day in text.split() if day.lstrip("-").isdigit()], now // DAY_S
    if days[-1:] != [today]:
        days = [*(day for day in days if day != today), today][-MOST_DAYS:]
        c.run("INSERT OR REPLACE INTO meta (key, value) VALUES ('days_run', ?)", " ".join(map(str, days)))
    return days


def is_outdated(c: Connection, written_at: str, keep_days: int, now: int) -> str:
    """
    Return, as SQL, the condition that a record is older than this many days on which the program ran.

    Args:
        c: in a transaction, since today is noted.
        written_at: the column with the time of the record, by the clock of that moment.
        keep_days: at most ``MOST_DAYS``.
    """
    days = note_day(c, now)[-keep_days:]
    if len(days) < keep_days:
        return "0"
    return f"({written_at} < {min(days) * DAY_S} OR {written_at} >= {(max(days) + 1) * DAY_S})"
