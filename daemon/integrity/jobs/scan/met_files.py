"""Which recorded files a walk has met: one by one, or a folder with all of its files."""

from __future__ import annotations

from array import array
from collections.abc import Iterable
from typing import TYPE_CHECKING

from integrity.catalog import folders
from integrity.jobs.batching import IdSet
from integrity.model import FileId, FolderId

if TYPE_CHECKING:
    from integrity.catalog.connection import Catalog


class MetFiles:
    """
    The recorded files that a walk has met.

    Files of a folder that was met as a whole are only counted. Their numbers are looked up when it is asked for one
    file, which most runs never do.
    """

    def __init__(self, catalog: Catalog) -> None:
        self._catalog = catalog
        self._ids = IdSet()
        self._folders = array("q")
        self._in_folders = 0

    def add_folder(self, folder_id: FolderId, count: int) -> None:
        """Add all files of a folder none of whose files was added before, and how many they are."""
        self._folders.append(folder_id)
        self._in_folders += count

    def update(self, file_ids: Iterable[FileId]) -> None:
        """Add files that lie in no folder that was added."""
        self._ids.update(file_ids)

    def add(self, file_id: FileId) -> None:
        """Add a file, wherever it lies."""
        self._look_up()
        self._ids.add(file_id)

    def discard(self, file_id: FileId) -> None:
        """Take a file out, if it is in."""
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
            self._ids.update(folders.find_ids(connection, map(FolderId, self._folders)))
        self._folders, self._in_folders = array("q"), 0
