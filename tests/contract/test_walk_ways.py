"""Both ways of listing folders, the C core's and Python's, give the same listings."""

import errno
import os
import random
import threading
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from itertools import islice
from pathlib import Path

import pytest

from integrity.files.excludes import Excludes
from integrity.files.listing import FolderListing, Seen
from integrity.files.walk import walk
from support.faultfs import FaultFS, Rule
from support.loopfs import LoopFS
from support.mounts import bound, small_tmpfs
from support.nastytree import nasty_tree
from support.privileges import as_nobody
from support.reading import opened_root

pytest.importorskip("integrity._native", reason="the extension is not built")
from integrity.files.prefetch import FOLDER, LISTED, SYMLINK, TOO_LARGE, FolderBatch


@pytest.fixture
def top(tmp_path: Path) -> bytes:
    return os.fsencode(tmp_path / "tree")


def populate(top: bytes, seed: int, folders: int, files: int) -> None:
    """Make a tree of any shape, with names of all kinds."""
    dice = random.Random(seed)
    paths = [top]
    os.makedirs(top, exist_ok=True)
    for number in range(folders):
        paths.append(os.path.join(dice.choice(paths), dice.choice([b"%d", b".%d", b"%d.tmp", b"a..%d"]) % number))
        os.mkdir(paths[-1])
    for number in range(files):
        name = dice.choice([b"%d", b"\xff%d", b".%d", b"%d\n", b"%d.tmp"]) % number
        path = os.path.join(dice.choice(paths), name)
        if dice.random() < 0.1:
            os.symlink(b"..", path)
        else:
            os.close(os.open(path, os.O_CREAT | os.O_WRONLY))


def both_ways(
    monkeypatch: pytest.MonkeyPatch,
    top: bytes,
    *,
    excludes: Excludes | None = None,
    leave_out: frozenset[tuple[int, int]] = frozenset(),
    cross_mounts: bool = False,
    chunk: int = 4096,
    as_somebody: Callable[[], AbstractContextManager[object]] = nullcontext,
) -> tuple[list[FolderListing], list[FolderListing]]:
    """Walk with the C core and without it; listings and skips in an order that both share."""
    walks = []
    with opened_root(top) as root, as_somebody():
        for setting in ("", "off"):
            monkeypatch.setenv("INTEGRITY_NATIVE", setting)
            listings = walk(
                root, excludes=excludes or Excludes(), leave_out=leave_out, cross_mounts=cross_mounts, chunk=chunk
            )
            in_order = [
                one._replace(
                    files=list(one.files), skips=sorted(one.skips, key=lambda skip: skip.path), fingerprint=None
                )
                for one in listings
            ]
            walks.append(sorted(in_order, key=lambda one: one.folder))  # those of one folder stay as they were
    return walks[0], walks[1]


@pytest.mark.parametrize("chunk", [4096, 5])
def test_nasty_tree_is_listed_alike(monkeypatch: pytest.MonkeyPatch, top: bytes, chunk: int) -> None:
    """Whatever names, kinds, times, depths and mounts there are, both ways say the same of them."""
    with nasty_tree(top):
        native, python = both_ways(monkeypatch, top, chunk=chunk)

    assert by_name(native) == by_name(python)
    if chunk > 1000:
        assert native == python


def by_name(listings: list[FolderListing]) -> list[tuple[bytes, list[Seen], list[bytes], object]]:
    """Put the listings of a folder together: which chunk a name comes in may differ."""
    folders: dict[bytes, tuple[list[Seen], list[bytes]]] = {}
    for listing in listings:
        files, skips = folders.setdefault(listing.folder, ([], []))
        files += listing.files
        skips += [skip.path for skip in listing.skips]
    sizes = [(listing.folder, len(listing.files) + len(listing.skips)) for listing in listings if listing.is_whole]
    return [(folder, sorted(files), sorted(skips), sizes) for folder, (files, skips) in folders.items()]


@pytest.mark.long
@pytest.mark.parametrize("patterns", [[], ["*.tmp", "!/1/*.tmp", "/2*/"]])
def test_wide_tree_is_listed_alike(monkeypatch: pytest.MonkeyPatch, top: bytes, patterns: list[str]) -> None:
    """A tree that is worth a thread, with more files than fit into a call."""
    populate(top, seed=1, folders=600, files=9000)

    native, python = both_ways(monkeypatch, top, excludes=Excludes(patterns))

    assert native == python
    assert len(native) > 32
    assert patterns or sum(len(listing.files) for listing in native) > 4096


