"""
Make a catalog anew, since only a new file gets page checksums: of an older version, or of a damaged one, which is kept.

An upgrade makes a new file beside the catalog, which is checked, and exchanged for it as a restore does. The steps are
the numbered files of ``integrity.migrations``: SQL for one revision, or a Python file where SQL can't.

What can be read of a damaged catalog is salvaged: a reading with checksums goes around each damaged page, and takes all
other rows. A reading without them counts and names what was left behind. A page that another program wrote has no right
checksum either, and is left behind, too: nobody can tell one from the other.

I1  The former file is not changed; it is kept under a name that says what it is.
I2  Nothing is taken over from a page whose checksum is wrong.
"""

from __future__ import annotations

import logging
import os
from collections import Counter
from collections.abc import Generator, Iterable, Iterator, Sequence
from contextlib import closing, contextmanager
from typing import Any, NamedTuple

import apsw

from integrity import program
from integrity.catalog import copying, maintenance, own_files, sqlite_errors
from integrity.catalog.blocks import LACKS_BLOCKS
from integrity.catalog.connection import Catalog
from integrity.catalog.copying import write_schema
from integrity.catalog.db import SCHEMA_REVISION, Connection, make_empty, numbers, quote
from integrity.catalog.findings import refreeze
from integrity.catalog.own_files import exclusive_lock, held_alone, upgrade_mark
from integrity.catalog.rows import join_path
from integrity.errors import CatalogCorrupt, CatalogError, show_path
from integrity.migrations import v0012_page_checksums
from integrity.paths import absolute
from integrity.units import format_size

_log = logging.getLogger(__name__)

_AT_ONCE = 200
_MOST_NAMED = 100  # in the log
_Row = tuple[Any, ...]


class Salvaged(NamedTuple):
    """What became of a damaged catalog."""

    former: bytes  # its new path
    kept: int  # rows that were taken over
    lost: dict[str, int | None]  # rows that were left behind, by table; None: how many cannot be known
    files: tuple[tuple[bytes, bytes], ...]  # whose records were, as far as their names can be read: root and path in it


def salvage(path: bytes | str) -> Salvaged:
    """Replace a damaged catalog by what can be read of it. Raises CatalogLocked if another program has it open."""
    path = os.path.realpath(os.fsencode(path))
    if _is_right(path):
        raise CatalogError(f"{show_path(path)}: is not damaged: nothing was done")
    with exclusive_lock(path):
        rescue = _Rescue(path)
        copying.make_copy(path + own_files.RESTORING, own_files.find_owner(path), rescue.write)
        former = maintenance.exchange(path)
    assert former is not None
    return Salvaged(former, rescue.kept, rescue.lost, tuple(rescue.files))


def _is_right(path: bytes) -> bool:
    try:
        with Catalog.open(path, writes=False) as catalog:
            return maintenance.check(catalog).is_right
    except CatalogCorrupt:
        return False


