"""Check the whole catalog and report its size; reseal it after a user has looked at the damage (``reseal.py``)."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from itertools import islice

import sqlalchemy as sa

from integrity.catalog import row_seals, schema
from integrity.catalog.backup import find_last_backup
from integrity.catalog.blocks import find_rows, is_run_sealed, packed_run
from integrity.catalog.compiled_sql import snapshot
from integrity.catalog.connection import Catalog
from integrity.catalog.findings import find_misfrozen
from integrity.catalog.own_files import LOG
from integrity.catalog.reseal import ResealCounts, reseal
from integrity.catalog.roots import TallyCheck, check_tally, find_roots
from integrity.catalog.row_seals import CORE_TABLES, SEALED, find_damaged, find_odd
from integrity.catalog.schema import block_run, candidate, file, history
from integrity.catalog.seal import Sealer
from integrity.catalog.sqlite_errors import DamagedRow
from integrity.errors import CatalogCorrupt
from integrity.model import FileId

_SHOWN = 100


@dataclass(frozen=True, slots=True)
class DamagedRun:
    """A row of block digests whose seal does not match."""

    file_id: FileId
    version: int
    run: int


@dataclass(frozen=True, slots=True)
class CheckReport:
    """Result of checking the catalog."""

    complaints: tuple[str, ...]  # about the file, its definitions, indexes and keys
    tallies: tuple[tuple[bytes, TallyCheck], ...]  # (path of the root, result); empty unless deep
    damaged_rows: tuple[DamagedRow, ...]  # of other tables, the first 100
    damaged_runs: tuple[DamagedRun, ...]  # the first 100
    incomplete_files: tuple[FileId, ...]  # files whose block digests do not cover them, the first 100
    misfrozen_files: tuple[FileId, ...]  # files whose is_frozen does not match their findings, the first 100
    orphan_runs: int  # rows of block digests without an owner: harmless, but they use space

    @property
    def is_right(self) -> bool:
        """Return whether the check found no problem."""
        are_right = all(tally.is_right for _, tally in self.tallies)
        return are_right and not (
            *self.complaints,
            *self.damaged_rows,
            *self.damaged_runs,
            *self.incomplete_files,
            *self.misfrozen_files,
        )


@dataclass(frozen=True, slots=True)
class TableStats:
    """Size of a table, including its indexes."""

    name: str
    rows: int
    bytes: int | None  # None: SQLite was built without dbstat


@dataclass(frozen=True, slots=True)
class Stats:
    """What the catalog knows, and its size."""

    uuid: str
    created_at: int
    revision: str
    roots: int
    files: int
    data_bytes: int  # of the files
    last_backup_at: int | None
    file_bytes: int
    log_bytes: int  # write-ahead log
    free_bytes: int  # free pages inside the file
    tables: tuple[TableStats, ...]


def check(catalog: Catalog, deep: bool = True) -> CheckReport:
    """
    Check the whole catalog.

    ``deep``: check every index, seal, and tally (10 s for a million files). Otherwise check SQLite's structure, the
    definitions, foreign keys, parities, and the seals of the core tables.
    """
    with catalog.read() as c, snapshot(c):
        complaints = _run_pragma(catalog, "PRAGMA integrity_check(100)" if deep else "PRAGMA quick_check(100)")
        keys = c.exec_driver_sql("PRAGMA foreign_key_check").fetchmany(_SHOWN) if not complaints else []
        complaints += row_seals.find_changed(map(tuple, c.exec_driver_sql(row_seals.QUERY))) if not complaints else []
        complaints += [f"row {row[1]} of {row[0]} points to a row of {row[2]} that is not there" for row in keys]
        try:
            if not deep:
                rows = () if complaints else _find_damaged_rows(c, CORE_TABLES)
                return CheckReport(tuple(complaints), (), rows, (), (), (), 0)
            tallies = tuple((root.path, check_tally(c, catalog.sealer, root)) for root in find_roots(c))
            damaged, incomplete = _damaged_runs(c, catalog.sealer), _incomplete_files(c)
            misfrozen = tuple(islice(find_misfrozen(c), _SHOWN))
            rows = _find_damaged_rows(c, SEALED)
            return CheckReport(tuple(complaints), tallies, rows, damaged, incomplete, misfrozen, _count_orphans(c))
        except CatalogCorrupt as error:
            return CheckReport((*complaints, str(error)), (), (), (), (), (), 0)


def _find_damaged_rows(c: sa.Connection, sealed: Iterable[sa.Table]) -> tuple[DamagedRow, ...]:
    """Return rows with a wrong parity or word in any table, and rows of the given tables with a wrong seal."""
    return tuple(islice(dict.fromkeys((*find_odd(c), *find_damaged(c, sealed))), _SHOWN))


def _run_pragma(catalog: Catalog, pragma: str) -> list[str]:
    """Run one of SQLite's checks; if the file is too damaged for it, return that as a complaint."""
    try:
        with catalog.read() as c:
            answers = [str(row[0]) for row in c.exec_driver_sql(pragma)]
    except CatalogCorrupt as error:
        return [str(error)]
    return [] if answers == ["ok"] else answers


