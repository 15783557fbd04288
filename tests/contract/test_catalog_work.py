"""What is verified next, and what the coverage is."""

from __future__ import annotations

from dataclasses import replace

import pytest

from integrity.catalog import baselines, findings, removal
from integrity.catalog.baselines import Verified
from integrity.catalog.connection import Catalog
from integrity.catalog.coverage import DueDay, coverage, find_due_days
from integrity.catalog.rows import NEVER_AT
from integrity.catalog.worklist import WorkOrder, WorkSummary, count_larger, create_worklist, page_worklist
from integrity.model import BaselineReason, FileId, FindingKind, ReadHow
from support.catalogs import DAY_S, NOW, CatalogBox, make_reading


def verify(box: CatalogBox, file_id: FileId, at: int, how: ReadHow = ReadHow.DIRECT) -> None:
    with box.catalog.transaction() as c:
        baselines.mark_verified(c, box.sealer, box.root, [Verified(box.get(file_id), None, how)], now=at, boot_id=None)


def suspect(box: CatalogBox, *ids: FileId) -> None:
    with box.catalog.transaction() as c:
        baselines.mark_suspects(c, dict.fromkeys(ids))


def order_of(box: CatalogBox, order: WorkOrder, *, limit: int = 1000) -> list[bytes]:
    paths: list[bytes] = []
    with box.catalog.read() as c:
        summary = create_worklist(c, order)
        after, size = 0, 0
        while page := page_worklist(c, box.sealer, after, limit):
            after = page[-1][0]
            paths += [record.path for _, record in page]
            size += sum(record.witness.size_bytes for _, record in page)
    assert summary == WorkSummary(len(paths), size)
    return paths


@pytest.fixture
def everything(box: CatalogBox) -> WorkOrder:
    """Ask for all of the root."""
    return WorkOrder(box.root.id, b"", NOW + 100 * DAY_S)


def test_oldest_verification_comes_first_and_disk_order_within_a_day(box: CatalogBox, everything: WorkOrder) -> None:
    """Never verified files lead; files of one day come by inode, however they are named."""
    day = NOW // DAY_S * DAY_S
    for name, inode, at in (
        (b"a", 9, day),
        (b"b", 3, day + 5),
        (b"c", 1, day + DAY_S),
        (b"d", 8, None),
        (b"e", 2, None),
    ):
        file_id = box.record(name, make_reading(name, inode=inode))
        if at is not None:
            verify(box, file_id, at)

    assert order_of(box, everything) == [b"e", b"d", b"b", b"a", b"c"]
    assert order_of(box, everything, limit=2) == [b"e", b"d", b"b", b"a", b"c"]


def test_overdue_files_come_before_everything(box: CatalogBox, everything: WorkOrder) -> None:
    """A file that waits since its recording is overdue by that time, and leads newer ones that were never verified."""
    old = box.record(b"old", make_reading("old", inode=9), now=NOW - 40 * DAY_S)
    verify(box, old, NOW - 35 * DAY_S)
    box.record(b"waiting", make_reading("waiting", inode=5), now=NOW - 31 * DAY_S)
    box.record(b"new", make_reading("new", inode=1), now=NOW)

    assert order_of(box, everything) == [b"new", b"waiting", b"old"]
    due = replace(everything, due_before_at=NOW - 30 * DAY_S)
    assert order_of(box, due) == [b"waiting", b"old", b"new"]


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
    ids = box.record_all({b"%02d" % n: make_reading(n, inode=n) for n in range(20)})
    suspect(box, *ids[10:])

    assert order_of(box, everything) == [b"%02d" % n for n in range(20)]


def test_order_can_be_limited(box: CatalogBox, everything: WorkOrder) -> None:
    """By place, to what was never verified, by age, and by a share of the bytes."""
    paths = [b"d/a", b"d/b", b"d2/c", b"e"]
    ids = box.record_all({path: make_reading(path, inode=n, size_bytes=100) for n, path in enumerate(paths)})
    verify(box, ids[0], NOW + DAY_S)

    assert order_of(box, replace(everything, prefix=b"d")) == [b"d/b", b"d/a"]
    assert order_of(box, replace(everything, prefix=b"d/a")) == [b"d/a"]
    assert order_of(box, replace(everything, never_verified_only=True)) == [b"d/b", b"d2/c", b"e"]
    assert order_of(box, replace(everything, older_than_at=NOW + 1)) == [b"d/b", b"d2/c", b"e"]
    assert order_of(box, replace(everything, older_than_at=NOW)) == []
    assert order_of(box, replace(everything, percent=50)) == [b"d/b", b"d2/c"]
    assert order_of(box, replace(everything, percent=51)) == [b"d/b", b"d2/c", b"e"]
    assert order_of(box, replace(everything, percent=100)) == [b"d/b", b"d2/c", b"e", b"d/a"]
    assert order_of(box, replace(everything, prefix=b"d", percent=1)) == [b"d/b"]


