"""
Seal the catalog anew, as it is: after a person has looked at what was damaged, or to change the key.

What is stored becomes what is believed. So this is never done by a job.
"""

from __future__ import annotations

from dataclasses import dataclass

import sqlalchemy as sa

from integrity.catalog.blocks import find_rows, has_sound_shape, packed_run
from integrity.catalog.connect import Catalog
from integrity.catalog.core import driver_of
from integrity.catalog.findings import realign_frozen, resolve_findings
from integrity.catalog.hot import Hot
from integrity.catalog.roots import RootRecord, find_records, find_roots, set_tally
from integrity.catalog.rows import FileRecord
from integrity.catalog.rowseals import has_key, reseal_rows, reseal_states
from integrity.catalog.seal import Sealer, xor_seals
from integrity.catalog.tables import block_run, checkpoint, checkpoint_run, file, meta
from integrity.errors import CatalogError, show_path
from integrity.model import FindingKind, RootId

_SET_SEAL = Hot(
    sa.update(file).where(file.c.id == sa.bindparam("at_id")).values(seal=sa.bindparam("new_seal")),
    "new_seal",
    "at_id",
)


@dataclass(frozen=True, slots=True)
class ResealCounts:
    """What sealing anew did."""

    files: int  # all files looked at
    resealed: int  # files whose old seal did not match
    unsealable: tuple[bytes, ...]  # paths of rows too damaged for a seal: forget them, and scan again
    runs: int  # rows of block digests whose old seal did not match
    others: int  # rows of other tables whose old seal did not match
    findings: int  # findings about the catalog that are resolved by it


def reseal(catalog: Catalog, root: RootRecord | None, now: int) -> ResealCounts:
    """
    Seal what does not match its seal anew, count the rows anew, and resolve the findings about the catalog.

    Args:
        catalog: open for writing; with ``any_key`` if the key is to change.
        root: only this root's; None: all, and the catalog's key becomes the one that it was opened with.
        now: the time.

    Raises:
        CatalogError: one root alone cannot change its key.
    """
    # One transaction, however long: rows sealed with two keys would all be damaged to whoever opens the catalog next.
    with catalog.transaction() as c:
        if root is not None and not has_key(driver_of(c), catalog.sealer):
            raise CatalogError(f"{show_path(catalog.path)}: one root cannot have another key; reseal all of them")
        roots = find_roots(c) if root is None else [root]
        done = [_reseal_root(c, catalog.sealer, one) for one in roots]
        realign_frozen(c)
        runs = _reseal_runs(c, catalog.sealer)
        for one in roots:
            _drop_checkpoints(c, one.id)
        damaged = {FindingKind.CATALOG_DAMAGED}
        findings = sum(
            len(resolve_findings(c, root_id=one.id, kinds=damaged, resolution="the catalog was resealed", now=now))
            for one in roots
        )
        c.execute(sa.update(meta).where(meta.c.key == "seal_check").values(value=catalog.sealer.key_check))
        others = reseal_rows(c)
    return ResealCounts(
        files=sum(files for files, _, _ in done),
        resealed=sum(resealed for _, resealed, _ in done),
        unsealable=tuple(path for _, _, unsealable in done for path in unsealable),
        runs=runs,
        others=others,
        findings=findings,
    )


def _reseal_root(c: sa.Connection, sealer: Sealer, root: RootRecord) -> tuple[int, int, list[bytes]]:
    """Seal the files of a root anew; returns how many there are, how many needed it, and the paths of hopeless ones."""
    resealed = 0
    for record in find_records(c, sealer, root.id):
        if not record.is_sealed:
            resealed += 1
            _SET_SEAL.run(c, _seal(sealer, root, record), record.id)
    reseal_states(c)
    # Looked at again: of a row whose fields are not even of their types, the record held stand-ins.
    files, xor, unsealable = 0, bytes(16), []
    for record in find_records(c, sealer, root.id):
        files += 1
        xor = xor_seals(xor, (record.seal,))
        if not record.is_sealed:
            unsealable.append(record.path)
    set_tally(c, root.id, files, xor)
    return files, resealed - len(unsealable), unsealable


def _seal(sealer: Sealer, root: RootRecord, record: FileRecord) -> bytes:
    return sealer.seal_file(
        root.token, record.path, record.witness, record.digests, record.block_size_bytes, record.version
    )


def _reseal_runs(c: sa.Connection, sealer: Sealer) -> int:
    """Seal rows of block digests anew, of all roots: a row belongs to a file's number, and that may be gone."""
    resealed = 0
    for row in find_rows(c):
        packed = packed_run(row)
        seal = sealer.seal_run(row.file_id, row.version, *packed) if has_sound_shape(packed) else row.seal
        if seal != row.seal:
            resealed += 1
            this = block_run.c.file_id == row.file_id, block_run.c.version == row.version, block_run.c.run == row.run
            c.execute(sa.update(block_run).where(*this).values(seal=seal))
    return resealed


def _drop_checkpoints(c: sa.Connection, root_id: RootId) -> None:
    """Have half-read files read from the start: their digests so far were not looked at by anybody."""
    ids = sa.select(checkpoint.c.id).where(checkpoint.c.root_id == root_id)
    c.execute(sa.delete(checkpoint_run).where(checkpoint_run.c.checkpoint_id.in_(ids)))
    c.execute(sa.delete(checkpoint).where(checkpoint.c.root_id == root_id))
