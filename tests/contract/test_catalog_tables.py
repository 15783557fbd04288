"""The schema: documented, strict, small, and kept by its constraints."""

from __future__ import annotations

import os
import random
import sqlite3

import pytest

from integrity.catalog import removal, schema
from integrity.catalog.compiled_sql import driver_of
from integrity.catalog.connection import Catalog
from integrity.errors import CatalogError
from integrity.model import BaselineReason, Digests
from support.catalogs import NOW, CatalogBox, make_reading

TABLES = list(schema.metadata.sorted_tables)


@pytest.mark.parametrize("table", TABLES, ids=lambda table: table.name)
def test_every_column_says_what_it_means(table: schema.sa.Table) -> None:
    """No column is without a comment."""
    assert [] == [column.name for column in table.columns if not column.comment]


@pytest.mark.parametrize("table", TABLES, ids=lambda table: table.name)
def test_every_table_is_strict(table: schema.sa.Table) -> None:
    """SQLite refuses values of other types than the column's."""
    assert table.dialect_options["sqlite"]["strict"]


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
    """A file that is recorded after the last one was removed has a number of its own (I3)."""
    first = box.record(b"a")
    with box.catalog.transaction() as c:
        removal.remove_files(c, box.sealer, box.root, [first], because=BaselineReason.DELETED, now=NOW)
    second = box.record(b"b")

    assert second > first


def test_damaged_counter_of_file_numbers_gives_none_twice(box: CatalogBox) -> None:
    """The numbers in use are respected even when the counter was lost."""
    first = box.record(b"a")
    box.damage("UPDATE meta SET value = 'x' WHERE key = 'next_file_id'")

    assert box.record(b"b") == first + 1


def test_writer_commits_to_the_disk_and_checks_keys(box: CatalogBox) -> None:
    """WAL, synchronous=FULL and foreign keys are set on the connection that writes."""
    with box.catalog.read() as c:
        db = driver_of(c)
        found = {
            name: db.execute(f"PRAGMA {name}").fetchone()[0]
            for name in ("journal_mode", "synchronous", "foreign_keys", "temp_store", "busy_timeout")
        }

    assert found == {"journal_mode": "wal", "synchronous": 2, "foreign_keys": 1, "temp_store": 1, "busy_timeout": 30000}


def test_new_catalog_is_a_sqlite_file_with_a_name_tag(box: CatalogBox) -> None:
    """`file(1)` and integrity itself can tell a catalog from any other database."""
    box.catalog.close()
    with open(box.path, "rb") as stored:
        head = stored.read(100)

    assert head[:16] == b"SQLite format 3\0"
    assert int.from_bytes(head[68:72], "big") == schema.APPLICATION_ID


def test_text_that_is_not_utf8_does_not_stop_a_page(box: CatalogBox) -> None:
    """A damaged word comes out as a wrong word."""
    file_id = box.record(b"a")
    box.damage("UPDATE file SET reason = CAST(x'ff' AS TEXT) WHERE id = ?", file_id)

    assert not box.get(file_id).is_sealed


def test_path_of_the_catalog_may_hold_any_bytes(tmp_path: os.PathLike[str]) -> None:
    """A catalog whose path has every odd byte in it can be made and opened."""
    path = os.fsencode(tmp_path) + b"/odd ?#%41&=\xff\n/catalog.db"
    Catalog.create(path).close()
    with Catalog.open(path, writes=False) as catalog:
        found = catalog.path

    assert found == path
    assert sqlite3.sqlite_version_info >= (3, 37)  # STRICT tables
