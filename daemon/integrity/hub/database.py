"""
The database of the hub: open it, run transactions on it, translate its errors.

The only module that knows the differences between PostgreSQL and SQLite.

D1  What a transaction wrote is on the disk when its block ends: a box deletes its messages once the hub confirmed them.
D2  Any number of threads may use one ``HubDatabase``; each transaction has a connection of its own.
D3  Whatever the database can't do now, a full or failing disk included, leaves a transaction as HubDatabaseAway, also
    where the driver works on its connection. Other errors of the database are bugs.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from itertools import islice
from typing import Any, TypeVar

import psycopg
import sqlalchemy as sa
from psycopg.types.string import BytesBinaryDumper
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.pool import NullPool

from integrity import program
from integrity.errors import HubDatabaseAway, HubDatabaseError, show_path
from integrity.hub import schema

Connection = sa.Connection
"""What ``transaction`` and ``read`` give; for those who know no SQL."""

T = TypeVar("T")

AT_ONCE = 1000
_BUSY_S = 30
_CONNECT_S = 5
_POOL = 10
"""Connections to PostgreSQL: one for each thread that answers boxes or runs jobs, and two for the pages."""

_OLDEST_POSTGRES = 15
_WRITES = "integrity_writes"
_AFTER = "integrity_after"


class HubDatabase:
    """
    An open database of the hub. Close it.

    Attributes:
        engine: for what needs the library itself, such as migrations.
        is_postgres: whether it is PostgreSQL; else SQLite.
        place: for people: the path, or the URL without a password.
    """

    def __init__(self, engine: sa.Engine) -> None:
        self.engine = engine
        self.is_postgres = engine.dialect.name == "postgresql"
        name = engine.url.database or ""
        self.place = engine.url.render_as_string(hide_password=True) if self.is_postgres else show_path(name.encode())

    @classmethod
    def open(cls, url: str, *, any_revision: bool = False) -> HubDatabase:
        """
        Open a database.

        Args:
            url: ``postgresql://...``, or the absolute path of an SQLite file.
            any_revision: also open one that is empty or of another version, to migrate or check it.

        Raises:
            HubDatabaseError: it is missing, of another version, or no PostgreSQL that the hub can use.
            HubDatabaseAway: it does not answer.
        """
        if not any_revision and url.startswith("/") and os.path.isdir(os.path.dirname(url)) and not os.path.exists(url):
            raise HubDatabaseError(
                f"{show_path(os.fsencode(url))}: there is no database of a hub here yet; the hub makes it:"
                f" {program.command('hub run')}"
            )
        database = cls(_make_engine(url))
        try:
            with database.read() as c:
                _require_version(database, c)
                if not any_revision:
                    _require_revision(database, read_revision(c))
        except BaseException:
            database.close()
            raise
        return database

    def close(self) -> None:
        """Close all connections. May be called twice."""
        self.engine.dispose()

    @contextmanager
    def transaction(self) -> Iterator[sa.Connection]:
        """
        Write: commit at the end, roll back on an error. SQLite has one writer at a time; others wait.

        Raises:
            HubDatabaseAway: the database went away, or another transaction stood in the way. Nothing was written.
        """
        with self._begin(writes=True) as c:
            yield c

    @contextmanager
    def read(self) -> Iterator[sa.Connection]:
        """Read; all statements see the database as of the first one. HubDatabaseAway: it went away."""
        with self._begin(writes=False) as c:
            yield c

    @contextmanager
    def _begin(self, *, writes: bool) -> Iterator[sa.Connection]:
        options: dict[str, Any] = {_WRITES: writes}
        if self.is_postgres:
            options["isolation_level"] = "READ COMMITTED" if writes else "REPEATABLE READ"
            options["postgresql_readonly"] = not writes
        with self._translating(writes=writes), self.engine.connect() as plain:
            c = plain.execution_options(**options)
            c.info[_AFTER] = []
            with c.begin():
                yield c
            todo = c.info.pop(_AFTER)
        for function in todo:
            function()

    @contextmanager
    def _translating(self, *, writes: bool) -> Iterator[None]:
        try:
            yield
        except sa.exc.TimeoutError as error:
            raise HubDatabaseAway(f"{self.place}: all connections are in use; try again") from error
        except (sa.exc.DBAPIError, sqlite3.Error, psycopg.Error) as error:
            found = error.orig if isinstance(error, sa.exc.DBAPIError) else error.__cause__
            is_drivers = found is None or isinstance(error, sqlite3.Error | psycopg.Error)
            cause = error if is_drivers or found is None else found
            is_cut_off = isinstance(error, sa.exc.DBAPIError) and error.connection_invalidated
            if not is_cut_off and not _may_pass(cause, writes=writes):
                raise
            raise HubDatabaseAway(f"{self.place}: can't be used now: {_first_line(cause)}; try again") from error


def chunked(values: Iterable[T], at_once: int = AT_ONCE) -> Iterator[list[T]]:
    """Yield lists of some values each, for one statement."""
    remaining = iter(values)
    while chunk := list(islice(remaining, at_once)):
        yield chunk


def after_commit(c: sa.Connection, function: Callable[[], object]) -> None:
    """Call a function when others see what the transaction of a connection wrote; never if it is rolled back."""
    c.info[_AFTER].append(function)


def add_new(c: sa.Connection, table: sa.Table, rows: list[dict[str, Any]]) -> None:
    """Insert the rows that are not there yet; others may insert the same at the same time."""
    insert = postgresql.insert if c.dialect.name == "postgresql" else sqlite.insert
    if rows:
        c.execute(insert(table).on_conflict_do_nothing(), rows)


def replace_rows(c: sa.Connection, table: sa.Table, rows: list[dict[str, Any]]) -> None:
    """Insert rows, or update those with the same primary key."""
    insert = (postgresql.insert if c.dialect.name == "postgresql" else sqlite.insert)(table)
    if rows:
        key = [column.name for column in table.primary_key]
        changed = {name: insert.excluded[name] for name in rows[0] if name not in key}
        c.execute(insert.on_conflict_do_update(index_elements=key, set_=changed), rows)


_TYPES = {"BIGINT": "int8", "SMALLINT": "int2", "BYTEA": "bytea"}


def load_files(c: sa.Connection, table: sa.Table, rows: Iterable[tuple[object, ...]]) -> None:
    """Insert rows into ``file`` or ``file_part``, in the order of their columns, many at once; none may be there."""
    driver: Any = c.connection.driver_connection  # in the same transaction
    names = ", ".join(column.name for column in table.columns)
    if c.dialect.name != "postgresql":
        marks = ", ".join("?" * len(table.columns))
        driver.executemany(f"INSERT INTO {table.name} ({names}) VALUES ({marks})", rows)  # noqa: S608 - names of ours
        return
    types = [_TYPES[column.type.compile(c.dialect)] for column in table.columns]
    cursor = driver.cursor()
    # By the type alone psycopg takes the dumper that was registered last, which is not the one written in C.
    cursor.adapters.register_dumper(bytes, BytesBinaryDumper)
    with cursor.copy(f"COPY {table.name} ({names}) FROM STDIN (FORMAT BINARY)") as copy:
        copy.set_types(types)
        for row in rows:
            copy.write_row(row)


def read_revision(c: sa.Connection) -> str | None:
    """Return the newest migration that was run; None: the database is empty."""
    if not sa.inspect(c).has_table("alembic_version"):
        return None
    return c.execute(sa.select(sa.column("version_num")).select_from(sa.table("alembic_version"))).scalar()


def _require_version(database: HubDatabase, c: sa.Connection) -> None:
    version = c.dialect.server_version_info or (0,)
    if database.is_postgres and int(version[0]) < _OLDEST_POSTGRES:
        raise HubDatabaseError(f"{database.place}: is PostgreSQL {version[0]}; {_OLDEST_POSTGRES} or newer is needed")


def _require_revision(database: HubDatabase, found: str | None) -> None:
    if found is None:
        raise HubDatabaseError(f"{database.place}: has no tables of a hub yet; run: {program.command('hub migrate')}")
    if found < schema.SCHEMA_REVISION:
        raise HubDatabaseError(
            f"{database.place}: was made by an older version (schema {found}, needed is {schema.SCHEMA_REVISION}); stop"
            f" the hub and run: {program.command('hub migrate')}"
        )
    if found > schema.SCHEMA_REVISION:
        raise HubDatabaseError(
            f"{database.place}: was made by a newer version (schema {found}, known is {schema.SCHEMA_REVISION});"
            " use that version"
        )


def _make_engine(url: str) -> sa.Engine:
    """Return the engine of a URL or path, or raise HubDatabaseError; nothing is opened yet."""
    if url.startswith("/"):
        return _make_sqlite_engine(url)
    try:
        parsed = sa.make_url(url)
    except sa.exc.ArgumentError as error:
        raise HubDatabaseError("[hub_server] database: not a URL of PostgreSQL, such as postgresql:///hub") from error
    # psycopg's own COPY and LISTEN need its text of addresses; SQLAlchemy names the driver in the scheme.
    return sa.create_engine(
        parsed.set(drivername="postgresql+psycopg"),
        pool_size=_POOL,
        max_overflow=0,
        pool_timeout=_CONNECT_S,
        pool_pre_ping=True,  # PostgreSQL may have been restarted since
        connect_args={"connect_timeout": _CONNECT_S, "application_name": "integrity-hub"},
    )


def _make_sqlite_engine(path: str) -> sa.Engine:
    if not os.path.exists(path) and not os.path.isdir(os.path.dirname(path)):
        raise HubDatabaseError(
            f"{show_path(os.fsencode(path))}: its folder is missing; make it, or set [hub_server] database"
        )
    engine = sa.create_engine(
        sa.URL.create("sqlite", database=path),
        poolclass=NullPool,
        connect_args={"timeout": _BUSY_S, "isolation_level": None, "check_same_thread": False},
    )
    sa.event.listen(engine, "connect", _set_up_sqlite)
    sa.event.listen(engine, "begin", _begin_sqlite)
    return engine


def _set_up_sqlite(db: sqlite3.Connection, _: object) -> None:
    db.execute("PRAGMA journal_mode = WAL")  # pages are read while boxes report
    db.execute("PRAGMA synchronous = FULL")  # D1
    db.execute("PRAGMA foreign_keys = ON")
    db.execute("PRAGMA cache_size = -65536")


def _begin_sqlite(c: sa.Connection) -> None:
    """Begin; a writer takes its lock at once, or it would fail in the middle when another one was faster."""
    c.exec_driver_sql("BEGIN IMMEDIATE" if c.get_execution_options().get(_WRITES) else "BEGIN")


_PASSING_SQLITE = tuple(
    f"SQLITE_{word}" for word in ("BUSY", "LOCKED", "FULL", "IOERR", "READONLY", "CANTOPEN", "PROTOCOL", "NOMEM")
)
"""Beginnings of extended result codes: locks, and what disk, file system and memory do not give now."""

_PASSING_POSTGRES = ("08", "40", "53", "55P03", "57", "58")
"""
Classes of SQLSTATE: connection lost, serialization and deadlock, out of resources (53100: the disk is full), lock
timeout, shutdown, and errors of its operating system (58030: input/output).
"""

_READ_ONLY_POSTGRES = "25006"
"""A standby, or a server that was made read-only because its disk is full; where we only read, it is a bug of ours."""


def _may_pass(cause: BaseException, *, writes: bool) -> bool:
    if isinstance(cause, sqlite3.Error):
        return str(getattr(cause, "sqlite_errorname", "")).startswith(_PASSING_SQLITE)
    state = getattr(cause, "sqlstate", None)
    if state is None:  # no answer of the server: it can't be reached
        return isinstance(cause, psycopg.OperationalError)
    return str(state).startswith(_PASSING_POSTGRES) or (writes and state == _READ_ONLY_POSTGRES)


def _first_line(cause: BaseException) -> str:
    """Return what is wrong, without the statement and its values."""
    lines = str(cause).strip().splitlines()
    return lines[0] if lines else type(cause).__name__
