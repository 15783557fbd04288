"""Catalog, file and copy vote, with real damage on real disks: who is right, and what the next step is."""

from __future__ import annotations

import errno
import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.bitrot import drop_cache, rot
from support.cli import Box, Completed
from support.comparing import back_up, compare, counts, put_back, said, steps
from support.flakydisk import FlakyDisk
from support.loopfs import LoopFS
from support.planted import age
from support.results import messages, tallies
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


@pytest.fixture
def witnessed(root: Path, integrity: Box, tmp_path: Path) -> Iterator[Path]:
    """Copy the files to a disk whose bytes can be changed below its file system, and compare them once."""
    integrity.run("scan", root, expect=0)
    with LoopFS("ext4") as disk:
        copy = back_up(root, disk.folder / "copy")
        compare(integrity, root, "--with", copy, expect=0)
        yield copy


def flip(path: Path, offset: int) -> None:
    """Change a byte by writing it, and put the times back: as damage that was copied looks in a copy."""
    times = path.stat()
    with path.open("r+b") as file:
        file.seek(offset)
        old = file.read(1)[0]
        file.seek(offset)
        file.write(bytes([old ^ 1]))
    os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))


def first_steps(integrity: Box, path: Path) -> tuple[object, str]:
    """Return what explain says of a file's first open finding: its kind, and the first command."""
    done = integrity.run("--json", "explain", path, expect=1)
    found = done.of_type("file")[0]["findings"]
    assert isinstance(found, list)
    (first, *_) = [one for one in found if one["state"] != "resolved"]
    return first["kind"], first["next_steps"][0]["command"]


def test_rotten_file_and_good_copy(root: Path, copy: Path, integrity: Box) -> None:
    """The rot is found on the way, and the way to mend it stands first: in the run, in findings, in explain."""
    rot(root / NAME, 2 * MIB)
    integrity.run("scrub", root, expect=1)
    done = compare(integrity, root, "--with", copy, expect=1)
    assert {"rot": {NAME}} == said(done, root)
    assert {"verified": 1, "damaged": 1, "repairable": 1} == counts(done)
    repair = f"integrity repair {root / NAME} --from {copy}"
    assert [repair] == steps(done, "rot")
    assert ("rot", repair) == first_steps(integrity, root / NAME)
    human = integrity.run("compare", root, "--with", copy, expect=1).stdout
    assert "1 DAMAGED here, intact in the backup" in human
    assert f"restore the damaged part from the copy:  {repair}" in human


def test_rot_that_nobody_has_found_yet_and_good_copy(root: Path, copy: Path, integrity: Box) -> None:
    """Without a trace in its stat the file is not read, which the result says; scrubs and --read find its rot."""
    rot(root / NAME, 2 * MIB)
    done = compare(integrity, root, "--with", copy, expect=0)
    assert {"verified": 2} == counts(done)
    assert (0, 2) == (done.summary["files_read_here"], done.summary["files_known_by_record"])
    integrity.run("scrub", root, expect=1)
    assert ["rot"] == [one["kind"] for one in integrity.findings("findings", expect=1)]


def test_advice_stays_through_scrubs_and_ends_with_the_copy(root: Path, copy: Path, integrity: Box) -> None:
    """A scrub that meets the rot again keeps the way to mend it; a copy that went bad since is named no more."""
    rot(root / NAME, 2 * MIB)
    integrity.run("scrub", root, expect=1)
    compare(integrity, root, "--with", copy, expect=1)
    integrity.run("scrub", root, expect=1)
    assert "integrity repair" in first_steps(integrity, root / NAME)[1]
    flip(copy / NAME, 2 * MIB + 9)
    done = compare(integrity, root, "--with", copy, expect=1)
    assert f"--from {copy}" not in str([steps(done, kind) for kind in ("rot", "copy_differs")])
    assert f"--from {copy}" not in first_steps(integrity, root / NAME)[1]


def test_advice_names_the_copy_that_is_good(root: Path, copy: Path, integrity: Box, tmp_path: Path) -> None:
    """Of two copies the good one is named, in whichever order they are compared."""
    bad = back_up(root, tmp_path / "bad")
    flip(bad / NAME, 2 * MIB)
    rot(root / NAME, 2 * MIB)
    integrity.run("scrub", root, expect=1)
    compare(integrity, root, "--with", copy, expect=1)
    compare(integrity, root, "--with", bad, expect=1)
    assert f"integrity repair {root / NAME} --from {copy}" == first_steps(integrity, root / NAME)[1]


