"""What is known of an inode or of a content holds for each new name of it: no link, restore or copy launders damage."""

from __future__ import annotations

import os
import shutil
import time
from pathlib import Path

import pytest

from integrity.jobs.options import ScanOptions, ScrubOptions
from integrity.jobs.runner import scan, scrub
from support.bitrot import drop_cache, get_positions, overwrite_at, read_at, rot
from support.cli import Box
from support.jobs import open_context
from support.loopfs import LoopFS
from support.planted import age
from support.programs import sh
from support.results import kinds, messages, met, tallies
from support.shapes import put
from support.waiting import wait_until

pytestmark = pytest.mark.root

MIB = 1 << 20
SMALL, LARGE = 9_000, 3 * MIB + 5
FLIPPED = 2 * MIB + 77
"""A byte of a large file's third block."""


def put_old(path: Path, data: bytes) -> Path:
    """Write a file whose times are not racy any more."""
    path.parent.mkdir(parents=True, exist_ok=True)
    put(path, data)
    os.sync()
    age(path)
    return path


def damage_copy(source: Path, target: Path, offset: int) -> None:
    """Make a copy as a backup tool does, with the time of modification, of which one byte is wrong."""
    target.parent.mkdir(parents=True, exist_ok=True)
    shutil.copy2(source, target)
    with open(target, "r+b") as file:
        byte = os.pread(file.fileno(), 1, offset)
        os.pwrite(file.fileno(), bytes([byte[0] ^ 1]), offset)
    shutil.copystat(source, target)


# Content of another file under a recorded inode


def put_pair(folder: Path) -> tuple[Path, Path]:
    """Write two files of one size and one time, as reproducible builds do."""
    pair = put_old(folder / "one", os.urandom(4_096)), put_old(folder / "other", os.urandom(4_096))
    os.utime(pair[1], ns=(pair[0].stat().st_atime_ns, pair[0].stat().st_mtime_ns))
    age(pair[1])
    return pair


def exchange(one: Path, other: Path) -> None:
    """Let the disk confuse the sectors of two files."""
    places = [get_positions(path, 0) for path in (one, other)]
    contents = [read_at(place[0], 4_096) for place in places]
    for place, content in zip(places, reversed(contents), strict=True):
        overwrite_at(place[0], content)
    for path in (one, other):
        drop_cache(path)


def test_file_that_is_copied_over_another_with_its_time(data: Path, integrity: Box) -> None:
    """The content is on the disk under its own name, too, and was when the file was last right: somebody copied it."""
    one, other = put_pair(data)
    integrity.run("scan", data, expect=0)
    integrity.run("scrub", data, expect=0)

    shutil.copyfile(one, other)
    shutil.copystat(one, other)

    done = integrity.run("--json", "scrub", data, expect=0)
    assert [] == done.findings
    assert {"changed": 1, "verified": 1} == tallies(done)
    assert {"verified": 2} == tallies(integrity.run("--json", "scrub", data, expect=0))


def test_files_that_the_disk_exchanged_are_damaged_though_one_was_touched(data: Path, integrity: Box) -> None:
    """Neither has what the other was recorded with on its own disk: nobody copied anything."""
    one, other = put_pair(data)
    integrity.run("scan", data, expect=0)
    integrity.run("scrub", data, expect=0)
    exchange(one, other)
    other.chmod(0o600)

    assert {str(one), str(other)} == {path for _, path in met(integrity.run("--json", "scrub", data, expect=1))}


def test_copy_of_rot_is_no_excuse_for_the_original(data: Path, integrity: Box) -> None:
    """What was recorded after the file was last right may be a copy of its damage."""
    one, _ = put_pair(data)
    integrity.run("scan", data, expect=0)
    integrity.run("scrub", data, expect=0)
    verified_at = int(time.time())
    wait_until(lambda: int(time.time()) > verified_at, "the next second")
    rot(one, 100)
    shutil.copy2(one, data / "copy")
    integrity.run("scan", data, expect=0)
    one.chmod(0o600)

    assert str(one) in {path for _, path in met(integrity.run("--json", "scrub", data, expect=1))}


