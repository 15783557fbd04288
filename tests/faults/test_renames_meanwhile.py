"""
Files are renamed while a run is at work, at each of its moments: content is held against its own record all the same.

What a run meets then is neither the tree of before nor that of after: a name may be met twice, under its old and its
new one, or not at all. Whatever it makes of that, the next scrub must name what is damaged, and accuse nobody else.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path

import pytest

from integrity.catalog.connect import Catalog
from integrity.catalog.findings import find_findings
from integrity.config import Config
from integrity.jobs.context import Context
from integrity.jobs.options import ScanOptions, ScrubOptions
from integrity.jobs.report import Summary
from integrity.jobs.runner import scan, scrub
from support.bitrot import rot
from support.loopfs import LoopFS
from support.moments import Moments
from support.reading import let_age

pytestmark = pytest.mark.root

MOMENTS = 3
"""So many of a run's moments are tried, spread over all of it."""

BLOCK_BYTES = 1 << 20

Job = Callable[[Context], Summary]
Script = Callable[[Path], set[str]]
"""Renames files, and damages some; gives the names under which the damage stands then."""


def exchange(one: Path, other: Path) -> None:
    between = one.with_name("between")
    os.rename(one, between)
    os.rename(other, one)
    os.rename(between, other)


def swap_files(root: Path) -> set[str]:
    rot(root / "a" / "1", 30)
    exchange(root / "a" / "1", root / "b" / "2")
    return {"b/2"}


def swap_folders(root: Path) -> set[str]:
    rot(root / "a" / "1", 30)
    rot(root / "b" / "3", BLOCK_BYTES + 30)
    exchange(root / "a", root / "b")
    return {"b/1", "a/3"}


def rotate(root: Path) -> set[str]:
    rot(root / "a" / "1", 30)
    rot(root / "a" / "2", 30)
    os.rename(root / "a" / "3", root / "a" / "4")
    os.rename(root / "a" / "2", root / "a" / "3")
    os.rename(root / "a" / "1", root / "a" / "2")
    (root / "a" / "1").write_bytes(os.urandom(9_000))
    return {"a/2", "a/3"}


def rename(root: Path) -> set[str]:
    rot(root / "b" / "1", 30)
    os.rename(root / "b" / "1", root / "a" / "another")
    return {"a/another"}


def rename_over(root: Path) -> set[str]:
    rot(root / "b" / "1", 30)
    os.rename(root / "b" / "1", root / "a" / "2")
    return {"a/2"}


def swap_good_folders(root: Path) -> set[str]:
    exchange(root / "a", root / "b")
    return set()


def rotate_good(root: Path) -> set[str]:
    os.rename(root / "b" / "2", root / "b" / "3")
    os.rename(root / "b" / "1", root / "b" / "2")
    return set()


def swap_known_file(root: Path) -> set[str]:
    exchange(root / "a" / "1", root / "b" / "2")
    return {"b/2"}


def rename_known_file_over(root: Path) -> set[str]:
    os.rename(root / "a" / "1", root / "b" / "2")
    return {"b/2"}


def swap_folder_of_known_file(root: Path) -> set[str]:
    exchange(root / "a", root / "b")
    return {"b/1"}


def run_scan(context: Context) -> Summary:
    return scan(context, [], ScanOptions(full=True))


def run_scrub(context: Context) -> Summary:
    return scrub(context, [], ScrubOptions())


def run_blindly(context: Context) -> Summary:
    return scrub(context, [], ScrubOptions(scan_first=False, scan_missing=False))


