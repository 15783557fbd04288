"""Remove files from the catalog, and move files to other paths."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import sqlalchemy as sa

from integrity.catalog.baselines import damaged_row, drop_candidate, has_whole_digests, require_record
from integrity.catalog.blocks import drop_runs
from integrity.catalog.checkpoints import Purpose, drop_checkpoint
from integrity.catalog.compiled_sql import CompiledStatement
from integrity.catalog.findings import find_with_findings, move_findings, put_findings_aside, resolve_of_files
from integrity.catalog.folders import ensure_folder
from integrity.catalog.history import add_history
from integrity.catalog.roots import RootRecord, adjust_tally
from integrity.catalog.rows import FileRecord, load_records, require_current, split_path
from integrity.catalog.schema import copy, copy_file, file, history
from integrity.catalog.seal import Sealer
from integrity.model import BaselineReason, FileId, FolderId, Witness

_RESOLUTIONS = {
    BaselineReason.DELETED: "the file was deleted",
    BaselineReason.FORGOTTEN: "the file was forgotten",
    BaselineReason.ACCEPTED: "the loss of the file was accepted",
}

_PUT_ASIDE = CompiledStatement(
    sa.update(file).where(file.c.id == sa.bindparam("at_id")).values(name=sa.bindparam("name")), "name", "at_id"
)
_DELETE = CompiledStatement(sa.delete(file).where(file.c.id == sa.bindparam("id")), "id")
_PLACED = (
    *("folder_id", "name", "size_bytes", "mtime_ns", "ctime_ns", "inode", "is_racy"),
    *("recorded_at", "verified_at", "read_how", "boot_id", "is_suspect", "seen_inode", "seen_ctime_ns", "seal"),
)
_PLACE = CompiledStatement(
    sa.update(file)
    .where(file.c.id == sa.bindparam("at_id"))
    .values({one: sa.bindparam(f"new_{one}") for one in _PLACED}),
    *(f"new_{one}" for one in _PLACED),
    "at_id",
)
_FOLLOW = CompiledStatement(
    sa.update(history).where(history.c.file_id == sa.bindparam("at_id")).values(path=sa.bindparam("new_path")),
    "new_path",
    "at_id",
)
_KEEP_NAME_IN_COPIES = CompiledStatement(
    sa.update(copy_file)
    .where(copy_file.c.copy_id.in_(sa.select(copy.c.id)), copy_file.c.file_id == sa.bindparam("at_id"))
    .where(copy_file.c.found_at.is_not(None), copy_file.c.found_as.is_(None))
    .values(found_as=sa.bindparam("old_path")),
    "old_path",
    "at_id",
)


def remove_files(
    c: sa.Connection, sealer: Sealer, root: RootRecord, ids: Sequence[FileId], *, because: BaselineReason, now: int
) -> list[FileRecord]:
    """
    Remove files from the catalog; their baselines go to history and their findings are resolved.

    Returns:
        The files that were kept. With reason DELETED, a damaged row is kept, because its name may be damaged, too (R9).
        Any other reason is a user decision and also removes damaged rows.
    """
    records = list(load_records(c, sealer, ids))
    kept = [one for one in records if because is BaselineReason.DELETED and not one.is_sealed]
    kept_ids = {one.id for one in kept}
    gone = [one for one in records if one.id not in kept_ids]
    add_history(c, gone, because=because, now=now)
    resolution = _RESOLUTIONS.get(because, f"the file was removed: {because.value}")
    resolve_of_files(c, [one.id for one in gone], resolution, now)
    _drop_rows(c, root, gone, keep_blocks=because is BaselineReason.DELETED)
    adjust_tally(c, root.id, -len(gone), (one.seal for one in gone))
    return kept


def _drop_rows(c: sa.Connection, root: RootRecord, records: Iterable[FileRecord], *, keep_blocks: bool) -> None:
    """
    Delete the rows of files, except for blocks that history needs.

    These are the blocks of baselines without whole-file digests, and of files that may come back (``keep_blocks``): if
    other content comes back, they locate the difference and allow a repair.
    """
    for record in records:
        if record.block_size_bytes is not None:
            drop_checkpoint(c, root.id, record.path, Purpose.VERIFY)
        if has_whole_digests(record) and not keep_blocks:
            drop_runs(c, record.id, record.version)
        drop_candidate(c, record.id)
        _DELETE.run(c, record.id)


class MovedFile(NamedTuple):
    """A file and its new path."""

    file_id: FileId
    folder_id: FolderId
    path: bytes  # relative to the root


def move_files(c: sa.Connection, sealer: Sealer, root: RootRecord, moved: Sequence[MovedFile], *, now: int) -> None:
    """
    Record new paths of files; their ids, baselines, histories, and findings stay with them.

    No other file may be recorded under the new paths. The files may swap paths with each other.

    Raises:
        CatalogCorrupt: a row is damaged; sealing it again would hide that.
        CatalogError: a file is no longer recorded.
    """
    found = {record.id: record for record in load_records(c, sealer, [one.file_id for one in moved])}
    records = [found.get(one.file_id) or require_record(c, sealer, one.file_id) for one in moved]
    targets = {one.path for one in moved}
    with_findings = set(find_with_findings(c, found))
    for record in records:
        if not record.is_sealed:
            raise damaged_row(root, record)
        if record.path in targets:  # free the name for another of these files
            aside = b"/%d" % record.id  # no file has such a name
            _PUT_ASIDE.run(c, aside, record.id)
            if record.id in with_findings:
                put_findings_aside(c, record.id, aside)
    places = [_Place(record, one.folder_id, one.path, record) for record, one in zip(records, moved, strict=True)]
    _place(c, sealer, root, places, now)


def merge_moved(c: sa.Connection, sealer: Sealer, root: RootRecord, old: FileRecord, new: FileRecord, now: int) -> None:
    """
    Merge a missing file and a newly recorded file with the same content: the file was moved.

    The old row gets the new row's folder, path, and witness; the new row is deleted. The verification state is that of
    the new row, and the file is a suspect until it was verified there.

    Raises:
        ValueError: their contents differ.
        CatalogCorrupt: one of the rows is damaged.
        RecordSuperseded: the record of one of them was replaced or removed since.
    """
    for record in (old, new):
        if not record.is_sealed:
            raise damaged_row(root, record)
        require_current(c, record)
    if old.digests.md5 != new.digests.md5 or old.witness.size_bytes != new.witness.size_bytes:
        raise ValueError(f"files {old.id} and {new.id} have different contents")
    resolve_of_files(c, [new.id], "the file was moved here", now)
    drop_runs(c, new.id, new.version)
    drop_candidate(c, new.id)
    _DELETE.run(c, new.id)
    adjust_tally(c, root.id, -1, (new.seal,))
    found = new._replace(is_suspect=new.verified_at is None, seen=None)
    _place(c, sealer, root, [_Place(old, new.folder_id, new.path, found)], now)


def move_to_copy(
    c: sa.Connection, sealer: Sealer, root: RootRecord, file_id: FileId, path: bytes, witness: Witness, now: int
) -> None:
    """
    Record that a file with an open finding is now where its damaged content was copied to; the old path is gone.

    Its id, baseline, history, and findings go with it.

    Args:
        c: in a transaction.
        root: root of both paths.
        path: path of the copy; must not be recorded.
        witness: witness of the copy.
        now: seconds UTC.

    Raises:
        CatalogCorrupt: the row is damaged; sealing it again would hide that.
    """
    old = require_record(c, sealer, file_id)
    if not old.is_sealed:
        raise damaged_row(root, old)
    as_recorded = witness._replace(size_bytes=old.witness.size_bytes)
    found = old._replace(witness=as_recorded, verified_at=None, is_suspect=True, seen=None)
    _place(c, sealer, root, [_Place(old, ensure_folder(c, root.id, split_path(path)[0]), path, found)], now)


class _Place(NamedTuple):
    """The new place of a row, and what is known about the data there."""

    old: FileRecord
    folder_id: FolderId
    path: bytes
    found: FileRecord  # source of the witness and the verification state


def _place(c: sa.Connection, sealer: Sealer, root: RootRecord, places: Sequence[_Place], now: int) -> None:
    """Move rows to other paths, with a few statements for each row."""
    values: list[tuple[object, ...]] = []
    seals: list[bytes] = []
    for old, folder_id, path, found in places:
        seal = sealer.seal_file(root.token, path, found.witness, old.digests, old.block_size_bytes, old.version)
        how = None if found.read_how is None else found.read_how.value
        values.append(
            (
                *(folder_id, split_path(path)[1], *found.witness),
                *(found.recorded_at, found.verified_at, how, found.boot_id, int(found.is_suspect)),
                *(*(found.seen or (None, None)), seal),
                old.id,
            )
        )
        seals += (old.seal, seal)
    _PLACE.run_many(c, values)
    adjust_tally(c, root.id, 0, seals)
    _FOLLOW.run_many(c, ((path, old.id) for old, _, path, _ in places))
    _KEEP_NAME_IN_COPIES.run_many(c, ((old.path, old.id) for old, *_ in places))
    paths = {old.id: path for old, _, path, _ in places}
    for file_id in find_with_findings(c, paths):
        move_findings(c, file_id, root.id, paths[file_id], now)
