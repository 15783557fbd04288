"""
Open the SQLite file of a catalog, set it up, and refuse what is none.

Decides what differs between database engines:

    WAL                  readers never wait for the one writer, and a kill loses only what was not committed
    synchronous=FULL     WAL with NORMAL lost acknowledged rows in power cuts; so commit at most once a second (R9)
    busy_timeout=30 s    short writes of commands wait for a job's commit
    foreign_keys=ON      off by default in SQLite
    temp_store=FILE      a worklist of ten million files does not belong into memory
    cache_size=24 MiB    the indexes of some million rows; the default of 2 MiB makes random inserts read the disk
    journal_size_limit   gives the room of a large commit back; else the log stays as large as it ever was
"""

from __future__ import annotations

import os
import sqlite3

from integrity.catalog import filenames, own_files, schema, sqlite_errors
from integrity.catalog.restoring import finish_restore
from integrity.errors import CatalogCorrupt, CatalogError, CatalogMissing, SchemaMismatch, show_path

# trusted_schema: the triggers call a function of ours.
_PRAGMAS = ("foreign_keys = ON", "trusted_schema = ON", "temp_store = FILE", "cache_size = -24576")
_WRITER_PRAGMAS = ("journal_mode = WAL", "synchronous = FULL", "journal_size_limit = 67108864")
_DAMAGE = sqlite_errors.CORRUPT_CODES | {sqlite3.SQLITE_ERROR}  # ERROR: a table is not there


def open_database(
    path: bytes, *, writes: bool, quick_check: bool, busy_timeout_s: float
) -> tuple[sqlite3.Connection, str]:
    """
    Open a catalog's file.

    Returns:
        A connection in autocommit, and the revision of its schema.

    Raises:
        CatalogMissing: there is no such file.
        CatalogCorrupt: damaged, twice in a row: EIO can pass for corruption once (R9). Or no catalog at all.
        CatalogError: there is no room to write.
        sqlite3.Error: anything else.
    """
    if sqlite_errors.may_end_by_signal(path):
        if writes:
            raise sqlite_errors.describe_full(path)
        return _open_alone(path, quick_check=quick_check, busy_timeout_s=busy_timeout_s)
    options = "mode=rw" if writes else "mode=ro"
    for is_last in (False, True):
        db = sqlite_errors.connect(path, options, busy_timeout_s=busy_timeout_s)
        try:
            return db, _set_up(path, db, writes=writes, quick_check=quick_check)
        except sqlite3.OperationalError as error:
            db.close()
            if writes or not sqlite_errors.is_without_room(path, error):
                raise
            return _open_alone(path, quick_check=quick_check, busy_timeout_s=busy_timeout_s)
        except CatalogCorrupt:
            db.close()
            if is_last:
                raise
        except BaseException:  # whatever it is, the file must not stay open
            db.close()
            raise
    raise AssertionError("the second attempt returns or raises")


def _open_alone(path: bytes, *, quick_check: bool, busy_timeout_s: float) -> tuple[sqlite3.Connection, str]:
    """
    Open a catalog for reading on a disk without room for the index of the log, which only several users need.

    Who is alone keeps it in memory. Nobody else can use the catalog meanwhile: if somebody does already, the index is
    there, and this is not needed.
    """
    db = sqlite_errors.connect(path, "mode=rw", busy_timeout_s=busy_timeout_s)
    try:
        db.execute("PRAGMA locking_mode = EXCLUSIVE")
        db.execute("PRAGMA query_only = ON")
        return db, _set_up(path, db, writes=False, quick_check=quick_check)
    except BaseException:  # whatever it is, the file must not stay open
        db.close()
        raise


def require_file(path: bytes) -> None:
    """
    Require that there is a file that can be a catalog, and nothing beside it that SQLite would take for its own.

    A restore that was killed is ended first.

    Raises:
        CatalogMissing: there is none.
        CatalogCorrupt: it is empty.
        CatalogError: it is none that this program made, or can't be looked at.
    """
    if filenames.is_being_restored(path):
        finish_restore(path)
    try:
        own_files.require_own(path)
        size = os.stat(path).st_size
    except FileNotFoundError as error:
        raise CatalogMissing(
            f"{show_path(path)}: there is no catalog; make one: integrity scan FOLDER; "
            "or bring back a backup: integrity catalog restore"
        ) from error
    except OSError as error:
        raise CatalogError(f"{show_path(path)}: the catalog cannot be opened: {error.strerror}") from error
    if size == 0:
        raise _corrupt(path, "the file is empty")


def _set_up(path: bytes, db: sqlite3.Connection, *, writes: bool, quick_check: bool) -> str:
    try:
        for pragma in _PRAGMAS:
            db.execute(f"PRAGMA {pragma}")
        if db.execute("PRAGMA application_id").fetchone()[0] != schema.APPLICATION_ID:
            raise _corrupt(path, "it is no catalog of integrity, or its first page is lost")
        complaint = db.execute("PRAGMA quick_check(1)").fetchone()[0] if quick_check else "ok"
        row = db.execute("SELECT version_num FROM alembic_version").fetchone()
        for pragma in _WRITER_PRAGMAS if writes else ():
            db.execute(f"PRAGMA {pragma}")
    except sqlite3.DatabaseError as error:
        if sqlite_errors.primary_code(error) not in _DAMAGE:
            raise
        raise _corrupt(path, str(error)) from error
    except UnicodeDecodeError as error:  # the driver, over a message of SQLite's that quotes a damaged schema
        raise _corrupt(path, "its schema is damaged") from error
    if complaint != "ok":
        raise _corrupt(path, complaint)
    if row is None or not str(row[0]).isdigit():
        raise _corrupt(path, "its schema has no version")
    return str(row[0])


def _corrupt(path: bytes, complaint: str) -> CatalogError:
    return sqlite_errors.describe_damage(path, complaint, next(reversed(filenames.find_backups(path)), None))


def require_usable(path: bytes, revision: str, *, writes: bool) -> bool:
    """
    Compare the revision of a catalog's schema with this program's.

    Returns:
        Whether it must be upgraded first.

    Raises:
        SchemaMismatch: it is newer; or older, and must not be written to.
    """
    if int(revision) > int(schema.SCHEMA_REVISION):
        raise SchemaMismatch(
            f"{show_path(path)}: was written by a newer integrity (schema {revision}; this program knows "
            f"{schema.SCHEMA_REVISION}); upgrade the program"
        )
    is_older = int(revision) < int(schema.SCHEMA_REVISION)
    if is_older and not writes:
        raise SchemaMismatch(
            f"{show_path(path)}: was written by an older integrity (schema {revision}); run: integrity catalog upgrade"
        )
    return is_older
