"""Names of every kind, many names of one file, files of holes: each name counted once, each file read once."""

from __future__ import annotations

import base64
import os
import shutil
import time
from pathlib import Path

import pytest

from support.bitrot import rot
from support.cli import Box
from support.flakydisk import FlakyDisk
from support.loopfs import LoopFS
from support.mounts import small_tmpfs
from support.nastytree import NAMES, nasty_tree
from support.planted import age, plant
from support.results import kinds, met, notes, tallies
from support.shapes import TIB, put, put_deep, put_sparse
from support.stored import query

MIB = 1 << 20


@pytest.mark.root
def test_flip_in_a_file_with_several_names(data: Path, integrity: Box) -> None:
    """
    A flip in a hard-linked file is found under all its names, which are counted each.

    The file is read once, to be confirmed twice more where it differs, and once more as a whole.
    """
    (data / "in").mkdir()
    put(data / "small", os.urandom(9_000))
    put(data / "large", os.urandom(3 * MIB))
    put(data / "alone", os.urandom(5_000))
    for name in ("small", "large"):
        os.link(data / name, data / f"{name} too")
        os.link(data / name, data / "in" / name)
    size = 9_000 + 3 * MIB + 5_000

    scan = integrity.run("--json", "scan", data, expect=0)
    scrub = integrity.run("--json", "scrub", data, expect=0)
    rot(data / "small", 5_000)
    rot(data / "large", 2 * MIB + 1)
    done = integrity.run("--json", "scrub", data, expect=1)

    assert (size, {"new": 7}) == (scan.summary["bytes_read"], tallies(scan))
    assert (size, {"verified": 7}) == (scrub.summary["bytes_read"], tallies(scrub))
    names = {str(data / name) for name in ("small", "small too", "in/small", "large", "large too", "in/large")}
    assert names == {path for kind, path in met(done) if kind == "rot"}
    assert {"damaged": 6, "verified": 1} == tallies(done)
    assert size + 2 * (9_000 + MIB) + 9_000 + 3 * MIB == done.summary["bytes_read"]
    assert {(0,), (2,)} == {tuple(one["blocks"]) for one in done.findings if isinstance(one["blocks"], list)}


@pytest.mark.root
def test_bad_sector_under_several_names(flaky_ext4: FlakyDisk, integrity: Box) -> None:
    """What the disk refuses under one name it is not asked for under the others: one sector, not a failing device."""
    data = flaky_ext4.folder / "data"
    data.mkdir()
    put(data / "0", os.urandom(20_000))
    for number in range(1, 60):
        os.link(data / "0", data / str(number))
    put(data / "same", os.urandom(5_000))
    integrity.run("scan", data, expect=0)
    integrity.run("scrub", data, expect=0)
    bad = flaky_ext4.bad_sector(data / "0", 8192)

    done = integrity.run("--json", "scrub", data, expect=3)

    assert {"unreadable"} == set(kinds(done))
    assert {"unreadable": 60, "verified": 1} == tallies(done)
    flaky_ext4.clear(bad)
    assert {"verified": 61} == tallies(integrity.run("--json", "scrub", data, expect=0))
    integrity.run("findings", expect=0)


def test_one_of_several_names_is_replaced(root: Path, integrity: Box) -> None:
    """A name that leads to another file now is judged by what stands there, not by its former twin."""
    put(root / "a", os.urandom(5_000))
    os.link(root / "a", root / "b")
    integrity.run("scan", root, expect=0)
    put(root / "new", b"another")
    os.rename(root / "new", root / "b")

    done = integrity.run("--json", "scrub", "--no-scan", root, expect=0)

    assert ({"verified": 1, "changed": 1}, []) == (tallies(done), done.findings)
    assert {"verified": 2} == tallies(integrity.run("--json", "scrub", root, expect=0))


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
    human = integrity.run("findings", expect=1)
    assert len(odd) + 1 == len(human.stdout.splitlines())  # and how many they are
    assert "\x1b" not in human.stdout
    paths = [os.path.join(os.fsencode(data), name) for name in odd]
    integrity.run("accept", "--reason", "all of them", "--", *paths, expect=0)
    assert {"verified": len(odd) + 1} == tallies(integrity.run("--json", "scrub", data, expect=0))


