"""What the catalog tells of the time since a gate was passed."""

from __future__ import annotations

import pytest

from integrity.catalog import gate_passes, runs, versions
from integrity.catalog.baselines import record_files, remove_files, replace_baseline
from integrity.catalog.gate_passes import Passed
from integrity.catalog.roots import add_root, remove_root
from integrity.catalog.versions import VersionState, find_outdated, forget_deleted
from integrity.jobs.gate.changes import Changes, find_changes, find_changes_after
from integrity.jobs.targets import Target
from integrity.model import BaselineReason, FileId, Job, Outcome, Readings, RunCounts
from support.catalogs import DAY_S, NOW, CatalogBox, make_reading, run_daily

PATHS = (b"a/1", b"a/2", b"a/b/3", b"ab/4", b"5")


@pytest.fixture
def box(box: CatalogBox) -> CatalogBox:
    """A catalog with five files, and a gate that was passed."""
    box.record_all({path: make_reading(path) for path in PATHS})
    pass_gate(box)
    return box


def pass_gate(box: CatalogBox, prefix: bytes = b"") -> None:
    """Pass the gate, in the second in which everything else happens."""
    with box.catalog.transaction() as c:
        gate_passes.set_passed(c, box.root.id, prefix, gate_passes.get_present(c, NOW))


def replace(
    box: CatalogBox, path: bytes, seed: object, because: BaselineReason = BaselineReason.EDITED, now: int = NOW
) -> None:
    """Replace a file's baseline."""
    record = box.get_at(path)
    with box.catalog.transaction() as c:
        replace_baseline(c, box.root, record.id, make_reading(seed), because=because, now=now, boot_id=box.boot_id)


def remove(box: CatalogBox, path: bytes, because: BaselineReason = BaselineReason.DELETED) -> FileId:
    """Take a file out."""
    record = box.get_at(path)
    with box.catalog.transaction() as c:
        remove_files(c, box.root, [record.id], because=because, now=NOW)
    return record.id


def changes(box: CatalogBox, prefix: bytes = b"") -> Changes:
    """Find what changed since the gate of the root, or of this part of it, was passed."""
    with box.catalog.read() as c:
        return find_changes(c, Target(box.root, prefix), gate_passes.get_passed(c, box.root.id, prefix))


def counts(found: Changes) -> tuple[int, int, int, int]:
    """How many were rewritten, are gone, are new, and were there."""
    return found.rewritten_count, found.removed_count, found.new_count, found.known_before


def test_gate_is_passed_for_each_part_by_itself(box: CatalogBox) -> None:
    """Passing again replaces what was known."""
    pass_gate(box, b"a")
    with box.catalog.transaction() as c:
        gate_passes.set_passed(c, box.root.id, b"a", Passed(NOW + 5, 7, 9))
        assert Passed(NOW + 5, 7, 9) == gate_passes.get_passed(c, box.root.id, b"a")
        assert Passed(NOW, 0, 5) == gate_passes.get_passed(c, box.root.id, b"")
        assert gate_passes.get_passed(c, box.root.id, b"ab") is None


def test_nothing_happened(box: CatalogBox) -> None:
    """What was recorded in the same second, before, is no change."""
    assert (0, 0, 0, 5) == counts(changes(box))


def test_what_changes_in_the_same_second_is_a_change(box: CatalogBox) -> None:
    """No clock is asked."""
    replace(box, b"a/1", "other")
    remove(box, b"5")
    box.record(b"6")
    found = changes(box)

    assert (1, 1, 1, 5) == counts(found)
    assert ([b"a/1"], [b"5"], [b"6"]) == (found.rewritten, found.removed, [one.path for one in found.new])
    pass_gate(box)
    assert (0, 0, 0, 5) == counts(changes(box))


def test_part_is_asked_about_by_itself(box: CatalogBox) -> None:
    """A name that begins alike lies elsewhere; a file is a part as well."""
    for prefix in (b"a", b"5"):
        pass_gate(box, prefix)
    for path in PATHS:
        replace(box, path, "other")

    assert [b"a/1", b"a/2", b"a/b/3"] == sorted(changes(box, b"a").rewritten)
    assert ([b"5"], 1) == (changes(box, b"5").rewritten, changes(box, b"5").known_before)


def test_what_was_restored_is_no_change(box: CatalogBox) -> None:
    """Neither a rewritten file that has its content again, nor one that was gone and is back."""
    replace(box, b"a/1", "bad")
    replace(box, b"a/1", b"a/1")
    remove(box, b"a/2")
    box.record(b"a/2")

    assert (0, 0, 0, 5) == counts(changes(box))


def test_what_came_back_as_something_else_was_rewritten(box: CatalogBox) -> None:
    """Removed and recorded anew is how some programs save."""
    remove(box, b"a/2")
    box.record(b"a/2", make_reading("other"))

    assert (1, 0, 0, 5) == counts(changes(box))


def test_what_came_and_went_was_never_there(box: CatalogBox) -> None:
    """A new file that was edited is new, one that is gone again is nothing."""
    box.record(b"new")
    replace(box, b"new", "edited")
    box.record(b"short-lived")
    remove(box, b"short-lived")

    assert (0, 0, 1, 5) == counts(changes(box))


@pytest.mark.parametrize(
    ("because", "is_change"),
    [
        (BaselineReason.EDITED, True),
        (BaselineReason.ROLLED_BACK, True),
        (BaselineReason.REWRITTEN_IN_PLACE, True),
        (BaselineReason.GROWN, False),
        (BaselineReason.ROTATED, False),
        (BaselineReason.RACY, False),
        (BaselineReason.ACCEPTED, False),
        (BaselineReason.REPAIRED, False),
    ],
)
def test_reasons_that_count(box: CatalogBox, because: BaselineReason, is_change: bool) -> None:
    """What a person agreed to, and what lost nothing, is left out."""
    replace(box, b"a/1", "other", because)

    assert is_change == bool(changes(box).rewritten)


