"""
A person decides while a run is at work, at each moment that there is: it ends as if one had been before the other.

Moments are what a run asks of its surroundings: the clock, a pause, a report. At each of them in turn somebody else
opens the catalog, as a command in another process does, and decides. If the run is in a transaction just then, he waits
for the next moment.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import pytest
from _pytest.mark.structures import ParameterSet

from integrity.catalog.connection import Catalog
from integrity.catalog.findings import find_findings, silence
from integrity.catalog.maintenance import check
from integrity.catalog.roots import find_roots
from integrity.config import Config
from integrity.errors import CatalogLocked
from integrity.jobs.admin.accept import accept_file, find_file_targets
from integrity.jobs.admin.forget import forget, plan_forgetting
from integrity.jobs.context import Context
from integrity.jobs.options import ScanOptions
from integrity.jobs.report import Summary
from integrity.jobs.runner import scan
from integrity.model import Tally
from support.bitrot import rot
from support.catalogs import find_records
from support.cli import Box
from support.jobs import Told, open_context, run_scan, run_scrub
from support.moments import Moments
from support.stored import rewrite

pytestmark = pytest.mark.root

MIB = 1 << 20
MOMENTS = 5
"""So many of a run's moments are tried, spread over all of it."""

Act = Callable[[Context, Path], None]
Job = Callable[[Context], Summary]


def accept(context: Context, path: Path) -> None:
    """Take what is there now as right; a file that was forgotten can't be accepted."""
    (target,) = find_file_targets(context.catalog, [os.fsencode(path)])
    accept_file(context, target, "mine")


def drop(context: Context, path: Path) -> None:
    """Take a file out of the catalog."""
    (leaving,) = plan_forgetting(context.catalog, [os.fsencode(path)])
    forget(context.catalog, leaving, now=context.now())


def hush(context: Context, path: Path) -> None:
    """Stop reminding of what is open by now."""
    with context.catalog.transaction() as connection:
        silence(connection, [one.id for one in find_findings(connection)])


def scan_beside(context: Context, path: Path) -> None:
    """Have another job refused, for one works on the root already."""
    try:
        scan(context, [os.fsencode(path.parent)], ScanOptions())
    except CatalogLocked:
        return


class State(NamedTuple):
    """What is known in the end: the content of each file, and what is open about it."""

    contents: frozenset[tuple[bytes, bytes | None, int]]
    open: frozenset[tuple[str, bytes | None]]


class Stage:
    """A tree with files of all sorts, and what a catalog knew of it before."""

    def __init__(self, folder: Path, box: Box) -> None:
        self.root, self.box = folder, box
        self.before = box.home / "before.db"

    def restore(self) -> Path:
        """Make the catalog what it was."""
        for suffix in ("-wal", "-shm"):
            Path(f"{self.box.catalog}{suffix}").unlink(missing_ok=True)
        shutil.copyfile(self.before, self.box.catalog)
        return self.box.catalog

    def look(self) -> State:
        """Look at the catalog, which has to be sound."""
        with Catalog.open(str(self.box.catalog), writes=False) as catalog:
            report = check(catalog)
            with catalog.read() as c:
                (root,) = find_roots(c)
                records = find_records(c, root.id)
                found = find_findings(c)
        assert (True, 0) == (report.is_right, report.orphan_runs), report
        return State(
            frozenset((one.path, one.digests.md5, one.is_frozen) for one in records),
            frozenset((one.kind.value, one.path) for one in found),
        )

    def decide(self, act: Act, path: Path) -> None:
        """Act as another process does."""
        with Catalog.open(str(self.box.catalog), writes=True, busy_timeout_s=0.0) as catalog:
            act(Context(catalog, Config(), Told()), path)

    def play(self, job: Job, act: Act, path: Path, at: int | None) -> tuple[State, Moments]:
        """Run a job, and have somebody act: before it (None), at one of its moments, or behind it if that was none."""
        self.restore()
        moments = Moments(act_at=-1 if at is None else at, act=lambda: self.decide(act, path))
        if at is None:
            self.decide(act, path)
            moments.is_over = True
        with open_context(self.box.catalog) as context:
            context.report, context.wait, context.monotonic = moments, moments.wait, moments.monotonic
            summary = job(context)
        counts = {one.value: getattr(summary.counts, one.value) for one in Tally}
        assert min(counts.values()) >= 0, counts
        if not moments.is_over:
            self.decide(act, path)
        return self.look(), moments


@pytest.fixture
def stage(data: Path, integrity: Box) -> Stage:
    """Record files, and have some rot, one be edited, and one record contradict itself."""
    sizes = {"film": 3 * MIB + 5, "edited": 9_000, "good": 9_000, "rotten": 9_000, "record": 9_000}
    for name, size in sizes.items():
        (data / name).write_bytes(os.urandom(size))
    integrity.run("scan", data, expect=0)
    integrity.run("scrub", data, expect=0)
    rot(data / "rotten", 5_000)
    rot(data / "film", 2 * MIB + 7)
    (data / "edited").write_bytes(os.urandom(9_100))
    os.sync()
    assert 1 == rewrite(integrity, "UPDATE file SET md5 = zeroblob(16) WHERE name = CAST('record' AS BLOB)")
    made = Stage(data, integrity)
    shutil.copyfile(integrity.catalog, made.before)
    return made


_DECISIONS: tuple[tuple[Act, tuple[str, ...]], ...] = (
    (accept, ("rotten", "film", "edited", "good", "record")),
    (drop, ("rotten", "film", "edited", "record")),
    (hush, ("rotten",)),
    (scan_beside, ("rotten",)),
)


def _make_cases() -> Iterator[ParameterSet]:
    """In the short run each decision is tried with one job, each time the other one."""
    for number, (act, names) in enumerate(_DECISIONS):
        for job in (run_scrub, run_scan):
            marks = () if (job is run_scan) == number % 2 else (pytest.mark.long,)
            yield pytest.param(job, act, names, marks=marks, id=f"{act.__name__}-{job.__name__}")


@pytest.mark.parametrize(("job", "act", "names"), list(_make_cases()))
def test_decision_at_each_moment_of_a_run(stage: Stage, job: Job, act: Act, names: tuple[str, ...]) -> None:
    """What is recorded, open and told is what one order of the two would have left."""
    for name in names:
        path = stage.root / name
        first, then = stage.play(job, act, path, None), stage.play(job, act, path, 10**9)
        outcomes, told = {first[0], then[0]}, (first[1].told, then[1].told)
        last = then[1].count
        for at in sorted({last * number // MOMENTS for number in range(MOMENTS)}):
            state, moments = stage.play(job, act, path, at)
            where = act.__name__, name, at, last
            assert state in outcomes, (where, state.open, [one.open for one in outcomes])
            assert told[0] & told[1] <= moments.told <= told[0] | told[1], (where, moments.told, told)
