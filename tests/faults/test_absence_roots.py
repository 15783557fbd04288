"""Roots that are not there, or are not themselves: nothing is concluded about their files (R5)."""

from __future__ import annotations

import errno
import os
import shutil
import subprocess
import uuid
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from support.bitrot import rot
from support.cli import Box, Completed, JsonObject, complete, make_command
from support.comparing import back_up
from support.faultfs import FaultFS, Rule
from support.loopfs import LoopFS
from support.mounts import bound, hidden, other_disk, shut_down, unmounted, vanish
from support.namespaces import with_own_devices
from support.planted import plant
from support.programs import sh
from support.results import kinds, met, notes, tallies
from support.running import Running
from support.seccomp import without_syscall
from support.shapes import put
from support.stored import baselines, count_rows, query, rewrite
from support.waiting import wait_until

IOCTL = 16  # on x86-64
UUID = str(uuid.uuid4())  # btrfs takes no second one with the UUID of one that is mounted
WITH_UUID = {"ext4": ("-U", UUID), "xfs": ("-m", f"uuid={UUID}"), "btrfs": ("-U", UUID)}


def run_blind(box: Box, scratch: Path, links: Mapping[str, bytes], *args: str | Path) -> Completed:
    """Run the program where the kernel tells no UUIDs, and udev only those of ``links``."""
    scratch.mkdir(exist_ok=True)
    refused = without_syscall(IOCTL, errno.ENOTTY, *make_command("--json", *args))
    done = subprocess.run(
        with_own_devices(scratch, links, *refused), env=box.environment, capture_output=True, check=False
    )
    return complete(done.returncode, done.stdout, done.stderr, is_json=True)


def get_fs_id(box: Box) -> str:
    """Return what the catalog has the only root recognised by."""
    return str(the(box.run("--json", "root", "list").of_type("root"))["fs_id"])


def the(objects: list[JsonObject]) -> JsonObject:
    """Return the only one."""
    (one,) = objects
    return one


@pytest.mark.root
def test_empty_mount_point_deletes_nothing(ext4: LoopFS, integrity: Box) -> None:
    """Where 1,000 files were is nothing: suspended, one finding however often it is met; then all is as before."""
    root = plant(ext4.folder, 1000)
    integrity.run("scan", root, expect=0)
    with unmounted(ext4.mnt):
        for command in ("scan", "scrub", "scan"):
            result = integrity.run("--json", command, root, expect=3)
            assert ["root_suspended"] == kinds(result)
            assert {"skipped": 1000} == tallies(result)
            assert "incomplete" == result.summary["outcome"]
            assert 0 == result.summary["bytes_read"]
        assert 1 == len(integrity.findings("findings", expect=3))
        assert "not mounted" in str(the(integrity.findings("findings"))["message"])
        assert "integrity root release" in integrity.run("scan", root, expect=3).stdout
        assert 1000 == count_rows(integrity)

    again = integrity.run("--json", "scan", root, expect=0)

    assert {"not_due": 1000} == tallies(again, without="skipped")
    assert ["resolved"] == [note["kind"] for note in again.of_type("note") if note["kind"] == "resolved"]
    assert 0 == integrity.run("findings").code
    assert {"verified": 1000} == tallies(integrity.run("--json", "scrub", root, expect=0), without="skipped")


@pytest.mark.root
def test_overmounted_root_is_suspended(ext4: LoopFS, integrity: Box) -> None:
    """An empty file system over the root is not the root, whichever part of it is asked for."""
    root = plant(ext4.folder, 20)
    integrity.run("scan", root, expect=0)
    with hidden(root):
        for path in (root, root / "d1", root / "d1" / "1.txt"):
            assert ["root_suspended"] == kinds(integrity.run("--json", "scan", path, expect=3)), path
    integrity.run("scan", root / "d1", expect=0)
    assert 20 == count_rows(integrity)