def test_good_file_and_bad_copy(root: Path, witnessed: Path, integrity: Box) -> None:
    """Back the file up again: the file was read from its disk to be sure, and counts as verified by that."""
    copy = witnessed
    rot(copy / NAME, 3 * MIB)
    done = compare(integrity, root, "--with", copy, expect=1)
    assert {"copy_differs": {NAME}} == said(done, root)
    assert "your original is unchanged" in messages(done)
    assert [f"integrity compare {root / NAME} --with {copy}"] == steps(done, "copy_differs")
    file = integrity.run("--json", "explain", root / NAME, expect=1).of_type("file")[0]
    assert file["verified_at"] is not None
    put_back(root, copy, NAME)
    compare(integrity, root, "--with", copy, expect=0)
    integrity.run("findings", expect=0)


def test_damage_that_was_copied(root: Path, copy: Path, integrity: Box) -> None:
    """Both are equal and not what was recorded, and nobody wrote: the backup took the damage over."""
    rot(root / NAME, 2 * MIB)
    shutil.copy2(root / NAME, copy / NAME)
    drop_cache(root / NAME)
    done = compare(integrity, root, "--with", copy, expect=1)
    assert {"rot": {NAME}, "copy_differs": {NAME}} == said(done, root)
    assert "The damage was copied" in messages(done)
    assert [f"integrity repair {root / NAME} --from OTHER"] == steps(done, "copy_differs")
    assert {"verified": 1, "damaged": 1, "differing": 1} == counts(done)


def test_all_three_differ(root: Path, copy: Path, integrity: Box) -> None:
    """File and copy are damaged at the same place, each in its way."""
    rot(root / NAME, 2 * MIB, 3)
    flip(copy / NAME, 2 * MIB)
    done = compare(integrity, root, "--with", copy, expect=1)
    assert {"rot": {NAME}, "copy_conflict": {NAME}} == said(done, root)
    assert {"verified": 1, "changed": 1, "conflicting": 1} == counts(done)
    assert "The file here is not as recorded either" in messages(done)


def test_small_file_with_everything_wrong(root: Path, copy: Path, integrity: Box) -> None:
    """A file of one block is judged as well: rotten here, cut short there."""
    rot(root / "small", 100)
    os.truncate(copy / "small", 4999)
    os.utime(copy / "small", ns=(0, (root / "small").stat().st_mtime_ns))
    done = compare(integrity, root, "--with", copy, expect=1)
    assert {"rot": {"small"}, "copy_conflict": {"small"}} == said(done, root)


def test_change_in_an_archive_that_was_copied(root: Path, copy: Path, integrity: Box) -> None:
    """An archive's file was changed and backed up: to be accepted if that was meant; the copy is no problem."""
    integrity.configure(f'[[root]]\npath = "{root}"\npolicy = "archive"\n')
    put(root / NAME, os.urandom(5 * MIB))
    put_back(root, copy, NAME)
    done = compare(integrity, root, "--with", copy, expect=1)
    assert {"changed": {NAME}} == said(done, root)
    assert [f"integrity accept {root / NAME} --reason WHY"] == steps(done, "changed")
    assert {"verified": 1, "changed": 1} == counts(done)
    assert "1 changed here and there alike" in integrity.run("compare", root, "--with", copy, expect=1).stdout
    integrity.run("accept", root / NAME, "--reason", "meant", expect=0)
    assert {"verified": 2} == counts(compare(integrity, root, "--with", copy, expect=0))
    integrity.run("findings", expect=0)


def test_change_in_an_archive_and_good_copy(root: Path, copy: Path, integrity: Box) -> None:
    """The copy has what was recorded: it can be put back if the change was not meant."""
    integrity.configure(f'[[root]]\npath = "{root}"\npolicy = "archive"\n')
    put(root / NAME, os.urandom(5 * MIB))
    done = compare(integrity, root, "--with", copy, expect=1)
    assert {"changed": {NAME}} == said(done, root)
    assert [f"integrity repair {root / NAME} --from {copy}"] == steps(done, "changed")
    human = integrity.run("compare", root, "--with", copy, expect=1).stdout
    assert 1 == human.count("[finding ")
    assert "if that was not meant" in human


