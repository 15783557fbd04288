"""
One open catalog file: one connection, explicit transactions, and errors of SQLite as those of ``errors.py``.

Decides when the write lock is taken, when a commit is synced to the disk, and when the log is carried over. Leaves
queries to the other modules, the settings of a file to ``database_file``, and making one to ``copying``.
"""

from __future__ import annotations

import logging
import os
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from functools import partial
from itertools import islice
from typing import TypeVar

import apsw

from integrity import program
from integrity.catalog import own_files, sqlite_errors
from integrity.catalog.database_file import (
    DAMAGED_LOG,
    LIMIT_BYTES,
    LIMIT_S,
    CatalogFile,
    LocklessFile,
    carry_over,
    end_lost,
    open_database,
    require_file,
    require_usable,
)
from integrity.catalog.db import Connection
from integrity.catalog.own_files import hold_shared
from integrity.errors import CatalogError, CatalogExists, CatalogReplaced, show_path
from integrity.files.mounts import mount_of

_log = logging.getLogger(__name__)

_BUSY_TIMEOUT_S = 30.0
_PAGE_BYTES = 4096
_REMOTE = frozenset({"nfs", "nfs4", "cifs", "smb3", "smbfs", "9p", "afs", "ceph", "fuse.sshfs", "fuse.rclone"})