def test_root_folder_that_is_gone_is_suspended(tmp_path: Path, integrity: Box) -> None:
    """A removed root folder is no reason to forget its files; one made anew under its name is not it, full or empty."""
    root = plant(tmp_path / "root", 20)
    integrity.run("scan", root, expect=0)
    shutil.move(root, tmp_path / "away")
    result = integrity.run("--json", "scan", expect=3)
    assert "can't be opened" in str(the(result.findings)["message"])
    assert ["root_suspended"] == kinds(integrity.run("--json", "scan", root, expect=3))
    root.mkdir()
    assert ["root_suspended"] == kinds(integrity.run("--json", "scan", root, expect=3))
    put(root / "other.txt")
    assert ["root_suspended"] == kinds(integrity.run("--json", "scan", root, expect=3))
    assert 20 == count_rows(integrity)
    shutil.rmtree(root)
    shutil.move(tmp_path / "away", root)
    integrity.run("scan", root, expect=0)
    assert 0 == integrity.run("status").code


def test_emptied_root_is_suspended_until_released(tmp_path: Path, integrity: Box) -> None:
    """The right folder without any of its files may be an emptied one: once a person says so, they are gone."""
    root = plant(tmp_path / "root", 20)
    integrity.run("scan", root, expect=0)
    for entry in list(root.iterdir()):
        shutil.rmtree(entry)
    (root / "lost+found").mkdir()
    result = integrity.run("--json", "scan", root, expect=3)
    assert "is empty, but 20 files are recorded" in str(the(result.findings)["message"])
    assert 20 == count_rows(integrity)
    integrity.run("root", "release", root, expect=0)
    assert 20 == count_rows(integrity)
    released = integrity.run("--json", "scan", root, expect=0)
    assert {"missing": 20} == tallies(released, without="skipped")
    assert 0 == count_rows(integrity)
    integrity.run("scan", root, expect=0)


def test_archive_whose_files_are_all_gone_comes_back_from_its_copy(tmp_path: Path, integrity: Box) -> None:
    """Once a person said that it is empty, each file is missing, and the command that is told brings it back."""
    root = plant(tmp_path / "root", 3)
    copy = back_up(root, tmp_path / "copy")
    integrity.configure(f'[[root]]\npath = "{root}"\npolicy = "archive"\n')
    integrity.run("scan", root, expect=0)
    integrity.run("compare", root, "--with", copy, expect=0)
    for entry in list(root.iterdir()):
        shutil.rmtree(entry)
    integrity.run("scan", root, expect=3)
    integrity.run("root", "release", root, expect=0)
    missing = integrity.run("--json", "scan", root, expect=1)
    assert ["missing"] * 3 == kinds(missing)

    for finding in missing.findings:
        integrity.run("repair", str(finding["path"]), "--from", copy, "--apply", expect=0)
    assert {"verified": 3} == tallies(integrity.run("--json", "scrub", root, expect=0))


def test_configured_root_that_was_never_there_is_told(tmp_path: Path, integrity: Box) -> None:
    """A slip of the pen, or a disk that was never mounted: told as a root that is gone, and no other waits for it."""
    root, absent = plant(tmp_path / "root", 20), tmp_path / "disk" / "photos"
    integrity.configure(f'[[root]]\npath = "{root}"\n[[root]]\npath = "{absent}"\n')
    assert str(absent) in integrity.run("config", "check", expect=0).stderr

    for command, tally in (("scan", {"new": 20}), ("scrub", {"verified": 20})):
        result = integrity.run("--json", command, expect=3)
        assert ["root_suspended"] == kinds(result)
        assert tally == tallies(result)
        assert str(absent) in str(the(result.findings)["message"])
    told = integrity.run("-q", "scrub", "--due", expect=3).stdout
    assert "correct its path in the configuration" in told
    assert "root release" not in told
    integrity.run("scan", root, expect=0)
    assert str(absent) in integrity.run("status", expect=3).stdout
    assert f"{absent} suspended" in integrity.run("status", "--nagios", expect=1).stdout

    plant(absent, 5)
    assert {"new": 5, "not_due": 20} == tallies(integrity.run("--json", "scan", expect=0))
    integrity.run("status", expect=0)
    shutil.move(absent, tmp_path / "away")
    plant(absent, 5)
    assert ["root_suspended"] == kinds(integrity.run("--json", "scan", expect=3))