def test_file_missing_from_an_archive(root: Path, copy: Path, integrity: Box) -> None:
    """With a good copy it can be put back; without, it is said that this copy does not have it either."""
    integrity.configure(f'[[root]]\npath = "{root}"\npolicy = "archive"\n')
    put(root / "stays")
    for name in (NAME, "small"):
        (root / name).unlink()
    (copy / "small").unlink()
    done = compare(integrity, root, "--with", copy, expect=1)
    assert {"missing": {NAME, "small"}, "copy_missing": {"small", "stays"}} == said(done, root)
    assert f"integrity repair {root / NAME} --from {copy}" in steps(done, "missing")
    assert f"integrity repair {root / 'small'} --from OTHER" in steps(done, "copy_missing")


def test_older_version_in_the_copy(root: Path, copy: Path, integrity: Box) -> None:
    """What was edited since the last backup is stale there: an older version that history knows, at any age."""
    for _ in range(2):
        put(root / NAME, os.urandom(4 * MIB))
        integrity.run("scan", root, expect=0)
    done = compare(integrity, root, "--with", copy, expect=1)
    assert {"copy_stale": {NAME}} == said(done, root)
    put_back(root, copy, NAME)
    compare(integrity, root, "--with", copy, expect=0)


def test_older_version_beside_a_rotten_file(root: Path, copy: Path, integrity: Box) -> None:
    """Nobody is sent to back the rotten file up over the older version."""
    put(root / NAME, os.urandom(4 * MIB))
    age(root / NAME)
    integrity.run("scan", root, expect=0)
    rot(root / NAME, MIB)
    done = compare(integrity, root, "--with", copy, expect=1)
    assert {"copy_stale": {NAME}, "rot": {NAME}} == said(done, root)
    (stale,) = [one for one in done.findings if one["kind"] == "copy_stale"]
    assert "do not back the file up" in str(stale["next_steps"])


@pytest.mark.parametrize("ending", ["accepted", "restored by hand"])
def test_advice_about_a_copy_does_not_outlive_the_damage(root: Path, copy: Path, integrity: Box, ending: str) -> None:
    """Once the file is good again, nobody is kept from backing it up."""
    (copy / NAME).unlink()
    content = (root / NAME).read_bytes()
    rot(root / NAME, MIB)
    integrity.run("scrub", root, expect=1)
    compare(integrity, root, "--with", copy, expect=1)
    assert "do not back the file up" in step_about_copy(integrity)
    if ending == "accepted":
        integrity.run("accept", root / NAME, "--reason", "seen", expect=0)
    else:
        put(root / NAME, content)
        age(root / NAME)
        integrity.run("scrub", root)
    assert "run the backup again" in step_about_copy(integrity)


def test_advice_about_a_copy_that_can_not_be_read_stays(root: Path, integrity: Box) -> None:
    """Which content was accepted says nothing about the disk of the copy."""
    with FlakyDisk("ext4") as disk:
        integrity.run("scan", root, expect=0)
        copy = back_up(root, disk.folder / "copy")
        disk.bad_sector(copy / NAME, 2 * MIB)
        rot(root / NAME, MIB)
        integrity.run("scrub", root, expect=1)
        compare(integrity, root, "--with", copy, "--read", expect=3)
        integrity.run("accept", root / NAME, "--reason", "seen", expect=0)
        assert "check the copy's disk" in step_about_copy(integrity, "copy_unreadable", expect=3)


def step_about_copy(integrity: Box, kind: str = "copy_missing", expect: int = 1) -> str:
    """Return the next steps of the finding about a file in a copy."""
    (found,) = [one for one in integrity.findings("findings", expect=expect) if one["kind"] == kind]
    return str(found["next_steps"])


def test_silent_rewrite_and_good_copy(root: Path, copy: Path, integrity: Box) -> None:
    """Rewritten with the time put back: the copy has what was recorded."""
    flip(root / NAME, 7)
    done = compare(integrity, root, "--with", copy, expect=1)
    assert {"silent_rewrite": {NAME}} == said(done, root)
    assert [f"integrity repair {root / NAME} --from {copy}"] == steps(done, "silent_rewrite")


