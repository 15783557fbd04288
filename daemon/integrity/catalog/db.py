"""
One connection to an SQLite file: SQL as text, rows as tuples or named tuples, checksums on all pages.

SQLite comes with its extension ``cksumvfs``, which stores a checksum at the end of each page, and compares it when a
page is read from the disk. Nothing else in this package loads SQLite: a second copy of it in the process would drop the
locks of the first when it closes the file.

I1  A page whose checksum does not match is an error (SQLITE_IOERR_DATA), never a row.
"""

from __future__ import annotations

import json
import os
import shlex
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from typing import Any, TypeVar

import apsw

from integrity.errors import CatalogError

T = TypeVar("T")

Value = int | float | str | bytes | None
"""What a column holds."""

SCHEMA_REVISION = "0012"
"""The version of ``schema.sql``, where programs up to 1.0 look for it: they say that a newer one was here."""

APPLICATION_ID = 0x696E7467  # ``intg``, in the header of the SQLite file: distinguishes a catalog from other databases
_RESERVED_BYTES = 8  # at the end of each page, for its checksum

LOCKLESS = "mode=ro&immutable=1"
"""Options to read a file that no program writes to: without locks, and without files beside it."""

_STATEMENTS = 300
_VFS, _PLAIN_VFS = "cksmvfs", "unix"
_EXTENSION = os.path.join(os.path.dirname(apsw.__file__), "sqlite_extra_binaries", "cksumvfs")
"""The file that ``apsw.sqlite_extra`` loads; it imports ``importlib.resources`` to find it, which takes 6 ms."""


class Connection:
    """
    A connection in autocommit; transactions are begun by ``Catalog``. Belongs to one thread.

    Args:
        path: of the file, any bytes; empty: a temporary file, which is gone with the connection.
        options: of SQLite's URI, such as ``mode=ro``.
        busy_timeout_s: how long to wait for another writer.
        is_checked: with page checksums.

    Raises:
        apsw.Error: the file can't be opened.
    """

    def __init__(
        self, path: bytes, options: str = "mode=rw", *, busy_timeout_s: float = 30.0, is_checked: bool = True
    ) -> None:
        _load_checksums()
        vfs = _VFS if is_checked else _PLAIN_VFS
        name = f"file:{quote(path)}?{options}&vfs={vfs}" if path else ""
        flags = apsw.SQLITE_OPEN_READWRITE | apsw.SQLITE_OPEN_CREATE | apsw.SQLITE_OPEN_URI
        self.driver = apsw.Connection(name, flags=flags, statementcachesize=_STATEMENTS)
        self.driver.config(apsw.SQLITE_DBCONFIG_ENABLE_QPSG, 1)  # else it plans anew for each value
        self.driver.set_busy_timeout(int(busy_timeout_s * 1000))
        self.run("PRAGMA wal_autocheckpoint = 0")  # ``database_file`` decides when a log is carried over
        self.run("PRAGMA recursive_triggers = ON")  # else no trigger hears of a row that REPLACE deletes

    def close(self, *, keeps_log: bool = False) -> None:
        """Close the file; the last one to do so carries the log over, unless it ``keeps_log``. May be called twice."""
        if keeps_log and self.driver:
            self.driver.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1)
        self.driver.close()

    def run(self, sql: str, *values: Value) -> int:
        """Run one statement; return how many rows it changed."""
        self.driver.execute(sql, values)
        return self.driver.changes()

    def run_many(self, sql: str, rows: Iterable[Sequence[Value]]) -> int:
        """Run a statement for each row of values; return how many rows they changed, and their triggers."""
        before = self.driver.total_changes()
        self.driver.executemany(sql, rows)
        return self.driver.total_changes() - before

    def insert(self, sql: str, *values: Value) -> int:
        """Insert one row; return its number."""
        self.driver.execute(sql, values)
        return self.driver.last_insert_rowid()

    def rows(self, sql: str, *values: Value) -> Iterator[tuple[Any, ...]]:
        """Yield the rows of a query; do not change its tables before the last one."""
        return self.driver.execute(sql, values)

    def all(self, make: Callable[..., T], sql: str, *values: Value) -> list[T]:
        """Return the rows of a query, each as ``make`` makes it of its columns."""
        return [make(*row) for row in self.driver.execute(sql, values)]

    def one(self, make: Callable[..., T], sql: str, *values: Value) -> T | None:
        """Return the first row of a query, as ``make`` makes it; None if there is none."""
        row = self.row(sql, *values)
        return None if row is None else make(*row)

    def row(self, sql: str, *values: Value) -> tuple[Any, ...] | None:
        """Return the first row of a query; None if there is none."""
        return self.driver.execute(sql, values).fetchone()

    def value(self, sql: str, *values: Value) -> Any:
        """Return the first column of the first row; None if there is none."""
        row = self.row(sql, *values)
        return None if row is None else row[0]

    def column(self, sql: str, *values: Value) -> list[Any]:
        """Return the first column of all rows."""
        return [row[0] for row in self.driver.execute(sql, values)]

    @contextmanager
    def snapshot(self) -> Iterator[None]:
        """Read one consistent state in the block, whatever other connections commit."""
        if self.driver.in_transaction:
            yield
            return
        self.driver.execute("BEGIN")
        try:
            yield
        finally:
            self.driver.execute("ROLLBACK")


def quote(path: bytes) -> str:
    """Write a path for SQLite's URI: each byte as a number, since ``urllib.parse`` takes 2 ms to import."""
    return f"%{path.hex('%')}"


def make_empty(path: bytes) -> Connection:
    """Open an empty file so that its pages get checksums, also those that are written before its first page."""
    import ctypes  # here, for few programs make a file

    c = Connection(path)
    reserved = ctypes.c_int(_RESERVED_BYTES)
    c.driver.file_control("main", apsw.SQLITE_FCNTL_RESERVE_BYTES, ctypes.addressof(reserved))
    c.run("VACUUM")
    return c


def numbers(values: Iterable[int]) -> str:
    """Write numbers for ``IN (SELECT value FROM json_each(?))``."""
    return json.dumps(list(values))


def names(values: Iterable[bytes]) -> str:
    """Write names, which may be any bytes, for ``IN (SELECT unhex(value) FROM json_each(?))``."""
    return json.dumps([value.hex() for value in values])


@cache
def _load_checksums() -> None:
    """Make the extension's VFS known in this process; SQLite keeps it until the process ends."""
    loader = apsw.Connection(":memory:")
    try:
        loader.enable_load_extension(True)
        loader.load_extension(_EXTENSION)
    except apsw.Error as error:
        raise CatalogError(
            f"this build of APSW has no checksums for pages ({error}), without which no catalog is opened; install the"
            f" one that its makers built: {shlex.quote(sys.executable)} -m pip install --only-binary apsw"
            " --force-reinstall apsw"
        ) from error
    finally:
        loader.close()