# New names of an inode


@pytest.mark.parametrize("size", [SMALL, LARGE])
def test_rotten_file_is_renamed_over_another(data: Path, integrity: Box, size: int) -> None:
    """What a name has then is the other file's content, and damaged: no newer version of what it had."""
    old, other = (put_old(data / name, os.urandom(size)) for name in ("old", "other"))
    integrity.run("scan", data, expect=0)
    integrity.run("scrub", data, expect=0)
    rot(old, size - 4_000)
    old.rename(other)

    integrity.run("scrub", data, expect=1)
    done = integrity.run("--json", "scrub", data, expect=1)

    assert [("silent_rewrite", str(other))] == met(done)
    assert [[] if size == SMALL else [2]] == [[block for block in one["blocks"] if block] for one in done.findings]


def test_scrub_without_a_scan_first_reads_the_file_whose_name_was_used_again(data: Path, integrity: Box) -> None:
    """What stands under its old name is not all that is known of a recorded file, if a scan at the end finds it."""
    file, gone = (put_old(data / name, os.urandom(SMALL)) for name in ("photo", "gone"))
    integrity.run("scan", data, expect=0)
    integrity.run("scrub", data, expect=0)
    rot(file, 4_000)
    moved = file.rename(data / "photo-1")
    put(file, os.urandom(SMALL))
    gone.unlink()  # so that there is a scan

    with open_context(integrity.catalog) as context:
        scrub(context, (os.fsencode(data),), ScrubOptions(scan_first=False))

    assert [str(moved)] == [one["path"] for one in integrity.findings("findings", expect=1)]


def test_healthy_file_that_is_renamed_over_another_is_a_change(data: Path, integrity: Box) -> None:
    """A program that saves by a rename changes a file, and accuses nobody."""
    old, other = (put_old(data / name, os.urandom(SMALL)) for name in ("old", "other"))
    integrity.run("scan", data, expect=0)
    integrity.run("scrub", data, expect=0)
    old.rename(other)

    integrity.run("scrub", data, expect=0)
    integrity.run("scrub", data, expect=0)
    integrity.run("findings", expect=0)


@pytest.mark.parametrize("size", [SMALL, LARGE])
def test_link_to_an_inode_that_rotted_unseen(data: Path, integrity: Box, size: int) -> None:
    """A snapshot by ``cp -al`` has the baseline of what it links to: the old tree may go, the damage is found."""
    old = put_old(data / "monday" / "f3", os.urandom(size))
    integrity.run("scan", data, expect=0)
    integrity.run("scrub", data, expect=0)
    rot(old, size - 4_000)
    sh("cp", "-al", data / "monday", data / "tuesday")

    scan = integrity.run("--json", "scan", data, expect=0)

    assert ({"new": 1, "not_due": 1}, 0) == (tallies(scan), scan.summary["bytes_read"])
    file = integrity.get_object("file", "explain", data / "tuesday" / "f3")
    assert (None, True) == (file["verified_at"], file["is_suspect"])
    shutil.rmtree(data / "monday")
    done = integrity.run("--json", "scrub", data, expect=1)
    assert [("silent_rewrite", str(data / "tuesday" / "f3"))] == met(done)
    assert [[] if size == SMALL else [2]] == [
        [block for block in one["blocks"] if block or size == LARGE]  # type: ignore[attr-defined]
        for one in done.findings
    ]


def test_link_beside_the_old_name_is_no_second_opinion(data: Path, integrity: Box) -> None:
    """While the old name stands, its new link is damaged like it; the inode is read once."""
    old = put_old(data / "monday" / "f3", os.urandom(SMALL))
    integrity.run("scan", data, expect=0)
    integrity.run("scrub", data, expect=0)
    rot(old, 5_000)
    sh("cp", "-al", data / "monday", data / "tuesday")

    done = integrity.run("--json", "scrub", data, expect=1)

    assert {"damaged": 2} == tallies(done)
    names = {str(data / "monday" / "f3"), str(data / "tuesday" / "f3")}
    assert names == {path for _, path in met(done)}


