"""
Statements that run once a file or once a folder.

Core costs 50 us a call, which is more than the work itself here. These statements are still Core expressions; they are
compiled to text once, and then run through the driver's own connection, inside the same transaction.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import cached_property
from typing import Any, cast

import sqlalchemy as sa
from sqlalchemy.dialects.sqlite.pysqlite import dialect as sqlite_dialect


def driver_of(c: sa.Connection) -> sqlite3.Connection:
    """Reach the driver's connection below a connection of Core."""
    return cast(sqlite3.Connection, c.connection.driver_connection)


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


class Hot:
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

    def run_many(self, c: sa.Connection, rows: Iterable[Sequence[object]]) -> None:
        """Run it once for each row of values; for statements without constants of their own."""
        sql, order, _ = self._compiled
        if order is not None:
            rows = ([values[place] for place in order] for values in rows)
        driver_of(c).executemany(sql, rows)
