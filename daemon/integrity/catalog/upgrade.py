"""
Upgrade a catalog of an older version: a new file is made beside it, checked, and exchanged for it as a restore does.

The steps are the numbered files of ``integrity.migrations``: SQL for one revision, or a Python file where SQL can't.
The first of them makes all older catalogs anew, since only a new file gets page checksums.

I1  The older file is not changed; it is kept under the name that says before which revision it was.
"""

from __future__ import annotations

import logging
import os
from collections import Counter
from contextlib import closing

from integrity import program
from integrity.catalog import copying, own_files, sqlite_errors
from integrity.catalog.backup import exchange
from integrity.catalog.copying import write_schema
from integrity.catalog.db import SCHEMA_REVISION, Connection, make_empty, quote
from integrity.catalog.own_files import held_alone, upgrade_mark
from integrity.catalog.salvage import name_files, tidy
from integrity.config import format_size
from integrity.errors import CatalogError, show_path
from integrity.migrations import v0012_page_checksums
from integrity.paths import absolute

_log = logging.getLogger(__name__)

_MOST_NAMED = 100


def upgrade(path: bytes, lock_fd: int) -> bytes:
    """Upgrade a closed, locked catalog and return the new path of the former one; unchanged if anything fails."""
    path = os.path.realpath(path)
    owner = os.stat(path)
    with held_alone(path, lock_fd):
        with upgrade_mark(path):
            _require_room(path, owner.st_size)
            _end_log(path)
            try:
                damaged, lost = _make(path, path + own_files.RESTORING, owner)
            except CatalogError as error:
                raise CatalogError(
                    f"{show_path(path)}: the upgrade to schema {SCHEMA_REVISION} failed: {error}; the catalog is as it"
                    " was; use the older integrity until this is solved"
                ) from error
        for table, number in damaged.items():
            _log.warning("catalog_rows_left_behind table=%s rows=%d: their seals are wrong", table, number)
        for root, name in lost[:_MOST_NAMED]:
            place = show_path(absolute(root, name))
            _log.warning("catalog_record_left_behind path=%s: the next scan records it as it is then", place)
        former = exchange(path)  # without the mark: nobody would remove it if this is killed, and the next one ends it
    assert former is not None
    return former


def _require_room(path: bytes, size_bytes: int) -> None:
    status = os.statvfs(os.path.dirname(path))
    free_bytes = status.f_bavail * status.f_frsize
    if free_bytes < size_bytes:
        raise CatalogError(
            f"{show_path(path)}: its upgrade makes a new file beside it, which needs {format_size(size_bytes)};"
            f" {format_size(free_bytes)} are free; free more, or use the older integrity; the catalog is as it was"
        )


def _end_log(path: bytes) -> None:
    """Let the older file have all that was written to it."""
    former = Connection(path, is_checked=False)
    former.run("PRAGMA wal_checkpoint(TRUNCATE)")
    complaint = sqlite_errors.find_complaint(former, "integrity_check(1)")
    former.close()
    if complaint is not None:
        raise sqlite_errors.describe_damage(path, complaint)


def _make(path: bytes, ready: bytes, owner: os.stat_result) -> tuple[Counter[str], list[tuple[bytes, bytes]]]:
    """Make the new file under its temporary name; return how many rows were left behind, by table, and which files."""
    damaged: Counter[str] = Counter()
    lost: list[tuple[bytes, bytes]] = []

    def write(partial: bytes, fd: int) -> None:
        nonlocal damaged, lost
        with closing(make_empty(partial)) as c:
            own_files.require_opened(partial, fd)
            write_schema(c)
            c.run("PRAGMA foreign_keys = OFF")
            c.run("ATTACH ? AS old", f"file:{quote(path)}?mode=ro&vfs=unix")
            c.run("BEGIN IMMEDIATE")
            damaged = v0012_page_checksums.fill(c, int(c.value("SELECT version_num FROM old.alembic_version")))
            if damaged["root"]:  # all records of the folder would be left behind with it
                raise CatalogError(
                    "the row of a watched folder in it is damaged; bring back a backup:"
                    f" {program.command('catalog restore')}"
                )
            tidy(c)
            gone = c.column("SELECT id FROM old.file WHERE id NOT IN (SELECT id FROM main.file)")
            lost = name_files(c, gone, "old")
            c.run("COMMIT")
            c.run("DETACH old")
            for table, _, parent, _ in c.rows("PRAGMA foreign_key_check"):
                raise CatalogError(f"{show_path(path)}: a row of {table} points to one of {parent} that is not there")
            c.run("PRAGMA journal_mode = WAL")
        os.fchmod(fd, owner.st_mode & 0o666)

    copying.make_copy(ready, owner, write)
    return damaged, lost
