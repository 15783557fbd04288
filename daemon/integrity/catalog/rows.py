"""
Rows of ``file`` as records, with their seals checked.

A damaged row must come out as a record that says so (``is_sealed`` False), never as an exception: the job that meets it
opens a finding about the catalog and goes on (R9).

Times that lie ahead of the clock: it was wrong when they were written, so nothing follows from them.

Taken as they are, a file that was verified while the clock was a year ahead would not be due for a year.

Words and lists as they are stored, read back with damage in mind.
"""

from __future__ import annotations

import json
import sqlite3
import struct
from collections.abc import Iterable, Iterator, Sequence
from enum import StrEnum
from itertools import islice
from typing import Any, NamedTuple, TypeVar

import sqlalchemy as sa

from integrity.catalog.compiled_sql import CompiledStatement, sealer_of
from integrity.catalog.schema import file, folder, root
from integrity.catalog.seal import Sealer
from integrity.errors import CatalogCorrupt, RecordSuperseded, show_path
from integrity.model import BaselineReason, Blocks, Digests, FileId, FolderId, ReadHow, RootId, Witness

IDS_AT_ONCE = 256
"""Parameters of one IN list; shorter lists are filled up, so that one compiled statement serves all."""

T = TypeVar("T")

_REASONS = {reason.value: reason for reason in BaselineReason}
_HOWS: dict[str | None, ReadHow | None] = {how.value: how for how in ReadHow} | {None: None}
_WORDS = {word: (word or "").encode() for word in (*_REASONS, *_HOWS)}


class Sighting(NamedTuple):
    """What stood under the name of a file when it was last seen, unread, with the recorded size and mtime."""

    inode: int
    ctime_ns: int


class FileRecord(NamedTuple):
    """All that is recorded of one file."""

    id: FileId
    root_id: RootId
    folder_id: FolderId
    path: bytes  # relative to the root, whole
    witness: Witness
    digests: Digests
    block_size_bytes: int | None  # None: the file fits one block, the whole-file digests judge
    version: int
    recorded_at: int
    reason: BaselineReason
    verified_at: int | None
    read_how: ReadHow | None
    boot_id: int | None
    is_suspect: bool
    is_frozen: bool
    is_sealed: bool  # False: the row is damaged, nothing in it may be relied on
    seal: bytes  # of the baseline, as stored
    state_seal: bytes  # of what runs noted about it, as stored
    seen: Sighting | None = None  # of a suspect; None: unknown

    @property
    def last_inode(self) -> int:
        """The inode that was last seen under the name."""
        return self.witness.inode if self.seen is None else self.seen.inode


class FileContent(NamedTuple):
    """What tells the content of a file from others: its size, and digests of the whole or of all blocks."""

    size_bytes: int
    digests: Digests
    blocks: Blocks | None

    @property
    def whole_digests(self) -> tuple[bytes, ...]:
        """Name the digests of the whole file that records are looked up by."""
        return tuple(one for one in (self.digests.md5, self.digests.xxh3_128) if one is not None)


RECORD_COLUMNS: tuple[sa.ColumnElement[Any], ...] = (
    file.c.id,
    folder.c.root_id,
    file.c.folder_id,
    root.c.token,
    folder.c.path,
    *(file.c[name] for name in ("name", "size_bytes", "mtime_ns", "ctime_ns", "inode", "is_racy")),
    *(file.c[name] for name in ("md5", "xxh3_128", "blake3", "block_size_bytes", "version", "recorded_at", "reason")),
    *(file.c[name] for name in ("verified_at", "read_how", "boot_id", "is_suspect", "is_frozen", "seal")),
    *(file.c.crc64nvme, file.c.state_seal, file.c.seen_inode, file.c.seen_ctime_ns),
)
FILE_JOIN = file.join(folder, file.c.folder_id == folder.c.id).join(root, folder.c.root_id == root.c.id)

