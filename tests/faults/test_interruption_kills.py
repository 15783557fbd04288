"""kill -9 between any two writes: the next run completes, and ends where an undisturbed one would have ended (R7)."""

from __future__ import annotations

import os
import re
import shutil
import sqlite3
import subprocess
from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from support.cli import Box, make_command
from support.killpoints import sleep_into_next_second
from support.planted import age, plant, plant_path
from support.proc import find_moments, kill_after, signal_at
from support.results import tallies
from support.shapes import put
from support.stored import baselines

WRITES = ("unlink", "rename", "fsync", "fdatasync", "pwrite64", "ftruncate")
MOMENTS = 8


def make_tree(folder: Path) -> Path:
    """Plant small files, and one of several blocks."""
    root = plant(folder, 42, size_bytes=700)
    put(root / "large.bin", os.urandom(3 << 20))
    return root


def change_tree(root: Path) -> None:
    """Edit, remove, move and add files."""
    for number in range(5):
        put(plant_path(root, number), b"edited %d" % number)
    for number in range(5, 9):
        plant_path(root, number).unlink()
    for number in range(9, 12):
        plant_path(root, number).rename(root / f"moved{number}.txt")
    plant(root / "new", 9)
    put(root / "large.bin", os.urandom(2 << 20))
    age(*(path for path in root.rglob("*") if path.is_file()))


def dump(integrity: Box) -> tuple[object, ...]:
    """Return all that a later verdict could rest on: baselines, history, open findings, what waits."""
    with closing(sqlite3.connect(integrity.catalog)) as db:
        return (
            baselines(integrity.catalog),
            sorted(db.execute("SELECT path, size_bytes, mtime_ns, md5, version, replaced_because FROM history")),
            sorted(db.execute("SELECT path, kind FROM finding WHERE state <> 'resolved'")),
            db.execute("SELECT count(*) FROM candidate").fetchall(),
            db.execute("SELECT count(*) FROM checkpoint").fetchall(),
            sorted(db.execute("SELECT path, file_count FROM root")),
        )


def find_calls(box: Box, *args: object) -> list[tuple[str, int]]:
    """List the writing system calls of an undisturbed run: the name of each, and which of that name it is."""
    log = box.home / "calls"
    command = ["strace", "-f", "-qq", "-o", os.fspath(log), "-e", f"trace={','.join(WRITES)}"]
    argv = [*command, *make_command(*(str(arg) for arg in args))]
    subprocess.run(argv, env=box.environment, stdin=subprocess.DEVNULL, capture_output=True, check=True)
    counts: Counter[str] = Counter()
    calls = []
    for line in log.read_text(errors="replace").splitlines():
        found = re.match(r"(?:\d+ +)?(\w+)\(", line)
        if found is not None:
            counts[found[1]] += 1
            calls.append((found[1], counts[found[1]]))
    return calls


def kill_everywhere(before: Box, home: Path, *args: object) -> Iterator[Box]:
    """Yield copies of a box whose run was killed at moments spread over its writes; first the undisturbed one."""
    undisturbed = before.copy_to(home / "undisturbed")
    calls = find_calls(undisturbed, *args)
    yield undisturbed
    killed = 0
    for index in range(MOMENTS):
        box = before.copy_to(home / f"killed{index}")
        call, nth = calls[index * len(calls) // MOMENTS]
        command = make_command(*(str(arg) for arg in args))
        killed += signal_at(command, call, nth, env=box.environment).was_killed
        yield box
    assert killed >= MOMENTS // 2  # calls are counted for each thread by itself


@pytest.mark.root("strace")
def test_scan_that_is_killed_at_any_write(integrity: Box, tmp_path: Path) -> None:
    """Edits, removals, moves and new files end in the same rows, each change once in history."""
    root = make_tree(tmp_path / "root")
    integrity.run("scan", root, expect=0)
    change_tree(root)
    boxes = kill_everywhere(integrity, tmp_path, "scan", root)
    expected = dump(next(boxes))
    for box in boxes:
        result = box.run("--json", "scan", root, expect=0)
        assert tallies(result)
        assert expected == dump(box)
        assert 0 == box.run("catalog", "check").code
        shutil.rmtree(box.home)


@pytest.mark.root("strace")
def test_first_scan_that_is_killed_at_any_write(integrity: Box, tmp_path: Path) -> None:
    """A catalog that was just being made is made by the next scan, whatever is left of the first one."""
    root = make_tree(tmp_path / "root")
    change_tree(root)
    assert integrity.environment
    boxes = kill_everywhere(integrity, tmp_path, "scan", root)
    expected = dump(next(boxes))
    for box in boxes:
        box.run("scan", root, expect=0)
        assert expected == dump(box)
        assert 0 == box.run("catalog", "check").code
        shutil.rmtree(box.home)


@pytest.mark.root("strace")
def test_scrub_that_is_killed_at_any_write(integrity: Box, tmp_path: Path) -> None:
    """A scrub that records, judges and settles ends in the same rows, everything verified."""
    root = make_tree(tmp_path / "root")
    integrity.run("scan", root, expect=0)
    change_tree(root)
    boxes = kill_everywhere(integrity, tmp_path, "scrub", root)
    undisturbed = next(boxes)
    undisturbed.run("scrub", root, expect=0)
    expected = dump(undisturbed)
    for box in boxes:
        for _ in range(2):
            result = box.run("--json", "scrub", root, expect=0)
            assert tallies(result)
        assert expected == dump(box)
        assert 0 == box.run("catalog", "check").code
        shutil.rmtree(box.home)


def test_scans_that_are_killed_at_random_moments(integrity: Box, tmp_path: Path) -> None:
    """Ten scans and scrubs in a row that are killed somewhere add up to an undisturbed one."""
    root = make_tree(tmp_path / "root")
    integrity.run("scan", root, expect=0)
    change_tree(root)
    undisturbed = integrity.copy_to(tmp_path / "undisturbed")
    undisturbed.run("scan", root, expect=0)
    undisturbed.run("scrub", root, expect=0)
    for number, moment in enumerate(find_moments(10, 1.2)):
        kill_after(make_command("scrub" if number % 2 else "scan", root), moment, env=integrity.environment)
    integrity.run("scan", root, expect=0)
    integrity.run("scrub", root, expect=0)
    assert dump(undisturbed) == dump(integrity)
    assert 0 == integrity.run("catalog", "check").code


@pytest.mark.root("strace")
@pytest.mark.parametrize("words", [("scan",), ("catalog", "backup")])
def test_file_that_was_being_made_is_not_left_for_good(integrity: Box, tmp_path: Path, words: tuple[str, ...]) -> None:
    """A new catalog and a backup have a passing name until they are whole; who makes the next one removes it."""
    root = make_tree(tmp_path / "root")
    if words != ("scan",):
        integrity.run("scan", root, expect=0)
    before = set(os.listdir(integrity.home)) if integrity.home.exists() else set()
    command = make_command(*words, *([root] if words == ("scan",) else []))
    nth = next(
        nth
        for nth in range(3, 60, 3)
        if signal_at(command, "pwrite64", nth, env=integrity.environment).was_killed
        and any(".new-" in name or name.endswith(".partial") for name in set(os.listdir(integrity.home)) - before)
    )
    assert nth
    sleep_into_next_second()
    integrity.run(*words, *([root] if words == ("scan",) else []), expect=0)
    assert [] == [name for name in os.listdir(integrity.home) if ".new-" in name or ".partial" in name]