def test_link_to_a_healthy_file_is_verified_by_one_reading(data: Path, integrity: Box) -> None:
    """A snapshot costs no reading when it is recorded; the scrub verifies all names at once."""
    old = put_old(data / "monday" / "f", os.urandom(SMALL))
    integrity.run("scan", data, expect=0)
    integrity.run("scrub", data, expect=0)
    for day in ("tuesday", "wednesday"):
        sh("cp", "-al", data / "monday", data / day)

    done = integrity.run("--json", "scrub", data, expect=0)

    assert ({"verified": 3}, SMALL) == (tallies(done), done.summary["bytes_read"])
    shutil.rmtree(old.parent)
    assert {"verified": 2, "missing": 1} == tallies(integrity.run("--json", "scrub", data, expect=0))


def test_link_to_a_file_with_an_open_finding(data: Path, integrity: Box) -> None:
    """The new name is damaged from the moment it is recorded, and stays so when the old one goes."""
    old = put_old(data / "monday" / "f", os.urandom(LARGE))
    integrity.run("scan", data, expect=0)
    rot(old, FLIPPED)
    integrity.run("scrub", data, expect=1)
    os.link(old, data / "link")

    done = integrity.run("--json", "scan", data, expect=1)

    assert ([("rot", str(data / "link"))], {"damaged": 2}) == (met(done), tallies(done))
    assert [[2]] == [one["blocks"] for one in done.findings]
    old.unlink()
    integrity.run("scan", data)
    assert [("rot", str(data / "link"))] == met(integrity.run("--json", "scrub", data, expect=1))


def test_both_names_of_a_rotten_inode_are_renamed(data: Path, integrity: Box) -> None:
    """Which record went to which name does not matter: neither new name is read as something new."""
    old = put_old(data / "a", os.urandom(SMALL))
    os.link(old, data / "b")
    integrity.run("scan", data, expect=0)
    integrity.run("scrub", data, expect=0)
    rot(old, 5_000)
    for name in "ab":
        os.rename(data / name, data / f"new {name}")

    assert {"not_due": 2, "moved": 2} == tallies(integrity.run("--json", "scan", data, expect=0))
    assert {"damaged": 2} == tallies(integrity.run("--json", "scrub", data, expect=1))


def test_link_from_another_root_of_the_file_system(ext4: LoopFS, integrity: Box) -> None:
    """Snapshots lie in a root of their own: an inode that another root of the disk has recorded is known there, too."""
    old = put_old(ext4.folder / "photos" / "f", os.urandom(SMALL))
    snapshots = ext4.folder / "snapshots"
    snapshots.mkdir()
    integrity.run("scan", old.parent, expect=0)
    integrity.run("scrub", old.parent, expect=0)
    rot(old, 5_000)
    os.link(old, snapshots / "f")
    assert 0 == integrity.run("--json", "scan", snapshots, expect=0).summary["bytes_read"]
    shutil.rmtree(old.parent)

    assert [("silent_rewrite", str(snapshots / "f"))] == met(integrity.run("--json", "scrub", snapshots, expect=1))


def test_edited_file_that_is_linked_is_what_it_is_now(data: Path, integrity: Box) -> None:
    """A link made after an honest edit inherits nothing: its time of modification is another."""
    old = put_old(data / "a", os.urandom(SMALL))
    integrity.run("scan", data, expect=0)
    integrity.run("scrub", data, expect=0)
    put(old, os.urandom(SMALL))
    os.link(old, data / "b")

    assert {"new": 1, "changed": 1} == tallies(integrity.run("--json", "scan", data, expect=0))
    assert {"verified": 2} == tallies(integrity.run("--json", "scrub", data, expect=0))


