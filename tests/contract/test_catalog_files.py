"""Files: recorded, found, verified, replaced, moved and removed."""

from __future__ import annotations

from dataclasses import replace

import pytest

from integrity.catalog import baselines, blocks, files, findings, folders, history, removal, rows
from integrity.catalog.baselines import Verified
from integrity.catalog.candidates import get_candidate, stage_change
from integrity.catalog.connection import Connection
from integrity.catalog.files import KnownFile
from integrity.catalog.findings import NewFinding
from integrity.catalog.history import FormerFile, find_by_former_content, find_outdated, forget_deleted
from integrity.catalog.removal import MovedFile
from integrity.catalog.rows import FileContent, Sighting
from integrity.errors import CatalogCorrupt, CatalogError
from integrity.model import BaselineReason, Digests, FileId, FindingKind, FindingState, ReadHow, Reading, Witness
from support.catalogs import DAY_S, MIB, NOW, CatalogBox, digest, make_blocks, make_digests, make_reading, run_daily

ODD_NAMES = [
    b"plain.txt",
    b"\xff\xfe not utf-8",
    b"new\nline",
    "e\u0301 and \u00e9".encode(),
    b"-rf",
    b"%s'\"; DROP TABLE file; --",
    b"x" * 255,
    b" ",
]


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


@pytest.mark.parametrize("folder", [b"", b"2019", b"\xff/\n"])
def test_names_of_any_bytes_come_back_as_they_were(box: CatalogBox, folder: bytes) -> None:
    """A path is bytes from the file system to the database and back (R10)."""
    paths = [folder + b"/" + name if folder else name for name in ODD_NAMES]
    readings = {path: make_reading(path, inode=number) for number, path in enumerate(paths)}
    ids = box.record_all(readings)
    box.reopen()

    for file_id, (path, reading) in zip(ids, readings.items(), strict=True):
        record = box.get_at(path)
        assert (record.id, record.path, record.witness) == (file_id, path, reading.witness)
        assert record.is_sealed
    with box.catalog.read() as c:
        assert set(files.find_known(c, box.root.id, folder)) == set(ODD_NAMES)


def test_new_file_has_everything_that_was_read_of_it(box: CatalogBox) -> None:
    """Recording keeps witness, digests, block size, time and how it was read; it verifies nothing yet."""
    reading = Reading(
        Witness(3 * MIB, -1, 2**62, 2**40, is_racy=True),
        Digests(digest("m"), None, digest("b", 32)),
        make_blocks("a", 3),
        ReadHow.DIRECT,
        3 * MIB,
    )
    record = box.get(box.record(b"dir/a", reading))

    assert (record.path, record.witness, record.digests) == (b"dir/a", reading.witness, reading.digests)
    assert (record.block_size_bytes, record.version, record.recorded_at) == (MIB, 1, NOW)
    assert (record.reason, record.verified_at, record.read_how) == (BaselineReason.RECORDED, None, ReadHow.DIRECT)
    assert (record.boot_id, record.is_suspect, record.is_frozen, record.is_sealed) == (box.boot_id, False, False, True)
    with box.catalog.read() as c:
        assert blocks.load_blocks(c, box.sealer, record.id, 1, MIB) == reading.blocks


def test_recording_a_name_twice_changes_nothing(box: CatalogBox) -> None:
    """A row is never written over by mistake: the whole batch is taken back."""
    box.record(b"a")
    with pytest.raises(CatalogError, match="UNIQUE"):
        box.record_all({b"b": make_reading("b"), b"a": make_reading("other")})

    assert box.find(b"b") is None
    assert box.check_tally().actual_rows == 1
    assert box.check_tally().is_right


def test_known_files_of_a_folder_are_its_own(box: CatalogBox) -> None:
    """A folder's files are neither those below it nor those of folders with a like name."""
    box.record_all({path: make_reading(path, inode=5) for path in (b"d/a", b"d/e/b", b"d2/c", b"d")})
    with box.catalog.read() as c:
        found = files.find_known(c, box.root.id, b"d")
        nothing = files.find_known(c, box.root.id, b"unknown")
    record = box.get_at(b"d/a")

    assert nothing == {}
    assert found == {
        b"a": KnownFile(record.id, *record.witness, is_suspect=0, is_frozen=0, seen_inode=None, seen_ctime_ns=None)
    }


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


