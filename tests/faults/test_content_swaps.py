"""Folders and files that swap names or pass them on, though size and times tell none from the other."""

from __future__ import annotations

import ctypes
import hashlib
import os
import shutil
from collections.abc import Iterator
from contextlib import ExitStack
from itertools import pairwise
from pathlib import Path

import pytest

from integrity.catalog import files
from integrity.files.direct_io import find_birth_ns
from integrity.jobs.context import Context
from integrity.jobs.options import ScanOptions, ScrubOptions
from integrity.jobs.runner import scan, scrub
from integrity.model import RootId
from support.bitrot import drop_cache, flip_bit
from support.jobs import Told, open_context
from support.loopfs import LoopFS, unmount
from support.programs import sh
from support.shapes import put
from support.waiting import wait_until

pytestmark = pytest.mark.root

KIB = 1 << 10
MIB = 1 << 20
MTIME_NS = 10**18
NAMES = [f"{number:02}" for number in range(8)]
PLACES = {
    "ext4": ("ext4", ()),
    "ext4-128": ("ext4", ("-I", "128")),
    "xfs": ("xfs", ()),
    "btrfs": ("btrfs", ()),
    "overlay": ("ext4", ()),
}

_AT_FDCWD = -100
_RENAME_EXCHANGE = 2


def overlay(stack: ExitStack, fs: LoopFS) -> Path:
    """Mount an overlay whose layers lie on a file system."""
    lower, upper, work, point = (fs.folder / name for name in ("lower", "upper", "work", "point"))
    for folder in (lower, upper, work, point):
        folder.mkdir()
    sh("mount", "-t", "overlay", "-o", f"lowerdir={lower},upperdir={upper},workdir={work}", "overlay", point)
    stack.callback(unmount, point)
    return point


@pytest.fixture
def context(tmp_path: Path) -> Iterator[Context]:
    """Give a catalog of its own."""
    with open_context(tmp_path / "catalog.db") as context:
        yield context


@pytest.fixture(params=PLACES, scope="module")
def disk(request: pytest.FixtureRequest) -> Iterator[Path]:
    """Mount each kind of file system once: with and without times of birth, with and without stable inodes."""
    fs_type, mkfs = PLACES[request.param]
    with ExitStack() as stack:
        fs = stack.enter_context(LoopFS(fs_type, size_bytes=640 * MIB, mkfs=mkfs))
        yield overlay(stack, fs) if request.param == "overlay" else fs.folder


@pytest.fixture
def place(disk: Path) -> Iterator[Path]:
    """Give an empty folder on each of them."""
    folder = disk / "data"
    folder.mkdir()
    yield folder
    shutil.rmtree(folder)


def put_folders(place: Path, *names: str, size_bytes: int = 100) -> None:
    """Write folders with files of one size and time, made and changed within one clock tick as far as stat tells."""
    for _ in range(200):
        for name in names:
            (place / name).mkdir()
            for file in NAMES:
                put(place / name / file, os.urandom(size_bytes))
        paths = [os.fspath(place / name / file) for name in names for file in NAMES]
        for path in paths:
            os.utime(path, ns=(MTIME_NS, MTIME_NS))
        if len({os.stat(path).st_ctime_ns for path in paths}) == 1:
            return
        for name in names:  # a stat makes the next stamps of a file finer: it takes new files
            shutil.rmtree(place / name)
    pytest.fail("no clock tick was long enough")


def exchange(one: Path, other: Path) -> None:
    """Swap two names in one step."""
    libc = ctypes.CDLL(None, use_errno=True)
    paths = os.fsencode(one), os.fsencode(other)
    if libc.renameat2(_AT_FDCWD, paths[0], _AT_FDCWD, paths[1], _RENAME_EXCHANGE):
        raise OSError(ctypes.get_errno(), "renameat2")


def rename_in_turn(folder: Path, *names: str) -> None:
    """Give each file the name that follows its own; the last one that of the first."""
    os.rename(folder / names[-1], folder / "for a moment")
    for old, new in reversed(list(pairwise(names))):
        os.rename(folder / old, folder / new)
    os.rename(folder / "for a moment", folder / names[0])


def meet(context: Context, job: str, folder: Path, *, scan_first: bool = True) -> list[tuple[str, str | None, Path]]:
    """Run a job; return kind, certainty and path of the findings that it met."""
    told = context.report
    assert isinstance(told, Told)
    told.findings.clear()
    if job == "scan":
        scan(context, [os.fsencode(folder)], ScanOptions())
    else:
        scrub(context, [os.fsencode(folder)], ScrubOptions(scan_first=scan_first))
    names = [(one, name) for one in told.findings for name in (one.path or b"", *one.names)]
    return [(one.kind.value, one.certainty, folder / os.fsdecode(name)) for one, name in names]