# Names that come back


@pytest.mark.parametrize(("size", "offset"), [(SMALL, 5_000), (LARGE, FLIPPED)])
@pytest.mark.parametrize("job", ["scan", "scrub"])
def test_damaged_backup_is_put_back(
    data: Path, integrity: Box, tmp_path: Path, size: int, offset: int, job: str
) -> None:
    """A deleted file comes back with its old size and time and other content: history knows better, and can mend it."""
    integrity.configure("")
    content = os.urandom(size)
    file = put_old(data / "f", content)
    put_old(data / "stays", b"stays")
    shutil.copytree(data, tmp_path / "good")
    damage_copy(file, tmp_path / "bad" / "f", offset)
    integrity.run("scan", data, expect=0)
    integrity.run("scrub", data, expect=0)
    file.unlink()
    integrity.run("scan", data, expect=0)
    shutil.copy2(tmp_path / "bad" / "f", file)

    done = integrity.run("--json", job, data, expect=1)

    assert [("silent_rewrite", str(file))] == met(done)
    assert "restored" in messages(done)
    assert [[0] if size == SMALL else [2]] == [one["blocks"] for one in done.findings]
    assert 1 == tallies(done)["damaged"]
    assert kinds(integrity.run("--json", "scrub", data, expect=1)) == ["silent_rewrite"]
    repair = integrity.run("--json", "repair", file, "--from", tmp_path / "good", "--apply", expect=0)
    assert [[0] if size == SMALL else [2]] == [one["damaged_blocks"] for one in repair.of_type("repair_plan")]
    assert content == file.read_bytes()
    integrity.run("scrub", data, expect=0)
    integrity.run("findings", expect=0)


def test_damaged_restore_is_accepted(data: Path, integrity: Box, tmp_path: Path) -> None:
    """A person may know better than history."""
    put(data / "stays")
    file = put_old(data / "f", os.urandom(SMALL))
    damage_copy(file, tmp_path / "bad", 5_000)
    integrity.run("scan", data, expect=0)
    file.unlink()
    integrity.run("scan", data, expect=0)
    shutil.copy2(tmp_path / "bad", file)
    integrity.run("scan", data, expect=1)

    integrity.run("accept", file, "--reason", "as it should be", expect=0)

    assert {"verified": 2} == tallies(integrity.run("--json", "scrub", data, expect=0))
    integrity.run("findings", expect=0)


def test_rotten_file_is_deleted_and_put_back_damaged(data: Path, integrity: Box, tmp_path: Path) -> None:
    """That its finding ended with the file does not make the same damage good when it comes back."""
    put(data / "stays")
    file = put_old(data / "f", os.urandom(LARGE))
    integrity.run("scan", data, expect=0)
    rot(file, FLIPPED)
    integrity.run("scrub", data, expect=1)
    shutil.copy2(file, tmp_path / "backup")
    file.unlink()
    integrity.run("scan", data, expect=0)
    integrity.run("findings", expect=0)
    shutil.copy2(tmp_path / "backup", file)

    assert [("silent_rewrite", str(file))] == met(integrity.run("--json", "scan", data, expect=1))


def test_damaged_backup_is_put_back_elsewhere(data: Path, integrity: Box, tmp_path: Path) -> None:
    """A folder is restored under another name: its files are held against what was deleted."""
    file = put_old(data / "2024" / "f", os.urandom(SMALL))
    damage_copy(file, tmp_path / "bad", 5_000)
    integrity.run("scan", data, expect=0)
    file.unlink()
    integrity.run("scan", data, expect=0)
    restored = data / "restored" / "f"
    restored.parent.mkdir()
    shutil.copy2(tmp_path / "bad", restored)

    assert [("silent_rewrite", str(restored))] == met(integrity.run("--json", "scan", data, expect=1))


