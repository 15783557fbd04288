"""Walks of trees on disks and servers that fail: what could not be listed is never taken for empty."""

import errno
import os
import shutil
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from integrity.files.excludes import Excludes
from integrity.files.listing import FolderListing
from integrity.files.walk import walk
from support.bitrot import flip_at, get_positions
from support.faultfs import FaultFS, Rule
from support.loopfs import LoopFS
from support.mounts import hidden
from support.reading import files_of, opened_root
from support.waiting import wait_until

pytestmark = pytest.mark.root
NOTHING = Excludes(builtin=False)


def write(fs: LoopFS | FaultFS, *names: str) -> None:
    for name in names:
        os.makedirs(os.path.dirname(fs.path(name)), exist_ok=True)
        with open(fs.path(name), "wb") as file:
            file.write(b"content")


def errors_of(listings: list[FolderListing]) -> dict[bytes, int]:
    return {listing.error.path: listing.error.errno for listing in listings if listing.error}


def test_folder_that_went_from_its_server_is_no_error(faulty: FaultFS, tmp_path: Path) -> None:
    """ESTALE of an open folder that another client of the server removed: it is gone, like any other."""
    write(faulty, "gone/a", "good/a")
    faulty.add(Rule("readdir", path="/gone", errno=errno.ESTALE, count=1))  # what is tried again without the C core
    last = faulty.add(Rule("readdir", path="/gone", errno=errno.ESTALE, skip=1, delay_s=0.5))

    def remove() -> None:
        wait_until(lambda: any(fired.rule == last for fired in faulty.get_fired()), "the folder is being listed")
        shutil.rmtree(tmp_path / "source" / "gone")

    with opened_root(faulty.mnt) as root, ThreadPoolExecutor(1) as other:
        removal = other.submit(remove)
        listings = list(walk(root, excludes=NOTHING))
        removal.result()

    assert errors_of(listings) == {}
    assert files_of(listings) == {b"good/a"}


def test_files_before_the_failure_of_a_listing_are_kept() -> None:
    """When a folder fails half-way, what was read before counts, and the folder is not whole."""
    # With a seed of its own the order of a hashed folder is always the same: block 6 comes somewhere in the middle.
    with LoopFS("ext4", mkfs=("-E", "hash_seed=12345678-1234-1234-1234-123456789abc")) as fs:
        write(fs, *(f"big/{number:0100}" for number in range(800)))
        os.sync()
        (position,) = get_positions(fs.path("big"), 6 * 4096 + 100)
        fs.umount()
        flip_at(position)
        fs.mount()
        with opened_root(fs.mnt) as root:
            listings = [listing for listing in walk(root, excludes=NOTHING, chunk=100) if listing.folder == b"big"]

    assert errors_of(listings) == {b"big": errno.EBADMSG}
    assert 100 < len(files_of(listings)) < 800
    assert not any(listing.is_whole for listing in listings)
    assert [listing.is_last for listing in listings] == [False] * (len(listings) - 1) + [True]


def test_mount_that_appears_during_the_walk_is_an_error_and_no_empty_folder(root_fd: int, root: Path) -> None:
    """What was listed as a folder and is mounted over before it is opened is not taken for empty."""
    (root / "a").mkdir()
    (root / "a" / "file").write_bytes(b"content")
    listings = walk(root_fd, excludes=NOTHING)
    assert next(listings).folder == b""
    with hidden(root / "a"):
        (late,) = listings

    assert late.error is not None
    assert (late.error.path, late.error.errno) == (b"a", errno.EXDEV)
    assert (late.folder, late.files, late.is_whole, late.is_last) == (b"a", [], False, True)
