"""Copies on the same file system, and copies that share the very data with the files: what takes one, takes both."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from support.cli import Box, Completed
from support.comparing import back_up, compare
from support.loopfs import LoopFS
from support.planted import age
from support.shapes import put, put_clone

pytestmark = pytest.mark.root

MIB = 1 << 20


def fill(root: Path) -> Path:
    """Make two small files and a large one."""
    root.mkdir(exist_ok=True)
    for name, size in (("one", 50_000), ("two", 60_000), ("large", 3 * MIB)):
        put(root / name, os.urandom(size))
    os.sync()
    age(root / "large")
    return root


def warnings(done: Completed) -> str:
    return "\n".join(str(note["message"]) for note in done.of_type("note") if note["kind"] == "warning")


def test_btrfs_snapshot_as_a_copy(btrfs: LoopFS, integrity: Box) -> None:
    """A snapshot lies on the same disk, and shares all data until one side is written to."""
    root = btrfs.folder / "data"
    subprocess.run(["btrfs", "-q", "subvolume", "create", root], check=True)
    fill(root)
    snapshot = btrfs.folder / "snapshot"
    subprocess.run(["btrfs", "-q", "subvolume", "snapshot", "-r", root, snapshot], check=True)
    done = compare(integrity, root, "--with", snapshot, expect=0)
    assert "lies on the same file system: what takes one, takes both" in warnings(done)
    assert f"3 of 3 files of the copy {snapshot} share their data on the disk with yours" in warnings(done)
    assert 3 == done.summary["files_shared"]


@pytest.mark.parametrize("fs_type", ["btrfs", "xfs"])
def test_reflinked_folder_as_a_copy(fs_type: str, request: pytest.FixtureRequest, integrity: Box) -> None:
    """Files that share their data are counted, also if the copy of a large one was written to at its beginning."""
    fs: LoopFS = request.getfixturevalue(fs_type)
    root = fill(fs.folder / "data")
    copy = fs.folder / "copy"
    copy.mkdir()
    for name in ("one", "large"):
        put_clone(root / name, copy / name)
    put(copy / "two", (root / "two").read_bytes())
    with open(copy / "large", "r+b") as file:
        file.write(os.urandom(5000))
    os.sync()
    done = compare(integrity, root, "--with", copy, expect=1)
    assert 2 == done.summary["files_shared"]
    assert f"2 of 3 files of the copy {copy} share" in warnings(done)


def test_plain_copy_shares_nothing(btrfs: LoopFS, integrity: Box, tmp_path: Path) -> None:
    """A copy whose data was written anew is on the same disk only; one on another disk is neither."""
    root = fill(btrfs.folder / "data")
    for name in root.iterdir():
        copy = btrfs.folder / "copy"
        copy.mkdir(exist_ok=True)
        put(copy / name.name, name.read_bytes())
    os.sync()
    done = compare(integrity, root, "--with", copy, expect=0)
    assert 0 == done.summary["files_shared"]
    assert "lies on the same file system" in warnings(done)
    assert "share" not in warnings(done)
    elsewhere = compare(integrity, root, "--with", back_up(root, tmp_path / "copy"), expect=0)
    assert "same file system" not in warnings(elsewhere)
