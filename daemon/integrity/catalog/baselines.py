"""
Baselines: taken, verified, replaced.

Every change of a row keeps its seal and the root's tally right in the same transaction (I1, I2 of ``tables.py``), and
none overwrites a baseline that a finding holds (R6) or a row that is damaged (R9).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import repeat
from typing import Any, NamedTuple

import sqlalchemy as sa

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
from integrity.model import BaselineReason, Digests, FileId, ReadHow, Reading, Readings, Witness

PERSONS_WORD = frozenset({BaselineReason.ACCEPTED, BaselineReason.REPAIRED})
"""Reasons that stand above an open finding: a person has looked."""

_SEALED = ("size_bytes", "mtime_ns", "ctime_ns", "inode", "is_racy", "md5", "xxh3_128", "blake3", "block_size_bytes")
_CONSTANT = {"version": 1, "is_suspect": 0, "is_frozen": 0}
_TAKEN = ("recorded_at", "reason", "read_how", "boot_id", "seal", "crc64nvme", "state_seal")
_INSERT_NAMES = ("id", "folder_id", "name", *_SEALED, *_TAKEN)
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
    sa.update(file).where(_AT_ID, _AT_SEAL).values(**_VERIFY_VALUES, **_FOUND),
    *_VERIFY_VALUES,
    "at_id",
    "at_seal",
)
# With a seal of its own: half the price of the trigger's, which runs only where nothing changed since it was made.
_VERIFY_SEALED = CompiledStatement(
    sa.update(file)
    .where(_AT_ID, _AT_SEAL, file.c.state_seal == sa.bindparam("at_state_seal"))
    .values(**_VERIFY_VALUES, state_seal=sa.bindparam("new_state_seal"), **_FOUND),
    *_VERIFY_VALUES,
    *("new_state_seal", "at_id", "at_seal", "at_state_seal"),
)
_WRITTEN_ANEW = CompiledStatement(
    sa.update(file)
    .where(_AT_ID)
    .values(
        {name: sa.bindparam(name) for name in ("recorded_at", "read_how", "boot_id")}
        | {"verified_at": sa.literal_column("NULL"), **_FOUND, "is_suspect": sa.literal_column("1")}
    ),
    *("recorded_at", "read_how", "boot_id", "at_id"),
)
_WITNESS_NAMES = ("size_bytes", "mtime_ns", "ctime_ns", "inode", "is_racy", "seal")
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
    """A file to be recorded."""

    path: bytes  # relative to the root
    reading: Reading


class Verified(NamedTuple):
    """A file whose content was found equal to its baseline, from the disk or not."""

    record: FileRecord  # that it was held against
    witness: Witness | None  # None: as recorded
    how: ReadHow


class NewWitness(NamedTuple):
    """What stat says now of a file whose content is its baseline's."""

    file_id: FileId
    seal: bytes  # of the record that it was held against
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
    Record files that are not in the catalog, with their blocks where the reading has them.

    Returns:
        Their numbers, in the order of ``rows``.

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
    """Record files as ``record_files`` does, given in columns as the C core reads them. All loops are in C."""
    from integrity.catalog.seal import seal_new_files  # it needs the extension

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
    """Record files, each with the time and the boot in which its content was last known to be right."""
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
    """Take numbers that were never given before (I3), give the first; the highest in use guards against damage."""
    kept = sa.select(meta.c.value).where(meta.c.key == "next_file_id").scalar_subquery()
    row = c.execute(sa.select(kept.label("kept"), sa.select(sa.func.max(file.c.id)).scalar_subquery())).one()
    first = max(int(row[0]) if str(row[0]).isdigit() else 1, (row[1] or 0) + 1)
    c.execute(sa.update(meta).where(meta.c.key == "next_file_id").values(value=str(first + count)))
    return first


class Inherited(NamedTuple):
    """A new name of something that is known."""

    path: bytes  # not recorded yet
    witness: Witness  # to hold the name's next witness against; its size is the source's
    source: FileRecord | HistoryRecord  # whose baseline it is; of any root
    recorded_at: int  # when the content was last known to be right
    boot_id: int | None  # in which it was


