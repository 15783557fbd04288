"""
One open catalog file: one connection, explicit transactions, and driver errors translated to ``errors.py``.

Decides when the write lock is taken and when a commit is synced to the disk. Leaves queries to the other modules, and
SQLite's settings and the creation of a new file to ``database_file``.
"""

from __future__ import annotations

import os
import sqlite3
import time
from collections.abc import Callable, Container, Iterator
from contextlib import AbstractContextManager, ExitStack, closing, contextmanager
from itertools import chain, islice

import sqlalchemy as sa
from sqlalchemy import Connection

from integrity import program
from integrity.catalog import own_files, row_seals, sqlite_errors
from integrity.catalog.compiled_sql import connect_core, driver_of
from integrity.catalog.database_file import CatalogFile, build, open_database, require_file, require_usable
from integrity.catalog.locking import held_alone, hold_shared
from integrity.catalog.lockless import LocklessFile
from integrity.catalog.paging import LockGap
from integrity.catalog.seal import Sealer
from integrity.errors import CatalogError, CatalogExists, CatalogReplaced, show_path
from integrity.files.mounts import mount_of

_BUSY_TIMEOUT_S = 30.0
_SHOWN = 3  # damaged rows
_REMOTE = frozenset({"nfs", "nfs4", "cifs", "smb3", "smbfs", "9p", "afs", "ceph", "fuse.sshfs", "fuse.rclone"})