class Catalog:
    """An open catalog. Use it only in the thread that opened it, and close it."""

    def __init__(self, path: bytes, file: CatalogFile, lock_fd: int | None) -> None:
        self.path = path
        self.writes = lock_fd is not None
        self._lock_fd = lock_fd
        self._file = _identify(path)
        self.warnings: tuple[str, ...] = ()  # problems with its location or its log, for people
        mount = mount_of(os.path.realpath(path))
        if mount.fs_type in _REMOTE:
            self.warnings = (
                f"{show_path(path)}: lies on a network file system ({mount.fs_type}), where SQLite's locks and its "
                "write-ahead log cannot be relied on; set `catalog` to a local disk",
            )
        self.before_upgrade: bytes | None = None  # path of the former file, if opening it upgraded it
        self._in_transaction = False
        self._may_sync = True
        self._released_at = self._held_s = 0.0  # of the write lock
        self._connection = file.connection
        self._reading = _Reading(path, self._connection, file.lockless)
        self._log_pages = 0
        self._carried_at = time.monotonic()
        if self.writes:
            self._connection.driver.set_wal_hook(self._note_log)

    @classmethod
    def create(cls, path: bytes | str, *, clock: Callable[[], float] = time.time) -> Catalog:
        """
        Create a new, empty catalog, with missing parent folders, and open it for writing.

        If two programs create it at the same time, both open the file that was first.

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
        from integrity.catalog.copying import build  # rarely needed

        try:
            with _translating(path):
                build(path, int(clock()))
        except OSError as error:
            raise CatalogError(
                f"{show_path(path)}: cannot make a catalog: {error.strerror}; mend that, or choose another place:"
                f" {program.find_program()} --catalog FILE ..."
            ) from error
        return cls.open(path, writes=True)

    @classmethod
    def open(cls, path: bytes | str, *, writes: bool, busy_timeout_s: float = _BUSY_TIMEOUT_S) -> Catalog:
        """
        Open an existing catalog.

        Args:
            path: absolute, or relative to the working directory.
            writes: False opens it read-only; permission to read the catalog and the files beside it is enough.
            busy_timeout_s: how long to wait for another writer.

        Raises:
            CatalogMissing: the file does not exist.
            SchemaMismatch: the schema is newer than this program, or older and the catalog was not opened for writing.
            CatalogCorrupt: the file is damaged or is not a catalog.
            CatalogLocked: another program kept it locked, or restores or upgrades it; or, for a reader who may not
                write to its folder, a program began to write to it meanwhile. ``read`` can raise this too.
            CatalogError: it cannot be opened.
        """
        path = os.path.abspath(os.fsencode(path))
        require_file(path)
        with ExitStack() as opened, _translating(path):
            lock_fd = hold_shared(path) if writes else None
            if lock_fd is not None:
                opened.callback(os.close, lock_fd)
            file = open_database(path, writes=writes, busy_timeout_s=busy_timeout_s)
            opened.callback(file.connection.close)
            former = None
            if require_usable(path, file.revision, writes=writes):
                assert lock_fd is not None
                file.connection.close()
                from integrity.catalog.rebuild import upgrade  # rarely needed

                former = upgrade(path, lock_fd)
                file = open_database(path, writes=writes, busy_timeout_s=busy_timeout_s)
                opened.callback(file.connection.close)
            catalog = cls(path, file, lock_fd)
            catalog.before_upgrade = former
            if writes and end_lost(file.connection, os.path.realpath(path)):
                catalog.warnings += (
                    f"{show_path(path)}: what was recorded in the last minute before a crash may be lost, because its"
                    " log was damaged; it is recorded again",
                )
            opened.pop_all()  # the catalog closes them from now on
        return catalog

    @contextmanager
    def transaction(self, *, is_synced: bool = True) -> Iterator[Connection]:
        """
        Write all changes of the block, or none.

        The write lock is taken at the start, so that nothing that the block reads can change before it writes.

        Args:
            is_synced: sync the commit to the disk before returning. False: a power cut may lose it, together with
                everything committed after it. The next synced commit also syncs all earlier ones.

        Raises:
            CatalogReplaced: the path now names another file.
            CatalogError: SQLite failed (also subclasses of CatalogError); nothing was changed.
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
            self._leave_gap()
            with self._within("BEGIN IMMEDIATE"):
                began_at = time.monotonic()
                try:
                    yield self._connection
                finally:
                    self._released_at = time.monotonic()
                    duration_s = self._released_at - began_at
                    self._held_s += duration_s if duration_s > _LONG_S else 0.0
        if self._log_pages * _PAGE_BYTES > LIMIT_BYTES or time.monotonic() - self._carried_at > LIMIT_S:
            self._carry_over()

    @contextmanager
    def snapshot(self) -> Iterator[Connection]:
        """
        Read one consistent state of the catalog, to fill temporary tables of this connection.

        Blocks no other connection, however long it lasts. Do not write to the catalog inside the block.
        """
        if self._in_transaction:
            raise RuntimeError("a transaction is open already")
        with _translating(self.path), self._within("BEGIN"):
            yield self._connection

    @contextmanager
    def _within(self, begin: str) -> Iterator[None]:
        self._connection.run(begin)
        self._in_transaction = True
        try:
            yield
            self._connection.run("COMMIT")
        except BaseException:  # KeyboardInterrupt must roll back, too
            if self._connection.driver.in_transaction:  # SQLite rolls back by itself when the disk is full
                self._connection.run("ROLLBACK")
            raise
        finally:
            self._in_transaction = False

    def _leave_gap(self) -> None:
        """
        Leave the write lock free between two long transactions, so that others get it.

        SQLite does not queue waiting connections: a connection that takes the lock again immediately keeps it from all
        others until their busy timeouts expire.
        """
        wait_s = _GAP_S - (time.monotonic() - self._released_at)
        if wait_s > 0:
            if self._held_s <= _HELD_MOST_S:
                return
            time.sleep(wait_s)
        self._held_s = 0.0

    def stop_syncing(self) -> None:
        """Sync nothing any more: the file is a copy that nobody wants back after a power cut."""
        self._connection.run("PRAGMA synchronous = OFF")
        self._may_sync = False

    @contextmanager
    def _syncing(self, *, is_synced: bool) -> Iterator[None]:
        """Use synchronous=NORMAL for the block unless ``is_synced``: in WAL mode it commits without syncing the log."""
        if is_synced or not self._may_sync:
            yield
            return
        self._connection.run("PRAGMA synchronous = NORMAL")
        try:
            yield
        finally:
            self._connection.run("PRAGMA synchronous = FULL")

    def read(self) -> AbstractContextManager[Connection]:
        """Read the newest committed state with each statement; inside a transaction, also the changes of that."""
        return self._reading

    def version(self) -> int:
        """Return a number that changes when another connection writes; reading it does not touch the disk."""
        with self.read() as c:
            return c.value("PRAGMA data_version")

    def close(self) -> None:
        """Carry the log over, as far as nobody else needs it, and close the file. May be called twice."""
        lock_fd, self._lock_fd = self._lock_fd, None
        if lock_fd is None:
            self._connection.close(keeps_log=True)
            return
        try:
            is_carried_over = carry_over(self._connection, os.path.realpath(self.path))
        except apsw.Error:
            # A full disk, say: what was committed is safe in the log, and the next program carries it over.
            is_carried_over = False
        try:
            self._connection.close(keeps_log=not is_carried_over)
        finally:
            os.close(lock_fd)

    def __enter__(self) -> Catalog:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _note_log(self, _: object, __: str, pages: int) -> int:
        self._log_pages = pages
        return apsw.SQLITE_OK

    def _carry_over(self) -> None:
        """Carry the log over; what was committed is safe in it if that fails, and the next commit tries again."""
        self._carried_at, self._log_pages = time.monotonic(), 0
        try:
            if not carry_over(self._connection, os.path.realpath(self.path)):
                raise sqlite_errors.describe_damage(self.path, DAMAGED_LOG)
        except apsw.Error as error:
            _log.warning("catalog_log_kept: %s", sqlite_errors.translate(self.path, error))


