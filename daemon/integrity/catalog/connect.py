"""
Open the catalog: one file, one connection, explicit transactions.

Decides how SQLite is set up and what differs between database engines; leaves every question to the other modules.

    WAL                  readers never wait for the one writer, and a kill loses only what was not committed
    synchronous=FULL     WAL with NORMAL lost acknowledged rows in power cuts; so commit at most once a second (R9)
    busy_timeout=30 s    short writes of commands wait for a job's commit
    foreign_keys=ON      off by default in SQLite
    temp_store=FILE      a worklist of ten million files does not belong into memory
    cache_size=32 MiB    the indexes of some million rows; the default of 2 MiB makes random inserts read the disk
"""

from __future__ import annotations

import os
import sqlite3
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import sqlalchemy as sa
from sqlalchemy import Connection
from sqlalchemy.pool import NullPool

from integrity.catalog import copying, failure, tables
from integrity.catalog.building import build
from integrity.catalog.seal import Sealer, bind_sealer
from integrity.errors import CatalogError, CatalogMissing, SchemaMismatch, show_path
from integrity.files.mounts import mount_of

_BUSY_TIMEOUT_S = 30.0
_REMOTE = frozenset({"nfs", "nfs4", "cifs", "smb3", "smbfs", "9p", "afs", "ceph", "fuse.sshfs", "fuse.rclone"})


class Catalog:
    """
    One open catalog. Belongs to the thread that opened it, and must be closed.

    Attributes:
        path: of the file.
        sealer: seals and checks its rows.
        writes: whether it was opened for writing.
        warnings: what is unwise about where it lies, for people.
    """

    def __init__(self, path: bytes, db: sqlite3.Connection, sealer: Sealer, *, writes: bool) -> None:
        self.path = path
        self.sealer = sealer
        self.writes = writes
        self.warnings = _warn_of_place(path)
        self._in_transaction = False
        # The driver neither begins nor commits by itself (AUTOCOMMIT): transaction() below says when.
        self._engine = sa.create_engine(
            "sqlite://", creator=lambda: db, poolclass=NullPool, isolation_level="AUTOCOMMIT"
        )
        self._connection = self._engine.connect()
        bind_sealer(self._connection, sealer)

    @classmethod
    def create(
        cls, path: bytes | str, *, seal_key: bytes | None = None, clock: Callable[[], float] = time.time
    ) -> Catalog:
        """
        Make a new, empty catalog and open it for writing.

        Its folder is made if need be. If two programs make it at the same time, both get the one that was first.

        Raises:
            CatalogError: there is one already, or remains of one.
        """
        path = os.path.abspath(os.fsencode(path))
        for name in (path, path + b"-wal"):
            if os.path.lexists(name):
                raise CatalogError(f"{show_path(name)}: exists already; open it, restore it, or move it away")
        try:
            build(path, Sealer(seal_key), int(clock()))
        except OSError as error:
            raise CatalogError(f"{show_path(path)}: cannot make a catalog: {error.strerror}") from error
        except sqlite3.Error as error:
            raise failure.translate(path, error) from error
        return cls.open(path, writes=True, seal_key=seal_key, quick_check=False)

    @classmethod
    def open(
        cls,
        path: bytes | str,
        *,
        writes: bool,
        seal_key: bytes | None = None,
        quick_check: bool = True,
        any_key: bool = False,
        busy_timeout_s: float = _BUSY_TIMEOUT_S,
    ) -> Catalog:
        """
        Open a catalog that exists.

        Args:
            path: of the file.
            writes: False opens it read-only.
            seal_key: what its seals are keyed with.
            quick_check: have SQLite look it through first: 0.1 s for 500,000 files.
            any_key: open it also if its seals were made with another key (before resealing).
            busy_timeout_s: how long to wait for another writer.

        Raises:
            CatalogMissing: there is none.
            SchemaMismatch: newer than this program; or older, and not opened for writing.
            CatalogCorrupt: damaged, or no catalog at all.
            CatalogLocked: another program kept it locked.
        """
        path = os.path.abspath(os.fsencode(path))
        _require_file(path)
        try:
            db = failure.connect(path, "mode=rw" if writes else "mode=ro", busy_timeout_s=busy_timeout_s)
        except sqlite3.Error as error:
            raise failure.translate(path, error) from error
        try:
            revision = _set_up(path, db, writes=writes, quick_check=quick_check)
            if _is_older(path, revision, writes=writes):
                _upgrade(path, db)
            catalog = cls(path, db, Sealer(seal_key), writes=writes)
        except sqlite3.Error as error:
            db.close()
            raise failure.translate(path, error) from error
        except BaseException:  # whatever it is, the file must not stay open
            db.close()
            raise
        try:
            catalog._check_key(any_key=any_key)
        except CatalogError:
            catalog.close()
            raise
        return catalog

    @contextmanager
    def transaction(self) -> Iterator[sa.Connection]:
        """
        Write: all of the block or nothing of it.

        The write lock is taken at the start, so what was read inside cannot change before it is written.

        Raises:
            CatalogError: and its kinds, for whatever the driver says; nothing was changed then.
        """
        if self._in_transaction:
            raise RuntimeError("a transaction is open already")
        with self._translated():
            self._connection.exec_driver_sql("BEGIN IMMEDIATE")
            self._in_transaction = True
            try:
                yield self._connection
                self._connection.commit()
            except BaseException:  # also an interrupt must not leave half of it behind
                self._connection.rollback()
                raise
            finally:
                self._in_transaction = False

    @contextmanager
    def read(self) -> Iterator[sa.Connection]:
        """
        Read, without holding up anybody: each statement sees the newest committed state.

        Inside a transaction it sees the transaction's.
        """
        with self._translated():
            try:
                yield self._connection
            finally:
                if not self._in_transaction:
                    self._connection.rollback()  # ends Core's own bookkeeping; SQLite has no transaction open

    def close(self) -> None:
        """Close the file; may be called twice."""
        self._connection.close()
        self._engine.dispose()

    def __enter__(self) -> Catalog:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @contextmanager
    def _translated(self) -> Iterator[None]:
        try:
            yield
        except sa.exc.DBAPIError as error:
            if not isinstance(error.orig, sqlite3.Error):
                raise
            raise failure.translate(self.path, error.orig) from error
        except sqlite3.Error as error:
            raise failure.translate(self.path, error) from error

    def _check_key(self, *, any_key: bool) -> None:
        with self.read() as c:
            kept = c.execute(sa.select(tables.meta.c.value).where(tables.meta.c.key == "seal_check")).scalar()
        if kept != self.sealer.key_check and not any_key:
            raise CatalogError(
                f"{show_path(self.path)}: its rows are sealed with another key than the configured one; "
                "set the key that it was made with, or run `integrity catalog reseal`"
            )


