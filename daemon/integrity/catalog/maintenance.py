"""
Check the catalog, back it up while it is in use, and restore it; after a kill at any moment a catalog still exists.

Triggers keep the number of rows of each table that people are told from, and a sum over these. A page that a disk never
wrote is an old page: its checksum is right, and only the sum knows.

A backup is a complete, verified SQLite file named ``STEM-YYYYMMDDTHHMMSSZ.SUFFIX``, so that names sort by time. What is
restored is first copied beside the catalog; the copy is named ``CATALOG.restoring`` only when it is complete. From then
on the restore is final: if it is killed, the next program that opens the catalog finishes it. Nothing is deleted.

I1  No other program has the catalog open while files are exchanged (``exclusive_lock``).
I2  The log is renamed before the catalog: SQLite would replay it into the file that takes the catalog's name.
"""

from __future__ import annotations

import os
import re
from contextlib import closing, suppress
from typing import NamedTuple

import apsw

from integrity import program
from integrity.catalog import copying, own_files, sqlite_errors
from integrity.catalog.blocks import LACKS_BLOCKS
from integrity.catalog.connection import Catalog
from integrity.catalog.database_file import DAMAGED_LOG, check_log
from integrity.catalog.db import APPLICATION_ID, LOCKLESS, SCHEMA_REVISION, Connection
from integrity.catalog.findings import find_misfrozen
from integrity.catalog.own_files import LOG, exclusive_lock
from integrity.errors import CatalogCorrupt, CatalogError, CatalogMissing, show_path
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


def back_up(catalog: Catalog, folder: bytes, *, keep: int, now: int) -> bytes:
    """
    Copy the catalog while others use it; return the path of the backup. Deletes the oldest beyond ``keep``, at least 1.

    ``folder``: created if missing; empty: the catalog's. Raises CatalogCorrupt if the catalog is damaged, CatalogError
    if the backup could not be written or is incomplete; all older backups still exist then.
    """
    folder = folder or os.path.dirname(catalog.path)
    path = os.path.join(folder, own_files.backup_name(catalog.path, now))
    try:
        copying.make_folder(folder)
    except OSError as error:
        raise CatalogError(f"{show_path(folder)}: cannot make the folder for backups: {error.strerror}") from error
    copying.forget_cached(catalog.path)
    # Not the catalog's own connection, which has pages in memory: this is when all of them are read from the disk.
    with closing(Connection(catalog.path, "mode=ro")) as c:
        try:
            complaint = DAMAGED_LOG if check_log(c, os.path.realpath(catalog.path)) is None else None
            with c.snapshot():  # others may write meanwhile
                complaint = complaint or next(iter(find_stale(c)), None)
        except apsw.Error as error:
            raise sqlite_errors.translate(catalog.path, error) from error
        if complaint is not None:
            raise sqlite_errors.describe_damage(catalog.path, complaint)
        copying.copy_database(c, path, os.stat(catalog.path))
    with catalog.transaction() as c:
        c.run("INSERT OR REPLACE INTO meta (key, value) VALUES (?, ?)", LAST_BACKUP, str(now))
    for old in own_files.find_backups(catalog.path, folder)[: -max(keep, 1)]:
        os.unlink(old)
    return path


class BackupFile(NamedTuple):
    """A backup that exists."""

    path: bytes
    size_bytes: int
    made_at: int  # by its time of modification


def list_backups(catalog: bytes, folder: bytes) -> list[BackupFile]:
    """Return the backups of a catalog in a folder (empty: the catalog's), oldest first."""
    found: list[BackupFile] = []
    for path in own_files.find_backups(catalog, folder):
        with suppress(OSError):
            stat = os.stat(path)
            found.append(BackupFile(path, stat.st_size, int(stat.st_mtime)))
    return found


def due_for_backup(c: Connection, every_s: int, now: int) -> bool:
    """Return whether the last backup is at least ``every_s`` old, in the future, or missing."""
    last = c.value("SELECT value FROM meta WHERE key = ?", LAST_BACKUP)
    return last is None or not str(last).isdigit() or not now - every_s < int(last) <= now


def restore(path: bytes | str, source: bytes) -> tuple[bytes, bytes | None]:
    """
    Replace a damaged or missing catalog by a backup.

    Returns the backup that was used, and the new path of the former catalog; None if there was none.

    Args:
        source: a backup, or a folder, whose newest valid backup is used. Empty: the catalog's folder.

    Raises:
        CatalogLocked: another program has the catalog open.
        CatalogMissing: no backup was found.
        CatalogCorrupt: no backup is valid.
    """
    path = os.path.realpath(os.fsencode(path))
    with exclusive_lock(path):
        chosen, is_named = _choose(path, source)
        copying.copy_file(chosen, path + own_files.RESTORING, own_files.find_owner(path), is_trusted=is_named)
        return chosen, exchange(path)


