"""
Seal the catalog again in its present state, after a user has looked at the damage, or with another key.

The stored data becomes trusted, so no job ever does this.

I1  With the same key, each page seals some damaged rows again; if the process is killed, the others stay damaged.
I2  A new key is applied in one transaction, while no other program has the catalog open: with two keys in use, some
    rows would look damaged to everyone, and an open program would keep using the old key.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any, TypeVar

import sqlalchemy as sa

from integrity.catalog.blocks import find_rows, has_sound_shape, packed_run
from integrity.catalog.compiled_sql import CompiledStatement, driver_of
from integrity.catalog.connection import Catalog
from integrity.catalog.findings import find_misfrozen, find_unresolved, realign_frozen, resolve_ids
from integrity.catalog.folders import drop_fingerprints
from integrity.catalog.paging import write_in_pages
from integrity.catalog.roots import RootRecord, check_tally, correct_tally, find_records, find_roots
from integrity.catalog.row_seals import SEALED, find_damaged, has_key, renew_parities, reseal_row, reseal_state
from integrity.catalog.rows import FileRecord, load_records
from integrity.catalog.schema import block_run, checkpoint, checkpoint_run, file, meta
from integrity.catalog.seal import Sealer
from integrity.catalog.sqlite_errors import DamagedRow
from integrity.errors import CatalogError, show_path
from integrity.model import FileId, FindingId, FindingKind, RootId

T = TypeVar("T")

_SET_SEAL = CompiledStatement(
    sa.update(file).where(file.c.id == sa.bindparam("at_id")).values(seal=sa.bindparam("new_seal")), "new_seal", "at_id"
)


@dataclass(frozen=True, slots=True)
class ResealCounts:
    """Result of a reseal."""

    files: int  # all files checked
    resealed: int  # files whose old seal did not match
    unsealable: tuple[bytes, ...]  # paths of rows that are too damaged to seal: forget them and scan again
    runs: int  # rows of block digests whose old seal did not match
    others: int  # rows of other tables whose old seal did not match
    findings: int  # findings about the catalog that are resolved by it


def reseal(catalog: Catalog, root: RootRecord | None, now: int) -> ResealCounts:
    """
    Seal all rows whose seal does not match, recount the rows, and resolve the findings about the catalog.

    Args:
        catalog: open for writing; with ``any_key`` to change the key.
        root: only this root; None: all, and the catalog's key becomes the one that it was opened with.
        now: seconds UTC.

    Raises:
        CatalogError: the key cannot be changed for one root.
        CatalogLocked: the key changes and another program has the catalog open.
    """
    with catalog.read() as c:
        is_same_key = has_key(driver_of(c), catalog.sealer)
    if is_same_key:
        return _Resealing(catalog.sealer, catalog.read, catalog.transaction).run(root, now)
    if root is not None:
        raise CatalogError(f"{show_path(catalog.path)}: one root cannot have another key; reseal all of them")
    with catalog.held_alone(), catalog.transaction() as c:
        c.execute(sa.update(meta).where(meta.c.key == "seal_check").values(value=catalog.sealer.key_check))
        return _Resealing(catalog.sealer, lambda: nullcontext(c), lambda: nullcontext(c)).run(None, now)


class _Resealing:
    """
    Seal damaged rows again.

    Args:
        read: opens a connection for reading, ``transaction`` one for writing.
    """

    def __init__(
        self,
        sealer: Sealer,
        read: Callable[[], AbstractContextManager[sa.Connection]],
        transaction: Callable[[], AbstractContextManager[sa.Connection]],
    ) -> None:
        self._sealer = sealer
        self._read = read
        self._transaction = transaction

    def run(self, root: RootRecord | None, now: int) -> ResealCounts:
        """Reseal the damaged rows of one root or of all, and those that belong to no root."""
        self._reindex()
        with self._read() as c:
            roots = find_roots(c) if root is None else [root]
        done = [self._reseal_root(one) for one in roots]
        with self._read() as c:
            misfrozen = list(find_misfrozen(c))
        self._write(misfrozen, realign_frozen)
        runs = self._reseal_runs()
        with self._transaction() as c:
            for one in roots:
                _drop_checkpoints(c, one.id)
                drop_fingerprints(c, one.id)
            renew_parities(c)
        findings = sum(self._resolve(one.id, now) for one in roots)
        return ResealCounts(
            files=sum(files for files, _, _ in done),
            resealed=sum(resealed for _, resealed, _ in done),
            unsealable=tuple(path for _, _, unsealable in done for path in unsealable),
            runs=runs,
            others=self._reseal_others(),
            findings=findings,
        )

    def _write(self, items: Sequence[T], write: Callable[[sa.Connection, Sequence[T]], object]) -> None:
        write_in_pages(self._transaction, items, write)

    def _reindex(self) -> None:
        """Rebuild the indexes if one is damaged: otherwise queries may miss rows."""
        with self._read() as c:
            is_right = c.exec_driver_sql("PRAGMA integrity_check(1)").scalar() == "ok"
        if not is_right:
            with self._transaction() as c:
                c.exec_driver_sql("REINDEX")

    def _reseal_root(self, root: RootRecord) -> tuple[int, int, list[bytes]]:
        """Reseal the files of a root; return how many there are, how many were resealed, and the unsealable paths."""
        with self._read() as c:
            damaged = [one.id for one in find_records(c, self._sealer, root.id) if not one.is_sealed]
        unsealable: list[bytes] = []

        def write(c: sa.Connection, ids: Sequence[FileId]) -> None:
            for record in load_records(c, self._sealer, ids):
                if not record.is_sealed:
                    seal = _seal(self._sealer, root, record)
                    _SET_SEAL.run(c, seal, record.id)
                    reseal_state(c, record.id)
            # Check again: if a field has the wrong type, the seal was made from a default value.
            unsealable.extend(one.path for one in load_records(c, self._sealer, ids) if not one.is_sealed)

        self._write(damaged, write)
        with self._read() as c:
            found = check_tally(c, self._sealer, root)
        with self._transaction() as c:
            correct_tally(c, root.id, found)
        return found.actual_rows, len(damaged) - len(unsealable), unsealable

    def _reseal_runs(self) -> int:
        """Reseal block digests of all roots and return how many: a row belongs to a file id, whose file may be gone."""
        with self._read() as c:
            damaged = [(row.file_id, row.version, row.run) for row in find_rows(c) if self._seal_run(row) != row.seal]

        def write(c: sa.Connection, keys: Sequence[tuple[int, int, int]]) -> None:
            for key in keys:
                this = [column == value for column, value in zip(block_run.primary_key, key, strict=True)]
                row = c.execute(sa.select(block_run).where(*this)).one_or_none()
                if row is not None:
                    c.execute(sa.update(block_run).where(*this).values(seal=self._seal_run(row)))

        self._write(damaged, write)
        return len(damaged)

    def _seal_run(self, row: sa.Row[Any]) -> bytes:
        packed = packed_run(row)
        return self._sealer.seal_run(row.file_id, row.version, *packed) if has_sound_shape(packed) else row.seal

    def _resolve(self, root_id: RootId, now: int) -> int:
        """Resolve the findings about the catalog and return how many."""
        with self._read() as c:
            ids = find_unresolved(c, root_id, kinds={FindingKind.CATALOG_DAMAGED})

        def write(c: sa.Connection, some: Sequence[FindingId]) -> None:
            resolve_ids(c, some, resolution="the catalog was resealed", now=now)

        self._write(ids, write)
        return len(ids)

    def _reseal_others(self) -> int:
        """Reseal the rows of other tables and return how many."""
        with self._read() as c:
            damaged = list(find_damaged(c, SEALED))

        def write(c: sa.Connection, rows: Sequence[DamagedRow]) -> None:
            for row in rows:
                reseal_row(c, row)

        self._write(damaged, write)
        return len(damaged)


def _seal(sealer: Sealer, root: RootRecord, record: FileRecord) -> bytes:
    return sealer.seal_file(
        root.token, record.path, record.witness, record.digests, record.block_size_bytes, record.version
    )


def _drop_checkpoints(c: sa.Connection, root_id: RootId) -> None:
    """Delete checkpoints, so that files are read from the start: their partial digests may be damaged."""
    ids = sa.select(checkpoint.c.id).where(checkpoint.c.root_id == root_id)
    c.execute(sa.delete(checkpoint_run).where(checkpoint_run.c.checkpoint_id.in_(ids)))
    c.execute(sa.delete(checkpoint).where(checkpoint.c.root_id == root_id))