def test_persons_word_begins_a_file_anew(box: CatalogBox) -> None:
    """What was accepted is what the next change is held against."""
    replace(box, b"a/1", "first")
    replace(box, b"a/1", "second", BaselineReason.ACCEPTED)
    assert not changes(box).rewritten
    replace(box, b"a/1", "third")
    assert [b"a/1"] == changes(box).rewritten
    replace(box, b"a/1", "second")
    assert not changes(box).rewritten


def test_removal_that_was_accepted_is_left_out(box: CatalogBox) -> None:
    """So is what was forgotten."""
    remove(box, b"a/1", BaselineReason.ACCEPTED)
    remove(box, b"a/2", BaselineReason.FORGOTTEN)

    assert not changes(box).removed


def test_what_a_mass_change_holds_back_counts(box: CatalogBox) -> None:
    """It is on the disk, though not in the records."""
    gone, other = box.get_at(b"a/1").id, box.get_at(b"ab/4").id
    with box.catalog.transaction() as c:
        versions.stage_removal(c, box.get(gone), box.run_id)
        versions.stage_change(c, box.get(other), make_reading("x"), "changed", box.run_id, VersionState.STAGED)
        versions.hold(c, versions.find_staged(c, box.root.id))

    assert (1, 1, 0, 5) == counts(changes(box))
    pass_gate(box, b"a")
    assert (0, 1, 0, 3) == counts(changes(box, b"a"))


def test_everything_is_new_to_a_gate_that_was_never_passed(box: CatalogBox) -> None:
    """So that a sample of all is looked into."""
    with box.catalog.read() as c:
        found = find_changes(c, Target(box.root, b"a"), None)

    assert {b"a/1", b"a/2", b"a/b/3"} == {one.path for one in found.new}
    assert (0, 0, 3, 0) == counts(found)


def test_new_files_are_found_beyond_one_page(box: CatalogBox) -> None:
    """Each once, those of other roots left out."""
    box.record_all({b"n/%d" % number: make_reading(number) for number in range(4100)})

    assert 4100 == len({one.path for one in changes(box).new}) == changes(box).new_count


@pytest.mark.parametrize("is_purged", [False, True], ids=["with their root", "after 90 days"])
def test_numbers_of_history_that_come_again_are_noticed(box: CatalogBox, is_purged: bool) -> None:
    """History's last rows can be forgotten; what is replaced after that has their numbers."""
    with box.catalog.transaction() as c:
        other = add_root(c, b"/other", box.root.identity, NOW)
        going = box.root if is_purged else other
        reading = Readings.of([make_reading("x")])
        [gone] = record_files(c, going, [b"gone"], reading, now=NOW, boot_id=box.boot_id)
        remove_files(c, going, [gone], because=BaselineReason.DELETED, now=NOW)
    pass_gate(box)
    with box.catalog.transaction() as c:
        if is_purged:
            run_daily(c, NOW, NOW + 91 * DAY_S)
            outdated = find_outdated(c, NOW + 91 * DAY_S)
            assert 1 == len(outdated)
            forget_deleted(c, outdated)
        else:
            remove_root(c, other.id)
    replace(box, b"a/1", "other")
    remove(box, b"a/2")

    assert ([b"a/1"], [b"a/2"]) == (changes(box).rewritten, changes(box).removed)


def test_clock_that_was_ahead_is_not_believed(box: CatalogBox) -> None:
    """What was let through is no change any more, whatever time was written beside it."""
    replace(box, b"a/1", "other", now=NOW + 365 * 86400)
    assert [b"a/1"] == changes(box).rewritten
    pass_gate(box)

    assert (0, 0, 0, 5) == counts(changes(box))


def test_first_run_is_where_changes_begin(box: CatalogBox) -> None:
    """Its files are not new, whatever is recorded later in the same second is; another day begins at its last run."""

    def find_new(at: int) -> list[bytes]:
        with box.catalog.read() as c:
            return [one.path for one in find_changes_after(c, box.root, at).new]

    assert [] == find_new(NOW - DAY_S)
    finish_run(box, NOW)
    box.record(b"second")
    assert [b"second"] == find_new(NOW - DAY_S)
    finish_run(box, NOW)
    box.record(b"third")

    assert [b"third", b"second"] == find_new(NOW - DAY_S)
    assert [b"third"] == find_new(NOW + 1)


def finish_run(box: CatalogBox, now: int) -> None:
    """End the run of the box, and begin another."""
    with box.catalog.transaction() as c:
        runs.finish_run(c, box.run_id, Outcome.CLEAN, RunCounts(), now=now, duration_s=1)
        box.run_id = runs.start_run(c, box.root.id, Job.SCAN, now=now, boot_id=box.boot_id, pid=1)


def test_forgotten_root_takes_its_gate_along(box: CatalogBox) -> None:
    """Nothing is left that points to it."""
    with box.catalog.transaction() as c:
        remove_root(c, box.root.id)
        assert gate_passes.get_passed(c, box.root.id, b"") is None


def test_folder_was_there_if_the_gate_passed_it_or_a_part_of_it(box: CatalogBox) -> None:
    """A gate that passed a folder above proves nothing: the name may be a typing error."""
    pass_gate(box, b"photos/2024")

    with box.catalog.read() as c:
        known = {
            path: gate_passes.has_been_there(c, box.root.id, path)
            for path in (b"photos/2024", b"photos", b"photos/2024/may", b"photo", b"photos/20")
        }
    assert {b"photos/2024": True, b"photos": True} == {path: True for path, is_known in known.items() if is_known}