def _damaged_runs(c: sa.Connection, sealer: Sealer) -> tuple[DamagedRun, ...]:
    damaged = (
        DamagedRun(row.file_id, row.version, row.run)
        for row in find_rows(c)
        if not is_run_sealed(sealer, row.file_id, row.version, packed_run(row), row.seal)
    )
    return tuple(islice(damaged, _SHOWN))


def _incomplete_files(c: sa.Connection) -> tuple[FileId, ...]:
    """Return files whose stored block digests do not cover their size."""
    own = sa.and_(block_run.c.file_id == file.c.id, block_run.c.version == file.c.version)
    stored = sa.select(sa.func.coalesce(sa.func.sum(block_run.c.block_count), 0)).where(own).scalar_subquery()
    needed = (file.c.size_bytes + file.c.block_size_bytes - 1) // file.c.block_size_bytes
    query = sa.select(file.c.id).where(file.c.block_size_bytes.is_not(None), stored != needed).limit(_SHOWN)
    return tuple(c.execute(query).scalars())


def _count_orphans(c: sa.Connection) -> int:
    is_baselines = sa.exists().where(file.c.id == block_run.c.file_id, file.c.version == block_run.c.version)
    is_candidates = sa.exists().where(
        candidate.c.file_id == block_run.c.file_id, candidate.c.version == block_run.c.version
    )
    is_historys = sa.exists().where(history.c.file_id == block_run.c.file_id, history.c.version == block_run.c.version)
    query = sa.select(sa.func.count()).select_from(block_run)
    return int(c.execute(query.where(~is_baselines, ~is_candidates, ~is_historys)).scalar_one())


def stats(catalog: Catalog) -> Stats:
    """Return the size of the catalog and of each of its tables."""
    with catalog.read() as c:
        values = {row.key: row.value for row in c.execute(sa.select(schema.meta))}
        revision = c.execute(sa.select(schema.alembic_version.c.version_num)).scalar_one()
        sizes = _table_bytes(c)
        found = tuple(
            TableStats(table.name, c.execute(sa.select(sa.func.count()).select_from(table)).scalar_one(), sizes(table))
            for table in schema.metadata.sorted_tables
        )
        roots, files = (next(one.rows for one in found if one.name == name) for name in ("root", "file"))
        data_bytes = c.execute(sa.select(sa.func.coalesce(sa.func.sum(schema.file.c.size_bytes), 0))).scalar_one()
        page_bytes, free_pages = (c.exec_driver_sql(f"PRAGMA {name}").scalar_one() for name in _PAGES)
    log = catalog.path + LOG
    return Stats(
        uuid=values.get("uuid", ""),
        created_at=int(values.get("created_at", 0)),
        revision=revision,
        roots=roots,
        files=files,
        data_bytes=int(data_bytes),
        last_backup_at=find_last_backup(values),
        file_bytes=os.path.getsize(catalog.path),
        log_bytes=os.path.getsize(log) if os.path.exists(log) else 0,
        free_bytes=page_bytes * free_pages,
        tables=found,
    )


_PAGES = ("page_size", "freelist_count")


def _table_bytes(c: sa.Connection) -> Callable[[sa.Table], int | None]:
    """Return a function for the size of a table, from ``dbstat``, which not every build of SQLite has."""
    master = sa.table("sqlite_master", sa.column("name"), sa.column("tbl_name"))
    dbstat = sa.table("dbstat", sa.column("name"), sa.column("pgsize"))
    query = sa.select(master.c.tbl_name, sa.func.sum(dbstat.c.pgsize)).join(dbstat, dbstat.c.name == master.c.name)
    has_it = c.exec_driver_sql("SELECT 1 FROM pragma_module_list WHERE name = 'dbstat'").first()
    if has_it is None:
        return lambda _: None
    sizes = {row[0]: int(row[1]) for row in c.execute(query.group_by(master.c.tbl_name))}
    return lambda table: sizes.get(table.name, 0)


__all__ = ["CheckReport", "DamagedRun", "ResealCounts", "Stats", "TableStats", "check", "reseal", "stats"]
