"""Ctrl-C and SIGTERM in the middle of a run: what was done is kept and told, the next run does the rest (R7, R8)."""

from __future__ import annotations

import os
import shutil
import signal
import time
from pathlib import Path

import pytest

from support.bitrot import flip_bit
from support.cli import REAL_PAUSES, Box, Completed
from support.faultfs import FaultFS, Rule
from support.flakydisk import FlakyDisk
from support.loopfs import LoopFS
from support.planted import age, plant, plant_path
from support.results import kinds, tallies
from support.running import Running
from support.shapes import put
from support.stored import baselines, count_rows, query
from support.waiting import wait_until

pytestmark = pytest.mark.root

COUNT = 70


@pytest.fixture
def root(faulty: FaultFS, tmp_path: Path) -> Path:
    """Plant files behind a file system that can be told to hang."""
    source = plant(tmp_path / "source", COUNT, size_bytes=3000)
    age(*source.rglob("*.txt"))
    return faulty.folder


def interrupt(
    faulty: FaultFS, integrity: Box, *args: object, at: Rule, signals: tuple[signal.Signals, ...]
) -> Completed:
    """Let a run hang somewhere, send it signals, and let it go on."""
    rule = faulty.add(at)
    with Running(integrity, "--json", *(str(arg) for arg in args)) as running:
        wait_until(lambda: bool(faulty.get_fired()), "the place to hang")
        for number in signals:
            running.signal(number)
        faulty.clear(rule)
        return running.finish()


def test_slow_disk_holds_up_nobody_who_wants_to_end(integrity: Box) -> None:
    """Of a disk that takes long for each small file, only what is being read is waited for, not the whole batch."""
    with FlakyDisk("ext4") as disk:
        root = plant(disk.folder / "root", COUNT, size_bytes=3000)
        age(*root.rglob("*.txt"))
        integrity.run("scan", root, expect=0)
        disk.add(Rule("read", delay_s=1.0))
        with Running(integrity, "--json", "scrub", root) as running:
            wait_until(lambda: len(disk.get_fired()) > 3, "some readings")
            began = time.monotonic()
            running.signal(signal.SIGTERM)
            done = running.finish()
            took_s = time.monotonic() - began
    assert 130 == done.code
    assert took_s < COUNT / 3
    found = tallies(done)
    assert 0 < found["verified"] < COUNT
    assert COUNT == found["verified"] + found["not_due"]


def test_first_scan_that_is_stopped(faulty: FaultFS, integrity: Box, root: Path) -> None:
    """Exit 130 with a summary; what was read is recorded, so that the next scan has only the rest to read."""
    more = [root / "d9" / f"{count}.txt" for count in range(400)]  # more than two threads read by one batch each
    (root / "d9").mkdir()
    for path in more:
        put(path, path.name.encode())
    age(*more)
    total = COUNT + len(more)
    result = interrupt(faulty, integrity, "scan", root, at=Rule("read", is_hung=True), signals=(signal.SIGHUP,))
    assert 130 == result.code
    assert "interrupted" == result.summary["outcome"]
    found = tallies(result)
    assert 0 < found["new"] < total
    assert found["new"] == count_rows(integrity)
    again = integrity.run("--json", "scan", root, expect=0)
    assert {"new": total - found["new"], "not_due": found["new"]} == tallies(again)
    assert {"verified": total} == tallies(integrity.run("--json", "scrub", root, expect=0))
    assert [("interrupted",), ("clean",), ("clean",)] == query(integrity, "SELECT outcome FROM run ORDER BY id")


def test_scan_that_is_stopped_counts_every_recorded_file(faulty: FaultFS, integrity: Box, root: Path) -> None:
    """What a stopped scan did not come to is not due; nothing is missing for it; changes wait for the next one."""
    integrity.run("scan", root, expect=0)
    before = baselines(integrity.catalog)
    for number in (1, 2, 4, 5):
        put(root / f"d{number}" / f"{number}.txt", b"edited")
    (root / "d0" / "0.txt").unlink()
    age(*root.rglob("*.txt"))
    at = Rule("readdir", path="/d3", is_hung=True)
    result = interrupt(faulty, integrity, "scan", root, at=at, signals=(signal.SIGINT,))
    assert 130 == result.code
    found = tallies(result)
    assert COUNT == sum(found.values())
    assert "missing" not in found
    assert before == baselines(integrity.catalog)
    again = integrity.run("--json", "scan", root, expect=0)
    assert {"changed": 4, "missing": 1, "not_due": COUNT - 5} == tallies(again)
    assert {"not_due": COUNT - 1} == tallies(integrity.run("--json", "scan", root, expect=0))


