"""
Create, open, and configure the SQLite file of a catalog; reject files that are not catalogs.

A new catalog gets its name only when it is complete and synced. Settings:

    WAL                  readers never wait for the writer; a killed process loses only uncommitted changes
    synchronous=FULL     WAL with NORMAL loses acknowledged commits in a power cut; commit at most once a second (R9)
    busy_timeout=30 s    short writes of commands wait for a job's commit
    foreign_keys=ON      off by default in SQLite
    temp_store=FILE      a worklist of ten million files must not take memory
    cache_size=24 MiB    of writers: holds the indexes of some million rows; with the default of 2 MiB random inserts
                         read the disk. Readers go through tables in order, and gain nothing from it
    journal_size_limit   truncates the log after a large commit; without it the log never shrinks
"""

from __future__ import annotations

import os
import sqlite3
import time
import uuid
from contextlib import suppress
from typing import NamedTuple

import sqlalchemy as sa

from integrity import program
from integrity.catalog import copying, lockless, own_files, row_seals, schema, sqlite_errors
from integrity.catalog.compiled_sql import connect_core
from integrity.catalog.locking import is_being_upgraded
from integrity.catalog.lockless import LocklessFile
from integrity.catalog.restore import finish_restore
from integrity.catalog.seal import Sealer
from integrity.errors import CatalogCorrupt, CatalogError, CatalogLocked, CatalogMissing, SchemaMismatch, show_path
from integrity.files.capability import get_capability
from integrity.files.mounts import mount_of
from integrity.files.replace_file import may_exchange, rename_to_free


def build(path: bytes, sealer: Sealer, now: int) -> None:
    """
    Create an empty catalog. If another program created one first, keep that one.

    Raises:
        AppError: there is no /proc.
        OSError: a folder or a file could not be created.
        sqlite3.Error: the file could not be written.
    """
    draft = own_files.draft_path(path)
    copying.make_folder(os.path.dirname(path))
    has_flags = may_exchange(get_capability(mount_of(os.path.dirname(path)).fs_type))
    with own_files.claim(draft, os.stat(os.path.dirname(path))) as fd:
        own_files.share_new_with_group(fd, draft)  # before SQLite gives its files the same mode
        _write_schema(draft, fd, sealer, now)
        os.fsync(fd)
        _publish(draft, path, has_flags=has_flags)


def _write_schema(path: bytes, fd: int, sealer: Sealer, now: int) -> None:
    """Write an empty schema into an empty file, which is also open as ``fd``."""
    db = sqlite_errors.connect(path, "mode=rw")
    try:
        own_files.require_opened(path, fd)
        db.execute("PRAGMA journal_mode = WAL")
        db.execute(f"PRAGMA application_id = {schema.APPLICATION_ID}")
        with connect_core(db, sealer) as c:
            c.exec_driver_sql("BEGIN IMMEDIATE")
            row_seals.define(c)
            c.execute(schema.alembic_version.insert().values(version_num=schema.SCHEMA_REVISION))
            c.execute(sa.insert(schema.meta), _first_meta(sealer, now))
            c.commit()
    finally:
        db.close()


def _first_meta(sealer: Sealer, now: int) -> list[dict[str, str]]:
    values = {"uuid": str(uuid.uuid4()), "created_at": str(now), "next_file_id": "1", "seal_check": sealer.key_check}
    return [{"key": key, "value": value} for key, value in values.items()]


def _publish(draft: bytes, path: bytes, *, has_flags: bool) -> None:
    """Rename a finished file to its final name; if the name is taken, leave the existing file."""
    folder, name = os.path.split(path)
    folder_fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        with suppress(FileExistsError):
            rename_to_free(folder_fd, os.path.basename(draft), name, has_flags=has_flags)
        os.fsync(folder_fd)
    finally:
        os.close(folder_fd)


# trusted_schema: the triggers call the application-defined function row_seal.
_PRAGMAS = ("foreign_keys = ON", "trusted_schema = ON", "temp_store = FILE")
_WRITER_PRAGMAS = (
    *("journal_mode = WAL", "synchronous = FULL", "journal_size_limit = 67108864", "cache_size = -24576"),
)
_DAMAGE = sqlite_errors.CORRUPT_CODES | {sqlite3.SQLITE_ERROR}  # ERROR: a table is missing


_TRIES = 20
_BETWEEN_S = 0.05
"""A program that starts or ends writing makes and removes log and index one after the other, within milliseconds."""


class CatalogFile(NamedTuple):
    """An open catalog file: a connection in autocommit, and the revision of its schema."""

    db: sqlite3.Connection
    revision: str
    lockless: LocklessFile | None = None  # set if it is read without locks


def open_database(path: bytes, *, writes: bool, quick_check: bool, busy_timeout_s: float) -> CatalogFile:
    """
    Open a catalog's file. A reader who may not write beside it opens it without locks if no program has it open.

    Raises:
        CatalogCorrupt: the file failed the check twice (EIO can look like corruption once, R9), or is not a catalog.
        CatalogError: the disk is full, or the catalog was not closed properly and the reader may not index its log.
        sqlite3.Error: any other failure.
    """
    if sqlite_errors.may_end_by_signal(path):
        if writes:
            raise sqlite_errors.describe_full(path)
        return _open_alone(path, quick_check=quick_check, busy_timeout_s=busy_timeout_s)
    for number in range(_TRIES):
        if number:
            time.sleep(_BETWEEN_S)
        try:
            return _open_shared(path, writes=writes, quick_check=quick_check, busy_timeout_s=busy_timeout_s)
        except sqlite3.OperationalError as error:
            if writes or not sqlite_errors.is_closed_to_reader(path, error):
                raise
            refused = error
        opened = _open_lockless(path, quick_check=quick_check)
        if opened is not None:
            return opened
    if os.path.lexists(os.path.realpath(path) + own_files.LOG_INDEX):
        raise refused
    raise sqlite_errors.describe_unindexed(path)


