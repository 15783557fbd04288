"""Files that leave the catalog, and files that are found again under another name."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import sqlalchemy as sa

from integrity.catalog.blocks import drop_runs
from integrity.catalog.findings import move_findings, resolve_of_files
from integrity.catalog.history import add_history
from integrity.catalog.hot import Hot
from integrity.catalog.recording import damaged_row, drop_candidate, has_whole_digests, require_record
from integrity.catalog.roots import RootRecord, adjust_tally
from integrity.catalog.rows import FileRecord, join_path, load_records
from integrity.catalog.seal import Sealer
from integrity.catalog.tables import file, history
from integrity.model import BaselineReason, FileId, FolderId

_RESOLUTIONS = {
    BaselineReason.DELETED: "the file was deleted",
    BaselineReason.FORGOTTEN: "the file was forgotten",
    BaselineReason.ACCEPTED: "the loss of the file was accepted",
}

_DELETE = Hot(sa.delete(file).where(file.c.id == sa.bindparam("id")), "id")


def remove_files(
    c: sa.Connection,
    sealer: Sealer,
    root: RootRecord,
    ids: Sequence[FileId],
    *,
    because: BaselineReason,
    now: int,
) -> list[FileRecord]:
    """
    Take files out of the catalog; their baselines go to history, their findings are resolved.

    Returns:
        Those that stayed: their rows are damaged, so "deleted" may be as wrong as the rest of them (R9). Only a
        person's word (any other reason) removes such a row.
    """
    records = list(load_records(c, sealer, ids))
    kept = [one for one in records if because is BaselineReason.DELETED and not one.is_sealed]
    kept_ids = {one.id for one in kept}
    gone = [one for one in records if one.id not in kept_ids]
    add_history(c, gone, because=because, now=now)
    resolution = _RESOLUTIONS.get(because, f"the file was removed: {because.value}")
    resolve_of_files(c, [one.id for one in gone], resolution, now)
    _drop_rows(c, gone)
    adjust_tally(c, root.id, -len(gone), (one.seal for one in gone))
    return kept


def _drop_rows(c: sa.Connection, records: Iterable[FileRecord]) -> None:
    """Delete the rows of files, but for the blocks that history needs: those of baselines without other digests."""
    for record in records:
        if has_whole_digests(record):
            drop_runs(c, record.id, record.version)
        drop_candidate(c, record.id)
        _DELETE.run(c, record.id)


def move_file(
    c: sa.Connection,
    sealer: Sealer,
    root: RootRecord,
    file_id: FileId,
    to_folder_id: FolderId,
    to_folder_path: bytes,
    to_name: bytes,
    *,
    now: int,
) -> None:
    """
    Record that a file has another path now; its number, baseline, history and findings go with it.

    Nothing may be recorded under the new path.

    Raises:
        CatalogCorrupt: the row is damaged; sealing it anew would hide that.
    """
    old = require_record(c, sealer, file_id)
    if not old.is_sealed:
        raise damaged_row(root, old)
    _place(c, sealer, root, old, to_folder_id, join_path(to_folder_path, to_name), old, now)


def merge_moved(c: sa.Connection, sealer: Sealer, root: RootRecord, old_id: FileId, new_id: FileId, now: int) -> None:
    """
    Make one of a missing file and a newly recorded one with the same content: it was moved.

    The old row takes the new one's place, path and witness; the new row goes.

    Raises:
        ValueError: their contents differ.
        CatalogCorrupt: one of the rows is damaged.
    """
    old, new = require_record(c, sealer, old_id), require_record(c, sealer, new_id)
    for record in (old, new):
        if not record.is_sealed:
            raise damaged_row(root, record)
    if old.digests.md5 != new.digests.md5 or old.witness.size_bytes != new.witness.size_bytes:
        raise ValueError(f"files {old_id} and {new_id} have different contents")
    resolve_of_files(c, [new_id], "the file was moved here", now)
    drop_runs(c, new_id, new.version)
    drop_candidate(c, new_id)
    _DELETE.run(c, new_id)
    adjust_tally(c, root.id, -1, (new.seal,))
    _place(c, sealer, root, old, new.folder_id, new.path, new, now)


def _place(
    c: sa.Connection,
    sealer: Sealer,
    root: RootRecord,
    old: FileRecord,
    folder_id: FolderId,
    path: bytes,
    found: FileRecord,
    now: int,
) -> None:
    """Put a row under another path, with the witness and the boot of ``found``."""
    witness = found.witness
    seal = sealer.seal_file(root.token, path, witness, old.digests, old.block_size_bytes, old.version)
    c.execute(
        sa.update(file)
        .where(file.c.id == old.id)
        .values(
            **witness._asdict(),
            folder_id=folder_id,
            name=path.rpartition(b"/")[2],
            boot_id=found.boot_id,
            is_suspect=found.is_suspect,
            seal=seal,
        )
    )
    adjust_tally(c, root.id, 0, (old.seal, seal))
    c.execute(sa.update(history).where(history.c.file_id == old.id).values(path=path))
    move_findings(c, old.id, root.id, path, now)
