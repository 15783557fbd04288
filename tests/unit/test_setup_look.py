"""What ``integrity setup`` sees of folders: samples, archives, backup copies, and how long verification takes."""

from __future__ import annotations

import os
import shutil
import time
from pathlib import Path

import pytest

from integrity.files.capability import get_capability
from integrity.jobs.setup.backups import (
    LikelyCopy,
    LikelySeries,
    find_likely_copies,
    find_repository,
    find_series,
    find_series_of,
    is_named_like_backup,
)
from integrity.jobs.setup.folders import (
    FolderSample,
    find_archive_folders,
    looks_like_archive,
    take_sample,
)
from integrity.jobs.setup.look import Workload, can_keep, measure_rate, propose_days

DAY_S = 86_400
NIGHTS = "01:00-06:00"
TIB = 1 << 40
MIB = 1 << 20


def fill(folder: Path, count: int, suffix: str, *, age_days: float = 0, size_bytes: int = 1000) -> None:
    """Write files of different sizes into three folders."""
    then = time.time() - age_days * DAY_S
    for number in range(count):
        path = folder / f"part{number % 3}" / f"file{number}.{suffix}"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(os.urandom(size_bytes + number))
        os.utime(path, (then, then))


def sample_all(*folders: Path) -> dict[bytes, FolderSample]:
    return {bytes(folder): take_sample(bytes(folder)) for folder in folders}


def find(*folders: Path) -> list[LikelyCopy]:
    return find_likely_copies(sample_all(*folders))


def test_sample_counts_all_of_a_small_folder(tmp_path: Path) -> None:
    """Files, their sizes and the folders near the top; what scans leave out is not there."""
    fill(tmp_path / "a", 9, "txt")
    (tmp_path / "@eaDir").mkdir()
    (tmp_path / "@eaDir/thumb").write_text("x")
    (tmp_path / "link").symlink_to("a")
    sample = take_sample(bytes(tmp_path))

    assert (9, sum(1000 + number for number in range(9)), True) == (
        sample.seen_files,
        sample.seen_bytes,
        sample.is_whole,
    )
    assert (b"a", b"a/part0", b"a/part1", b"a/part2") == sample.folders


def test_sample_does_not_enter_mounts(tmp_path: Path) -> None:
    """What is mounted inside is another disk's."""
    fill(tmp_path / "inner", 3, "txt")
    fill(tmp_path / "own", 3, "txt")

    assert 3 == take_sample(bytes(tmp_path), [bytes(tmp_path / "inner")]).seen_files


def test_sample_ends_in_time(tmp_path: Path) -> None:
    """A folder that takes too long is sampled in part, and that is said."""
    fill(tmp_path, 30, "txt")
    times = iter(range(1000))
    sample = take_sample(bytes(tmp_path), limit_s=10, monotonic=lambda: float(next(times)))

    assert not sample.is_whole
    assert 0 < sample.seen_files < 30


def test_names_of_any_bytes_are_sampled(tmp_path: Path) -> None:
    """A name that is not UTF-8, or has a line feed, is a name."""
    names = [b"caf\xe9", b"two\nlines"]
    for name in names:
        (Path(os.fsdecode(bytes(tmp_path) + b"/" + name))).write_text("x")

    assert sorted(names) == sorted(file.path for file in take_sample(bytes(tmp_path)).files)


@pytest.mark.parametrize(
    ("suffix", "age_days", "expected"),
    [("jpg", 400, True), ("FLAC", 400, True), ("odt", 400, False), ("jpg", 1, False)],
)
def test_old_media_look_like_an_archive(suffix: str, age_days: float, expected: bool, tmp_path: Path) -> None:
    """Photos, music and films that nobody changed for months; not documents, and not what is being worked on."""
    fill(tmp_path, 30, suffix, age_days=age_days)

    assert expected == looks_like_archive(take_sample(bytes(tmp_path)), time.time())


def test_archive_inside_of_a_folder_is_named(tmp_path: Path) -> None:
    """A disk for everything is no archive, but a folder in it may be one."""
    fill(tmp_path / "photos", 30, "jpg", age_days=400)
    fill(tmp_path / "office", 60, "odt")
    sample = take_sample(bytes(tmp_path))

    assert not looks_like_archive(sample, time.time())
    assert [b"photos"] == find_archive_folders(sample, time.time())