class Stage:
    """Trees, each recorded and verified, that are looked at while they change."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._numbers = count()

    def play(
        self, job: Job, script: Script, at: int, *, of_one_time: bool, is_known: bool = False
    ) -> tuple[set[str], set[str], int]:
        """
        Run a job, and have files renamed at one of its moments; give what is damaged, what is said, and moments.

        Args:
            job: the run.
            script: the renames.
            at: which moment.
            of_one_time: all files have one time of modification.
            is_known: a file is damaged and found before.
        """
        root = self._folder / str(next(self._numbers))
        self._plant(root, of_one_time=of_one_time)
        name = f"{root}.db"
        with Catalog.create(name) as catalog:
            scrub(self._surround(catalog, Moments()), [os.fsencode(root)], ScrubOptions())
            if is_known:
                rot(root / "a" / "1", 30)
                scrub(self._surround(catalog, Moments()), [os.fsencode(root)], ScrubOptions())
            damaged: set[str] = set()
            moments = Moments(act_at=at, act=lambda: damaged.update(script(root)))
            job(self._surround(catalog, moments))
            if not moments.is_over:
                moments.act()
            let_age(max((root / "a").iterdir(), key=lambda path: path.stat().st_ctime_ns))
            scan(self._surround(catalog, Moments()), [], ScanOptions())
            scrub(self._surround(catalog, Moments()), [], ScrubOptions())
            with catalog.read() as connection:
                said = {os.fsdecode(one.path or b"") for one in find_findings(connection)}
        return damaged, said, moments.count

    def _plant(self, root: Path, *, of_one_time: bool) -> None:
        for folder in ("a", "b"):
            (root / folder).mkdir(parents=True)
            for number, size in enumerate((9_000, 9_000, 2 * BLOCK_BYTES + 9), 1):
                path = root / folder / str(number)
                path.write_bytes(os.urandom(size))
                if of_one_time:
                    os.utime(path, (1_600_000_000, 1_600_000_000))
        let_age(path)

    def _surround(self, catalog: Catalog, moments: Moments) -> Context:
        context = Context(catalog, Config(), moments)
        context.wait, context.monotonic = moments.wait, moments.monotonic
        return context


@pytest.fixture
def stage(data: Path) -> Iterator[Stage]:
    """Give a file system on which bits can be flipped."""
    return Stage(data)


@pytest.mark.timeout(300)
@pytest.mark.parametrize(
    ("job", "of_one_time"), [(run_scan, False), (run_scrub, False), (run_scrub, True), (run_blindly, False)]
)
@pytest.mark.parametrize(
    "script", [swap_files, swap_folders, rotate, rename, rename_over, swap_good_folders, rotate_good]
)
def test_renames_at_each_moment_of_a_run(stage: Stage, job: Job, script: Script, of_one_time: bool) -> None:
    """All that is damaged is named, and nothing else."""
    play_at_each_moment(stage, job, script, of_one_time=of_one_time)


@pytest.mark.timeout(300)
@pytest.mark.parametrize("job", [run_scan, run_scrub, run_blindly])
@pytest.mark.parametrize("script", [swap_files, swap_folders, rotate, rename_over])
def test_renames_of_what_the_file_system_refuses(btrfs: LoopFS, job: Job, script: Script) -> None:
    """A reading that fails is of the file that stands there by then, not of the one whose name it was."""
    play_at_each_moment(Stage(btrfs.folder), job, script, of_one_time=False)


@pytest.mark.timeout(300)
@pytest.mark.parametrize("job", [run_scan, run_scrub, run_blindly])
@pytest.mark.parametrize("script", [swap_known_file, rename_known_file_over, swap_folder_of_known_file])
def test_renames_of_a_file_that_is_known_to_be_damaged(stage: Stage, job: Job, script: Script) -> None:
    """Its finding goes along, and leaves nothing behind with the name that it had."""
    play_at_each_moment(stage, job, script, of_one_time=False, is_known=True)


def play_at_each_moment(stage: Stage, job: Job, script: Script, *, of_one_time: bool, is_known: bool = False) -> None:
    _, _, last = stage.play(job, script, 10**9, of_one_time=of_one_time, is_known=is_known)
    wrong = []
    for at in sorted({last * number // MOMENTS for number in range(MOMENTS)}):
        damaged, said, _ = stage.play(job, script, at, of_one_time=of_one_time, is_known=is_known)
        if damaged != said:
            wrong.append((at, last, "missed", damaged - said, "false", said - damaged))
    assert not wrong
