"""What a comparison claims about the files here: which were read, and which are known by their record only."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from support.bitrot import rot
from support.cli import Box
from support.comparing import back_up, compare, counts, said, steps
from support.flakydisk import FlakyDisk
from support.loopfs import LoopFS
from support.planted import age
from support.results import get_number
from support.shapes import put

pytestmark = pytest.mark.root

MIB = 1 << 20
NAME = "large.bin"


@pytest.fixture
def root(ext4: LoopFS) -> Path:
    """Make a file of several blocks and a small one on a disk of its own."""
    root = ext4.folder / "data"
    root.mkdir()
    put(root / NAME, os.urandom(5 * MIB))
    put(root / "small", os.urandom(5000))
    age(root / NAME, root / "small")
    return root


@pytest.fixture
def copy(root: Path, tmp_path: Path, integrity: Box) -> Path:
    """Record the files, and copy them to another disk."""
    integrity.run("scan", root, expect=0)
    return back_up(root, tmp_path / "copy")


def rewrite(path: Path, data: bytes) -> None:
    """Give a file other content of any size, and its old time."""
    times = path.stat()
    path.write_bytes(data)
    os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))


@pytest.mark.parametrize("name", [NAME, "small"])
def test_silently_rewritten_file_beside_a_good_copy(root: Path, copy: Path, integrity: Box, name: str) -> None:
    """A file whose ctime moved is read before it is called the same, without a scrub in between."""
    data = bytearray((root / name).read_bytes())
    data[700] ^= 1
    rewrite(root / name, bytes(data))
    done = compare(integrity, root, "--with", copy, expect=1)
    assert {"silent_rewrite": {name}} == said(done, root)
    assert [f"integrity repair {root / name} --from {copy}"] == steps(done, "silent_rewrite")
    assert {"verified": 1, "damaged": 1, "repairable": 1} == counts(done)
    assert (1, 1) == (done.summary["files_read_here"], done.summary["files_known_by_record"])


def test_file_replaced_by_another_inode_with_the_old_times(root: Path, copy: Path, integrity: Box) -> None:
    """Damage that came with a restored or moved file of the same size and time is found as well."""
    data = bytearray((root / NAME).read_bytes())
    data[3 * MIB] ^= 1
    shutil.copy2(root / NAME, root / "new")
    rewrite(root / "new", bytes(data))
    (root / "new").rename(root / NAME)
    done = compare(integrity, root, "--with", copy, expect=1)
    assert {"silent_rewrite": {NAME}} == said(done, root)


def test_touched_file_that_is_intact(root: Path, copy: Path, integrity: Box) -> None:
    """After a chmod the file is read once, counts as verified, and is known by its record from then on."""
    (root / NAME).chmod(0o600)
    done = compare(integrity, root, "--with", copy, expect=0)
    assert {"verified": 2} == counts(done)
    assert (1, 1) == (done.summary["files_read_here"], done.summary["files_known_by_record"])
    again = compare(integrity, root, "--with", copy, expect=0)
    assert (0, 2) == (again.summary["files_read_here"], again.summary["files_known_by_record"])


def test_summary_says_what_is_known_by_its_record_only(root: Path, copy: Path, integrity: Box) -> None:
    """Rot that left no trace in the stat is not seen by a plain comparison, and its summary does not claim it is."""
    rot(root / NAME, 2 * MIB)
    done = integrity.run("compare", root, "--with", copy, expect=0)
    assert "all is well" not in done.stdout
    assert "the copy matches the record" in done.stdout
    assert "here: 2 files known by their record only, the oldest last read " in done.stdout
    assert "--read" in done.stdout


def test_read_reads_both_sides(root: Path, copy: Path, integrity: Box) -> None:
    """With --read, rot here is found beside a good copy, in large files and in small ones."""
    for name, offset in ((NAME, 2 * MIB), ("small", 100)):
        rot(root / name, offset)
    done = compare(integrity, root, "--with", copy, "--read", expect=1)
    assert {"rot": {NAME, "small"}} == said(done, root)
    assert {"damaged": 2, "repairable": 2} == counts(done)
    assert (2, 0) == (done.summary["files_read_here"], done.summary["files_known_by_record"])
    assert 2 * (5 * MIB + 5000) <= get_number(done.summary, "bytes_read")


def test_read_verifies_the_files_here(root: Path, copy: Path, integrity: Box) -> None:
    """What --read found intact here is verified: a scrub of the rest has nothing to do."""
    done = integrity.run("compare", root, "--with", copy, "--read", expect=0)
    assert "all is well" in done.stdout
    assert "here: 2 files read from the disk" in done.stdout
    assert 0 == integrity.run("--json", "scrub", root, "--new", expect=0).summary["files_verified"]


def test_rotten_file_that_the_copy_lacks(root: Path, copy: Path, integrity: Box) -> None:
    """Nobody is told to back up a file that is rotten here: it is read before that advice is given."""
    (copy / NAME).unlink()
    rot(root / NAME, 2 * MIB)
    done = compare(integrity, root, "--with", copy, expect=1)
    assert {"rot": {NAME}, "copy_missing": {NAME}} == said(done, root)
    assert "run the backup again" not in str(done.findings)
    assert [f"integrity repair {root / NAME} --from OTHER"] == steps(done, "copy_missing")


def test_good_file_that_the_copy_lacks(root: Path, copy: Path, integrity: Box) -> None:
    """An intact file is read from its disk before its owner is told to back it up."""
    (copy / NAME).unlink()
    done = compare(integrity, root, "--with", copy, expect=1)
    assert "run the backup again" in str(done.findings)
    assert {"verified": 1, "missing": 1} == counts(done)
    assert (1, 1) == (done.summary["files_read_here"], done.summary["files_known_by_record"])


def test_more_missing_files_than_are_read(root: Path, copy: Path, integrity: Box) -> None:
    """Of a copy that lacks thousands of files, those that were not read here are to be checked before the backup."""
    for number in range(1005):
        put(root / f"{number:04}")
    age(root / "1004")
    integrity.run("scan", root, expect=0)
    age(root / "1004")
    done = compare(integrity, root, "--with", copy, "--no-scan", expect=1)
    assert (1000, 7) == (done.summary["files_read_here"], done.summary["files_known_by_record"])
    (rest,) = [one for one in done.findings if one["path"] == str(root)]
    assert "integrity scrub" in str(rest["next_steps"])


def test_unreadable_files_are_no_evidence(integrity: Box, tmp_path: Path) -> None:
    """Files of the copy that could not be read are counted as unreadable, not as compared by their data."""
    with FlakyDisk("ext4") as disk:
        root = tmp_path / "data"
        root.mkdir()
        for number in range(5):
            put(root / f"{number}", os.urandom(2 * MIB))
        age(root / "4")
        integrity.run("scan", root, expect=0)
        copy = back_up(root, disk.folder / "copy")
        for number in range(3):
            disk.bad_sector(copy / f"{number}", MIB)
        done = compare(integrity, root, "--with", copy, expect=3)
        assert {"verified": 2, "unreadable": 3} == counts(done)
        assert 2 == done.summary["files_read"]
        assert "2 compared by reading the data back" in integrity.run("compare", root, "--with", copy, expect=3).stdout


def test_cached_says_that_memory_may_have_answered(root: Path, copy: Path, integrity: Box) -> None:
    """With --cached, a copy that is in memory is good by what memory says, and the result does not claim its disk."""
    (copy / "small").read_bytes()
    done = compare(integrity, root, "--with", copy, "--cached", "--read", expect=0)
    assert (0, 2, 2) == tuple(done.summary[f"files_{name}"] for name in ("read", "cached", "read_here"))
    human = integrity.run("compare", root, "--with", copy, "--cached", expect=0).stdout
    assert "2 compared by reading the data, possibly from memory" in human
    (state,) = integrity.run("--json", "explain", root / NAME, expect=0).of_type("file")[0]["copies"]
    assert state["read_at"] is None


def test_cached_reads_a_difference_from_the_disk(root: Path, copy: Path, integrity: Box) -> None:
    """What differs in memory is read again from the disk before it is reported."""
    flip = bytearray((copy / "small").read_bytes())
    flip[9] ^= 1
    rewrite(copy / "small", bytes(flip))
    done = compare(integrity, root, "--with", copy, "--cached", expect=1)
    assert {"copy_conflict": {"small"}} == said(done, root)
    assert (1, 1) == (done.summary["files_read"], done.summary["files_cached"])


def test_cached_is_for_folders_here(root: Path, copy: Path, integrity: Box, tmp_path: Path) -> None:
    """A copy that is no folder of this machine has no memory here to read."""
    done = integrity.run("compare", root, "--with", "rclone::local:" + str(copy), "--cached", expect=2)
    assert "--cached" in done.stderr
