"""Files: recorded, found, verified, replaced, moved and removed."""

from __future__ import annotations

import pytest

from integrity.catalog import baselines, blocks, files, maintenance, versions
from integrity.catalog.connection import Connection
from integrity.catalog.rows import FileContent
from integrity.catalog.versions import FileVersion, find_by_former_content, find_outdated, forget_deleted
from integrity.errors import CatalogError
from integrity.model import BaselineReason, Digests, FileId, Reading
from support.catalogs import DAY_S, MIB, NOW, CatalogBox, make_blocks, make_digests, make_reading, run_daily


def replace_with(box: CatalogBox, file_id: FileId, reading: Reading, because: BaselineReason) -> None:
    with box.catalog.transaction() as c:
        baselines.replace_baseline(
            c, box.root, file_id, reading, because=because, now=NOW + 9, boot_id=box.boot_id, note="why"
        )


def remove(box: CatalogBox, *ids: FileId, because: BaselineReason = BaselineReason.DELETED) -> None:
    with box.catalog.transaction() as c:
        baselines.remove_files(c, box.root, ids, because=because, now=NOW + 9)


def find_history(box: CatalogBox, key: bytes | FileId) -> list[FileVersion]:
    with box.catalog.read() as c:
        return versions.former_of(c, box.root.id, key)


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
        wanted = [*names[:600], b"unknown"]
        found = files.find_known(c, box.root.id, b"d", wanted)
        whole = files.find_known(c, box.root.id, b"d")

    assert found == {name: whole[name] for name in names[:600]}


def test_missing_files_are_no_error_but_get_is(box: CatalogBox) -> None:
    """`find_*` says None or leaves out, `get_*` raises with what to do."""
    first, second = box.record(b"a"), box.record(b"b")
    with box.catalog.read() as c:
        assert files.find_file(c, box.root.id, b"no/such") is None
        found = files.find_files(c, [second, FileId(99), first])
        assert [record.id for record in found] == [second, first]
        with pytest.raises(CatalogError, match="scan"):
            files.get_file(c, FileId(99))


def test_blocks_stay_when_history_has_no_other_digests(box: CatalogBox) -> None:
    """A sparse file without whole-file digests keeps its old blocks, until its history is purged."""
    reading = make_reading("old", digests=Digests(), blocks=make_blocks("old", 3), size_bytes=3 * MIB)
    file_id = box.record(b"a", reading)
    replace_with(box, file_id, make_reading("new"), BaselineReason.EDITED)
    remove(box, file_id)
    with box.catalog.transaction() as c:
        assert blocks.load_blocks(c, file_id, 1, MIB) == reading.blocks
        assert purge(c, NOW + 91 * DAY_S) == 1
        assert blocks.load_blocks(c, file_id, 1, MIB) is None
    assert find_history(box, file_id) == []


def test_former_content_is_found_by_digest_or_if_need_be_by_size(box: CatalogBox) -> None:
    """History keeps no blocks of a file with other digests: then its size says that it may have been the one."""
    replaced = box.record(b"replaced", make_reading("old"))
    deleted = box.record(b"deleted", make_reading("gone"))
    replace_with(box, replaced, make_reading("new"), BaselineReason.EDITED)
    with box.catalog.transaction() as c:
        baselines.remove_files(c, box.root, [deleted], because=BaselineReason.DELETED, now=NOW)
        wanted = [FileContent(5000, make_digests(seed), None) for seed in ("old", "gone", "new")]
        found = find_by_former_content(c, box.root.id, [*wanted, FileContent(5000, Digests(), make_blocks("x", 3))])

    found_ids = [{one.file_id for one in same} for same in found]
    assert [{replaced}, {deleted}, set(), {replaced, deleted}] == found_ids


def test_many_files_are_recorded_as_few_are(box: CatalogBox) -> None:
    """However many files and folders are recorded together, each has its own place, number and digests."""
    old = {b"%d/old" % folder: make_reading(b"%d" % folder) for folder in range(0, 130, 3)}
    old_ids = box.record_all(old)
    readings = {b"%d/%d" % (number % 130, number): make_reading(number, inode=number) for number in range(257)}
    ids = box.record_all(readings)

    assert list(range(ids[0], ids[0] + 257)) == ids
    for (path, reading), file_id in zip((old | readings).items(), old_ids + ids, strict=True):
        record = box.get_at(path)
        assert (file_id, path) == (record.id, record.path)
        assert (reading.witness, reading.digests) == (record.witness, record.digests)
    assert maintenance.check(box.catalog).is_right
