import os
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from integrity.files.block_devices import Device, find_device, physical_position
from support.bitrot import find_extents
from support.loopfs import LoopFS, make_image
from support.mounts import small_tmpfs
from support.programs import sh
from support.reading import opened_root


def look_at(path: bytes) -> Device:
    with opened_root(path) as fd:
        return find_device(fd)


@contextmanager
def opened(path: bytes) -> Iterator[int]:
    fd = os.open(path, os.O_RDONLY)
    try:
        yield fd
    finally:
        os.close(fd)


def test_folders_of_one_file_system_share_a_device(tmp_path: Path) -> None:
    """Two roots on the same disk have the same key."""
    (tmp_path / "a").mkdir()
    device = look_at(os.fsencode(tmp_path))

    assert device == look_at(os.fsencode(tmp_path / "a"))
    assert device.name
    assert device.key


@pytest.mark.root
@pytest.mark.parametrize("fs_type", ["ext4", "btrfs"])
def test_loop_device_stands_for_the_disk_that_holds_its_image(tmp_path: Path, fs_type: str) -> None:
    """An image on a disk shares the disk's pace, whatever file system is in it."""
    image = tmp_path / "image"
    make_image(image, fs_type)
    with LoopFS(fs_type, image=image) as fs:
        assert look_at(fs.mnt) == look_at(os.fsencode(tmp_path))


@pytest.mark.root
@pytest.mark.parametrize("fs_type", ["ext4", "xfs", "btrfs"])
def test_image_in_memory_is_a_device_of_its_own(tmp_path: Path, fs_type: str) -> None:
    """A loop device whose image lies on no disk stands for itself."""
    with small_tmpfs(tmp_path / "memory", 1 << 30):
        image = tmp_path / "memory" / "image"
        make_image(image, fs_type)
        with LoopFS(fs_type, image=image) as fs:
            name = os.path.basename(os.fsdecode(fs.device))
            device = look_at(fs.mnt)

    assert (device.name, device.key) == (name, f"disk:{name}")


@pytest.mark.root
def test_partition_stands_for_its_disk(tmp_path: Path) -> None:
    """A partition has the key of its disk, and so have its neighbours."""
    with small_tmpfs(tmp_path / "memory", 1 << 30):
        image = tmp_path / "memory" / "disk"
        with open(image, "wb") as file:
            file.truncate(64 << 20)
            # The partition table of old: type 0x83 from sector 2048 on, the signature at the end.
            file.seek(446)
            file.write(struct.pack("<8BLL", 0, 0, 0, 0, 0x83, 0, 0, 0, 2048, 60_000))
            file.seek(510)
            file.write(b"\x55\xaa")
        loop = sh("losetup", "--find", "--show", "--partscan", image).strip()
        try:
            sysfs = Path("/sys/block", os.path.basename(loop))
            partition = sysfs / (os.path.basename(loop) + "p1")
            if not (partition / "partition").exists():
                pytest.skip("this kernel reads no partitions of loop devices")
            node = tmp_path / "partition"
            os.mknod(node, 0o060600, os.makedev(*map(int, (partition / "dev").read_text().split(":"))))
            sh("mkfs.ext4", "-q", "-F", node)
            point = tmp_path / "mnt"
            point.mkdir()
            sh("mount", "-t", "ext4", node, point)
            try:
                device = look_at(os.fsencode(point))
            finally:
                sh("umount", point)
        finally:
            sh("losetup", "--detach", loop)

    assert device.name == os.path.basename(loop)


@pytest.mark.root
def test_btrfs_of_several_disks_names_them_all(tmp_path: Path) -> None:
    """A file system on two disks has a key of both."""
    with small_tmpfs(tmp_path / "memory", 1 << 30):
        loops = []
        point = tmp_path / "mnt"
        point.mkdir()
        try:
            for name in ("one", "two"):
                with open(tmp_path / "memory" / name, "wb") as file:
                    file.truncate(160 << 20)
                loops.append(sh("losetup", "--find", "--show", tmp_path / "memory" / name).strip())
            sh("mkfs.btrfs", "-q", "-f", "-d", "raid1", "-m", "raid1", *loops)
            sh("mount", "-t", "btrfs", "-o", ",".join(f"device={loop}" for loop in loops), loops[0], point)
            try:
                device = look_at(os.fsencode(point))
            finally:
                sh("umount", point)
        finally:
            for loop in loops:
                sh("losetup", "--detach", loop)

    assert device.name == "+".join(sorted(os.path.basename(loop) for loop in loops))


@pytest.mark.root
def test_memory_is_a_device_of_its_own_and_does_not_rotate(tmp_path: Path) -> None:
    """What lies on no disk is told apart by its file system."""
    with small_tmpfs(tmp_path / "a", 1 << 20) as a:
        device = look_at(a)

    assert not device.is_rotational
    assert device.key.startswith("fs:")


@pytest.mark.root
def test_disk_says_whether_it_rotates(tmp_path: Path) -> None:
    """The kernel's word on the disk is taken."""
    with small_tmpfs(tmp_path / "memory", 1 << 30):
        make_image(tmp_path / "memory" / "image", "ext4")
        with LoopFS("ext4", image=tmp_path / "memory" / "image") as fs:
            switch = Path("/sys/block", os.path.basename(os.fsdecode(fs.device)), "queue/rotational")
            answers = []
            for value in ("1", "0"):
                switch.write_text(value)
                answers.append(look_at(fs.mnt).is_rotational)

    assert answers == [True, False]


@pytest.mark.root
def test_position_is_that_of_the_first_extent(each_fs: LoopFS) -> None:
    """A file's place on the disk is where its first bytes are."""
    path = each_fs.path("file")
    with open(path, "wb") as file:
        file.write(os.urandom(1 << 20))
        file.flush()
        os.fsync(file.fileno())

    with opened(path) as fd:
        assert physical_position(fd) == find_extents(path)[0].physical


@pytest.mark.root
def test_file_without_bytes_on_the_disk_has_no_position(each_fs: LoopFS) -> None:
    """Empty files and holes lie nowhere."""
    for name, size in (("empty", 0), ("hole", 1 << 20)):
        with open(each_fs.path(name), "wb") as file:
            file.truncate(size)
        with opened(each_fs.path(name)) as fd:
            assert physical_position(fd) is None


def test_file_system_that_tells_no_places_has_no_positions() -> None:
    """Where the kernel knows no extents there is no order to read in."""
    with opened(b"/proc/self/stat") as fd:
        assert physical_position(fd) is None
