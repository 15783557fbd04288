"""Candidates: newer content of a file, until it is decided what becomes of it."""

from __future__ import annotations

from integrity.catalog import baselines, versions
from integrity.catalog.versions import FileVersion, VersionState
from integrity.model import BaselineReason, Digests, FileId, ReadHow, Reading
from support.catalogs import DAY_S, MIB, NOW, CatalogBox, make_blocks, make_digests, make_reading

NEW = make_reading("new", blocks=make_blocks("new", 2), size_bytes=2 * MIB, how=ReadHow.DIRECT)


def stage(
    box: CatalogBox, file_id: FileId, reading: Reading = NEW, state: VersionState = VersionState.STAGED
) -> FileVersion:
    with box.catalog.transaction() as c:
        versions.stage_change(c, box.get(file_id), reading, "changed", box.run_id, state, BaselineReason.EDITED)
        found = versions.get_candidate(c, file_id)
    assert found is not None
    return found


def promote(box: CatalogBox, file_id: FileId, because: BaselineReason = BaselineReason.EDITED) -> bool:
    with box.catalog.transaction() as c:
        candidate = versions.get_candidate(c, file_id)
        assert candidate is not None
        return baselines.promote(c, box.root, candidate, because, now=NOW + 9, boot_id=box.boot_id, note="why")


def get(box: CatalogBox, file_id: FileId) -> FileVersion | None:
    with box.catalog.read() as c:
        return versions.get_candidate(c, file_id)


def test_recent_changes_leave_out_what_a_person_did(box: CatalogBox) -> None:
    """An accepted wave must not make the next honest change look like part of it (R5)."""
    ids = [box.record(b"%d" % number) for number in range(4)]
    for file_id, because in zip(ids, (BaselineReason.EDITED, BaselineReason.ACCEPTED), strict=False):
        stage(box, file_id)
        promote(box, file_id, because)
    with box.catalog.transaction() as c:
        for file_id, why in zip(ids[2:], (BaselineReason.DELETED, BaselineReason.FORGOTTEN), strict=True):
            baselines.remove_files(c, box.root, [file_id], because=why, now=NOW + 9)
        assert versions.count_replaced(c, box.root.id, NOW + 9 - DAY_S, NOW + 9) == (1, 1)
        assert versions.count_replaced(c, box.root.id, NOW + 9 - DAY_S, NOW + 8) == (0, 0)
        assert versions.count_replaced(c, box.root.id, NOW + 10, NOW + DAY_S) == (0, 0)


def test_recent_changes_count_each_file_once(box: CatalogBox) -> None:
    """A file edited three times in a day is one file, also if it went then, and one that is staged counts elsewhere."""
    edited, removed, staged = (box.record(name) for name in (b"edited", b"removed", b"staged"))
    for file_id in (edited, removed, staged):
        for number in range(3):
            stage(box, file_id, make_reading(f"{number}"))
            promote(box, file_id, BaselineReason.EDITED)
    stage(box, staged, make_reading("now"), state=VersionState.STAGED)
    with box.catalog.transaction() as c:
        baselines.remove_files(c, box.root, [removed], because=BaselineReason.DELETED, now=NOW + 9)
        assert versions.count_replaced(c, box.root.id, 0, NOW + 9) == (1, 1)


def test_candidate_recognises_its_content(box: CatalogBox) -> None:
    """A reading is held against all digests that both have, and against the size."""
    record = box.get(box.record(b"a"))
    with box.catalog.transaction() as c:
        versions.stage_change(c, record, make_reading("new"), "changed", box.run_id, VersionState.STAGED)
        found = versions.get_candidate(c, record.id)
    assert found is not None

    assert found.holds(make_reading("new", mtime_ns=1))
    assert found.holds(make_reading("new", digests=Digests(md5=make_digests("new").md5)))
    assert not found.holds(make_reading("other"))
    assert not found.holds(make_reading("new", size_bytes=1))
    assert not found.holds(make_reading("new", digests=Digests()))
