"""
A real catalog with one root, and short ways to fill it.

Like ``reading`` this knows a part of the program, so that the tests of the catalog share one way to make rows.
"""

from __future__ import annotations

import hashlib
from contextlib import closing

from integrity.catalog import baselines, files, roots, rows, runs
from integrity.catalog.connection import Catalog, Connection
from integrity.catalog.db import Value
from integrity.catalog.rows import note_day
from integrity.model import (
    Blocks,
    Digests,
    FileId,
    Job,
    ReadHow,
    Reading,
    Readings,
    RootId,
    RootIdentity,
    Witness,
)

NOW = 1_763_700_000
DAY_S = 86_400
MIB = 1 << 20
IDENTITY = RootIdentity("uuid:6b1c", 2, "ext4", b"/srv")


def digest(seed: object, length: int = 16) -> bytes:
    """Make bytes that look like a digest, the same for the same seed."""
    return hashlib.shake_128(repr(seed).encode()).digest(length)


def run_daily(c: Connection, first: int, last: int) -> None:
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


def find_records(c: Connection, root_id: RootId) -> list[rows.FileRecord]:
    """Return all records of a root in the order of their ids."""
    query = f"SELECT {rows.RECORD_COLUMNS} FROM {rows.FILE_JOIN} WHERE folder.root_id = ? ORDER BY file.id"
    return c.all(rows.FileRecord.make, query, root_id)


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

    def __init__(self, path: bytes) -> None:
        self.path = path
        self.catalog = Catalog.create(path)
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
        self.catalog = Catalog.open(self.path, writes=writes)
        return self.catalog

    def record(self, path: bytes, reading: Reading | None = None, *, now: int = NOW) -> FileId:
        """Record one file."""
        return self.record_all({path: make_reading(path) if reading is None else reading}, now=now)[0]

    def record_all(self, readings: dict[bytes, Reading], *, now: int = NOW) -> list[FileId]:
        """Record files by path, in one transaction."""
        with self.catalog.transaction() as c:
            columns = Readings.of(list(readings.values()))
            return baselines.record_files(c, self.root, list(readings), columns, now=now, boot_id=self.boot_id)

    def get(self, file_id: FileId) -> rows.FileRecord:
        """Get the record of a file."""
        with self.catalog.read() as c:
            return files.get_file(c, file_id)

    def find(self, path: bytes) -> rows.FileRecord | None:
        """Find the record of a path."""
        with self.catalog.read() as c:
            return files.find_file(c, self.root.id, path)

    def get_at(self, path: bytes) -> rows.FileRecord:
        """Return the record of a path that has one."""
        record = self.find(path)
        assert record is not None, path
        return record

    def damage(self, sql: str, *values: Value) -> None:
        """Change rows behind the catalog's back, as bad memory would: no constraint is asked."""
        with closing(Connection(self.path)) as c:
            c.run("PRAGMA foreign_keys = OFF")
            c.run("PRAGMA ignore_check_constraints = ON")
            assert c.run(sql, *values)
