"""Remove files from the catalog, move files to other paths, and accept what is known of their next content."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from integrity.catalog.baselines import USER_DECISIONS, put_baseline, require_record
from integrity.catalog.blocks import drop_runs
from integrity.catalog.checkpoints import Purpose, drop_checkpoint
from integrity.catalog.db import Connection
from integrity.catalog.findings import find_with_findings, move_findings, put_findings_aside, resolve_of_files
from integrity.catalog.folders import ensure_folder
from integrity.catalog.roots import RootRecord, adjust_file_count
from integrity.catalog.rows import FileRecord, load_records, require_current, split_path
from integrity.catalog.versions import FileVersion, VersionState, discard, has_whole_digests, keep
from integrity.model import BaselineReason, FileId, FolderId, Witness

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
    put_baseline(
        *(c, root, old, candidate.witness, candidate.digests, candidate.block_size_bytes, candidate.read_how),
        because=because,
        now=now,
        boot_id=boot_id,
        note=note,
    )
    c.run("DELETE FROM version WHERE id = ?", candidate.id)
    return True


class MovedFile(NamedTuple):
    """A file and its new path."""

    file_id: FileId
    folder_id: FolderId
    path: bytes  # relative to the root


def move_files(c: Connection, root: RootRecord, moved: Sequence[MovedFile], *, now: int) -> None:
    """
    Record new paths of files; their ids, baselines, histories, and findings stay with them.

    No other file may be recorded under the new paths. The files may swap paths with each other.
    """
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
    _place(c, root, [_Place(old, ensure_folder(c, root.id, split_path(path)[0]), path, found)], now)


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
