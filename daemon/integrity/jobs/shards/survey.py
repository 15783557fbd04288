"""
Survey a shared tree: how many files and bytes lie in which folder, so that the hub can cut it into shards.

A survey names only folders that a cut may separate: those in a folder that is larger than a shard. Whatever changes
during a survey, or after it, is counted wrongly but belongs to a shard all the same (``files/scope.py``).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, NamedTuple

from integrity.files.scope import TreeScope, find_parents
from integrity.files.walk import walk

if TYPE_CHECKING:
    from integrity.files.excludes import Excludes


class Size(NamedTuple):
    """Of a folder, or of a shard at most."""

    files: int
    bytes: int

    def __add__(self, other: object) -> Size:
        assert isinstance(other, Size)
        return Size(self.files + other.files, self.bytes + other.bytes)

    def fits(self, limit: Size) -> bool:
        """Return whether neither is more than the limit."""
        return self.files <= limit.files and self.bytes <= limit.bytes


NOTHING = Size(0, 0)


class FolderSize(NamedTuple):
    """
    A folder of a tree.

    Attributes:
        path: relative to the tree.
        size: of the files in it, and below it as far as no other folder of the survey is above them.
    """

    path: bytes
    size: Size


def measure_tree(root_fd: int, excludes: Excludes, *, cross_mounts: bool) -> Iterator[FolderSize]:
    """Walk a tree and yield what lies directly in each folder; a folder may come several times."""
    for listing in walk(root_fd, excludes=excludes, cross_mounts=cross_mounts):
        files = listing.files
        yield FolderSize(listing.folder, Size(len(files), sum(one.size_bytes for one in files)))


def measure_files(files: Iterable[tuple[bytes, int]]) -> Iterator[FolderSize]:
    """Yield the folder of each file. Args: path and size of each."""
    for path, size_bytes in files:
        yield FolderSize(path.rpartition(b"/")[0], Size(1, size_bytes))


def summarize(folders: Iterable[FolderSize], limit: Size) -> list[FolderSize]:
    """
    Return the folders that a cut may separate, in the order of their paths.

    Memory: some 300 bytes for each folder of the tree.
    """
    own: dict[bytes, Size] = {b"": NOTHING}
    for path, size in folders:
        own[path] = own.get(path, NOTHING) + size
    whole = add_up(own)
    kept: dict[bytes, Size] = {}
    for path in whole:
        place = next((one for one in (path, *find_parents(path)) if _may_be_cut(one, whole, limit)), b"")
        kept[place] = kept.get(place, NOTHING) + own.get(path, NOTHING)
    return [FolderSize(path, kept[path]) for path in sorted(kept)]


def add_up(own: dict[bytes, Size]) -> dict[bytes, Size]:
    """Return the size of each folder with all that lies below it."""
    whole = dict(own)
    for path, size in own.items():
        for parent in find_parents(path):
            whole[parent] = whole.get(parent, NOTHING) + size
    return whole


def _may_be_cut(path: bytes, whole: dict[bytes, Size], limit: Size) -> bool:
    return not path or not whole[path.rpartition(b"/")[0]].fits(limit)


def restrict(folders: Iterable[FolderSize], scope: TreeScope) -> list[FolderSize]:
    return [one for one in folders if scope.covers(one.path)]
