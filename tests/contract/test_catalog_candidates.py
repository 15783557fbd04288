"""Candidates: staged by a run, frozen by a finding, held back by a mass change, taken over or dropped."""

from __future__ import annotations

from dataclasses import replace

import pytest

from integrity.catalog import blocks, candidates, findings, history, removal
from integrity.catalog.candidates import CandidateKind, CandidateRecord, CandidateState
from integrity.catalog.findings import NewFinding
from integrity.errors import CatalogError
from integrity.model import BaselineReason, Digests, FileId, FindingKind, ReadHow, Reading
from support.catalogs import DAY_S, MIB, NOW, CatalogBox, make_blocks, make_digests, make_reading

NEW = make_reading("new", blocks=make_blocks("new", 2), size_bytes=2 * MIB, how=ReadHow.DIRECT)


def stage(
    box: CatalogBox, file_id: FileId, reading: Reading = NEW, state: CandidateState = CandidateState.STAGED
) -> CandidateRecord:
    with box.catalog.transaction() as c:
        candidates.stage_change(c, box.get(file_id), reading, "changed", box.run_id, state, BaselineReason.EDITED)
        found = candidates.get_candidate(c, file_id)
    assert found is not None
    return found


def promote(box: CatalogBox, file_id: FileId, because: BaselineReason = BaselineReason.EDITED) -> bool:
    with box.catalog.transaction() as c:
        return candidates.promote(
            c, box.sealer, box.root, file_id, because, now=NOW + 9, boot_id=box.boot_id, note="why"
        )


def freeze(box: CatalogBox, file_id: FileId) -> None:
    with box.catalog.transaction() as c:
        new = NewFinding(FindingKind.ROT, box.root.id, file_id, b"a", "message")
        findings.open_finding(c, new, now=NOW, run_id=box.run_id)


def get(box: CatalogBox, file_id: FileId) -> CandidateRecord | None:
    with box.catalog.read() as c:
        return candidates.get_candidate(c, file_id)


def test_candidate_keeps_all_of_the_reading(box: CatalogBox) -> None:
    """What is judged against later, or becomes the baseline, is what was read."""
    file_id = box.record(b"d/a")
    found = stage(box, file_id)

    assert (found.path, found.kind, found.state) == (b"d/a", CandidateKind.CHANGE, CandidateState.STAGED)
    assert (found.witness, found.digests, found.block_size_bytes) == (NEW.witness, NEW.digests, MIB)
    assert (found.verdict, found.because, found.read_how) == ("changed", BaselineReason.EDITED, ReadHow.DIRECT)
    assert (found.run_id, found.seen_at, found.is_sealed) == (box.run_id, NOW, True)
    with box.catalog.read() as c:
        assert blocks.load_blocks(c, box.sealer, file_id, found.version, MIB) == NEW.blocks


def test_baseline_stays_while_a_candidate_waits(box: CatalogBox) -> None:
    """Staging changes nothing of the file."""
    file_id = box.record(b"a")
    before = box.get(file_id)
    stage(box, file_id)

    assert box.get(file_id) == before


def test_newer_content_replaces_the_candidate(box: CatalogBox) -> None:
    """A file has one candidate: what was seen last."""
    file_id = box.record(b"a")
    stage(box, file_id)
    newer = stage(box, file_id, make_reading("newer"))

    assert newer.digests == make_digests("newer")
    with box.catalog.transaction() as c:
        assert blocks.load_run(c, box.sealer, file_id, 0, 0) is None
        candidates.stage_removal(c, box.get(file_id), box.run_id)
        gone = candidates.get_candidate(c, file_id)
    assert gone is not None
    assert (gone.kind, gone.witness, gone.digests) == (CandidateKind.REMOVAL, None, Digests())


def test_promoted_change_becomes_the_baseline(box: CatalogBox) -> None:
    """Digests, blocks and witness of the candidate are the baseline's; the old one is history."""
    file_id = box.record(b"a")
    stage(box, file_id)
    assert promote(box, file_id)
    record = box.get(file_id)

    assert (record.version, record.digests, record.witness) == (2, NEW.digests, NEW.witness)
    assert (record.reason, record.read_how, record.is_sealed) == (BaselineReason.EDITED, ReadHow.DIRECT, True)
    assert get(box, file_id) is None
    with box.catalog.read() as c:
        assert blocks.load_blocks(c, box.sealer, file_id, 2, MIB) == NEW.blocks
        assert blocks.load_run(c, box.sealer, file_id, 0, 0) is None
        [old] = history.history_of(c, box.root.id, file_id)
    assert (old.because, old.note) == (BaselineReason.EDITED, "why")
    assert box.check_tally().is_right


