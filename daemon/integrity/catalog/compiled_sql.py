"""
SQLAlchemy Core on top of one driver connection that carries the sealer of its catalog.

Also runs statements without Core: Core costs 50 us a call, which is more than the work of a statement that runs once
for each file or folder. Such statements are still Core expressions; they are compiled to text once and then run on the
driver's connection, in the same transaction.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import cache, cached_property
from itertools import chain
from typing import Any, cast

import sqlalchemy as sa
from sqlalchemy.dialects.sqlite.pysqlite import dialect as sqlite_dialect
from sqlalchemy.pool import StaticPool
from sqlalchemy.util import LRUCache

from integrity.catalog.seal import Sealer

_SEALER = "integrity.sealer"
_COMPILED: LRUCache[Any, Any] = LRUCache(500)

# The driver looks for an adapter for each value of these types. Without a registered one it looks up two missing
# attributes, which before Python 3.12 takes three times as long as binding the value.
sqlite3.register_adapter(bytes, bytes)
sqlite3.register_adapter(type(None), lambda none: none)


def connect_core(db: sqlite3.Connection, sealer: Sealer) -> sa.Connection:
    """
    Put Core on top of a driver connection, which stays in autocommit: transactions are begun explicitly.

    Closing the returned connection leaves ``db`` open; disposing of its engine closes both. All connections share what
    was compiled: a catalog that is opened for a few statements spends half of its time on compiling them.
    """
    sealer.bind(db)
    model = _make_model()
    engine = sa.Engine(StaticPool(cast(Any, lambda: db)), model.dialect, model.url)
    c = engine.connect().execution_options(compiled_cache=_COMPILED)
    c.info[_SEALER] = sealer
    return c


@cache
def _make_model() -> sa.Engine:
    """Return an engine whose dialect knows this version of SQLite."""
    model = sa.create_engine("sqlite://", poolclass=StaticPool, isolation_level="AUTOCOMMIT")
    model.connect().close()
    model.dispose()
    return model


def driver_of(c: sa.Connection) -> sqlite3.Connection:
    """Return the driver connection below a Core connection."""
    return cast(sqlite3.Connection, c.connection.driver_connection)


def sealer_of(c: sa.Connection) -> Sealer:
    """Return the sealer of the catalog that a connection belongs to."""
    return cast(Sealer, c.info[_SEALER])


@contextmanager
def snapshot(c: sa.Connection) -> Iterator[None]:
    """Read one consistent state in the block, whatever other connections commit."""
    db = driver_of(c)
    if db.in_transaction:
        yield
        return
    db.execute("BEGIN")
    try:
        yield
    finally:
        db.rollback()


_ROWS_AT_ONCE = (100, 10, 1)
"""More rows per statement are not cheaper. SQLite accepts 32,766 parameters; the widest row has 19."""


class CompiledStatement:
    """
    A Core statement that is compiled on first use and then runs without Core.

    Args:
        statement: with a ``bindparam`` for each value that changes; constants as ``literal_column``.
        names: names of the parameters, in the order in which callers pass their values.
    """

    def __init__(self, statement: sa.Executable, *names: str) -> None:
        self._statement = cast(sa.ClauseElement, statement)
        self._names = names

    @cached_property
    def _compiled(self) -> tuple[str, tuple[int, ...] | None, tuple[object, ...]]:
        """Return the SQL text, the order of its parameters (None: as passed), and the constants after them."""
        compiled = cast(Any, self._statement.compile(dialect=sqlite_dialect()))
        own = [name for name in compiled.positiontup if name not in self._names]  # the OFFSET that Core adds to a LIMIT
        places = {name: place for place, name in enumerate((*self._names, *own))}
        order = tuple(places[name] for name in compiled.positiontup)
        return (
            str(compiled),
            None if order == tuple(range(len(order))) else order,
            tuple(compiled.params[n] for n in own),
        )

    def run(self, c: sa.Connection, *values: object) -> sqlite3.Cursor:
        """Run the statement once."""
        sql, order, constants = self._compiled
        if constants:
            values += constants
        if order is not None:
            values = tuple(values[place] for place in order)
        return driver_of(c).execute(sql, values)

    def run_many(self, c: sa.Connection, rows: Iterable[Sequence[object]]) -> int:
        """Run the statement for each row of values and return how many rows it changed. Without constants only."""
        sql, order, _ = self._compiled
        if order is not None:
            rows = ([values[place] for place in order] for values in rows)
        return driver_of(c).executemany(sql, rows).rowcount


class CompiledInsert(CompiledStatement):
    """
    Insert many rows with few statements.

    The driver releases the GIL for each statement, and gets it back from another running thread only when that thread
    releases it. One statement for 100 rows pays this wait once instead of 100 times.

    Args:
        statement: an insert of one row.
        names: as for ``CompiledStatement``, in the order of the columns.
    """

    @cached_property
    def _statements(self) -> list[tuple[int, str]]:
        """Return the SQL texts with the number of rows that each inserts, largest first."""
        sql, order, constants = self._compiled
        assert order is None, "the values of several rows are not sorted"
        assert not constants
        head, values, rest = sql.partition(" VALUES ")
        row, end, tail = rest.partition(")")
        return [(count, head + values + ", ".join([row + end] * count) + tail) for count in _ROWS_AT_ONCE]

    def run_many(self, c: sa.Connection, rows: Iterable[Sequence[object]]) -> int:
        """Insert rows and return how many."""
        given = list(rows)
        for _ in self.run_returning(c, given):
            pass
        return len(given)

    def run_returning(self, c: sa.Connection, rows: Iterable[Sequence[object]]) -> Iterator[Any]:
        """Insert rows and yield the RETURNING rows of the statement, in any order."""
        execute, given, start = driver_of(c).execute, list(rows), 0
        for count, sql in self._statements:
            for _ in range((len(given) - start) // count):
                yield from execute(sql, list(chain.from_iterable(given[start : start + count])))
                start += count
