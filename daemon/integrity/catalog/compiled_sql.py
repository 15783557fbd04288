"""
SQLAlchemy's Core on top of one connection of the driver, which knows the sealer of its catalog.

Statements that run once a file or once a folder.

Core costs 50 us a call, which is more than the work itself here. These statements are still Core expressions; they are
compiled to text once, and then run through the driver's own connection, inside the same transaction.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import cached_property
from itertools import chain
from typing import Any, cast

import sqlalchemy as sa
from sqlalchemy.dialects.sqlite.pysqlite import dialect as sqlite_dialect
from sqlalchemy.pool import StaticPool

from integrity.catalog.seal import Sealer

_SEALER = "integrity.sealer"

# The driver asks of each value of these types how to adapt it. Where nobody says so, it tries two attributes that are
# not there, which before Python 3.12 takes three times as long as binding the value.
sqlite3.register_adapter(bytes, bytes)
sqlite3.register_adapter(type(None), lambda none: none)


def connect_core(db: sqlite3.Connection, sealer: Sealer) -> sa.Connection:
    """
    Put Core on top of a driver's connection, which stays in autocommit: whoever wants a transaction begins it.

    Closing it leaves ``db`` open; disposing of its engine closes both.
    """
    sealer.bind(db)
    engine = sa.create_engine("sqlite://", creator=lambda: db, poolclass=StaticPool, isolation_level="AUTOCOMMIT")
    c = engine.connect()
    c.info[_SEALER] = sealer
    return c


def driver_of(c: sa.Connection) -> sqlite3.Connection:
    """Reach the driver's connection below a connection of Core."""
    return cast(sqlite3.Connection, c.connection.driver_connection)


def sealer_of(c: sa.Connection) -> Sealer:
    """Return the sealer of the catalog that a connection belongs to."""
    return cast(Sealer, c.info[_SEALER])


@contextmanager
def snapshot(c: sa.Connection) -> Iterator[None]:
    """Let everything that is read in the block be of one moment, whatever others commit meanwhile."""
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
"""More rows in one statement cost no less. SQLite takes 32,766 values in one; the widest row has 19."""


class CompiledStatement:
    """
    Compile a Core statement when it is first needed, and run it without Core from then on.

    Args:
        statement: with a ``bindparam`` for each value that changes; constants as ``literal_column``.
        names: of the parameters, in the order in which callers give their values.
    """

    def __init__(self, statement: sa.Executable, *names: str) -> None:
        self._statement = cast(sa.ClauseElement, statement)
        self._names = names

    @cached_property
    def _compiled(self) -> tuple[str, tuple[int, ...] | None, tuple[object, ...]]:
        """Compile to the text, where each of its values comes from (None: as given), and the constants behind them."""
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
        """Run it once."""
        sql, order, constants = self._compiled
        if constants:
            values += constants
        if order is not None:
            values = tuple(values[place] for place in order)
        return driver_of(c).execute(sql, values)

    def run_many(self, c: sa.Connection, rows: Iterable[Sequence[object]]) -> int:
        """Run it once for each row of values, for statements without constants; return how many rows it changed."""
        sql, order, _ = self._compiled
        if order is not None:
            rows = ([values[place] for place in order] for values in rows)
        return driver_of(c).executemany(sql, rows).rowcount


class CompiledInsert(CompiledStatement):
    """
    Insert many rows with few statements.

    The driver lets go of the interpreter's lock for each statement that it runs, and where other threads want it, gets
    it back only when they let go of it in their turn: felt once for a hundred rows, not once for each.

    Args:
        statement: an insert of one row.
        names: as for ``CompiledStatement``, in the order of the columns.
    """

    @cached_property
    def _statements(self) -> list[tuple[int, str]]:
        """Write the statements: how many rows each of them inserts, the most first."""
        sql, order, constants = self._compiled
        assert order is None, "the values of several rows are not sorted"
        assert not constants
        head, values, rest = sql.partition(" VALUES ")
        row, end, tail = rest.partition(")")
        return [(count, head + values + ", ".join([row + end] * count) + tail) for count in _ROWS_AT_ONCE]

    def run_many(self, c: sa.Connection, rows: Iterable[Sequence[object]]) -> int:
        """Insert rows; return how many."""
        given = list(rows)
        for _ in self.run_returning(c, given):
            pass
        return len(given)

    def run_returning(self, c: sa.Connection, rows: Iterable[Sequence[object]]) -> Iterator[Any]:
        """Insert rows; yield what the statement returns of each, in any order."""
        execute, given, start = driver_of(c).execute, list(rows), 0
        for count, sql in self._statements:
            for _ in range((len(given) - start) // count):
                yield from execute(sql, list(chain.from_iterable(given[start : start + count])))
                start += count
