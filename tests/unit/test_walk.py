import os
import random
import shutil
import socket
import stat
import tracemalloc

import pytest

from integrity.files.excludes import Excludes
from integrity.files.listing import FolderListing, Skip
from integrity.files.walk import walk
from integrity.model import SkipReason
from support.reading import files_of

NOTHING = Excludes(builtin=False)


def write(path: bytes, *names: bytes, content: bytes = b"content") -> None:
    whole = os.path.join(path, *names)
    os.makedirs(os.path.dirname(whole), exist_ok=True)
    with open(whole, "wb") as file:
        file.write(content)


def skips_of(listings: list[FolderListing]) -> dict[bytes, SkipReason]:
    return {skip.path: skip.reason for listing in listings for skip in listing.skips}


def test_every_regular_file_is_seen_as_lstat_sees_it(root_fd: int, top: bytes) -> None:
    """Each file comes once, in the listing of its folder, with what lstat says of it."""
    names = [b"a", b"b/a", b"b/c/d", b"b/\xff\xfe", b"e/line\nfeed", b"e/" + b"x" * 255, b"b/..c"]
    for name in names:
        write(top, name, content=name)
    os.link(os.path.join(top, b"a"), os.path.join(top, b"e/hard"))
    os.mkdir(os.path.join(top, b"empty"))
    os.utime(os.path.join(top, b"a"), ns=(1, -1))

    listings = list(walk(root_fd, excludes=NOTHING))

    assert [listing.folder for listing in listings] == [b"", b"b", b"b/c", b"e", b"empty"]
    assert all(listing.is_whole and listing.is_last and listing.error is None for listing in listings)
    assert files_of(listings) == {*names, b"e/hard"}
    for listing in listings:
        for seen in listing.files:
            lstat = os.lstat(os.path.join(top, listing.folder, seen.name))
            assert seen[1:] == (lstat.st_size, lstat.st_mtime_ns, lstat.st_ctime_ns, lstat.st_ino, lstat.st_nlink)


def test_what_is_no_file_is_named_and_left(root_fd: int, top: bytes) -> None:
    """Links (to nothing, in a circle, to a folder), FIFOs and sockets are skipped, each with its reason."""
    write(top, b"folder", b"file")
    os.symlink(b"nothing", os.path.join(top, b"broken"))
    os.symlink(b".", os.path.join(top, b"folder/circle"))
    os.symlink(b"/etc", os.path.join(top, b"away"))
    os.mkfifo(os.path.join(top, b"fifo"))
    with socket.socket(socket.AF_UNIX) as unix:
        unix.bind(f"/proc/self/fd/{root_fd}/socket")

    listings = list(walk(root_fd, excludes=NOTHING))

    assert skips_of(listings) == {
        b"broken": SkipReason.SYMLINK,
        b"folder/circle": SkipReason.SYMLINK,
        b"away": SkipReason.SYMLINK,
        b"fifo": SkipReason.SPECIAL,
        b"socket": SkipReason.SPECIAL,
    }
    assert files_of(listings) == {b"folder/file"}


@pytest.mark.root
def test_device_is_named_and_left(root_fd: int, top: bytes) -> None:
    """A device node is skipped, not opened."""
    os.mknod(os.path.join(top, b"zero"), stat.S_IFCHR | 0o600, os.makedev(1, 5))

    (listing,) = walk(root_fd, excludes=NOTHING)

    assert listing.skips == [Skip(b"zero", SkipReason.SPECIAL, False)]


def test_folders_come_in_the_order_of_their_names(root_fd: int, top: bytes) -> None:
    """The order of folders does not depend on the file system: by name, a folder before what is in it."""
    for name in (b"b/z", b"b/a", b"a/x", b"a.b/y", b"\xff/a", b"c"):
        write(top, name, b"file")

    folders = [listing.folder for listing in walk(root_fd, excludes=NOTHING)]

    assert folders == [b"", b"a", b"a/x", b"a.b", b"a.b/y", b"b", b"b/a", b"b/z", b"c", b"\xff", b"\xff/a"]


def test_excluded_folder_is_one_skip_and_not_entered(root_fd: int, top: bytes) -> None:
    """Of an excluded folder only itself is named; excluded files are named one by one."""
    write(top, b"sub/@eaDir/deep", b"thumbnail")
    write(top, b"sub", b"a.tmp")
    write(top, b"sub", b"a.txt")
    os.symlink(b"a.txt", os.path.join(top, b"sub/b.tmp"))

    listings = list(walk(root_fd, excludes=Excludes(["*.tmp"])))

    assert sorted(listings[1].skips, key=lambda skip: skip.path) == [
        Skip(b"sub/@eaDir", SkipReason.EXCLUDED, True),
        Skip(b"sub/a.tmp", SkipReason.EXCLUDED, False),
        Skip(b"sub/b.tmp", SkipReason.SYMLINK, False),
    ]
    assert [listing.folder for listing in listings] == [b"", b"sub"]
    assert listings[1].is_whole


@pytest.mark.parametrize(("count", "sizes"), [(10, [4, 4, 2]), (8, [4, 4, 0]), (4, [4, 0]), (3, [3])])
def test_huge_folder_comes_in_chunks(root_fd: int, top: bytes, count: int, sizes: list[int]) -> None:
    """Listings of one folder follow each other; only the last is the last, none of several is whole."""
    for index in range(count):
        write(top, b"big", b"%d" % index)

    listings = list(walk(root_fd, excludes=NOTHING, chunk=4))[1:]

    assert [len(listing.files) for listing in listings] == sizes
    assert [listing.is_last for listing in listings] == [False] * (len(sizes) - 1) + [True]
    assert [listing.is_whole for listing in listings] == [len(sizes) == 1] * len(sizes)
    assert files_of(listings) == {b"big/%d" % index for index in range(count)}


