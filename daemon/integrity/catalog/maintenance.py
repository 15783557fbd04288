"""
Check the whole catalog, and report its size.

Triggers keep the number of rows of each table that people are told from, and a sum over these. A page that a disk never
wrote is an old page: its checksum is right, and only the sum knows.
"""

from __future__ import annotations

import os
import re
from typing import NamedTuple

from integrity.catalog import sqlite_errors
from integrity.catalog.blocks import LACKS_BLOCKS
from integrity.catalog.connection import Catalog, Connection
from integrity.catalog.findings import find_misfrozen
from integrity.catalog.own_files import LOG
from integrity.model import FileId

LAST_BACKUP = "last_backup_at"  # key in ``meta``
_SHOWN = 100


class FileCount(NamedTuple):
    """The number of a root's files, as it is kept and as it is."""

    root: bytes
    expected: int
    actual: int


class CheckReport(NamedTuple):
    """Result of checking the catalog."""

    complaints: tuple[str, ...]  # about the file, its pages, indexes and keys
    counts: tuple[FileCount, ...]  # empty unless deep
    incomplete_files: tuple[FileId, ...]  # files whose block digests do not cover them, the first 100
    misfrozen_files: tuple[FileId, ...]  # files whose is_frozen does not match their findings, the first 100
    orphan_runs: int  # rows of block digests without an owner: harmless, but they use space

    @property
    def is_right(self) -> bool:
        """Return whether the check found no problem."""
        are_counts_right = all(one.expected == one.actual for one in self.counts)
        return are_counts_right and not (*self.complaints, *self.incomplete_files, *self.misfrozen_files)


class TableStats(NamedTuple):
    """Size of a table, including its indexes."""

    name: str
    rows: int
    bytes: int


class Stats(NamedTuple):
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
    """Check each page by its checksum, and the structure; ``deep``: compare all indexes and counts, too."""
    with catalog.read() as c, c.snapshot():
        complaint = sqlite_errors.find_complaint(c, "integrity_check(1)" if deep else "quick_check(1)")
        if complaint is not None:
            return CheckReport((complaint,), (), (), (), 0)
        stale = find_stale(c)
        broken = c.column(
            "SELECT 'row ' || rowid || ' of ' || \"table\" || ' points to a row of ' || parent || ' that is not there'"
            " FROM pragma_foreign_key_check LIMIT ?",
            _SHOWN,
        )
        if not deep or stale or broken:
            return CheckReport((*stale, *broken), (), (), (), 0)
        counts = c.all(
            FileCount,
            "SELECT path, file_count, (SELECT count(*) FROM folder JOIN file ON file.folder_id = folder.id"
            " WHERE folder.root_id = root.id) FROM root ORDER BY path",
        )
        misfrozen = tuple(file_id for file_id, _ in zip(find_misfrozen(c), range(_SHOWN), strict=False))
        incomplete = tuple(c.column(f"SELECT id FROM file WHERE {LACKS_BLOCKS} LIMIT ?", _SHOWN))
        orphans = """
            SELECT count(*) FROM block_run
            WHERE NOT EXISTS (SELECT 1 FROM file WHERE id = file_id AND version = block_run.version)
            AND NOT EXISTS (SELECT 1 FROM version AS candidate WHERE candidate.file_id = block_run.file_id
                            AND number = block_run.version AND state <> 'former')
            AND NOT EXISTS (SELECT 1 FROM version AS former WHERE former.file_id = block_run.file_id
                            AND number = block_run.version AND state = 'former')"""
        return CheckReport((), tuple(counts), incomplete, misfrozen, c.value(orphans))


def find_stale(c: Connection) -> list[str]:
    """Return complaints about tables that are not what was last written to them: a disk has lost a write."""
    # An expression of a trigger, with the names of a row instead of NEW.
    told = c.rows("SELECT tbl_name, sql FROM sqlite_master WHERE type = 'trigger' AND name GLOB '*_tallied'")
    sums = {table: re.search(r"sum = sum \+ (.*) WHERE", sql) for table, sql in told}
    complaints: list[str] = []
    for table, found in sums.items():
        assert found is not None
        kept = c.row("SELECT rows, sum FROM tally WHERE name = ?", table)
        number = found[1].replace("NEW.", "")
        if kept != c.row(f"SELECT count(*), coalesce(sum({number}), 0) FROM {table}"):
            complaints.append(f"the table {table} is not as it was last written: the disk has lost a write")
    return complaints


def stats(catalog: Catalog) -> Stats:
    """Return the size of the catalog and of each of its tables."""
    with catalog.read() as c, c.snapshot():
        values = dict(c.rows("SELECT key, value FROM meta"))
        query = "SELECT tbl_name, sum(pgsize) FROM sqlite_master JOIN dbstat USING (name) GROUP BY tbl_name"
        sizes = dict(c.rows(query))
        names = c.column("SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT GLOB 'sqlite*' ORDER BY 1")
        tables = tuple(TableStats(name, c.value(f"SELECT count(*) FROM {name}"), sizes.get(name, 0)) for name in names)
        rows = {one.name: one.rows for one in tables}
        return Stats(
            uuid=values.get("uuid", ""),
            created_at=int(values.get("created_at", 0)),
            revision=c.value("SELECT version_num FROM alembic_version"),
            roots=rows["root"],
            files=rows["file"],
            data_bytes=c.value("SELECT coalesce(sum(size_bytes), 0) FROM file"),
            last_backup_at=int(values[LAST_BACKUP]) if values.get(LAST_BACKUP, "").isdigit() else None,
            file_bytes=os.path.getsize(catalog.path),
            log_bytes=os.path.getsize(log) if os.path.exists(log := catalog.path + LOG) else 0,
            free_bytes=c.value("PRAGMA page_size") * c.value("PRAGMA freelist_count"),
            tables=tables,
        )