def inherit_baselines(
    c: sa.Connection, sealer: Sealer, root: RootRecord, names: Sequence[Inherited], *, because: BaselineReason
) -> list[FileId | None]:
    """
    Record new names with the baselines of known files, for scrubs to verify early.

    Args:
        c: in a transaction.
        sealer: of the catalog.
        root: that the names are in.
        names: each with what it inherits.
        because: why they get these baselines.

    Returns:
        The numbers of the new files; None, and nothing is recorded, where the source's blocks are lost or damaged.
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
    Load a baseline, present or former, as if it had been read now; None if its blocks are lost or damaged.

    A former one can do without them if it has other digests: then they tell whether content differs, but not where.
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
    Take a reading as the new baseline of a file; the old one goes to history, a candidate is dropped.

    Raises:
        CatalogError: an open finding holds the baseline, and ``because`` is no person's word (R6).
        CatalogCorrupt: the old row is damaged, and ``because`` is no person's word (R9).
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
    """Get a record whose baseline may be replaced for this reason, or raise as ``replace_baseline`` says."""
    old = require_record(c, sealer, file_id)
    if because in PERSONS_WORD:
        return old
    if not old.is_sealed:
        raise damaged_row(root, old)
    if old.is_frozen:
        raise CatalogError(
            f"{shown_path(root, old.path)}: an open finding holds its baseline; look at it with `integrity explain`, "
            "then accept or repair the file"
        )
    return old


def require_record(c: sa.Connection, sealer: Sealer, file_id: FileId) -> FileRecord:
    """Get one record, or raise CatalogError."""
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
    """Write the next version of a row; its blocks are the caller's to store."""
    add_history(c, [old], because=because, now=now, note=note)
    if old.block_size_bytes is not None:
        drop_former_runs(c, old)
    if has_whole_digests(old) and witness.inode == old.witness.inode:  # else that file may stand under another name
        drop_runs(c, old.id, old.version)
    if old.block_size_bytes is not None:  # what of it was compared was compared with the old blocks
        drop_checkpoint(c, root.id, old.path, Purpose.VERIFY)
    version = old.version + 1
    seal = sealer.seal_file(root.token, old.path, witness, digests, block_size_bytes, version)
    values = (*witness, digests.md5, digests.xxh3_128, digests.blake3, block_size_bytes)
    c.execute(
        sa.update(file)
        .where(file.c.id == old.id)
        .values(
            **dict(zip(_SEALED, values, strict=True)),
            crc64nvme=digests.crc64nvme,
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
    """Say whether a baseline can be recognised without its blocks."""
    return record.digests.md5 is not None or record.digests.xxh3_128 is not None


def mark_verified(
    c: sa.Connection,
    sealer: Sealer,
    root: RootRecord,
    rows: Sequence[Verified],
    *,
    now: int,
    boot_id: int | None,
) -> None:
    """
    Write down that files were found intact, and their new witness where one is given.

    A file whose record was replaced or forgotten meanwhile stays as it is: it was verified first, and then that.

    Raises:
        CatalogCorrupt: a row that gets a new witness is damaged; sealing it anew would hide that.
    """
    values = [(now, row.how.value, boot_id, row.record.id, row.record.seal) for row in rows]
    sealed = [
        (*new[:3], _seal_verified(sealer, record, *new[:3]), record.id, record.seal, record.state_seal)
        for new, (record, _, _) in zip(values, rows, strict=True)
        if record.is_sealed
    ]
    if _VERIFY_SEALED.run_many(c, sealed) != len(rows):  # of some, something else was noted meanwhile
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
    Store the new witnesses of files that were found equal to their baselines, if not by reading the disk.

    Another inode or another time of modification tells of bytes that were written since and that nobody has read from
    the disk: such a file is verified no longer, as if it were recorded now, and a suspect.

    Raises:
        CatalogCorrupt: a row is damaged; sealing it anew would hide that.
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
    _WRITTEN_ANEW.run_many(c, anew)
    set_witnesses(c, sealer, root, moved)


def set_witnesses(c: sa.Connection, sealer: Sealer, root: RootRecord, rows: Iterable[NewWitness]) -> None:
    """
    Store new witnesses of files whose baselines stay; a file that is recorded anew by now keeps what it has.

    Raises:
        CatalogCorrupt: a row is damaged; sealing it anew would hide that.
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
    Have scrubs read these files early: their ctime or inode moved (R2).

    Args:
        c: in a transaction.
        seen: by the files' numbers, what was seen under their names; None: nothing was.
    """
    _SUSPECT.run_many(c, ((*(one or (None, None)), file_id) for file_id, one in seen.items()))


def drop_candidate(c: sa.Connection, file_id: FileId) -> None:
    """Forget a file's candidate with its blocks, if it has one."""
    _DROP_CANDIDATE.run(c, file_id)
    drop_runs(c, file_id, CANDIDATE_VERSION)


def damaged_row(root: RootRecord, record: FileRecord) -> CatalogCorrupt:
    """Say that a row is damaged and what to do."""
    return CatalogCorrupt(
        f"{shown_path(root, record.path)}: its row in the catalog is damaged (the seal does not match); the file may "
        "be healthy: run `integrity catalog check`, then restore or reseal the catalog"
    )


def shown_path(root: RootRecord, path: bytes) -> str:
    """Write the path of a file for people."""
    return show_path(root.path.rstrip(b"/") + b"/" + path)
