"""
Rows of ``file`` as records with checked seals, and stored values read back defensively.

A damaged row becomes a record with ``is_sealed`` False, never an exception: the job that meets it opens a finding about
the catalog and continues (R9). Stored words and lists raise CatalogCorrupt if they cannot be parsed.

A time ahead of the clock is ignored, because the clock was wrong when it was written. Otherwise a file that was
verified while the clock was a year ahead would not be due for a year.
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

from integrity import program
from integrity.catalog.compiled_sql import CompiledStatement, sealer_of
from integrity.catalog.schema import file, folder, root
from integrity.catalog.seal import Sealer
from integrity.errors import CatalogCorrupt, RecordSuperseded, show_path
from integrity.model import BaselineReason, Blocks, Digests, FileId, FolderId, ReadHow, RootId, Witness

IDS_AT_ONCE = 256
"""Parameters of one IN list. Shorter lists are padded, so that one compiled statement serves all."""

T = TypeVar("T")

_REASONS = {reason.value: reason for reason in BaselineReason}
_HOWS: dict[str | None, ReadHow | None] = {how.value: how for how in ReadHow} | {None: None}
_WORDS = {word: (word or "").encode() for word in (*_REASONS, *_HOWS)}


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
    is_sealed: bool  # False: the row is damaged; do not rely on any field
    seal: bytes  # of the baseline, as stored
    state_seal: bytes  # of the columns in row_seals.STATE, as stored
    seen: Sighting | None = None  # of a suspect; None: unknown

    @property
    def last_inode(self) -> int:
        """Return the inode that was last seen under the name."""
        return self.witness.inode if self.seen is None else self.seen.inode


class FileContent(NamedTuple):
    """Content of a file for comparison: its size, and digests of the whole file or of all blocks."""

    size_bytes: int
    digests: Digests
    blocks: Blocks | None

    @property
    def whole_digests(self) -> tuple[bytes, ...]:
        """Return the whole-file digests that records are looked up by."""
        return tuple(one for one in (self.digests.md5, self.digests.xxh3_128) if one is not None)


RECORD_COLUMNS: tuple[sa.ColumnElement[Any], ...] = (
    file.c.id,
    folder.c.root_id,
    file.c.folder_id,
    root.c.token,
    folder.c.path,
    *(file.c[name] for name in ("name", *Witness._fields, "block_size_bytes", "version", "recorded_at", "reason")),
    *(file.c[name] for name in ("verified_at", "read_how", "boot_id", "is_suspect", "is_frozen")),
    *(file.c[name] for name in ("seal", "state_seal", "seen_inode", "seen_ctime_ns", *Digests._fields)),
)
_RECORD_NAMES = tuple(column.key for column in RECORD_COLUMNS)
FILE_JOIN = file.join(folder, file.c.folder_id == folder.c.id).join(root, folder.c.root_id == root.c.id)

_BY_ID = CompiledStatement(
    sa.select(*RECORD_COLUMNS).select_from(FILE_JOIN).where(file.c.id == sa.bindparam("id")), "id"
)


def in_list(column: sa.ColumnElement[Any]) -> tuple[sa.ColumnElement[bool], tuple[str, ...]]:
    """Return ``column IN (...)`` with ``IDS_AT_ONCE`` parameters, and their names."""
    names = tuple(f"in_{number}" for number in range(IDS_AT_ONCE))
    return column.in_([sa.bindparam(name, type_=column.type) for name in names]), names


def padded(values: Sequence[T]) -> tuple[T, ...]:
    """Pad a list for ``in_list`` by repeating its last value."""
    return (*values, *[values[-1]] * (IDS_AT_ONCE - len(values)))


def chunked(values: Iterable[T]) -> Iterator[list[T]]:
    """Split values into lists of at most ``IDS_AT_ONCE``."""
    iterator = iter(values)
    while chunk := list(islice(iterator, IDS_AT_ONCE)):
        yield chunk


_IN_IDS, _IN_NAMES = in_list(file.c.id)
_BY_IDS = CompiledStatement(sa.select(*RECORD_COLUMNS).select_from(FILE_JOIN).where(_IN_IDS), *_IN_NAMES)


def join_path(folder_path: bytes, name: bytes) -> bytes:
    """Join a folder's path (empty for the root's own) and a file name."""
    return folder_path + b"/" + name if folder_path else name


def split_path(path: bytes) -> tuple[bytes, bytes]:
    """Split a path into its folder's path (empty for the root's own) and the file name."""
    folder_path, _, name = path.rpartition(b"/")
    return folder_path, name


def below(column: sa.ColumnElement[Any], prefix: bytes) -> sa.ColumnElement[bool]:
    """Match ``prefix`` itself and all paths below it; empty: all paths. Can use an index on the path."""
    if not prefix:
        return sa.true()
    return sa.or_(column == prefix, sa.and_(column > prefix + b"/", column < prefix + b"0"))  # "0" follows "/"


def require_rising(keys: Iterable[Any], after: Any = None) -> None:
    """
    Raise CatalogCorrupt unless each key of a page is greater than the previous one, the first than ``after``.

    SQLite trusts the order of its pages: after a bit flip in a row id the same page may be returned forever.
    """
    for key in keys:
        if after is not None and not key > after:
            raise CatalogCorrupt(f"the catalog's rows are out of order ({key!r} after {after!r}): {_advise()}")
        after = key


def _advise() -> str:
    check, restore = program.command("catalog check"), program.command("catalog restore")
    return f"look at it with `{check}`, then bring back a backup with `{restore}`"


def inside(root_id: RootId, prefix: bytes, *, is_hidden: bool = False) -> sa.ColumnElement[bool]:
    """
    Match the files of a root below ``prefix``, or the file at this path; empty: all files.

    ``is_hidden``: keep SQLite from starting at the folders, for statements that scan the table of files.
    """
    if not prefix:
        return (folder.c.root_id + sa.literal_column("0") if is_hidden else folder.c.root_id) == root_id
    # Two conditions on file alone, each with an index: a condition on the join would make SQLite scan every file.
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
    """Load one record; None if the file is not recorded."""
    row = _BY_ID.run(c, file_id).fetchone()
    return None if row is None else to_record(sealer, row)


def is_current(c: sa.Connection, record: FileRecord) -> bool:
    """
    Return whether the record of a file is still the same as ``record``.

    The seal covers all inputs of a verdict (path, witness, digests, version). So it detects an accept, forget, repair,
    or reseal by a user, which takes no root lock.
    """
    now = load_record(c, sealer_of(c), record.id)
    return now is not None and (now.seal, now.is_sealed) == (record.seal, record.is_sealed)


def find_current(c: sa.Connection, records: Sequence[FileRecord]) -> set[FileId]:
    """Return the files whose records are still the same as these (``is_current``)."""
    now = {one.id: (one.seal, one.is_sealed) for one in load_records(c, sealer_of(c), [one.id for one in records])}
    return {one.id for one in records if now.get(one.id) == (one.seal, one.is_sealed)}


def require_current(c: sa.Connection, record: FileRecord) -> None:
    """
    Require that a file's record is still the one that it was judged against.

    Raises:
        RecordSuperseded: the record changed; judge the file again.
    """
    if not is_current(c, record):
        raise RecordSuperseded(f"{show_path(record.path)}: its record was replaced or forgotten meanwhile")


def load_records(c: sa.Connection, sealer: Sealer, ids: Iterable[FileId]) -> Iterator[FileRecord]:
    """Load records in the order of ``ids``, leaving out those that are gone."""
    for chunk in chunked(ids):
        found = {row[0]: row for row in _BY_IDS.run(c, *padded(chunk))}
        yield from (to_record(sealer, found[file_id]) for file_id in chunk if file_id in found)


def to_records(sealer: Sealer, rows: sqlite3.Cursor | Sequence[Any]) -> list[FileRecord]:
    """Make records from rows with RECORD_COLUMNS."""
    return [to_record(sealer, row) for row in rows]


def to_record(sealer: Sealer, row: Sequence[Any]) -> FileRecord:
    """Make a record from a row with RECORD_COLUMNS, and check its seals."""
    (file_id, root_id, folder_id, token, folder_path, name, size, mtime, ctime, inode, racy, *rest) = row
    (block_size, version, recorded, reason, verified, how, boot, suspect, frozen, *rest) = rest
    (seal, state_seal, seen_inode, seen_ctime_ns, *stored) = rest
    digests = Digests(*stored)
    try:
        path = join_path(folder_path, name)
        witness = Witness(size, mtime, ctime, inode, racy)
        sealed = sealer.seal_file(token, path, witness, digests, block_size, version)
        words = _WORDS[reason], _WORDS[how]
        state = sealer.seal_state(
            *(file_id, seal, recorded, words[0], verified, words[1], boot, suspect, frozen, seen_inode, seen_ctime_ns)
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
        None if seen_inode is None else Sighting(seen_inode, seen_ctime_ns),
    )


def _damaged(row: Sequence[Any]) -> FileRecord:
    """Make a record from a row with fields of wrong types: keeps the path, for the finding, and the numbers."""
    stored = dict(zip(_RECORD_NAMES, row, strict=True))
    return FileRecord(
        id=stored["id"],
        root_id=stored["root_id"],
        folder_id=stored["folder_id"],
        path=join_path(_raw(stored["path"]), _raw(stored["name"])),
        witness=Witness(
            *(_number(stored["size_bytes"]), _number(stored["mtime_ns"])),
            *(_number(stored["ctime_ns"]), _number(stored["inode"])),
        ),
        digests=Digests(),
        block_size_bytes=None,
        version=_number(stored["version"]),
        recorded_at=_number(stored["recorded_at"]),
        reason=BaselineReason.RECORDED,
        verified_at=None,
        read_how=None,
        boot_id=None,
        is_suspect=False,
        is_frozen=bool(stored["is_frozen"]),
        is_sealed=False,
        seal=_raw(stored["seal"]),
        state_seal=_raw(stored["state_seal"]),
    )


def _number(value: object) -> int:
    return value if type(value) is int else 0


def _raw(value: object) -> bytes:
    return value if isinstance(value, bytes) else str(value).encode("utf-8", "surrogateescape")


TOLERANCE_S = 15 * 60
"""Clock corrections up to this size do not make files due."""

NEVER_AT = 0
"""Time of the last verification when it is unknown."""


def unless_ahead(column: sa.ColumnElement[int], now: int) -> sa.ColumnElement[int]:
    """Return, as SQL, a time, or NULL if it is ahead of the clock."""
    return sa.case((column <= now + TOLERANCE_S, column))


def select_last_check(
    verified_at: sa.ColumnElement[int], recorded_at: sa.ColumnElement[int], now: int
) -> sa.ColumnElement[int]:
    """Return, as SQL, when a file was last verified, or recorded if it never was."""
    return sa.func.coalesce(unless_ahead(verified_at, now), unless_ahead(recorded_at, now), NEVER_AT)


def get_last_check(verified_at: int | None, recorded_at: int, now: int) -> int:
    """Return the same for one file."""
    known = (at for at in (verified_at, recorded_at) if at is not None and at <= now + TOLERANCE_S)
    return next(known, NEVER_AT)


Word = TypeVar("Word", bound=StrEnum)


def read_word(kind: type[Word], stored: object) -> Word:
    """Convert a stored word to its enumeration, or raise CatalogCorrupt."""
    try:
        return kind(str(stored))
    except ValueError as error:
        raise CatalogCorrupt(
            f"the catalog holds {stored!r} where a {kind.__name__} should be; look at it with:"
            f" {program.command('catalog check')}"
        ) from error


def read_optional_word(kind: type[Word], stored: object) -> Word | None:
    """Convert a stored word or NULL."""
    return None if stored is None else read_word(kind, stored)


def read_numbers(stored: object) -> tuple[int, ...]:
    """Parse a stored list of numbers, or raise CatalogCorrupt."""
    return tuple(value for (value,) in _read_rows([[value] for value in _read_list(stored)], 1, stored))


def read_ranges(stored: object) -> tuple[tuple[int, int], ...]:
    """Parse a stored list of (offset, length), or raise CatalogCorrupt."""
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
        f"the catalog holds {shown!r} where a list of numbers should be; look at it with:"
        f" {program.command('catalog check')}"
    )