class _Rescue:
    def __init__(self, path: bytes) -> None:
        self._path = path
        self.kept = 0
        self.lost: dict[str, int | None] = {}
        self.files: list[tuple[bytes, bytes]] = []

    def write(self, partial: bytes, fd: int) -> None:
        """Fill the new catalog."""
        with closing(make_empty(partial)) as new:
            own_files.require_opened(partial, fd)
            write_schema(new)
            new.run("PRAGMA foreign_keys = OFF")
            unverified = Connection(self._path, "mode=ro", is_checked=False)
            with closing(Connection(self._path, "mode=ro")) as old, closing(unverified) as unchecked:
                unchecked.run("PRAGMA query_only = ON")
                self._require_schema(old, unchecked)
                new.run("BEGIN IMMEDIATE")
                tables = new.column(
                    "SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT IN ('tally', 'alembic_version')"
                    " ORDER BY rowid"
                )
                for table in tables:
                    self._take_over(new, old, unchecked, table)
                query = "SELECT name, rows, sum FROM tally"
                with _passing_damage():
                    for table, _, _ in set(old.rows(query)) - set(new.rows(query)):
                        self.lost.setdefault(table, None)  # readable, but not as last written: a disk has lost a write
                tidy(new)
                self._name_lost(new, unchecked)
                new.run("COMMIT")
            new.run("PRAGMA journal_mode = WAL")

    def _require_schema(self, old: Connection, unchecked: Connection) -> None:
        """Require that the definitions of all tables can be read: without them nothing can."""
        try:
            revision = str(unchecked.value("SELECT version_num FROM alembic_version"))
            if revision == SCHEMA_REVISION:
                old.value("SELECT count(*) FROM sqlite_master")
        except (apsw.Error, UnicodeDecodeError) as error:
            raise CatalogError(
                f"{show_path(self._path)}: its schema can't be read, and without that nothing else can:"
                f" {sqlite_errors.describe_complaint(error)}; bring back a backup: {program.command('catalog restore')}"
            ) from error
        if revision != SCHEMA_REVISION:
            raise CatalogError(
                f"{show_path(self._path)}: is of another version (schema {revision}), so it can't be salvaged; bring"
                f" back a backup: {program.command('catalog restore')}"
            )

    def _take_over(self, new: Connection, old: Connection, unchecked: Connection, table: str) -> None:
        columns = new.column("SELECT name FROM pragma_table_info(?)", table)
        key = new.column("SELECT name FROM pragma_table_info(?) WHERE pk ORDER BY pk", table) or ["rowid"]
        names, marks = ", ".join(columns), ", ".join("?" * len(columns))
        insert = f"INSERT OR REPLACE INTO {table} ({names}) VALUES ({marks})"
        kept, lost = 0, -1
        for rows in _read_around(old, table, key, names):
            new.run_many(insert, (row[len(key) :] for row in rows))
            kept += len(rows)
        with _passing_damage():
            lost = unchecked.value(f"SELECT count(*) FROM {table} NOT INDEXED") - kept
        if lost:
            self.lost[table] = lost if lost > 0 else None
        self.kept += kept

    def _name_lost(self, new: Connection, unchecked: Connection) -> None:
        """Name the files that are not in the new catalog, whatever of them was lost."""
        lost: dict[int, None] = {}
        for direction in ("ASC", "DESC"):  # if a page can't be read, what is behind it
            for page in _page(unchecked, f"SELECT id FROM file NOT INDEXED ORDER BY id {direction}", ()):
                ids = [file_id for (file_id,) in page]
                kept = new.column("SELECT id FROM file WHERE id IN (SELECT value FROM json_each(?))", numbers(ids))
                lost |= dict.fromkeys(set(ids) - set(kept))
        self.files = list(dict.fromkeys(name_files(unchecked, sorted(lost))))


def _read_around(c: Connection, table: str, key: Sequence[str], names: str) -> Iterator[list[_Row]]:
    """Yield the rows of a table, each behind its key, many at once, without those on damaged pages."""
    order, back = ", ".join(key), ", ".join(f"{name} DESC" for name in key)
    query = f"SELECT {order}, {names} FROM {table} NOT INDEXED WHERE"
    begin, since = "1", _Row()
    while (last := (yield from _page(c, f"{query} {begin} ORDER BY {order}", since))) is not None:
        if last:
            begin, since = f"({order}) > ({', '.join('?' * len(key))})", last[: len(key)]
        leading = key[: key.index("file_id") + 1 if since and "file_id" in key else 1]
        place, marks = ", ".join(leading), ", ".join("?" * len(leading))
        beyond = _leap(c, f"{query} ({place}) > ({marks}) LIMIT 1", since[: len(leading)] or (0,))
        end = "1" if beyond is None else f"({place}) <= ({marks})"
        yield from _page(c, f"{query} {begin} AND {end} ORDER BY {back}", (*since, *(beyond or ())))
        if beyond is None:
            return
        begin, since = f"({place}) > ({marks})", beyond


def _page(c: Connection, query: str, values: _Row) -> Generator[list[_Row], None, _Row | None]:
    """Yield rows, many at once; return None if there are no more, or the last one before damage, if there is one."""
    page: list[_Row] = []
    row = _Row()
    is_whole = False
    with _passing_damage():
        for row in c.rows(query, *values):
            page.append(row)
            if len(page) == _AT_ONCE:
                yield page
                page = []
        is_whole = True
    yield page
    return None if is_whole else row


