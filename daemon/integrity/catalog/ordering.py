"""Files in the order in which a job takes them: a temporary table, so that millions of them cost no memory."""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa
from sqlalchemy.schema import CreateTable, DropTable


def make_temporary(name: str, *columns: sa.Column[Any] | sa.UniqueConstraint) -> sa.Table:
    """Describe a table that lives with the connection, in a temporary file; nothing of it is in the catalog."""
    return sa.Table(name, sa.MetaData(), *columns, prefixes=["TEMPORARY"], schema="temp")


def make_order(name: str) -> sa.Table:
    """Describe a temporary table of files in an order, ``seq``."""
    return make_temporary(
        name,
        sa.Column("seq", sa.Integer, primary_key=True),
        sa.Column("file_id", sa.Integer, nullable=False),
        sa.Column("size_bytes", sa.Integer, nullable=False),
    )


def make_anew(c: sa.Connection, table: sa.Table) -> None:
    """Make a temporary table in place of the connection's last one of that name."""
    c.execute(DropTable(table, if_exists=True))
    c.execute(CreateTable(table))


def sum_up(c: sa.Connection, order: sa.Table) -> tuple[int, int]:
    """Count the files of an order, and their bytes."""
    row = c.execute(sa.select(sa.func.count(), sa.func.coalesce(sa.func.sum(order.c.size_bytes), 0))).one()
    return int(row[0]), int(row[1])