def test_inode_finds_all_names_of_a_file(box: CatalogBox) -> None:
    """Hard links and renamed files are found by their inode."""
    box.record_all({path: make_reading(path, inode=inode) for path, inode in ((b"a", 5), (b"b", 6), (b"d/c", 5))})
    with box.catalog.read() as c:
        found = files.find_by_inode(c, box.sealer, box.root.id, 5)

    assert [record.path for record in found] == [b"a", b"d/c"]


@pytest.mark.parametrize(
    ("prefix", "expected"),
    [
        (b"", [b"a", b"a.b", b"a/b", b"a/b/c", b"a0", b"b/a/b"]),
        (b"a", [b"a", b"a/b", b"a/b/c"]),
        (b"a/b", [b"a/b", b"a/b/c"]),
        (b"a/b/c", [b"a/b/c"]),
        (b"a.b", [b"a.b"]),
        (b"c", []),
    ],
)
def test_pages_hold_what_lies_below_the_prefix(box: CatalogBox, prefix: bytes, expected: list[bytes]) -> None:
    """A prefix is a folder or one file, never the beginning of a name; pages neither repeat nor lose a file."""
    box.record_all({path: make_reading(path, size_bytes=len(path)) for path in [b"a", b"a.b", b"a0", b"a/b", b"b/a/b"]})
    box.record(b"a/b/c", make_reading("c", size_bytes=5))
    found: list[tuple[FileId, bytes, int]] = []
    with box.catalog.read() as c:
        while page := files.page_files(c, box.root.id, prefix=prefix, after=found[-1][0] if found else 0, limit=2):
            assert len(page) <= 2
            found += page

    assert sorted(path for _, path, _ in found) == expected
    assert all(size == len(path) for _, path, size in found)
    assert [file_id for file_id, _, _ in found] == sorted(file_id for file_id, _, _ in found)


def test_verification_keeps_the_row_and_its_seal(box: CatalogBox) -> None:
    """An intact file with an unmoved witness gets a new date and nothing else."""
    file_id = box.record(b"a")
    with box.catalog.transaction() as c:
        baselines.mark_suspects(c, {file_id: Sighting(7, 8)})
    record = box.get(file_id)
    assert (record.is_suspect, record.seen, record.is_sealed) == (True, Sighting(7, 8), True)
    before = box.get(file_id)
    with box.catalog.transaction() as c:
        rows = [Verified(box.get(file_id), None, ReadHow.DROPPED)]
        baselines.mark_verified(c, box.sealer, box.root, rows, now=NOW + DAY_S, boot_id=box.boot_id)

    expected = before._replace(verified_at=NOW + DAY_S, read_how=ReadHow.DROPPED, is_suspect=False, seen=None)
    found = box.get(file_id)
    assert found == expected._replace(state_seal=found.state_seal)
    assert found.is_sealed
    assert box.check_tally().is_right


def test_verification_with_a_moved_witness_is_sealed_anew(box: CatalogBox) -> None:
    """After a chmod the row has the new ctime, a right seal, and the tally follows."""
    file_id = box.record(b"a")
    witness = box.get(file_id).witness._replace(ctime_ns=7, inode=8)
    with box.catalog.transaction() as c:
        rows = [Verified(box.get(file_id), witness, ReadHow.DIRECT)]
        baselines.mark_verified(c, box.sealer, box.root, rows, now=NOW + 5, boot_id=box.boot_id)
    record = box.get(file_id)

    assert (record.witness, record.verified_at, record.is_sealed) == (witness, NOW + 5, True)
    assert box.check_tally().is_right


