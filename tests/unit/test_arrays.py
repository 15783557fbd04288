"""The state of md, btrfs and ZFS, from the files and programs that tell it."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from integrity.disks.arrays import parse_zpool, read_arrays, read_btrfs, read_md, read_zfs
from integrity.disks.report import DeviceReport, Quantity, follow
from integrity.disks.signs import describe_for_damage, describe_values, find_signs
from integrity.files.block_devices import find_disks_of, find_stack
from integrity.files.mounts import get_mount
from support.machine import need_programs
from support.mounts import small_tmpfs
from support.programs import sh
from support.reading import opened_root

NOW = 1_764_000_000
UUID = "0f9a5b9e-8a36-4f6e-9d2b-3c1f0f4b7a11"


def make_files(folder: Path, **contents: str) -> str:
    """Make files as sysfs has them."""
    folder.mkdir(parents=True)
    for name, content in contents.items():
        (folder / name).write_text(f"{content}\n")
    return str(folder)


def make_md(folder: Path, *, degraded: str = "0", mismatch_cnt: str = "0") -> str:
    """Make what sysfs shows of a mirror of two disks."""
    files = {"level": "raid1", "raid_disks": "2", "array_state": "clean"}
    make_files(folder / "md0" / "md", degraded=degraded, mismatch_cnt=mismatch_cnt, **files)
    return str(folder / "md0")


def signs(report: DeviceReport) -> list[str]:
    return [sign.words for sign in find_signs(report, report.tried_at)]


def test_healthy_mirror(tmp_path: Path) -> None:
    """It has its level, its state, and no sign."""
    report = read_md(make_md(tmp_path), NOW)

    assert ("md0", "raid1, 2 devices", []) == (report.name, report.label, signs(report))
    assert "no problem reported, clean" == describe_values(report, NOW)


def test_degraded_mirror(tmp_path: Path) -> None:
    """The remedy is another device, not another array."""
    report = read_md(make_md(tmp_path, degraded="1"), NOW)

    assert [
        "The array md0 (raid1, 2 devices) reports 1 missing device: find the device that failed and replace it."
    ] == describe_for_damage([report], NOW)


def test_mirror_whose_copies_differ(tmp_path: Path) -> None:
    """As its last check counted."""
    assert ["128 mismatched sectors"] == signs(read_md(make_md(tmp_path, mismatch_cnt="128"), NOW))


def test_array_without_redundancy_can_not_be_degraded(tmp_path: Path) -> None:
    """The kernel shows no such files of it."""
    make_files(tmp_path / "md1" / "md", level="raid0", raid_disks="2", array_state="clean")

    assert {} == read_md(str(tmp_path / "md1"), NOW).counts


def make_btrfs(folder: Path, *, missing: str = "0", corrupt: int = 0) -> str:
    """Make what sysfs shows of a btrfs on two devices."""
    stats = "write_errs 0\nread_errs 1\nflush_errs 0\ncorruption_errs {}\ngeneration_errs 0"
    make_files(folder / UUID / "devinfo" / "1", missing="0", error_stats=stats.format(0))
    make_files(folder / UUID / "devinfo" / "2", missing=missing, error_stats=stats.format(corrupt))
    return str(folder / UUID)


def test_btrfs_counts_errors_and_missing_devices(tmp_path: Path) -> None:
    """Old errors are no sign, new ones are, and so is a device that is gone."""
    before = read_btrfs(make_btrfs(tmp_path / "before"), "/srv", NOW)
    now = read_btrfs(make_btrfs(tmp_path / "now", missing="1", corrupt=5), "/srv", NOW + 86_400)

    assert [] == signs(before)
    expected = ["1 missing device (0 until 2025-11-25)", "7 device errors (2 until 2025-11-25)"]
    assert expected == signs(follow(before, now))


@pytest.mark.parametrize(
    ("end", "expected"),
    [("canceled:0|finished:1", NOW - 60), ("canceled:0|finished:0", None), ("canceled:1|finished:1", None)],
)
def test_last_scrub_of_btrfs_is_the_last_complete_one(end: str, expected: int | None, tmp_path: Path) -> None:
    """One that runs, was interrupted or was canceled has not compared everything."""
    lines = [f"{UUID}:{number}|csum_errors:0|t_start:{NOW - 60}|t_resumed:0|duration:9|{end}" for number in (1, 2)]
    make_files(tmp_path / "status", **{f"scrub.status.{UUID}": "\n".join(["scrub status:1", *lines])})
    folder = str(tmp_path / "status")

    assert expected == read_btrfs(make_btrfs(tmp_path), "/srv", NOW, status_folder=folder).scrubbed_at


def test_zfs_tells_its_state_without_a_program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As the kernel has it."""
    monkeypatch.setenv("PATH", str(tmp_path))
    make_files(tmp_path / "tank", state="DEGRADED")

    assert ["the state DEGRADED"] == signs(read_zfs("tank", NOW, folder=str(tmp_path)).report)


