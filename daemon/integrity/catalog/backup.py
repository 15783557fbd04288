"""
Backups of the catalog: taken while it is used, checked, thinned out, brought back.

A backup is a whole SQLite file named ``CATALOG-YYYYMMDDTHHMMSSZ.db``, so names sort by time. Nothing is ever deleted
in a restore: the damaged file stays beside the new one.
"""

from __future__ import annotations

import os
import sqlite3
from contextlib import closing

import sqlalchemy as sa

from integrity.catalog import copying, failure, tables
from integrity.catalog.connect import Catalog
from integrity.catalog.copying import find_backups
from integrity.catalog.hot import driver_of
from integrity.catalog.tables import meta
from integrity.errors import CatalogCorrupt, CatalogError, CatalogMissing, show_path

_LAST = "last_backup_at"


def back_up(catalog: Catalog, folder: bytes, *, keep: int, now: int) -> bytes:
    """
    Copy the catalog while others use it, and drop the oldest backups beyond ``keep``.

    Args:
        catalog: open for writing.
        folder: where to; made if need be. Beside the catalog when empty.
        keep: how many backups to keep, this one included; at least 1.
        now: the time, for its name.

    Returns:
        The path of the backup.

    Raises:
        CatalogError: it could not be written, or is not whole; older backups are all still there then.
    """
    folder = folder or os.path.dirname(catalog.path)
    path = os.path.join(folder, copying.backup_name(catalog.path, now))
    try:
        copying.make_folder(folder)
    except OSError as error:
        raise CatalogError(f"{show_path(folder)}: cannot make the folder for backups: {error.strerror}") from error
    with catalog.read() as c:
        copying.copy_database(driver_of(c), path, os.stat(catalog.path))
    with catalog.transaction() as c:
        c.execute(sa.delete(meta).where(meta.c.key == _LAST))
        c.execute(sa.insert(meta).values(key=_LAST, value=str(now)))
    for old in find_backups(catalog.path, folder)[: -max(keep, 1)]:
        os.unlink(old)
    return path


def due_for_backup(c: sa.Connection, every_s: int, now: int) -> bool:
    """Say whether the last backup is ``every_s`` old, or there is none; a time in the future counts as none."""
    last = c.execute(sa.select(meta.c.value).where(meta.c.key == _LAST)).scalar()
    return last is None or not str(last).isdigit() or not now - every_s < int(last) <= now


def restore(path: bytes | str, source: bytes, *, now: int) -> tuple[bytes, bytes | None]:
    """
    Bring back a backup in place of a catalog that is damaged or missing.

    No program may have the catalog open: the caller holds the locks.

    Args:
        path: of the catalog.
        source: a backup, or a folder of them: then the newest that is whole. Beside the catalog when empty.
        now: the time, for the name of what is put aside.

    Returns:
        The backup that was taken, and where the damaged catalog is now; None if there was none.

    Raises:
        CatalogMissing: there is no backup.
        CatalogCorrupt: none is whole.
    """
    path = os.path.abspath(os.fsencode(path))
    chosen = _choose(path, source)
    fresh = path + b".restoring"
    owner = os.stat(path if os.path.lexists(path) else os.path.dirname(path))
    try:
        with closing(failure.connect(chosen, "mode=ro&immutable=1")) as db:
            copying.copy_database(db, fresh, owner)
        aside = _put_aside(path, now)
        os.rename(fresh, path)
        copying.sync_file(os.path.dirname(path))
    except OSError as error:
        raise CatalogError(f"{show_path(path)}: cannot bring back {show_path(chosen)}: {error.strerror}") from error
    return chosen, aside


def _choose(path: bytes, source: bytes) -> bytes:
    if source and not os.path.isdir(source):
        if not os.path.lexists(source):
            raise CatalogMissing(f"{show_path(source)}: there is no such backup")
        candidates = [os.path.abspath(source)]
    else:
        candidates = find_backups(path, source)[::-1]
    complaints = []
    for candidate in candidates:
        complaint = verify_backup(candidate)
        if complaint is None:
            return candidate
        complaints.append(f"{show_path(candidate)}: {complaint}")
    where = show_path(source or os.path.dirname(path))
    if not complaints:
        raise CatalogMissing(
            f"{where}: there is no backup of {show_path(path)}; name one: integrity catalog restore FILE"
        )
    raise CatalogCorrupt("no backup can be brought back: " + "; ".join(complaints))


def verify_backup(path: bytes) -> str | None:
    """Say what is wrong with a backup; None if it is a whole catalog."""
    complaint = failure.quick_check(path, is_alone=True)
    if complaint is not None:
        return complaint
    try:
        with closing(failure.connect(path, "mode=ro&immutable=1")) as db:
            if db.execute("PRAGMA application_id").fetchone()[0] != tables.APPLICATION_ID:
                return "it is no catalog of integrity"
            revision = str(db.execute("SELECT version_num FROM alembic_version").fetchone()[0])
    except (sqlite3.Error, TypeError) as error:
        return str(error)
    if not revision.isdigit() or int(revision) > int(tables.SCHEMA_REVISION):
        return f"its schema is {revision}, newer than this program's ({tables.SCHEMA_REVISION})"
    return None


def _put_aside(path: bytes, now: int) -> bytes | None:
    """
    Rename a damaged catalog with its log; what remains of a log would be played into the restored file.

    The log goes with its file, under its file's new name: what was committed last may be in it alone. The shared memory
    file is only an index of the log.
    """
    aside = path + b".damaged-" + copying.time_stamp(now)
    had_one = os.path.lexists(path)
    if had_one:
        os.rename(path, aside)
    if os.path.lexists(path + b"-wal"):
        os.rename(path + b"-wal", aside + b"-wal")
    if os.path.lexists(path + b"-shm"):
        os.unlink(path + b"-shm")
    copying.sync_file(os.path.dirname(path))
    return aside if had_one else None


__all__ = ["back_up", "due_for_backup", "find_backups", "restore", "verify_backup"]