def assert_nothing_is_wrong(context: Context, root: Path) -> None:
    """A scan and two scrubs say nothing, and each file is recorded with its own content."""
    assert ([], [], []) == tuple(meet(context, job, root) for job in ("scan", "scrub", "scrub"))
    with context.catalog.read() as connection:
        for path in root.rglob("*"):
            if path.is_file():
                name = os.fsencode(path.relative_to(root))
                record = files.find_file(connection, context.catalog.sealer, RootId(1), name)
                assert record is not None
                assert hashlib.md5(path.read_bytes()).digest() == record.digests.md5, path


@pytest.mark.parametrize("size_bytes", [100, 2 * MIB])
@pytest.mark.parametrize("scans", [True, False])
def test_swapped_folders(place: Path, context: Context, size_bytes: int, scans: bool) -> None:
    """After ``mv a x; mv b a; mv x b`` no file is accused, whether a scan or a scrub meets it first."""
    put_folders(place, "a", "b", size_bytes=size_bytes)
    assert [] == meet(context, "scrub", place)
    os.rename(place / "a", place / "x")
    os.rename(place / "b", place / "a")
    os.rename(place / "x", place / "b")

    if not scans:
        assert [] == meet(context, "scrub", place, scan_first=False)
    assert_nothing_is_wrong(context, place)


def test_exchanged_folders(place: Path, context: Context) -> None:
    """One call swaps two folders (renameat2)."""
    put_folders(place, "a", "b")
    assert [] == meet(context, "scan", place)
    exchange(place / "a", place / "b")

    assert_nothing_is_wrong(context, place)


@pytest.mark.parametrize("size_bytes", [100, 2 * MIB])
def test_folders_passed_on(place: Path, context: Context, size_bytes: int) -> None:
    """``mv cur old; mv new cur``, as every release and rotation does it, then once more over the older one."""
    put_folders(place, "cur", "new", size_bytes=size_bytes)
    assert [] == meet(context, "scan", place)
    os.rename(place / "cur", place / "old")
    os.rename(place / "new", place / "cur")
    assert_nothing_is_wrong(context, place)
    put_folders(place, "new", size_bytes=size_bytes)
    assert [] == meet(context, "scan", place)
    shutil.rmtree(place / "old")
    os.rename(place / "cur", place / "old")
    os.rename(place / "new", place / "cur")

    assert_nothing_is_wrong(context, place)


def test_three_folders_in_a_circle_looked_at_one_by_one(place: Path, context: Context) -> None:
    """What a scrub of one folder took over is history when the next folder is looked at."""
    put_folders(place, "a", "b", "c")
    assert [] == meet(context, "scan", place)
    rename_in_turn(place, "a", "b", "c")
    for name in "abc":
        assert [] == meet(context, "scrub", place / name)

    assert_nothing_is_wrong(context, place)


@pytest.mark.parametrize("count", [2, 3])
def test_files_in_a_circle(place: Path, context: Context, count: int) -> None:
    """Files of one size and one time of modification change names in a circle."""
    put_folders(place, "build")
    assert [] == meet(context, "scan", place)
    rename_in_turn(place / "build", *NAMES[:count])
    exchange(place / "build" / NAMES[-1], place / "build" / NAMES[-2])

    assert_nothing_is_wrong(context, place)


def test_renamed_over_another(place: Path, context: Context) -> None:
    """``mv new cur`` replaces a file of the same size and time of modification."""
    put_folders(place, "build")
    assert [] == meet(context, "scan", place)
    os.rename(place / "build" / NAMES[0], place / "build" / NAMES[1])

    assert_nothing_is_wrong(context, place)


def test_copied_over_another(place: Path, context: Context) -> None:
    """A copy with times that is renamed over a file: its content is recorded of another since before."""
    put_folders(place, "build")
    assert [] == meet(context, "scan", place)
    shutil.copy2(place / "build" / NAMES[2], place / "build" / "copy")
    os.rename(place / "build" / "copy", place / "build" / NAMES[3])

    assert_nothing_is_wrong(context, place)


def is_overlay(place: Path) -> bool:
    """Say whether a place is the overlay's."""
    return place.parent.name == "point"


def keeps_birth(place: Path) -> bool:
    """Say whether the inodes of a place can be told from others that get their numbers."""
    fd = os.open(place.parent, os.O_RDONLY | os.O_DIRECTORY)
    try:
        return not is_overlay(place) and find_birth_ns(fd, os.fsencode(place.name)) is not None
    finally:
        os.close(fd)


def on_disk(path: Path) -> Path:
    """Find the file whose blocks hold the content of a file, which below an overlay is another."""
    parts = ["upper" if part == "point" else part for part in path.parts]
    return Path(*parts)


@pytest.mark.parametrize("is_swapped", [False, True])
def test_flipped_bit_beside_swapped_files_is_found(place: Path, context: Context, is_swapped: bool) -> None:
    """A file whose content is recorded nowhere is damaged, and proven only if no other can have been moved there."""
    put_folders(place, "a", "b", size_bytes=8 * KIB)
    assert [] == meet(context, "scan", place)
    is_moved = keeps_birth(place)  # the records went along with the inodes
    if is_swapped:
        exchange(place / "a", place / "b")
    bad = place / "a" / NAMES[7]
    sh("sync", "-f", place)
    flip_bit(on_disk(bad), 5000, 2)

    found = meet(context, "scrub", place)

    if "btrfs" in str(place):  # finds it itself
        assert [("unreadable", None, bad)] == found
    elif is_overlay(place):  # of its partner nobody can tell any more that it was moved
        partner = place / "b" / NAMES[7]
        assert {("rot", "no_inode", path) for path in ([bad, partner] if is_swapped else [bad])} == set(found)
    else:
        assert [("rot", "proven" if not is_swapped or is_moved else "inode_moved", bad)] == found


