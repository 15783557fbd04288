"""
Decide which folders of a repository need not be read again, after a run that was cut short.

What is read is read in streams, each of a folder with all that is in it. To start one takes as long as reading some
data does, so a folder that was read is left out only where that saves more than the additional streams cost.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from integrity.catalog.copies import FolderRead

_START_BYTES = 100 << 20
"""What restic and borg read in the time that they take to open a repository."""


@dataclass(slots=True)
class _Subtree:
    """A folder with all that is in it; ``cost_bytes``: of reading what was not read; ``read``: folders to leave out."""

    size_bytes: int = 0
    cost_bytes: int = 0
    read: list[bytes] = field(default_factory=list)


def choose_left_out(folders: Iterable[FolderRead]) -> frozenset[bytes]:
    """Return the folders whose files are not to be read again."""
    subtrees = {b"": _Subtree()}
    own = {one.path: one for one in folders}
    for path in own:
        while path not in subtrees:
            subtrees[path] = _Subtree()
            path = path.rpartition(b"/")[0]
    for path in sorted(subtrees, key=lambda path: (path != b"", path.count(b"/")), reverse=True):
        subtree, folder = subtrees[path], own.get(path)
        if folder is not None:
            subtree.size_bytes += folder.size_bytes
            if folder.unread_files:
                subtree.cost_bytes += folder.unread_files * _START_BYTES  # one by one
            else:
                subtree.read.append(path)
        whole_bytes = subtree.size_bytes + _START_BYTES
        if not subtree.read or whole_bytes < subtree.cost_bytes:
            subtree.cost_bytes, subtree.read = whole_bytes, []
        if path:
            above = subtrees[path.rpartition(b"/")[0]]
            above.size_bytes += subtree.size_bytes
            above.cost_bytes += subtree.cost_bytes
            above.read += subtree.read
    return frozenset(subtrees[b""].read)
