"""SQLAlchemy's Core on top of one connection of the driver, which knows the sealer of its catalog."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from typing import cast

import sqlalchemy as sa
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
