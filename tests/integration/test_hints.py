"""A scan that was told where to look looks nowhere else, and concludes no less than one that looked everywhere."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from integrity.config import Config
from integrity.config.definition import ConfiguredRoot, MassChange
from integrity.jobs.context import Context
from integrity.jobs.options import ScanOptions
from integrity.jobs.report import Summary
from integrity.jobs.runner import scan, scan_hints
from integrity.model import FindingKind, Policy
from support.jobs import Told, open_context, tally
from support.mounts import hidden
from support.planted import age, plant, plant_path
from support.shapes import put

COUNT = 70
pytestmark = pytest.mark.files(COUNT, is_aged=True)


@pytest.fixture
def context(tmp_path: Path, root: Path) -> Iterator[Context]:
    """Record them."""
    with open_context(tmp_path / "catalog.db") as context:
        assert {"new": COUNT} == tally(scan(context, [os.fsencode(root)], ScanOptions()))
        yield context


def look(context: Context, root: Path, *names: str) -> Summary:
    return scan_hints(context, os.fsencode(root), [os.fsencode(name) for name in names])


def test_only_the_names_are_looked_at(context: Context, root: Path) -> None:
    """Of three changes two are named: those are recorded, the third is not even noticed."""
    put(root / "d1" / "new.txt", b"new")
    put(plant_path(root, 3), b"edited")
    put(plant_path(root, 4), b"edited, too")
    age(root / "d1" / "new.txt", plant_path(root, 3))

    assert {"new": 1, "changed": 1, "not_due": 1} == tally(look(context, root, "d1/new.txt", "d3/3.txt", "d5/5.txt"))
    assert {"changed": 1, "not_due": COUNT} == tally(scan(context, [os.fsencode(root)], ScanOptions()))


def test_folder_stands_for_what_lies_below_it(context: Context, root: Path) -> None:
    """A folder that was moved in is recorded as a whole; names inside it are not looked at twice."""
    plant(root / "in" / "deep", 14)
    age(*(root / "in").rglob("*.txt"))
    assert {"new": 14} == tally(look(context, root, "in/deep/d0/0.txt", "in", "in/deep"))


def test_what_is_gone_becomes_history(context: Context, root: Path) -> None:
    """A file that is gone, and a folder with all its files."""
    plant_path(root, 0).unlink()
    for path in (root / "d1").iterdir():
        path.unlink()
    (root / "d1").rmdir()
    assert {"missing": 11} == tally(look(context, root, "d0/0.txt", "d1", "never/was/here"))
    assert {"not_due": COUNT - 11} == tally(scan(context, [os.fsencode(root)], ScanOptions()))


def test_moved_file_keeps_its_record(context: Context, root: Path) -> None:
    """Both of its names are told of, in any order; one of them alone says nothing wrong."""
    plant_path(root, 9).rename(root / "moved.txt")
    summary = look(context, root, "moved.txt", "d2/9.txt")
    assert 1 == summary.counts.moved
    assert "missing" not in tally(summary)


def test_deleted_folder_is_weighed_against_the_whole_root(tmp_path: Path, root: Path) -> None:
    """Ten of 70 files are no mass change of 20 %, although they are all that the scan looked at."""
    settings = ConfiguredRoot(path=os.fsencode(root), mass_change=MassChange(files=5, percent=20))
    with open_context(tmp_path / "catalog.db", Config(roots=(settings,))) as context:
        scan(context, [os.fsencode(root)], ScanOptions())
        for number in range(2):
            for path in (root / f"d{number}").iterdir():
                path.unlink()
        told = context.report
        assert isinstance(told, Told)
        look(context, root, "d0")
        assert [] == told.findings
        look(context, root, "d1")
        assert [FindingKind.MASS_CHANGE] == [finding.kind for finding in told.findings]


def test_what_a_walk_would_leave_out_is_left_out(context: Context, root: Path) -> None:
    """Excluded folders and names, symbolic links, and FIFOs."""
    (root / "@eaDir").mkdir()
    put(root / "@eaDir" / "thumb.jpg", b"x")
    put(root / ".DS_Store", b"x")
    (root / "link").symlink_to("d1/1.txt")
    (root / "linked").symlink_to("d1")
    os.mkfifo(root / "fifo")
    names = ("@eaDir", "@eaDir/thumb.jpg", ".DS_Store", "link", "linked/1.txt", "fifo")
    assert {} == tally(look(context, root, *names))


def test_archive_says_what_is_missing(tmp_path: Path, root: Path) -> None:
    """A finding, as from any other scan; it is over when the file is back."""
    settings = ConfiguredRoot(path=os.fsencode(root), policy=Policy.ARCHIVE)
    with open_context(tmp_path / "catalog.db", Config(roots=(settings,))) as context:
        scan(context, [os.fsencode(root)], ScanOptions())
        content, times = plant_path(root, 8).read_bytes(), plant_path(root, 8).stat()
        plant_path(root, 8).unlink()
        told = context.report
        assert isinstance(told, Told)
        assert look(context, root, "d1/8.txt").has_integrity_problem
        assert [(FindingKind.MISSING, b"d1/8.txt")] == [(finding.kind, finding.path) for finding in told.findings]
        put(plant_path(root, 8), content)
        os.utime(plant_path(root, 8), ns=(times.st_atime_ns, times.st_mtime_ns))
        look(context, root, "d1/8.txt")
        assert "is back" in [note.message for note in told.notes]


@pytest.mark.root
def test_names_below_a_mount_are_hidden_and_not_gone(context: Context, root: Path) -> None:
    """Events that tell of names over which something is mounted by now prove nothing."""
    with hidden(root / "d3"):
        assert {"skipped": 1} == tally(look(context, root, "d3/3.txt"))
    assert {"not_due": COUNT} == tally(scan(context, [os.fsencode(root)], ScanOptions()))