def test_honest_restores_are_no_finding(data: Path, integrity: Box, tmp_path: Path) -> None:
    """The right bytes, an older version and a newer version come back: all is well."""
    put(data / "stays")
    names = ("same", "older", "newer")
    for name in names:
        put_old(data / name, b"first version of " + name.encode())
        (tmp_path / "old").mkdir(exist_ok=True)
        shutil.copy2(data / name, tmp_path / "old" / name)
    integrity.run("scan", data, expect=0)
    put_old(data / "older", b"other version of older")
    integrity.run("scan", data, expect=0)
    for name in names:
        (data / name).unlink()
    integrity.run("scan", data, expect=0)
    for name in names:
        shutil.copy2(tmp_path / "old" / name, data / name)
    put(data / "newer", b"third version of newer")

    assert {"new": 3, "not_due": 1} == tallies(integrity.run("--json", "scan", data, expect=0))
    integrity.run("scrub", data, expect=0)


def test_another_files_content_under_a_deleted_name(data: Path, integrity: Box) -> None:
    """Damage never yields what is recorded under another name: a file that is copied there with its time is meant."""
    one, other = put_old(data / "one", os.urandom(SMALL)), put_old(data / "other", os.urandom(SMALL))
    shutil.copystat(one, other)
    integrity.run("scan", data, expect=0)
    one.unlink()
    integrity.run("scan", data, expect=0)
    shutil.copy2(other, one)

    assert {"new": 1, "not_due": 1} == tallies(integrity.run("--json", "scan", data, expect=0))
    integrity.run("scrub", data, expect=0)


def test_unseen_rot_is_moved_by_copy_and_delete(data: Path, integrity: Box) -> None:
    """``cp -p a/f b/f; rm a/f`` of what rotted unseen: name, size and time tell what the copy should be."""
    file = put_old(data / "a" / "f", os.urandom(LARGE))
    put_old(data / "a" / "g", os.urandom(SMALL))
    integrity.run("scan", data, expect=0)
    integrity.run("scrub", data, expect=0)
    rot(file, FLIPPED)
    shutil.copytree(data / "a", data / "b")
    shutil.rmtree(data / "a")

    done = integrity.run("--json", "scan", data, expect=1)

    target = data / "b" / "f"
    assert ([("silent_rewrite", str(target))], [[2]]) == (met(done), [one["blocks"] for one in done.findings])
    assert {"new": 1, "moved": 1, "damaged": 1, "missing": 1} == tallies(done)
    assert [("silent_rewrite", str(target))] == met(integrity.run("--json", "scrub", data, expect=1))


# Damage that is copied


def find_damage(box: Box, data: Path, name: str = "a/f", *, size: int = LARGE, offset: int = FLIPPED) -> Path:
    """Record a file, let it rot and find that."""
    file = put_old(data / name, os.urandom(size))
    box.run("scan", data, expect=0)
    rot(file, offset)
    assert ["rot"] == kinds(box.run("--json", "scrub", data, expect=1))
    return file


@pytest.mark.parametrize(("size", "offset"), [(SMALL, 5_000), (LARGE, FLIPPED)])
@pytest.mark.parametrize("keeps_time", [True, False])
def test_known_rot_moved_by_copy_and_delete(
    data: Path, integrity: Box, size: int, offset: int, keeps_time: bool
) -> None:
    """``cp a/f b/f; rm a/f``: the finding goes along, and what it says stays true."""
    file = find_damage(integrity, data, size=size, offset=offset)
    good = integrity.get_object("file", "explain", file)["digests"]
    before = integrity.findings("findings", expect=1)
    target = data / "b" / "f"
    target.parent.mkdir()
    (shutil.copy2 if keeps_time else shutil.copy)(file, target)
    file.unlink()

    done = integrity.run("--json", "scan", data, expect=0)

    assert {"damaged": 1, "moved": 1} == tallies(done)
    (after,) = integrity.findings("findings", expect=1)
    for key in ("id", "kind", "certainty", "blocks"):
        assert before[0][key] == after[key]
    assert str(target) == after["path"]
    assert good == integrity.get_object("file", "explain", target)["digests"]
    assert {"damaged": 1} == tallies(integrity.run("--json", "scan", data, expect=0))
    again = integrity.run("--json", "scrub", data, expect=1)
    assert ([("rot", str(target))], {"damaged": 1}) == (met(again), tallies(again))


