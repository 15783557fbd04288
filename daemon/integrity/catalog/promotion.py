"""Accept candidates: a change becomes the baseline, a removal removes the file from the catalog."""

from __future__ import annotations

from integrity.catalog.baselines import USER_DECISIONS, put_baseline, require_record
from integrity.catalog.db import Connection
from integrity.catalog.removal import remove_files
from integrity.catalog.roots import RootRecord
from integrity.catalog.versions import VersionState, get_candidate
from integrity.errors import CatalogError
from integrity.model import BaselineReason, FileId


def promote(
    c: Connection,
    root: RootRecord,
    file_id: FileId,
    because: BaselineReason,
    now: int,
    boot_id: int | None,
    note: str | None = None,
) -> bool:
    """
    Accept the candidate of a file; its blocks stay where they are.

    Returns:
        Whether it was accepted. If not, the file has an open finding, which keeps it as frozen (R6).

    Raises:
        CatalogError: the file has no candidate.
    """
    found = get_candidate(c, file_id)
    if found is None:
        raise CatalogError(f"file {file_id}: nothing waits to be taken over; scan its root again")
    old = require_record(c, file_id)
    if found.is_gone:
        remove_files(c, root, [file_id], because=because, now=now)
        return True
    if old.is_frozen and because not in USER_DECISIONS:
        c.run("UPDATE version SET state = ? WHERE id = ?", VersionState.FROZEN, found.id)
        return False
    put_baseline(
        *(c, root, old, found.witness, found.digests, found.block_size_bytes, found.read_how),
        because=because,
        now=now,
        boot_id=boot_id,
        note=note,
    )
    c.run("DELETE FROM version WHERE id = ?", found.id)
    return True