def test_memory_does_not_grow_with_a_folder(root_fd: int, top: bytes) -> None:
    """Of a huge folder only one chunk is held in memory."""
    for index in range(2500):
        os.close(os.open(b"file-with-a-name-of-some-length-%d" % index, os.O_CREAT | os.O_WRONLY, dir_fd=root_fd))
    list(walk(root_fd, excludes=NOTHING))  # the first walk of a process loads the C core
    tracemalloc.start()
    try:
        seen = sum(len(listing.files) for listing in walk(root_fd, excludes=NOTHING, chunk=50))
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()

    assert seen == 2500
    assert peak < 150_000


def test_folder_that_vanishes_before_it_is_opened_is_no_error(root_fd: int, top: bytes) -> None:
    """What is removed during the walk is simply not there."""
    write(top, b"a/b", b"file")
    write(top, b"c", b"file")
    found = []
    for listing in walk(root_fd, excludes=NOTHING):
        found.append(listing.folder)
        assert listing.error is None
        if listing.folder == b"":
            shutil.rmtree(os.path.join(top, b"a"))

    assert found == [b"", b"c"]


def test_folder_that_is_removed_while_it_is_listed_is_no_error(root_fd: int, top: bytes) -> None:
    """A folder that goes away between two chunks ends there."""
    for index in range(8):
        write(top, b"a", b"%d" % index)
    listings = []
    for listing in walk(root_fd, excludes=NOTHING, chunk=4):
        listings.append(listing)
        if listing.folder == b"a":
            shutil.rmtree(os.path.join(top, b"a"), ignore_errors=True)

    assert all(listing.error is None for listing in listings)
    assert not any(listing.is_whole for listing in listings if listing.folder == b"a")


def test_folder_that_becomes_a_link_is_not_followed(root_fd: int, top: bytes) -> None:
    """A folder that is swapped for a link during the walk leads nowhere."""
    write(top, b"a", b"file")
    write(os.path.dirname(top), b"outside", b"secret")
    listings = []
    for listing in walk(root_fd, excludes=NOTHING):
        listings.append(listing)
        if listing.folder == b"":
            shutil.rmtree(os.path.join(top, b"a"))
            os.symlink(b"../outside", os.path.join(top, b"a"))

    assert [listing.folder for listing in listings] == [b""]


def test_start_limits_the_walk_to_a_part(root_fd: int, top: bytes) -> None:
    """A walk from a folder inside sees that folder and what is below, with paths relative to the root."""
    write(top, b"a/b/c", b"file")
    write(top, b"a", b"other")

    assert files_of(list(walk(root_fd, b"a/b", excludes=NOTHING))) == {b"a/b/c/file"}


@pytest.mark.parametrize("start", [b"nothing", b"file", b"link"])
def test_start_that_is_no_folder_lists_nothing(root_fd: int, top: bytes, start: bytes) -> None:
    """A start that is gone, or no folder any more, has no listing."""
    write(top, b"file")
    os.symlink(b".", os.path.join(top, b"link"))

    assert list(walk(root_fd, start, excludes=NOTHING)) == []


def test_abandoned_walk_closes_what_it_had_open(root_fd: int, top: bytes) -> None:
    """A walk that is not finished leaves no descriptor open."""
    for index in range(8):
        write(top, b"a", b"%d" % index)
    before = os.listdir("/proc/self/fd")

    listings = walk(root_fd, excludes=NOTHING, chunk=2)
    next(listings)
    next(listings)
    listings.close()  # type: ignore[attr-defined]

    assert os.listdir("/proc/self/fd") == before


def test_walk_moves_no_atime(root_fd: int, top: bytes) -> None:
    """A walk leaves no trace: the times of folders and files stay as they were."""
    write(top, b"a", b"file")
    paths = [top, os.path.join(top, b"a"), os.path.join(top, b"a/file")]
    for path in reversed(paths):
        os.utime(path, ns=(10**18, 2 * 10**18))  # older than the mtime: relatime would move it

    list(walk(root_fd, excludes=NOTHING))

    assert [os.lstat(path).st_atime_ns for path in paths] == [10**18] * 3


@pytest.mark.parametrize("seed", range(8))
def test_each_name_of_a_random_tree_is_accounted_for_once(root_fd: int, top: bytes, seed: int) -> None:
    """Every name is a file, a skip or a folder of its own: exactly one of them (I1)."""
    dice = random.Random(seed)
    folders, expected = [b""], {"file": set[bytes](), "skip": set[bytes](), "folder": {b""}}
    for number in range(120):
        path = os.path.join(dice.choice(folders), b"%d" % number + dice.choice([b"", b"\xff", b"\n", b".tmp"]))
        full = os.path.join(top, path)
        kind = dice.choice(["file", "file", "folder", "link", "fifo"])
        if kind == "folder":
            os.mkdir(full)
            if not path.endswith(b".tmp"):
                folders.append(path)
        elif kind == "link":
            os.symlink(b"..", full)
        elif kind == "fifo":
            os.mkfifo(full)
        else:
            write(full)
        expected[kind if kind in expected and not path.endswith(b".tmp") else "skip"].add(path)

    listings = list(walk(root_fd, excludes=Excludes(["*.tmp"]), chunk=dice.choice([1, 3, 4096])))

    files = [os.path.join(listing.folder, seen.name) for listing in listings for seen in listing.files]
    skips = [skip.path for listing in listings for skip in listing.skips]
    last = [listing.folder for listing in listings if listing.is_last]
    assert sorted(files) == sorted(expected["file"])
    assert sorted(skips) == sorted(expected["skip"])
    assert sorted(last) == sorted(expected["folder"])
