"""Files that move keep their records, and no record is ever given to another file."""

from __future__ import annotations

import hashlib
import os
import shutil
from pathlib import Path

import pytest

from support.cli import Box
from support.loopfs import LoopFS
from support.results import kinds, met, notes, tallies
from support.shapes import put
from support.stored import query


def recorded_md5(box: Box, path: Path) -> object:
    file = box.get_object("file", "explain", path)
    digests = file["digests"]
    assert isinstance(digests, dict)
    return digests["md5"]


def assert_records_are_right(box: Box, root: Path) -> None:
    """Each file is recorded with its own content, and a scrub agrees."""
    files = [path for path in root.rglob("*") if path.is_file()]
    for path in files:
        assert hashlib.md5(path.read_bytes()).hexdigest() == recorded_md5(box, path), path
    done = box.run("--json", "scrub", root, expect=0)
    assert ({"verified": len(files)}, []) == (tallies(done), done.findings)


@pytest.mark.parametrize("job", ["scan", "scrub"])
def test_new_file_under_the_name_of_a_moved_one(root: Path, integrity: Box, job: str) -> None:
    """After ``mv a b`` and a new ``a`` the record of a goes on as b, and a is a new file."""
    for name in ("a", "c", "z"):
        put(root / name, name.encode())
    integrity.run("scan", root, expect=0)
    os.rename(root / "a", root / "b")
    put(root / "a", b"a new one")
    os.rename(root / "z", root / "m")
    put(root / "z", b"another new one")

    done = integrity.run("--json", job, root, expect=0)

    expected = {"new": 2, "not_due": 3} if job == "scan" else {"verified": 5}
    assert expected | {"moved": 2} == tallies(done)
    assert sorted([str(root / "b"), str(root / "m")]) == sorted(str(path) for path in notes(done, "moved"))
    assert_records_are_right(integrity, root)


def test_names_passed_on_from_file_to_file(root: Path, integrity: Box) -> None:
    """A chain of renames (c to d, b to c, a to b, new a) moves each record with its file."""
    for name in "abc":
        put(root / name, name.encode() * 100)
    integrity.run("scan", root, expect=0)
    for old, new in ("cd", "bc", "ab"):
        os.rename(root / old, root / new)
    put(root / "a", b"new")

    done = integrity.run("--json", "scan", root, expect=0)

    assert {"new": 1, "not_due": 3, "moved": 3} == tallies(done)
    assert_records_are_right(integrity, root)


def test_two_files_that_swap_names(root: Path, integrity: Box) -> None:
    """Swapped names are no changes of content: the records follow the files, which need not be read."""
    put(root / "a", b"first")
    put(root / "b", b"second one")
    os.utime(root / "a", ns=(1, 10**18))
    integrity.run("scan", root, expect=0)
    os.rename(root / "a", root / "t")
    os.rename(root / "b", root / "a")
    os.rename(root / "t", root / "b")

    done = integrity.run("--json", "scan", root, expect=0)

    assert ({"not_due": 2, "moved": 2}, 0) == (tallies(done), done.summary["bytes_read"])
    assert_records_are_right(integrity, root)


def test_finding_stays_with_its_file_when_names_are_swapped(root: Path, integrity: Box) -> None:
    """A damaged file that changes places with a good one takes its finding along, and the good one stays good."""
    for name in "ab":
        put(root / name, b"good " + name.encode())
        os.utime(root / name, ns=(10**18, 10**18))
    integrity.run("scan", root, expect=0)
    put(root / "a", b"evil a")
    os.utime(root / "a", ns=(10**18, 10**18))
    assert [("silent_rewrite", str(root / "a"))] == met(integrity.run("--json", "scrub", root, expect=1))
    os.rename(root / "a", root / "t")
    os.rename(root / "b", root / "a")
    os.rename(root / "t", root / "b")

    done = integrity.run("--json", "scrub", root, expect=1)

    assert {"damaged": 1, "verified": 1, "moved": 2} == tallies(done)
    assert [("silent_rewrite", str(root / "b"))] == met(done)


