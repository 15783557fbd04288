"""A scrub reads the disk, not memory, and leaves memory as it found it (R4)."""

from __future__ import annotations

import os

import pytest

from support.bitrot import drop_cache
from support.cli import Box, make_command
from support.loopfs import LoopFS
from support.proc import measure
from support.programs import sh

pytestmark = pytest.mark.root("fincore")

MIB = 1 << 20


def resident_bytes(path: str) -> int:
    """Ask fincore(1) how much of a file is in memory."""
    return int(sh("fincore", "--bytes", "--noheadings", "--output", "RES", path).split()[0])


def make_files(fs: LoopFS) -> list[str]:
    """Make small files and a large one; return their paths."""
    root = os.path.join(os.fsdecode(fs.mnt), "tree")
    os.mkdir(root)
    paths = []
    for name, size in (("large", 30 * MIB + 777), *((f"small{number}", 40_000 + number) for number in range(40))):
        paths.append(os.path.join(root, name))
        with open(paths[-1], "wb") as file:
            file.write(os.urandom(size))
    os.sync()
    return paths


def read(paths: list[str]) -> None:
    for path in paths:
        with open(path, "rb") as file:
            while file.read(MIB):
                pass


def scrub(integrity: Box, paths: list[str]) -> None:
    """Scrub, which has to read all of them from the disk."""
    cost = measure(make_command("scrub", os.path.dirname(paths[0])), env=integrity.environment)
    assert 0 == cost.code, cost.stderr
    assert cost.read_bytes >= sum(map(os.path.getsize, paths))


def test_scrub_reads_the_disk_and_leaves_memory_as_it_was(each_fs: LoopFS, integrity: Box) -> None:
    """What nobody had in memory is not there after a scan or scrub; what others had there is read all the same."""
    paths = make_files(each_fs)
    for path in paths:
        drop_cache(path)
    integrity.run("scan", os.path.dirname(paths[0]), expect=0)
    assert [0] * len(paths) == [resident_bytes(path) for path in paths]
    scrub(integrity, paths)
    assert [0] * len(paths) == [resident_bytes(path) for path in paths]

    read(paths)
    before = [resident_bytes(path) for path in paths]
    scrub(integrity, paths)
    if each_fs.fs_type != "btrfs":  # there O_DIRECT is trusted only after clean pages were dropped
        after = [resident_bytes(path) for path in paths]
        assert sum(after) >= 0.7 * sum(before)  # a busy system takes pages by itself now and then
        assert len(after) - 4 <= sum(now >= 0.5 * then for now, then in zip(after, before, strict=True))


def test_scan_reads_cached_files_from_memory(ext4: LoopFS, integrity: Box) -> None:
    """Recording what is in memory anyway costs the disk nothing; that it was not verified yet is remembered."""
    paths = make_files(ext4)
    root = os.path.dirname(paths[0])
    read(paths)

    cost = measure(make_command("scan", root), env=integrity.environment)

    assert 0 == cost.code, cost.stderr
    assert cost.read_bytes < sum(map(os.path.getsize, paths)) / 2
    (explained,) = integrity.json("explain", paths[0], expect=0)
    assert ("cache_possible", None) == (explained["read_how"], explained["verified_at"])
    integrity.run("scrub", root, expect=0)
    (explained,) = integrity.json("explain", paths[0], expect=0)
    assert "direct" == explained["read_how"]
    assert explained["verified_at"]
