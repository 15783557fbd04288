"""Looking the catalog through, and its size."""

from __future__ import annotations

import os

import pytest

from integrity.catalog.maintenance import FileCount, check, stats
from support.catalogs import MIB, CatalogBox, make_blocks, make_reading


def fill(box: CatalogBox) -> None:
    box.record_all({b"d/%d" % number: make_reading(number) for number in range(5)})
    box.record(b"large", make_reading("large", blocks=make_blocks("large", 1500), size_bytes=1500 * MIB))


def test_healthy_catalog_is_right(box: CatalogBox) -> None:
    """Nothing is said of a catalog that has nothing."""
    fill(box)
    report = check(box.catalog)

    assert report.is_right
    assert report.counts == (FileCount(b"/srv/photos", 6, 6),)
    assert check(box.catalog, deep=False).is_right


@pytest.mark.parametrize(
    "damage",
    [
        "DELETE FROM file WHERE id = 2",
        "UPDATE root SET file_count = 7",
        "UPDATE tally SET rows = rows + 1 WHERE name = 'file'",
        "UPDATE tally SET sum = sum + 1 WHERE name = 'version'",
        "UPDATE file SET is_frozen = 1 WHERE id = 2",
        "DELETE FROM block_run WHERE run = 1",
        "UPDATE file SET boot_id = 99 WHERE id = 2",
        "DELETE FROM folder WHERE path = x'64'",
    ],
)
def test_each_damage_is_found(box: CatalogBox, damage: str) -> None:
    """Lost rows, counts, tallies, blocks, keys and what findings hold are all looked at; pages: test_catalog_pages."""
    fill(box)
    box.damage(damage)

    assert not check(box.catalog).is_right


def test_orphaned_runs_are_counted(box: CatalogBox) -> None:
    """Blocks that belong to nothing take room and do no harm."""
    fill(box)
    box.damage("UPDATE block_run SET file_id = 999 WHERE run = 1")
    report = check(box.catalog)

    assert (report.orphan_runs, report.incomplete_files) == (1, (6,))


def test_size_is_told_by_table(box: CatalogBox) -> None:
    """Who wonders what takes the room can see it."""
    fill(box)
    found = stats(box.catalog)
    tables = {table.name: table for table in found.tables}

    assert (tables["file"].rows, tables["block_run"].rows, tables["root"].rows) == (6, 2, 1)
    assert found.file_bytes == os.path.getsize(box.path)
    assert found.log_bytes == os.path.getsize(box.path + b"-wal")
    assert found.revision.isdigit()
    assert len(found.uuid) == 36
    assert tables["block_run"].bytes > 1500 * 32