_BY_ID = CompiledStatement(
    sa.select(*RECORD_COLUMNS).select_from(FILE_JOIN).where(file.c.id == sa.bindparam("id")), "id"
)


def in_list(column: sa.ColumnElement[Any]) -> tuple[sa.ColumnElement[bool], tuple[str, ...]]:
    """Make ``column IN (...)`` with ``IDS_AT_ONCE`` parameters, and name them."""
    names = tuple(f"in_{number}" for number in range(IDS_AT_ONCE))
    return column.in_([sa.bindparam(name, type_=column.type) for name in names]), names


def padded(values: Sequence[T]) -> tuple[T, ...]:
    """Fill a list up by repeating its last value, for ``in_list``."""
    return (*values, *[values[-1]] * (IDS_AT_ONCE - len(values)))


def chunked(values: Iterable[T]) -> Iterator[list[T]]:
    """Cut values into lists of at most ``IDS_AT_ONCE``."""
    iterator = iter(values)
    while chunk := list(islice(iterator, IDS_AT_ONCE)):
        yield chunk


_IN_IDS, _IN_NAMES = in_list(file.c.id)
_BY_IDS = CompiledStatement(sa.select(*RECORD_COLUMNS).select_from(FILE_JOIN).where(_IN_IDS), *_IN_NAMES)


def join_path(folder_path: bytes, name: bytes) -> bytes:
    """Make the path of a file from its folder's (empty for the root's own) and its name."""
    return folder_path + b"/" + name if folder_path else name


def split_path(path: bytes) -> tuple[bytes, bytes]:
    """Cut a path into its folder's path (empty for the root's own) and its name."""
    folder_path, _, name = path.rpartition(b"/")
    return folder_path, name


def below(column: sa.ColumnElement[Any], prefix: bytes) -> sa.ColumnElement[bool]:
    """Match ``prefix`` itself and all paths below it; everything for an empty one. An index on the path serves it."""
    if not prefix:
        return sa.true()
    return sa.or_(column == prefix, sa.and_(column > prefix + b"/", column < prefix + b"0"))  # "0" follows "/"


def require_rising(keys: Iterable[Any], after: Any = None) -> None:
    """
    Raise CatalogCorrupt unless each key of a page is greater than the one before it, the first than ``after``.

    SQLite trusts the order of its own pages: after a flipped bit in a row's number the same page comes for ever.
    """
    for key in keys:
        if after is not None and not key > after:
            raise CatalogCorrupt(f"the catalog's rows are out of order ({key!r} after {after!r}): {_ADVICE}")
        after = key


_ADVICE = "look at it with `integrity catalog check`, then bring back a backup with `integrity catalog restore`"


def inside(root_id: RootId, prefix: bytes, *, is_hidden: bool = False) -> sa.ColumnElement[bool]:
    """
    Match the files of a root below ``prefix``, or the one file of that path; all for an empty one.

    Args:
        root_id: the root.
        prefix: relative to the root.
        is_hidden: keep SQLite from starting at the folders: for statements that go through the table of files.
    """
    if not prefix:
        return (folder.c.root_id + sa.literal_column("0") if is_hidden else folder.c.root_id) == root_id
    # Two conditions on the file alone, each with an index: over the join SQLite would look at every file.
    folders = folder.alias("folder_below")
    ids = sa.select(folders.c.id).where(folders.c.root_id == root_id, below(folders.c.path, prefix))
    folder_path, name = split_path(prefix)
    files, parent = file.alias("file_itself"), folder.alias("folder_above")
    itself = (
        sa.select(files.c.id)
        .join(parent, files.c.folder_id == parent.c.id)
        .where(parent.c.root_id == root_id, parent.c.path == folder_path, files.c.name == name)
    )
    zero: sa.ColumnElement[int] = sa.literal_column("0")
    folder_id, file_id = (file.c.folder_id + zero, file.c.id + zero) if is_hidden else (file.c.folder_id, file.c.id)
    return sa.or_(folder_id.in_(ids), file_id == itself.scalar_subquery())