def test_moved_rot_is_repaired_and_accepted_under_its_new_name(data: Path, integrity: Box, tmp_path: Path) -> None:
    """The good digests went along: a copy that has the content mends it, block by block."""
    content = os.urandom(LARGE)
    for name in ("f", "g"):
        put_old(data / name, content + name.encode())
    shutil.copytree(data, tmp_path / "good")
    integrity.run("scan", data, expect=0)
    for name in ("f", "g"):
        rot(data / name, FLIPPED)
    integrity.run("scrub", data, expect=1)
    for folder in (data, tmp_path / "good"):
        (folder / "new").mkdir()
        for name in ("f", "g"):
            shutil.copy2(folder / name, folder / "new" / name)
            (folder / name).unlink()
    integrity.run("scan", data, expect=0)

    repair = integrity.run("--json", "repair", data / "new" / "f", "--from", tmp_path / "good", "--apply", expect=0)
    integrity.run("accept", data / "new" / "g", "--reason", "never mind", expect=0)

    assert [[2]] == [one["damaged_blocks"] for one in repair.of_type("repair_plan")]
    assert content + b"f" == (data / "new" / "f").read_bytes()
    scrub = integrity.run("--json", "scrub", data, expect=0)
    assert {"verified": 2} == tallies(scrub, without="skipped")
    integrity.run("findings", expect=0)


def test_known_rot_is_edited_and_renamed_and_its_name_used_again(data: Path, integrity: Box) -> None:
    """A finding goes along with its file, also when its owner has written to it since."""
    file = put_old(data / "photo", os.urandom(SMALL))
    integrity.run("scan", data, expect=0)
    integrity.run("scrub", data, expect=0)
    rot(file, 4_000)
    integrity.run("scrub", data, expect=1)
    with open(file, "r+b") as stream:
        stream.write(b"edited")
    moved = file.rename(data / "photo-1")
    put(file, os.urandom(SMALL))

    integrity.run("scan", data)
    done = integrity.run("--json", "scrub", data, expect=1)

    assert met(done) == [("rot", str(moved))]


@pytest.mark.parametrize("is_right", [True, False])
def test_known_rot_is_written_to_and_renamed_over_another(data: Path, integrity: Box, *, is_right: bool) -> None:
    """The finding goes along with the inode, over whatever it is renamed, unless what was recorded is back in it."""
    one, other = put_old(data / "one", os.urandom(SMALL)), put_old(data / "other", os.urandom(SMALL))
    right = one.read_bytes()
    integrity.run("scan", data, expect=0)
    integrity.run("scrub", data, expect=0)
    rot(one, 100)
    integrity.run("scrub", data, expect=1)

    with open(one, "r+b") as file:
        file.write(right if is_right else b"edited")
    one.rename(other)

    done = integrity.run("--json", "scrub", data, expect=0 if is_right else 1)
    assert ([] if is_right else [("rot", str(other))]) == met(done)
    assert met(done) == met(integrity.run("--json", "scrub", data, expect=0 if is_right else 1))


def test_copy_of_known_rot_is_damaged_too(data: Path, integrity: Box) -> None:
    """Copied today, the original deleted days later: the copy was never good."""
    file = find_damage(integrity, data)
    target = data / "b" / "f"
    target.parent.mkdir()
    shutil.copy(file, target)

    done = integrity.run("--json", "scan", data, expect=1)

    assert ([("rot", str(target))], {"damaged": 2}) == (met(done), tallies(done))
    assert "a/f" in messages(done)
    file.unlink()
    integrity.run("scan", data)
    assert [("rot", str(target))] == met(integrity.run("--json", "findings", expect=1))
    assert {"damaged": 1} == tallies(integrity.run("--json", "scrub", data, expect=1))