def test_replaced_baseline_stays_in_history(box: CatalogBox) -> None:
    """The old digests survive with the reason, the new ones wait for their first verification."""
    old_reading = make_reading("old", blocks=make_blocks("old", 3), size_bytes=3 * MIB)
    file_id = box.record(b"a", old_reading)
    new_reading = make_reading("new", blocks=make_blocks("new", 2), size_bytes=2 * MIB, mtime_ns=1)
    replace_with(box, file_id, new_reading, BaselineReason.EDITED)
    record, [old] = box.get(file_id), find_history(box, file_id)

    assert (record.version, record.digests, record.witness) == (2, new_reading.digests, new_reading.witness)
    assert (record.reason, record.recorded_at, record.verified_at) == (BaselineReason.EDITED, NOW + 9, None)
    assert (old.version, old.digests, old.path, old.size_bytes) == (1, old_reading.digests, b"a", 3 * MIB)
    assert (old.reason, old.because, old.note) == (BaselineReason.RECORDED, BaselineReason.EDITED, "why")
    assert find_history(box, b"a") == [old]
    with box.catalog.read() as c:
        assert blocks.load_blocks(c, box.sealer, file_id, 1, MIB) is None
        assert blocks.load_blocks(c, box.sealer, file_id, 2, MIB) == new_reading.blocks
    assert box.check_tally().is_right


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


@pytest.mark.parametrize("kind", sorted(findings.CONTENT_FINDINGS))
def test_open_finding_holds_the_baseline(box: CatalogBox, kind: FindingKind) -> None:
    """No job overwrites a baseline while its content is in question (R6)."""
    file_id = box.record(b"a")
    finding = open_finding(box, file_id, kind)
    before = box.get(file_id)
    assert before.is_frozen
    for because in set(BaselineReason) - {BaselineReason.ACCEPTED, BaselineReason.REPAIRED}:
        with pytest.raises(CatalogError, match="open finding"):
            replace_with(box, file_id, make_reading("new"), because)
    assert box.get(file_id) == before
    assert find_history(box, file_id) == []
    with box.catalog.transaction() as c:
        findings.resolve_findings(c, file_id=file_id, resolution="intact", now=NOW)
    replace_with(box, file_id, make_reading("new"), BaselineReason.EDITED)
    with box.catalog.read() as c:
        assert findings.get_finding(c, finding.id).state is FindingState.RESOLVED


@pytest.mark.parametrize("because", [BaselineReason.ACCEPTED, BaselineReason.REPAIRED])
def test_person_may_replace_a_held_baseline(box: CatalogBox, because: BaselineReason) -> None:
    """What a person accepted or repaired becomes the baseline, and the old one is history."""
    file_id = box.record(b"a")
    open_finding(box, file_id)
    replace_with(box, file_id, make_reading("new"), because)

    assert box.get(file_id).digests == make_digests("new")
    assert [old.because for old in find_history(box, file_id)] == [because]


def test_new_baseline_makes_an_end_of_the_candidate(box: CatalogBox) -> None:
    """A candidate was judged against the baseline that is gone."""
    file_id = box.record(b"a")
    reading = make_reading("new", blocks=make_blocks("new", 3))
    with box.catalog.transaction() as c:
        stage_change(c, box.get(file_id), reading, "changed", box.run_id, "staged")
    replace_with(box, file_id, make_reading("newer"), BaselineReason.EDITED)
    with box.catalog.read() as c:
        assert get_candidate(c, file_id) is None
        assert blocks.load_run(c, box.sealer, file_id, 0, 0) is None


def test_removed_files_are_remembered_with_their_digests(box: CatalogBox) -> None:
    """A deleted file is found again by its content, until it is purged."""
    reading = make_reading("a", blocks=make_blocks("a", 2), size_bytes=2 * MIB)
    file_id = box.record(b"d/a", reading)
    other = box.record(b"d/b")
    finding = open_finding(box, file_id)
    assert reading.digests.md5 is not None
    assert remove(box, file_id) == []

    with box.catalog.transaction() as c:
        [found] = history.find_deleted(c, box.root.id, 2 * MIB, reading.digests.md5)
        assert (found.path, found.file_id, found.digests) == (b"d/a", file_id, reading.digests)
        assert history.find_deleted(c, box.root.id, 1, reading.digests.md5) == []
        assert findings.get_finding(c, finding.id).resolution == "the file was deleted"
        assert history.find_deleted_of_time(c, box.root.id, reading.witness) == [found]
        assert baselines.load_content(c, box.sealer, found, reading.witness) == reading._replace(bytes_read=0)
        assert purge(c, NOW + 89 * DAY_S) == 0
        assert purge(c, NOW + 91 * DAY_S) == 1
        assert history.find_deleted(c, box.root.id, 2 * MIB, reading.digests.md5) == []
        assert blocks.load_run(c, box.sealer, file_id, 1, 0) is None
    assert box.find(b"d/a") is None
    assert box.get(other).is_sealed
    assert box.check_tally().is_right


