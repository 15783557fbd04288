"""
Files are renamed while a run is at work, at each of its moments: content is held against its own record all the same.

What a run meets then is neither the tree of before nor that of after: a name may be met twice, under its old and its
new one, or not at all. Whatever it makes of that, the next scrub must name what is damaged, and accuse nobody else.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from hashlib import md5
from itertools import count
from pathlib import Path
from typing import NamedTuple

import pytest
from _pytest.mark.structures import ParameterSet

from integrity.catalog.connection import Catalog
from integrity.catalog.files import find_file
from integrity.catalog.findings import find_findings
from integrity.catalog.roots import find_roots
from integrity.config import Config
from integrity.errors import Unreadable
from integrity.files.buffers import Buffers
from integrity.files.span import ReadMode
from integrity.jobs.context import Context, RootRun
from integrity.jobs.judge.assess import Assessor
from integrity.jobs.judge.inodes import ReplacedInodes
from integrity.jobs.options import ScanOptions, ScrubOptions
from integrity.jobs.report import Summary
from integrity.jobs.runner import run_on, scan, scrub
from integrity.model import Job
from support.bitrot import rot
from support.catalogs import find_records
from support.jobs import run_scan, run_scrub
from support.loopfs import LoopFS
from support.moments import Moments
from support.reading import let_age

pytestmark = pytest.mark.root

MOMENTS = 3
"""So many of a run's moments are tried, spread over all of it."""

BLOCK_BYTES = 1 << 20

Run = Callable[[Context], Summary]
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
    rename_in_turn(root)
    return {"a/2", "a/3"}


def rename_in_turn(root: Path) -> None:
    os.rename(root / "a" / "3", root / "a" / "4")
    os.rename(root / "a" / "2", root / "a" / "3")
    os.rename(root / "a" / "1", root / "a" / "2")
    (root / "a" / "1").write_bytes(os.urandom(9_000))


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


def run_blindly(context: Context) -> Summary:
    return scrub(context, [], ScrubOptions(scan_first=False, scan_missing=False))


def find_files(root: Path) -> dict[str, Path]:
    return {str(path.relative_to(root)): path for path in root.rglob("*") if path.is_file()}


def find_baselines(catalog: Catalog) -> dict[bytes, tuple[int, bytes | None]]:
    """Give inode and MD5 that are recorded of each file."""
    with catalog.read() as connection:
        records = find_records(connection, find_roots(connection)[0].id)
        return {one.path: (one.witness.inode, one.digests.md5) for one in records}


class Outcome(NamedTuple):
    """What came of a run."""

    damaged: set[str]
    said: set[str]  # to be damaged
    misrecorded: set[str]  # files with another baseline than what was written to them
    moments: int


