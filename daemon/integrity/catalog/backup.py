"""
Backups of the catalog: made while it is in use, verified, and pruned to a configured number.

A backup is a complete SQLite file named ``STEM-YYYYMMDDTHHMMSSZ.SUFFIX``, so that names sort by time.
"""

from __future__ import annotations

import os
from contextlib import closing, suppress
from typing import NamedTuple

import apsw

from integrity.catalog import copying, own_files, sqlite_errors
from integrity.catalog.connection import Catalog, Connection
from integrity.catalog.log import DAMAGED_LOG, check_log
from integrity.catalog.maintenance import LAST_BACKUP, find_stale
from integrity.errors import CatalogError, show_path


def back_up(catalog: Catalog, folder: bytes, *, keep: int, now: int) -> bytes:
    """
    Copy the catalog while others use it, and delete the oldest backups beyond ``keep``; return the path of the backup.

    Args:
        catalog: open for writing.
        folder: destination, created if missing. Empty: the catalog's folder.
        keep: how many backups to keep, including this one; at least 1.

    Raises:
        CatalogCorrupt: the catalog is damaged; all older backups still exist.
        CatalogError: the backup could not be written or is incomplete; the same.
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
