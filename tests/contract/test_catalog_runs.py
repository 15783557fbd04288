"""Runs, boots and roots."""

from __future__ import annotations

from dataclasses import fields

import pytest

from integrity.catalog import blocks, findings, roots, runs, versions
from integrity.catalog.blocks import Purpose
from integrity.catalog.connection import Connection
from integrity.catalog.findings import NewFinding
from integrity.errors import CatalogError
from integrity.model import FindingKind, Job, Outcome, RootId, RootIdentity, RootState, RunCounts, Witness
from support.catalogs import IDENTITY, MIB, NOW, CatalogBox, make_blocks, make_reading
from support.generated import read_tables


def test_finished_run_keeps_what_it_covered(box: CatalogBox) -> None:
    """Every count of a run comes back as it was (R8)."""
    counts = RunCounts(**{field.name: number for number, field in enumerate(fields(RunCounts), 1)})
    with box.catalog.transaction() as c:
        runs.finish_run(c, box.run_id, Outcome.FINDINGS, counts, now=NOW + 9, duration_s=8.5, error="why")
        [found] = runs.find_runs(c, box.root.id, 10)

    assert found.counts == counts
    assert (found.job, found.outcome, found.error, found.duration_s) == (Job.SCAN, Outcome.FINDINGS, "why", 8.5)
    assert (found.started_at, found.finished_at, found.boot_id, found.pid) == (NOW, NOW + 9, box.boot_id, 1)


def test_runs_are_listed_newest_first(box: CatalogBox) -> None:
    """The last runs of a root, or of all."""
    with box.catalog.transaction() as c:
        other = roots.add_root(c, b"/other", IDENTITY, NOW)
        ids = [
            runs.start_run(c, root_id, Job.SCRUB, now=NOW, boot_id=box.boot_id, pid=2)
            for root_id in (box.root.id, other.id, box.root.id)
        ]
        of_root = [run.id for run in runs.find_runs(c, box.root.id, 2)]
        of_all = [run.id for run in runs.find_runs(c, None, 10)]

    assert of_root == [ids[2], ids[0]]
    assert of_all == [ids[2], ids[1], ids[0], box.run_id]


def test_runs_of_dead_processes_are_closed(box: CatalogBox) -> None:
    """A run that was killed is known as interrupted, and those of other roots are left alone."""
    with box.catalog.transaction() as c:
        other = roots.add_root(c, b"/other", IDENTITY, NOW)
        alive = runs.start_run(c, other.id, Job.SCAN, now=NOW, boot_id=box.boot_id, pid=2)
        done = runs.start_run(c, box.root.id, Job.SCAN, now=NOW, boot_id=box.boot_id, pid=3)
        runs.finish_run(c, done, Outcome.CLEAN, RunCounts(), now=NOW, duration_s=1)
        assert runs.close_dead_runs(c, box.root.id, NOW + 5) == [box.run_id]
        found = {run.id: (run.outcome, run.finished_at) for run in runs.find_runs(c, None, 10)}

    assert found == {box.run_id: (Outcome.INTERRUPTED, NOW + 5), done: (Outcome.CLEAN, NOW), alive: (None, None)}


def test_boot_is_written_down_once(box: CatalogBox) -> None:
    """All programs of one boot find the same number."""
    with box.catalog.transaction() as c:
        assert runs.ensure_boot(c, "first-boot", NOW + 5) == box.boot_id
        assert runs.ensure_boot(c, "second", NOW + 9) == box.boot_id + 1


def test_crash_is_known_from_the_missing_mark(box: CatalogBox) -> None:
    """A boot without a clean-stop mark since a file was last intact makes a verdict less sure (R2)."""
    with box.catalog.transaction() as c:
        ids = [box.boot_id]
        for number in range(3):
            runs.mark_clean_stop(c, "first-boot" if number == 0 else f"boot-{number}", NOW)
            ids.append(runs.ensure_boot(c, f"boot-{number + 1}", NOW))
        assert runs.find_interruption(c, ids[0], "") is None
        assert runs.find_interruption(c, ids[3], "") is None
        after_crash = runs.ensure_boot(c, "after-crash", NOW + 7)
        crash = runs.Interruption(is_of_machine=True, seen_at=NOW + 7)
        assert crash == runs.find_interruption(c, ids[0], "")
        assert crash == runs.find_interruption(c, ids[3], "")
        assert runs.find_interruption(c, after_crash, "") is None
        assert runs.find_interruption(c, None, "") is not None