class Stage:
    """Trees, each recorded and verified, that are looked at while they change."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._numbers = count()

    def play(
        self,
        job: Run,
        script: Script,
        at: int,
        *,
        of_one_time: bool,
        is_damaged: bool = False,
        is_known: bool = False,
    ) -> Outcome:
        """
        Run a job, and have files renamed at one of its moments.

        Args:
            job: the run.
            script: the renames.
            at: which moment.
            of_one_time: all files have one time of modification.
            is_damaged: a file is damaged before the run.
            is_known: and that was found, too.
        """
        root = self.plant(of_one_time=of_one_time)
        planted = {path.stat().st_ino: path.read_bytes() for path in find_files(root).values()}
        with Catalog.create(f"{root}.db") as catalog:
            scrub(self.surround(catalog, Moments()), [os.fsencode(root)], ScrubOptions())
            if is_damaged or is_known:
                rot(root / "a" / "1", 30)
            if is_known:
                scrub(self.surround(catalog, Moments()), [os.fsencode(root)], ScrubOptions())
            damaged: set[str] = set()
            moments = Moments(act_at=at, act=lambda: damaged.update(script(root)))
            job(self.surround(catalog, moments))
            if not moments.is_over:
                moments.act()
            let_age(max((root / "a").iterdir(), key=lambda path: path.stat().st_ctime_ns))
            scan(self.surround(catalog, Moments()), [], ScanOptions())
            scrub(self.surround(catalog, Moments()), [], ScrubOptions())
            with catalog.read() as connection:
                said = {os.fsdecode(one.path or b"") for one in find_findings(connection)}
            digests = {os.fsdecode(path): baseline[1] for path, baseline in find_baselines(catalog).items()}
        written = {
            name: md5(planted[path.stat().st_ino] if name in damaged else path.read_bytes()).digest()
            for name, path in find_files(root).items()
        }
        # Files of one size and one time may be taken for each other, as those that an archive was unpacked to.
        misrecorded = set() if of_one_time else {name for name in digests if digests[name] != written.get(name)}
        shutil.rmtree(root)
        return Outcome(damaged, said, misrecorded, moments.count)

    def plant(self, *, of_one_time: bool) -> Path:
        """Make another tree; ``of_one_time``: all files have one time of modification, else each has its own."""
        root = self._folder / str(next(self._numbers))
        times = count(1_600_000_000, 0 if of_one_time else 1)
        for folder in ("a", "b"):
            (root / folder).mkdir(parents=True)
            for number, size in enumerate((9_000, 9_000, 2 * BLOCK_BYTES + 9), 1):
                path = root / folder / str(number)
                path.write_bytes(os.urandom(size))
                # Not left to the clock of the file system: two files of one of its ticks would have one time.
                os.utime(path, (time := next(times), time))
        let_age(path)
        return root

    def surround(self, catalog: Catalog, moments: Moments) -> Context:
        """Make the surroundings of a run."""
        context = Context(catalog, Config(), moments)
        context.wait, context.monotonic = moments.wait, moments.monotonic
        return context


_JOBS = (run_scan, run_scrub, run_blindly)
_ANY = (swap_files, swap_folders, rotate, rename, rename_over, swap_good_folders, rotate_good)
_OF_KNOWN = (swap_known_file, rename_known_file_over, swap_folder_of_known_file)
_SITUATIONS: tuple[tuple[str, str, tuple[Script, ...], tuple[Run, ...]], ...] = (
    ("ext4", "", _ANY, _JOBS),
    ("ext4", "of_one_time", _ANY, (run_scrub,)),
    ("ext4", "is_known", _OF_KNOWN, _JOBS),
    # A reading that fails is of the file that stands there by then, not of the one whose name it was.
    ("btrfs", "", (swap_files, swap_folders, rotate, rename_over), _JOBS),
    ("btrfs", "is_damaged", _OF_KNOWN, _JOBS),
)


def _make_cases() -> Iterator[ParameterSet]:
    """In the short run each script is tried with one job, each time another one."""
    turns = count()
    for fs_type, before, scripts, jobs in _SITUATIONS:
        for script in scripts:
            turn = next(turns) % len(jobs)
            for number, job in enumerate(jobs):
                marks = () if number == turn else (pytest.mark.long,)
                name = f"{fs_type}-{before}-{script.__name__}-{job.__name__}"
                yield pytest.param(fs_type, before, script, job, marks=marks, id=name)


@pytest.mark.long
@pytest.mark.timeout(300)
@pytest.mark.parametrize(("fs_type", "before", "script", "job"), list(_make_cases()))
def test_renames_at_each_moment_of_a_run(
    request: pytest.FixtureRequest, fs_type: str, before: str, script: Script, job: Run
) -> None:
    """All that is damaged is named, and nothing else; what was known goes along, and leaves nothing behind."""
    stage = Stage(request.getfixturevalue(fs_type).folder)
    flags = {"of_one_time": False} | ({before: True} if before else {})
    last = stage.play(job, script, 10**9, **flags).moments
    moments = sorted({last * number // MOMENTS for number in range(MOMENTS)})
    outcomes = {at: stage.play(job, script, at, **flags) for at in moments}
    assert not {at: one for at, one in outcomes.items() if one.damaged != one.said or one.misrecorded}


def refuse(run: RootRun, name: bytes) -> Unreadable:
    """Read a file, and give the error."""
    with run.reader(ReadMode.DISK).open(name) as file, Buffers() as memory:
        list(file.segments(memory))
        with pytest.raises(Unreadable) as refusal:
            file.finish()
    return refusal.value


@pytest.mark.parametrize("was_renamed_before", [False, True])
def test_rename_between_a_refusal_and_its_judgement(btrfs: LoopFS, was_renamed_before: bool) -> None:
    """Who was refused is told by the file that was open, not by what stands under its name when that is judged."""
    stage = Stage(btrfs.folder)
    root = stage.plant(of_one_time=False)
    with Catalog.create(f"{root}.db") as catalog:
        context = stage.surround(catalog, Moments())
        scrub(context, [os.fsencode(root)], ScrubOptions())
        before = find_baselines(catalog)
        rot(root / "a" / "1", 30)
        if was_renamed_before:
            exchange(root / "a", root / "b")
        name = b"b/1" if was_renamed_before else b"a/1"  # of the damaged file, when it is read

        def work(run: RootRun) -> None:
            assessor = Assessor(run, from_disk=True, replaced=ReplacedInodes())
            with catalog.read() as connection:
                record = find_file(connection, run.root.id, name)
            assert record is not None
            refusal = refuse(run, name)
            exchange(root / "a", root / "b")
            assessor.count_failed(record, refusal)
            assert [record.id] * was_renamed_before == [one.id for one in assessor.account.take_rereads()]

        run_on(context, os.fsencode(root), Job.SCRUB, work)
        with catalog.read() as connection:
            assert [b"a/1"] * (not was_renamed_before) == [one.path for one in find_findings(connection)]
        assert before == find_baselines(catalog)


def test_refused_file_takes_its_record_to_a_name_of_which_another_refusal_is_known(btrfs: LoopFS) -> None:
    """
    The file that was refused at ``a/2`` is found at ``a/3``; its finding does not stay for the one that came after it.

    As if a scrub had read ``a/2`` before all files were renamed, and ``a/3`` after it.
    """
    stage = Stage(btrfs.folder)
    root = stage.plant(of_one_time=False)
    planted = {path.stat().st_ino: path.read_bytes() for path in find_files(root).values()}
    with Catalog.create(f"{root}.db") as catalog:
        context = stage.surround(catalog, Moments())
        scrub(context, [os.fsencode(root)], ScrubOptions())

        def work(run: RootRun) -> None:
            assessor = Assessor(run, from_disk=True, replaced=ReplacedInodes())
            with catalog.read() as connection:
                records = find_records(connection, run.root.id)
                second, third = (one for one in records if one.path in (b"a/2", b"a/3"))
            rot(root / "a" / "1", 30)
            rot(root / "a" / "2", 30)
            refusal = refuse(run, b"a/2")
            rename_in_turn(root)
            assessor.count_failed(second, refusal)
            assessor.count_failed(third, refuse(run, b"a/3"))

        run_on(context, os.fsencode(root), Job.SCRUB, work)
        scrub(context, [], ScrubOptions())
        scrub(context, [], ScrubOptions())
        with catalog.read() as connection:
            assert {one.path for one in find_findings(connection)} == {b"a/2", b"a/3"}
        recorded = {os.fsdecode(path): digest for path, (_, digest) in find_baselines(catalog).items()}
        written = {
            name: planted.get(path.stat().st_ino) or path.read_bytes() for name, path in find_files(root).items()
        }
        assert recorded == {name: md5(content).digest() for name, content in written.items()}