def _leap(c: Connection, query: str, key: _Row) -> _Row | None:
    """Return a key not far behind this one, from which on rows can be read; None if there is none that is a number."""
    *same, number = key
    far = 1
    while isinstance(number, int) and far < 1 << 40:
        with _passing_damage():
            return None if c.row(query, *same, number + far) is None else (*same, number + far)
        far += 1 + far // 64
    return None


@contextmanager
def _passing_damage() -> Iterator[None]:
    try:
        yield
    except (apsw.Error, UnicodeDecodeError) as error:
        if not sqlite_errors.is_damage(error):
            raise


def name_files(c: Connection, ids: Iterable[int], schema: str = "main") -> list[tuple[bytes, bytes]]:
    """Return root and path of files, as far as they can be read; of a damaged page, what stands there."""
    query = f"""
        SELECT root.path, folder.path, file.name FROM {schema}.file JOIN {schema}.folder ON folder.id = folder_id
        JOIN {schema}.root ON root.id = root_id WHERE file.id = ?"""
    files: list[tuple[bytes, bytes]] = []
    for file_id in ids:
        with _passing_damage():
            found = c.row(query, file_id)
            if found is not None and all(isinstance(part, bytes) for part in found):
                files.append((found[0], join_path(*found[1:])))
    return files


def tidy(c: Connection) -> None:
    """Remove what refers to rows that were left behind, and count anew."""
    # Without all of its blocks a file could never be verified: the next scan records it anew.
    c.run(f"DELETE FROM file WHERE {LACKS_BLOCKS}")
    query = """
        SELECT DISTINCT broken."table", parent, "from", "notnull" OR pk FROM pragma_foreign_key_check AS broken
        JOIN pragma_foreign_key_list(broken."table") AS key ON key.id = fkid
        JOIN pragma_table_info(broken."table") ON name = "from"
        """
    while found := list(c.rows(query)):
        for table, parent, column, is_needed in found:
            change = f"DELETE FROM {table}" if is_needed else f"UPDATE {table} SET {column} = NULL"
            c.run(f"{change} WHERE {column} NOT NULL AND {column} NOT IN (SELECT id FROM {parent})")
    c.run("DELETE FROM version WHERE state <> 'former' AND file_id NOT IN (SELECT id FROM file)")
    refreeze(c)
    c.run("UPDATE folder SET fingerprint = NULL")  # of files that may be gone
    query = """
        UPDATE root SET file_count = (
            SELECT count(*) FROM folder JOIN file ON folder_id = folder.id WHERE root_id = root.id)"""
    c.run(query)
    query = """
        INSERT OR REPLACE INTO meta (key, value)
        SELECT 'next_file_id', max(
            coalesce((SELECT CAST(value AS INTEGER) FROM meta WHERE key = 'next_file_id'), 1),
            (SELECT coalesce(max(id), 0) + 1 FROM file), (SELECT coalesce(max(file_id), 0) + 1 FROM version),
            (SELECT coalesce(max(file_id), 0) + 1 FROM finding))"""
    c.run(query)


def upgrade(path: bytes, lock_fd: int) -> bytes:
    """Upgrade a closed, locked catalog and return the new path of the former one; unchanged if anything fails."""
    path = os.path.realpath(path)
    owner = os.stat(path)
    with held_alone(path, lock_fd):
        with upgrade_mark(path):
            _require_room(path, owner.st_size)
            with closing(Connection(path, is_checked=False)) as older:  # which shall have all that was written to it
                older.run("PRAGMA wal_checkpoint(TRUNCATE)")
                complaint = sqlite_errors.find_complaint(older, "integrity_check(1)")
            if complaint is not None:
                raise sqlite_errors.describe_damage(path, complaint)
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
        former = maintenance.exchange(
            path
        )  # without the mark: nobody would remove it if this is killed, and the next one ends it
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
