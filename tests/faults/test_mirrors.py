"""A mirror with one damaged copy: each reading is answered by either, and a good one proves nothing."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from integrity.files.mirrors import MirrorCopy, find_mirror, find_mirror_of, read_copies
from support.bitrot import drop_cache, flip_at, get_positions
from support.cli import Box, Completed
from support.loopfs import LoopFS, make_image, unmount
from support.programs import sh
from support.reading import opened_root

MIB = 1 << 20
FILES = 8


@contextmanager
def loop_device(image: Path) -> Iterator[str]:
    device = sh("losetup", "--find", "--show", "--direct-io=on", image).strip()
    try:
        yield device
    finally:
        sh("losetup", "--detach", device)


@contextmanager
def btrfs_mirror(folder: Path) -> Iterator[Path]:
    """Mount a btrfs that keeps all data on two disks, without checksums that would tell which copy is right."""
    with ExitStack() as stack:
        devices = []
        for name in ("first", "second"):
            make_image(folder / name, "btrfs", size_bytes=256 * MIB)
            devices.append(stack.enter_context(loop_device(folder / name)))
        sh("mkfs.btrfs", "-q", "-f", "-d", "raid1", "-m", "raid1", *devices)
        point = folder / "mirror"
        point.mkdir()
        sh("mount", "-o", f"nodatasum,device={devices[0]},device={devices[1]}", devices[0], point)
        stack.callback(unmount, point)
        yield point


@pytest.fixture
def mirror(tmp_path: Path) -> Iterator[Path]:
    with btrfs_mirror(tmp_path) as point:
        yield point


def make_files(mirror: Path) -> list[Path]:
    root = mirror / "photos"
    root.mkdir()
    paths = [root / f"{number:02}.jpg" for number in range(FILES)]
    for number, path in enumerate(paths):
        path.write_bytes(os.urandom(200_000 + number))
    (root / "film.mkv").write_bytes(os.urandom(3 * MIB + 17))
    os.sync()
    return paths


def damage_first_copy(path: Path, offset: int) -> None:
    flip_at(get_positions(os.fsencode(path), offset)[0])
    drop_cache(os.fsencode(path))


def scrub_until_met(integrity: Box, root: Path) -> Completed:
    """Scrub until a reading gets the bad copy: btrfs chooses by the number of the thread, so each run tosses a coin."""
    for _ in range(40):
        result = integrity.run("--json", "scrub", root)
        if result.code:
            return result
    raise AssertionError("40 scrubs in a row got the good copy")


def repeat_scrub(integrity: Box, root: Path, times: int) -> Iterator[Completed]:
    for _ in range(times):
        yield integrity.run("--json", "scrub", root)


def kinds(result: Completed) -> set[object]:
    return {one["kind"] for one in result.findings}


@pytest.mark.root
def test_bad_copy_of_a_mirror_is_rot_that_no_good_reading_ends(mirror: Path, integrity: Box, tmp_path: Path) -> None:
    """What one of two copies has wrong is found, named, and stays found whatever the next readings happen to get."""
    paths = make_files(mirror)
    backup = tmp_path / "backup"
    shutil.copytree(mirror / "photos", backup)
    integrity.run("scan", mirror / "photos", expect=0)
    integrity.run("scrub", mirror / "photos", expect=0)
    for path in paths:
        damage_first_copy(path, 100_000)

    found: set[object] = set()
    for result in (scrub_until_met(integrity, mirror / "photos"), *repeat_scrub(integrity, mirror / "photos", 6)):
        assert 1 == result.code
        assert {"rot"} == kinds(result)
        now = {one["path"] for one in result.findings}
        assert found <= now
        found = now

    device = sh("losetup", "-n", "-O", "NAME", "-j", tmp_path / "first").strip()
    for one in integrity.findings("findings"):
        assert ("proven", [0]) == (one["certainty"], one["blocks"])
        assert f"the copy on {device} is damaged, another one is intact" in str(one["message"])
        assert "btrfs scrub start" in str(one["message"])
    assert "transient" not in kinds(integrity.run("--json", "findings", "--all"))

    integrity.run("repair", mirror / "photos", "--from", backup, "--apply", expect=0)

    assert [] == integrity.findings("scrub", mirror / "photos", expect=0)


@pytest.mark.root
def test_written_anew_a_file_on_a_mirror_is_well_again(mirror: Path, integrity: Box) -> None:
    """A write goes to every copy: a file that was restored under another inode is judged like any other."""
    paths = make_files(mirror)
    integrity.run("scan", mirror / "photos", expect=0)
    good = {path: path.read_bytes() for path in paths}
    for path in paths:
        damage_first_copy(path, 5000)
    scrub_until_met(integrity, mirror / "photos")

    for path, content in good.items():
        restored = path.with_suffix(".restored")
        restored.write_bytes(content)
        shutil.copystat(path, restored)
        restored.rename(path)

    result = integrity.run("scrub", mirror / "photos")
    assert (0, []) == (result.code, integrity.findings("findings")), result.stdout


@pytest.mark.root
def test_both_copies_of_a_mirror_are_named_when_both_are_bad(mirror: Path, integrity: Box, tmp_path: Path) -> None:
    """Different damage in both copies is rot as well, not a machine that reads other bytes each time."""
    make_files(mirror)
    film = mirror / "photos" / "film.mkv"
    integrity.run("scan", mirror / "photos", expect=0)
    first, second = get_positions(os.fsencode(film), 2 * MIB + 5)
    flip_at(first, 1)
    flip_at(second, 2)
    drop_cache(os.fsencode(film))

    (finding,) = scrub_until_met(integrity, mirror / "photos").findings

    assert ("rot", "proven", [2]) == (finding["kind"], finding["certainty"], finding["blocks"])
    for name in ("first", "second"):
        assert sh("losetup", "-n", "-O", "NAME", "-j", tmp_path / name).strip() in str(finding["message"])


@pytest.mark.root
def test_copies_of_btrfs_are_read_one_by_one(mirror: Path) -> None:
    """The copies that a btrfs keeps are found through its chunk tree, also of parts that end inside of a page."""
    make_files(mirror)
    film = mirror / "photos" / "film.mkv"
    content = film.read_bytes()
    damage_first_copy(film, MIB + 3)
    with opened_root(os.fsencode(mirror)) as root_fd:
        found = find_mirror(root_fd)
    assert found is not None
    assert ("btrfs raid1", 2) == (found.kind, found.copies)

    with open(film, "rb") as file:
        first, second = read_copies(found, file.fileno(), MIB, MIB)
        tail = read_copies(found, file.fileno(), 3 * MIB, 17)

    assert second.data == content[MIB : 2 * MIB]
    assert [3] == [at for at, pair in enumerate(zip(first.data or b"", second.data, strict=True)) if pair[0] != pair[1]]
    assert [content[3 * MIB :]] * 2 == [copy.data for copy in tail]


@pytest.mark.root
def test_copies_of_an_md_array_are_read_from_its_members(ext4: LoopFS, tmp_path: Path) -> None:
    """
    The members of a raid1 hold the file system behind their own offsets; partitions of the array begin further on.

    This kernel may have no md: a description of an array as the kernel gives it in sysfs stands for one, with the image
    of a real file system as its members.
    """
    path = ext4.folder / "file"
    content = os.urandom(MIB)
    path.write_bytes(content)
    os.sync()
    start, offsets = 2048 * 512, (1024 * 512, 264_192 * 512)
    damaged = get_positions(os.fsencode(path), 70_000)[0].offset
    with ExitStack() as stack:
        devices = []
        for number, offset in enumerate(offsets):
            member = tmp_path / f"member{number}"
            with open(member, "wb") as file, open(ext4.image, "rb") as image:
                file.truncate(offset + start)
                file.seek(offset + start)
                shutil.copyfileobj(image, file)
                if number == 1:
                    file.seek(offset + start + damaged)
                    file.write(bytes([content[70_000] ^ 4]))
            devices.append(stack.enter_context(loop_device(member)))
        partition = describe_md(tmp_path / "sys", "raid1", devices, offsets, start)

        mirror = find_mirror_of(str(partition))
        assert mirror is not None
        assert ("md raid1", "/dev/md127", 2) == (mirror.kind, mirror.name, mirror.copies)
        with open(path, "rb") as file:
            copies = read_copies(mirror, file.fileno(), 65_536, 65_536)

    wrong = bytearray(content[65_536:131_072])
    wrong[70_000 - 65_536] ^= 4
    expected = [MirrorCopy(devices[0], content[65_536:131_072]), MirrorCopy(devices[1], bytes(wrong))]
    assert sorted(expected, key=lambda copy: copy.device) == sorted(copies, key=lambda copy: copy.device)


def describe_md(sysfs: Path, level: str, devices: list[str], offsets: tuple[int, ...], start: int) -> Path:
    """Write what sysfs says of an md array with one partition; give the partition's folder."""
    array = sysfs / "block" / "md127"
    partition = array / "md127p1"
    for folder in (array / "md", array / "slaves", partition):
        folder.mkdir(parents=True)
    (array / "md" / "level").write_text(f"{level}\n")
    (partition / "partition").write_text("1\n")
    (partition / "start").write_text(f"{start // 512}\n")
    for device, offset in zip(devices, offsets, strict=True):
        name = os.path.basename(device)
        node = sysfs / "block" / name
        node.mkdir()
        member = array / "md" / f"dev-{name}"
        member.mkdir()
        (member / "state").write_text("in_sync\n")
        (member / "offset").write_text(f"{offset // 512}\n")
        (member / "block").symlink_to(node)
    return partition


