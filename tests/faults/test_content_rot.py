"""Real flips in every place of files of every shape: found, named to the block, and nothing else is said."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from support.bitrot import flip_bit, identity, rot
from support.cli import Box
from support.loopfs import LoopFS
from support.results import met, tallies
from support.shapes import put

pytestmark = pytest.mark.root

MIB = 1 << 20


def make_folder(fs: LoopFS, name: str = "data") -> Path:
    folder = fs.folder / name
    folder.mkdir(parents=True)
    return folder


@pytest.mark.parametrize("fs_type", ["ext4", "xfs"])
def test_flips_in_every_place(fs_type: str, integrity: Box) -> None:
    """First and last byte, small files, a file of just one block, the last short block, several blocks at once."""
    flips = {
        "first byte": (5 * MIB, [0], [0]),
        "last byte": (5 * MIB + 4_321, [5 * MIB + 4_320], [5]),
        "last of the last whole block": (5 * MIB + 1, [5 * MIB - 1], [4]),
        "short block of one byte": (5 * MIB + 1, [5 * MIB], [5]),
        "one block": (MIB, [MIB - 1], [0]),
        "one block and a byte": (MIB + 1, [MIB], [1]),
        "small": (4_097, [4_096], [0]),
        "tiny": (1, [0], [0]),
        "several": (20 * MIB, [1, MIB, 7 * MIB, 8 * MIB, 19 * MIB], [0, 1, 7, 8, 19]),
        "twice in a block": (5 * MIB, [3 * MIB, 3 * MIB + 70_000], [3]),
    }
    with LoopFS(fs_type) as fs:
        data = make_folder(fs)
        for name, (size, _, _) in flips.items():
            put(data / name, os.urandom(size))
            put(data / f"{name}, healthy", os.urandom(size))
        integrity.run("scan", data, expect=0)
        for name, (_, offsets, _) in flips.items():
            for offset in offsets:
                rot(data / name, offset, offset % 8)

        done = integrity.run("--json", "scrub", data, expect=1)

        found = {os.path.basename(str(one["path"])): one for one in done.findings}
        assert set(flips) == set(found), (done.stdout, tallies(done))
        for name, (size, _, blocks) in flips.items():
            one = found[name]
            assert ("rot", "proven", blocks, 2) == (
                one["kind"],
                one["certainty"],
                one["blocks"],
                one["confirmed_reads"],
            )
            ranges = one["ranges"]
            assert isinstance(ranges, list)
            assert sum(min(MIB, size - block * MIB) for block in blocks) == sum(length for _, length in ranges), name
        assert {"damaged": len(flips), "verified": len(flips)} == tallies(done)
    assert "MiB" in integrity.run("findings", expect=1).stdout


def test_flip_deep_down_under_odd_names(ext4: LoopFS, integrity: Box) -> None:
    """Depth and odd bytes in the folders' names change nothing."""
    data = os.fsencode(make_folder(ext4))
    folder = os.path.join(data, b"new\nline", b"bad\xff", b"-rf", b"sp ace", b"x" * 255)
    os.makedirs(folder)
    path = os.path.join(folder, b"\xfe\n")
    put(path, os.urandom(9_000))
    put(os.path.join(data, b"same"), os.urandom(9_000))
    integrity.run("scan", data, expect=0)
    rot(path, 8_000)

    done = integrity.run("--json", "scrub", data, expect=1)

    (one,) = done.findings
    assert "rot" == one["kind"]
    assert "\\xfe" in str(one["path"])
    assert {"damaged": 1, "verified": 1} == tallies(done)
    human = integrity.run("scrub", path, expect=1)
    assert "\\xfe\\n" in human.stdout


def test_flip_seen_by_part_of_a_root(ext4: LoopFS, integrity: Box) -> None:
    """A scrub of a folder or of one file finds what is there, and leaves the rest."""
    data = make_folder(ext4)
    (data / "in").mkdir()
    for name in ("a", "in/a", "in/b"):
        put(data / name, os.urandom(9_000))
    integrity.run("scan", data, expect=0)
    for name in ("a", "in/a"):
        rot(data / name, 5_000)

    assert {"verified": 1} == tallies(integrity.run("--json", "scrub", data / "in" / "b", expect=0))
    part = integrity.run("--json", "scrub", data / "in", expect=1)
    assert ([("rot", str(data / "in" / "a"))], {"damaged": 1, "verified": 1}) == (met(part), tallies(part))
    whole = integrity.run("--json", "scrub", data, expect=1)
    assert {"damaged": 2, "verified": 1} == tallies(whole)


def test_more_damage_in_the_same_file(ext4: LoopFS, integrity: Box) -> None:
    """Damage that spreads updates the one finding; an acknowledged one is open again."""
    data = make_folder(ext4)
    put(data / "file", os.urandom(5 * MIB))
    integrity.run("scan", data, expect=0)
    rot(data / "file", MIB)
    (first,) = integrity.run("--json", "scrub", data, expect=1).findings
    integrity.run("ack", str(first["id"]), expect=0)
    rot(data / "file", 4 * MIB)

    (second,) = integrity.run("--json", "scrub", data, expect=1).findings

    assert (first["id"], [1, 4], "open") == (second["id"], second["blocks"], second["state"])


def test_flip_in_a_file_that_others_have_in_memory(ext4: LoopFS, integrity: Box) -> None:
    """What the page cache holds hides no damage, and a scan from memory forgives none."""
    data = make_folder(ext4)
    put(data / "file", os.urandom(3 * MIB))
    integrity.run("scan", data, expect=0)
    before = identity(data / "file")
    (data / "file").read_bytes()
    flip_bit(data / "file", 2 * MIB + 9)

    integrity.run("scan", "--full", data, expect=0)  # from memory, where all is well
    done = integrity.run("--json", "scrub", data, expect=1)

    assert [("rot", str(data / "file"))] == met(done)
    assert before == identity(data / "file")
    integrity.run("scan", "--full", data, expect=0)
    integrity.run("findings", expect=1)
