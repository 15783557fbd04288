"""Names and kinds of every sort: each file is recorded, verified and reported under exactly the name it has."""

from __future__ import annotations

import base64
import os
import time
from pathlib import Path

import pytest

from support.bitrot import rot
from support.cli import Box
from support.loopfs import LoopFS
from support.nastytree import NAMES, nasty_tree
from support.results import kinds, notes, tallies
from support.shapes import put, put_deep


@pytest.mark.root
def test_tree_of_everything(ext4: LoopFS, integrity: Box) -> None:
    """Nasty names, depths, kinds, modes, times and holes: all regular files recorded and verified, nothing hangs."""
    root = ext4.folder / "nasty"
    with nasty_tree(root, has_huge=True, has_cycles=True) as things:
        began = time.monotonic()
        scan = integrity.run("--json", "scan", root, expect=0)
        assert time.monotonic() - began < 30
        regular = sum(thing.is_file for thing in things) + 2  # and one at the end of each deep path
        assert regular == tallies(scan)["new"]
        special = {
            os.fsdecode(thing.path) for thing in things if thing.kind.startswith(("FIFO", "socket", "character"))
        }
        assert special <= set(map(str, notes(scan, "skipped")))
        again = integrity.run("--json", "scan", root, expect=0)
        assert (regular, 0) == (tallies(again)["not_due"], again.summary["bytes_read"])
        began = time.monotonic()
        scrub = integrity.run("--json", "scrub", root, expect=0)
        assert time.monotonic() - began < 30
        assert ([], regular) == (scrub.findings, tallies(scrub)["verified"])
        assert scan.summary["files_skipped"] == scrub.summary["files_skipped"]


@pytest.mark.root
def test_rot_under_every_name(data: Path, integrity: Box) -> None:
    """Damage is reported under exactly the name it has, whatever bytes that is, and explained and accepted by it."""
    odd = [name for name in NAMES if b"/" not in name]
    for name in odd:
        put(os.path.join(os.fsencode(data), name), os.urandom(5_000))
    os.mkdir(os.path.join(os.fsencode(data), b"deep"))
    put_deep(data / "deep", 30, b"d" * 200)
    integrity.run("scan", data, expect=0)
    for name in odd:
        rot(os.path.join(os.fsencode(data), name), 4_096)

    done = integrity.run("--json", "scrub", data, expect=1)

    found = set()
    for one in done.findings:
        encoded = one.get("path_b64")
        path = base64.b64decode(encoded) if isinstance(encoded, str) else str(one["path"]).encode()
        found.add(os.path.basename(path))
    assert (set(odd), {"rot"}) == (found, set(kinds(done)))
    assert {"damaged": len(odd), "verified": 1} == tallies(done)
    for name in odd:
        integrity.run("explain", os.path.join(os.fsencode(data), name), expect=1)
    human = integrity.run("-v", "findings", expect=1)
    assert len(odd) + 2 == len(human.stdout.splitlines())  # and how many they are, and where more stands
    assert "\x1b" not in human.stdout
    paths = [os.path.join(os.fsencode(data), name) for name in odd]
    integrity.run("accept", "--reason", "all of them", "--", *paths, expect=0)
    assert {"verified": len(odd) + 1} == tallies(integrity.run("--json", "scrub", data, expect=0))
