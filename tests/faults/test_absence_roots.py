"""Roots that are not there, or are not themselves: nothing is concluded about their files (R5)."""

from __future__ import annotations

import errno
import os
import subprocess
import uuid
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from support.cli import Box, Completed, JsonObject, complete, make_command
from support.comparing import back_up
from support.faultfs import FaultFS, Rule
from support.loopfs import LoopFS
from support.mounts import bound, vanish
from support.namespaces import with_own_devices
from support.planted import plant
from support.programs import sh
from support.results import kinds, notes, tallies
from support.running import Running
from support.seccomp import without_syscall
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
