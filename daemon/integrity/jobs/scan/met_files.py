"""Keep the set of recorded files that a walk has met, file by file or by whole folders."""

from __future__ import annotations

from array import array
from collections.abc import Iterable
from typing import TYPE_CHECKING

from integrity.catalog import roots
from integrity.jobs.batching import IdSet
from integrity.model import FileId, FolderId

if TYPE_CHECKING:
    from integrity.catalog.connection import Catalog


class MetFiles:
    """
    The recorded files that a walk has met.

    Whole folders are only counted. Their file ids are loaded at the first query for a single file, which most runs
    never do.
    """

    def __init__(self, catalog: Catalog) -> None:
        self._catalog = catalog
        self._ids = IdSet()
        self._folders = array("q")
        self._in_folders = 0

    def add_folder(self, folder_id: FolderId, count: int) -> None:
        """Add all files of a folder; none of them may have been added before. ``count`` is their number."""
        self._folders.append(folder_id)
        self._in_folders += count

    def update(self, file_ids: Iterable[FileId]) -> None:
        """Add files that lie in no added folder."""
        self._ids.update(file_ids)

    def add(self, file_id: FileId) -> None:
        """Add a file of any folder."""
        self._look_up()
        self._ids.add(file_id)

    def discard(self, file_id: FileId) -> None:
        """Remove a file if present."""
        self._look_up()
        self._ids.discard(file_id)

    def __contains__(self, file_id: FileId) -> bool:
        self._look_up()
        return file_id in self._ids

    def __len__(self) -> int:
        return len(self._ids) + self._in_folders

    def _look_up(self) -> None:
        if not self._folders:
            return
        with self._catalog.read() as connection:
            self._ids.update(roots.find_ids_in(connection, map(FolderId, self._folders)))
        self._folders, self._in_folders = array("q"), 0