def test_window_takes_what_is_due_and_more_until_it_is_enough(box: CatalogBox, everything: WorkOrder) -> None:
    """All that is due, however much it is; then what is stalest, until the bytes are reached."""
    ids = box.record_all({b"%d" % n: make_reading(n, inode=n, size_bytes=100) for n in range(8)})
    for number, file_id in enumerate(ids):
        verify(box, file_id, NOW - (20 - number) * DAY_S)
    three_due = replace(everything, due_before_at=NOW - 17 * DAY_S)

    assert order_of(box, replace(three_due, at_least_bytes=0)) == [b"0", b"1", b"2"]
    assert order_of(box, replace(three_due, at_least_bytes=200)) == [b"0", b"1", b"2"]
    assert order_of(box, replace(three_due, at_least_bytes=401)) == [b"0", b"1", b"2", b"3", b"4"]
    assert order_of(box, replace(three_due, at_least_bytes=9999)) == [b"%d" % n for n in range(8)]
    assert order_of(box, replace(everything, at_least_bytes=0)) == []
    assert order_of(box, replace(everything, at_least_bytes=1)) == [b"0"]


def test_file_that_takes_several_windows_leaves_room_for_others(box: CatalogBox, everything: WorkOrder) -> None:
    """It counts as half of a window, so that as much of the others is on the list of each."""
    box.record(b"huge", make_reading("huge", inode=1, size_bytes=10**12))
    box.record_all({b"%02d" % n: make_reading(n, inode=2 + n, size_bytes=100) for n in range(20)})

    assert order_of(box, replace(everything, at_least_bytes=1000)) == [b"huge", *(b"%02d" % n for n in range(5))]


def test_large_files_can_be_had_apart(box: CatalogBox, everything: WorkOrder) -> None:
    """Each file is in one of the two parts of the list, in its order."""
    for number, size in enumerate((100, 5000, 101, 7000, 99)):
        box.record(b"%d" % number, make_reading(number, inode=number, size_bytes=size))
    with box.catalog.read() as c:
        create_worklist(c, everything)
        larger = [record.path for _, record in page_worklist(c, box.sealer, 0, larger_than=100)]
        others = [record.path for _, record in page_worklist(c, box.sealer, 0, up_to=100)]
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
                rows = [baselines.NewFile(b"b", make_reading("b"))]
                baselines.record_files(writing, box.sealer, box.root, rows, now=NOW, boot_id=box.boot_id)
            summary = create_worklist(c, everything)
        with box.catalog.read() as c:
            assert [first] == [record.id for _, record in page_worklist(c, box.sealer, 0)]
    assert WorkSummary(1, 5000) == summary


def test_files_that_go_meanwhile_are_left_out(box: CatalogBox, everything: WorkOrder) -> None:
    """A list made at the start of a scrub does not bring back what was removed since."""
    first, second = box.record(b"a"), box.record(b"b")
    with box.catalog.transaction() as c:
        create_worklist(c, everything)
        removal.remove_files(c, box.sealer, box.root, [first], because=BaselineReason.DELETED, now=NOW)
        assert [record.id for _, record in page_worklist(c, box.sealer, 0)] == [second]


def test_reader_can_make_a_list_too(box: CatalogBox, everything: WorkOrder) -> None:
    """The list is temporary: making it writes nothing into the catalog."""
    box.record(b"a")
    box.reopen(writes=False)

    assert order_of(box, everything) == [b"a"]


def test_coverage_of_an_empty_root_is_nothing(box: CatalogBox) -> None:
    """No files: nothing is old, nothing is overdue."""
    with box.catalog.read() as c:
        found = coverage(c, box.root.id, now=NOW, verify_every_s=30 * DAY_S)

    assert (found.files, found.bytes, found.oldest_at, found.overdue_files) == (0, 0, None, 0)
    assert {entry[2:] for entry in found.histogram} == {(0, 0)}


