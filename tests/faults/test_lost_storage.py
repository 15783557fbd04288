"""A pool that goes on without one of its disks: the files on it are held as gone, and none is taken for deleted."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack
from pathlib import Path

import pytest

from support.cli import Box
from support.fusemounts import pool, union
from support.loopfs import LoopFS
from support.planted import plant
from support.results import kinds, messages, tallies
from support.stored import count_rows

DISKS, FILES_EACH = 4, 30
SIZE_BYTES = 20_000


@pytest.fixture
def disks() -> Iterator[list[LoopFS]]:
    """Mount some disks, each with files of its own in a folder that all of them have."""
    with ExitStack() as stack:
        made = [stack.enter_context(LoopFS("ext4", size_bytes=32 << 20)) for _ in range(DISKS)]
        for number, disk in enumerate(made):
            plant(disk.folder / "photos" / str(number), FILES_EACH, size_bytes=SIZE_BYTES)
        yield made


@pytest.fixture
def point(tmp_path: Path) -> Path:
    folder = tmp_path / "mnt"
    folder.mkdir()
    return folder


def folders(disks: Sequence[LoopFS]) -> list[Path]:
    return [disk.folder for disk in disks]


@pytest.mark.root
@pytest.mark.parametrize("join", [pool, union])
def test_disk_that_left_the_pool_is_no_deletion(
    disks: list[LoopFS],
    point: Path,
    integrity: Box,
    join: Callable[[Path, Sequence[Path]], AbstractContextManager[None]],
) -> None:
    """Its files are held and asked about, on every run; the gate is closed; with the disk back all is as before."""
    root = point / "photos"
    with join(point, folders(disks)):
        integrity.run("scan", root, expect=0)
    with join(point, folders(disks[1:])):
        for _ in range(2):
            scan = integrity.run("--json", "scan", root, expect=1)
            assert ["mass_change"] == kinds(scan)
            assert "a disk of the pool may be missing" in messages(scan)
            assert DISKS * FILES_EACH == count_rows(integrity)
        assert 0 != integrity.run("gate", root).code
    with join(point, folders(disks)):
        again = integrity.run("--json", "scan", root, expect=0)

        assert {"not_due": DISKS * FILES_EACH} == tallies(again)
        assert 0 == integrity.run("findings").code


@pytest.mark.root
def test_disk_that_is_not_mounted_below_its_branch(disks: list[LoopFS], point: Path, integrity: Box) -> None:
    """The folder below its mount point joins the pool in its stead: the size is another, and no space was freed."""
    with pool(point, folders(disks)):
        integrity.run("scan", point / "photos", expect=0)
    disks[0].umount()
    with pool(point, folders(disks)):
        scan = integrity.run("--json", "scan", point / "photos", expect=1)
    disks[0].mount()

    assert ["mass_change"] == kinds(scan)
    assert "a disk of the pool may be missing" in messages(scan)
    assert DISKS * FILES_EACH == count_rows(integrity)


@pytest.mark.root
def test_deletions_are_taken_over(disks: list[LoopFS], point: Path, integrity: Box) -> None:
    """Deleted files are deleted: in a pool that stays, in one that gets another disk, and on a disk of its own."""
    root = point / "photos"
    with pool(point, folders(disks[:3])):
        integrity.run("scan", root, expect=0)
        shutil.rmtree(root / "1")
        assert {"missing": FILES_EACH, "not_due": 60} == tallies(integrity.run("--json", "scan", root, expect=0))
    shutil.rmtree(disks[3].folder / "photos")
    with pool(point, folders(disks)):
        shutil.rmtree(root / "2")
        scan = integrity.run("--json", "scan", root, expect=0)

    assert {"missing": FILES_EACH, "not_due": FILES_EACH} == tallies(scan)


@pytest.mark.root
def test_lost_disk_that_is_accepted_is_asked_about_once(disks: list[LoopFS], point: Path, integrity: Box) -> None:
    """Once a person said that the files are gone, the smaller pool is the one that is known."""
    root = point / "photos"
    with pool(point, folders(disks)):
        integrity.run("scan", root, expect=0)
    with pool(point, folders(disks[1:])):
        integrity.run("scan", root, expect=1)
        integrity.run("accept", root, "--deletions", "--reason", "the disk died", "--yes", expect=0)
        integrity.run("scan", root, expect=0)
        shutil.rmtree(root / "1")

        assert {"missing": FILES_EACH, "not_due": 60} == tallies(integrity.run("--json", "scan", root, expect=0))