class Catalog:
    """
    An open catalog. Use it only in the thread that opened it, and close it.

    Attributes:
        path: absolute path of the file.
        sealer: makes and checks the seals of its rows.
        writes: whether it was opened for writing.
        warnings: problems with its location, as text for people.
        before_upgrade: path of the copy that was made because opening it upgraded it; None if it did not.
    """

    def __init__(self, path: bytes, file: CatalogFile, sealer: Sealer, lock_fd: int | None) -> None:
        self.path = path
        self.sealer = sealer
        self.writes = lock_fd is not None
        self._lock_fd = lock_fd
        self._file = _identify(path)
        self.warnings = _warn_of_place(path)
        self.before_upgrade: bytes | None = None
        self._in_transaction = False
        self._may_sync = True
        self._gap = LockGap()
        self._connection = connect_core(file.db, sealer)
        self._reading = _ReadTransaction(path, self._connection, self._end_reading, file.lockless)

    @classmethod
    def create(
        cls, path: bytes | str, *, seal_key: bytes | None = None, clock: Callable[[], float] = time.time
    ) -> Catalog:
        """
        Create a new, empty catalog and open it for writing.

        Missing parent folders are created. If two programs create it at the same time, both open the file that was
        first.

        Raises:
            CatalogExists: the catalog exists.
            CatalogError: only its log exists, or the file cannot be created.
        """
        path = os.path.abspath(os.fsencode(path))
        log = path + own_files.LOG
        has_log = os.path.lexists(log)
        if os.path.lexists(path):  # after the log: a catalog that another program creates now appears before its log
            raise CatalogExists(f"{show_path(path)}: exists already; open it, restore it, or move it away")
        if has_log:
            raise CatalogError(f"{show_path(log)}: exists without its catalog; restore that, or move the log away")
        try:
            with _translating(path):
                build(path, Sealer(seal_key), int(clock()))
        except OSError as error:
            raise CatalogError(
                f"{show_path(path)}: cannot make a catalog: {error.strerror}; mend that, or choose another place:"
                f" {program.find_program()} --catalog FILE ..."
            ) from error
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
        verify_rows: bool = True,
        parities: Container[str] | None = None,
        busy_timeout_s: float = _BUSY_TIMEOUT_S,
    ) -> Catalog:
        """
        Open an existing catalog.

        Args:
            path: absolute, or relative to the working directory.
            writes: False opens it read-only; permission to read the catalog and the files beside it is enough.
            seal_key: key of the row seals; None: unkeyed seals.
            quick_check: run SQLite's quick check first: 0.1 s for 500,000 files.
            any_key: accept a catalog that was sealed with another key (before resealing).
            verify_rows: with ``quick_check``, also check parities, and the seals and indexes of the core tables. Damage
                in a core table raises; rows with a wrong parity are listed in ``damaged_rows``.
            parities: tables whose parities ``verify_rows`` checks; None: all. ``file`` takes 0.3 s for a million rows.
            busy_timeout_s: how long to wait for another writer.

        Raises:
            CatalogMissing: the file does not exist.
            SchemaMismatch: the schema is newer than this program, or older and the catalog was not opened for writing.
            CatalogCorrupt: the file is damaged or is not a catalog.
            CatalogLocked: another program kept it locked, or restores or upgrades it; or, for a reader who may not
                write to its folder, a program began to write to it meanwhile. ``read`` can raise this too.
            CatalogError: it was sealed with another key (unless ``any_key``), or cannot be opened.
        """
        path = os.path.abspath(os.fsencode(path))
        require_file(path)
        with ExitStack() as opened, _translating(path):
            lock_fd = hold_shared(path) if writes else None
            if lock_fd is not None:
                opened.callback(os.close, lock_fd)
            sealer = Sealer(seal_key)
            file = open_database(path, writes=writes, quick_check=quick_check, busy_timeout_s=busy_timeout_s)
            opened.callback(file.db.close)
            if not any_key and not row_seals.has_key(file.db, sealer):
                if file.lockless is not None:
                    file.lockless.require_unchanged()
                raise CatalogError(
                    f"{show_path(path)}: its rows are sealed with another key than the configured one; set the key that"
                    f" it was made with, or run: {program.command('catalog reseal')}"
                )
            is_old = require_usable(path, file.revision, writes=writes)
            copy = _upgrade(path, file.db, sealer) if is_old else None
            catalog = cls(path, file, sealer, lock_fd)
            catalog.before_upgrade = copy
            opened.pop_all()  # the catalog closes them from now on
        try:
            if quick_check and verify_rows and not any_key:
                catalog._verify_rows(parities)
        except BaseException:  # close the file on any exception
            catalog.close()
            raise
        return catalog

    @contextmanager
    def transaction(self, *, is_synced: bool = True) -> Iterator[sa.Connection]:
        """
        Write all changes of the block, or none.

        The write lock is taken at the start, so that nothing that the block reads can change before it writes.

        Args:
            is_synced: sync the commit to the disk before returning. False: a power cut may lose it, together with
                everything committed after it. The next synced commit also syncs all earlier ones.

        Raises:
            CatalogReplaced: the path now names another file.
            CatalogError: the driver failed (also subclasses of CatalogError); nothing was changed.
        """
        if self._in_transaction:
            raise RuntimeError("a transaction is open already")
        if _identify(self.path) != self._file:
            raise CatalogReplaced(
                f"{show_path(self.path)}: another file was put in its place while it was open, so nothing more was"
                " written to the former one; run this again. To exchange a catalog:"
                f" {program.command('catalog restore')}"
            )
        with _translating(self.path), self._syncing(is_synced=is_synced):
            self._gap.before()
            self._connection.exec_driver_sql("BEGIN IMMEDIATE")
            self._gap.began()
            self._in_transaction = True
            try:
                yield self._connection
                self._connection.commit()
            except BaseException:  # KeyboardInterrupt must roll back, too
                self._connection.rollback()
                raise
            finally:
                self._in_transaction = False
                self._gap.ended()

    def stop_syncing(self) -> None:
        """Sync nothing any more: the file is a copy that nobody wants back after a power cut."""
        driver_of(self._connection).execute("PRAGMA synchronous = OFF")
        self._may_sync = False

    @contextmanager
    def snapshot(self) -> Iterator[sa.Connection]:
        """
        Read one consistent state of the catalog, to fill temporary tables of this connection.

        Blocks no other connection, however long it lasts. Do not write to the catalog inside the block.
        """
        if self._in_transaction:
            raise RuntimeError("a transaction is open already")
        with _translating(self.path):
            self._connection.exec_driver_sql("BEGIN")
            self._in_transaction = True
            try:
                yield self._connection
                self._connection.commit()
            except BaseException:
                self._connection.rollback()
                raise
            finally:
                self._in_transaction = False

    @contextmanager
    def _syncing(self, *, is_synced: bool) -> Iterator[None]:
        """Use synchronous=NORMAL for the block unless ``is_synced``: in WAL mode it commits without syncing the log."""
        if is_synced or not self._may_sync:
            yield
            return
        driver_of(self._connection).execute("PRAGMA synchronous = NORMAL")
        try:
            yield
        finally:
            driver_of(self._connection).execute("PRAGMA synchronous = FULL")

    def read(self) -> AbstractContextManager[sa.Connection]:
        """
        Read without blocking other connections: each statement sees the newest committed state.

        Inside a transaction, statements see the transaction's changes.
        """
        return self._reading

    def version(self) -> int:
        """Return a number that changes when another connection writes; reading it does not touch the disk."""
        with self.read() as c:
            return int(c.exec_driver_sql("PRAGMA data_version").scalar_one())

    @contextmanager
    def held_alone(self) -> Iterator[None]:
        """
        Hold the exclusive lock: no other program can open the catalog for writing.

        Raises:
            CatalogLocked: another program has it open.
        """
        if self._lock_fd is None:
            raise RuntimeError("the catalog is open for reading")
        with held_alone(self.path, self._lock_fd):
            yield

    def _end_reading(self) -> None:
        if not self._in_transaction:
            with _translating(self.path):
                self._connection.rollback()  # only resets Core's state; SQLite has no transaction open

    def close(self) -> None:
        """Close the file. May be called twice."""
        self._connection.close()
        self._connection.engine.dispose()
        lock_fd, self._lock_fd = self._lock_fd, None
        if lock_fd is not None:
            os.close(lock_fd)

    def __enter__(self) -> Catalog:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def damaged_rows(self) -> tuple[sqlite_errors.DamagedRow, ...]:
        """Return the damaged rows that were found since the catalog was opened, at most 100."""
        return sqlite_errors.find_noted(self._connection)

    def _verify_rows(self, parities: Container[str] | None) -> None:
        with self.read() as c:
            sqlite_errors.note_damage(c, row_seals.find_odd(c, parities))
            found = chain(row_seals.find_wrong_indexes(c), row_seals.find_damaged(c, row_seals.CORE_TABLES))
            damaged = list(islice(map(str, found), _SHOWN))
        if damaged:
            raise sqlite_errors.describe_damage(
                self.path, "; ".join(damaged), next(reversed(own_files.find_backups(self.path)), None)
            )