def test_mark_is_taken_back_when_the_boot_goes_on(box: CatalogBox) -> None:
    """A service that was stopped while the machine went on says nothing about the end of the boot."""
    with box.catalog.transaction() as c:
        first = runs.ensure_mounts(c, "first-boot", [runs.MountSeen("uuid:A", "m1", None)], NOW)
        runs.mark_clean_stop(c, "first-boot", NOW, runs.find_last_mounts(c, "first-boot"))
        runs.ensure_mounts(c, "first-boot", [runs.MountSeen("uuid:A", "m1", None)], NOW)
        runs.ensure_boot(c, "second", NOW)
        assert runs.find_interruption(c, first, "uuid:A") is not None


def see(c: Connection, boot: str, **mounts: str | tuple[str, int]) -> int:
    """Begin a run in a boot, on mounts of file systems, with their mount counts if they have one."""
    seen = [(name, one) if isinstance(one, tuple) else (name, (one, None)) for name, one in mounts.items()]
    return runs.ensure_mounts(c, boot, [runs.MountSeen(name, *one) for name, one in seen], NOW)


def stop(c: Connection, boot: str, *gone: str) -> None:
    """Mark that a boot ends in order, with all mounts but those that are gone."""
    there = [number for number, mount in runs.find_last_mounts(c, boot).items() if mount not in gone]
    runs.mark_clean_stop(c, boot, NOW, there)


def test_remount_within_a_boot_is_of_its_file_system_alone(box: CatalogBox) -> None:
    """What was mounted again may have crashed; what was verified since, or lies elsewhere, is as sure as before."""
    with box.catalog.transaction() as c:
        before = see(c, "first-boot", A="m1", B="m2")
        assert before == see(c, "first-boot", A="m1", B="m2")
        after = see(c, "first-boot", A="m3", B="m2")

        assert runs.Interruption(is_of_machine=False, seen_at=NOW) == runs.find_interruption(c, before, "A")
        assert runs.find_interruption(c, before, "B") is None
        assert runs.find_interruption(c, after, "A") is None
        assert runs.find_interruption(c, box.boot_id, "A") is not None
        runs.rename_file_system(c, "A", "uuid:A")
        assert runs.find_interruption(c, before, "uuid:A") is not None


def test_boots_that_are_seen_in_turn(box: CatalogBox) -> None:
    """Two programs that see different boots of one machine share a catalog: each finds its own rows again."""
    with box.catalog.transaction() as c:
        see(c, "first-boot", A="m1")
        newest = see(c, "second", A="m1")
        assert newest == see(c, "first-boot", A="m1")
        assert newest == see(c, "second", A="m1")


def test_mount_that_can_not_be_told_is_the_one_before(box: CatalogBox) -> None:
    """Where sysfs is hidden, only the boots count; the row that stands is kept."""
    with box.catalog.transaction() as c:
        before = see(c, "first-boot", A="m1")
        assert before == see(c, "first-boot", A="")
        assert runs.find_interruption(c, before, "A") is None


@pytest.mark.parametrize(
    ("gone", "count", "is_clean"),
    [((), 8, True), ((), 7, True), ((), 9, False), ((), 1, False), (("m1",), 8, False)],
)
def test_clean_stop_counts_for_what_was_mounted_then(
    box: CatalogBox, gone: tuple[str, ...], count: int, *, is_clean: bool
) -> None:
    """Unmounted before the stop, or mounted by somebody else before the next run: its end is not known."""
    with box.catalog.transaction() as c:
        before = see(c, "first-boot", A=("m1", 7), B="m2")
        stop(c, "first-boot", *gone)
        see(c, "second", A=("m1", count), B="m2")

        assert is_clean is (runs.find_interruption(c, before, "A") is None)
        assert runs.find_interruption(c, before, "B") is None


