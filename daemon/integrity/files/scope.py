"""
The part of a tree that a shard covers: some folders, without the folders in them that other shards cover.

Every name of a tree belongs to exactly one shard: the one with the deepest folder above it. So a new folder belongs to
the shard of the folder that it was made in, without anybody deciding so.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from integrity.files.excludes import Excludes


class TreeScope:
    """
    The folders of a shard.

    Args:
        folders: relative to the tree, at least one; empty bytes: its top. They may lie in each other.
        left_out: folders of other shards inside them.
    """

    def __init__(self, folders: Iterable[bytes], left_out: Iterable[bytes] = ()) -> None:
        self.folders = frozenset(folders)
        self.left_out = frozenset(left_out)
        above = {parent for folder in self.folders for parent in find_parents(folder)}
        self.passages = frozenset(folder for folder in above if not self.covers(folder))
        """Folders that only lead to the shard's: their own names belong to others."""

    @property
    def is_whole(self) -> bool:
        """Whether it is the whole tree."""
        return b"" in self.folders and not self.left_out

    def covers(self, folder: bytes) -> bool:
        """Return whether the names directly in a folder belong to the shard."""
        for place in (folder, *find_parents(folder)):
            if place in self.folders:
                return True
            if place in self.left_out:
                return False
        return False

    def covers_name(self, path: bytes) -> bool:
        """Return whether a file belongs to the shard."""
        return self.covers(path.rpartition(b"/")[0])


def find_parents(path: bytes) -> Iterator[bytes]:
    """Yield the folders above a path relative to the tree, from the inside; the last one is empty."""
    while path:
        path = path.rpartition(b"/")[0]
        yield path


class ScopeExcludes(Excludes):
    """
    Exclude what belongs to other shards, besides what other excludes do.

    Args:
        excludes: of the tree.
        scope: of the shard.
    """

    __slots__ = ("_excludes", "_scope")

    def __init__(self, excludes: Excludes, scope: TreeScope) -> None:
        super().__init__()
        self._excludes = excludes
        self._scope = scope

    def matches(self, path: bytes, name: bytes, is_folder: bool) -> bool:
        """Return whether an entry is excluded, given that none of its parent folders is; see ``Excludes``."""
        scope = self._scope
        is_passage = is_folder and path in scope.passages
        if is_folder and path in scope.left_out and not is_passage:
            return True
        if path[: -len(name) - 1] in scope.passages and not (is_folder and (is_passage or path in scope.folders)):
            return True
        return self._excludes.matches(path, name, is_folder)

    def may_match(self, names: bytes) -> bool:
        """Return whether any of these files may be excluded; see ``Excludes``."""
        return bool(self._scope.passages) or self._excludes.may_match(names)
