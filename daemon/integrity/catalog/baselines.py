"""
Record, verify, replace, move, and remove recorded files, and accept what is known of their next content.

No change overwrites a baseline that a finding holds (R6), except on an explicit user decision.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby, repeat
from operator import itemgetter
from typing import NamedTuple

from integrity import program
from integrity.catalog.blocks import Purpose, drop_checkpoint, drop_runs, save_runs
from integrity.catalog.db import Connection
from integrity.catalog.findings import find_with_findings, move_findings, put_findings_aside, resolve_of_files
from integrity.catalog.roots import RootRecord, adjust_file_count, ensure_folders, set_fingerprints
from integrity.catalog.rows import FileRecord, Sighting, load_record, load_records, require_current, split_path
from integrity.catalog.versions import (
    FileVersion,
    VersionState,
    discard,
    drop_former_runs,
    has_whole_digests,
    keep,
    load_version,
)
from integrity.errors import CatalogError, show_path
from integrity.files.listing import find_fingerprint
from integrity.model import BaselineReason, FileId, FolderId, ReadHow, Reading, Readings, Witness

USER_DECISIONS = frozenset({BaselineReason.ACCEPTED, BaselineReason.REPAIRED})
"""Reasons that override an open finding: explicit decisions of a user."""

_INSERT = """
    INSERT INTO file (
        id, folder_id, name, size_bytes, mtime_ns, ctime_ns, inode, is_racy, md5, xxh3_128, blake3, crc64nvme,
        block_size_bytes, recorded_at, reason, read_how, boot_id, version, is_suspect, is_frozen
    ) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, 1, 0, 0)"""
IS_SAME = """
    file.id = ? AND file.version = ? AND file.size_bytes = ? AND file.mtime_ns = ? AND file.ctime_ns = ?
    AND file.inode = ?"""
"""Matches the row of ``file`` that has the baseline of a record; see ``same_as``."""


def same_as(record: FileRecord) -> tuple[int, ...]:
    """Return the values of ``IS_SAME``."""
    stored = record.stored or record
    return stored.id, stored.version, *stored.witness.stamps


class NewFile(NamedTuple):
    """A file to record."""

    path: bytes  # relative to the root
    reading: Reading


class Verified(NamedTuple):
    """A file whose content matched its baseline, read from the disk or from the cache."""

    record: FileRecord  # the record that it was compared with
    witness: Witness | None  # None: as recorded
    how: ReadHow


def record_files(
    c: Connection,
    root: RootRecord,
    paths: Sequence[bytes],
    readings: Readings,
    *,
    now: int,
    boot_id: int | None,
    because: BaselineReason = BaselineReason.RECORDED,
    known_at: Sequence[tuple[int, int | None]] | None = None,
) -> list[FileId]:
    """
    Record files that are not in the catalog; return their ids, in order. Loops over files run in C.

    A folder all of whose files are recorded here also gets its fingerprint.

    Args:
        paths: of the files, relative to the root; at least one.
        known_at: time and boot in which each was last known to be right; None: now, in this boot.
    """
    query = "UPDATE meta SET value = CAST(value AS INTEGER) + ? WHERE key = 'next_file_id' RETURNING value"
    end = int(c.value(query, len(paths)))
    ids = list(map(FileId, range(end - len(paths), end)))  # none of which was ever used (I2)
    folder_paths, names = zip(*map(split_path, paths), strict=True)
    folder_ids = ensure_folders(c, root.id, set(folder_paths))
    its_folder = list(map(folder_ids.__getitem__, folder_paths))
    times, boots = (repeat(now), repeat(boot_id)) if known_at is None else zip(*known_at, strict=True)
    block_sizes = [None if one is None else one.block_size_bytes for one in readings.blocks]
    baselines = *readings.witnesses, *readings.digests, block_sizes, times, repeat(because), readings.hows, boots
    c.run_many(_INSERT, zip(ids, its_folder, names, *baselines, strict=False))
    for file_id, blocks in zip(ids, readings.blocks, strict=True):
        if blocks is not None:
            save_runs(c, file_id, 1, blocks)
    adjust_file_count(c, root.id, len(ids))
    set_fingerprints(c, _find_fingerprints(its_folder, names, readings))
    return ids


def _find_fingerprints(
    folder_ids: Sequence[FolderId], names: Sequence[bytes], readings: Readings
) -> Iterator[tuple[FolderId, bytes, int]]:
    """Yield the fingerprint that each folder has if it holds nothing else, and the number of its files."""
    rows = sorted(zip(folder_ids, names, *readings.witnesses, strict=True))  # mostly in order, thus cheap
    for folder_id, group in groupby(rows, itemgetter(0)):
        _, its_names, *stamps, are_racy = zip(*group, strict=True)
        if not any(are_racy):
            yield folder_id, find_fingerprint(its_names, stamps), len(its_names)


class Inherited(NamedTuple):
    """A new name of a known file."""

    path: bytes  # not recorded yet
    witness: Witness  # the stat of the new name; its size is replaced by the source's
    source: FileRecord | FileVersion  # owner of the baseline; in any root
    recorded_at: int  # when the content was last known to be right
    boot_id: int | None  # boot at recorded_at


def inherit_baselines(
    c: Connection, root: RootRecord, names: Sequence[Inherited], *, because: BaselineReason
) -> list[FileId | None]:
    """Record new names with the baselines of known files, as suspects; return ids, or None where blocks are lost."""
    contents = [load_version(c, one.source, one.witness) for one in names]
    kept = [(one, content) for one, content in zip(names, contents, strict=True) if content is not None]
    if not kept:
        return [None] * len(names)
    paths, readings = [one.path for one, _ in kept], Readings.of([content for _, content in kept])
    known_at = [(one.recorded_at, one.boot_id) for one, _ in kept]
    ids = record_files(c, root, paths, readings, now=0, boot_id=None, because=because, known_at=known_at)
    mark_suspects(c, dict.fromkeys(ids))
    new = iter(ids)
    return [None if content is None else next(new) for content in contents]


def replace_baseline(
    c: Connection,
    root: RootRecord,
    file_id: FileId,
    reading: Reading,
    *,
    because: BaselineReason,
    now: int,
    boot_id: int | None,
    note: str | None = None,
) -> None:
    """Replace a baseline by a reading, or raise CatalogError if a finding holds it and no user decided (R6)."""
    old = require_record(c, file_id)
    if old.is_frozen and because not in USER_DECISIONS:
        raise CatalogError(
            f"{show_path(root.path.rstrip(b'/') + b'/' + old.path)}: an open finding holds its baseline; look at it"
            f" with `{program.command('explain')}`, then accept or repair the file"
        )
    discard(c, [file_id])
    _put_baseline(c, root, old, reading, because=because, now=now, boot_id=boot_id, note=note)
    if reading.blocks is not None:
        save_runs(c, file_id, old.version + 1, reading.blocks)


def require_record(c: Connection, file_id: FileId) -> FileRecord:
    """Return one record, or raise CatalogError if the file is no longer recorded."""
    record = load_record(c, file_id)
    if record is None:
        raise CatalogError(f"file {file_id}: not in the catalog any more; scan its root again")
    return record


def _put_baseline(
    c: Connection,
    root: RootRecord,
    old: FileRecord,
    new: Reading | FileVersion,
    *,
    because: BaselineReason,
    now: int,
    boot_id: int | None,
    note: str | None,
) -> None:
    """Write the next version of a row. The caller stores the blocks."""
    keep(c, [old], because=because, now=now, note=note)
    if old.block_size_bytes is not None:
        drop_former_runs(c, old)
        drop_checkpoint(c, root.id, old.path, Purpose.VERIFY)  # it compared the old blocks
    if has_whole_digests(old) and new.witness.inode == old.witness.inode:
        drop_runs(c, old.id, old.version)  # otherwise the old file may still exist under another name
    query = """
        UPDATE file SET
            size_bytes = ?, mtime_ns = ?, ctime_ns = ?, inode = ?, is_racy = ?,
            md5 = ?, xxh3_128 = ?, blake3 = ?, crc64nvme = ?, block_size_bytes = ?, version = version + 1,
            recorded_at = ?, reason = ?, verified_at = NULL, read_how = ?, boot_id = ?,
            is_suspect = 0, seen_inode = NULL, seen_ctime_ns = NULL
        WHERE id = ?"""
    how = new.how if isinstance(new, Reading) else new.read_how
    c.run(query, *new.witness, *new.digests, new.block_size_bytes, now, because, how, boot_id, old.id)


def mark_verified(c: Connection, rows: Sequence[Verified], *, now: int, boot_id: int | None) -> None:
    """Record that files were verified, with new witnesses where given; leave those that were replaced since."""
    query = f"""
        UPDATE file SET
            verified_at = ?, read_how = ?, boot_id = ?, is_suspect = 0, seen_inode = NULL, seen_ctime_ns = NULL
        WHERE {IS_SAME}"""
    c.run_many(query, ((now, row.how.value, boot_id, *same_as(row.record)) for row in rows))
    set_witnesses(c, [(row.record, row.witness) for row in rows if row.witness is not None])


def refresh_witnesses(
    c: Connection, rows: Sequence[Verified], *, has_stable_inodes: bool, now: int, boot_id: int | None
) -> None:
    """
    Store new witnesses of files that matched their baselines but were not read from the disk.

    A different mtime, or inode where inodes are stable, means that the data was written since and was not read from the
    disk. Such a file becomes unverified, as if it were recorded now, and a suspect.
    """
    moved = [(row, row.record.witness, row.witness) for row in rows if row.witness is not None]
    query = f"""
        UPDATE file SET
            recorded_at = ?, read_how = ?, boot_id = ?, verified_at = NULL,
            is_suspect = 1, seen_inode = NULL, seen_ctime_ns = NULL
        WHERE {IS_SAME}"""
    anew = (
        (now, row.how.value, boot_id, *same_as(row.record))
        for row, old, new in moved
        if new.mtime_ns != old.mtime_ns or (has_stable_inodes and new.inode != old.inode)
    )
    c.run_many(query, anew)
    set_witnesses(c, [(row.record, new) for row, _, new in moved])


def set_witnesses(c: Connection, rows: Iterable[tuple[FileRecord, Witness]]) -> None:
    """Store new witnesses of files whose baselines stay. A file that was recorded again meanwhile is not changed."""
    query = f"UPDATE file SET size_bytes = ?, mtime_ns = ?, ctime_ns = ?, inode = ?, is_racy = ? WHERE {IS_SAME}"
    c.run_many(query, ((*witness, *same_as(record)) for record, witness in rows))


def mark_suspects(c: Connection, seen: Mapping[FileId, Sighting | None]) -> None:
    """Mark files whose ctime or inode changed, with what was seen under the name: scrubs read them early (R2)."""
    query = "UPDATE file SET is_suspect = 1, seen_inode = ?, seen_ctime_ns = ? WHERE id = ?"
    c.run_many(query, ((*(one or (None, None)), file_id) for file_id, one in seen.items()))


_RESOLUTIONS = {
    BaselineReason.DELETED: "the file was deleted",
    BaselineReason.FORGOTTEN: "the file was forgotten",
    BaselineReason.ACCEPTED: "the loss of the file was accepted",
}
_DELETE = "DELETE FROM file WHERE id = ?"


def remove_files(c: Connection, root: RootRecord, ids: Sequence[FileId], *, because: BaselineReason, now: int) -> None:
    """
    Remove files from the catalog; their baselines go to history and their findings are resolved.

    Blocks stay that history needs: those of baselines without whole-file digests, and of deleted files, which may come
    back: if other content comes back, they locate the difference and allow a repair.
    """
    records = list(load_records(c, ids))
    keep(c, records, because=because, now=now)
    resolution = _RESOLUTIONS.get(because, f"the file was removed: {because.value}")
    resolve_of_files(c, [one.id for one in records], resolution, now)
    discard(c, [one.id for one in records])
    for record in records:
        if record.block_size_bytes is not None:
            drop_checkpoint(c, root.id, record.path, Purpose.VERIFY)
        if has_whole_digests(record) and because is not BaselineReason.DELETED:
            drop_runs(c, record.id, record.version)
        c.run(_DELETE, record.id)
    adjust_file_count(c, root.id, -len(records))


def promote(
    c: Connection,
    root: RootRecord,
    candidate: FileVersion,
    because: BaselineReason,
    now: int,
    boot_id: int | None,
    note: str | None = None,
) -> bool:
    """Accept a candidate, loaded in this transaction; return False if an open finding keeps it frozen (R6)."""
    if candidate.is_gone:
        remove_files(c, root, [candidate.file_id], because=because, now=now)
        return True
    old = require_record(c, candidate.file_id)
    if old.is_frozen and because not in USER_DECISIONS:
        c.run("UPDATE version SET state = ? WHERE id = ?", VersionState.FROZEN, candidate.id)
        return False
    _put_baseline(c, root, old, candidate, because=because, now=now, boot_id=boot_id, note=note)
    c.run("DELETE FROM version WHERE id = ?", candidate.id)
    return True


class MovedFile(NamedTuple):
    """A file and its new path."""

    file_id: FileId
    folder_id: FolderId
    path: bytes  # relative to the root


def move_files(c: Connection, root: RootRecord, moved: Sequence[MovedFile], *, now: int) -> None:
    """Record new, free paths of files, which may swap paths; ids, baselines, histories, and findings stay."""
    found = {record.id: record for record in load_records(c, [one.file_id for one in moved])}
    records = [found.get(one.file_id) or require_record(c, one.file_id) for one in moved]
    targets = {one.path for one in moved}
    with_findings = set(find_with_findings(c, found))
    for record in records:
        if record.path in targets:  # free the name for another of these files
            aside = b"/%d" % record.id  # no file has such a name
            c.run("UPDATE file SET name = ? WHERE id = ?", aside, record.id)
            if record.id in with_findings:
                put_findings_aside(c, record.id, aside)
    places = [_Place(record, one.folder_id, one.path, record) for record, one in zip(records, moved, strict=True)]
    _place(c, root, places, now)


def merge_moved(c: Connection, root: RootRecord, old: FileRecord, new: FileRecord, now: int) -> None:
    """
    Merge a missing file and a newly recorded file with the same content: the file was moved.

    The old row gets the new row's folder, path, and witness; the new row is deleted. The verification state is that of
    the new row, and the file is a suspect until it was verified there.
    """
    require_current(c, old)
    require_current(c, new)
    if old.digests.md5 != new.digests.md5 or old.witness.size_bytes != new.witness.size_bytes:
        raise ValueError(f"files {old.id} and {new.id} have different contents")
    resolve_of_files(c, [new.id], "the file was moved here", now)
    drop_runs(c, new.id, new.version)
    discard(c, [new.id])
    c.run(_DELETE, new.id)
    adjust_file_count(c, root.id, -1)
    found = new._replace(is_suspect=new.verified_at is None, seen=None)
    _place(c, root, [_Place(old, new.folder_id, new.path, found)], now)


def move_to_copy(c: Connection, root: RootRecord, file_id: FileId, path: bytes, witness: Witness, now: int) -> None:
    """
    Record that a file with an open finding is now where its damaged content was copied to; the old path is gone.

    Its id, baseline, history, and findings go with it. ``path``, which is not recorded, and ``witness`` are the copy's.
    """
    old = require_record(c, file_id)
    as_recorded = witness._replace(size_bytes=old.witness.size_bytes)
    found = old._replace(witness=as_recorded, verified_at=None, is_suspect=True, seen=None)
    folder, _ = split_path(path)
    _place(c, root, [_Place(old, ensure_folders(c, root.id, [folder])[folder], path, found)], now)


class _Place(NamedTuple):
    """The new place of a row, and what is known about the data there."""

    old: FileRecord
    folder_id: FolderId
    path: bytes
    found: FileRecord  # source of the witness and the verification state


def _place(c: Connection, root: RootRecord, places: Sequence[_Place], now: int) -> None:
    """Move rows to other paths, with a few statements for each row."""
    query = """
        UPDATE file SET
            folder_id = ?, name = ?, size_bytes = ?, mtime_ns = ?, ctime_ns = ?, inode = ?, is_racy = ?,
            recorded_at = ?, verified_at = ?, read_how = ?, boot_id = ?, is_suspect = ?,
            seen_inode = ?, seen_ctime_ns = ?
        WHERE id = ?"""
    rows = (
        (
            *(folder_id, split_path(path)[1], *found.witness),
            *(found.recorded_at, found.verified_at, found.read_how, found.boot_id, found.is_suspect),
            *(*(found.seen or (None, None)), old.id),
        )
        for old, folder_id, path, found in places
    )
    c.run_many(query, rows)
    for state in ("= 'former'", "<> 'former'"):  # as the indexes of files say
        query = f"UPDATE version SET path = ? WHERE file_id = ? AND state {state}"
        c.run_many(query, ((path, old.id) for old, _, path, _ in places))
    keep_name_in_copies = """
        UPDATE copy_file SET found_as = ?
        WHERE copy_id IN (SELECT id FROM copy) AND file_id = ? AND found_at IS NOT NULL AND found_as IS NULL"""
    c.run_many(keep_name_in_copies, ((old.path, old.id) for old, *_ in places))
    paths = {old.id: path for old, _, path, _ in places}
    for file_id in find_with_findings(c, paths):
        move_findings(c, file_id, root.id, paths[file_id], now)
