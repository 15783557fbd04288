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
from support.jobs import Told, open_context, tally
from support.loopfs import LoopFS
from support.statements import traced

COUNT = 6
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