class _Reading:
    """What ``Catalog.read`` returns: a class, because a scrub enters it several times for each file."""

    def __init__(self, path: bytes, connection: Connection, lockless: LocklessFile | None) -> None:
        self._path = path
        self._connection = connection
        self._lockless = lockless

    def __enter__(self) -> Connection:
        return self._connection

    def __exit__(self, _: object, error: BaseException | None, __: object) -> None:
        if self._lockless is not None and (error is None or isinstance(error, Exception)):
            self._lockless.require_unchanged()  # first: mixed pages look like damage
        if isinstance(error, apsw.Error):
            raise sqlite_errors.translate(self._path, error) from error


@contextmanager
def _translating(path: bytes) -> Iterator[None]:
    """Translate errors of SQLite into CatalogError."""
    try:
        yield
    except apsw.Error as error:
        raise sqlite_errors.translate(path, error) from error


def _identify(path: bytes) -> tuple[int, int] | None:
    """Return device and inode of a path; None if the file does not exist."""
    with suppress(FileNotFoundError):
        seen = os.stat(path)
        return seen.st_dev, seen.st_ino
    return None


__all__ = ["Catalog", "Connection"]  # Connection: for signatures of callers


_HOLD_S = 0.3  # a page ends after this time; its last rows and the commit come on top
_LONG_S = 0.02
_HELD_MOST_S = 0.25
"""
After this much time in consecutive long transactions a gap follows; short transactions leave enough gaps.

Shorter than a page: a connection that starts to wait during a page waits only for the rest of that page.
"""

_GAP_S = 0.12
"""SQLite polls the lock every 100 ms. The lock must be free for longer, or a waiting connection never gets it."""

T = TypeVar("T")

_ROWS = 100  # rows between two checks of the clock: less than a second even at some milliseconds for each row


def write_in_pages(
    transaction: Callable[[], AbstractContextManager[Connection]],
    items: Sequence[T],
    write: Callable[[Connection, Sequence[T]], object],
    *,
    rows: int = _ROWS,
    monotonic: Callable[[], float] = time.monotonic,
) -> None:
    """Write all items, in this order, ``rows`` with each call of ``write``, in as many transactions as needed."""
    queue = deque(items)
    while queue:
        with transaction() as connection:
            write_page(queue, rows, partial(write, connection), make_timer(monotonic))


def write_page(queue: deque[T], rows: int, write: Callable[[list[T]], object], is_over: Callable[[], bool]) -> bool:
    """Write from the front of a queue, ``rows`` items at a time, until the page is over; return whether it is empty."""
    while queue:
        some = list(islice(queue, rows))
        write(some)
        for _ in some:
            queue.popleft()
        if is_over():
            break
    return not queue


def make_timer(monotonic: Callable[[], float]) -> Callable[[], bool]:
    """Start a page; the returned function returns whether the page is over."""
    until = monotonic() + _HOLD_S
    return lambda: monotonic() >= until
