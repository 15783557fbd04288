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
from support.mounts import shut_down
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


def test_rotten_folder_of_ext4_is_an_error_and_not_empty(ext4: LoopFS) -> None:
    """A flipped bit in a folder's block gives EBADMSG: its files are not missing, the rest is walked."""
    write(ext4, "rotten/a", "rotten/b", "sound/a")
    os.sync()
    (position,) = get_positions(ext4.path("rotten"), 100)
    ext4.umount()
    flip_at(position)
    ext4.mount()

    with opened_root(ext4.mnt) as root:
        listings = list(walk(root, excludes=Excludes()))

    assert errors_of(listings) == {b"rotten": errno.EBADMSG}
    (rotten,) = [listing for listing in listings if listing.folder == b"rotten"]
    assert (rotten.is_whole, rotten.is_last) == (False, True)
    assert rotten.error is not None
    assert "damaged" in rotten.error.message
    assert files_of(listings) == {b"sound/a"}


def test_dead_disk_is_an_error_of_the_root(xfs: LoopFS) -> None:
    """A file system that was shut down gives EIO on all: one error, no empty root."""
    write(xfs, "folder/a")
    with opened_root(xfs.mnt) as root:
        shut_down(xfs.mnt)
        listings = list(walk(root, excludes=NOTHING))

    assert errors_of(listings) == {b"": errno.EIO}
    assert files_of(listings) == set()


@pytest.mark.parametrize("code", [errno.EIO, errno.ESTALE, errno.EACCES])
@pytest.mark.parametrize("op", ["opendir", "readdir"])
def test_folder_that_can_not_be_listed_is_an_error(faulty: FaultFS, op: str, code: int) -> None:
    """Whatever call fails and why, the folder is reported and its neighbours are walked."""
    write(faulty, "bad/a", "good/a")
    faulty.add(Rule(op, path="/bad", errno=code))

    with opened_root(faulty.mnt) as root:
        listings = list(walk(root, excludes=NOTHING))

    assert errors_of(listings) == {b"bad": code}
    assert files_of(listings) == {b"good/a"}
    assert [listing.is_whole for listing in listings if listing.folder == b"bad"] == [False]


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


def test_file_that_lstat_fails_for_is_an_error_of_its_own(faulty: FaultFS) -> None:
    """A name whose inode can't be read is reported by its path: it is not missing, its folder not whole."""
    write(faulty, "folder/bad", "folder/good")

    with opened_root(faulty.mnt) as root:
        faulty.add(Rule("getattr", path="/folder/bad", errno=errno.EIO))
        listings = list(walk(root, excludes=NOTHING))

    assert errors_of(listings) == {b"folder/bad": errno.EIO}
    assert files_of(listings) == {b"folder/good"}
    folder = [listing for listing in listings if listing.folder == b"folder"]
    assert [listing.is_last for listing in folder] == [False, True]
    assert not any(listing.is_whole for listing in folder)


def test_file_that_vanishes_after_the_listing_is_no_error(faulty: FaultFS) -> None:
    """A name that is gone when lstat asks for it was removed meanwhile."""
    write(faulty, "folder/gone", "folder/here")

    with opened_root(faulty.mnt) as root:
        faulty.add(Rule("getattr", path="/folder/gone", errno=errno.ENOENT))
        listings = list(walk(root, excludes=NOTHING))

    assert errors_of(listings) == {}
    assert files_of(listings) == {b"folder/here"}