def test_zpool_tells_errors_and_the_last_scrub(tmp_path: Path) -> None:
    """OpenZFS 2.3 and later."""
    make_files(tmp_path / "tank", state="ONLINE")
    scan = {"function": "SCRUB", "state": "FINISHED", "start_time": NOW - 900, "end_time": NOW - 60, "errors": 0}
    leaves = {
        "ata-X": {
            "vdev_type": "disk",
            "state": "ONLINE",
            "path": "/dev/sda1",
            "checksum_errors": 3,
            "read_errors": "1",
        },
        "ata-Y": {"vdev_type": "disk", "state": "FAULTED", "path": "/dev/disk/by-id/ata-Y-part1"},
    }
    mirror = {"mirror-0": {"vdev_type": "mirror", "state": "ONLINE", "vdevs": leaves}}
    vdevs = {"tank": {"vdev_type": "root", "state": "ONLINE", "vdevs": mirror}}
    pool = {"name": "tank", "state": "ONLINE", "vdevs": vdevs, "scan_stats": scan, "error_count": "2"}
    reading = parse_zpool(json.dumps({"pools": {"tank": pool}}), read_zfs("tank", NOW, folder=str(tmp_path)).report)

    assert ["1 missing device", "2 data errors"] == signs(reading.report)
    assert 4 == reading.report.counts[Quantity.DEVICE_ERRORS].value
    assert NOW - 60 == reading.report.scrubbed_at
    assert ("/dev/sda1", "/dev/disk/by-id/ata-Y-part1") == reading.members


@pytest.mark.parametrize("text", ["", "unrecognized option '--json'", "[]", '{"pools": {"tank": 3}}'])
def test_zpool_that_can_not_tell_changes_nothing(text: str, tmp_path: Path) -> None:
    """What the kernel said holds."""
    make_files(tmp_path / "tank", state="ONLINE")
    report = read_zfs("tank", NOW, folder=str(tmp_path)).report

    assert report == parse_zpool(text, report).report


@pytest.fixture
def two_devices(tmp_path: Path) -> Iterator[tuple[bytes, Path]]:
    """A btrfs that mirrors its data on two loop devices in memory: its mount point and the image of the second."""
    need_programs("mkfs.btrfs", "btrfs")
    with small_tmpfs(tmp_path / "memory", 400 << 20):
        loops, point = [], tmp_path / "mnt"
        point.mkdir()
        try:
            for name in ("one", "two"):
                with open(tmp_path / "memory" / name, "wb") as file:
                    file.truncate(160 << 20)
                loops.append(sh("losetup", "--find", "--show", tmp_path / "memory" / name).strip())
            sh("mkfs.btrfs", "-q", "-f", "-d", "raid1", "-m", "raid1", *loops)
            sh("mount", "-t", "btrfs", "-o", ",".join(f"device={loop}" for loop in loops), loops[0], point)
            try:
                yield os.fsencode(point), tmp_path / "memory" / "two"
            finally:
                sh("umount", point)
        finally:
            for loop in loops:
                sh("losetup", "--detach", loop)


@pytest.mark.root
def test_scrub_of_a_real_btrfs_shows_its_corrupt_blocks(two_devices: tuple[bytes, Path]) -> None:
    """Bytes of one copy are overwritten below the file system; the scrub counts them, and so does the report."""
    point, image = two_devices
    pattern = os.urandom(4096)
    with open(os.path.join(point, b"photo.jpg"), "wb") as file:
        file.write(pattern + os.urandom(1 << 20))
    os.sync()
    before, disks = look_at(point, NOW)
    overwrite(image, pattern)
    sh("btrfs", "scrub", "start", "-B", point)
    after, _ = look_at(point, NOW + 60)
    (sign,) = find_signs(follow(before, after), NOW + 60)

    assert 2 == len(disks)
    assert (0, []) == (before.counts[Quantity.DEVICE_ERRORS].value, signs(before))
    assert Quantity.DEVICE_ERRORS is sign.quantity
    assert after.scrubbed_at is not None


def look_at(point: bytes, now: int) -> tuple[DeviceReport, set[str]]:
    """Return what a mounted btrfs reports, and its disks."""
    with opened_root(point) as fd:
        mount = get_mount(fd)
        stack = find_stack(fd, mount)
        (reading,) = read_arrays(fd, mount, stack, now)
        return reading.report, find_disks_of(stack)


def overwrite(image: Path, old: bytes) -> None:
    """Overwrite some bytes in an image with zeros, behind the back of the file system."""
    at = image.read_bytes().find(old)
    assert at >= 0
    with open(image, "r+b") as file:
        file.seek(at)
        file.write(bytes(len(old)))