def test_stale_copy_is_recognized_whatever_its_name(tmp_path: Path) -> None:
    """Same relative paths and sizes, and equal data; what it lacks is counted."""
    data, disk = tmp_path / "data", tmp_path / "disk2"
    fill(data, 30, "odt")
    shutil.copytree(data, disk)
    for number in range(5):
        (disk / f"part{number % 3}/file{number}.odt").unlink()
    os.utime(data / "part0/file0.odt", (time.time() + 60, time.time() + 60))
    (copy,) = find(data, disk)

    assert (bytes(data), bytes(disk), True) == (copy.of, copy.path, copy.fills_holder)
    assert (30, 25, 0, 5) == (copy.checked, copy.same_size, copy.other_size, copy.missing)
    assert copy.read == copy.equal > 0


def test_name_decides_which_side_is_the_copy(tmp_path: Path) -> None:
    """Of two equal folders the one called backup is the copy, also if it comes first."""
    backup, data = tmp_path / "backup", tmp_path / "data"
    fill(data, 12, "odt")
    shutil.copytree(data, backup)

    assert [(bytes(data), bytes(backup))] == [(copy.of, copy.path) for copy in find(backup, data)]


def test_copy_in_a_folder_of_a_disk_with_other_data(tmp_path: Path) -> None:
    """It is found where it lies; the disk is still one with data of its own."""
    data, disk = tmp_path / "data", tmp_path / "big"
    fill(data, 12, "odt")
    shutil.copytree(data, disk / "from-nas/data")
    fill(disk / "films", 60, "mkv")
    (copy,) = find(data, disk)

    assert (bytes(disk / "from-nas/data"), bytes(disk), False) == (copy.path, copy.holder, copy.fills_holder)


def test_copy_of_one_folder_only(tmp_path: Path) -> None:
    """If just a part was backed up, the part is named."""
    data, disk = tmp_path / "data", tmp_path / "usb"
    fill(data / "letters", 12, "odt")
    fill(data / "films", 60, "mkv")
    shutil.copytree(data / "letters", disk)

    assert [(bytes(data / "letters"), bytes(disk))] == [(copy.of, copy.path) for copy in find(data, disk)]


def test_same_names_with_other_data_are_no_copy(tmp_path: Path) -> None:
    """Names and sizes alone prove nothing."""
    for name in ("one", "backup"):
        fill(tmp_path / name, 12, "odt")

    assert [] == find(tmp_path / "one", tmp_path / "backup")


def test_empty_files_are_no_evidence(tmp_path: Path) -> None:
    """They are equal everywhere."""
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        for number in range(10):
            (tmp_path / name / f"empty{number}").touch()

    assert [] == find(tmp_path / "one", tmp_path / "two")


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("/mnt/backup", True),
        ("/srv/Back-Up2", True),
        ("/mnt/Sicherung", True),
        ("/srv/data", False),
        ("/x/bakery", False),
    ],
)
def test_names_of_backups(name: str, expected: bool) -> None:
    """What people call their backups."""
    assert expected == is_named_like_backup(name.encode())


def test_repository_of_a_backup_tool(tmp_path: Path) -> None:
    """Packed data can't be compared, so the tool is named."""
    for name in ("data", "keys", "snapshots", "index"):
        (tmp_path / name).mkdir()
    assert find_repository(take_sample(bytes(tmp_path))) is None
    (tmp_path / "config").touch()

    assert "restic" == find_repository(take_sample(bytes(tmp_path)))


@pytest.mark.parametrize("shown", [".snapshots/*/snapshot", ".zfs/snapshot/*", "#snapshot/*", "@Recently-Snapshot/*"])
def test_snapshots_that_a_file_system_shows(tmp_path: Path, shown: str) -> None:
    """They stand in the folder or above it, as snapper, ZFS and NAS boxes have them."""
    top, data = tmp_path / "pool", tmp_path / "pool/home/anna"
    fill(data, 12, "txt")
    for name in ("1", "2"):
        shutil.copytree(data, top / shown.replace("*", name) / "home/anna")
    (series,) = find_series(sample_all(data))

    assert LikelySeries(bytes(data), f"snapshots:{top}/{shown}/home/anna", 2) == series