def test_path_of_a_root_that_was_never_there_is_corrected(tmp_path: Path, integrity: Box) -> None:
    """Nothing is left of what the configuration names no more and nobody ever saw."""
    root, other = plant(tmp_path / "root", 20), plant(tmp_path / "other", 5)
    integrity.configure(f'[[root]]\npath = "{root}"\n[[root]]\npath = "{tmp_path}/othr"\n')
    integrity.run("scan", expect=3)
    integrity.configure(f'[[root]]\npath = "{root}"\n[[root]]\npath = "{other}"\n')
    assert {"new": 5, "not_due": 20} == tallies(integrity.run("--json", "scan", expect=0))
    integrity.run("findings", expect=0)
    assert [str(other), str(root)] == [one["path"] for one in integrity.run("--json", "root", "list").of_type("root")]


def test_removable_disk_that_was_never_there_is_no_alarm(tmp_path: Path, integrity: Box) -> None:
    """With presence = "sometimes" it is a note, and none of its own when it comes."""
    root, absent = plant(tmp_path / "root", 20), tmp_path / "usb"
    integrity.configure(f'[[root]]\npath = "{root}"\n[[root]]\npath = "{absent}"\npresence = "sometimes"\n')
    assert "usb" not in integrity.run("config", "check", expect=0).stderr
    for _ in range(2):
        result = integrity.run("--json", "scan", expect=0)
        assert ([], ["warning"]) == (result.findings, [note["kind"] for note in result.of_type("note")])
    integrity.run("status", expect=0)
    plant(absent, 5)
    assert {"new": 5, "not_due": 20} == tallies(integrity.run("--json", "scan", expect=0))
    integrity.run("--json", "scan", expect=0)
    integrity.run("findings", expect=0)


@pytest.mark.root
def test_another_disk_in_the_slot_is_not_the_root(ext4: LoopFS, integrity: Box, tmp_path: Path) -> None:
    """A disk with another UUID is told from the recorded one although the same names are on it."""
    root = plant(ext4.folder, 20)
    integrity.run("scan", root, expect=0)
    with LoopFS("ext4") as other:
        plant(other.folder, 15)
        shutil.copy(other.image, tmp_path / "other.img")
    before = integrity.run("--json", "explain", root / "d1" / "1.txt").objects
    with other_disk(tmp_path / "other.img", root):
        for command in ("scan", "scrub"):
            result = integrity.run("--json", command, root, expect=3)
            assert "a different one is" in str(the(result.findings)["message"])
    assert before == integrity.run("--json", "explain", root / "d1" / "1.txt").objects
    integrity.run("scrub", root, expect=0)


@pytest.mark.root
def test_absent_removable_disk_is_no_alarm(ext4: LoopFS, integrity: Box) -> None:
    """With presence = "sometimes" absence is a note and exit 3 at most, never a finding, and nothing is forgotten."""
    root = plant(ext4.folder, 20)
    integrity.configure(f'[[root]]\npath = "{root}"\npresence = "sometimes"\n')
    integrity.run("scan", expect=0)
    with unmounted(ext4.mnt):
        result = integrity.run("--json", "scan", expect=0)
        assert [] == result.findings
        assert ["warning"] == [note["kind"] for note in result.of_type("note")]
        assert {"skipped": 20} == tallies(result)
        assert 0 == integrity.run("status").code
    assert 20 == count_rows(integrity)
    integrity.run("scan", expect=0)


def mount_over(folder: bytes) -> None:
    """Put an empty file system over a folder; whoever unmounts the folder unmounts both."""
    sh("mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", folder)


def interrupt_listing(faulty: FaultFS, integrity: Box, command: str, act: Callable[[], None]) -> Completed:
    """Let a run stop at the listing of /d3, act, and let it go on."""
    rule = faulty.add(Rule("readdir", path="/d3", is_hung=True))
    with Running(integrity, "--json", command, faulty.folder) as running:
        wait_until(lambda: bool(faulty.get_fired()), "the listing of d3")
        act()
        if act != faulty.kill:
            faulty.clear(rule)
        return running.finish()


