"""What the catalog keeps for reports to a hub: checked, resealed, removed with its root, and there after an upgrade."""

from __future__ import annotations

import sqlite3
from contextlib import closing

import pytest

from integrity.catalog import maintenance, report_queue, report_rows, roots
from integrity.catalog.sqlite_errors import DamagedRow
from support.catalogs import NOW, CatalogBox, make_reading, take_back
from support.reporting import ReportingBox
from support.smallhub import SmallHub

TABLES = ("report_state", "report_change", "report_message", "report_folder")


def fill(box: CatalogBox) -> None:
    """Write a row into each table."""
    file_id = box.record(b"d/a")
    with box.catalog.transaction() as c:
        report_queue.start_stream(c, "https://hub.example", bytes(16), NOW)
        report_queue.add_messages(c, [report_queue.QueuedMessage(1, NOW, "state", 0, "{}")], ())
        report_rows.set_rules(c, box.root.id, "*.tmp")
        report_rows.begin_digests(c, [box.get(file_id).folder_id])
        report_rows.save_digest(c, box.get(file_id).folder_id, bytes(16), bytes(16))


def count(box: CatalogBox, table: str) -> int:
    with closing(sqlite3.connect(box.path.decode())) as db:
        return int(db.execute(f"SELECT count(*) FROM {table}").fetchone()[0])


@pytest.mark.parametrize("table", TABLES)
def test_damaged_row_is_named_and_can_be_resealed(box: CatalogBox, table: str) -> None:
    """As in every other table."""
    fill(box)
    with closing(sqlite3.connect(box.path.decode())) as db:
        key = db.execute(f"SELECT * FROM {table}").fetchone()[0]
    box.damage(f"UPDATE {table} SET seal = zeroblob(16)")

    assert (DamagedRow(table, (key,)),) == maintenance.check(box.catalog).damaged_rows
    maintenance.reseal(box.catalog, None, NOW)
    assert maintenance.check(box.catalog).is_right


def test_removed_root_leaves_no_digests(box: CatalogBox) -> None:
    """Nor the rules that they were made with."""
    fill(box)
    with box.catalog.transaction() as c:
        roots.remove_root(c, box.root.id)

    with box.catalog.read() as c:
        assert not report_rows.has_rules(c, box.root.id, "*.tmp")
    assert 0 == count(box, "report_folder")
    assert maintenance.check(box.catalog).is_right


def test_box_that_leaves_its_hub_keeps_nothing(box: CatalogBox) -> None:
    """All four tables are empty, and no trigger fills them again."""
    fill(box)
    with box.catalog.transaction() as c:
        report_queue.stop_reporting(c)
    box.record(b"d/b")

    assert [0] * 4 == [count(box, table) for table in TABLES]


@pytest.mark.parametrize("revision", ["0001", "0005", "0009"])
def test_upgraded_catalog_can_report(box: CatalogBox, revision: str) -> None:
    """Its files arrive with their digests, and changes are queued from then on."""
    box.record_all({b"d/%d" % number: make_reading(number) for number in range(10)})
    box.catalog.close()
    take_back(box.path, revision)
    box.reopen()
    with SmallHub() as hub:
        reporting = ReportingBox(box, hub.url)
        reporting.report()
        reporting.open_finding(b"d/1", box.get_at(b"d/1").id)
        reporting.report()
        reporting.close()

        assert 10 == len(hub.trees[1]["d"].files)
        assert hub.settled[1] == hub.heartbeats[-1]["roots"][0]["tree"]
        assert ["state", "finding"] == [kind for kind, _ in hub.messages]
