"""Flipped bits in what stands in a catalog, as bad memory or a bad disk would leave them."""

from __future__ import annotations

import os
import random
import re
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from sqlalchemy import Table

from integrity.catalog import schema
from support import AnyPath
from support.stored import leave_seals


def flip_bit(path: Path, chance: random.Random) -> str:
    """Flip one bit anywhere in a file; say which."""
    with open(path, "r+b") as file:
        offset, bit = chance.randrange(path.stat().st_size), chance.randrange(8)
        file.seek(offset)
        byte = file.read(1)[0]
        file.seek(offset)
        file.write(bytes([byte ^ 1 << bit]))
    return f"{path.name}: bit {bit} of byte {offset}"


def flip_value(db: sqlite3.Connection, table: Table, column: str, chance: random.Random) -> str | None:
    """Flip one bit of one value of a column; say what was done, None if it has no value."""
    key = [one.name for one in table.primary_key]
    keys = ", ".join(f'"{name}"' for name in key)
    found = db.execute(f'SELECT {keys}, "{column}" FROM "{table.name}" WHERE "{column}" IS NOT NULL').fetchall()
    found = [row for row in found if row[-1] not in ("", b"")]
    if not found:
        return None
    *this, value = chance.choice(found)
    if isinstance(value, int):
        flipped: object = value ^ 1 << chance.randrange(40)
    elif isinstance(value, float):
        flipped = value * 2
    else:
        raw = bytearray(value if isinstance(value, bytes) else value.encode())
        raw[chance.randrange(len(raw))] ^= 1 << chance.randrange(7)
        flipped = bytes(raw) if isinstance(value, bytes) else raw.decode("utf-8", "replace")
    where = " AND ".join(f'"{name}" = ?' for name in key)
    assert 1 == db.execute(f'UPDATE "{table.name}" SET "{column}" = ? WHERE {where}', (flipped, *this)).rowcount
    return f"{table.name}.{column} of {this}: {value!r} to {flipped!r}"


@contextmanager
def plain_columns(db: sqlite3.Connection) -> Iterator[None]:
    """Let columns be changed without those that SQLite computes of them, as bad memory would."""
    definitions = "UPDATE sqlite_master SET sql = ? WHERE type = 'table' AND name = ?"
    found = db.execute("SELECT sql, name FROM sqlite_master WHERE sql LIKE '%) STORED%'").fetchall()

    def exchange(rows: list[tuple[str, str]]) -> None:
        version = db.execute("PRAGMA schema_version").fetchone()[0]
        db.execute("PRAGMA writable_schema = ON")
        db.executemany(definitions, rows)
        db.execute(f"PRAGMA schema_version = {version + 1}")
        db.execute("PRAGMA writable_schema = RESET")

    exchange([(re.sub(r" GENERATED ALWAYS AS \(.*?\) STORED", "", sql), name) for sql, name in found])
    try:
        yield
    finally:
        exchange(found)


def find_flips(catalog: Path, chance: random.Random) -> Iterator[str]:
    """Flip a bit in each column of a catalog in turn; it is as it was when the next one is asked for."""
    with closing(sqlite3.connect(catalog)) as db:
        db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    clean = catalog.read_bytes()
    for table in schema.metadata.sorted_tables:
        for column in table.columns:
            with closing(sqlite3.connect(catalog, isolation_level=None)) as db:
                leave_seals(db)
                for pragma in ("foreign_keys = OFF", "ignore_check_constraints = ON"):
                    db.execute(f"PRAGMA {pragma}")
                try:
                    with plain_columns(db):
                        what = flip_value(db, table, column.name, chance)
                except sqlite3.IntegrityError:
                    what = None  # it would make two rows of one key
            if what is not None:
                yield what
            for suffix in ("-wal", "-shm"):
                Path(f"{catalog}{suffix}").unlink(missing_ok=True)
            catalog.write_bytes(clean)


def damage_rows(catalog: AnyPath, sql: str, *values: object) -> None:
    """Change rows as bad memory would: no constraint is checked, no seal or generated column is updated."""
    with closing(sqlite3.connect(os.fsdecode(catalog), isolation_level=None)) as db:
        leave_seals(db)
        db.execute("PRAGMA foreign_keys = OFF")
        db.execute("PRAGMA ignore_check_constraints = ON")
        with plain_columns(db):
            assert db.execute(sql, values).rowcount
