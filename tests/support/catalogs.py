"""
A real catalog with one root, and short ways to fill it.

Like ``reading`` this knows a part of the program, so that the tests of the catalog share one way to make rows.
"""

from __future__ import annotations

import hashlib
import os
import sqlite3
from contextlib import closing

import sqlalchemy as sa

from integrity.catalog import baselines, files, roots, rows, runs, schema
from integrity.catalog.connection import Catalog
from integrity.catalog.days_run import note_day
from integrity.catalog.seal import Sealer
from integrity.catalog.upgrade import run_migrations
from integrity.model import (
    Blocks,
    Digests,
    FileId,
    Job,
    ReadHow,
    Reading,
    RootIdentity,
    Witness,
)
from support.stored import leave_seals

NOW = 1_763_700_000
DAY_S = 86_400
MIB = 1 << 20
IDENTITY = RootIdentity("uuid:6b1c", 2, "ext4", b"/srv")


def digest(seed: object, length: int = 16) -> bytes:
    """Make bytes that look like a digest, the same for the same seed."""
    return hashlib.shake_128(repr(seed).encode()).digest(length)


def run_daily(c: sa.Connection, first: int, last: int) -> None:
    """Let the program have run on each day from one time to another."""
    for now in range(first, last + 1, DAY_S):
        note_day(c, now)


def make_digests(seed: object) -> Digests:
    """Make digests of a small file."""
    return Digests(digest(("md5", seed)), digest(("xxh3", seed)), crc64nvme=digest(("crc", seed), 8))


def make_blocks(seed: object, count: int, *, block_size_bytes: int = MIB) -> Blocks:
    """Make digests of ``count`` blocks, all different."""
    xxh3_128, md5, crc64nvme = (digest((name, seed), size * count) for name, size in (("x", 16), ("m", 16), ("c", 8)))
    return Blocks(block_size_bytes, xxh3_128, md5, crc64nvme)


def make_reading(
    seed: object,
    *,
    size_bytes: int = 5000,
    mtime_ns: int = NOW * 10**9,
    ctime_ns: int = NOW * 10**9,
    inode: int = 77,
    digests: Digests | None = None,
    blocks: Blocks | None = None,
    how: ReadHow = ReadHow.CACHE_POSSIBLE,
) -> Reading:
    """Make what a reader would have found of a file whose content goes by ``seed``."""
    witness = Witness(size_bytes, mtime_ns, ctime_ns, inode)
    return Reading(witness, make_digests(seed) if digests is None else digests, blocks, how, size_bytes)


class CatalogBox:
    """
    A catalog of its own with one root, open for writing.

    Attributes:
        path: of the catalog.
        catalog: it.
        root: the root.
        boot_id: the boot that rows are recorded in.
        run_id: an unfinished scan of the root.
    """

    def __init__(self, path: bytes, *, seal_key: bytes | None = None) -> None:
        self.path = path
        self.seal_key = seal_key
        self.catalog = Catalog.create(path, seal_key=seal_key)
        self.sealer = self.catalog.sealer
        with self.catalog.transaction() as c:
            self.boot_id = runs.ensure_boot(c, "first-boot", NOW)
            self.root = roots.add_root(c, b"/srv/photos", IDENTITY, NOW)
            self.run_id = runs.start_run(c, self.root.id, Job.SCAN, now=NOW, boot_id=self.boot_id, pid=1)

    def __enter__(self) -> CatalogBox:
        return self

    def __exit__(self, *_: object) -> None:
        self.catalog.close()

    def reopen(self, *, writes: bool = True) -> Catalog:
        """Close the catalog and open it again."""
        self.catalog.close()
        self.catalog = Catalog.open(self.path, writes=writes, seal_key=self.seal_key)
        return self.catalog

    def record(self, path: bytes, reading: Reading | None = None, *, now: int = NOW) -> FileId:
        """Record one file."""
        return self.record_all({path: make_reading(path) if reading is None else reading}, now=now)[0]

    def record_all(self, readings: dict[bytes, Reading], *, now: int = NOW) -> list[FileId]:
        """Record files by path, in one transaction."""
        with self.catalog.transaction() as c:
            rows = [baselines.NewFile(path, reading) for path, reading in readings.items()]
            return baselines.record_files(c, self.sealer, self.root, rows, now=now, boot_id=self.boot_id)

    def get(self, file_id: FileId) -> rows.FileRecord:
        """Get the record of a file."""
        with self.catalog.read() as c:
            return files.get_file(c, self.sealer, file_id)

    def find(self, path: bytes) -> rows.FileRecord | None:
        """Find the record of a path."""
        with self.catalog.read() as c:
            return files.find_file(c, self.sealer, self.root.id, path)

    def get_at(self, path: bytes) -> rows.FileRecord:
        """Return the record of a path that has one."""
        record = self.find(path)
        assert record is not None, path
        return record

    def check_tally(self) -> roots.TallyCheck:
        """Check every seal, the count and the XOR of the root."""
        with self.catalog.read() as c:
            return roots.check_tally(c, self.sealer, self.root)

    def damage(self, sql: str, *values: object) -> None:
        """Change the file behind the catalog's back, as bad memory would: no constraint is asked."""
        with closing(sqlite3.connect(self.path.decode(), isolation_level=None)) as db:
            leave_seals(db)
            db.execute("PRAGMA foreign_keys = OFF")
            db.execute("PRAGMA ignore_check_constraints = ON")
            assert db.execute(sql, values).rowcount


def take_back(path: bytes, revision: str) -> None:
    """Make of a catalog what an earlier version would have written: its tables by its own steps, and what fits in."""
    old = path + b"." + revision.encode()
    with closing(sqlite3.connect(old.decode(), isolation_level=None)) as db:
        db.execute("PRAGMA journal_mode = WAL")
        run_migrations(db, Sealer(), to=revision)
        db.execute("PRAGMA foreign_keys = OFF")
        db.execute("ATTACH ? AS newer", (path.decode(),))
        for (table,) in db.execute("SELECT name FROM main.sqlite_master WHERE type = 'table'").fetchall():
            if table in ("alembic_version", "sqlite_sequence"):
                continue
            columns = ", ".join(name for (name,) in db.execute("SELECT name FROM pragma_table_info(?)", (table,)))
            db.execute(f"DELETE FROM main.{table}")
            db.execute(f"INSERT OR IGNORE INTO main.{table} ({columns}) SELECT {columns} FROM newer.{table}")
        db.execute("UPDATE main.file SET boot_id = NULL WHERE boot_id NOT IN (SELECT id FROM main.boot)")
        db.execute(f"PRAGMA main.application_id = {schema.APPLICATION_ID}")
    os.replace(old, path)
