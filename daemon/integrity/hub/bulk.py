"""
Load many rows of files at once: COPY in PostgreSQL, one prepared statement in SQLite.

Both run on the connection of the driver; the transaction translates what it raises (``database.py``, D3).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import sqlalchemy as sa
from psycopg.types.string import BytesBinaryDumper

from integrity.hub.database import driver_connection

_TYPES = {"BIGINT": "int8", "SMALLINT": "int2", "BYTEA": "bytea"}


class FileRow(NamedTuple):
    """A row of ``file`` or ``file_part``: its columns, in their order."""

    member_id: int
    folder_id: int
    name: bytes
    size_bytes: int
    mtime_ns: int
    md5: bytes | None
    xxh3_128: bytes | None
    recorded_at: int
    verified_at: int | None
    read_how: int
    flags: int


def load_files(c: sa.Connection, table: sa.Table, rows: Iterable[FileRow]) -> None:
    """Insert rows into ``file`` or ``file_part``; none of them may be there."""
    names = ", ".join(column.name for column in table.columns)
    if c.dialect.name != "postgresql":
        marks = ", ".join("?" * len(table.columns))
        driver_connection(c).executemany(f"INSERT INTO {table.name} ({names}) VALUES ({marks})", rows)  # noqa: S608 - names of ours
        return
    types = [_TYPES[column.type.compile(c.dialect)] for column in table.columns]
    cursor = driver_connection(c).cursor()
    # By the type alone psycopg takes the dumper that was registered last, which is not the one written in C.
    cursor.adapters.register_dumper(bytes, BytesBinaryDumper)
    with cursor.copy(f"COPY {table.name} ({names}) FROM STDIN (FORMAT BINARY)") as copy:
        copy.set_types(types)
        for row in rows:
            copy.write_row(row)
