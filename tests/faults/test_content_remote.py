"""File systems that can't be trusted with times and inodes (FUSE, standing for NFS): less sure, never blind."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from support.cli import Box
from support.faultfs import FaultFS, Rule
from support.results import met, notes, tallies
from support.shapes import put

pytestmark = pytest.mark.root

PAST_NS = 1_600_000_000 * 10**9
MIB = 1 << 20


@pytest.fixture
def source(tmp_path: Path, faulty: FaultFS) -> Path:
    for name, size in (("small", 9_000), ("large", 3 * MIB), ("same", 5_000)):
        put(tmp_path / "source" / name, os.urandom(size))
        os.utime(tmp_path / "source" / name, ns=(PAST_NS, PAST_NS))
    return tmp_path / "source"


def test_flip_without_a_ctime_to_trust(source: Path, faulty: FaultFS, integrity: Box) -> None:
    """Content that differs under the same mtime is rot, and no_ctime: a quiet rewrite is not excluded."""
    integrity.run("scan", faulty.folder, expect=0)
    integrity.run("scrub", faulty.folder, expect=0)
    rules = [
        faulty.add(Rule("read", path="/small", flip=5_000)),
        faulty.add(Rule("read", path="/large", flip=2 * MIB + 5, bit=7)),
    ]

    done = integrity.run("--json", "scrub", faulty.folder, expect=1)

    found = {os.path.basename(str(one["path"])): one for one in done.findings}
    assert {("rot", "no_ctime")} == {(one["kind"], one["certainty"]) for one in done.findings}
    assert ([0], [2]) == (found["small"]["blocks"], found["large"]["blocks"])
    assert "restored the old time" in str(found["small"]["message"])
    for rule in rules:
        faulty.clear(rule)
    assert {"verified": 3} == tallies(integrity.run("--json", "scrub", faulty.folder, expect=0))
    integrity.run("findings", expect=0)


def test_errors_that_go_away(source: Path, faulty: FaultFS, integrity: Box) -> None:
    """EIO and ESTALE make files unreadable, to the byte where it is known; when it is over, so are the findings."""
    integrity.run("scan", faulty.folder, expect=0)
    integrity.run("scrub", faulty.folder, expect=0)
    faulty.add(Rule("read", path="/large", errno=errno.EIO, offset=MIB, length=4096))
    faulty.add(Rule("open", path="/small", errno=errno.ESTALE))

    done = integrity.run("--json", "scrub", faulty.folder, expect=3)

    found = {os.path.basename(str(one["path"])): one for one in done.findings}
    assert ({"unreadable": 2, "verified": 1}, {"small", "large"}) == (tallies(done), set(found))
    assert ([[MIB, 4096]], []) == (found["large"]["ranges"], found["small"]["ranges"])
    faulty.clear()
    assert {"verified": 3} == tallies(integrity.run("--json", "scrub", faulty.folder, expect=0))
    integrity.run("findings", expect=0)


def test_edits_moves_and_links(source: Path, faulty: FaultFS, integrity: Box) -> None:
    """Where inodes can't be trusted a move is known by content, an edit by its mtime, and a chmod is nothing."""
    integrity.run("scan", faulty.folder, expect=0)
    integrity.run("scrub", faulty.folder, expect=0)
    os.rename(faulty.folder / "large", faulty.folder / "renamed")
    put(faulty.folder / "small", b"edited")
    os.chmod(faulty.folder / "same", 0o600)
    os.link(faulty.folder / "same", faulty.folder / "linked")

    scan = integrity.run("--json", "scan", faulty.folder, expect=0)

    assert {"new": 2, "changed": 1, "not_due": 1, "moved": 1} == tallies(scan)
    assert [str(faulty.folder / "renamed")] == notes(scan, "moved")
    done = integrity.run("--json", "scrub", faulty.folder, expect=0)
    assert ({"verified": 4}, []) == (tallies(done), met(done))


def test_file_that_ends_early(source: Path, faulty: FaultFS, integrity: Box) -> None:
    """A file that is shorter than stat says is neither good nor damaged."""
    integrity.run("scan", faulty.folder, expect=0)
    integrity.run("scrub", faulty.folder, expect=0)
    faulty.add(Rule("read", path="/large", eof=MIB))

    done = integrity.run("--json", "scrub", faulty.folder, expect=3)

    assert ({"unstable": 1, "verified": 2}, []) == (tallies(done), met(done))