def finish_restore(path: bytes) -> None:
    """Finish a restore that was killed after its copy was complete. Raises CatalogLocked while it is still running."""
    path = os.path.realpath(path)
    ready = path + own_files.RESTORING
    with exclusive_lock(path):
        if not os.path.lexists(ready):
            return  # another program finished it
        os.close(own_files.open_own(ready, os.O_RDONLY, own_files.find_owner(path)))
        complaint = sqlite_errors.check_whole(ready, is_alone=True)
        if complaint is not None:
            raise CatalogError(
                f"{show_path(ready)}: is what a restore was about to bring back, but {complaint}; remove it, and"
                f" restore again: {program.command('catalog restore')}"
            )
        exchange(path)


def exchange(path: bytes) -> bytes | None:
    """Put the complete copy in place of the catalog (a locked real path); return the new path of the former one."""
    ready = path + own_files.RESTORING
    try:
        at = int(os.stat(ready).st_mtime)  # not now: a program that finishes a killed exchange must find the same name
        aside = own_files.former_path(path, SCHEMA_REVISION if _is_older(path) else None, at)
        former = _put_aside(path, aside)
        with suppress(FileNotFoundError):  # of an upgrade that was killed
            os.unlink(path + own_files.UPGRADING)
        os.rename(ready, path)
        copying.sync_file(os.path.dirname(path))
    except OSError as error:
        raise CatalogError(
            f"{show_path(path)}: cannot put {show_path(ready)} into its place: {error.strerror}"
        ) from error
    return former


def _choose(path: bytes, source: bytes) -> tuple[bytes, bool]:
    """Return the backup to restore, and whether a user named it."""
    is_named = bool(source) and not os.path.isdir(source)
    if is_named:
        if not os.path.lexists(source):
            raise CatalogMissing(f"{show_path(source)}: there is no such backup")
        candidates = [os.path.abspath(source)]
    else:
        candidates = own_files.find_backups(path, source)[::-1]
    complaints = []
    for candidate in candidates:
        complaint = verify_backup(candidate)
        if complaint is None:
            return candidate, is_named
        complaints.append(f"{show_path(candidate)}: {complaint}")
    where = show_path(source or os.path.dirname(path))
    if not complaints:
        raise CatalogMissing(
            f"{where}: there is no backup of {show_path(path)}; name one: {program.command('catalog restore FILE')}"
        )
    raise CatalogCorrupt("no backup can be brought back: " + "; ".join(complaints))


def verify_backup(path: bytes) -> str | None:
    """Return what is wrong with a backup; None if it is a valid catalog, of this or of an older schema."""
    complaint = sqlite_errors.check_whole(path, is_alone=True)
    if complaint is not None:
        return complaint
    try:
        with closing(Connection(path, LOCKLESS)) as c:
            if c.value("PRAGMA application_id") != APPLICATION_ID:
                return "it is no catalog of integrity"
            revision = str(c.value("SELECT version_num FROM alembic_version"))
    except apsw.Error as error:
        return str(error)
    if not revision.isdigit() or int(revision) > int(SCHEMA_REVISION):
        return f"its schema is {revision}, newer than this program's ({SCHEMA_REVISION})"
    return None


def _is_older(path: bytes) -> bool:
    try:
        with closing(Connection(path, LOCKLESS, is_checked=False)) as c:
            revision = str(c.value("SELECT version_num FROM alembic_version"))
    except (apsw.Error, UnicodeDecodeError):  # missing, or damaged
        return False
    return revision.isdigit() and int(revision) < int(SCHEMA_REVISION)


def _put_aside(path: bytes, aside: bytes) -> bytes | None:
    """Rename the catalog and its log, which may hold the last commits; return the new path, if there was a catalog."""
    while os.path.lexists(aside):
        aside += b"-again"
    existed = os.path.lexists(path)
    log = path + LOG
    if os.path.lexists(log) and os.lstat(log).st_size:
        os.rename(log, aside + LOG)
    elif os.path.lexists(log):
        os.unlink(log)
    if os.path.lexists(path + own_files.LOG_INDEX):
        os.unlink(path + own_files.LOG_INDEX)  # only an index of the log
    if existed:
        os.rename(path, aside)
    copying.sync_file(os.path.dirname(path))
    return aside if existed else None