def test_moved_file_keeps_its_number_history_and_findings(box: CatalogBox) -> None:
    """A rename loses nothing that was known of the file."""
    file_id = box.record(b"old/a")
    replace_with(box, file_id, make_reading("new"), BaselineReason.EDITED)
    finding = open_finding(box, file_id)
    with box.catalog.transaction() as c:
        folder_id = folders.ensure_folder(c, box.root.id, b"new")
        removal.move_files(c, box.sealer, box.root, [MovedFile(file_id, folder_id, b"new/b")], now=NOW + 9)
    record = box.get(file_id)

    assert (record.path, record.version, record.is_frozen, record.is_sealed) == (b"new/b", 2, True, True)
    assert box.find(b"old/a") is None
    assert [old.version for old in find_history(box, b"new/b")] == [1]
    with box.catalog.read() as c:
        assert findings.get_finding(c, finding.id).path == b"new/b"
    assert box.check_tally().is_right


def test_files_that_change_places_keep_what_is_known_of_each(box: CatalogBox) -> None:
    """Three records go round; numbers, histories and findings of one kind go with them, none is lost on the way."""
    paths = [b"a/f", b"b/f", b"f"]
    ids = [box.record(path, make_reading(path)) for path in paths]
    found = [open_finding(box, file_id) for file_id in ids[:2]]
    with box.catalog.transaction() as c:
        folder_ids = [folders.ensure_folder(c, box.root.id, name) for name in (b"a", b"b", b"")]
        targets = zip(ids, folder_ids[1:] + folder_ids[:1], paths[1:] + paths[:1], strict=True)
        removal.move_files(c, box.sealer, box.root, [MovedFile(*target) for target in targets], now=NOW + 9)
    records = [box.get(file_id) for file_id in ids]

    assert [b"b/f", b"f", b"a/f"] == [record.path for record in records]
    assert [make_digests(path) for path in paths] == [record.digests for record in records]
    assert [True, True, False] == [record.is_frozen for record in records]
    assert all(record.is_sealed for record in records)
    with box.catalog.read() as c:
        now = [findings.get_finding(c, one.id) for one in found]
    assert [(b"b/f", FindingState.OPEN), (b"f", FindingState.OPEN)] == [(one.path, one.state) for one in now]
    assert box.check_tally().is_right


def test_content_is_found_by_any_digest_and_by_its_blocks(box: CatalogBox) -> None:
    """What tells one file from all others is its size with MD5, XXH3 or all of its blocks."""
    small = box.record(b"small", make_reading("small"))
    twin = box.record(b"twin", make_reading("small"))
    blocks_of = make_blocks("large", 3)
    large_bytes = 3 * MIB
    large = box.record(b"large", make_reading("large", size_bytes=large_bytes, blocks=blocks_of))
    box.record(b"other", make_reading("other", size_bytes=large_bytes, blocks=make_blocks("other", 3)))
    digests, none = make_digests("small"), Digests()
    wanted = [
        FileContent(5000, Digests(md5=digests.md5), None),
        FileContent(5000, Digests(xxh3_128=digests.xxh3_128), None),
        FileContent(5001, digests, None),
        FileContent(large_bytes, none, replace(blocks_of, md5=b"", crc64nvme=b"")),
        FileContent(large_bytes, none, make_blocks("none", 3)),
        FileContent(large_bytes, make_digests("large"), blocks_of),
    ]
    with box.catalog.read() as c:
        found = files.find_by_content(c, box.sealer, box.root.id, wanted)

    assert [[small, twin], [small, twin], [], [large], [], [large]] == [[one.id for one in each] for each in found]


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


