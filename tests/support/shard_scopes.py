"""What the shards of a cut cover, found by a look at all folders of the tree."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from integrity.files.excludes import TreeScope, find_parents


def find_scope(shards: Sequence[Sequence[bytes]], number: int) -> TreeScope:
    """Return what one of the shards of a tree covers."""
    own = frozenset(shards[number])
    others = {path for index, folders in enumerate(shards) if index != number for path in folders}
    return TreeScope(own, find_left_out(own, others))


def find_left_out(own: Iterable[bytes], others: Iterable[bytes]) -> set[bytes]:
    """Return the folders of other shards that lie directly in what a shard covers."""
    mine, theirs = frozenset(own), frozenset(others)
    left_out = set[bytes]()
    for path in theirs:
        above = next((one for one in find_parents(path) if one in mine or one in theirs), None)
        if above in mine:
            left_out.add(path)
    return left_out