def test_file_that_can_not_be_read(integrity: Box, tmp_path: Path) -> None:
    """Bad sectors here: repairable from a good copy; with a bad copy, too, neither is to be had."""
    with FlakyDisk("ext4") as disk:
        root = disk.folder / "data"
        root.mkdir()
        for name in ("one", "two"):
            put(root / name, os.urandom(3 * MIB))
        age(root / "one")
        integrity.run("scan", root, expect=0)
        copy = back_up(root, tmp_path / "copy")
        flip(copy / "two", MIB)
        for name in ("one", "two"):
            disk.bad_sector(root / name, 2 * MIB)
        integrity.run("scrub", root, expect=3)
        done = compare(integrity, root, "--with", copy, expect=1)
        assert {"unreadable": {"one"}, "copy_conflict": {"two"}} == {
            kind: names for kind, names in said(done, root).items() if kind != "unreadable" or "two" not in names
        } | {"unreadable": {"one"}}
        assert [f"integrity repair {root / 'one'} --from {copy}"] == [
            step for step in steps(done, "unreadable") if "one" in step
        ]
        assert {"damaged": 1, "repairable": 1, "changed": 1, "conflicting": 1} == counts(done)


def test_file_that_can_not_be_read_for_its_vote(integrity: Box, tmp_path: Path) -> None:
    """That it can't be read is found because its copy differs, and told."""
    with FlakyDisk("ext4") as disk:
        root = disk.folder / "data"
        root.mkdir()
        put(root / "one", os.urandom(3 * MIB))
        age(root / "one")
        integrity.run("scan", root, expect=0)
        copy = back_up(root, tmp_path / "copy")
        flip(copy / "one", MIB)
        disk.bad_sector(root / "one", 2 * MIB)
        done = compare(integrity, root, "--with", copy, expect=1)
        assert {"unreadable": {"one"}, "copy_conflict": {"one"}} == said(done, root)


def test_wrong_reading_of_the_file(integrity: Box, tmp_path: Path) -> None:
    """A bit that flips on the way while the file gets its vote is a transient; the copy is judged all the same."""
    with FlakyDisk("ext4") as disk:
        root = disk.folder / "data"
        root.mkdir()
        put(root / "one", os.urandom(3 * MIB))
        age(root / "one")
        integrity.run("scan", root, expect=0)
        copy = back_up(root, tmp_path / "copy")
        flip(copy / "one", MIB)
        disk.flip_in_transit(root / "one", 2 * MIB + 5, count=1)
        done = compare(integrity, root, "--with", copy, expect=1)
        assert {"transient": {"one"}, "copy_conflict": {"one"}} == said(done, root)


@pytest.mark.parametrize("was_copied", [False, True])
def test_mass_change_that_is_held(ext4: LoopFS, integrity: Box, tmp_path: Path, was_copied: bool) -> None:
    """While a mass change waits for a person, an old copy is stale for it, a new one has the change as well."""
    root = ext4.folder / "data"
    root.mkdir()
    for number in range(20):
        put(root / str(number), b"old %d" % number)
    age(*root.iterdir())
    integrity.configure(f'[[root]]\npath = "{root}"\nmass_change = {{ files = 5, percent = 20 }}\n')
    integrity.run("scan", expect=0)
    copy = back_up(root, tmp_path / "copy")
    for number in range(15):
        put(root / str(number), b"new %d" % number)
    if was_copied:
        back_up(root, copy)
    done = compare(integrity, root, "--with", copy, expect=1)
    expected = {"changed": 15} if was_copied else {"changed": 15, "stale": 15}
    assert {"verified": 5} | expected == counts(done)
    kinds = set(said(done, root))
    assert {"mass_change"} == kinds if was_copied else "mass_change" in kinds
    integrity.run("accept", root, "--changes", "--yes", "--reason", "meant", expect=0)
    after = compare(integrity, root, "--with", copy, expect=0 if was_copied else 1)
    assert ({"verified": 20} if was_copied else {"verified": 5, "changed": 15, "stale": 15}) == counts(after)


