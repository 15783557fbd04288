"""Folders in which nothing changed are told from all others."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest

from integrity.catalog import files, findings
from integrity.catalog.findings import NewFinding
from integrity.files.listing import FolderListing, Seen
from integrity.jobs.batching import IdSet
from integrity.jobs.scan.tree_diff import gather, is_as_recorded
from integrity.model import FileId, FindingKind, Witness
from support.catalogs import NOW, CatalogBox, make_reading

NAMES = [b"", b"d", b"d/e", b"d2", b"\xff"]


def record(box: CatalogBox) -> dict[bytes, FileId]:
    """Record three files in each of some folders; give their ids by path."""
    paths = [folder + b"/" + name if folder else name for folder in NAMES for name in (b"a", b"b", b"\xff")]
    readings = {path: make_reading(path, inode=number) for number, path in enumerate(paths)}
    return dict(zip(paths, box.record_all(readings), strict=True))


def see(box: CatalogBox, *, is_whole: bool = True) -> list[FolderListing]:
    """Make the listings of a walk that finds everything as it was recorded."""
    listings = []
    with box.catalog.read() as c:
        for folder in NAMES:
            known = files.find_known(c, box.root.id, folder)
            seen = [Seen(name, *old[1:5], 1) for name, old in sorted(known.items())]
            listings.append(FolderListing(folder, seen, is_whole, True, [], None))
    return listings


def split(box: CatalogBox, listings: list[FolderListing]) -> tuple[set[bytes], set[bytes]]:
    """Return the folders that are as recorded, and the others."""
    same, other = set[bytes](), set[bytes]()
    with box.catalog.read() as c:
        for listing in listings:
            wanted = None if listing.is_whole else [seen.name for seen in listing.files]
            known = files.find_known(c, box.root.id, listing.folder, wanted)
            (same if is_as_recorded(listing, known) else other).add(listing.folder)
    return same, other


@pytest.mark.parametrize("is_whole", [True, False])
def test_unchanged_folders_are_recognized(box: CatalogBox, is_whole: bool) -> None:
    """In whatever order their files are listed, whole or in parts."""
    record(box)
    listings = [one._replace(files=one.files[::-1]) for one in see(box, is_whole=is_whole)]

    assert split(box, listings) == (set(NAMES), set())


def with_file(change: Callable[[Seen], Seen]) -> Callable[[Sequence[Seen]], Sequence[Seen]]:
    return lambda seen: [*seen[:2], change(seen[2])]


@pytest.mark.parametrize(
    "change",
    [
        with_file(lambda seen: seen._replace(size_bytes=seen.size_bytes + 1)),
        with_file(lambda seen: seen._replace(mtime_ns=seen.mtime_ns + 1)),
        with_file(lambda seen: seen._replace(ctime_ns=seen.ctime_ns - 1)),
        with_file(lambda seen: seen._replace(inode=seen.inode + 1000)),
        with_file(lambda seen: seen._replace(name=b"renamed")),
        lambda seen: seen[:2],
        lambda seen: [*seen, seen[0]._replace(name=b"new")],
    ],
    ids=["size", "mtime", "ctime", "inode", "name", "gone", "new"],
)
def test_folder_with_any_difference_is_left_to_be_looked_at(
    box: CatalogBox, change: Callable[[Sequence[Seen]], Sequence[Seen]]
) -> None:
    """One folder with one difference; all others are as recorded."""
    record(box)
    listings = [
        listing._replace(files=change(listing.files)) if listing.folder == b"d" else listing for listing in see(box)
    ]

    assert split(box, listings) == (set(NAMES) - {b"d"}, {b"d"})


def test_part_of_a_folder_says_nothing_of_its_other_files(box: CatalogBox) -> None:
    """What a part does not name is neither gone nor met."""
    record(box)
    part = FolderListing(b"d", [seen for seen in see(box)[1].files if seen.name != b"b"], False, False, [], None)

    assert split(box, [part]) == ({b"d"}, set())


def test_racy_and_frozen_files_are_looked_at(box: CatalogBox) -> None:
    """Equal times are not enough where more has to be decided."""
    ids = record(box)
    racy = make_reading("racy", inode=99)
    witness = Witness(*racy.witness[:4], is_racy=True)
    box.record(b"racy/a", racy.__class__(witness, racy.digests, racy.blocks, racy.how, racy.bytes_read))
    with box.catalog.transaction() as c:
        new = NewFinding(FindingKind.ROT, box.root.id, ids[b"d/a"], b"d/a", "message")
        findings.open_finding(c, new, now=NOW, run_id=box.run_id)
    listings = [*see(box), FolderListing(b"racy", [Seen(b"a", *witness[:4], 1)], True, True, [], None)]

    assert split(box, listings)[1] == {b"racy", b"d"}


def test_groups_hold_every_listing_in_order() -> None:
    """Nothing is lost at the borders of groups, however many folders and files there are."""
    seen = [Seen(b"a", 1, 1, 1, 1, 1)]
    listings = [FolderListing(b"%d" % number, seen * (number % 50), True, True, [], None) for number in range(1000)]

    groups = list(gather(listings))

    assert [listing for group in groups for listing in group] == listings
    assert len(groups) > 3
    assert all(groups)


def test_many_ids_go_in_at_once() -> None:
    """Ids that are in already are not counted again."""
    ids = IdSet()
    ids.add(FileId(70_000))
    ids.update(map(FileId, [1, 8, 70_000, 1, 200_000]))

    assert len(ids) == 4
    assert FileId(200_000) in ids
    assert FileId(2) not in ids


def test_ids_of_damaged_rows_take_no_memory() -> None:
    """A flipped bit makes an id of any size; a bitmap up to it would be of 64 GiB."""
    ids, far = IdSet(), FileId(1 << 39 | 5)
    assert ids.add(far)
    assert not ids.add(far)
    ids.update([far, FileId(-(1 << 62)), FileId(3)])

    assert len(ids) == 3
    assert far in ids
    assert FileId(5) not in ids
    ids.discard(far)
    assert far not in ids
    assert len(ids) == 2
