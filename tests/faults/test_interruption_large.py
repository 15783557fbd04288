"""Large files that are read in parts: where one run stopped the next goes on, the digests are none the worse (R7)."""

from __future__ import annotations

import hashlib
import os
import signal
from pathlib import Path

import pytest

from support.bitrot import flip_bit
from support.cli import Box
from support.faultfs import FaultFS, Rule
from support.loopfs import LoopFS
from support.planted import age
from support.results import get_number, kinds, tallies
from support.running import Running
from support.shapes import put_large
from support.stored import query, rewrite
from support.waiting import wait_until

pytestmark = pytest.mark.root

MIB = 1 << 20
SIZE = 104 * MIB + 12_345


@pytest.fixture
def large(faulty: FaultFS, integrity: Box, tmp_path: Path) -> Path:
    """Write a large file and have small blocks, so that a checkpoint comes every 64 MiB."""
    integrity.configure(f'[[root]]\npath = "{faulty.folder}"\nblock_size = "64KiB"\n')
    put_large(tmp_path / "source" / "large.img", SIZE)
    age(tmp_path / "source" / "large.img")
    return faulty.folder / "large.img"


def stop_within(faulty: FaultFS, integrity: Box, *args: str, offset: int, number: signal.Signals) -> int:
    """Let a run stop behind an offset of the large file; return its exit code."""
    rule = faulty.add(Rule("read", path="/large.img", offset=offset, length=MIB, is_hung=True))
    seen = len(faulty.get_fired())
    with Running(integrity, *args, faulty.folder) as running:
        wait_until(lambda: len(faulty.get_fired()) > seen, "the place to hang")
        running.signal(number)
        slow = faulty.add(Rule("read", path="/large.img", delay_s=0.1))  # or it may be at the end before it has stopped
        faulty.clear(rule)
        code = running.finish().code
        faulty.clear(slow)
        return code


@pytest.mark.long
def test_checkpoint_is_void_when_the_file_changed(faulty: FaultFS, integrity: Box, large: Path) -> None:
    """A file that was edited between two windows is read from its beginning."""
    stop_within(faulty, integrity, "scan", offset=84 * MIB, number=signal.SIGINT)
    with open(large, "r+b") as file:
        file.seek(MIB)
        file.write(b"edited")
    age(large)
    result = integrity.run("--json", "scan", large.parent, expect=0)
    assert SIZE == result.summary["bytes_read"]
    ((md5,),) = query(integrity, "SELECT md5 FROM file")
    with open(large, "rb") as file:
        assert hashlib.file_digest(file, "md5").digest() == md5
    assert {"verified": 1} == tallies(integrity.run("--json", "scrub", large.parent, expect=0))


def test_checkpoint_that_lacks_blocks_is_none(faulty: FaultFS, integrity: Box, large: Path) -> None:
    """A stored MD5 state without all blocks that it goes with is not gone on with."""
    stop_within(faulty, integrity, "scan", offset=84 * MIB, number=signal.SIGINT)
    assert 1 == rewrite(integrity, "UPDATE checkpoint SET offset_bytes = offset_bytes - 65536")
    result = integrity.run("--json", "scan", large.parent, expect=0)
    assert SIZE == result.summary["bytes_read"]
    assert {"verified": 1} == tallies(integrity.run("--json", "scrub", large.parent, expect=0))


@pytest.mark.long
def test_reading_that_began_anew_and_was_stopped_again(faulty: FaultFS, integrity: Box, large: Path) -> None:
    """Blocks of a checkpoint that was void are not counted together with those of the reading that took its place."""
    stop_within(faulty, integrity, "scan", offset=84 * MIB, number=signal.SIGINT)
    assert rewrite(integrity, "DELETE FROM checkpoint_run")
    stop_within(faulty, integrity, "scan", offset=76 * MIB, number=signal.SIGINT)
    result = integrity.run("--json", "scan", large.parent, expect=0)
    assert get_number(result.summary, "bytes_read") < SIZE - 64 * MIB
    assert 0 == integrity.run("catalog", "check").code
    assert {"verified": 1} == tallies(integrity.run("--json", "scrub", "--deep", large.parent, expect=0))


def test_verification_goes_on_where_it_stopped(faulty: FaultFS, integrity: Box, large: Path) -> None:
    """A scrub that was stopped inside a file goes on there."""
    integrity.run("scan", large.parent, expect=0)
    assert 130 == stop_within(faulty, integrity, "scrub", offset=84 * MIB, number=signal.SIGINT)
    assert [] == query(integrity, "SELECT 1 FROM file WHERE verified_at IS NOT NULL")
    result = integrity.run("--json", "scrub", large.parent, expect=0)
    assert {"verified": 1} == tallies(result)
    # Where it was stopped, a piece of 8 MiB was being read, which may have come all the same.
    assert SIZE - 90 * MIB <= get_number(result.summary, "bytes_read") <= SIZE - 74 * MIB
    assert [] == query(integrity, "SELECT 1 FROM checkpoint")
    assert SIZE == integrity.run("--json", "scrub", large.parent, expect=0).summary["bytes_read"]


def test_rot_before_the_stop_is_found_by_the_window_after_it(integrity: Box) -> None:
    """Blocks that did not match before a limit stopped the scrub are told when the file has been read to its end."""
    with LoopFS("ext4", size_bytes=250 * MIB) as fs:
        root = fs.folder / "root"
        root.mkdir()
        integrity.configure(f'[[root]]\npath = "{root}"\nblock_size = "64KiB"\n')
        put_large(root / "large.img", SIZE)
        age(root / "large.img")
        os.sync()
        integrity.run("scan", expect=0)
        flip_bit(os.fsencode(root / "large.img"), 10 * MIB, 1)
        flip_bit(os.fsencode(root / "large.img"), 95 * MIB, 1)
        found = []
        for _ in range(4):
            result = integrity.run("--json", "scrub", "--byte-limit", "60M")
            found += result.findings
            if result.findings:
                break
            assert 0 == result.code
            assert {"not_due": 1} == tallies(result)
        assert ["rot"] == [one["kind"] for one in found]
        assert [160, 1520] == found[0]["blocks"]
        result = integrity.run("--json", "scrub")
        assert ["rot"] == kinds(result)
