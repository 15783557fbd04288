"""
Cut a tree into shards along its folders.

C1  Each folder belongs to exactly one shard: the one with the deepest of its folders above it.
C2  A shard is at most as large as the limit, unless the files of one folder alone are more.
C3  The first shard of a cut begins where the cut began, so it finds the folders that are made there later.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator

from integrity.jobs.shards.survey import NOTHING, FolderSize, Size


def cut(folders: Iterable[FolderSize], tops: Iterable[bytes], limit: Size) -> list[list[bytes]]:
    """
    Return the folders of each shard.

    From the inside out, the folders in a folder are packed into shards in the order of their names, until what remains
    of it fits into one together with the files of its own.

    Args:
        folders: of a survey; each below one of ``tops``, or one of them.
        tops: where the cut begins: the top of the tree, or the folders of a shard that grew.
        limit: the size of a shard.

    Returns:
        For each shard its folders, in the order of their names. Those of the first one are ``tops``, as many as fit.
    """
    cutter = _Cutter(folders, frozenset(tops), limit)
    remaining = [FolderSize(top, cutter.remain(top)) for top in sorted(tops)]
    return [*([one.path for one in bundle] for bundle in _pack(remaining, limit)), *cutter.shards]


class _Cutter:
    """
    The state of one cut.

    Attributes:
        shards: those that were cut off.
    """

    def __init__(self, folders: Iterable[FolderSize], tops: frozenset[bytes], limit: Size) -> None:
        self.shards: list[list[bytes]] = []
        self._limit = limit
        self._left: defaultdict[bytes, Size] = defaultdict(lambda: NOTHING, folders)
        children: defaultdict[bytes, set[bytes]] = defaultdict(set)
        for path in [*self._left]:
            while path not in tops:
                inner, path = path, path.rpartition(b"/")[0]
                children[path].add(inner)
        self._children = {path: sorted(some) for path, some in children.items()}

    def remain(self, top: bytes) -> Size:
        """Cut what lies below a folder; return the size of what remains with it."""
        for path in self._inside_out(top):
            self._left[path] = self._cut_off(path)
        return self._left[top]

    def _inside_out(self, top: bytes) -> Iterator[bytes]:
        found, pending = list[bytes](), [top]
        while pending:
            path = pending.pop()
            found.append(path)
            pending += self._children.get(path, ())
        return reversed(found)

    def _cut_off(self, path: bytes) -> Size:
        """Make shards of the folders in a folder until the rest fits; return its size."""
        own = self._left[path]
        children = [FolderSize(child, self._left[child]) for child in self._children.get(path, ())]
        if (total := _sum(children, own)).fits(self._limit):
            return total
        bundles = _pack(children, self._limit)
        rest = bundles.pop() if bundles and _sum(bundles[-1], own).fits(self._limit) else []
        self.shards += ([one.path for one in bundle] for bundle in bundles)
        return _sum(rest, own)


def _sum(folders: Iterable[FolderSize], size: Size) -> Size:
    return sum((one.size for one in folders), size)


def _pack(folders: Iterable[FolderSize], limit: Size) -> list[list[FolderSize]]:
    """Put folders together in their order, as many as fit."""
    bundles: list[list[FolderSize]] = []
    size = NOTHING
    for one in folders:
        if bundles and (size + one.size).fits(limit):
            bundles[-1].append(one)
            size += one.size
        else:
            bundles.append([one])
            size = one.size
    return bundles
