"""What the catalog keeps for reports to a hub: removed with its root, or when the box leaves its hub."""

from __future__ import annotations

from integrity.catalog import maintenance, report_queue, roots
from support.catalogs import NOW, CatalogBox

TABLES = ("report_state", "report_change", "report_message", "report_folder")


def fill(box: CatalogBox) -> None:
    """Write a row into each table."""
    file_id = box.record(b"d/a")
    with box.catalog.transaction() as c:
        report_queue.start_stream(c, "https://hub.example", bytes(16), NOW)
        report_queue.add_messages(c, [report_queue.QueuedMessage(1, NOW, "state", 0, "{}")], ())
        report_queue.set_rules(c, box.root.id, "*.tmp")
        report_queue.begin_digests(c, [box.get(file_id).folder_id])
        report_queue.save_digest(c, box.get(file_id).folder_id, bytes(16), bytes(16))


def count(box: CatalogBox, table: str) -> int:
    with box.catalog.read() as c:
        return int(c.value(f"SELECT count(*) FROM {table}"))


def test_removed_root_leaves_no_digests(box: CatalogBox) -> None:
    """Nor the rules that they were made with."""
    fill(box)
    with box.catalog.transaction() as c:
        roots.remove_root(c, box.root.id)

    with box.catalog.read() as c:
        assert not report_queue.has_rules(c, box.root.id, "*.tmp")
    assert 0 == count(box, "report_folder")
    assert maintenance.check(box.catalog).is_right


def test_box_that_leaves_its_hub_keeps_nothing(box: CatalogBox) -> None:
    """All four tables are empty, and no trigger fills them again."""
    fill(box)
    with box.catalog.transaction() as c:
        report_queue.stop_reporting(c)
    box.record(b"d/b")

    assert [0] * 4 == [count(box, table) for table in TABLES]