def test_tree_of_folders_that_the_caller_may_not_all_read_is_listed_alike(
    monkeypatch: pytest.MonkeyPatch, top: bytes
) -> None:
    """Errors are found by one way only, so the same is said of them."""
    populate(top, seed=2, folders=60, files=300)
    for folder, mode in ((b"closed", 0), (b"half", 0o444), (b"through", 0o111)):
        os.makedirs(os.path.join(top, folder, b"sub"))
        os.close(os.open(os.path.join(top, folder, b"file"), os.O_CREAT))
        os.chmod(os.path.join(top, folder), mode)
    try:
        native, python = both_ways(monkeypatch, top, as_somebody=as_nobody)
    finally:
        for folder in (b"closed", b"half", b"through"):
            os.chmod(os.path.join(top, folder), 0o755)

    assert native == python


@pytest.mark.long
def test_order_of_a_wide_tree_follows_from_the_tree_alone(top: bytes) -> None:
    """However long the consumer takes, folders come in the same order, each after the one that it lies in."""
    populate(top, seed=8, folders=600, files=9000)
    orders = []
    for pause_s in (0, 0.0001):
        with opened_root(top) as root:
            order = []
            for listing in walk(root, excludes=Excludes()):
                order.append(listing.folder)
                threading.Event().wait(pause_s)
            orders.append(order)

    assert orders[0] == orders[1]
    assert all(folder.rpartition(b"/")[0] in orders[0][:number] for number, folder in enumerate(orders[0]) if number)


def test_files_to_be_left_out_are_left_out_alike(monkeypatch: pytest.MonkeyPatch, top: bytes) -> None:
    """The catalog is found in whichever folder it lies."""
    populate(top, seed=3, folders=60, files=300)
    catalog = os.path.join(top, b"1", b"catalog.db")
    os.makedirs(os.path.dirname(catalog), exist_ok=True)
    os.close(os.open(catalog, os.O_CREAT))
    stat = os.stat(catalog)

    native, python = both_ways(monkeypatch, top, leave_out=frozenset({(stat.st_dev, stat.st_ino)}))

    assert native == python
    assert any(skip.path.endswith(b"catalog.db") for listing in native for skip in listing.skips)


@pytest.mark.root
@pytest.mark.parametrize("cross_mounts", [False, True])
def test_mounts_are_left_or_entered_alike(monkeypatch: pytest.MonkeyPatch, top: bytes, cross_mounts: bool) -> None:
    """Mounts, views of the tree in itself, and what lies behind them."""
    populate(top, seed=4, folders=100, files=300)
    for name in (b"disk", b"view", b"view-too"):
        os.mkdir(os.path.join(top, name))
    disk, view, other = (os.fsdecode(os.path.join(top, name)) for name in (b"disk", b"view", b"view-too"))
    with small_tmpfs(disk, 1 << 20), bound(os.fsdecode(top), view), bound(disk, other):
        populate(os.fsencode(disk), seed=5, folders=50, files=100)
        native, python = both_ways(monkeypatch, top, cross_mounts=cross_mounts)

    assert native == python
    assert any(listing.folder.startswith(b"disk/") for listing in native) == cross_mounts


@pytest.mark.root
def test_file_system_that_tells_no_kinds_is_listed_alike(
    monkeypatch: pytest.MonkeyPatch, faulty: FaultFS, top: bytes
) -> None:
    """Where the kernel has to ask for each name, and where asking fails for some."""
    populate(os.fsencode(faulty.mnt), seed=6, folders=40, files=200)
    for name, op in (("bad", "getattr"), ("rotten", "readdir")):
        os.mkdir(faulty.path(name))
        faulty.add(Rule(op, path=f"/{name}", errno=errno.EIO))

    native, python = both_ways(monkeypatch, os.fsencode(faulty.mnt))

    assert native == python


@pytest.mark.root
def test_each_file_system_is_listed_alike(monkeypatch: pytest.MonkeyPatch, each_fs: LoopFS) -> None:
    """Whatever order a file system has its names in."""
    populate(each_fs.mnt, seed=7, folders=40, files=400)

    native, python = both_ways(monkeypatch, each_fs.mnt)

    assert native == python