def load_record(c: sa.Connection, sealer: Sealer, file_id: FileId) -> FileRecord | None:
    """Load one record; None if there is no such file."""
    row = _BY_ID.run(c, file_id).fetchone()
    return None if row is None else to_record(sealer, row)


def is_current(c: sa.Connection, record: FileRecord) -> bool:
    """
    Say whether a file is recorded now as it was when ``record`` was loaded.

    The seal covers all that a verdict rests on (path, witness, digests, version), so that it shows what accept, forget,
    repair and reseal did meanwhile: a person's word takes no lock.
    """
    now = load_record(c, sealer_of(c), record.id)
    return now is not None and (now.seal, now.is_sealed) == (record.seal, record.is_sealed)


def find_current(c: sa.Connection, records: Sequence[FileRecord]) -> set[FileId]:
    """Name those of many files that are recorded now as they were when their records were loaded (``is_current``)."""
    now = {one.id: (one.seal, one.is_sealed) for one in load_records(c, sealer_of(c), [one.id for one in records])}
    return {one.id for one in records if now.get(one.id) == (one.seal, one.is_sealed)}


def require_current(c: sa.Connection, record: FileRecord) -> None:
    """
    Refuse to write a conclusion about a file whose record is not the one that it was judged against.

    Raises:
        RecordSuperseded: the file is to be judged anew.
    """
    if not is_current(c, record):
        raise RecordSuperseded(f"{show_path(record.path)}: its record was replaced or forgotten meanwhile")


def load_records(c: sa.Connection, sealer: Sealer, ids: Iterable[FileId]) -> Iterator[FileRecord]:
    """Load records in the order of ``ids``, leaving out those that are gone."""
    for chunk in chunked(ids):
        found = {row[0]: row for row in _BY_IDS.run(c, *padded(chunk))}
        yield from (to_record(sealer, found[file_id]) for file_id in chunk if file_id in found)


def to_records(sealer: Sealer, rows: sqlite3.Cursor | Sequence[Any]) -> list[FileRecord]:
    """Make records of rows with RECORD_COLUMNS."""
    return [to_record(sealer, row) for row in rows]


def to_record(sealer: Sealer, row: Sequence[Any]) -> FileRecord:
    """Make a record of a row with RECORD_COLUMNS, and check its seal."""
    (file_id, root_id, folder_id, token, folder_path, name, size, mtime, ctime, inode, racy, *rest) = row
    (md5, xxh3_128, blake3, block_size, version, recorded, reason, verified, how, boot, *rest) = rest
    (suspect, frozen, seal, crc64nvme, state_seal, *seen) = rest
    digests = Digests(md5, xxh3_128, blake3, crc64nvme)
    try:
        path = join_path(folder_path, name)
        witness = Witness(size, mtime, ctime, inode, racy)
        sealed = sealer.seal_file(token, path, witness, digests, block_size, version)
        words = _WORDS[reason], _WORDS[how]
        state = sealer.seal_state(
            *(file_id, seal, recorded, words[0], verified, words[1], boot, suspect, frozen), *seen
        )
        is_sealed = sealed == seal and state == state_seal
    except (TypeError, ValueError, KeyError, struct.error):
        return _damaged(row)
    return FileRecord(
        file_id,
        root_id,
        folder_id,
        path,
        Witness(size, mtime, ctime, inode, bool(racy)),
        digests,
        block_size,
        version,
        _number(recorded),
        _REASONS.get(reason, BaselineReason.RECORDED),
        verified if type(verified) is int else None,
        _HOWS.get(how),
        boot if type(boot) is int else None,
        bool(suspect),
        bool(frozen),
        is_sealed,
        _raw(seal),
        _raw(state_seal),
        None if seen[0] is None else Sighting(*seen),
    )


