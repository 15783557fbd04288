"""Roots and copies on file systems that number inodes anew at each mount: what is recognized there, and by what."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path

import pytest

from support.cli import Box
from support.comparing import back_up, compare
from support.fusemounts import FATS, fat, make_fat, pool, union, view
from support.loopfs import LoopFS
from support.planted import plant
from support.results import get_number, kinds, tallies
from support.shapes import put
from support.stored import query, rewrite

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