def test_coverage_counts_each_byte_where_it_belongs(box: CatalogBox) -> None:
    """Ages count from the last verification, or from the recording where there was none."""
    now = NOW + 100 * DAY_S
    names = [b"fresh", b"overdue", b"never", b"cached", b"late"]
    ids = box.record_all({name: make_reading(name, size_bytes=10**n) for n, name in enumerate(names)})
    verify(box, ids[0], now - DAY_S // 2)
    verify(box, ids[1], now - 31 * DAY_S)
    verify(box, ids[3], now - 8 * DAY_S, ReadHow.CACHE_POSSIBLE)
    verify(box, ids[4], now - 29 * DAY_S)
    suspect(box, ids[0])
    with box.catalog.read() as c:
        found = coverage(c, box.root.id, now=now, verify_every_s=30 * DAY_S)

    assert (found.files, found.bytes, found.oldest_at) == (5, 11111, NOW)
    assert (found.never_verified_files, found.never_verified_bytes) == (1, 100)
    assert (found.overdue_files, found.overdue_bytes) == (2, 110)
    assert (found.cache_possible_files, found.suspects) == (1, 1)
    assert {entry for entry in found.histogram if entry[2]} == {
        (0, 1, 1, 1),
        (7, 14, 1, 1000),
        (14, 30, 1, 10000),
        (30, 60, 1, 10),
        (90, 180, 1, 100),
    }
    assert sum(entry[2] for entry in found.histogram) == found.files


def open_on(box: CatalogBox, file_id: FileId, kind: FindingKind) -> None:
    new = findings.NewFinding(kind, box.root.id, file_id, b"%d" % file_id, "a message")
    with box.catalog.transaction() as c:
        findings.open_finding(c, new, now=NOW, run_id=None)


def test_what_has_an_open_finding_is_neither_overdue_nor_verified(box: CatalogBox) -> None:
    """It was looked at, and is told by its finding; what memory may have answered is no verification, either."""
    now = NOW + 40 * DAY_S
    kinds = [FindingKind.ROT, FindingKind.UNREADABLE, FindingKind.UNSTABLE, FindingKind.COPY_MISSING]
    ids = box.record_all({b"%d" % n: make_reading(n, size_bytes=10**n) for n in range(7)})
    for file_id, kind in zip(ids, kinds, strict=False):
        open_on(box, file_id, kind)
    verify(box, ids[4], now - DAY_S)
    verify(box, ids[5], now - DAY_S, ReadHow.CACHE_POSSIBLE)
    with box.catalog.read() as c:
        found = coverage(c, box.root.id, now=now, verify_every_s=30 * DAY_S)
        days = find_due_days(c, box.root.id, now=now)

    assert (found.uncovered_files, found.uncovered_bytes) == (3, 111)
    assert (found.overdue_files, found.overdue_bytes) == (2, 1_001_000)
    assert (found.verified_bytes, found.cache_possible_bytes) == (10_000, 100_000)
    assert days == [DueDay(NOW, 2, 1_001_000), DueDay(now - DAY_S, 2, 110_000)]
    with box.catalog.transaction() as c:
        findings.resolve_findings(c, root_id=box.root.id, resolution="mended", now=now)
    with box.catalog.read() as c:
        assert coverage(c, box.root.id, now=now, verify_every_s=30 * DAY_S).overdue_files == 5


def test_look_ahead_of_the_clock_counts_for_nothing(box: CatalogBox, everything: WorkOrder) -> None:
    """A clock that was once ahead must not switch verification off; a step of minutes makes nobody read again."""
    now, promised_at = NOW, NOW - 30 * DAY_S
    ids = [
        box.record(name, make_reading(name, inode=inode), now=recorded_at)
        for inode, (name, recorded_at) in enumerate(
            [
                (b"both ahead", NOW + 365 * DAY_S),
                (b"old", NOW - 40 * DAY_S),
                (b"young", NOW - DAY_S),
                (b"a step", NOW - 40 * DAY_S),
            ]
        )
    ]
    for file_id in ids[:3]:
        verify(box, file_id, NOW + 365 * DAY_S)
    verify(box, ids[3], NOW + 300)

    everything = replace(everything, now=now)
    due = replace(everything, older_than_at=promised_at, due_before_at=promised_at)
    assert [b"both ahead", b"old"] == order_of(box, due)
    assert [b"both ahead", b"old", b"young"] == order_of(box, replace(everything, never_verified_only=True))
    with box.catalog.read() as c:
        found = coverage(c, box.root.id, now=now, verify_every_s=30 * DAY_S)
        days = find_due_days(c, box.root.id, now=now)
    assert (2, 3, False) == (found.overdue_files, found.never_verified_files, found.is_oldest_known)
    assert [NEVER_AT, NOW - 40 * DAY_S, NOW - DAY_S, NOW + 300] == [day.oldest_at for day in days]
    for file_id in ids:
        verify(box, file_id, NOW)
    assert [] == order_of(box, due)