@pytest.mark.parametrize(
    ("level", "members", "expected"),
    [
        ("raid1", 2, ("md raid1", 2, 2)),
        ("raid1", 3, ("md raid1", 3, 3)),
        ("raid10", 4, ("md raid10", 2, 0)),
        ("raid1", 1, None),  # degraded
        ("raid5", 3, None),
        ("raid0", 2, None),
    ],
)
def test_md_arrays_that_answer_reads_from_several_copies(tmp_path: Path, level, members, expected) -> None:
    """Parity is not read while all disks work, and one disk that is left is the only one that can answer."""
    partition = describe_md(tmp_path, level, [f"/dev/x{n}" for n in range(members)], (0,) * members, 0)

    mirror = find_mirror_of(str(partition))

    assert expected == (None if mirror is None else (mirror.kind, mirror.copies, len(mirror.legs)))


@pytest.mark.parametrize(("image_sectors", "expected"), [(4096, ("LVM raid1", 2)), (2048, None)])
def test_images_of_lvm_are_a_mirror_if_each_holds_all(tmp_path: Path, image_sectors: int, expected) -> None:
    """The hidden volumes of a raid1 are as large as what lies on them; those of raid5 or raid0 are smaller."""
    volume = tmp_path / "dm-4"
    (volume / "slaves").mkdir(parents=True)
    (volume / "dm").mkdir()
    (volume / "dm" / "name").write_text("vg-photos\n")
    (volume / "size").write_text("4096\n")
    for number, name in enumerate(
        ["vg-photos_rmeta_0", "vg-photos_rimage_0", "vg-photos_rmeta_1", "vg-photos_rimage_1"]
    ):
        node = tmp_path / f"dm-{number}"
        (node / "dm").mkdir(parents=True)
        (node / "dm" / "name").write_text(f"{name}\n")
        (node / "size").write_text(f"{image_sectors}\n")
        (volume / "slaves" / f"dm-{number}").symlink_to(node)

    mirror = find_mirror_of(str(volume))

    assert expected == (None if mirror is None else (mirror.kind, mirror.copies))
    assert mirror is None or ["/dev/dm-1", "/dev/dm-3"] == [leg.path for leg in mirror.legs]
