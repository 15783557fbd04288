"""
Count the files of a copy that share data on the disk with the files that they are copies of (FIEMAP).

A reflink or a snapshot is no copy: one bad block damages both. The first extents of files are compared, and all extents
of files of several blocks. Files without extents of their own, as those that btrfs keeps in its metadata, are not seen.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from contextlib import suppress
from itertools import islice, pairwise
from typing import TYPE_CHECKING

from integrity.catalog.rows import FileRecord
from integrity.files.block_devices import find_positions
from integrity.files.extents import iterate_extents
from integrity.files.open_beneath import open_beneath
from integrity.same_place import is_same_disk

if TYPE_CHECKING:
    from integrity.copies.protocol import Copy
    from integrity.jobs.context import RootRun

_REFLINKING = frozenset({"bcachefs", "btrfs", "xfs"})
"""File systems in which files can share extents."""

_MOST_EXTENTS = 10_000


class SharedExtents:
    """
    Count shared files.

    Args:
        root_fd: the root; stays the caller's.
        copy_fd: the copy; stays the caller's.
        place: returns the path in the copy of a path in the root.

    Attributes:
        count: files that share data so far.
    """

    def __init__(self, root_fd: int, copy_fd: int, place: Callable[[bytes], bytes]) -> None:
        self._root_fd = root_fd
        self._copy_fd = copy_fd
        self._place = place
        self.count = 0

    def look_at(self, records: Sequence[FileRecord]) -> None:
        """Count those of some files whose copies share data with them."""
        paths = [record.path for record in records]
        here = find_positions(self._root_fd, paths, _never)
        there = find_positions(self._copy_fd, list(map(self._place, paths)), _never)
        for record, mine, other in zip(records, here, there, strict=True):
            is_shared = mine == other != 0
            if not is_shared and record.block_size_bytes is not None:
                is_shared = self._share_any(record.path)
            self.count += is_shared

    def _share_any(self, path: bytes) -> bool:
        extents = [
            (position, position + length, number)
            for number, (folder_fd, name) in enumerate(((self._root_fd, path), (self._copy_fd, self._place(path))))
            for position, length in _find_extents(folder_fd, name)
        ]
        return any(before[2] != after[2] and after[0] < before[1] for before, after in pairwise(sorted(extents)))


def find_shared(run: RootRun, copy: Copy, place: Callable[[bytes], bytes]) -> SharedExtents | None:
    """Return what counts shared data; None if the copy can't share any with the root."""
    folder, identity = copy.folder, copy.identity()
    if folder is None or identity is None or identity.fs_type not in _REFLINKING:
        return None
    if not is_same_disk(run.root.identity.fs_id, identity.names):
        return None
    return SharedExtents(run.root_fd, folder.root_fd, place)


def _never() -> bool:
    return False


def _find_extents(folder_fd: int, path: bytes) -> list[tuple[int, int]]:
    """Return position and length of a file's extents on the device; none if they are unknown."""
    with suppress(OSError):  # reading the file reports the error
        fd = open_beneath(folder_fd, path, os.O_RDONLY)
        try:
            extents = islice(iterate_extents(fd), _MOST_EXTENTS)
            return [(one.position, one.length) for one in extents if not one.has_no_position]
        finally:
            os.close(fd)
    return []