@pytest.mark.root
@pytest.mark.parametrize("act", [vanish, mount_over], ids=["vanished", "overmounted"])
def test_root_that_goes_while_it_is_walked(
    faulty: FaultFS, integrity: Box, act: Callable[[bytes], None], tmp_path: Path
) -> None:
    """A run that began on the root ends on it, as its folder is held open; the next one finds the root gone."""
    plant(tmp_path / "source", 30)
    integrity.run("scan", faulty.folder, expect=0)
    result = interrupt_listing(faulty, integrity, "scan", lambda: act(faulty.mnt))
    assert {"not_due": 30} == tallies(result)
    assert 0 == result.code
    assert 30 == count_rows(integrity)
    assert ["root_suspended"] == kinds(integrity.run("--json", "scan", faulty.folder, expect=3))
    assert 30 == count_rows(integrity)


@pytest.mark.root
def test_disk_that_dies_while_it_is_walked(faulty: FaultFS, integrity: Box, tmp_path: Path) -> None:
    """When everything fails with EIO from one moment on, no file is taken for deleted, in this run or in the next."""
    plant(tmp_path / "source", 30)
    integrity.run("scan", faulty.folder, expect=0)
    result = interrupt_listing(faulty, integrity, "scan", lambda: (faulty.add(Rule("*", errno=5)), None)[1])
    found = tallies(result)
    assert 3 == result.code
    assert 30 == sum(found.values())
    assert "missing" not in found
    integrity.run("scan", faulty.folder, expect=3)
    integrity.run("scrub", faulty.folder, expect=3)
    assert 30 == count_rows(integrity)
    faulty.clear()
    integrity.run("scan", faulty.folder, expect=0)
    assert 0 == integrity.run("findings").code
    again = integrity.run("--json", "scrub", faulty.folder, expect=0)
    assert {"verified": 30} == tallies(again)
    assert 0 == integrity.run("findings").code


@pytest.mark.root
def test_disk_that_dies_while_it_is_scrubbed(faulty: FaultFS, integrity: Box, tmp_path: Path) -> None:
    """What could not be read any more keeps its record, and is verified when the disk is back."""
    plant(tmp_path / "source", 30)
    integrity.run("scan", faulty.folder, expect=0)
    before = baselines(integrity.catalog)
    rule = faulty.add(Rule("read", path="/d3/*", is_hung=True))
    with Running(integrity, "--json", "scrub", faulty.folder) as running:
        wait_until(lambda: bool(faulty.get_fired()), "a read in d3")
        faulty.add(Rule("*", errno=5))
        faulty.clear(rule)
        result = running.finish()
    assert 3 == result.code
    found = tallies(result)
    assert 30 == sum(found.values())
    assert not {"missing", "damaged", "changed"} & set(found)
    integrity.run("scrub", faulty.folder, expect=3)
    faulty.clear()
    integrity.run("scan", faulty.folder, expect=0)
    assert 30 == count_rows(integrity)
    after = baselines(integrity.catalog)
    assert {path: row[:8] for path, row in before.items()} == {path: row[:8] for path, row in after.items()}


@pytest.mark.root
def test_disk_that_died_between_two_runs(xfs: LoopFS, integrity: Box) -> None:
    """An xfs that was shut down answers EIO while the mount table still says "rw": suspended, nothing deleted."""
    root = plant(xfs.folder / "root", 30)
    os.sync()
    integrity.run("scan", root, expect=0)
    shut_down(xfs.mnt)
    for command in ("scan", "scrub"):
        result = integrity.run("--json", command, root, expect=3)
        assert not {"missing", "damaged", "changed", "new"} & set(tallies(result))
    assert 30 == count_rows(integrity)
    xfs.remount()
    integrity.run("scan", root, expect=0)
    assert {"verified": 30} == tallies(integrity.run("--json", "scrub", root, expect=0))
    assert 0 == integrity.run("findings").code


@pytest.mark.root
def test_file_server_that_dies_while_it_is_walked(faulty: FaultFS, integrity: Box, tmp_path: Path) -> None:
    """ENOTCONN on everything is no deletion, either."""
    plant(tmp_path / "source", 30)
    integrity.run("scan", faulty.folder, expect=0)
    result = interrupt_listing(faulty, integrity, "scan", faulty.kill)
    assert 3 == result.code
    assert "missing" not in tallies(result)
    integrity.run("scan", faulty.folder, expect=3)
    assert 30 == count_rows(integrity)


