"""Very many files of a folder that each took the name of the next one: their records follow, in pages."""

from __future__ import annotations

import itertools
import os
import shutil
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from integrity.catalog.connection import Catalog
from integrity.jobs.admin.forget import Leaving, forget, plan_forgetting
from integrity.jobs.options import ScanOptions, ScrubOptions
from integrity.jobs.report import NoteKind
from integrity.jobs.runner import scan, scrub
from support.cli import Box
from support.dyingscan import count, scan_until
from support.jobs import Told, open_context, tally
from support.planted import age
from support.results import tallies
from support.statements import traced
from support.stored import baselines

_FILES = 450
_MISPLACED = "SELECT count(*) FROM file WHERE CAST(CAST(name AS TEXT) AS INTEGER) <> size_bytes"
"""The files of ``plant_sizes`` whose records went to another name."""

_HELD_AGAINST = "SELECT count(*) FROM file WHERE reason = 'inherited'"
_UNMOVED = """
    SELECT name FROM file WHERE CAST(CAST(name AS TEXT) AS INTEGER) = size_bytes ORDER BY abs(size_bytes - 225) LIMIT 1
"""


def plant_sizes(root: Path, files: int = _FILES) -> Path:
    """Make files that are as large as their names say."""
    root.mkdir()
    for number in range(1, files + 1):
        (root / f"{number:04}").write_bytes(os.urandom(number))
    return root


def shift(root: Path) -> None:
    """Give each file the name of the next one, and the last one a new name."""
    for path in sorted(root.iterdir(), reverse=True):
        path.rename(root / f"{int(path.name) + 1:04}")


def rotate(root: Path) -> None:
    """Give each file the name of the next one, and the last one that of the first."""
    shift(root)
    max(root.iterdir()).rename(root / "0001")


def rewrite(path: Path) -> None:
    """Change what is in a file, and put its times back."""
    stat = path.stat()
    path.write_bytes(os.urandom(stat.st_size))
    os.utime(path, ns=(stat.st_atime_ns, stat.st_mtime_ns))


def look_again(integrity: Box, root: Path) -> None:
    """No record is lost, made twice or damaged, and each is of the file that has its name."""
    assert {"verified": _FILES} == tallies(integrity.run("--json", "scrub", root, expect=0))
    assert 0 == integrity.run("catalog", "check").code


@pytest.mark.parametrize("rename", [shift, rotate])
def test_long_row_of_renames_that_is_killed_between_two_pages(
    integrity: Box, tmp_path: Path, rename: Callable[[Path], None]
) -> None:
    """What another scan makes of the rest is what one scan makes of all of it; nothing is read for it."""
    root = plant_sizes(tmp_path / "root")
    age(*root.iterdir())
    integrity.run("scan", root, expect=0)
    rename(root)
    shutil.copytree(integrity.home, tmp_path / "undisturbed")
    undisturbed = Box(tmp_path / "undisturbed")
    done = undisturbed.run("--json", "scan", root, expect=0)
    assert {"not_due": _FILES, "moved": _FILES} == tallies(done)

    scan_until(integrity.catalog, root, _MISPLACED)

    assert 0 < count(integrity.catalog, _MISPLACED) < _FILES
    assert 0 == integrity.run("catalog", "check").code
    left = tallies(integrity.run("--json", "scan", root, expect=0))
    assert left["not_due"] == _FILES
    assert 0 < left["moved"] < _FILES
    assert baselines(undisturbed.catalog) == baselines(integrity.catalog)
    look_again(integrity, root)


@pytest.mark.parametrize("rename", [shift, rotate])
def test_work_grows_with_the_number_of_files(tmp_path: Path, rename: Callable[[Path], None]) -> None:
    """Four times as many files cost about four times as many statements."""
    asked: dict[int, int] = {}
    for files in (100, 400):
        root = plant_sizes(tmp_path / str(files), files)
        age(*root.iterdir())
        with open_context(tmp_path / f"{files}.db") as context:
            scan(context, [os.fsencode(root)], ScanOptions())
            rename(root)
            statements: list[str] = []
            with traced(context.catalog, statements.append):
                scan(context, [os.fsencode(root)], ScanOptions())
            asked[files] = len(statements)
            told = context.report
            assert isinstance(told, Told)
            assert files == sum(note.kind is NoteKind.MOVED for note in told.notes)
    assert asked[400] < 5 * asked[100]


@pytest.mark.long
@pytest.mark.parametrize("rename", [shift, rotate])
def test_record_that_is_forgotten_between_two_pages(tmp_path: Path, rename: Callable[[Path], None]) -> None:
    """Moves that relied on it are not written, and no two records collide: the scrub finds each file as it is."""
    root = plant_sizes(tmp_path / "root")
    age(*root.iterdir())
    catalog = tmp_path / "catalog.db"
    with open_context(catalog) as context, Catalog.open(bytes(catalog), writes=True, busy_timeout_s=0) as person:
        scan(context, [os.fsencode(root)], ScanOptions())
        rename(root)
        forgotten: list[Leaving] = []

        def forget_one(statement: str) -> None:
            if statement.startswith("BEGIN") and not forgotten and count(catalog, _MISPLACED):
                with person.read() as c:
                    name = c.value(_UNMOVED)
                [leaving] = plan_forgetting(person, [os.fsencode(root) + b"/" + name])
                forget(person, leaving, now=context.now())
                forgotten.append(leaving)

        jumps = itertools.count()
        context.monotonic = lambda: time.monotonic() + next(jumps)
        with traced(context.catalog, forget_one):
            done = scan(context, [os.fsencode(root)], ScanOptions())
        assert forgotten
        assert 0 == done.counts.findings_opened
        context.monotonic = time.monotonic
        assert {"verified": _FILES} == tally(scrub(context, [os.fsencode(root)], ScrubOptions()))


@pytest.mark.long
def test_damaged_copies_of_very_many_files_are_held_in_pages(tmp_path: Path) -> None:
    """A folder that went to another place is held against what is recorded of it; others write in between."""
    root = tmp_path / "root"
    root.mkdir()
    old, catalog, files = plant_sizes(root / "old", 250), tmp_path / "catalog.db", 250
    age(*old.iterdir())
    seen: set[int] = set()
    with open_context(catalog) as context:
        context.wait = lambda _: False
        scan(context, [os.fsencode(root)], ScanOptions())
        shutil.copytree(old, root / "new")
        for path in (root / "new").iterdir():
            rewrite(path)
        shutil.rmtree(old)

        def look(statement: str) -> None:
            if statement == "BEGIN IMMEDIATE":
                seen.add(count(catalog, _HELD_AGAINST))

        jumps = itertools.count()
        context.monotonic = lambda: time.monotonic() + next(jumps)
        with traced(context.catalog, look):
            scan(context, [os.fsencode(root)], ScanOptions())
        told = context.report
        assert isinstance(told, Told)
        assert {b"new/%04d" % number for number in range(1, files + 1)} == {one.path for one in told.findings}
    assert {0, 100, 200, 250} <= seen