def test_scrub_that_is_stopped(faulty: FaultFS, integrity: Box, root: Path) -> None:
    """What a stopped scrub verified stays verified, the rest is not due, and the next one begins with the rest."""
    integrity.run("scan", root, expect=0)
    at = Rule("read", path="*/3*.txt", is_hung=True)
    result = interrupt(faulty, integrity, "scrub", root, "--jobs", "1", at=at, signals=(signal.SIGTERM,))
    assert 130 == result.code
    found = tallies(result)
    assert COUNT == sum(found.values())
    assert {"verified", "not_due"} == set(found)
    ((verified,),) = query(integrity, "SELECT count(*) FROM file WHERE verified_at IS NOT NULL")
    assert found["verified"] == verified
    rest = integrity.run("--json", "scrub", root, "--new", expect=0)
    assert {"verified": COUNT - found["verified"], "not_due": found["verified"]} == tallies(rest)


def test_second_signal_ends_at_once(faulty: FaultFS, integrity: Box, root: Path) -> None:
    """Who presses Ctrl-C twice does not wait for a read that hangs; the catalog is whole and the lock is free."""
    rule = faulty.add(Rule("read", path="/d3/*", is_hung=True))
    with Running(integrity, "scan", root) as running:
        wait_until(lambda: bool(faulty.get_fired()), "a read that hangs")
        running.signal(signal.SIGINT)
        running.signal(signal.SIGINT)
        faulty.clear(rule)
        assert running.finish().code in (-signal.SIGINT, 130)
    assert 0 == integrity.run("catalog", "check").code
    assert COUNT == sum(tallies(integrity.run("--json", "scan", root, expect=0)).values())


def test_stop_while_a_mismatch_waits_for_its_rereads(integrity: Box, tmp_path: Path) -> None:
    """A mismatch that could not be confirmed any more is not said, and the next scrub finds it."""
    with LoopFS("ext4") as fs:
        plant(fs.folder / "root", 14, size_bytes=5000)
        integrity.run("scan", fs.folder / "root", expect=0)
        flip_bit(fs.path("root/d1/1.txt"), 1000, 1)
        with Running(integrity, "--json", "scrub", fs.folder / "root", env=REAL_PAUSES) as running:
            wait_until(
                lambda: bool(query(integrity, "SELECT 1 FROM file WHERE verified_at IS NOT NULL")), "a verified file"
            )
            running.signal(signal.SIGINT)
            result = running.finish()
        assert 130 == result.code
        assert [] == kinds(result)
        assert {"verified": 13, "not_due": 1} == tallies(result)
        assert ["rot"] == kinds(integrity.run("--json", "scrub", fs.folder / "root", expect=1))


def test_repair_that_is_stopped(faulty: FaultFS, integrity: Box, root: Path, tmp_path: Path) -> None:
    """Whoever reads its objects is told that the file was not reached: no plan of it is no plan to leave it."""
    integrity.run("scan", root, expect=0)
    shutil.copytree(tmp_path / "source", tmp_path / "copy")
    damaged = plant_path(tmp_path / "source", 3)
    stat = damaged.stat()
    damaged.write_bytes(b"x" + damaged.read_bytes()[1:])
    os.utime(damaged, ns=(stat.st_atime_ns, stat.st_mtime_ns))
    integrity.run("scrub", root, expect=1)
    repair = ("repair", plant_path(root, 3), "--from", tmp_path / "copy", "--apply")
    at = Rule("read", path="/d3/*", is_hung=True)
    result = interrupt(faulty, integrity, *repair, at=at, signals=(signal.SIGTERM,))
    assert 130 == result.code
    assert ("repair", "interrupted") == (result.summary["job"], result.summary["outcome"])
    assert {"not_due": 1} == tallies(result)
    done = integrity.run("--json", *repair, expect=0)
    assert ("clean", {"verified": 1}) == (done.summary["outcome"], tallies(done))


@pytest.mark.parametrize("command", ["scan", "scrub"])
def test_root_that_is_forgotten_meanwhile(faulty: FaultFS, integrity: Box, root: Path, command: str) -> None:
    """What a person decides goes before: the run ends and says why, nothing of the root is left."""
    integrity.run("scan", root, expect=0)
    put(plant_path(root, 3), b"edited")
    rule = faulty.add(Rule("read", path="/d3/*", is_hung=True))
    with Running(integrity, "--json", command, root) as running:
        wait_until(lambda: bool(faulty.get_fired()), "the place to hang")
        integrity.run("forget", root, "--yes", expect=0)
        faulty.clear(rule)
        done = running.finish()
    assert 4 == done.code
    assert f"{root}: was forgotten" in done.stderr
    assert 0 == integrity.run("catalog", "check").code
    assert 0 == count_rows(integrity)
    assert {"new": COUNT} == tallies(integrity.run("--json", "scan", root, expect=0))
