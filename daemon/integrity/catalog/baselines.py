"""
Record, verify, and replace baselines of files.

Every change of a row updates its seal and the root's tally in the same transaction (I1, I2 of ``schema.py``). No change
overwrites a baseline that a finding holds (R6) or a damaged row (R9), except on an explicit user decision.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import repeat
from typing import Any, NamedTuple

import sqlalchemy as sa

from integrity import program
from integrity.catalog.blocks import CANDIDATE_VERSION, drop_runs, load_blocks, save_runs
from integrity.catalog.checkpoints import Purpose, drop_checkpoint
from integrity.catalog.compiled_sql import CompiledInsert, CompiledStatement
from integrity.catalog.folders import ensure_folders
from integrity.catalog.history import HistoryRecord, add_history, drop_former_runs
from integrity.catalog.roots import RootRecord, adjust_tally
from integrity.catalog.rows import FileRecord, Sighting, load_record, load_records, split_path
from integrity.catalog.schema import candidate, file, meta
from integrity.catalog.seal import Sealer
from integrity.errors import CatalogCorrupt, CatalogError, show_path
from integrity.hashing.algorithms import STORED
from integrity.model import BaselineReason, Digests, FileId, ReadHow, Reading, Readings, Witness

USER_DECISIONS = frozenset({BaselineReason.ACCEPTED, BaselineReason.REPAIRED})
"""Reasons that override an open finding: explicit decisions of a user."""

_CONSTANT = {"version": 1, "is_suspect": 0, "is_frozen": 0}
_INSERT_NAMES = (  # in the order of the columns, as CompiledInsert requires
    *("id", "folder_id", "name", *Witness._fields, *(digest.name for digest in STORED if not digest.is_appended)),
    *("block_size_bytes", "recorded_at", "reason", "read_how", "boot_id", "seal"),
    *(*(digest.name for digest in STORED if digest.is_appended), "state_seal"),
)
_INSERT = CompiledInsert(
    sa.insert(file).values(
        {name: sa.bindparam(name) for name in _INSERT_NAMES}
        | {name: sa.literal_column(str(value)) for name, value in _CONSTANT.items()}
    ),
    *_INSERT_NAMES,
)
_SEEN_NAMES = ("seen_inode", "seen_ctime_ns")
_FOUND: dict[str, Any] = {"is_suspect": sa.literal_column("0")} | dict.fromkeys(_SEEN_NAMES, sa.literal_column("NULL"))
_AT_ID = file.c.id == sa.bindparam("at_id")
_VERIFY_VALUES: dict[str, Any] = {name: sa.bindparam(name) for name in ("verified_at", "read_how", "boot_id")}
_AT_SEAL = file.c.seal == sa.bindparam("at_seal")
_VERIFY = CompiledStatement(
    sa.update(file).where(_AT_ID, _AT_SEAL).values(**_VERIFY_VALUES, **_FOUND), *_VERIFY_VALUES, "at_id", "at_seal"
)
# Writes the state seal itself, which costs half of what the trigger does; matches only rows that did not change.
_VERIFY_SEALED = CompiledStatement(
    sa.update(file)
    .where(_AT_ID, _AT_SEAL, file.c.state_seal == sa.bindparam("at_state_seal"))
    .values(**_VERIFY_VALUES, state_seal=sa.bindparam("new_state_seal"), **_FOUND),
    *_VERIFY_VALUES,
    *("new_state_seal", "at_id", "at_seal", "at_state_seal"),
)
_RERECORD = CompiledStatement(
    sa.update(file)
    .where(_AT_ID)
    .values(
        {name: sa.bindparam(name) for name in ("recorded_at", "read_how", "boot_id")}
        | {"verified_at": sa.literal_column("NULL"), **_FOUND, "is_suspect": sa.literal_column("1")}
    ),
    *("recorded_at", "read_how", "boot_id", "at_id"),
)
_WITNESS_NAMES = (*Witness._fields, "seal")
_SET_WITNESS = CompiledStatement(
    sa.update(file).where(_AT_ID).values({name: sa.bindparam(name) for name in _WITNESS_NAMES}),
    *_WITNESS_NAMES,
    "at_id",
)
_SUSPECT = CompiledStatement(
    sa.update(file)
    .where(_AT_ID)
    .values({"is_suspect": sa.literal_column("1")} | {name: sa.bindparam(f"new_{name}") for name in _SEEN_NAMES}),
    *(f"new_{name}" for name in _SEEN_NAMES),
    "at_id",
)
_DROP_CANDIDATE = CompiledStatement(
    sa.delete(candidate).where(candidate.c.file_id == sa.bindparam("file_id")), "file_id"
)


class NewFile(NamedTuple):
    """A file to record."""

    path: bytes  # relative to the root
    reading: Reading


class Verified(NamedTuple):
    """A file whose content matched its baseline, read from the disk or from the cache."""

    record: FileRecord  # the record that it was compared with
    witness: Witness | None  # None: as recorded
    how: ReadHow


class NewWitness(NamedTuple):
    """The current stat of a file whose content is that of its baseline."""

    file_id: FileId
    seal: bytes  # of the record that it was compared with
    witness: Witness


def record_files(
    c: sa.Connection,
    sealer: Sealer,
    root: RootRecord,
    rows: Sequence[NewFile],
    *,
    now: int,
    boot_id: int | None,
    because: BaselineReason = BaselineReason.RECORDED,
) -> list[FileId]:
    """
    Record files that are not in the catalog, with block digests where the reading has them.

    Returns:
        The ids of the files, in the order of ``rows``.

    Raises:
        CatalogError: (from the transaction) one of the names is recorded already.
    """
    return _record(c, sealer, root, _allocate_ids(c, len(rows)), rows, [(now, boot_id)] * len(rows), because)


def record_small_files(
    c: sa.Connection,
    sealer: Sealer,
    root: RootRecord,
    paths: Sequence[bytes],
    readings: Readings,
    *,
    now: int,
    boot_id: int | None,
) -> list[FileId]:
    """Record files as ``record_files`` does, from the columns that the C core returns. All loops run in C."""
    from integrity.catalog.seal_batch import seal_new_files  # needs the C extension

    because, count, first_id = BaselineReason.RECORDED.value, len(paths), _allocate_ids(c, len(paths))
    sealed = seal_new_files(
        *(sealer.hash_key, root.token, first_id, paths, readings),
        recorded_at=now,
        boot_id=boot_id,
        reason=because.encode(),
    )
    if sealed is None:
        rows = [NewFile(path, reading) for path, reading in zip(paths, readings.each(), strict=True)]
        return _record(c, sealer, root, first_id, rows, [(now, boot_id)] * count, BaselineReason.RECORDED)
    ids = [FileId(file_id) for file_id in range(first_id, first_id + count)]
    folders, names = zip(*map(split_path, paths), strict=True)
    folder_ids = ensure_folders(c, root.id, dict.fromkeys(folders))
    md5s, xxh3_128s, blake3s, crc64nvmes = readings.digests
    constants = (repeat(one, count) for one in (None, now, because, readings.how.value, boot_id))
    columns = (
        *(ids, map(folder_ids.__getitem__, folders), names, *readings.witnesses, md5s, xxh3_128s, blake3s),
        *(*constants, sealed.seals, crc64nvmes, sealed.state_seals),
    )
    _INSERT.run_many(c, zip(*columns, strict=True))
    adjust_tally(c, root.id, count, [sealed.tally])
    return ids


def _record(
    c: sa.Connection,
    sealer: Sealer,
    root: RootRecord,
    first_id: int,
    rows: Sequence[NewFile],
    moments: Sequence[tuple[int, int | None]],
    because: BaselineReason,
) -> list[FileId]:
    """Record files. ``moments``: time and boot in which the content of each was last known to be right."""
    ids = [FileId(file_id) for file_id in range(first_id, first_id + len(rows))]
    places = [split_path(row.path) for row in rows]
    folder_ids = ensure_folders(c, root.id, dict.fromkeys(folder_path for folder_path, _ in places))
    seal_file, token, reason = sealer.seal_file, root.token, because.value
    values = []
    seals = []
    for file_id, (folder_path, name), (path, reading), (now, boot_id) in zip(ids, places, rows, moments, strict=True):
        witness, digests, blocks = reading.witness, reading.digests, reading.blocks
        block_size = None if blocks is None else blocks.block_size_bytes
        seal = seal_file(token, path, witness, digests, block_size, 1)
        seals.append(seal)
        values.append(
            (
                *(file_id, folder_ids[folder_path], name, *map(int, witness)),  # the driver is slow to adapt bools
                *(digests.md5, digests.xxh3_128, digests.blake3, block_size),
                *(now, reason, reading.how.value, boot_id, seal, digests.crc64nvme),
                sealer.seal_state(
                    *(file_id, seal, now, reason.encode(), None, reading.how.value.encode(), boot_id, 0, 0)
                ),
            )
        )
    _INSERT.run_many(c, values)
    for file_id, row in zip(ids, rows, strict=True):
        if row.reading.blocks is not None:
            save_runs(c, sealer, file_id, 1, row.reading.blocks)
    adjust_tally(c, root.id, len(rows), seals)
    return ids


def _allocate_ids(c: sa.Connection, count: int) -> int:
    """
    Reserve ids that were never used before (I3) and return the first.

    The highest id in use guards against a damaged counter.
    """
    kept = sa.select(meta.c.value).where(meta.c.key == "next_file_id").scalar_subquery()
    row = c.execute(sa.select(kept.label("kept"), sa.select(sa.func.max(file.c.id)).scalar_subquery())).one()
    first = max(int(row[0]) if str(row[0]).isdigit() else 1, (row[1] or 0) + 1)
    c.execute(sa.update(meta).where(meta.c.key == "next_file_id").values(value=str(first + count)))
    return first


class Inherited(NamedTuple):
    """A new name of a known file."""

    path: bytes  # not recorded yet
    witness: Witness  # the stat of the new name; its size is replaced by the source's
    source: FileRecord | HistoryRecord  # owner of the baseline; in any root
    recorded_at: int  # when the content was last known to be right
    boot_id: int | None  # boot at recorded_at


def inherit_baselines(
    c: sa.Connection, sealer: Sealer, root: RootRecord, names: Sequence[Inherited], *, because: BaselineReason
) -> list[FileId | None]:
    """
    Record new names with the baselines of known files, as suspects, so that scrubs verify them early.

    Returns:
        The ids of the new files; None for a name that was not recorded, because the source's blocks are lost or
        damaged.
    """
    contents = [load_content(c, sealer, one.source, one.witness) for one in names]
    kept = [(one, content) for one, content in zip(names, contents, strict=True) if content is not None]
    ids: list[FileId] = []
    if kept:
        rows = [NewFile(one.path, content) for one, content in kept]
        moments = [(one.recorded_at, one.boot_id) for one, _ in kept]
        ids = _record(c, sealer, root, _allocate_ids(c, len(rows)), rows, moments, because)
        mark_suspects(c, dict.fromkeys(ids))
    new = iter(ids)
    return [None if content is None else next(new) for content in contents]


def load_content(
    c: sa.Connection, sealer: Sealer, source: FileRecord | HistoryRecord, witness: Witness
) -> Reading | None:
    """
    Load a current or former baseline as a Reading; None if its blocks are lost or damaged.

    A former baseline that has whole-file digests is loaded without blocks then: these digests still detect a
    difference, but not its position.
    """
    blocks, size, block_size = None, source.witness.size_bytes, source.block_size_bytes
    file_id, how, needs_blocks = None, None, not has_whole_digests(source)
    if isinstance(source, FileRecord):
        file_id, how, needs_blocks = source.id, source.read_how, True
    elif source.file_id is not None:
        file_id = source.file_id
    if block_size is not None:
        blocks = None if file_id is None else load_blocks(c, sealer, file_id, source.version, block_size)
        if blocks is None or len(blocks) != -(-size // block_size):
            if needs_blocks:
                return None
            blocks = None
    return Reading(witness._replace(size_bytes=size), source.digests, blocks, how or ReadHow.CACHE_POSSIBLE, 0)


def replace_baseline(
    c: sa.Connection,
    sealer: Sealer,
    root: RootRecord,
    file_id: FileId,
    reading: Reading,
    *,
    because: BaselineReason,
    now: int,
    boot_id: int | None,
    note: str | None = None,
) -> None:
    """
    Replace the baseline of a file with a reading. The old one goes to history; a candidate is dropped.

    Raises:
        CatalogError: an open finding holds the baseline, and ``because`` is not a user decision (R6).
        CatalogCorrupt: the old row is damaged, and ``because`` is not a user decision (R9).
    """
    old = require_replaceable(c, sealer, root, file_id, because)
    block_size = None if reading.blocks is None else reading.blocks.block_size_bytes
    drop_candidate(c, file_id)
    put_baseline(
        *(c, sealer, root, old, reading.witness, reading.digests, block_size, reading.how),
        because=because,
        now=now,
        boot_id=boot_id,
        note=note,
    )
    if reading.blocks is not None:
        save_runs(c, sealer, file_id, old.version + 1, reading.blocks)


def require_replaceable(
    c: sa.Connection, sealer: Sealer, root: RootRecord, file_id: FileId, because: BaselineReason
) -> FileRecord:
    """Return the record whose baseline may be replaced for this reason. Raises like ``replace_baseline``."""
    old = require_record(c, sealer, file_id)
    if because in USER_DECISIONS:
        return old
    if not old.is_sealed:
        raise damaged_row(root, old)
    if old.is_frozen:
        raise CatalogError(
            f"{shown_path(root, old.path)}: an open finding holds its baseline; look at it with"
            f" `{program.command('explain')}`, "
            "then accept or repair the file"
        )
    return old


def require_record(c: sa.Connection, sealer: Sealer, file_id: FileId) -> FileRecord:
    """Return one record, or raise CatalogError if the file is no longer recorded."""
    record = load_record(c, sealer, file_id)
    if record is None:
        raise CatalogError(f"file {file_id}: not in the catalog any more; scan its root again")
    return record


def put_baseline(
    c: sa.Connection,
    sealer: Sealer,
    root: RootRecord,
    old: FileRecord,
    witness: Witness,
    digests: Digests,
    block_size_bytes: int | None,
    how: ReadHow | None,
    *,
    because: BaselineReason,
    now: int,
    boot_id: int | None,
    note: str | None,
) -> None:
    """Write the next version of a row. The caller stores the blocks."""
    add_history(c, [old], because=because, now=now, note=note)
    if old.block_size_bytes is not None:
        drop_former_runs(c, old)
    if (
        has_whole_digests(old) and witness.inode == old.witness.inode
    ):  # otherwise the old file may still exist under another name
        drop_runs(c, old.id, old.version)
    if old.block_size_bytes is not None:  # the partial result compared the old blocks
        drop_checkpoint(c, root.id, old.path, Purpose.VERIFY)
    version = old.version + 1
    seal = sealer.seal_file(root.token, old.path, witness, digests, block_size_bytes, version)
    c.execute(
        sa.update(file)
        .where(file.c.id == old.id)
        .values(
            **witness._asdict(),
            **digests._asdict(),
            block_size_bytes=block_size_bytes,
            version=version,
            recorded_at=now,
            reason=because.value,
            verified_at=None,
            read_how=None if how is None else how.value,
            boot_id=boot_id,
            is_suspect=0,
            **dict.fromkeys(_SEEN_NAMES),
            is_frozen=old.is_frozen,
            seal=seal,
            state_seal=sealer.seal_state(
                *(old.id, seal, now, because.value.encode(), None, None if how is None else how.value.encode()),
                *(boot_id, 0, int(old.is_frozen)),
            ),
        )
    )
    adjust_tally(c, root.id, 0, (old.seal, seal))


def has_whole_digests(record: FileRecord | HistoryRecord) -> bool:
    """Return whether a baseline has a digest of the whole file, so that it can be compared without its blocks."""
    return record.digests.md5 is not None or record.digests.xxh3_128 is not None


def mark_verified(
    c: sa.Connection, sealer: Sealer, root: RootRecord, rows: Sequence[Verified], *, now: int, boot_id: int | None
) -> None:
    """
    Record that files were verified, with their new witness where one is given.

    A file whose record was replaced or forgotten after the verification is not changed.

    Raises:
        CatalogCorrupt: a row that gets a new witness is damaged; sealing it again would hide that.
    """
    values = [(now, row.how.value, boot_id, row.record.id, row.record.seal) for row in rows]
    sealed = [
        (*new[:3], _seal_verified(sealer, record, *new[:3]), record.id, record.seal, record.state_seal)
        for new, (record, _, _) in zip(values, rows, strict=True)
        if record.is_sealed
    ]
    if _VERIFY_SEALED.run_many(c, sealed) != len(rows):  # the state of some rows changed meanwhile
        _VERIFY.run_many(c, values)
    moved = [NewWitness(row.record.id, row.record.seal, row.witness) for row in rows if row.witness is not None]
    if moved:
        set_witnesses(c, sealer, root, moved)


def _seal_verified(sealer: Sealer, record: FileRecord, now: int, how: str, boot_id: int | None) -> bytes:
    state = record.recorded_at, record.reason.encode(), now, how.encode(), boot_id, 0, int(record.is_frozen)
    return sealer.seal_state(record.id, record.seal, *state)


def refresh_witnesses(
    c: sa.Connection,
    sealer: Sealer,
    root: RootRecord,
    rows: Sequence[Verified],
    *,
    has_stable_inodes: bool,
    now: int,
    boot_id: int | None,
) -> None:
    """
    Store new witnesses of files that matched their baselines but were not read from the disk.

    A different mtime, or inode where inodes are stable, means that the data was written since and was not read from the
    disk. Such a file becomes unverified, as if it were recorded now, and a suspect.

    Raises:
        CatalogCorrupt: a row is damaged; sealing it again would hide that.
    """
    found = {row.record.id: row for row in rows}
    moved = [NewWitness(row.record.id, row.record.seal, row.witness) for row in rows if row.witness is not None]
    witnesses = {one.file_id: one.witness for one in moved}
    anew = [
        (now, found[old.id].how.value, boot_id, old.id)
        for old in load_records(c, sealer, witnesses)
        if old.seal == found[old.id].record.seal
        and (
            witnesses[old.id].mtime_ns != old.witness.mtime_ns
            or (has_stable_inodes and witnesses[old.id].inode != old.witness.inode)
        )
    ]
    _RERECORD.run_many(c, anew)
    set_witnesses(c, sealer, root, moved)


def set_witnesses(c: sa.Connection, sealer: Sealer, root: RootRecord, rows: Iterable[NewWitness]) -> None:
    """
    Store new witnesses of files whose baselines stay. A file that was recorded again meanwhile is not changed.

    Raises:
        CatalogCorrupt: a row is damaged; sealing it again would hide that.
    """
    values: list[tuple[object, ...]] = []
    seals: list[bytes] = []
    found = {row.file_id: row for row in rows}
    for record in load_records(c, sealer, found):
        if record.seal != found[record.id].seal:
            continue
        if not record.is_sealed:
            raise damaged_row(root, record)
        witness = found[record.id].witness
        seal = sealer.seal_file(
            root.token, record.path, witness, record.digests, record.block_size_bytes, record.version
        )
        values.append((*witness, seal, record.id))
        seals += (record.seal, seal)
    _SET_WITNESS.run_many(c, values)
    adjust_tally(c, root.id, 0, seals)


def mark_suspects(c: sa.Connection, seen: Mapping[FileId, Sighting | None]) -> None:
    """
    Mark files whose ctime or inode changed, so that scrubs read them early (R2).

    Args:
        c: in a transaction.
        seen: by file id, inode and ctime that were seen under the name; None: nothing was seen.
    """
    _SUSPECT.run_many(c, ((*(one or (None, None)), file_id) for file_id, one in seen.items()))


def drop_candidate(c: sa.Connection, file_id: FileId) -> None:
    """Delete the candidate of a file and its blocks, if it has one."""
    _DROP_CANDIDATE.run(c, file_id)
    drop_runs(c, file_id, CANDIDATE_VERSION)


def damaged_row(root: RootRecord, record: FileRecord) -> CatalogCorrupt:
    """Return the error for a damaged row, with the remedy."""
    return CatalogCorrupt(
        f"{shown_path(root, record.path)}: its row in the catalog is damaged (the seal does not match); the file may "
        f"be healthy: run `{program.command('catalog check')}`, then restore or reseal the catalog"
    )


def shown_path(root: RootRecord, path: bytes) -> str:
    """Return the path of a file as text for people."""
    return show_path(root.path.rstrip(b"/") + b"/" + path)