def _damaged(row: Sequence[Any]) -> FileRecord:
    """Make a record of a row whose fields are not even of their types: its path, for the finding, and little else."""
    return FileRecord(
        id=row[0],
        root_id=row[1],
        folder_id=row[2],
        path=join_path(_raw(row[4]), _raw(row[5])),
        witness=Witness(_number(row[6]), _number(row[7]), _number(row[8]), _number(row[9])),
        digests=Digests(),
        block_size_bytes=None,
        version=_number(row[15]),
        recorded_at=_number(row[16]),
        reason=BaselineReason.RECORDED,
        verified_at=None,
        read_how=None,
        boot_id=None,
        is_suspect=False,
        is_frozen=bool(row[22]),
        is_sealed=False,
        seal=_raw(row[23]),
        state_seal=_raw(row[25]),
    )


def _number(value: object) -> int:
    return value if type(value) is int else 0


def _raw(value: object) -> bytes:
    return value if isinstance(value, bytes) else str(value).encode("utf-8", "surrogateescape")


TOLERANCE_S = 15 * 60
"""A clock that is corrected by so little makes nobody read a file again."""

NEVER_AT = 0
"""The time of a last look that is not known."""


def unless_ahead(column: sa.ColumnElement[int], now: int) -> sa.ColumnElement[int]:
    """Take a time as it is; null if it lies ahead of the clock."""
    return sa.case((column <= now + TOLERANCE_S, column))


def looked_at(
    verified_at: sa.ColumnElement[int], recorded_at: sa.ColumnElement[int], now: int
) -> sa.ColumnElement[int]:
    """Tell when a file was last looked at: the clock of the promise starts when it is recorded."""
    return sa.func.coalesce(unless_ahead(verified_at, now), unless_ahead(recorded_at, now), NEVER_AT)


def when_looked_at(verified_at: int | None, recorded_at: int, now: int) -> int:
    """Tell of one file when it was last looked at, as ``looked_at`` does of many."""
    known = (at for at in (verified_at, recorded_at) if at is not None and at <= now + TOLERANCE_S)
    return next(known, NEVER_AT)


Word = TypeVar("Word", bound=StrEnum)


def read_word(kind: type[Word], stored: object) -> Word:
    """Turn a stored word into its enumeration's, or raise CatalogCorrupt."""
    try:
        return kind(str(stored))
    except ValueError as error:
        raise CatalogCorrupt(
            f"the catalog holds {stored!r} where a {kind.__name__} should be; look at it with: integrity catalog check"
        ) from error


def read_optional_word(kind: type[Word], stored: object) -> Word | None:
    """Do the same where there may be none."""
    return None if stored is None else read_word(kind, stored)


def read_numbers(stored: object) -> tuple[int, ...]:
    """Turn a stored list of numbers into a tuple, or raise CatalogCorrupt."""
    return tuple(value for (value,) in _read_rows([[value] for value in _read_list(stored)], 1, stored))


def read_ranges(stored: object) -> tuple[tuple[int, int], ...]:
    """Turn a stored list of (offset, length) into tuples, or raise CatalogCorrupt."""
    return tuple((row[0], row[1]) for row in _read_rows(_read_list(stored), 2, stored))


def _read_list(stored: object) -> list[object]:
    try:
        found = json.loads(str(stored))
    except ValueError as error:
        raise _no_list(stored) from error
    if not isinstance(found, list):
        raise _no_list(stored)
    return found


def _read_rows(rows: list[object], length: int, stored: object) -> list[list[int]]:
    sound: list[list[int]] = []
    for row in rows:
        if not isinstance(row, list) or len(row) != length or not all(isinstance(value, int) for value in row):
            raise _no_list(stored)
        sound.append(row)
    return sound


def _no_list(stored: object) -> CatalogCorrupt:
    shown = str(stored)[:40]
    return CatalogCorrupt(
        f"the catalog holds {shown!r} where a list of numbers should be; look at it with: integrity catalog check"
    )
