"""Comparisons that are cut short inside a large file, and what is remembered of readings."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

from support.cli import Box, Completed
from support.faultfs import FaultFS, Rule
from support.planted import age
from support.results import get_number, kinds, tallies
from support.running import Running
from support.shapes import put_large
from support.stored import query, rewrite
from support.waiting import wait_until

MIB = 1 << 20
SIZE = 104 * MIB + 12_345


@pytest.fixture
def root(integrity: Box, tmp_path: Path) -> Path:
    """Record a large file in small blocks, so that the reading of its copy is remembered every 64 MiB."""
    root = tmp_path / "root"
    root.mkdir()
    integrity.configure(f'[[root]]\npath = "{root}"\nblock_size = "64KiB"\n')
    put_large(root / "large.img", SIZE)
    age(root / "large.img")
    integrity.run("scan", root, expect=0)
    return root


@pytest.fixture
def copy(faulty: FaultFS, root: Path, tmp_path: Path) -> Path:
    """Copy it to a disk that can be made to hang."""
    assert root.exists()
    put_large(tmp_path / "source" / "large.img", SIZE)
    age(tmp_path / "source" / "large.img")
    return faulty.folder


def stop_within(faulty: FaultFS, integrity: Box, root: Path, copy: Path, number: signal.Signals) -> Completed:
    """Stop a comparison behind 84 MiB of the copy."""
    rule = faulty.add(Rule("read", path="/large.img", offset=84 * MIB, length=MIB, is_hung=True))
    seen = len(faulty.get_fired())
    with Running(integrity, "--json", "compare", root, "--with", copy) as running:
        wait_until(lambda: len(faulty.get_fired()) > seen, "the place to hang")
        if number is signal.SIGINT:  # else the run may be at its end before it hears of that
            running.signal_and_wait(number)
        else:  # which waits for the disk
            running.signal(number)
        faulty.clear(rule)
        return running.finish()


@pytest.mark.root
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
def test_comparison_goes_on_where_it_stopped(
    faulty: FaultFS, integrity: Box, root: Path, copy: Path, number: signal.Signals
) -> None:
    """After Ctrl-C or a kill the next comparison reads the rest of the copy only, and nothing is left of the first."""
    stopped = stop_within(faulty, integrity, root, copy, number)
    if number is signal.SIGINT:
        assert 130 == stopped.code
        assert 64 * MIB <= get_number(stopped.summary, "bytes_read") <= SIZE  # a part that was read counts
    result = integrity.run("--json", "compare", root, "--with", copy, expect=0)
    assert {"verified": 1} == tallies(result)
    assert 0 < get_number(result.summary, "bytes_read") <= SIZE - 64 * MIB
    assert [] == query(integrity, "SELECT 1 FROM copy_reading")


@pytest.mark.root
def test_damage_before_the_place_where_it_stopped_is_not_forgotten(
    faulty: FaultFS, integrity: Box, root: Path, copy: Path, tmp_path: Path
) -> None:
    """A block that differed in the first part is told with the second."""
    with open(tmp_path / "source" / "large.img", "r+b") as file:
        file.seek(10 * MIB)
        file.write(b"damaged")
    stop_within(faulty, integrity, root, copy, signal.SIGKILL)
    result = integrity.run("--json", "compare", root, "--with", copy, expect=1)
    assert ["copy_newer"] == kinds(result)
    assert [10 * MIB // 65536] == result.findings[0]["blocks"]


@pytest.mark.root
@pytest.mark.parametrize("change", ["baseline", "copy"])
def test_what_was_read_is_void_when_either_side_moved(
    faulty: FaultFS, integrity: Box, root: Path, copy: Path, tmp_path: Path, change: str
) -> None:
    """Of another version of the file, or another version of the copy, nothing is gone on with."""
    stop_within(faulty, integrity, root, copy, signal.SIGKILL)
    assert 1 == len(query(integrity, "SELECT 1 FROM copy_reading"))
    if change == "baseline":
        with open(root / "large.img", "r+b") as file:
            file.write(b"edited at its beginning")
        age(root / "large.img")
        integrity.run("scan", root, expect=0)
    else:
        with open(tmp_path / "source" / "large.img", "r+b") as file:
            file.write(b"edited at its beginning")
    result = integrity.run("--json", "compare", root, "--with", copy)
    assert SIZE <= get_number(result.summary, "bytes_read")
    assert kinds(result) == {"baseline": ["copy_stale"], "copy": ["copy_newer"]}[change]


def test_damaged_digests_of_the_beginning_say_nothing_of_the_copy(integrity: Box, root: Path, tmp_path: Path) -> None:
    """A part whose recorded digests can't be relied on is not the same by its other parts."""
    copy = tmp_path / "copy"
    copy.mkdir()
    put_large(copy / "large.img", SIZE)
    age(copy / "large.img")
    rewrite(integrity, "UPDATE block_run SET xxh3_128 = zeroblob(16384) WHERE run = 0")
    result = integrity.run("--json", "compare", root, "--with", copy)
    assert result.code in (1, 3)
    assert "verified" not in tallies(result)
    assert "copy_differs" not in kinds(result)
