"""What a person decides while a run is at work: forget, accept, ack beside a scan or scrub (R9)."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from support.cli import Box, Completed
from support.faultfs import FaultFS, Rule
from support.planted import age, plant, plant_path
from support.results import tallies
from support.running import Running
from support.shapes import put
from support.stored import count_rows, query
from support.waiting import wait_until

pytestmark = pytest.mark.root

COUNT = 28


@pytest.fixture
def root(faulty: FaultFS, integrity: Box, tmp_path: Path) -> Path:
    """Record files behind a file system that can be told to hang."""
    source = plant(tmp_path / "source", COUNT)
    age(*source.rglob("*.txt"))
    integrity.run("scan", faulty.folder, expect=0)
    return faulty.folder


@contextmanager
def held_up(faulty: FaultFS, integrity: Box, command: str, at: Rule) -> Iterator[list[Completed]]:
    """Have a run hang somewhere during the block; its outcome is in the list afterwards."""
    done: list[Completed] = []
    seen = len(faulty.get_fired())
    rule = faulty.add(at)
    with Running(integrity, "--json", command, faulty.folder) as running:
        wait_until(lambda: len(faulty.get_fired()) > seen, "the place to hang")
        yield done
        faulty.clear(rule)
        done.append(running.finish())


@pytest.mark.parametrize("command", ["scan", "scrub"])
def test_files_that_are_forgotten_meanwhile(faulty: FaultFS, integrity: Box, root: Path, command: str) -> None:
    """A run whose files are forgotten under its hands ends in order, and the next one records them anew."""
    put(plant_path(root, 3), b"edited")
    at = Rule("read", path="/d3/*", is_hung=True)
    with held_up(faulty, integrity, command, at) as done:
        integrity.run("forget", root / "d3", root / "d5", "--yes", expect=0)
    assert 0 == done[0].code, (done[0].stdout, done[0].stderr)
    assert 0 == integrity.run("catalog", "check").code
    integrity.run("scan", root, expect=0)
    assert COUNT == count_rows(integrity)
    assert {"verified": COUNT} == tallies(integrity.run("--json", "scrub", root, expect=0))


@pytest.mark.parametrize("command", ["scan", "scrub"])
def test_root_that_is_forgotten_meanwhile(faulty: FaultFS, integrity: Box, root: Path, command: str) -> None:
    """What a person decides goes before: the run ends and says why, nothing of the root is left."""
    put(plant_path(root, 3), b"edited")
    with held_up(faulty, integrity, command, Rule("read", path="/d3/*", is_hung=True)) as done:
        integrity.run("forget", root, "--yes", expect=0)
    assert 4 == done[0].code
    assert f"{root}: was forgotten" in done[0].stderr
    assert 0 == integrity.run("catalog", "check").code
    assert 0 == count_rows(integrity)
    assert {"new": COUNT} == tallies(integrity.run("--json", "scan", root, expect=0))


@pytest.mark.parametrize("command", ["scan", "scrub"])
def test_file_that_is_accepted_meanwhile(faulty: FaultFS, integrity: Box, root: Path, command: str) -> None:
    """What was accepted while a run had read the old state is not taken back by it."""
    put(plant_path(root, 1), b"edited")
    put(plant_path(root, 3), b"edited")
    with held_up(faulty, integrity, command, Rule("read", path="/d3/3.txt", is_hung=True)) as done:
        integrity.run("accept", plant_path(root, 1), "--reason", "mine", expect=0)
    assert 0 == done[0].code, (done[0].stdout, done[0].stderr)
    assert 0 == integrity.run("catalog", "check").code
    ((reason, version),) = query(integrity, "SELECT reason, version FROM file WHERE name = CAST('1.txt' AS BLOB)")
    assert version in (2, 3), reason
    integrity.run("scan", root, expect=0)
    assert {"verified": COUNT} == tallies(integrity.run("--json", "scrub", root, expect=0))