@pytest.mark.root
def test_nested_mount_that_is_absent(integrity: Box, tmp_path: Path) -> None:
    """With cross_mounts a disk that is mounted inside the root and then is not takes none of its records with it."""
    with LoopFS("ext4") as outer, LoopFS("ext4") as inner:
        root = plant(outer.folder, 10)
        (root / "usb").mkdir()
        integrity.configure(f'[[root]]\npath = "{root}"\ncross_mounts = true\n')
        with bound(inner.mnt, root / "usb"):
            plant(root / "usb" / "deep", 10)
            integrity.run("scan", expect=0)
            assert 20 == count_rows(integrity)
        for command in ("scan", "scrub"):
            result = integrity.run("--json", command, expect=3)
            assert ["root_suspended"] == kinds(result)
            assert str(root / "usb") == the(result.findings)["path"]
            found = tallies(result)
            assert 20 == count_rows(integrity)
            assert "missing" not in found
            assert 10 <= int(str(found["skipped"]))
        with bound(inner.mnt, root / "usb"):
            integrity.run("scan", expect=0)
            assert 0 == integrity.run("findings").code


@pytest.mark.root
def test_other_disk_on_a_nested_mount_point(integrity: Box) -> None:
    """With cross_mounts another disk inside the root is not taken for the one that was recorded there."""
    with LoopFS("ext4") as outer, LoopFS("ext4") as inner, LoopFS("ext4") as other:
        root = plant(outer.folder, 10)
        (root / "usb").mkdir()
        plant(other.folder, 8)
        integrity.configure(f'[[root]]\npath = "{root}"\ncross_mounts = true\n')
        with bound(inner.mnt, root / "usb"):
            plant(root / "usb", 10)
            integrity.run("scan", expect=0)
        with bound(other.mnt, root / "usb"):
            result = integrity.run("--json", "scan", expect=3)
            assert ["root_suspended"] == kinds(result)
            assert "changed" not in tallies(result)
            assert "new" not in tallies(result)
        with bound(inner.mnt, root / "usb"):
            assert {"verified": 20} == tallies(integrity.run("--json", "scrub", expect=0), without="skipped")


@pytest.mark.root
def test_empty_file_system_over_a_folder_of_the_root(integrity: Box) -> None:
    """With cross_mounts an empty disk over recorded files hides them; forgotten, the place begins anew."""
    with LoopFS("ext4") as outer, LoopFS("ext4") as inner:
        root = plant(outer.folder, 14)
        integrity.configure(f'[[root]]\npath = "{root}"\ncross_mounts = true\n')
        integrity.run("scan", expect=0)
        with bound(inner.mnt, root / "d1"):
            assert ["root_suspended"] == kinds(integrity.run("--json", "scan", expect=3))
            assert {"not_due": 1} == tallies(integrity.run("--json", "scan", root / "d2" / "2.txt", expect=0))
            assert 14 == count_rows(integrity)
            integrity.run("forget", root / "d1", "--yes", expect=0)
            put(inner.folder / "fresh.txt")
            assert {"new": 1, "not_due": 12} == tallies(integrity.run("--json", "scan", expect=0), without="skipped")
            assert 0 == integrity.run("findings").code
        assert ["root_suspended"] == kinds(integrity.run("--json", "scan", expect=3))
        assert 13 == count_rows(integrity)


@pytest.mark.root
def test_nested_mount_without_cross_mounts(integrity: Box) -> None:
    """A disk that is mounted over recorded files hides them: they are skipped, not missing, and come back."""
    with LoopFS("ext4") as outer, LoopFS("ext4") as inner:
        root = plant(outer.folder, 14)
        plant(inner.folder, 5)
        integrity.run("scan", root, expect=0)
        with bound(inner.mnt, root / "d1"):
            result = integrity.run("--json", "scan", root, expect=0)
            found = tallies(result)
            assert 12 == found["not_due"]
            assert "new" not in found
            assert "missing" not in found
            assert [str(root / "d1")] == [
                note["path"] for note in result.of_type("note") if "mount" in str(note["message"])
            ]
        assert 14 == count_rows(integrity)
        integrity.run("scrub", root, expect=0)