def _open_shared(path: bytes, *, writes: bool, quick_check: bool, busy_timeout_s: float) -> CatalogFile:
    """Open a catalog beside other programs. Raises like ``open_database``."""
    for is_last in (False, True):
        db = sqlite_errors.connect(path, "mode=rw" if writes else "mode=ro", busy_timeout_s=busy_timeout_s)
        try:
            return CatalogFile(db, _set_up(path, db, writes=writes, quick_check=quick_check))
        except sqlite3.OperationalError as error:
            db.close()
            if writes or not sqlite_errors.is_without_room(path, error):
                raise
            return _open_alone(path, quick_check=quick_check, busy_timeout_s=busy_timeout_s)
        except CatalogCorrupt:
            db.close()
            if is_last:
                raise
        except BaseException:  # close the file on any exception
            db.close()
            raise
    raise AssertionError("the second attempt returns or raises")


def _open_lockless(path: bytes, *, quick_check: bool) -> CatalogFile | None:
    """Open a catalog that no program has open; return None if one may have written to it meanwhile."""
    state = LocklessFile(path)
    if state.is_changed():
        return None
    db = sqlite_errors.connect(path, lockless.OPTIONS)
    try:
        revision = _set_up(path, db, writes=False, quick_check=quick_check)
        state.require_unchanged()
    except BaseException as error:  # close the file on any exception
        db.close()
        if isinstance(error, CatalogError | sqlite3.Error) and state.is_changed():
            return None
        raise
    return CatalogFile(db, revision, state)


def _open_alone(path: bytes, *, quick_check: bool, busy_timeout_s: float) -> CatalogFile:
    """
    Open a catalog for reading on a full disk, which has no room for the log's shared index (``-shm``).

    In exclusive locking mode SQLite keeps the index in memory, and no other program can use the catalog. If another
    program has it open, the index file exists already and this function is not needed.
    """
    db = sqlite_errors.connect(path, "mode=rw", busy_timeout_s=busy_timeout_s)
    try:
        db.execute("PRAGMA locking_mode = EXCLUSIVE")
        db.execute("PRAGMA query_only = ON")
        return CatalogFile(db, _set_up(path, db, writes=False, quick_check=quick_check))
    except BaseException:  # close the file on any exception
        db.close()
        raise


def require_file(path: bytes) -> None:
    """
    Require that a catalog file exists and that every SQLite side file belongs to it.

    An interrupted restore is finished first.

    Raises:
        CatalogMissing: the file does not exist.
        CatalogCorrupt: the file is empty.
        CatalogLocked: a restore is not finished, and the caller may not finish it.
        CatalogError: the file was not made by this program, or cannot be read.
    """
    if own_files.is_being_restored(path):
        if not sqlite_errors.may_write_beside(path):
            raise CatalogLocked(
                f"{show_path(path)}: is being restored; try again when that is done. The next start of the service"
                " finishes a restore that was interrupted"
            )
        finish_restore(path)
    try:
        own_files.require_own(path)
        size = os.stat(path).st_size
    except FileNotFoundError as error:
        raise CatalogMissing(
            f"{show_path(path)}: there is no catalog; make one: {program.command('scan FOLDER')}; "
            f"or bring back a backup: {program.command('catalog restore')}"
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
    except UnicodeDecodeError as error:  # the driver failed to decode a message that quotes a damaged schema
        raise _corrupt(path, "its schema is damaged") from error
    if complaint != "ok":
        raise _corrupt(path, complaint)
    if row is None or not str(row[0]).isdigit():
        raise _corrupt(path, "its schema has no version")
    return str(row[0])


def _corrupt(path: bytes, complaint: str) -> CatalogError:
    return sqlite_errors.describe_damage(path, complaint, next(reversed(own_files.find_backups(path)), None))


def require_usable(path: bytes, revision: str, *, writes: bool) -> bool:
    """
    Compare the revision of a catalog's schema with this program's.

    Returns:
        Whether the catalog must be upgraded first.

    Raises:
        SchemaMismatch: the schema is newer, or older and ``writes`` is False.
        CatalogLocked: the same, and the catalog is being upgraded.
    """
    if int(revision) > int(schema.SCHEMA_REVISION):
        copy = own_files.find_before(path, schema.SCHEMA_REVISION)
        back = (
            ""
            if copy is None
            else (
                ", or go back to the catalog as it was before the upgrade, without what was recorded since:"
                f" {program.command('catalog restore', copy)}"
            )
        )
        raise SchemaMismatch(
            f"{show_path(path)}: was written by a newer integrity (schema {revision}; this program knows "
            f"{schema.SCHEMA_REVISION}); upgrade the program{back}"
        )
    is_older = int(revision) < int(schema.SCHEMA_REVISION)
    if is_older and not writes and is_being_upgraded(path):
        raise CatalogLocked(
            f"{show_path(path)}: is being upgraded for this version of integrity, which takes some minutes for a large"
            " catalog; try again when that is done"
        )
    if is_older and not writes:
        raise SchemaMismatch(
            f"{show_path(path)}: was written by an older integrity (schema {revision}); run:"
            f" {program.command('catalog upgrade')}; a service upgrades it when it starts, which takes some minutes"
        )
    return is_older