@pytest.mark.parametrize("job", ["scan", "scrub"])
def test_copy_of_known_rot_over_another_file(data: Path, integrity: Box, job: str) -> None:
    """That is no newer version of the other file: it never was good, as no copy of it is."""
    file = find_damage(integrity, data)
    other = put_old(data / "b" / "other", os.urandom(LARGE))
    integrity.run("scrub", data, expect=1)
    shutil.copy(file, other)

    done = integrity.run("--json", job, data, expect=1)

    assert {("rot", str(file)), ("rot", str(other))} >= set(met(done))
    assert {"damaged": 2} == tallies(done)
    file.unlink()
    integrity.run("scan", data)
    assert [("rot", str(other))] == met(integrity.run("--json", "findings", expect=1))
    assert {"damaged": 1} == tallies(integrity.run("--json", "scrub", data, expect=1))


def test_rot_right_after_the_scan_that_recorded_a_change(data: Path, integrity: Box) -> None:
    """A scan reads a file that was just written once more, so that what it recorded is grounds for rot."""
    file = put_old(data / "f", os.urandom(SMALL))
    integrity.run("scan", data, expect=0)
    integrity.run("scrub", data, expect=0)
    with open_context(integrity.catalog) as context:
        for _ in range(3):
            put(file, os.urandom(SMALL))
            scan(context, [os.fsencode(data)], ScanOptions())
    rot(file, 30)

    done = integrity.run("--json", "scrub", data, expect=1)

    assert [("rot", str(file))] == met(done)


def test_copy_that_was_recorded_before_the_rot_was_found(data: Path, integrity: Box) -> None:
    """Once the original is known to be damaged, so is what was copied from it in a later second."""
    file = put_old(data / "a" / "f", os.urandom(LARGE))
    integrity.run("scan", data, expect=0)
    recorded_at = int(time.time())
    wait_until(lambda: int(time.time()) > recorded_at, "the next second")
    rot(file, FLIPPED)
    target = data / "b" / "f"
    target.parent.mkdir()
    shutil.copy(file, target)
    integrity.run("scan", data, expect=0)

    done = integrity.run("--json", "scrub", data, expect=1)

    assert {("rot", str(file)), ("rot", str(target))} == set(met(done))
    assert {"damaged": 2} == tallies(done)
    file.unlink()
    assert [("rot", str(target))] == met(integrity.run("--json", "scrub", data, expect=1))


def test_known_rot_is_moved_into_another_root(data: Path, xfs: LoopFS, integrity: Box) -> None:
    """Between shares, which are roots and disks of their own."""
    file = find_damage(integrity, data)
    other = xfs.folder / "share"
    other.mkdir()
    put_old(other / "some", b"some")
    integrity.run("scan", other, expect=0)
    shutil.copy(file, other / "f")
    file.unlink()

    done = integrity.run("--json", "scan", other, expect=1)
    integrity.run("scan", data)

    assert ([("rot", str(other / "f"))], [[2]]) == (met(done), [one["blocks"] for one in done.findings])
    assert [("rot", str(other / "f"))] == met(integrity.run("--json", "findings", expect=1))
    assert [("rot", str(other / "f"))] == met(integrity.run("--json", "scrub", other, expect=1))


def test_rot_that_goes_on_is_told(data: Path, integrity: Box) -> None:
    """What is known of the damage is not asked again; more of it is, and the finding has all blocks."""
    file = find_damage(integrity, data)
    known = integrity.run("--json", "scrub", data, expect=1)
    assert ([("rot", str(file))], [[2]]) == (met(known), [one["blocks"] for one in known.findings])
    rot(file, 7)

    done = integrity.run("--json", "scrub", data, expect=1)

    assert ([("rot", str(file))], [[0, 2]]) == (met(done), [one["blocks"] for one in done.findings])
