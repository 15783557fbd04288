"""How long files have waited to be compared with a copy."""

from __future__ import annotations

from integrity.catalog import copies
from integrity.catalog.copies import CopyRecord, CopyState, CopyWaits, find_waits
from integrity.catalog.files import page_files
from integrity.files.excludes import Excludes
from integrity.model import FileId
from integrity.verdict import CopyVote
from support.catalogs import DAY_S, NOW, CatalogBox

MONTH_S = 30 * DAY_S


def ensure(box: CatalogBox, *, prefix: bytes = b"", now: int = NOW) -> CopyRecord:
    with box.catalog.transaction() as c:
        return copies.ensure_copy(c, box.root.id, prefix, "nightly", "/mnt/backup", None, now=now)


def compare(box: CatalogBox, copy: CopyRecord, file_id: FileId, at: int, *, version: int = 1) -> None:
    with box.catalog.transaction() as c:
        copies.save_states(c, copy.id, [CopyState(file_id, version, CopyVote.SAME, at, None)])


def waits(box: CatalogBox, copy: CopyRecord, now: int) -> CopyWaits:
    with box.catalog.read() as c:
        return find_waits(c, copy, now=now, verify_every_s=MONTH_S)


def test_copy_without_files_waits_for_nothing(box: CatalogBox) -> None:
    """An empty root breaks no promise."""
    assert CopyWaits(0, 0, 0, 0, 0, None, None, 0) == waits(box, ensure(box), NOW + 100 * DAY_S)


def test_clock_starts_at_the_recording_or_when_the_copy_was_known(box: CatalogBox) -> None:
    """Whichever came later: a copy that is new owes nothing for the years before."""
    box.record(b"old", now=NOW)
    copy = ensure(box, now=NOW + 10 * DAY_S)
    assert NOW + 10 * DAY_S == waits(box, copy, NOW + 10 * DAY_S).waits_since
    assert 0 == waits(box, copy, NOW + 40 * DAY_S).overdue
    assert 1 == waits(box, copy, NOW + 41 * DAY_S).overdue

    box.record(b"new", now=NOW + 20 * DAY_S)
    assert 1 == waits(box, copy, NOW + 45 * DAY_S).overdue
    assert 2 == waits(box, copy, NOW + 55 * DAY_S).overdue


def test_what_a_backup_leaves_out_is_not_waited_for(box: CatalogBox) -> None:
    """Unless it has it all the same, and was compared; patterns begin at the folder that is copied."""
    for name in (b"sub/kept", b"sub/cache/a", b"sub/cache/b", b"sub/deep/cache/c"):
        box.record(name, now=NOW)
    with box.catalog.read() as c:
        (compared, _, _) = next(one for one in page_files(c, box.root.id) if one[1] == b"sub/cache/a")
    copy = ensure(box, prefix=b"sub")
    left_out = Excludes(["/cache/"], builtin=False)
    with box.catalog.read() as c:
        found = find_waits(c, copy, now=NOW + 40 * DAY_S, verify_every_s=MONTH_S, left_out=left_out)
    assert CopyWaits(2, 0, 0, 0, 0, None, NOW, 2) == found

    compare(box, copy, compared, NOW + 5 * DAY_S)
    with box.catalog.read() as c:
        found = find_waits(c, copy, now=NOW + 40 * DAY_S, verify_every_s=MONTH_S, left_out=left_out)
        nothing = find_waits(c, copy, now=NOW, verify_every_s=MONTH_S, left_out=Excludes(["*"], builtin=False))
    assert CopyWaits(3, 1, 1, 0, 0, NOW + 5 * DAY_S, NOW, 3) == found
    assert 1 == nothing.files


def test_comparison_starts_the_clock_anew_for_one_version(box: CatalogBox) -> None:
    """What it says of an older version is nothing of the present one."""
    first, second = box.record(b"first"), box.record(b"second")
    copy = ensure(box)
    compare(box, copy, first, NOW + 20 * DAY_S)
    compare(box, copy, second, NOW + 25 * DAY_S)
    found = waits(box, copy, NOW + 51 * DAY_S)
    assert (2, 2, 0, NOW + 25 * DAY_S, NOW + 20 * DAY_S, 1) == (
        found.files, found.compared, found.read, found.last_compared_at, found.waits_since, found.overdue,
    )  # fmt: skip

    box.damage("UPDATE file SET version = 2, recorded_at = ? WHERE id = ?", NOW + 40 * DAY_S, first)
    found = waits(box, copy, NOW + 51 * DAY_S)
    assert (1, 0) == (found.compared, found.overdue)


def test_only_the_folder_that_was_copied_counts(box: CatalogBox) -> None:
    """And only that copy: what another says is no comparison with this one."""
    box.record(b"other/a")
    wanted = box.record(b"photos/a")
    copy = ensure(box, prefix=b"photos")
    with box.catalog.transaction() as c:
        another = copies.ensure_copy(c, box.root.id, b"photos", "weekly", "/mnt/weekly", None, now=NOW)
    compare(box, another, wanted, NOW + DAY_S)

    assert (1, 0) == (waits(box, copy, NOW).files, waits(box, copy, NOW).compared)


def test_levels_and_silence_are_counted_apart(box: CatalogBox) -> None:
    """What could not be compared is no promise broken, but nothing good either."""
    ids = [box.record(b"%d" % number) for number in range(4)]
    copy = ensure(box)
    with box.catalog.transaction() as c:
        states = [
            CopyState(ids[0], 1, CopyVote.SAME, NOW + 5, NOW + 5),
            CopyState(ids[1], 1, CopyVote.NOT_COMPARABLE, NOW + 6, None),
            CopyState(ids[2], 1, CopyVote.UNREADABLE, NOW + 7, None),
        ]
        copies.save_states(c, copy.id, states)
    found = waits(box, copy, NOW + 10)

    assert (4, 3, 1, 1, 2) == (found.files, found.compared, found.same, found.read, found.silent)
    assert NOW + 7 == found.last_compared_at


def test_comparison_ahead_of_the_clock_counts_for_nothing(box: CatalogBox) -> None:
    """The clock was wrong then: the file waits since it was recorded, or if that is not known either, it is overdue."""
    first = box.record(b"first")
    copy = ensure(box)
    compare(box, copy, first, NOW + 365 * DAY_S)
    found = waits(box, copy, NOW + 20 * DAY_S)
    assert (NOW, None, 0) == (found.waits_since, found.last_compared_at, found.overdue)
    assert 1 == waits(box, copy, NOW + 31 * DAY_S).overdue

    assert 1 == waits(box, copy, NOW - 10 * DAY_S).overdue
    compare(box, copy, first, NOW - 10 * DAY_S)
    assert 0 == waits(box, copy, NOW - 10 * DAY_S).overdue
