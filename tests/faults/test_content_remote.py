"""A file system that a server answers for (FUSE, standing for NFS), when it loses files and ends of files a while."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from support.cli import Box
from support.faultfs import FaultFS, Rule
from support.results import met, tallies
from support.shapes import put

pytestmark = pytest.mark.root


@pytest.mark.parametrize("rule", [Rule("open", path="/bad", errno=errno.ESTALE), Rule("read", path="/bad", eof=5_000)])
def test_errors_that_go_away(tmp_path: Path, faulty: FaultFS, integrity: Box, rule: Rule) -> None:
    """ESTALE makes a file unreadable; one that ends before its size is neither good nor damaged; both may be over."""
    for name in ("bad", "same"):
        put(tmp_path / "source" / name, os.urandom(9_000))
    integrity.run("scrub", faulty.folder, expect=0)
    faulty.add(rule)

    done = integrity.run("--json", "scrub", faulty.folder, expect=3)

    if rule.errno:
        assert ({"unreadable": 1, "verified": 1}, [("unreadable", str(faulty.folder / "bad"))]) == (
            tallies(done),
            met(done),
        )
    else:
        assert ({"unstable": 1, "verified": 1}, []) == (tallies(done), met(done))
    faulty.clear()
    assert {"verified": 2} == tallies(integrity.run("--json", "scrub", faulty.folder, expect=0))
    integrity.run("findings", expect=0)
