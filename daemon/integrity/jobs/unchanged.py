"""
See for many folders at once that nothing in them changed, which is what most scans find nearly everywhere.

A folder whose fingerprint is the recorded one costs one comparison, and no row of its files is read. Of folders without
one what is recorded of their files is held against what a walk saw of them in a few comparisons of whole lists, all
loops in C. Only folders in which anything is different are left to be looked at file by file.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, groupby, repeat
from operator import itemgetter
from typing import TYPE_CHECKING, NamedTuple

from integrity.catalog import files
from integrity.catalog.files import PlainRow
from integrity.catalog.fingerprints import find_fingerprints
from integrity.files.listing import Listing

if TYPE_CHECKING:
    from integrity.catalog.connection import Connection
    from integrity.model import FileId, FolderId, RootId

_FOLDERS_AT_ONCE = 256
_FILES_AT_ONCE = 4096
"""What is made of more files does not stay in a processor's cache until it is compared."""

_folder_of = itemgetter(Listing._fields.index("folder"))
_files_of = itemgetter(Listing._fields.index("files"))
_path_of = itemgetter(0)
_id_of = itemgetter(-1)
_known_of = itemgetter(slice(1, 6))  # of a PlainRow: name, size, mtime, ctime, inode
_seen_of = itemgetter(slice(0, 5))  # the same of a Seen


def gather(listings: Iterable[Listing]) -> Iterator[list[Listing]]:
    """Put listings together into groups that are worth a query."""
    group: list[Listing] = []
    count = 0
    for listing in listings:
        group.append(listing)
        count += len(listing.files)
        if count >= _FILES_AT_ONCE or len(group) == _FOLDERS_AT_ONCE:
            yield group
            group, count = [], 0
    if group:
        yield group


class Folders(NamedTuple):
    """Some listings, by what the fingerprints of their folders tell."""

    unchanged: list[tuple[FolderId, int]]  # of folders in which all is as recorded: the number of their files
    other: list[Listing]
    without: dict[bytes, FolderId]  # those of ``other`` that have files recorded, and no fingerprint


def split_by_fingerprint(connection: Connection, root_id: RootId, listings: Sequence[Listing]) -> Folders:
    """Tell folders whose fingerprint says that all in them is as recorded from the others."""
    known = {
        one.folder: one
        for one in find_fingerprints(
            connection, root_id, [listing.folder for listing in listings if listing.fingerprint is not None]
        )
    }
    folders = Folders([], [], {})
    for listing in listings:
        found = known.get(listing.folder)
        if found is None:
            if listing.files or listing.fingerprint is None:  # else nothing is recorded of it, and nothing there
                folders.other.append(listing)
        elif found.fingerprint == listing.fingerprint:
            folders.unchanged.append((found.id, len(listing.files)))
        else:
            folders.other.append(listing)
            if found.fingerprint is None:
                folders.without[listing.folder] = found.id
    return folders


class Split(NamedTuple):
    """What became of some listings."""

    unchanged: list[FileId]  # the files of those in which all is as recorded
    other: list[Listing]  # to be looked at file by file
    unknown: list[Listing]  # whole folders of which nothing is recorded
    same: list[Listing]  # those that the files of ``unchanged`` lie in


def split_unchanged(connection: Connection, root_id: RootId, listings: Sequence[Listing]) -> Split:
    """
    Tell folders in which all is as recorded from the others, and from those of which nothing is.

    A folder is unchanged if exactly the recorded files were seen in it, with the recorded size, times and inode, and
    there is nothing else to be decided about any of them: none is racy, none frozen. Of a part of a folder the same is
    said of the names that were seen.
    """
    whole = sorted((listing for listing in listings if listing.is_whole), key=_folder_of)
    rows = files.find_plain(connection, root_id, list(map(_folder_of, whole)))
    if len(whole) == len(listings) and _is_same(whole, rows):
        return Split(list(map(_id_of, rows)), [], [], list(listings))
    known = {path: list(group) for path, group in groupby(rows, _path_of)}
    split = Split([], [], [], [])
    for listing in listings:
        if listing.is_whole:
            recorded = known.get(listing.folder, [])
        else:
            names = [seen.name for seen in listing.files]
            recorded = files.find_plain_names(connection, root_id, listing.folder, names)
        if _is_same([listing], recorded):
            split.unchanged.extend(map(_id_of, recorded))
            split.same.append(listing)
        elif listing.is_whole and not recorded:
            split.unknown.append(listing)
        else:
            split.other.append(listing)
    return split


def _is_same(listings: Sequence[Listing], rows: Sequence[PlainRow]) -> bool:
    """Compare folders, in the order of their paths, with what is recorded of all of them."""
    seen = list(map(_files_of, listings))
    if sum(map(len, seen)) != len(rows):
        return False
    places = chain.from_iterable(map(repeat, map(_folder_of, listings), map(len, seen)))
    return list(map(_path_of, rows)) == list(places) and list(map(_known_of, rows)) == list(
        map(_seen_of, chain.from_iterable(seen))
    )