def test_repair_mends_what_compare_found(root: Path, copy: Path, integrity: Box) -> None:
    """The command that is proposed works, and after it all is well on both sides."""
    rot(root / NAME, 2 * MIB)
    integrity.run("scrub", root, expect=1)
    (command,) = steps(compare(integrity, root, "--with", copy, expect=1), "rot")
    arguments = command.split()[1:]
    integrity.run(*arguments, "--apply", expect=0)
    assert {"verified": 2} == counts(compare(integrity, root, "--with", copy, expect=0))
    integrity.run("findings", expect=0)
    assert {"verified": 2} == tallies(integrity.run("--json", "scrub", root, expect=0), without="skipped")


def test_accepted_damage_makes_the_copy_stale(root: Path, copy: Path, integrity: Box) -> None:
    """Who accepts the file as it is now has an older version in the copy."""
    rot(root / NAME, 2 * MIB)
    integrity.run("scrub", root, expect=1)
    compare(integrity, root, "--with", copy, expect=1)
    integrity.run("accept", root / NAME, "--reason", "seen", expect=0)
    assert {"copy_stale": {NAME}} == said(compare(integrity, root, "--with", copy, expect=1), root)


def manifest_of(root: Path, tool: str, path: Path) -> Path:
    """Write a manifest of a root with a tool."""
    names = sorted(str(one.relative_to(root)) for one in root.rglob("*") if one.is_file())
    done = subprocess.run([tool, *names], cwd=root, check=True, capture_output=True)
    put(path, done.stdout)
    return path


@pytest.mark.parametrize("tool", ["md5sum", "sha256sum"])
def test_manifest_beside_rot(root: Path, copy: Path, integrity: Box, tmp_path: Path, tool: str) -> None:
    """By MD5 the copy is what was recorded; where the file has to be read for it, its rot is found and told."""
    manifest = manifest_of(root, tool, tmp_path / "sums")
    rot(root / NAME, 2 * MIB)
    done = compare(integrity, root, "--with", manifest)
    if tool == "md5sum":
        assert (0, {"verified": 2}) == (done.code, counts(done))
        return
    assert 1 == done.code
    assert {"rot": {NAME}, "copy_not_comparable": {NAME, ""}} == said(done, root)
    assert {"verified": 1, "skipped": 1, "not_comparable": 1} == counts(done)


def test_file_that_can_not_be_read_for_a_manifest(integrity: Box, tmp_path: Path) -> None:
    """It is unreadable, and not comparable by these digests: exit 3."""
    with FlakyDisk("ext4") as disk:
        root = disk.folder / "data"
        root.mkdir()
        put(root / "one", os.urandom(3 * MIB))
        put(root / "two", os.urandom(5000))
        age(root / "one")
        integrity.run("scan", root, expect=0)
        manifest = manifest_of(root, "sha256sum", tmp_path / "sums")
        disk.bad_sector(root / "one", 2 * MIB)
        done = compare(integrity, root, "--with", manifest, expect=3)
        assert {"unreadable": {"one"}, "copy_not_comparable": {"one", ""}} == said(done, root)
        assert os.strerror(errno.EIO) in str(done.stdout)


def test_good_manifest_verifies_the_file_as_well(root: Path, copy: Path, integrity: Box, tmp_path: Path) -> None:
    """A file that was read for a digest that is not kept counts as verified: the same bytes were held against both."""
    manifest = manifest_of(root, "sha256sum", tmp_path / "sums")
    done: Completed = compare(integrity, root, "--with", manifest, "--no-scan", expect=0)
    assert 5 * MIB + 5000 == done.summary["bytes_read"]
    assert {"not_due": 2} == tallies(integrity.run("--json", "scrub", root, "--new", expect=0), without="skipped")


def test_advice_about_the_copy_after_a_repair(root: Path, copy: Path, integrity: Box) -> None:
    """Once the file is whole again, nobody is told to repair it from the other content of its backup."""
    flip(copy / NAME, 3 * MIB)
    rot(root / NAME, 5_000)
    integrity.run("scrub", root, expect=1)
    compare(integrity, root, "--with", copy, expect=1)
    integrity.run("repair", root / NAME, "--from", copy, "--apply", expect=0)

    (finding,) = integrity.findings("findings", expect=1)

    assert "copy_conflict" == finding["kind"]
    commands = [step["command"] for step in finding["next_steps"]]
    assert f"integrity compare --blocks {root / NAME} --with {copy}" == commands[0]
    assert f"integrity repair {root / NAME} --from {copy}" not in commands