def test_renamed_file_keeps_its_history(root: Path, integrity: Box) -> None:
    """A renamed file is neither new nor missing, and its verification time stays."""
    (root / "old").mkdir()
    put(root / "old" / "photo", os.urandom(5000))
    integrity.run("scan", root, expect=0)
    integrity.run("scrub", root, expect=0)
    (before,) = integrity.json("explain", root / "old" / "photo")
    os.rename(root / "old", root / "new")

    done = integrity.run("--json", "scan", root, expect=0)

    assert {"not_due": 1, "moved": 1} == tallies(done)
    assert 0 == done.summary["bytes_read"]
    (after,) = integrity.json("explain", root / "new" / "photo")
    assert [before[key] for key in ("digests", "verified_at")] == [after[key] for key in ("digests", "verified_at")]
    assert 2 == integrity.run("explain", root / "old" / "photo").code


def test_file_copied_and_deleted_is_a_move(root: Path, integrity: Box) -> None:
    """The same content under a new name, the old name gone: moved, if there is no doubt which."""
    (root / "there").mkdir()
    put(root / "one", os.urandom(5000))
    integrity.run("scan", root, expect=0)
    integrity.run("scrub", root, expect=0)
    shutil.copy(root / "one", root / "there" / "uno")
    os.unlink(root / "one")

    done = integrity.run("--json", "scan", root, expect=0)

    assert ({"new": 1, "moved": 1}, [str(root / "there" / "uno")]) == (tallies(done), notes(done, "moved"))
    assert (None, True) == verification(integrity, root / "there" / "uno")
    done = integrity.run("--json", "scrub", "--new", root, expect=0)
    assert {"verified": 1} == tallies(done)
    assert_records_are_right(integrity, root)


def verification(box: Box, path: Path) -> tuple[object, bool]:
    """Tell when a file was verified, and whether scrubs are to read it early."""
    file = box.get_object("file", "explain", path)
    ((is_suspect,),) = query(box, "SELECT is_suspect FROM file WHERE name = ?", [os.fsencode(path.name)])
    return file["verified_at"], bool(is_suspect)


@pytest.mark.parametrize("is_renamed", [True, False])
def test_bytes_that_were_written_anew_are_not_verified(root: Path, integrity: Box, is_renamed: bool) -> None:
    """The same content saved once more may lie elsewhere on the disk, where nobody has read it."""
    data = os.urandom(5000)
    put(root / "file", data)
    integrity.run("scan", root, expect=0)
    integrity.run("scrub", root, expect=0)
    assert (None, False) != verification(integrity, root / "file")
    put(root / "saved" if is_renamed else root / "file", data)
    if is_renamed:
        os.rename(root / "saved", root / "file")
    os.utime(root / "file", ns=(10**18, 10**18))

    assert {"verified": 1} == tallies(integrity.run("--json", "scan", root, expect=0))
    assert (None, True) == verification(integrity, root / "file")
    assert {"verified": 1} == tallies(integrity.run("--json", "scrub", "--new", root, expect=0))
    verified_at, is_suspect = verification(integrity, root / "file")
    assert verified_at is not None
    assert not is_suspect


def test_ambiguous_copies_are_no_move(root: Path, integrity: Box) -> None:
    """Two files with one content go, one comes: which of them it was can't be told, so it is new and they are gone."""
    data = os.urandom(5000)
    put(root / "one", data)
    put(root / "two", data)
    integrity.run("scan", root, expect=0)
    os.unlink(root / "one")
    os.unlink(root / "two")
    put(root / "three", data)

    done = integrity.run("--json", "scan", root, expect=0)

    assert {"new": 1, "missing": 2} == tallies(done)
    assert_records_are_right(integrity, root)


def test_rotten_file_that_moves_takes_its_finding_along(root: Path, integrity: Box) -> None:
    """A move launders nothing: the finding follows the file, the file stays damaged, good content ends it."""
    put(root / "a", b"good content")
    os.utime(root / "a", ns=(10**18, 10**18))
    integrity.run("scan", root, expect=0)
    with open(root / "a", "r+b") as file:
        file.write(b"evil")
    os.utime(root / "a", ns=(10**18, 10**18))
    assert [("silent_rewrite", str(root / "a"))] == met(integrity.run("--json", "scrub", root, expect=1))
    os.rename(root / "a", root / "b")

    done = integrity.run("--json", "scan", root, expect=0)

    assert {"damaged": 1, "moved": 1} == tallies(done)
    assert [("silent_rewrite", str(root / "b"))] == met(integrity.run("--json", "findings", expect=1))
    assert {"damaged": 1} == tallies(integrity.run("--json", "scan", root, expect=0))
    put(root / "b", b"good content")
    integrity.run("scrub", root, expect=0)
    integrity.run("findings", expect=0)