@pytest.mark.long
@pytest.mark.parametrize("is_odd", [False, True])
def test_large_folder_is_listed_alike(monkeypatch: pytest.MonkeyPatch, top: bytes, is_odd: bool) -> None:
    """A folder that comes in parts has each name once, also if the core has to leave the rest of it to Python."""
    os.makedirs(os.path.join(top, b"large"))
    populate(os.path.join(top, b"large"), seed=9, folders=30, files=3000)
    for number in range(1500):
        os.close(os.open(os.path.join(top, b"large", b"more %d" % number), os.O_CREAT))
    with os.scandir(os.path.join(top, b"large")) as entries:
        middle = list(islice((entry.inode() for entry in entries if entry.name.startswith(b"more")), 750, 751))
    leave_out = frozenset({(os.stat(top).st_dev, inode) for inode in middle if is_odd})

    native, python = both_ways(monkeypatch, top, leave_out=leave_out, chunk=50)

    assert by_name(native) == by_name(python)
    parts = [listing for listing in native if listing.folder == b"large"]
    assert len(parts) > 20
    assert [listing.is_last for listing in parts] == [False] * (len(parts) - 1) + [True]
    assert not any(listing.is_whole for listing in parts)
    assert all(len(listing.files) + len(listing.skips) <= 50 for listing in parts)


def test_core_lists_what_is_ordinary_and_leaves_the_rest(top: bytes) -> None:
    """Odd folders have no result, the others come in the order asked for, their files by name, as lstat sees them."""
    os.makedirs(os.path.join(top, b"sub"))
    for name in (b"sub/z", b"sub/a", b"sub/\xff"):
        os.close(os.open(os.path.join(top, name), os.O_CREAT))
    os.symlink(b"sub", os.path.join(top, b"link"))
    asked = [b"sub", b"", b"nothing", b"link", b"sub/a", b"/", b"../tree", b"sub/../sub"]

    with opened_root(top) as root:
        found = make_batch(root).list(asked)

    none = (LISTED + 1, 0, 0)
    assert [folder[:3] for folder in found.folders] == [(LISTED, 3, 0), (LISTED, 0, 2), *[none] * 6]
    for seen, name in zip(next(found.files()), [b"a", b"z", b"\xff"], strict=True):
        stat = os.lstat(os.path.join(top, b"sub", name))
        assert seen == (name, stat.st_size, stat.st_mtime_ns, stat.st_ctime_ns, stat.st_ino, stat.st_nlink)
    assert list(zip(found.others, found.kinds, strict=False)) == [
        (b"link", SYMLINK),
        (b"sub", FOLDER),
    ]


def test_core_ends_a_call_where_the_room_ends(top: bytes) -> None:
    """A folder that does not fit behind others waits for the next call; one that never fits is left alone."""
    for folder, count in ((b"a", 3), (b"b", 6), (b"c", 9)):
        for number in range(count):
            os.makedirs(os.path.join(top, folder), exist_ok=True)
            os.close(os.open(os.path.join(top, folder, b"%d" % number), os.O_CREAT))

    with opened_root(top) as root:
        batch = make_batch(root, names_room=8)
        together = batch.list([b"a", b"b", b"c"])
        alone = batch.list([b"b", b"c"])
        enough = make_batch(root, enough=3).list([b"a", b"b"])

    assert [folder[:3] for folder in together.folders] == [(LISTED, 3, 0)]
    assert [folder[:3] for folder in alone.folders] == [(LISTED, 6, 0), (TOO_LARGE, 0, 0)]
    assert [folder[:3] for folder in enough.folders] == [(LISTED, 3, 0)]


@pytest.mark.parametrize("count", [7, 8, 9, 64, 65, 129, 1000])
def test_core_sorts_any_number_of_names(top: bytes, count: int) -> None:
    """Names come in the order of their bytes, whatever order the folder has."""
    names = [b"%d" % (number * 7919) for number in range(count)]
    os.mkdir(top)
    for name in names:
        os.close(os.open(os.path.join(top, name), os.O_CREAT))

    with opened_root(top) as root:
        (files,) = make_batch(root).list([b""]).files()

    assert [seen.name for seen in files] == sorted(names)


def make_batch(root: int, *, names_room: int = 4096, enough: int = 4096) -> FolderBatch:
    return FolderBatch(root, stays_on_mount=True, leave_out=[], names_room=names_room, enough=enough)