@pytest.mark.root
def test_read_only_root_works(ext4: LoopFS, integrity: Box) -> None:
    """A root that can't be written is recorded and scrubbed like any other."""
    plant(ext4.folder, 10)
    ext4.remount("ro")
    integrity.run("scan", ext4.folder, expect=0)
    result = integrity.run("--json", "scrub", ext4.folder, expect=0)
    assert 10 == tallies(result)["verified"]
    assert not os.access(ext4.folder, os.W_OK)


@pytest.mark.root
def test_named_part_on_another_file_system_is_not_covered(integrity: Box, tmp_path: Path) -> None:
    """Nothing is wrong with the disk: exit 3, no finding, and the words say what it takes to have it covered."""
    root = plant(tmp_path / "root", 20)
    integrity.run("scan", root, expect=0)
    (root / "sub").mkdir()
    with hidden(root / "sub"):
        put(root / "sub" / "file", b"elsewhere")
        for path in (root / "sub", root / "sub" / "file"):
            for command in ("scan", "scrub"):
                result = integrity.run("--json", command, path, expect=3)
                assert ([], {"skipped": 1}) == (result.findings, tallies(result))
                assert "cross_mounts = true" in str(result.of_type("note")[0]["message"])
        integrity.run("scan", expect=0)
        integrity.configure(f'[[root]]\npath = "{root}"\ncross_mounts = true\n')
        assert {"new": 1} == tallies(integrity.run("--json", "scan", root / "sub", expect=0))
    integrity.run("findings", expect=0)


@pytest.mark.root
@pytest.mark.parametrize("has_other_tree", [True, False])
@pytest.mark.parametrize("policy", ["mutable", "archive"])
def test_named_part_below_a_mount_is_hidden_and_not_gone(
    data: Path, integrity: Box, policy: str, has_other_tree: bool
) -> None:
    """Neither scan nor scrub of what lies below a mount concludes anything: records and findings stay as they are."""
    (data / "mnt" / "sub").mkdir(parents=True)
    for name in ("u1", "u2"):
        put(data / "mnt" / "sub" / name, os.urandom(9000))
    put(data / "other", b"other")
    integrity.configure(f'[[root]]\npath = "{data}"\npolicy = "{policy}"\n')
    integrity.run("scan", expect=0)
    integrity.run("scrub", expect=0)
    rot(data / "mnt" / "sub" / "u1", 10)
    assert ["rot"] == kinds(integrity.run("--json", "scrub", expect=1))
    with hidden(data / "mnt"):
        if has_other_tree:
            (data / "mnt" / "sub").mkdir()
            put(data / "mnt" / "sub" / "u1", b"of another tree")
        for path, count in ((data / "mnt" / "sub", 2), (data / "mnt" / "sub" / "u1", 1)):
            scan = integrity.run("--json", "scan", path, expect=3)
            assert ([], {"skipped": count}) == (scan.findings, tallies(scan))
            for words in (["scrub"], ["scrub", "--no-scan"]):
                scrub = integrity.run("--json", *words, path, expect=3)
                assert ([], {"skipped": count}) == (scrub.findings, tallies(scrub)), words
        whole = integrity.run("--json", "scrub", "--no-scan", data, expect=0)
        assert {"skipped": 2, "verified": 1} == tallies(whole)
        assert [str(data / "mnt")] == notes(whole, "skipped")
    assert {"damaged": 1, "not_due": 2} == tallies(integrity.run("--json", "scan", expect=0))
    assert [("rot", str(data / "mnt" / "sub" / "u1"))] == met(integrity.run("--json", "scrub", expect=1))


@pytest.mark.root
def test_root_recorded_where_its_uuid_could_not_be_seen(integrity: Box, tmp_path: Path) -> None:
    """An ext4 without udev and ioctls, then with them, then without: the same root each time, under its best name."""
    with LoopFS("ext4", mkfs=WITH_UUID["ext4"]) as fs:
        root = plant(fs.folder, 5)
        assert 0 == run_blind(integrity, tmp_path / "dev", {}, "scan", root).code
        blind = get_fs_id(integrity)
        seeing = integrity.run("--json", "scan", root, expect=0)
        assert blind.startswith("fsid:")
        assert (f"uuid:{UUID}", []) == (get_fs_id(integrity), notes(seeing, "resolved"))

        again = run_blind(integrity, tmp_path / "dev", {}, "scrub", root)

        assert (0, {"verified": 5}) == (again.code, tallies(again, without="skipped"))
        assert f"uuid:{UUID}" == get_fs_id(integrity)