def put_below(block: bytes, target: Path) -> None:
    """Write the block of one file where that of another belongs, as a disk does that confuses two writes."""
    for offset, (old, new) in enumerate(zip(target.read_bytes(), block, strict=True)):
        for bit in range(8):
            if (old ^ new) >> bit & 1:
                flip_bit(target, offset, bit)


def test_block_that_was_written_to_the_wrong_place_is_rot(place: Path, context: Context) -> None:
    """A file that holds another's content is damaged if nothing moved: neither inode nor times, nor that other."""
    if "btrfs" in str(place):
        pytest.skip("finds it itself")
    put_folders(place, "a")
    assert [] == meet(context, "scan", place)
    sh("sync", "-f", place)
    put_below((place / "a" / NAMES[1]).read_bytes(), on_disk(place / "a" / NAMES[2]))

    certainty = "no_inode" if is_overlay(place) else "proven"
    assert [("rot", certainty, place / "a" / NAMES[2])] == meet(context, "scrub", place)


def test_blocks_of_two_files_that_were_exchanged_are_rot(place: Path, context: Context) -> None:
    """Each of two files has the other's content, as after a rename, which would have moved ctime: they are damaged."""
    if "btrfs" in str(place):
        pytest.skip("finds it itself")
    put_folders(place, "a")
    assert [] == meet(context, "scan", place)
    sh("sync", "-f", place)
    paths = [place / "a" / NAMES[1], place / "a" / NAMES[2]]
    one, other = (path.read_bytes() for path in paths)
    put_below(other, on_disk(paths[0]))
    put_below(one, on_disk(paths[1]))

    certainty = "no_inode" if is_overlay(place) else "proven"
    assert {("rot", certainty, path) for path in paths} == set(meet(context, "scrub", place))


@pytest.mark.parametrize("scan_missing", [True, False])
def test_rot_of_swapped_files_that_a_scrub_meets_before_a_scan(
    ext4: LoopFS, context: Context, scan_missing: bool
) -> None:
    """A scrub without scan takes no file for a newer version of another; a scan, its own or the next, follows names."""
    paths = [ext4.folder / "data" / name for name in ("one", "other")]
    paths[0].parent.mkdir()
    for number, path in enumerate(paths):
        put(path, os.urandom(4 * KIB))
        os.utime(path, ns=(MTIME_NS, MTIME_NS + number))
    root = [os.fsencode(paths[0].parent)]
    assert not scrub(context, root, ScrubOptions()).has_integrity_problem
    flip_bit(paths[0], 100)
    exchange(*paths)

    options = ScrubOptions(scan_first=False, scan_missing=scan_missing)
    assert scan_missing == scrub(context, root, options).has_integrity_problem
    assert [] == meet(context, "scan", paths[0].parent)
    assert [("silent_rewrite", "ctime_moved", paths[1])] == meet(context, "scrub", paths[0].parent)


@pytest.mark.parametrize(
    ("how", "size_bytes"),
    [
        ("copied", 8 * KIB),
        ("copied", 2 * MIB + 7),
        ("copied, and the copy written anew", 8 * KIB),
        ("linked", 8 * KIB),
        ("renamed", 2 * MIB + 7),
    ],
)
def test_new_name_with_the_same_rot_excuses_nobody(place: Path, context: Context, how: str, size_bytes: int) -> None:
    """The content of a damaged file is recorded of another one, too, once that was copied from it, or is the same."""
    if "btrfs" in str(place):
        pytest.skip("finds it itself")
    one, other = place / "one", place / "other"
    put(one, os.urandom(size_bytes))
    os.utime(one, ns=(MTIME_NS + 1, MTIME_NS + 1))
    assert [] == meet(context, "scrub", place)
    verified_at = context.now()
    wait_until(lambda: context.now() > verified_at, "the next second")
    flip_bit(on_disk(one), 60)
    drop_cache(on_disk(one))
    if how == "linked":
        os.link(one, other)
    elif how == "renamed":
        os.rename(one, other)
    else:
        shutil.copy2(one, other)
    meet(context, "scan", place)
    if how == "copied, and the copy written anew":
        put(other, os.urandom(size_bytes))

    said = {path for _, _, path in meet(context, "scrub", place)}

    if how == "renamed" and "ext4" in str(place) and not (is_overlay(place) or keeps_birth(place)):
        return  # nothing is left by which it could be known
    must = {other} if how == "renamed" else {one}
    may = {other} if how in ("copied", "linked") else set()
    assert must <= said <= must | may