class _ReadTransaction:
    """
    Context manager that ``Catalog.read`` returns.

    A class instead of a generator, because a scrub enters it several times for each file.
    """

    def __init__(
        self, path: bytes, connection: sa.Connection, end: Callable[[], None], lockless: LocklessFile | None
    ) -> None:
        self._path = path
        self._connection = connection
        self._end = end
        self._lockless = lockless

    def __enter__(self) -> sa.Connection:
        return self._connection

    def __exit__(self, _: object, error: BaseException | None, __: object) -> None:
        if self._connection.in_transaction():
            self._end()
        if self._lockless is not None and (error is None or isinstance(error, Exception)):
            self._lockless.require_unchanged()  # first: mixed pages look like damage
        cause = _find_driver_error(self._path, error)
        if cause is not None:
            raise sqlite_errors.translate(self._path, cause) from error


@contextmanager
def _translating(path: bytes) -> Iterator[None]:
    """Translate driver errors into CatalogError."""
    try:
        yield
    except Exception as error:
        cause = _find_driver_error(path, error)
        if cause is None:
            raise
        raise sqlite_errors.translate(path, cause) from error


def _identify(path: bytes) -> tuple[int, int] | None:
    """Return device and inode of a path; None if the file does not exist."""
    try:
        seen = os.stat(path)
    except FileNotFoundError:
        return None
    return seen.st_dev, seen.st_ino


def _find_driver_error(path: bytes, error: BaseException | None) -> sqlite3.Error | None:
    """Return the sqlite3 error behind an exception; None if the driver did not raise it."""
    cause = error.orig if isinstance(error, sa.exc.DBAPIError) else error
    if isinstance(cause, UnicodeDecodeError) and _is_damaged(path):
        # The driver failed to decode an SQLite message that quotes a damaged definition. If the file is intact, the
        # error is a bug of this program and is not translated.
        cause = sqlite3.DatabaseError(f"what SQLite said can't be read: {cause}")
        cause.sqlite_errorcode = sqlite3.SQLITE_CORRUPT
    return cause if isinstance(cause, sqlite3.Error) else None


def _is_damaged(path: bytes) -> bool:
    if sqlite_errors.quick_check(path) is not None:
        return True
    with closing(sqlite_errors.connect(path, sqlite_errors.find_reading_options(path))) as db:
        return bool(row_seals.find_changed(db.execute(row_seals.QUERY)))


def _upgrade(path: bytes, db: sqlite3.Connection, sealer: Sealer) -> bytes:
    # Imported here: importing Alembic takes 130 ms and is rarely needed.
    from integrity.catalog.upgrade import upgrade

    return upgrade(path, db, sealer)


def _warn_of_place(path: bytes) -> tuple[str, ...]:
    mount = mount_of(os.path.realpath(path))
    if mount.fs_type not in _REMOTE:
        return ()
    return (
        f"{show_path(path)}: lies on a network file system ({mount.fs_type}), where SQLite's locks and its "
        "write-ahead log cannot be relied on; set `catalog` to a local disk",
    )


__all__ = ["Catalog", "Connection"]  # Connection: for signatures of callers, which must not import SQLAlchemy