def test_terabyte_of_holes(root: Path, integrity: Box) -> None:
    """A sparse file of 1 TiB costs seconds, has no MD5, is judged by its blocks, and an edit in it is a change."""
    pieces = [(at, os.urandom(MIB)) for at in (0, TIB // 2, TIB - MIB)]
    put_sparse(root / "disk.img", TIB, pieces)
    began = time.monotonic()
    integrity.run("scan", root, expect=0)
    done = integrity.run("--json", "scrub", root, expect=0)
    assert time.monotonic() - began < 40
    assert {"verified": 1} == tallies(done)
    file = integrity.get_object("file", "explain", root / "disk.img")
    digests = file["digests"]
    assert isinstance(digests, dict)
    assert digests["md5"] is None
    with open(root / "disk.img", "r+b") as image:
        image.seek(TIB // 4)
        image.write(b"edited")
    assert {"changed": 1} == tallies(integrity.run("--json", "scrub", root, expect=0))
    before = os.stat(root / "disk.img")
    with open(root / "disk.img", "r+b") as image:
        image.seek(TIB // 4 + 5 * MIB)
        image.write(b"quietly")
    os.utime(root / "disk.img", ns=(before.st_atime_ns, before.st_mtime_ns))
    done = integrity.run("--json", "scrub", root, expect=1)
    assert [("silent_rewrite", str(root / "disk.img"))] == met(done)
    assert [TIB // 4 // MIB + 5] == done.findings[0]["blocks"]


@pytest.mark.root
def test_rot_in_a_sparse_file(data: Path, integrity: Box) -> None:
    """A flip in the data of a sparse file is in its block; a flip in the last, short block as well."""
    put_sparse(data / "file", 5 * MIB + 4321, [(2 * MIB, os.urandom(8192)), (5 * MIB, os.urandom(4321))])
    integrity.run("scan", data, expect=0)
    rot(data / "file", 2 * MIB + 5_000)
    rot(data / "file", 5 * MIB + 4_320)

    (one,) = integrity.run("--json", "scrub", data, expect=1).findings

    assert ("rot", [2, 5], [[2 * MIB, MIB], [5 * MIB, 4321]]) == (one["kind"], one["blocks"], one["ranges"])


@pytest.mark.root
def test_accepting_one_name_accepts_the_file(data: Path, integrity: Box) -> None:
    """Rot is found under each name of a file; its content is accepted once, and no name is left open."""
    put(data / "a", os.urandom(9_000))
    os.link(data / "a", data / "b")
    put(data / "c", os.urandom(9_000))
    integrity.run("scan", data, expect=0)
    integrity.run("scrub", data, expect=0)
    rot(data / "a", 5_000)
    assert 1 == len(integrity.run("--json", "scrub", data, expect=1).findings)

    (done,) = integrity.json("accept", data / "a", "--reason", "seen", expect=0)

    assert (1, [str(data / "b")]) == (done["findings_resolved"], done["other_names"])
    assert {"verified": 3} == tallies(integrity.run("--json", "scrub", data, expect=0))


@pytest.mark.root
def test_file_of_holes_that_nobody_could_digest(tmp_path: Path, integrity: Box) -> None:
    """A sparse file of 7 EiB is told and left out at once; what stands beside it is recorded and verified."""
    with small_tmpfs(tmp_path / "small", 4 * MIB) as folder:
        root = Path(os.fsdecode(folder)) / "root"
        root.mkdir()
        put(root / "good", b"content")
        put_sparse(root / "huge", 7 << 60, [])
        done = integrity.run("--json", "scan", root, expect=3)
        again = integrity.run("--json", "scrub", root, expect=3)

    assert {"new": 1, "unreadable": 1} == tallies(done)
    assert {"verified": 1, "unreadable": 1} == tallies(again)
    assert [("unreadable", str(root / "huge"))] == met(again)
    assert "of which 0 are stored" in str(again.findings[0]["message"])


def test_snapshots_of_hard_links(tmp_path: Path, integrity: Box) -> None:
    """Each night gives every file one more name: nothing is read, and a name that was taken away goes on as that."""
    root = plant(tmp_path / "root" / "night00", 5).parent
    for number in range(1, 12):
        snapshot(root, 0, number)
    age(*root.rglob("*.txt"))
    integrity.run("scan", root, expect=0)

    snapshot(root, 11, 12)
    added = integrity.run("--json", "scan", root, expect=0)
    shutil.rmtree(root / "night00")
    snapshot(root, 12, 13)
    rotated = integrity.run("--json", "scan", root, expect=0)
    (root / "night05").rename(root / "kept")
    snapshot(root, 13, 14)
    renamed = integrity.run("--json", "scan", root, expect=0)

    assert ({"new": 5, "not_due": 60}, 0) == (tallies(added), added.summary["bytes_read"])
    assert ({"not_due": 65, "moved": 5}, 0) == (tallies(rotated), rotated.summary["bytes_read"])
    assert ({"new": 5, "not_due": 65, "moved": 5}, 0) == (tallies(renamed), renamed.summary["bytes_read"])
    recorded = query(integrity, "SELECT CAST(path AS TEXT) FROM folder WHERE id IN (SELECT folder_id FROM file)")
    names = {"kept", *(f"night{number:02}" for number in (*range(1, 5), *range(6, 15)))}
    assert names == {str(path).split("/")[0] for (path,) in recorded}
    done = integrity.run("--json", "scrub", root, expect=0)
    assert ({"verified": 70}, []) == (tallies(done), done.findings)


def snapshot(root: Path, old: int, new: int) -> None:
    shutil.copytree(root / f"night{old:02}", root / f"night{new:02}", copy_function=os.link)