def test_hard_link_to_a_recorded_file_is_no_move(root: Path, integrity: Box) -> None:
    """A second name for a recorded file is new; when the first goes, the second stays what it is."""
    put(root / "a", os.urandom(5000))
    integrity.run("scan", root, expect=0)
    os.link(root / "a", root / "b")
    assert {"new": 1, "not_due": 1} == tallies(integrity.run("--json", "scan", root, expect=0))
    os.unlink(root / "a")

    assert {"missing": 1, "not_due": 1} == tallies(integrity.run("--json", "scan", root, expect=0))
    assert_records_are_right(integrity, root)


def put_in_its_place(old: Path, new: Path) -> None:
    """Delete a file, and make another that gets its inode, of the same size and mtime."""
    before = old.stat()
    old.unlink()
    put(new, os.urandom(before.st_size))
    os.utime(new, ns=(before.st_mtime_ns, before.st_mtime_ns))
    assert before.st_ino == new.stat().st_ino


@pytest.mark.root
@pytest.mark.parametrize("policy", ["mutable", "archive"])
@pytest.mark.parametrize("inode_bytes", ["256", "128"])
def test_new_file_with_the_inode_of_a_deleted_one_is_no_move(integrity: Box, policy: str, inode_bytes: str) -> None:
    """Same inode, size and mtime, as files of a fixed date get: it is new and the old one gone, with any inode size."""
    with LoopFS("ext4", mkfs=("-I", inode_bytes)) as fs:
        data = fs.folder / "data"
        data.mkdir()
        integrity.configure(f'[[root]]\npath = "{data}"\npolicy = "{policy}"\n')
        put(data / "other", b"stays")
        put(data / "a", os.urandom(4096))
        os.utime(data / "a", ns=(10**9, 10**9))
        integrity.run("scan", data, expect=0)
        integrity.run("scrub", data, expect=0)
        put_in_its_place(data / "a", data / "b")

        done = integrity.run("--json", "scan", data, expect=1 if policy == "archive" else 0)

        assert {"new": 1, "missing": 1, "not_due": 1} == tallies(done)
        assert ([("missing", str(data / "a"))] if policy == "archive" else []) == met(done)
        assert ["missing"] * (policy == "archive") == kinds(integrity.run("--json", "scrub", data))
        assert hashlib.md5((data / "b").read_bytes()).hexdigest() == recorded_md5(integrity, data / "b")


@pytest.mark.root
def test_renamed_file_of_a_fixed_date_is_read_where_no_birth_is_kept(integrity: Box) -> None:
    """Inodes of 128 bytes tell no time of birth: a rename is a move if the content is the recorded one."""
    with LoopFS("ext4", mkfs=("-I", "128")) as fs:
        data = fs.folder / "data"
        data.mkdir()
        put(data / "a", os.urandom(5000))
        os.utime(data / "a", ns=(10**9, 10**9))
        integrity.run("scan", data, expect=0)
        integrity.run("scrub", data, expect=0)
        os.rename(data / "a", data / "b")

        done = integrity.run("--json", "scan", data, expect=0)

        assert {"new": 1, "moved": 1} == tallies(done)
        assert done.summary["bytes_read"] in (5000, 10_000)  # twice, if this is still the second of the rename
        assert_records_are_right(integrity, data)


@pytest.mark.root
def test_renamed_file_of_a_fixed_date_costs_no_reading_where_its_birth_tells(data: Path, integrity: Box) -> None:
    """An inode as old as its record is the recorded one, whatever the mtime."""
    put(data / "a", os.urandom(5000))
    os.utime(data / "a", ns=(10**9, 10**9))
    integrity.run("scan", data, expect=0)
    integrity.run("scrub", data, expect=0)
    os.rename(data / "a", data / "b")

    done = integrity.run("--json", "scan", data, expect=0)

    assert ({"not_due": 1, "moved": 1}, 0) == (tallies(done), done.summary["bytes_read"])