def test_change_without_a_crc_becomes_the_baseline_without_it(box: CatalogBox) -> None:
    """What was read where the C core can't compute it, or staged by an older version, is as good."""
    file_id = box.record(b"a")
    blocks_of_it = replace(make_blocks("new", 2), crc64nvme=b"")
    digests = make_digests("new")._replace(crc64nvme=None)
    stage(box, file_id, make_reading("new", digests=digests, blocks=blocks_of_it, size_bytes=2 * MIB))
    assert promote(box, file_id)

    assert box.get(file_id).digests == digests
    with box.catalog.read() as c:
        assert blocks.load_blocks(c, box.sealer, file_id, 2, MIB) == blocks_of_it
        [old] = history.history_of(c, box.root.id, file_id)
    assert old.digests == make_digests(b"a")
    assert box.check_tally().is_right


def test_promoted_removal_takes_the_file_out(box: CatalogBox) -> None:
    """The file is history, and found again by its content."""
    file_id = box.record(b"a")
    with box.catalog.transaction() as c:
        candidates.stage_removal(c, box.get(file_id), box.run_id)
    assert promote(box, file_id, BaselineReason.DELETED)

    assert box.find(b"a") is None
    assert get(box, file_id) is None
    assert box.check_tally().is_right


def test_promoting_nothing_is_an_error(box: CatalogBox) -> None:
    """Who takes over what was never seen is told."""
    file_id = box.record(b"a")
    with pytest.raises(CatalogError, match="scan"):
        promote(box, file_id)


def test_file_with_an_open_finding_keeps_its_candidate_frozen(box: CatalogBox) -> None:
    """A change that was staged before the finding opened does not slip through at the end of the run (R6)."""
    file_id = box.record(b"a")
    stage(box, file_id)
    freeze(box, file_id)
    before = box.get(file_id)
    assert not promote(box, file_id)
    found = get(box, file_id)

    assert found is not None
    assert (found.state, found.digests) == (CandidateState.FROZEN, NEW.digests)
    assert box.get(file_id) == before
    assert promote(box, file_id, BaselineReason.ACCEPTED)
    assert box.get(file_id).digests == NEW.digests


@pytest.mark.parametrize(
    "damage",
    [
        "UPDATE candidate SET md5 = randomblob(16)",
        "UPDATE candidate SET crc64nvme = randomblob(8)",
        "UPDATE candidate SET crc64nvme = NULL",
        "UPDATE block_run SET crc64nvme = zeroblob(16)",
        "UPDATE candidate SET mtime_ns = mtime_ns + 1",
        "UPDATE candidate SET because = 'grown'",
        "UPDATE candidate SET read_how = 'x'",
        "UPDATE block_run SET xxh3_128 = randomblob(32)",
        "UPDATE file SET md5 = randomblob(16)",
    ],
)
def test_damaged_candidate_never_becomes_a_baseline(box: CatalogBox, damage: str) -> None:
    """What can't be relied on is dropped; the next scan looks at the file again (R9)."""
    file_id = box.record(b"a")
    stage(box, file_id)
    box.damage(damage)
    assert not promote(box, file_id)

    assert box.get(file_id).version == 1
    assert get(box, file_id) is None


def test_candidates_are_paged_by_state(box: CatalogBox) -> None:
    """Each page goes on behind the last file; states are listed apart."""
    ids = [box.record(b"%d" % number) for number in range(5)]
    for file_id in ids:
        stage(box, file_id, make_reading("new"))
    stage(box, ids[2], state=CandidateState.HELD)
    with box.catalog.read() as c:
        first = candidates.find_candidates(c, box.root.id, "staged", limit=3)
        second = candidates.find_candidates(c, box.root.id, "staged", after=first[-1].file_id, limit=3)
        everything = candidates.find_candidates(c, box.root.id)
        other = candidates.find_candidates(c, box.root.id + 1)  # type: ignore[arg-type]

    assert [found.file_id for found in first + second] == [ids[0], ids[1], ids[3], ids[4]]
    assert [found.file_id for found in everything] == ids
    assert other == []


