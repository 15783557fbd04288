"""Roots and copies on file systems that number inodes anew at each mount: what is recognized there, and by what."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path

import pytest

from support.cli import Box
from support.comparing import back_up, compare
from support.fusemounts import FATS, fat, make_fat, pool, union, view
from support.loopfs import LoopFS
from support.mounts import other_disk
from support.planted import plant
from support.results import get_number, kinds, messages, tallies
from support.shapes import put
from support.stored import count_rows, query, rewrite

COUNT = 20
INODE_OF_A_FORMER_MOUNT = 4711
Mounted = Callable[[], AbstractContextManager[None]]


def make_disk(kind: str, folder: Path, point: Path) -> Mounted:
    """Make an empty file system of a kind, and return what mounts it."""
    if kind in FATS:
        image = make_fat(folder / "fat.img", kind)
        return lambda: fat(point, image, kind)
    branches = [folder / "one", folder / "two"]
    for branch in branches:
        branch.mkdir()
    mounts: dict[str, Mounted] = {
        "mergerfs": lambda: pool(point, branches),
        "mergerfs by hash": lambda: pool(point, branches, options="inodecalc=devino-hash"),
        "unionfs": lambda: union(point, branches),
        "bindfs": lambda: view(point, branches[0]),
    }
    return mounts[kind]


@pytest.fixture
def point(tmp_path: Path) -> Path:
    folder = tmp_path / "mnt"
    folder.mkdir()
    return folder


@pytest.fixture(params=["mergerfs", "mergerfs by hash", "unionfs", "bindfs", *FATS])
def mounted(request: pytest.FixtureRequest, tmp_path: Path, point: Path) -> Mounted:
    """Give each kind of file system in turn, with the files of a root in its folder ``photos`` beside another one."""
    mount = make_disk(request.param, tmp_path, point)
    with mount():
        for name in ("music", "photos"):
            plant(point / name, COUNT)
    return mount


def number_in_another_order(folder: Path) -> None:
    """Let a file system that numbers inodes as they are asked for begin elsewhere."""
    for path in sorted(folder.rglob("*"), reverse=True):
        path.stat()


@pytest.mark.root
def test_root_below_the_mount_point_is_recognized_after_each_mount(
    mounted: Mounted, point: Path, integrity: Box
) -> None:
    """What is found at its path in the file system, with recorded names in it, is the root; all files are checked."""
    root = point / "photos"
    with mounted():
        integrity.run("scan", root, expect=0)
    for is_number_moved in (True, False):
        with mounted():
            if is_number_moved:
                number_in_another_order(point / "music")
            scrub = integrity.run("--json", "scrub", root, expect=0)

        assert {"verified": COUNT} == tallies(scrub)


@pytest.mark.root
def test_bare_mount_point_is_not_the_root(mounted: Mounted, point: Path, integrity: Box) -> None:
    """Without its disk the root is suspended, also where files of the same names lie below the mount point."""
    root = point / "photos"
    with mounted():
        integrity.run("scan", root, expect=0)
    plant(root, COUNT)

    scan = integrity.run("--json", "scan", root, expect=3)

    assert (["root_suspended"], COUNT) == (kinds(scan), count_rows(integrity))


@pytest.mark.root
def test_other_folder_at_the_path_of_the_root_is_not_it(mounted: Mounted, point: Path, integrity: Box) -> None:
    """A folder in which none of the recorded names is found is another one, and no record is removed."""
    root = point / "photos"
    with mounted():
        integrity.run("scan", root, expect=0)
        root.rename(point / "aside")
        root.mkdir()
        put(root / "other.jpg", b"of another folder")
        scan = integrity.run("--json", "scan", root, expect=3)
        assert ["root_suspended"] == kinds(scan)
        assert "is not the recorded folder" in messages(scan)
        assert COUNT == count_rows(integrity)
        shutil.rmtree(root)
        (point / "aside").rename(root)

        integrity.run("scan", root, expect=0)


@pytest.mark.root
def test_root_that_an_older_version_recorded_by_its_inode_is_recognized(
    mounted: Mounted, point: Path, integrity: Box
) -> None:
    """An inode of a former mount proves nothing for or against: the recorded names decide, and the path is recorded."""
    root = point / "photos"
    with mounted():
        integrity.run("scan", root, expect=0)
        rewrite(integrity, "UPDATE root SET folder_inode = ?", (INODE_OF_A_FORMER_MOUNT,))
        integrity.run("scan", root, expect=0)
        rewrite(integrity, "UPDATE root SET folder_inode = ?", (INODE_OF_A_FORMER_MOUNT,))
        root.rename(point / "aside")
        root.mkdir()
        put(root / "other.jpg", b"of another folder")

        assert ["root_suspended"] == kinds(integrity.run("--json", "scan", root, expect=3))


@pytest.mark.root
def test_mount_inside_a_root_is_recognized(mounted: Mounted, point: Path, tmp_path: Path, integrity: Box) -> None:
    """With cross_mounts, what is mounted anew inside the root is the recorded one; without it nothing there is gone."""
    integrity.configure(
        f'[[root]]\npath = "{tmp_path}"\ncross_mounts = true\nexclude = ["/*home/", "/one/", "/two/", "*.img"]\n'
    )
    with mounted():
        integrity.run("scan", tmp_path, expect=0)
    integrity.run("scan", tmp_path, expect=3)
    for _ in range(2):
        with mounted():
            number_in_another_order(point / "music")
            scrub = integrity.run("--json", "scrub", tmp_path, expect=0)

        assert {"verified": 2 * COUNT} == tallies(scrub, without="skipped")


@pytest.mark.root
def test_pool_that_grew_is_the_recorded_one(tmp_path: Path, point: Path, integrity: Box) -> None:
    """A disk that is added to a pool changes what the pool is called, not the root; another pool is another root."""
    folders = [tmp_path / name for name in ("d1", "d2", "elsewhere", "strange")]
    for folder in folders:
        folder.mkdir()
    with pool(point, folders[:1]):
        plant(point / "photos", COUNT)
        integrity.run("scan", point / "photos", expect=0)
    for members in (folders[:2], folders[:3], folders[:1]):
        with pool(point, members):
            scrub = integrity.run("--json", "scrub", point / "photos", expect=0)
            assert {"verified": COUNT} == tallies(scrub)
    (folders[3] / "photos").mkdir()
    put(folders[3] / "photos" / "other.jpg", b"of another pool")
    with pool(point, folders[3:]):
        assert ["root_suspended"] == kinds(integrity.run("--json", "scan", point / "photos", expect=3))
    assert COUNT == count_rows(integrity)


@pytest.mark.root
def test_clone_of_a_disk_is_another_disk(integrity: Box, tmp_path: Path) -> None:
    """The UUID is cloned with the disk; its size tells the two apart."""
    with LoopFS("ext4") as fs:
        root = plant(fs.folder / "data", COUNT)
        integrity.run("scan", root, expect=0)
        fs.umount()
        clone = tmp_path / "clone.img"
        shutil.copyfile(fs.image, clone)
        with open(clone, "r+b") as file:
            file.truncate(os.stat(clone).st_size + (16 << 20))
        with other_disk(clone, fs.mnt):
            scan = integrity.run("--json", "scan", root, expect=3)
            assert ["root_suspended"] == kinds(scan)
            assert "a different disk with the same UUID" in messages(scan)
        fs.mount()
        integrity.run("scan", root, expect=0)


@pytest.mark.root
def test_moves_in_the_first_run_of_a_new_version(ext4: LoopFS, integrity: Box) -> None:
    """What is known of a disk grows for all roots on it at once, so files are followed inside and between them."""
    one, other = plant(ext4.folder / "one", COUNT), plant(ext4.folder / "other", COUNT)
    integrity.run("scan", one, other, expect=0)
    assert 1 == rewrite(integrity, "UPDATE root SET fs_id = substr(fs_id, 1, 41) WHERE path = ?", (bytes(one),))
    assert 1 == rewrite(integrity, "UPDATE root SET fs_id = substr(fs_id, 1, 41) WHERE path = ?", (bytes(other),))
    (one / "d1" / "1.txt").rename(one / "renamed.txt")
    (one / "d2" / "2.txt").rename(other / "from one.txt")
    scans = [integrity.run("--json", "scan", root, expect=0) for root in (other, one)]

    assert [0, 1] == [tallies(scan).get("moved", 0) for scan in scans]
    assert [0, 0] == [get_number(scan.summary, "bytes_read") for scan in scans]
    assert [(2,)] == query(integrity, "SELECT count(*) FROM root WHERE fs_id LIKE '%#size=%'")


@pytest.mark.root
def test_copy_that_is_mounted_again_goes_on(mounted: Mounted, tmp_path: Path, point: Path, integrity: Box) -> None:
    """Comparisons of a few files each reach the last one, although the inode of the folder is another each time."""
    root = plant(tmp_path / "root", COUNT, size_bytes=3000)
    integrity.run("scrub", root, expect=0)
    with mounted():
        shutil.rmtree(point / "photos")
        back_up(root, point / "photos")
    for run in range(5):
        with mounted():
            if run % 2:
                number_in_another_order(point / "music")
            done = compare(integrity, root, "--with", point / "photos", "--read-percent", "30", expect=0)

    status = integrity.run("--json", "status").of_type("copy")
    assert COUNT == get_number(status[0], "files_compared"), done.stdout
