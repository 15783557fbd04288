"""The schema: documented, strict, small, and kept by its constraints."""

from __future__ import annotations

import os
import random

import pytest

from integrity.catalog import baselines
from integrity.catalog.connection import Catalog
from integrity.catalog.db import APPLICATION_ID
from integrity.errors import CatalogError
from integrity.model import BaselineReason, Digests
from support.catalogs import NOW, CatalogBox, make_reading
from support.generated import read_tables


def test_every_column_says_what_it_means(box: CatalogBox) -> None:
    """No column is without a comment, and the documents have each."""
    read = read_tables()
    with box.catalog.read() as c:
        tables = c.column("SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite%'")
        columns = {name: list(c.rows("SELECT name, type FROM pragma_table_info(?)", name)) for name in read}
    assert {*tables} == {*read, "alembic_version"}
    assert columns == {name: [(one.name, one.type) for one in some] for name, some in read.items()}
    assert [] == [one for some in read.values() for one in some if not one.meaning]


def test_every_table_is_strict(box: CatalogBox) -> None:
    """SQLite refuses values of other types than the column's."""
    with box.catalog.read() as c:
        loose = "SELECT name FROM pragma_table_list WHERE schema = 'main' AND name NOT LIKE 'sqlite%' AND NOT strict"
        assert [] == c.column(loose)


def test_digest_of_wrong_length_is_refused(box: CatalogBox) -> None:
    """A digest that is not whole can't become a baseline."""
    with pytest.raises(CatalogError, match="CHECK"):
        box.record(b"a", make_reading("a", digests=Digests(b"short")))


def test_small_file_costs_at_most_350_bytes_beyond_its_path(box: CatalogBox) -> None:
    """A million small files need a catalog of a quarter of a gigabyte, not more."""
    rng = random.Random(1)
    count = 10_000
    readings = {}
    for number in range(count):
        path = b"photos/2019/holiday-%04d/img_%06d.jpg" % (number // 8, number)
        digests = Digests(rng.randbytes(16), rng.randbytes(16))
        readings[path] = make_reading(
            number,
            size_bytes=rng.randrange(10**7),
            mtime_ns=NOW * 10**9 - rng.randrange(10**17),
            ctime_ns=NOW * 10**9 - rng.randrange(10**17),
            inode=rng.randrange(10**8),
            digests=digests,
        )
    empty_bytes = os.path.getsize(box.path)
    box.record_all(readings)
    box.catalog.close()  # brings the log into the file
    per_file = (os.path.getsize(box.path) - empty_bytes - sum(map(len, readings))) / count

    assert per_file <= 260


def test_file_numbers_are_never_given_twice(box: CatalogBox) -> None:
    """A file that is recorded after the last one was removed has a number of its own (I2)."""
    first = box.record(b"a")
    with box.catalog.transaction() as c:
        baselines.remove_files(c, box.root, [first], because=BaselineReason.DELETED, now=NOW)
    second = box.record(b"b")

    assert second > first


def test_writer_commits_to_the_disk_and_checks_keys(box: CatalogBox) -> None:
    """WAL, synchronous=FULL and foreign keys are set on the connection that writes."""
    with box.catalog.read() as c:
        found = {
            name: c.value(f"PRAGMA {name}")
            for name in ("journal_mode", "synchronous", "foreign_keys", "temp_store", "busy_timeout")
        }

    assert found == {"journal_mode": "wal", "synchronous": 2, "foreign_keys": 1, "temp_store": 1, "busy_timeout": 30000}


def test_new_catalog_is_a_sqlite_file_with_a_name_tag(box: CatalogBox) -> None:
    """`file(1)` and integrity itself can tell a catalog from any other database."""
    box.catalog.close()
    with open(box.path, "rb") as stored:
        head = stored.read(100)

    assert head[:16] == b"SQLite format 3\0"
    assert int.from_bytes(head[68:72], "big") == APPLICATION_ID


def test_path_of_the_catalog_may_hold_any_bytes(tmp_path: os.PathLike[str]) -> None:
    """A catalog whose path has every odd byte in it can be made and opened."""
    path = os.fsencode(tmp_path) + b"/odd ?#%41&=\xff\n/catalog.db"
    Catalog.create(path).close()
    with Catalog.open(path, writes=False) as catalog:
        found = catalog.path

    assert found == path