@pytest.mark.parametrize(
    ("names", "stem"),
    [
        (("daily.0", "daily.1", "weekly.0"), "*.[0-9]*"),
        (("2026-11-01", "2026-11-02T03:00"), "*"),
        (("nas-20261101-0300", "nas-20261102-0300", "nas-20261103-0300.incomplete"), "nas-*"),
    ],
)
@pytest.mark.parametrize("rest", ["", "/localhost{data}", "{data}"])
def test_folders_by_time_on_another_disk(tmp_path: Path, names: tuple[str, ...], stem: str, rest: str) -> None:
    """The folder is found under its path or the end of it, perhaps below the name of a machine."""
    data, disk = tmp_path / "data", tmp_path / "disk"
    fill(data, 12, "txt")
    inner = rest.format(data=data)
    for name in names:
        shutil.copytree(data, Path(f"{disk}/{name}{inner}"))
    (series,) = find_series(sample_all(data, disk))

    number = sum("incomplete" not in name for name in names)
    assert (bytes(data), bytes(disk), True) == (series.of, series.holder, series.fills_holder)
    assert f"snapshots:{disk}/{stem}{inner}" == series.url
    assert number <= series.number


@pytest.mark.parametrize("others", [True, False])
def test_folder_of_a_root_in_folders_by_time(tmp_path: Path, others: bool) -> None:
    """One of its versions would be out of date tomorrow, and gone in a month; dated folders of other data are none."""
    data, disk = tmp_path / "data", tmp_path / "disk"
    fill(data / "anna", 12, "txt")
    fill(data / "bert", 12, "txt")
    shutil.copytree(data / "anna", disk / "nas/2026-11-01")
    if others:
        shutil.copytree(data / "anna", disk / "nas/2026-11-02")
    else:
        fill(disk / "nas/2026-11-02", 9, "raw")
    samples = sample_all(data, disk)
    assert [] == find_series(samples)
    [copy] = find_likely_copies(samples)

    series = find_series_of(copy, samples)

    found = LikelySeries(bytes(data / "anna"), f"snapshots:{disk}/nas/*", 2, bytes(disk), fills_holder=True)
    assert series == (found if others else None)


def test_dated_folders_of_ones_own_are_no_backups(tmp_path: Path) -> None:
    """Photos by day are data, and a snapshot of something else is no backup of this."""
    data, photos = tmp_path / "data", tmp_path / "photos"
    fill(data, 12, "txt")
    for day in ("2026-11-01", "2026-11-02"):
        fill(photos / day, 9, "jpg")
        fill(data / ".snapshots" / day, 9, "raw")

    assert [] == find_series(sample_all(data, photos))


@pytest.mark.parametrize(
    ("size_bytes", "windows", "expected"),
    [
        (1 * TIB, NIGHTS, 30),  # 3 h at 100 MiB/s: one night
        (40 * TIB, NIGHTS, 60),  # 116 h: 24 nights, and as many to spare
        (40 * TIB, "sat,sun 00:00-24:00", 45),
        (400 * TIB, NIGHTS, 467),
        (0, NIGHTS, 30),
        (400 * TIB, "0 1 * * *", 30),  # a moment: the work ends when it is done
    ],
)
def test_interval_is_one_that_the_disks_can_keep(size_bytes: int, windows: str, expected: int) -> None:
    """Bytes, divided by the rate, in the hours of the windows, with as many hours to spare."""
    load = Workload("sda", size_bytes, 100.0 * MIB)

    assert expected == propose_days([load, Workload("sdb", 0, None)], windows)
    assert can_keep(load, windows, expected * DAY_S)


def test_interval_that_is_too_short_is_seen() -> None:
    """What can't be read in time is not promised."""
    assert not can_keep(Workload("sda", 40 * TIB, 100.0 * MIB), NIGHTS, 20 * DAY_S)


def test_rate_is_measured_on_large_files(tmp_path: Path) -> None:
    """Enough data gives a rate; a few small files give none."""
    capability = get_capability("ext4")
    fill(tmp_path / "small", 3, "txt")
    fill(tmp_path / "large", 3, "bin", size_bytes=4 * MIB)
    small, large = take_sample(bytes(tmp_path / "small")), take_sample(bytes(tmp_path / "large"))

    assert measure_rate(bytes(tmp_path / "small"), capability, small.files) is None
    assert (measure_rate(bytes(tmp_path / "large"), capability, large.files) or 0) > 0
    assert measure_rate(bytes(tmp_path / "missing"), capability, large.files) is None
