"""The same truths with other block sizes, digests and cores; and not a trace left in the trees that are watched."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

import pytest

from support.bitrot import rot
from support.cli import Box
from support.loopfs import LoopFS
from support.results import met, tallies
from support.shapes import put, put_sparse

KIB, MIB = 1 << 10, 1 << 20

pytestmark = pytest.mark.root

SETTINGS = pytest.mark.parametrize(
    ("block", "digests", "native"),
    [
        (64 * KIB, '["md5", "xxh3_128"]', ""),
        (64 * MIB, '["md5", "xxh3_128", "blake3"]', ""),
        (MIB, '["md5", "xxh3_128", "blake3"]', "off"),
        (64 * KIB, '["md5", "xxh3_128"]', "off"),
    ],
)
PAST_NS = 1_600_000_000 * 10**9


@SETTINGS
def test_whole_cycle(data: Path, integrity: Box, block: int, digests: str, native: str) -> None:
    """Record, verify, find rot in its blocks, tell an edit and a quiet rewrite from it, accept: with any settings."""
    env = {"INTEGRITY_NATIVE": native}
    integrity.configure(f"[defaults]\nblock_size = {block}\ndigests = {digests}\n")
    sizes = {
        "empty": 0,
        "one": 1,
        "block": min(block, 9 * MIB),
        "large": 9 * MIB + 777,
        "edited": 5 * MIB,
        "quiet": MIB,
    }
    for name, size in sizes.items():
        put(data / name, os.urandom(size))
        os.utime(data / name, ns=(PAST_NS, PAST_NS))
    os.sync()
    assert {"new": 6} == tallies(integrity.run("--json", "scan", data, env=env, expect=0))
    assert {"verified": 6} == tallies(integrity.run("--json", "scrub", "--deep", data, env=env, expect=0))
    known = integrity.get_object("file", "explain", data / "large", env=env)
    found = known["digests"]
    assert isinstance(found, dict)
    assert hashlib.md5((data / "large").read_bytes()).hexdigest() == found["md5"]
    assert ("blake3" in digests) == (found["blake3"] is not None)
    rot(data / "large", 9 * MIB + 770)
    rot(data / "large", 4 * MIB + 1)
    put(data / "edited", os.urandom(6 * MIB))
    with open(data / "quiet", "r+b") as file:
        first = file.read(1)[0]
        file.seek(0)
        file.write(bytes([first ^ 1]))
    os.utime(data / "quiet", ns=(PAST_NS, PAST_NS))

    done = integrity.run("--json", "scrub", data, env=env, expect=1)

    assert {("rot", str(data / "large")), ("silent_rewrite", str(data / "quiet"))} == set(met(done))
    assert {"verified": 3, "changed": 1, "damaged": 2} == tallies(done)
    (rotten,) = [one for one in done.findings if one["kind"] == "rot"]
    bad = sorted({4 * MIB // block, 9 * MIB // block})
    assert bad == rotten["blocks"]
    assert "proven" == rotten["certainty"]
    integrity.run("accept", data / "large", data / "quiet", "--reason", "test", env=env, expect=0)
    assert {"verified": 6} == tallies(integrity.run("--json", "scrub", "--deep", data, env=env, expect=0))
    other = {"INTEGRITY_NATIVE": "" if native == "off" else "off"}
    assert {"verified": 6} == tallies(integrity.run("--json", "scrub", "--deep", data, env=other, expect=0))


def test_block_size_that_was_changed_since(data: Path, integrity: Box) -> None:
    """Files keep the blocks that they were recorded with: a new setting is for new files, and no cause for alarm."""
    put(data / "small", os.urandom(300 * KIB))
    put(data / "large", os.urandom(3 * MIB))
    integrity.run("scan", data, expect=0)
    integrity.run("scrub", data, expect=0)
    integrity.configure("[defaults]\nblock_size = 65536\n")
    put(data / "new", os.urandom(300 * KIB))

    assert {"verified": 3} == tallies(integrity.run("--json", "scrub", data, expect=0))
    integrity.configure('[defaults]\nblock_size = "64MiB"\ndigests = ["md5", "xxh3_128", "blake3"]\n')
    assert {"verified": 3} == tallies(integrity.run("--json", "scrub", data, expect=0))
    for name in ("small", "large", "new"):
        rot(data / name, 70 * KIB)
    done = integrity.run("--json", "scrub", data, expect=1)
    blocks = {os.path.basename(str(one["path"])): one["blocks"] for one in done.findings}
    assert {"small": [0], "large": [0], "new": [1]} == blocks


@pytest.mark.parametrize("policy", ["mutable", "growing", "archive"])
@pytest.mark.parametrize("flags", [[], ["--no-scan"]])
def test_change_of_a_file_with_very_many_blocks(data: Path, integrity: Box, policy: str, flags: list[str]) -> None:
    """A large file is read in parts; what changed in it since is judged, and recorded, as a whole."""
    integrity.configure(f'[[root]]\npath = "{data}"\npolicy = "{policy}"\nblock_size = "64KiB"\n')
    put_sparse(data / "file", 200 * MIB, [(at * MIB, os.urandom(MIB)) for at in (0, 100, 199)])
    integrity.run("scan", data, expect=0)
    integrity.run("scrub", data, expect=0)
    with open(data / "file", "ab") as file:
        file.write(os.urandom(3 * MIB))

    done = integrity.run("--json", "scrub", *flags, data, expect=1 if policy == "archive" else 0)

    assert {"damaged" if policy == "archive" else "changed": 1} == tallies(done)
    again = integrity.run("--json", "scrub", data)
    if policy == "archive":
        assert ({"damaged": 1}, [("changed", str(data / "file"))]) == (tallies(again), met(again))
        integrity.run("accept", data, "--changes", "--yes", "--reason", "grown", expect=0)
        again = integrity.run("--json", "scrub", data)
    assert (0, {"verified": 1}) == (again.code, tallies(again))
    rot(data / "file", 100 * MIB + 5)
    rot(data / "file", 202 * MIB)
    (one,) = integrity.run("--json", "scrub", data, expect=1).findings
    assert ("rot", [1600, 3232]) == (one["kind"], one["blocks"])


def test_new_content_over_a_rotten_file_with_very_many_blocks(data: Path, integrity: Box) -> None:
    """A candidate of a file that is read in parts is known again, and never taken for the baseline."""
    integrity.configure('[defaults]\nblock_size = "64KiB"\n')
    put_sparse(data / "file", 150 * MIB, [(at * MIB, os.urandom(MIB)) for at in (0, 149)])
    integrity.run("scan", data, expect=0)
    integrity.run("scrub", data, expect=0)
    rot(data / "file", 500)
    integrity.run("scrub", data, expect=1)
    with open(data / "file", "r+b") as file:
        file.seek(70_000)
        file.write(b"an edit in the second block")

    for job in (["scan"], ["scrub"], ["scrub"], ["scrub", "--no-scan"]):
        done = integrity.run("--json", *job, data, expect=0 if job == ["scan"] else 1)
        assert {"damaged": 1} == tallies(done), job
        assert [("rot", str(data / "file"))] == met(integrity.run("--json", "findings", expect=1))


def test_not_a_trace_in_the_tree(integrity: Box) -> None:
    """Scan, full scan, scrub, findings and accept leave every time, byte and inode of the tree as they were."""
    with LoopFS("ext4", options="strictatime") as fs:
        root = fs.folder / "data"
        (root / "in" / "deep").mkdir(parents=True)
        for name, size in (("a", 5_000), ("in/b", 3 * MIB), ("in/deep/c", 0), ("d", 9 * MIB)):
            put(root / name, os.urandom(size))
        os.symlink("a", root / "link")
        os.mkfifo(root / "fifo")
        for path in [*root.rglob("*"), root]:
            if path.name != "fifo":
                os.utime(path, ns=(PAST_NS, PAST_NS), follow_symlinks=False)
        contents = {path: hashlib.md5(path.read_bytes()).digest() for path in root.rglob("*") if path.is_file()}
        for path in contents:
            os.utime(path, ns=(PAST_NS, PAST_NS))
        os.sync()
        before = list(map(str, root.rglob("*")))
        for path in [root, root / "in", root / "in" / "deep"]:
            os.utime(path, ns=(PAST_NS, PAST_NS))
        taken = {path: os.lstat(path) for path in [*before, str(root)]}

        integrity.run("scan", root, expect=0)
        integrity.run("scan", "--full", root, expect=0)
        integrity.run("scrub", "--deep", root, expect=0)
        integrity.run("scrub", root / "in", expect=0)
        integrity.run("explain", root / "a", expect=0)
        integrity.run("accept", root / "a", "--reason", "test", expect=0)
        integrity.run("status", expect=0)

        for path, stat in taken.items():
            now = os.lstat(path)
            fields = ("st_atime_ns", "st_mtime_ns", "st_ctime_ns", "st_ino", "st_size", "st_nlink", "st_mode")
            assert [getattr(stat, name) for name in fields] == [getattr(now, name) for name in fields], path
        assert sorted(before) == sorted(map(str, root.rglob("*")))
        assert contents == {path: hashlib.md5(path.read_bytes()).digest() for path in contents}
