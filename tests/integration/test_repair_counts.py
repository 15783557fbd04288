"""What the record of a repair says of each file (R8): also of those that it could not look into."""

from __future__ import annotations

import errno
import fcntl
import os
import signal
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from integrity.jobs.repair.run import RepairOptions
from integrity.jobs.report import Progress, Stop
from integrity.model import Tally
from support.cli import Box
from support.faultfs import FaultFS, Rule
from support.jobs import Told
from support.planted import age
from support.repairs import CONFIG, blocks, context_of, run_repair
from support.shapes import damage
from support.stored import query

NAMES = ("a", "b", "c")
CONTENT = blocks(3)


def prepare(integrity: Box, root: Path, copy: Path, names: Sequence[str] = NAMES) -> None:
    """Record files, have all of them damaged, and a copy with the good ones."""
    integrity.configure(CONFIG)
    for folder in (root, copy):
        folder.mkdir(exist_ok=True)
        for name in names:
            (folder / name).write_bytes(CONTENT)
    age(*(root / name for name in names))
    integrity.run("scan", root, expect=0)
    for name in names:
        damage(root / name, 5)
    integrity.run("scrub", root, expect=1)


def count(integrity: Box) -> list[dict[str, int]]:
    """Return the tallies of all repairs."""
    tallies = [one.value for one in Tally]
    rows = query(integrity, f"SELECT {', '.join(tallies)} FROM run WHERE job = 'repair' ORDER BY id")
    return [{name: int(str(value)) for name, value in zip(tallies, row, strict=True) if value} for row in rows]


@contextmanager
def leased(path: Path) -> Iterator[None]:
    """Hold a write lease on a file, as Samba may, and do not give it back."""
    old = signal.signal(signal.SIGIO, signal.SIG_IGN)
    try:
        with open(path, "r+b") as holder:
            fcntl.fcntl(holder, fcntl.F_SETLEASE, fcntl.F_WRLCK)
            yield
    finally:
        signal.signal(signal.SIGIO, old)


def test_file_that_another_program_holds_is_not_missing(integrity: Box, tmp_path: Path) -> None:
    """It is unstable, nothing of it is called damaged or missing, and the other files are repaired."""
    root, copy = tmp_path / "root", tmp_path / "copy"
    prepare(integrity, root, copy)

    with leased(root / "b"):
        done = integrity.run("--json", "repair", root, "--from", copy, "--apply")
        words = integrity.run("repair", root / "b", "--from", copy).stdout

    plans = {os.path.basename(str(plan["path"])): plan for plan in done.of_type("repair_plan")}
    assert ("unreadable", []) == (plans["b"]["standing"], plans["b"]["damaged_blocks"])
    assert "missing" not in words
    assert [{"verified": 2, "unstable": 1}, {"unstable": 1}] == count(integrity)


@pytest.mark.root
def test_file_that_permissions_keep_closed_is_unreadable(faulty: FaultFS, integrity: Box, tmp_path: Path) -> None:
    """It is there, so it is not missing."""
    prepare(integrity, faulty.folder, tmp_path / "copy", ["a"])
    rule = faulty.add(Rule("open", path="/a", errno=errno.EACCES))

    integrity.run("repair", faulty.folder / "a", "--from", tmp_path / "copy", expect=3)

    faulty.clear(rule)
    assert [{"unreadable": 1}] == count(integrity)


def test_file_that_is_gone_is_missing(integrity: Box, tmp_path: Path) -> None:
    """Also if something else has its name."""
    root, copy = tmp_path / "root", tmp_path / "copy"
    prepare(integrity, root, copy, NAMES[:2])
    (root / "a").unlink()
    (root / "b").unlink()
    (root / "b").mkdir()

    integrity.run("repair", root / "a", root / "b", "--from", copy, expect=1)

    assert [{"missing": 2}] == count(integrity)


class StopAtFirstProgress(Told):
    """Stop the job when it has read something."""

    def __init__(self, stop: Stop) -> None:
        super().__init__()
        self._stop = stop

    def progress(self, progress: Progress) -> None:
        """Stop, as Ctrl-C would."""
        self._stop.set()


def test_files_that_a_stopped_repair_did_not_reach_are_not_due(integrity: Box, tmp_path: Path) -> None:
    """The one that was being read and those after it; none is missing."""
    root, copy = tmp_path / "root", tmp_path / "copy"
    prepare(integrity, root, copy)

    with context_of(integrity) as context:
        stopped = replace(context, report=StopAtFirstProgress(context.stop))
        summary = run_repair(stopped, [root], [copy], RepairOptions()).summary

    assert summary.is_interrupted
    assert 0 == summary.plans
    assert [{"not_due": 3}] == count(integrity)


def test_repair_that_is_stopped_before_a_roots_turn_is_interrupted_not_suspended(
    integrity: Box, tmp_path: Path
) -> None:
    """A suspended root is one whose disk is missing: that would alarm its owner for nothing."""
    first, second, copy = tmp_path / "first", tmp_path / "second", tmp_path / "copy"
    prepare(integrity, first, copy)
    prepare(integrity, second, copy)
    with context_of(integrity) as context:
        stopped = replace(context, report=StopAtFirstProgress(context.stop))
        repaired = run_repair(stopped, [first, second], [copy])

    assert (True, False) == (repaired.summary.is_interrupted, repaired.summary.is_suspended)
    assert 1 == len(count(integrity))


def test_repair_that_is_stopped_while_a_root_is_opened_is_interrupted_not_suspended(
    integrity: Box, tmp_path: Path
) -> None:
    """The stop comes after the repair has turned to the root, and before the run on it begins."""
    root, copy = tmp_path / "root", tmp_path / "copy"
    prepare(integrity, root, copy)
    with context_of(integrity) as context:

        def stop_now() -> float:
            context.stop.set()
            return 0.0

        repaired = run_repair(replace(context, monotonic=stop_now), [root], [copy])

    assert (True, False) == (repaired.summary.is_interrupted, repaired.summary.is_suspended)
    assert [] == count(integrity)
