"""Walks of trees in which, or over which, something is mounted."""

import errno
import os
from pathlib import Path

import pytest

from integrity.files.excludes import Excludes
from integrity.files.listing import FolderListing
from integrity.files.walk import walk
from integrity.model import SkipReason
from support.loopfs import LoopFS
from support.mounts import bound, hidden, small_tmpfs
from support.programs import sh
from support.reading import opened_root

pytestmark = pytest.mark.root
NOTHING = Excludes(builtin=False)


@pytest.fixture
def top(root: Path) -> Path:
    (root / "a").mkdir()
    (root / "a" / "file").write_bytes(b"content")
    return root


def summary(listings: list[FolderListing]) -> tuple[set[bytes], dict[bytes, SkipReason]]:
    assert all(listing.error is None for listing in listings)
    files = [os.path.join(listing.folder, seen.name) for listing in listings for seen in listing.files]
    assert len(files) == len(set(files))
    return set(files), {skip.path: skip.reason for listing in listings for skip in listing.skips}


def test_other_file_system_is_a_skip_of_the_folder_that_holds_it(root_fd: int, top: Path) -> None:
    """What is mounted inside is named and not entered, and the listing above is still whole."""
    with small_tmpfs(top / "a" / "disk", 1 << 20):
        (top / "a" / "disk" / "file").write_bytes(b"elsewhere")
        listings = list(walk(root_fd, excludes=NOTHING))

    assert summary(listings) == ({b"a/file"}, {b"a/disk": SkipReason.MOUNT})
    assert all(listing.is_whole for listing in listings)
    assert [listing.folder for listing in listings] == [b"", b"a"]


def test_other_file_system_is_entered_when_asked_for(root_fd: int, top: Path) -> None:
    """With ``cross_mounts`` what is mounted inside belongs to the tree, at any depth."""
    with small_tmpfs(top / "disk", 1 << 20):
        (top / "disk" / "sub").mkdir()
        (top / "disk" / "sub" / "file").write_bytes(b"elsewhere")
        with small_tmpfs(top / "disk" / "sub" / "inner", 1 << 20):
            (top / "disk" / "sub" / "inner" / "file").write_bytes(b"elsewhere")
            listings = list(walk(root_fd, excludes=NOTHING, cross_mounts=True))

    assert summary(listings) == ({b"a/file", b"disk/sub/file", b"disk/sub/inner/file"}, {})


def test_bind_mount_of_the_tree_into_itself_is_not_entered(root_fd: int, top: Path) -> None:
    """A second view of the tree has the same device number, and is another mount all the same."""
    (top / "again").mkdir()
    (top / "other").mkdir()
    with bound(top, top / "again"), bound(top / "a", top / "other"):
        assert os.stat(top / "again").st_dev == os.stat(top).st_dev
        listings = list(walk(root_fd, excludes=NOTHING))

    assert summary(listings) == ({b"a/file"}, {b"again": SkipReason.MOUNT, b"other": SkipReason.MOUNT})


def test_bind_mounts_in_circles_end_when_mounts_are_crossed(root_fd: int, top: Path) -> None:
    """With ``cross_mounts`` a view of the root is not entered, and of several views of one folder only the first."""
    for name in ("again", "second", "first", "a/inner"):
        (top / name).mkdir()
    with bound(top / "a", top / "first"), bound(top / "a", top / "second"):
        sh("mount", "--rbind", top, top / "again")
        sh("mount", "--rbind", top / "a", top / "a" / "inner")
        try:
            listings = list(walk(root_fd, excludes=NOTHING, cross_mounts=True))
        finally:
            sh("umount", "-l", top / "a" / "inner")
            sh("umount", "-l", top / "again")

    files, skips = summary(listings)
    assert skips == {b"again": SkipReason.MOUNT, b"second": SkipReason.MOUNT, b"a/inner": SkipReason.MOUNT}
    assert files == {b"a/file", b"first/file"}


def test_file_that_is_mounted_over_a_file_is_a_skip(root_fd: int, top: Path) -> None:
    """A bind-mounted file (as containers have) is of another mount, too, and crossed when asked for."""
    (top.parent / "outside").write_bytes(b"elsewhere")
    (top / "a" / "mounted").touch()
    with bound(top.parent / "outside", top / "a" / "mounted"):
        alone = list(walk(root_fd, excludes=NOTHING))
        crossed = list(walk(root_fd, excludes=NOTHING, cross_mounts=True))

    assert summary(alone) == ({b"a/file"}, {b"a/mounted": SkipReason.MOUNT})
    assert summary(crossed) == ({b"a/file", b"a/mounted"}, {})


def test_subvolume_of_btrfs_belongs_to_the_tree(btrfs: LoopFS) -> None:
    """A subvolume has a device number of its own and no mount of its own: it is walked; a mounted one is not."""
    sh("btrfs", "-q", "subvolume", "create", btrfs.path("sub"))
    sh("btrfs", "-q", "subvolume", "create", btrfs.path("mounted"))
    for name in ("file", "sub/file", "mounted/file"):
        Path(os.fsdecode(btrfs.path(name))).write_bytes(b"content")
    os.mkdir(btrfs.path("point"))
    with opened_root(btrfs.mnt) as fd, bound(btrfs.path("mounted"), btrfs.path("point")):
        assert os.stat(btrfs.path("sub")).st_dev != os.stat(btrfs.mnt).st_dev
        listings = list(walk(fd, excludes=NOTHING))

    assert summary(listings) == ({b"file", b"sub/file", b"mounted/file"}, {b"point": SkipReason.MOUNT})


def test_open_root_sees_its_tree_below_what_is_mounted_over_it(root_fd: int, top: Path) -> None:
    """A descriptor that was opened before still sees everything, mounts over the same paths notwithstanding."""
    with hidden(top):
        (top / "a").mkdir()
        with hidden(top / "a"):
            listings = list(walk(root_fd, excludes=NOTHING))

    assert summary(listings) == ({b"a/file"}, {})


def test_mount_that_appears_during_the_walk_is_an_error_and_no_empty_folder(root_fd: int, top: Path) -> None:
    """What was listed as a folder and is mounted over before it is opened is not taken for empty."""
    listings = walk(root_fd, excludes=NOTHING)
    assert next(listings).folder == b""
    with hidden(top / "a"):
        (late,) = listings

    assert late.error is not None
    assert (late.error.path, late.error.errno) == (b"a", errno.EXDEV)
    assert (late.folder, late.files, late.is_whole, late.is_last) == (b"a", [], False, True)


def test_start_below_another_mount_is_an_error(root_fd: int, top: Path) -> None:
    """A part of the root that is now on another file system is not walked."""
    with hidden(top / "a"):
        (listing,) = walk(root_fd, b"a", excludes=NOTHING)

    assert listing.error is not None
    assert listing.error.errno == errno.EXDEV