def test_finding_at_the_target_of_a_move_gives_way(box: CatalogBox) -> None:
    """Two findings of one kind can't stand on one path: the one about what was there before is over."""
    file_id = box.record(b"a")
    moving = open_finding(box, file_id)
    with box.catalog.transaction() as c:
        new = NewFinding(FindingKind.ROT, box.root.id, None, b"b", "message")
        standing, _ = findings.open_finding(c, new, now=NOW, run_id=None)
        folder_id = folders.ensure_folder(c, box.root.id, b"")
        removal.move_files(c, box.sealer, box.root, [MovedFile(file_id, folder_id, b"b")], now=NOW + 9)
        assert findings.get_finding(c, standing.id).state is FindingState.RESOLVED
        moved = findings.get_finding(c, moving.id)

    assert (moved.path, moved.state) == (b"b", FindingState.OPEN)


def test_missing_and_new_file_with_one_content_become_one(box: CatalogBox) -> None:
    """A file that was moved by a copy keeps its baseline; of its new bytes only the recording is known."""
    old_id = box.record(b"old/a", make_reading("same", blocks=make_blocks("same", 2), size_bytes=2 * MIB))
    open_finding(box, old_id, FindingKind.MISSING)
    with box.catalog.transaction() as c:
        verified = [Verified(box.get(old_id), None, ReadHow.DIRECT)]
        baselines.mark_verified(c, box.sealer, box.root, verified, now=NOW + 1, boot_id=box.boot_id)
    reading = make_reading("same", blocks=make_blocks("same", 2), size_bytes=2 * MIB, inode=9, ctime_ns=9)
    new_id = box.record(b"new/a", reading, now=NOW + 5)
    with box.catalog.transaction() as c:
        removal.merge_moved(c, box.sealer, box.root, box.get(old_id), box.get(new_id), NOW + 6)
    record = box.get(old_id)

    assert (record.path, record.witness) == (b"new/a", reading.witness)
    assert (NOW + 5, None, reading.how) == (record.recorded_at, record.verified_at, record.read_how)
    assert record.is_suspect
    assert record.is_sealed
    assert box.find(b"old/a") is None
    with box.catalog.read() as c:
        assert files.find_files(c, box.sealer, [new_id]) == []
        assert blocks.load_run(c, box.sealer, new_id, 1, 0) is None
        assert blocks.load_blocks(c, box.sealer, old_id, 1, MIB) == reading.blocks
    assert box.check_tally().is_right


def test_files_with_other_contents_are_not_made_one(box: CatalogBox) -> None:
    """A mistake of the caller can't give a file another's baseline."""
    old_id, new_id = box.record(b"a"), box.record(b"b")
    with pytest.raises(ValueError, match="different contents"), box.catalog.transaction() as c:
        removal.merge_moved(c, box.sealer, box.root, box.get(old_id), box.get(new_id), NOW)


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


def test_name_is_recorded_once(box: CatalogBox) -> None:
    """A name that is recorded already is refused, and with it all that was to be recorded together."""
    box.record(b"d/7")
    with pytest.raises(CatalogError):
        box.record_all({b"d/%d" % number: make_reading(number) for number in range(150)})

    assert box.check_tally().actual_rows == 1


def test_folder_has_one_number(box: CatalogBox) -> None:
    """A folder gets its number once, and one that was never asked for has none."""
    with box.catalog.transaction() as c:
        made = {path: folders.ensure_folder(c, box.root.id, path) for path in (b"a/b", b"a", b"a.b", b"")}
        assert {path: folders.ensure_folder(c, box.root.id, path) for path in made} == made
        assert {path: folders.get_folder_id(c, box.root.id, path) for path in made} == made
        assert folders.get_folder_id(c, box.root.id, b"z") is None

    assert len(set(made.values())) == len(made)