def test_mass_change_holds_what_is_staged(box: CatalogBox) -> None:
    """Held changes and removals are counted apart and wait for a person."""
    ids = [box.record(b"%d" % number) for number in range(4)]
    stage(box, ids[0])
    stage(box, ids[1], state=CandidateState.FROZEN)
    with box.catalog.transaction() as c:
        for file_id in ids[2:]:
            candidates.stage_removal(c, box.get(file_id), box.run_id)
        assert candidates.count_staged(c, box.root.id) == (1, 2, 0)
        candidates.hold(c, candidates.find_staged(c, box.root.id))
        assert candidates.count_staged(c, box.root.id) == (0, 0, 0)
        assert candidates.count_candidates(c, box.root.id, CandidateState.HELD) == (1, 2)
        assert candidates.count_candidates(c, box.root.id, CandidateState.FROZEN) == (1, 0)


def test_what_a_dead_run_staged_is_dropped(box: CatalogBox) -> None:
    """Only staged ones: what waits for a finding or a person goes on waiting."""
    ids = [box.record(b"%d" % number) for number in range(3)]
    for file_id, state in zip(ids, CandidateState, strict=True):
        stage(box, file_id, state=state)
    with box.catalog.transaction() as c:
        candidates.discard_staged_of(c, candidates.find_staged(c, box.root.id))
        left = candidates.find_candidates(c, box.root.id)
        assert {found.state for found in left} == {CandidateState.FROZEN, CandidateState.HELD}
        candidates.discard(c, left[0].file_id)
        candidates.discard(c, left[0].file_id)
        assert len(candidates.find_candidates(c, box.root.id)) == 1


def test_recent_changes_leave_out_what_a_person_did(box: CatalogBox) -> None:
    """An accepted wave must not make the next honest change look like part of it (R5)."""
    ids = [box.record(b"%d" % number) for number in range(4)]
    for file_id, because in zip(ids, (BaselineReason.EDITED, BaselineReason.ACCEPTED), strict=False):
        stage(box, file_id)
        promote(box, file_id, because)
    with box.catalog.transaction() as c:
        for file_id, why in zip(ids[2:], (BaselineReason.DELETED, BaselineReason.FORGOTTEN), strict=True):
            removal.remove_files(c, box.sealer, box.root, [file_id], because=why, now=NOW + 9)
        assert candidates.count_recent_changes(c, box.root.id, NOW + 9 - DAY_S, NOW + 9) == (1, 1)
        assert candidates.count_recent_changes(c, box.root.id, NOW + 9 - DAY_S, NOW + 8) == (0, 0)
        assert candidates.count_recent_changes(c, box.root.id, NOW + 10, NOW + DAY_S) == (0, 0)


def test_recent_changes_count_each_file_once(box: CatalogBox) -> None:
    """A file edited three times in a day is one file, also if it went then, and one that is staged counts elsewhere."""
    edited, removed, staged = (box.record(name) for name in (b"edited", b"removed", b"staged"))
    for file_id in (edited, removed, staged):
        for number in range(3):
            stage(box, file_id, make_reading(f"{number}"))
            promote(box, file_id, BaselineReason.EDITED)
    stage(box, staged, make_reading("now"), state=CandidateState.STAGED)
    with box.catalog.transaction() as c:
        removal.remove_files(c, box.sealer, box.root, [removed], because=BaselineReason.DELETED, now=NOW + 9)
        assert candidates.count_recent_changes(c, box.root.id, 0, NOW + 9) == (1, 1)


def test_candidate_recognises_its_content(box: CatalogBox) -> None:
    """A reading is held against all digests that both have, and against the size."""
    found = stage(box, box.record(b"a"), make_reading("new"))

    assert found.holds(make_reading("new", mtime_ns=1))
    assert found.holds(make_reading("new", digests=Digests(md5=make_digests("new").md5)))
    assert not found.holds(make_reading("other"))
    assert not found.holds(make_reading("new", size_bytes=1))
    assert not found.holds(make_reading("new", digests=Digests()))
