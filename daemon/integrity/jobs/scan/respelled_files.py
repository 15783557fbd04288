"""
Let records follow files that were renamed by letter case or the form of accents alone, where neither makes a name.

On such a file system (FAT, exFAT, SMB, HFS+, ext4 and ZFS on demand) the old name still leads to the file, so it is
never gone; but no listing shows it. The records are moved before the walk compares them: content is judged as under a
name that stayed. Where spellings make names, this costs a few lstat per folder without records.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING

from integrity.catalog import files, roots
from integrity.files.open_beneath import stat_beneath
from integrity.files.spelling import Spelling, find_variants
from integrity.jobs.judge.inodes import TreePlace
from integrity.jobs.presence import is_respelled
from integrity.jobs.scan.moved_files import move_records, note_moved
from integrity.same_name import SameNames, fold_name

if TYPE_CHECKING:
    from integrity.catalog.connection import Connection
    from integrity.catalog.files import KnownFile
    from integrity.files.listing import FolderListing
    from integrity.jobs.context import RootRun
    from integrity.model import FileId


class RespelledFiles:
    """Find such files and move their records."""

    def __init__(self, run: RootRun) -> None:
        self._run = run
        self._folders: dict[bytes, list[bytes]] | None = None

    def spell(self, path: bytes) -> bytes:
        """Return a path that leads to a file or folder as the listings spell it, unless none shows it."""
        try:
            return (Spelling(self._run.root_fd).find(path) if self._is_spelled_freely(path) else None) or path
        except OSError:
            return path

    def find(
        self, connection: Connection, listing: FolderListing, known: Mapping[bytes, KnownFile]
    ) -> list[tuple[FileId, TreePlace]]:
        """
        Return the recorded files that a listing shows under another spelling, with that name.

        Args:
            known: the recorded files of the folder; if the listing is not whole, only those that it has.
        """
        if not self._run.root.file_count:
            return []  # a first scan reads no names one by one
        unknown = [seen.name for seen in listing.files if seen.name not in known]
        if not unknown:
            return []
        if listing.is_whole and known:
            if len(known) == len(listing.files) - len(unknown):
                return []  # no recorded name is missing
            return self._match(listing, unknown, listing.folder, known)
        if not self._is_spelled_freely(TreePlace(listing.folder, unknown[0]).path):
            return []
        found: list[tuple[FileId, TreePlace]] = []
        for folder in self._find_folders(connection, listing.folder):
            recorded = files.find_known(connection, self._run.root.id, folder)
            found += self._match(listing, unknown, folder, recorded)
        return found

    def _match(
        self, listing: FolderListing, unknown: Sequence[bytes], folder: bytes, recorded: Mapping[bytes, KnownFile]
    ) -> list[tuple[FileId, TreePlace]]:
        """Pair recorded names of a folder that lead to a file, but are not listed, with listed ones."""
        names = SameNames(unknown, ignores_case=True)
        listed = {seen.name for seen in listing.files} if folder == listing.folder else set[bytes]()
        spelling = Spelling(self._run.root_fd)
        found: list[tuple[FileId, TreePlace]] = []
        for name, record in recorded.items():
            shown = None if name in listed else names.find(name)
            with suppress(OSError):  # gone: here, a spelling makes a name
                if shown is not None and is_respelled(self._run.root_fd, TreePlace(folder, name).path, spelling):
                    found.append((record.id, TreePlace(listing.folder, shown)))
        return found

    def _is_spelled_freely(self, path: bytes) -> bool:
        """Return whether an existing name leads to something under another spelling, too."""
        return any(self._is_there(variant) for variant in find_variants(path))

    def _is_there(self, path: bytes) -> bool:
        try:
            stat_beneath(self._run.root_fd, path)
        except OSError:
            return False
        return True

    def _find_folders(self, connection: Connection, folder: bytes) -> list[bytes]:
        """Return the recorded folders that are spelled like one, itself included."""
        if self._folders is None:
            self._folders = {}
            for path in roots.find_folder_paths(connection, self._run.root.id):
                self._folders.setdefault(fold_name(path, ignores_case=True), []).append(path)
        return self._folders.get(fold_name(folder, ignores_case=True), [])

    def follow(self, respelled: Iterable[tuple[FileId, TreePlace]]) -> None:
        """Move the records of files to the names that are listed."""
        run, places = self._run, dict(respelled)

        def write(connection: Connection, ids: Sequence[FileId]) -> None:
            records = files.find_files(connection, ids)
            move_records(run, connection, [(record.id, places[record.id]) for record in records])
            for record in records:
                note_moved(run, record.path, places[record.id].path)

        run.write_in_pages(list(places), write)