def test_count_that_moves_within_a_mount_is_kept(box: CatalogBox) -> None:
    """Made read-only and writable again, the same mount counts once more; the next boot is counted from there."""
    with box.catalog.transaction() as c:
        before = see(c, "first-boot", A=("m1", 7))
        see(c, "first-boot", A=("m1", 8))
        see(c, "first-boot", A="m1")
        stop(c, "first-boot")
        see(c, "second", A=("m1", 9))
        assert runs.find_interruption(c, before, "A") is None


def test_root_comes_back_as_it_was_added(box: CatalogBox) -> None:
    """Path of any bytes, identity and state; where it is mounted is no part of what it is."""
    with box.catalog.transaction() as c:
        made = roots.add_root(c, b"/srv/\xff", RootIdentity("type:x", 9, "zfs", b"/mnt"), NOW + 1)
        assert roots.get_root(c, made.id) == made
        assert [root.id for root in roots.find_roots(c)] == [box.root.id, made.id]

    assert (made.path, made.identity) == (b"/srv/\xff", RootIdentity("type:x", 9, "zfs", b""))
    assert (made.state, made.state_reason, made.created_at, made.file_count) == (RootState.ACTIVE, None, NOW + 1, 0)


def test_root_can_be_suspended_moved_and_given_another_identity(box: CatalogBox) -> None:
    """Its files stay."""
    record = box.get(box.record(b"a"))
    other = RootIdentity("uuid:new", 77, "xfs", b"")
    with box.catalog.transaction() as c:
        roots.set_root_state(c, box.root.id, RootState.SUSPENDED, "not mounted")
        roots.set_root_identity(c, box.root.id, other)
        found = roots.get_root(c, box.root.id)
        assert (found.state, found.state_reason, found.identity) == (RootState.SUSPENDED, "not mounted", other)
        roots.rebind_root(c, box.root.id, b"/new", IDENTITY)
        assert roots.get_root(c, box.root.id).path == b"/new"
    assert box.get(record.id) == record


def test_path_is_one_root_only(box: CatalogBox) -> None:
    """Two roots can't stand on one folder."""
    with pytest.raises(CatalogError, match="UNIQUE"), box.catalog.transaction() as c:
        roots.add_root(c, box.root.path, IDENTITY, NOW)


def test_unknown_root_is_an_error_with_advice(box: CatalogBox) -> None:
    """A root that was forgotten meanwhile is told, with where to look."""
    with box.catalog.read() as c, pytest.raises(CatalogError, match="root list"):
        roots.get_root(c, RootId(99))


def test_forgotten_root_leaves_nothing(box: CatalogBox) -> None:
    """All rows of a root go with it, none of another's."""
    with box.catalog.transaction() as c:
        other = roots.add_root(c, b"/other", IDENTITY, NOW)
        new = NewFinding(FindingKind.UNSTABLE, other.id, None, b"x", "message")
        findings.open_finding(c, new, now=NOW, run_id=None)
    file_id = box.record(b"d/a", make_reading("a", blocks=make_blocks("a", 3), size_bytes=3 * MIB))
    with box.catalog.transaction() as c:
        versions.stage_change(
            c, box.get(file_id), make_reading("b", blocks=make_blocks("b", 2)), "x", box.run_id, "held"
        )
        new = NewFinding(FindingKind.ROT, box.root.id, file_id, b"d/a", "message")
        findings.open_finding(c, new, now=NOW, run_id=box.run_id)
        number = blocks.save_checkpoint(
            *(c, box.root.id, b"big", Purpose.RECORD),
            witness=Witness(1, 2, 3, 4),
            offset_bytes=0,
            block_size_bytes=MIB,
            now=NOW,
        )
        blocks.append_runs(c, number, make_blocks("c", 3))
        roots.remove_root(c, box.root.id)
        left = {name: c.value(f"SELECT count(*) FROM {name}") for name in read_tables()}

    kept = {"meta": 4, "boot": 1, "root": 1, "finding": 1, "tally": 4}
    assert {name: count for name, count in left.items() if count} == kept