@pytest.mark.root
@pytest.mark.parametrize("fs_type", ["ext4", "xfs", "btrfs"])
def test_root_recorded_by_its_device(fs_type: str, integrity: Box) -> None:
    """What an older version recorded by type and device takes over the UUID; on another device it is not believed."""
    with LoopFS(fs_type, mkfs=WITH_UUID[fs_type]) as fs:
        root = plant(fs.folder, 5)
        integrity.run("scan", root, expect=0)
        right = get_fs_id(integrity)
        device = os.fsdecode(fs.device)
        for wrong in (f"{fs_type}:{device}x", "fsid:0123456789abcdef", "uuid:12345678-9a2b-4b35-a8a5-9d8c6a1f2b3c"):
            rewrite(integrity, "UPDATE root SET fs_id = ?", (wrong,))
            refused = integrity.run("--json", "scan", root, expect=3)
            assert ["root_suspended"] == kinds(refused)
            assert wrong in str(the(refused.findings)["message"])
            assert wrong == get_fs_id(integrity)
        rewrite(integrity, "UPDATE root SET fs_id = ?", (f"{fs_type}:{device}",))
        integrity.run("scan", root, expect=0)

    assert right.startswith(f"uuid:{UUID}")
    assert right == get_fs_id(integrity)


@pytest.mark.root
def test_uuid_that_only_udev_knows(integrity: Box, tmp_path: Path) -> None:
    """Recorded by udev's link, and seen without it: what can't be proved is said so; with either it is the root."""
    with LoopFS("xfs", mkfs=WITH_UUID["xfs"]) as fs:
        root = plant(fs.folder, 5)
        links = {UUID: fs.device}
        assert 0 == run_blind(integrity, tmp_path / "dev", links, "scan", root).code
        assert f"uuid:{UUID}" == get_fs_id(integrity)

        refused = run_blind(integrity, tmp_path / "dev", {}, "scan", root)

        assert (3, ["root_suspended"]) == (refused.code, kinds(refused))
        assert "UUID is not visible" in str(the(refused.findings)["message"])
        assert 0 == run_blind(integrity, tmp_path / "dev", links, "scan", root).code
        integrity.run("scan", root, expect=0)


@pytest.mark.root
def test_nested_mount_and_copy_recorded_by_their_devices(integrity: Box, tmp_path: Path) -> None:
    """What is mounted in a root, and a copy, are recognised like roots; what was said of the copy stays."""
    with LoopFS("ext4") as inner, LoopFS("ext4") as backup:
        root = plant(tmp_path / "root", 5)
        (root / "usb").mkdir()
        integrity.configure(f'[[root]]\npath = "{root}"\ncross_mounts = true\n')
        with bound(inner.mnt, root / "usb"):
            plant(root / "usb" / "data", 5)
            integrity.run("scan", root, expect=0)
            copy = back_up(root, backup.folder / "copy")
            integrity.run("compare", root, "--with", copy, expect=0)
            disks = {"nested_mount": inner, "copy": backup}
            stored = {table: str(query(integrity, f"SELECT identity FROM {table}")[0][0]) for table in disks}
            for table, disk in disks.items():
                by_device = f"ext4:{os.fsdecode(disk.device)} {stored[table].split(' ')[1]}"
                assert 1 == rewrite(integrity, f"UPDATE {table} SET identity = ?", (by_device,))

            scanned = integrity.run("--json", "scan", root, expect=0)
            compared = integrity.run("--json", "compare", root, "--with", copy, expect=0)

    assert [] == [note for done in (scanned, compared) for note in done.of_type("note") if "disk" in str(note)]
    assert stored == {table: query(integrity, f"SELECT identity FROM {table}")[0][0] for table in disks}