def _require_file(path: bytes) -> None:
    try:
        size = os.stat(path).st_size
    except FileNotFoundError as error:
        raise CatalogMissing(
            f"{show_path(path)}: there is no catalog; `integrity scan PATH` makes one, "
            "`integrity catalog restore` brings back a backup"
        ) from error
    except OSError as error:
        raise CatalogError(f"{show_path(path)}: the catalog cannot be opened: {error.strerror}") from error
    if size == 0:
        raise failure.corrupt(path, "the file is empty", _newest_backup(path))


def _newest_backup(path: bytes) -> bytes | None:
    return next(reversed(copying.find_backups(path)), None)


def _set_up(path: bytes, db: sqlite3.Connection, *, writes: bool, quick_check: bool) -> str:
    """Set the connection up and find the schema's revision, or raise CatalogCorrupt."""
    for pragma in ("foreign_keys = ON", "temp_store = FILE", "cache_size = -32768"):
        db.execute(f"PRAGMA {pragma}")
    try:
        if db.execute("PRAGMA application_id").fetchone()[0] != tables.APPLICATION_ID:
            raise failure.corrupt(
                path, "it is no catalog of integrity, or its first page is lost", _newest_backup(path)
            )
        complaint = db.execute("PRAGMA quick_check(1)").fetchone()[0] if quick_check else "ok"
        row = db.execute("SELECT version_num FROM alembic_version").fetchone()
    except sqlite3.DatabaseError as error:
        if failure.primary_code(error) not in failure.CORRUPT_CODES | {sqlite3.SQLITE_ERROR}:
            raise
        complaint, row = str(error), ("",)
    if complaint != "ok":
        complaint = failure.quick_check(path)  # EIO can pass for corruption: only the same twice is believed
        if complaint is not None:
            raise failure.corrupt(path, complaint, _newest_backup(path))
    if row is None or not row[0]:
        raise failure.corrupt(path, "its schema has no version", _newest_backup(path))
    if writes:
        db.execute("PRAGMA journal_mode = WAL")
        db.execute("PRAGMA synchronous = FULL")
    return str(row[0])


def _is_older(path: bytes, revision: str, *, writes: bool) -> bool:
    if revision == tables.SCHEMA_REVISION:
        return False
    if not revision.isdigit():
        raise failure.corrupt(path, f"its schema has the impossible version {revision!r}", _newest_backup(path))
    if int(revision) > int(tables.SCHEMA_REVISION):
        raise SchemaMismatch(
            f"{show_path(path)}: was written by a newer integrity (schema {revision}; this program knows "
            f"{tables.SCHEMA_REVISION}); upgrade the program"
        )
    if not writes:
        raise SchemaMismatch(
            f"{show_path(path)}: was written by an older integrity (schema {revision}); run `integrity catalog upgrade`"
        )
    return True


def _upgrade(path: bytes, db: sqlite3.Connection) -> None:
    from integrity.catalog.upgrade import upgrade

    upgrade(path, db)


def _warn_of_place(path: bytes) -> tuple[str, ...]:
    mount = mount_of(path)
    if mount.fs_type not in _REMOTE:
        return ()
    return (
        f"{show_path(path)}: lies on a network file system ({mount.fs_type}), where SQLite's locks and its "
        "write-ahead log cannot be relied on; set `catalog` to a local disk",
    )


__all__ = ["Catalog", "Connection"]  # Connection: for the signatures of callers, who may not import SQLAlchemy
