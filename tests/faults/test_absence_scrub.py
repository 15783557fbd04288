"""Recorded files that a scrub was to read and did not find: moved, deleted, or left behind on the old disk."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from integrity.catalog.findings import find_findings
from integrity.catalog.roots import find_roots
from integrity.files.span import Pace
from integrity.jobs.admin.roots import rebind
from integrity.jobs.options import ScanOptions, ScrubOptions
from integrity.jobs.report import NoteKind
from integrity.jobs.runner import scan, scrub
from integrity.model import Outcome
from support.bitrot import rot
from support.cli import Box
from support.jobs import Told, open_context, tally
from support.loopfs import LoopFS
from support.results import kinds, messages, met, notes, tallies
from support.statements import traced
from support.stored import count_rows

COUNT = 6
ARCHIVE = '[[root]]\npath = "{path}"\npolicy = "archive"\n'
WINDOW = ScrubOptions(scan_first=False)
"""As the service's windows scrub."""


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """Plant some files in two folders."""
    for folder in ("a", "b"):
        for number in range(COUNT // 2):
            save(tmp_path / "root" / folder / f"{number}.jpg", os.urandom(3_000 + number))
    return tmp_path / "root"


def save(path: Path, data: bytes = b"content") -> Path:
    """Write a file, with the folders that it lies in."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    return path


def copy_without(root: Path, new: Path, *left_behind: str) -> Path:
    """Copy a tree to another place as ``cp -a`` does, and leave some files out."""

    def leave_behind(folder: str, names: list[str]) -> list[str]:
        return [name for name in names if os.path.relpath(os.path.join(folder, name), root) in left_behind]

    shutil.copytree(root, new, ignore=leave_behind)
    return new


def test_rebind_lists_what_was_not_copied(root: Path, integrity: Box, tmp_path: Path) -> None:
    """It is missing until it is there: no scan or scrub drops it into history, and none is called well."""
    integrity.run("scan", root, expect=0)
    new = copy_without(root, tmp_path / "new", "a/1.jpg", "b/2.jpg")
    lost = [("missing", str(new / "a/1.jpg")), ("missing", str(new / "b/2.jpg"))]

    done = integrity.run("--json", "root", "rebind", root, new, expect=1)

    assert lost == sorted(met(done))
    assert {"verified": 4, "missing": 2} == tallies(done)
    for job in (["scan"], ["scrub"], ["scrub", "--no-scan"], ["scan"]):
        again = integrity.run("--json", *job, new, expect=1)
        assert lost == sorted(met(again)), job
    assert COUNT == count_rows(integrity)
    shutil.copy2(root / "a/1.jpg", new / "a/1.jpg")
    back = integrity.run("--json", "scrub", new, expect=1)
    assert {"verified": 5, "missing": 1} == tallies(back)
    assert lost[1:] == met(back)
    integrity.run("accept", new, "--deletions", "--reason", "not wanted any more", "--yes", expect=0)
    assert {"verified": 5} == tallies(integrity.run("--json", "scrub", new, expect=0))


def test_rebind_without_scrub_lists_what_was_not_copied(root: Path, integrity: Box, tmp_path: Path) -> None:
    """What is missing is known and written down before anything is read."""
    integrity.run("scan", root, expect=0)
    new = copy_without(root, tmp_path / "new", "a/1.jpg")

    done = integrity.run("root", "rebind", "--no-scrub", root, new, expect=1)

    assert "1 of 6 recorded files is not there" in done.stdout
    assert str(new / "a/1.jpg") in done.stdout
    assert ["missing"] == [one["kind"] for one in integrity.findings("findings", expect=1)]
    assert ["missing"] == kinds(integrity.run("--json", "scan", new, expect=1))


def test_scan_of_the_former_place_while_a_root_is_rebound(root: Path, tmp_path: Path) -> None:
    """It ends the findings, for the files are there; they are opened again before the root is moved."""
    new = copy_without(root, tmp_path / "new", "a/1.jpg", "b/2.jpg")
    ended: list[str] = []
    with open_context(tmp_path / "catalog.db") as context, open_context(tmp_path / "catalog.db") as other:
        scan(context, [os.fsencode(root)], ScanOptions())

        def scan_former_place(statement: str) -> None:
            with other.catalog.read() as c:
                is_told = bool(find_findings(c))
            if statement == "BEGIN IMMEDIATE" and is_told and not ended:
                scan(other, [os.fsencode(root)], ScanOptions())
                told = other.report
                assert isinstance(told, Told)
                ended.extend(note.message for note in told.notes if note.kind is NoteKind.RESOLVED)

        with traced(context.catalog, scan_former_place):
            rebind(context.catalog, os.fsencode(root), os.fsencode(new), now=context.now())

        assert ["is back"] * 2 == ended
        with context.catalog.read() as c:
            assert [b"a/1.jpg", b"b/2.jpg"] == [one.path for one in find_findings(c)]
            assert [os.fsencode(new)] == [one.path for one in find_roots(c)]
        scan(context, [os.fsencode(new)], ScanOptions())
        with context.catalog.read() as c:
            assert [COUNT] == [one.file_count for one in find_roots(c)]


def test_rebind_sums_up_many_missing_files_by_folder(integrity: Box, tmp_path: Path) -> None:
    """The first of them are named, the others counted folder by folder."""
    root = tmp_path / "root"
    for folder, count in (("2023", 40), ("2024/trip", 30)):
        for number in range(count):
            save(root / folder / f"{number:02}.jpg", b"%d" % number)
    save(root / "kept.jpg")
    integrity.run("scan", root, expect=0)
    new = tmp_path / "new"
    save(new / "kept.jpg")

    done = integrity.run("root", "rebind", "--no-scrub", root, new, expect=1)

    assert "70 of 71 recorded files are not there" in done.stdout
    assert f"40 files in {new}/2023" in done.stdout
    assert f"30 files in {new}/2024/trip" in done.stdout


def test_rebind_knows_a_root_of_which_most_was_not_copied(integrity: Box, tmp_path: Path) -> None:
    """The first hundreds of files may be what was not copied; a folder that holds no file at all is another one."""
    root = tmp_path / "root"
    for number in range(300):
        save(root / "2023" / f"{number:03}.jpg", b"%d" % number)
    integrity.run("scan", root, expect=0)
    save(root / "kept.jpg")
    integrity.run("scan", root, expect=0)
    (tmp_path / "other").mkdir()
    new = tmp_path / "new"
    save(new / "kept.jpg")

    refused = integrity.run("root", "rebind", "--no-scrub", root, tmp_path / "other", expect=2)
    done = integrity.run("root", "rebind", "--no-scrub", root, new, expect=1)

    assert f"holds none of the 301 files recorded of {root}" in refused.stderr
    assert "300 of 301 recorded files are not there" in done.stdout


def test_file_that_went_elsewhere_while_copying_has_moved(root: Path, integrity: Box, tmp_path: Path) -> None:
    """The next scan finds its content under another name, and ends the finding."""
    integrity.run("scan", root, expect=0)
    new = copy_without(root, tmp_path / "new", "a/1.jpg")
    shutil.copy2(root / "a/1.jpg", new / "b/one.jpg")
    integrity.run("root", "rebind", root, new, expect=1)

    done = integrity.run("--json", "scan", new, expect=0)

    assert [str(new / "b/one.jpg")] == notes(done, "moved")
    assert COUNT == count_rows(integrity)
    assert [] == integrity.findings("findings", expect=0)


def test_scrub_without_scan_does_not_call_a_vanished_file_well(root: Path, integrity: Box) -> None:
    """Moved or deleted: only a scan can tell, so the run is incomplete, and says what to do."""
    integrity.run("scan", root, expect=0)
    (root / "a/0.jpg").unlink()
    (root / "a/1.jpg").rename(root / "a/one.jpg")

    done = integrity.run("--json", "scrub", "--no-scan", root, expect=3)

    assert {"verified": 4, "missing": 2} == tallies(done)
    assert [str(root / "a/0.jpg"), str(root / "a/1.jpg")] == sorted(notes(done, "missing"))
    assert "incomplete" == done.summary["outcome"]
    assert f"integrity scan {root}" in integrity.run("scrub", "--no-scan", root, expect=3).stdout
    assert COUNT == count_rows(integrity)
    assert {"verified": 5, "missing": 1} == tallies(integrity.run("--json", "scrub", root, expect=0), without="moved")


def test_scrub_without_scan_does_not_judge_files_that_changed_places(root: Path, integrity: Box) -> None:
    """What stands under a name is another record's file, so neither is well, damaged or changed before a scan."""
    integrity.run("scan", root, expect=0)
    (root / "a/0.jpg").rename(root / "a/x")
    (root / "a/1.jpg").rename(root / "a/0.jpg")
    (root / "a/x").rename(root / "a/1.jpg")

    done = integrity.run("--json", "scrub", "--no-scan", root, expect=3)

    assert {"verified": 4, "missing": 2} == tallies(done)
    assert [str(root / "a/0.jpg"), str(root / "a/1.jpg")] == sorted(notes(done, "missing"))
    assert {"verified": 6} == tallies(integrity.run("--json", "scrub", root, expect=0), without="moved")


def test_scrub_without_scan_finds_what_an_archive_misses(root: Path, integrity: Box) -> None:
    """Nothing may go from an archive, so it is a finding at once."""
    integrity.configure(ARCHIVE.format(path=root))
    integrity.run("scan", expect=0)
    (root / "a/0.jpg").unlink()

    done = integrity.run("--json", "scrub", "--no-scan", root, expect=1)

    assert [("missing", str(root / "a/0.jpg"))] == met(done)
    assert "archive" in messages(done)


def test_window_learns_that_a_file_was_moved_or_deleted(root: Path, tmp_path: Path) -> None:
    """Both are normal life in a root that changes: the moved one is read where it is now, and the run is clean."""
    with open_context(tmp_path / "catalog.db") as context:
        scan(context, [os.fsencode(root)], ScanOptions())
        (root / "a/0.jpg").unlink()
        (root / "a/1.jpg").rename(root / "b/one.jpg")
        (root / "link").symlink_to("a")

        summary = scrub(context, [os.fsencode(root)], WINDOW)
        again = scrub(context, [os.fsencode(root)], WINDOW)

        assert isinstance(context.report, Told)
        told = {note.kind: note.path for note in context.report.notes}
    assert Outcome.CLEAN is summary.outcome
    assert ({"verified": 5, "missing": 1}, 1) == (tally(summary), summary.counts.moved)
    assert {NoteKind.DELETED: b"a/0.jpg", NoteKind.MOVED: b"b/one.jpg"} == told
    assert ({"verified": 5}, Outcome.CLEAN) == (tally(again), again.outcome)


@pytest.mark.root
def test_window_finds_rot_in_a_file_that_was_moved_to_another_folder(ext4: LoopFS, tmp_path: Path) -> None:
    """It keeps its record when the window looks for it; taken for a deletion and a new file, the rot would be right."""
    root = Path(os.fsdecode(ext4.mnt)) / "root"
    for name in ("a/film", "b/other"):
        save(root / name, os.urandom(20_000))
    with open_context(tmp_path / "catalog.db") as context:
        scan(context, [os.fsencode(root)], ScanOptions())
        scrub(context, [os.fsencode(root)], ScrubOptions())
        (root / "a/film").rename(root / "b/film")
        rot(root / "b/film", 7_000)

        summary = scrub(context, [os.fsencode(root)], WINDOW)

        with context.catalog.read() as connection:
            found = find_findings(connection)
    assert [("silent_rewrite", b"b/film")] == [(one.kind.value, one.path) for one in found]
    assert {"verified": 1, "damaged": 1} == tally(summary)


class Unlinking(Pace):
    """Deletes a file when the first read of a run is about to be done."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def take(self, size_bytes: int) -> None:
        """Delete it."""
        self._path.unlink(missing_ok=True)


@pytest.mark.parametrize("options", [ScrubOptions(), WINDOW])
def test_file_that_is_deleted_while_the_scrub_runs(root: Path, tmp_path: Path, options: ScrubOptions) -> None:
    """It is taken for what it is: in a root that changes it is gone, and each name is counted once."""
    (root / "link").symlink_to("a")
    with open_context(tmp_path / "catalog.db") as context:
        scan(context, [os.fsencode(root)], ScanOptions())
        context.pace, context.jobs = Unlinking(root / "b/2.jpg"), 1

        summary = scrub(context, [os.fsencode(root)], options)

        assert isinstance(context.report, Told)
        gone = [note.path for note in context.report.notes if note.kind is NoteKind.DELETED]
    assert [b"b/2.jpg"] == gone
    assert Outcome.CLEAN is summary.outcome
    skipped = {"skipped": 1} if options.scan_first else {}
    assert {"verified": 5, "missing": 1, **skipped} == tally(summary)


def test_window_does_not_take_an_emptied_root_for_deletions(root: Path, tmp_path: Path) -> None:
    """What is looked for in a folder that is empty by now is not decided: the run is incomplete (R5)."""

    class Emptying(Pace):
        def take(self, size_bytes: int) -> None:
            """Move everything away, as unmounting would."""
            for folder in root.iterdir():
                folder.rename(tmp_path / folder.name)

    with open_context(tmp_path / "catalog.db") as context:
        scan(context, [os.fsencode(root)], ScanOptions())
        context.pace, context.jobs = Emptying(), 1

        summary = scrub(context, [os.fsencode(root)], WINDOW)

        with context.catalog.read() as connection:
            (record,) = find_roots(connection)
    assert Outcome.INCOMPLETE is summary.outcome
    assert COUNT == record.file_count
