"""One flipped bit in each column of each table of a used catalog is detected, by opening it or looking it through."""

from __future__ import annotations

import os
import random
import shutil
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from sqlalchemy import Table

from integrity.catalog import maintenance, tables
from integrity.catalog.connect import Catalog
from integrity.errors import CatalogError
from support.bitrot import rot
from support.cli import Box
from support.loopfs import LoopFS
from support.planted import age
from support.shapes import put
from support.stored import leave_seals

MIB = 1 << 20


@pytest.fixture
def used(ext4: LoopFS, integrity: Box) -> Path:
    """Use a catalog for everything: damage, changes, deletions, held changes, a copy, a gate, a backup."""
    root = Path(os.fsdecode(ext4.mnt)) / "data"
    root.mkdir()
    for number in range(8):
        put(root / f"{number}.txt", os.urandom(5_000))
    (root / "large").write_bytes(os.urandom(3 * MIB))
    age(*root.iterdir())
    integrity.run("scrub", root, expect=0)
    integrity.run("gate", root, expect=0)
    copy = root.parent / "copy"
    shutil.copytree(root, copy)
    rot(root / "1.txt", 30)
    rot(root / "large", MIB + 30)
    (root / "2.txt").write_bytes(b"edited")
    (root / "3.txt").unlink()
    integrity.run("scrub", root, expect=1)
    (root / "1.txt").write_bytes(b"newer")
    integrity.run("scan", root)
    integrity.run("compare", root, "--with", copy)
    integrity.run("ack", "1")
    for backup in integrity.home.glob("catalog-*.db"):
        backup.unlink()
    return root


def flip(db: sqlite3.Connection, table: Table, column: str, chance: random.Random) -> str | None:
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


def find_flips(integrity: Box, chance: random.Random) -> Iterator[str]:
    """Flip a bit in each column of the catalog in turn; it is as it was when the next one is asked for."""
    with closing(sqlite3.connect(integrity.catalog)) as db:
        db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    clean = integrity.catalog.read_bytes()
    for table in tables.metadata.sorted_tables:
        for column in table.columns:
            with closing(sqlite3.connect(integrity.catalog, isolation_level=None)) as db:
                leave_seals(db)
                for pragma in ("foreign_keys = OFF", "ignore_check_constraints = ON"):
                    db.execute(f"PRAGMA {pragma}")
                try:
                    what = flip(db, table, column.name, chance)
                except sqlite3.IntegrityError:
                    what = None  # it would make two rows of one key
            if what is not None:
                yield what
            for suffix in ("-wal", "-shm"):
                Path(f"{integrity.catalog}{suffix}").unlink(missing_ok=True)
            integrity.catalog.write_bytes(clean)


def is_right(path: bytes) -> bool:
    """Look a catalog through, as ``integrity catalog check`` does."""
    with Catalog.open(path, writes=False, verify_rows=False) as catalog:
        return maintenance.check(catalog).is_right


@pytest.mark.root
def test_flip_in_every_column_is_detected(used: Path, integrity: Box) -> None:
    """Each value that is stored of anything."""
    path = os.fsencode(integrity.catalog)
    assert is_right(path)
    flips = 0
    missed = []
    for what in find_flips(integrity, random.Random(11)):
        flips += 1
        try:
            if is_right(path):
                missed.append(what)
        except CatalogError:
            pass  # that is an answer, too
    assert flips > 150
    assert not missed, "\n".join(missed)


@pytest.mark.root
@pytest.mark.campaign
@pytest.mark.parametrize("seed", range(5))
def test_commands_on_a_flipped_catalog(used: Path, integrity: Box, seed: int) -> None:
    """None fails in a way that it does not explain, and those that exit as if all were well accuse nobody."""
    for what in find_flips(integrity, random.Random(seed)):
        for words in (["status"], ["findings"], ["scan", used], ["scrub", used], ["catalog", "check"]):
            told = integrity.run(*words)
            assert "Traceback" not in told.stderr, (what, words, told.stderr)
        assert told.code == 4, what
