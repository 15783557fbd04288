"""Accept candidates: a change becomes the baseline, a removal removes the file from the catalog."""

from __future__ import annotations

from integrity.catalog.baselines import USER_DECISIONS, put_baseline, require_record
from integrity.catalog.db import Connection
from integrity.catalog.removal import remove_files
from integrity.catalog.roots import RootRecord
from integrity.catalog.versions import FileVersion, VersionState
from integrity.model import BaselineReason


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
