"""What is verified next, and what the coverage is."""

from __future__ import annotations

import pytest

from integrity.catalog import baselines, findings
from integrity.catalog.connection import Catalog
from integrity.catalog.coverage import coverage
from integrity.catalog.files import WorkOrder, count_larger, create_worklist, page_worklist
from integrity.catalog.findings import NewFinding
from integrity.model import BaselineReason, FileId, FindingKind, Readings
from support.catalogs import DAY_S, NOW, CatalogBox, make_reading


def suspect(box: CatalogBox, *ids: FileId) -> None:
    with box.catalog.transaction() as c:
        baselines.mark_suspects(c, dict.fromkeys(ids))


def order_of(box: CatalogBox, order: WorkOrder, *, limit: int = 1000) -> list[bytes]:
    paths: list[bytes] = []
    with box.catalog.read() as c:
        summary = create_worklist(c, order)
        after, size = 0, 0
        while page := page_worklist(c, after, limit):
            after = page[-1][0]
            paths += [record.path for _, record in page]
            size += sum(record.witness.size_bytes for _, record in page)
    assert summary == (len(paths), size)
    return paths


@pytest.fixture
def everything(box: CatalogBox) -> WorkOrder:
    """Ask for all of the root."""
    return WorkOrder(box.root.id, b"", NOW + 100 * DAY_S)


def test_suspects_take_turns_with_the_others(box: CatalogBox, everything: WorkOrder) -> None:
    """A few files whose ctime moved are read early, and never take more than half of a window (R2)."""
    ids = box.record_all({b"%02d" % n: make_reading(n, inode=n, size_bytes=100) for n in range(60)})
    suspect(box, *ids[57:])
    found = order_of(box, everything)

    assert found[:8] == [b"57", b"00", b"58", b"01", b"59", b"02", b"03", b"04"]
    assert sorted(found) == [b"%02d" % n for n in range(60)]


def test_large_suspect_does_not_starve_the_others(box: CatalogBox, everything: WorkOrder) -> None:
    """After a large suspect as many bytes of others have their turn."""
    ids = box.record_all({b"%02d" % n: make_reading(n, inode=n, size_bytes=100) for n in range(58)})
    large = box.record(b"large", make_reading("large", inode=100, size_bytes=1000))
    second = box.record(b"small", make_reading("small", inode=101, size_bytes=100))
    suspect(box, large, second)
    found = order_of(box, everything)

    assert len(ids) == 58
    assert found[0] == b"large"
    assert found.index(b"small") == 11


def test_wave_of_suspects_has_no_priority(box: CatalogBox, everything: WorkOrder) -> None:
    """After a `chown -R` the promise goes on as if nothing had happened (R2)."""
    ids = box.record_all({b"%02d" % n: make_reading(n, inode=n) for n in range(60)})
    suspect(box, *ids[30:])

    assert order_of(box, everything) == [b"%02d" % n for n in range(60)]
    assert order_of(box, everything._replace(older_than_at=NOW - DAY_S, has_suspects=True)) == []


def test_few_suspects_are_due_whatever_the_age_of_the_others(box: CatalogBox, everything: WorkOrder) -> None:
    """Also in a small root, and beside a share of the rest; not those that were read since and have a finding."""
    ids = box.record_all({b"%02d" % n: make_reading(n, inode=n, size_bytes=100) for n in range(10)})
    suspect(box, ids[7], ids[8])
    with box.catalog.transaction() as c:
        damage = NewFinding(FindingKind.SILENT_REWRITE, box.root.id, ids[8], b"08", "why")
        findings.open_finding(c, damage, now=NOW, run_id=None)
    due = everything._replace(older_than_at=NOW - DAY_S)

    assert order_of(box, due) == []
    assert order_of(box, due._replace(has_suspects=True)) == [b"07"]
    assert order_of(box, everything._replace(at_least_bytes=0, has_suspects=True)) == [b"07"]
    with box.catalog.read() as c:
        assert coverage(c, box.root.id, now=NOW, verify_every_s=DAY_S).suspects == 1


def test_large_files_can_be_had_apart(box: CatalogBox, everything: WorkOrder) -> None:
    """Each file is in one of the two parts of the list, in its order."""
    for number, size in enumerate((100, 5000, 101, 7000, 99)):
        box.record(b"%d" % number, make_reading(number, inode=number, size_bytes=size))
    with box.catalog.read() as c:
        create_worklist(c, everything)
        larger = [record.path for _, record in page_worklist(c, 0, larger_than=100)]
        others = [record.path for _, record in page_worklist(c, 0, up_to=100)]
        assert count_larger(c, 100) == 3
        assert count_larger(c, 7000) == 0

    assert (larger, others) == ([b"1", b"2", b"3"], [b"0", b"4"])


def test_others_write_while_a_list_is_made(box: CatalogBox, everything: WorkOrder) -> None:
    """The list of a million files takes its time; all of it is of the moment at which it was begun."""
    first = box.record(b"a")
    with Catalog.open(box.path, writes=True, busy_timeout_s=0.0) as other:
        with box.catalog.snapshot() as c:
            create_worklist(c, everything)
            with other.transaction() as writing:
                readings = Readings.of([make_reading("b")])
                baselines.record_files(writing, box.root, [b"b"], readings, now=NOW, boot_id=box.boot_id)
            summary = create_worklist(c, everything)
        with box.catalog.read() as c:
            assert [first] == [record.id for _, record in page_worklist(c, 0)]
    assert (1, 5000) == summary


def test_files_that_go_meanwhile_are_left_out(box: CatalogBox, everything: WorkOrder) -> None:
    """A list made at the start of a scrub does not bring back what was removed since."""
    first, second = box.record(b"a"), box.record(b"b")
    with box.catalog.transaction() as c:
        create_worklist(c, everything)
        baselines.remove_files(c, box.root, [first], because=BaselineReason.DELETED, now=NOW)
        assert [record.id for _, record in page_worklist(c, 0)] == [second]


def test_reader_can_make_a_list_too(box: CatalogBox, everything: WorkOrder) -> None:
    """The list is temporary: making it writes nothing into the catalog."""
    box.record(b"a")
    box.reopen(writes=False)

    assert order_of(box, everything) == [b"a"]
