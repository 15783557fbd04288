"""Files: recorded, found, verified, replaced, moved and removed."""

from __future__ import annotations

import pytest

from integrity.catalog import baselines, blocks, files, findings, folders, history, removal, rows
from integrity.catalog.baselines import Verified
from integrity.catalog.connection import Connection
from integrity.catalog.findings import NewFinding
from integrity.catalog.history import FormerFile, find_by_former_content, find_outdated, forget_deleted
from integrity.catalog.removal import MovedFile
from integrity.catalog.rows import FileContent
from integrity.errors import CatalogCorrupt, CatalogError
from integrity.model import BaselineReason, Digests, FileId, FindingKind, ReadHow, Reading, Witness
from support.catalogs import DAY_S, MIB, NOW, CatalogBox, make_blocks, make_digests, make_reading, run_daily


def open_finding(box: CatalogBox, file_id: FileId, kind: FindingKind = FindingKind.ROT) -> findings.Finding:
    with box.catalog.transaction() as c:
        path = files.get_file(c, box.sealer, file_id).path
        new = NewFinding(kind, box.root.id, file_id, path, "message")
        return findings.open_finding(c, new, now=NOW, run_id=box.run_id)[0]


def replace_with(box: CatalogBox, file_id: FileId, reading: Reading, because: BaselineReason) -> None:
    with box.catalog.transaction() as c:
        baselines.replace_baseline(
            c, box.sealer, box.root, file_id, reading, because=because, now=NOW + 9, boot_id=box.boot_id, note="why"
        )


def remove(box: CatalogBox, *ids: FileId, because: BaselineReason = BaselineReason.DELETED) -> list[rows.FileRecord]:
    with box.catalog.transaction() as c:
        return removal.remove_files(c, box.sealer, box.root, ids, because=because, now=NOW + 9)


def find_history(box: CatalogBox, key: bytes | FileId) -> list[history.HistoryRecord]:
    with box.catalog.read() as c:
        return history.history_of(c, box.root.id, key)


def purge(c: Connection, now: int) -> int:
    """Forget what is outdated after a run each day from ``NOW`` on."""
    run_daily(c, NOW, now)
    outdated = find_outdated(c, now)
    forget_deleted(c, outdated)
    return len(outdated)


def test_known_files_by_name_are_found_in_a_huge_folder(box: CatalogBox) -> None:
    """Chunks of a folder are looked up by the names in them, however many."""
    names = [b"%d" % number for number in range(700)]
    box.record_all({b"d/" + name: make_reading(name) for name in names})
    with box.catalog.read() as c:
        folder_id = folders.get_folder_id(c, box.root.id, b"d")
        assert folder_id is not None
        wanted = [*names[:600], b"unknown"]
        found = files.find_known_names(c, folder_id, wanted)
        whole = files.find_known(c, box.root.id, b"d")

    assert found == {name: whole[name] for name in names[:600]}


def test_missing_files_are_no_error_but_get_is(box: CatalogBox) -> None:
    """`find_*` says None or leaves out, `get_*` raises with what to do."""
    first, second = box.record(b"a"), box.record(b"b")
    with box.catalog.read() as c:
        assert files.find_file(c, box.sealer, box.root.id, b"no/such") is None
        found = files.find_files(c, box.sealer, [second, FileId(99), first])
        assert [record.id for record in found] == [second, first]
        with pytest.raises(CatalogError, match="scan"):
            files.get_file(c, box.sealer, FileId(99))


def test_blocks_stay_when_history_has_no_other_digests(box: CatalogBox) -> None:
    """A sparse file without whole-file digests keeps its old blocks, until its history is purged."""
    reading = make_reading("old", digests=Digests(), blocks=make_blocks("old", 3), size_bytes=3 * MIB)
    file_id = box.record(b"a", reading)
    replace_with(box, file_id, make_reading("new"), BaselineReason.EDITED)
    remove(box, file_id)
    with box.catalog.transaction() as c:
        assert blocks.load_blocks(c, box.sealer, file_id, 1, MIB) == reading.blocks
        assert purge(c, NOW + 91 * DAY_S) == 1
        assert blocks.load_blocks(c, box.sealer, file_id, 1, MIB) is None
    assert find_history(box, file_id) == []


def test_former_content_is_found_by_digest_or_if_need_be_by_size(box: CatalogBox) -> None:
    """History keeps no blocks of a file with other digests: then its size says that it may have been the one."""
    replaced = box.record(b"replaced", make_reading("old"))
    deleted = box.record(b"deleted", make_reading("gone"))
    replace_with(box, replaced, make_reading("new"), BaselineReason.EDITED)
    with box.catalog.transaction() as c:
        removal.remove_files(c, box.sealer, box.root, [deleted], because=BaselineReason.DELETED, now=NOW)
        wanted = [FileContent(5000, make_digests(seed), None) for seed in ("old", "gone", "new")]
        found = find_by_former_content(c, box.root.id, [*wanted, FileContent(5000, Digests(), make_blocks("x", 3))])

    old, gone = FormerFile(replaced, b"replaced", NOW, False), FormerFile(deleted, b"deleted", NOW, False)
    assert [{old}, {gone}, set(), {old, gone}] == found


def test_damaged_row_is_neither_deleted_nor_sealed_anew_by_jobs(box: CatalogBox) -> None:
    """A damaged row stays for a person to look at, whatever a scan thinks of the file (R9)."""
    damaged, healthy = box.record(b"a"), box.record(b"b")
    box.damage("UPDATE file SET mtime_ns = mtime_ns + 1 WHERE id = ?", damaged)
    assert [record.id for record in remove(box, damaged, healthy)] == [damaged]
    assert box.find(b"b") is None
    with pytest.raises(CatalogCorrupt, match="catalog check"):
        replace_with(box, damaged, make_reading("new"), BaselineReason.EDITED)
    witness = Witness(1, 2, 3, 4)
    for change in (
        lambda c: baselines.mark_verified(
            c,
            box.sealer,
            box.root,
            [Verified(box.get(damaged), witness, ReadHow.DIRECT)],
            now=NOW,
            boot_id=None,
        ),
        lambda c: removal.move_files(
            c, box.sealer, box.root, [MovedFile(damaged, box.get(damaged).folder_id, b"c")], now=NOW
        ),
    ):
        with pytest.raises(CatalogCorrupt), box.catalog.transaction() as c:
            change(c)
    assert not box.get(damaged).is_sealed

    assert remove(box, damaged, because=BaselineReason.FORGOTTEN) == []
    assert box.check_tally().actual_rows == 0


def test_many_files_are_recorded_as_few_are(box: CatalogBox) -> None:
    """However many files and folders are recorded together, each has its own place, number, digests and seal."""
    old = {b"%d/old" % folder: make_reading(b"%d" % folder) for folder in range(0, 130, 3)}
    old_ids = box.record_all(old)
    readings = {b"%d/%d" % (number % 130, number): make_reading(number, inode=number) for number in range(257)}
    ids = box.record_all(readings)

    assert list(range(ids[0], ids[0] + 257)) == ids
    for (path, reading), file_id in zip((old | readings).items(), old_ids + ids, strict=True):
        record = box.get_at(path)
        assert (file_id, path, True) == (record.id, record.path, record.is_sealed)
        assert (reading.witness, reading.digests) == (record.witness, record.digests)
    assert box.check_tally().is_right
