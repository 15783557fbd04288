"""Scrubs that stop at a limit, or read only a part: no error, all accounted for, and the next one goes on (R7, R8)."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from support.cli import Box
from support.preload import Shims
from support.results import get_number, tallies
from support.shapes import put
from support.stored import query

MIB = 1 << 20
COUNT = 40
SIZE = 100_000
pytestmark = pytest.mark.files(COUNT, size_bytes=SIZE, is_aged=True, is_recorded=True)


def verified(integrity: Box) -> int:
    """Count the files that were ever verified."""
    return int(str(query(integrity, "SELECT count(*) FROM file WHERE verified_at IS NOT NULL")[0][0]))


def test_percent_covers_everything_in_turns(root: Path, integrity: Box) -> None:
    """Each quarter takes other files, those that waited longest: four of them verify everything, with exit 0."""
    for turn in range(1, 5):
        result = integrity.run("--json", "scrub", root, "--percent", "25", expect=0)
        assert {"verified": COUNT // 4, "not_due": COUNT * 3 // 4} == tallies(result)
        assert "clean" == result.summary["outcome"]
        assert turn * COUNT // 4 == verified(integrity)


def test_byte_limit_stops_and_goes_on(root: Path, integrity: Box) -> None:
    """A scrub stops after so many bytes (and what was under way), and the next goes on with the rest."""
    done = 0
    for _ in range(20):
        result = integrity.run("--json", "scrub", root, "--byte-limit", "1M", "--new", expect=0)
        found = tallies(result)
        assert COUNT == sum(found.values())
        done += found.get("verified", 0)
        assert done == verified(integrity)
        if done == COUNT:
            break
        assert MIB <= get_number(result.summary, "bytes_read") < 4 * MIB
    assert COUNT == done


def test_time_limit_stops(root: Path, integrity: Box) -> None:
    """With a rate of two files a second and a second of time few are verified, the rest is not due, exit 0."""
    result = integrity.run("--json", "scrub", root, "--rate", "200K", "--time-limit", "1s", "--jobs", "1", expect=0)
    found = tallies(result)
    assert {"verified", "not_due"} == set(found)
    assert COUNT == sum(found.values())
    assert 1 <= found["verified"] < COUNT // 2
    assert found["verified"] == verified(integrity)


def test_time_limit_inside_a_large_file(tmp_path: Path, integrity: Box) -> None:
    """A limit that strikes inside a file stops there, and the file is not due."""
    root = tmp_path / "root"
    root.mkdir()
    put(root / "large.bin", os.urandom(70 * MIB))
    integrity.configure(f'[[root]]\npath = "{root}"\nblock_size = "64KiB"\n')
    integrity.run("scan", expect=0)
    result = integrity.run("--json", "scrub", "--rate", "20M", "--time-limit", "1s", expect=0)
    assert {"not_due": 1} == tallies(result)
    assert {"verified": 1} == tallies(integrity.run("--json", "scrub", expect=0))


def test_rate_holds(root: Path, integrity: Box) -> None:
    """4 MB at 2 MiB a second take almost two seconds, whatever is cached."""
    began = time.monotonic()
    result = integrity.run("--json", "scrub", root, "--rate", "2M", expect=0)
    took = time.monotonic() - began
    assert {"verified": COUNT} == tallies(result)
    expected = COUNT * SIZE / (2 * MIB)
    assert expected - 0.5 <= float(str(result.summary["duration_s"]))
    assert took < expected + 10


def test_rate_holds_inside_a_large_file(tmp_path: Path, integrity: Box) -> None:
    """A single file of several buffers is slowed down as well."""
    root = tmp_path / "root"
    root.mkdir()
    put(root / "large.bin", os.urandom(20 * MIB))
    integrity.run("scan", root, expect=0)
    result = integrity.run("--json", "scrub", root, "--rate", "10M", expect=0)
    assert {"verified": 1} == tallies(result)
    assert 1.4 <= float(str(result.summary["duration_s"])) < 15


def test_new_reads_what_was_never_verified(root: Path, integrity: Box) -> None:
    """--new takes what was recorded since the last scrub, also what its own scan has just recorded."""
    integrity.run("scrub", root, expect=0)
    assert {"not_due": COUNT} == tallies(integrity.run("--json", "scrub", root, "--new", expect=0))
    put(root / "fresh.txt")
    assert {"verified": 1, "not_due": COUNT} == tallies(integrity.run("--json", "scrub", root, "--new", expect=0))


def test_no_scan_leaves_what_is_not_recorded(root: Path, integrity: Box) -> None:
    """--no-scan verifies what is recorded and does not know of anything else."""
    put(root / "fresh.txt")
    assert {"verified": COUNT} == tallies(integrity.run("--json", "scrub", root, "--no-scan", expect=0))
    assert {"new": 1, "not_due": COUNT} == tallies(integrity.run("--json", "scan", root, expect=0))


def test_due_and_older_than_go_by_the_clock(root: Path, integrity: Box, shims: Shims, tmp_path: Path) -> None:
    """--due asks the promise, --older-than a duration; the clock starts at recording."""
    clock = tmp_path / "clock"
    for option in (("--due",), ("--older-than", "10d")):
        assert {"not_due": COUNT} == tallies(integrity.run("--json", "scrub", root, *option, expect=0))
    later = shims.clock(clock, 11 * 86_400)
    assert {"not_due": COUNT} == tallies(integrity.run("--json", "scrub", root, "--due", env=later))
    some = integrity.run("--json", "scrub", root / "d1", "--older-than", "10d", env=later)
    assert {"verified": 6} == tallies(some)
    rest = integrity.run("--json", "scrub", root, "--older-than", "10d", env=later)
    assert {"verified": COUNT - 6, "not_due": 6} == tallies(rest)
    assert {"not_due": COUNT} == tallies(integrity.run("--json", "scrub", root, "--older-than", "10d", env=later))
    much_later = shims.clock(clock, 42 * 86_400)
    due = integrity.run("--json", "scrub", root, "--due", env=much_later)
    assert (0, {"verified": COUNT}) == (due.code, tallies(due))


def test_overdue_files_come_first(root: Path, integrity: Box, shims: Shims, tmp_path: Path) -> None:
    """What the promise asks for is read before anything younger, whatever the limit."""
    later = shims.clock(tmp_path / "clock", 31 * 86_400)
    put(root / "fresh.bin", os.urandom(MIB))
    integrity.run("scan", root, env=later)
    result = integrity.run("--json", "scrub", root, "--percent", "79", env=later)
    assert (0, {"verified": COUNT, "not_due": 1}) == (result.code, tallies(result))
    assert [] == query(integrity, "SELECT 1 FROM file WHERE size_bytes = ? AND verified_at IS NOT NULL", [MIB])


def test_options_that_exclude_each_other_are_2(root: Path, integrity: Box) -> None:
    """What can't be meant together is refused, and nothing is read."""
    for options in (("--due", "--new"), ("--all", "--older-than", "1d"), ("--percent", "0"), ("--rate", "0")):
        integrity.run("scrub", root, *options, expect=2)
    assert 0 == verified(integrity)
