"""
Find files that are missing in a copy under their names among the files that only the copy has.

Renamed files are recognized by content alone: by what the copy states, or by bytes where those are read anyway or the
file itself is not intact. Each file of the copy is read at most once.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from integrity.arbitration import CopyVote, Level
from integrity.catalog.copy_listing import StatedFile, find_extra
from integrity.catalog.rows import FileRecord
from integrity.copies.protocol import Copy
from integrity.errors import ReadError
from integrity.jobs.compare.copy_answer import CopyAnswer, vote_by_digests
from integrity.jobs.compare.listing import CopyListing, unpack_published
from integrity.jobs.compare.read_back import read_from_copy
from integrity.model import Digests

if TYPE_CHECKING:
    from integrity.jobs.context import RootRun

_OF_ONE_SIZE = 64
"""Files of one size that are compared: thousands of thumbnails of equal size are not all read for each other."""

_MOST_CACHED = 100_000
"""Digests of files of the copy that are cached; beyond this no more files are read."""


class RenamedFiles:
    """
    Find recorded content under other names in the copy.

    Args:
        copy: entered.
        listing: already read.
        reads: whether the copy's bytes are read for files that are only missing there.
    """

    def __init__(self, run: RootRun, copy: Copy, listing: CopyListing, *, reads: bool) -> None:
        self._run = run
        self._copy = copy
        self._listing = listing
        self._reads = reads and copy.has_bytes
        self._digests: dict[bytes, Digests | None] = {}

    def find(self, record: FileRecord) -> CopyAnswer | None:
        """Return a RENAMED answer with the name under which the copy has the content; None if it is not found."""
        return self._find(record, (), reads=self._reads)

    def find_lost(self, record: FileRecord, places: Iterable[bytes]) -> CopyAnswer | None:
        """
        Return a RENAMED answer for a file that is not intact, so that it can be repaired.

        ``places``: paths in the root under whose names the copy had the content.
        """
        return self._find(record, filter(self._listing.covers, places), reads=self._copy.has_bytes)

    def _find(self, record: FileRecord, places: Iterable[bytes], *, reads: bool) -> CopyAnswer | None:
        size = record.witness.size_bytes
        if not size:
            return None
        with self._run.catalog.read() as connection:
            found = find_extra(connection, size, _OF_ONE_SIZE)
        for path, listed in (*((place, None) for place in places), *found):
            level = self._compare(record, path, listed, reads=reads)
            if level is not None:
                return CopyAnswer(CopyVote.RENAMED, level, size_bytes=size, found_as=path)
        return None

    def _compare(self, record: FileRecord, path: bytes, listed: StatedFile | None, *, reads: bool) -> Level | None:
        """Compare one file of the copy with a record; return the level of evidence that matched, or None."""
        if listed is not None:
            with self._run.catalog.read() as connection:
                vote = vote_by_digests(connection, record, unpack_published(listed))
            if vote is not None:
                return Level.PUBLISHED if vote is CopyVote.SAME and not listed.is_contradictory else None
        digests = self._read(path) if reads else None
        if digests is None or digests.xxh3_128 is None or digests.xxh3_128 != record.digests.xxh3_128:
            return None
        return Level.READ

    def _read(self, path: bytes) -> Digests | None:
        """Return the digests of a file of the copy; None if it can't be read or the cache is full."""
        if path not in self._digests:
            if len(self._digests) >= _MOST_CACHED:
                return None
            block_bytes, stop = self._run.settings.block_size_bytes, self._run.context.stop
            try:
                place = self._listing.place(path)
                reading = read_from_copy(self._copy, place, block_bytes, pace=self._run.pace, stop=stop)
            except ReadError:
                self._digests[path] = None  # an unreadable file proves nothing: the recorded one counts as missing
            else:
                self._run.counts.bytes_read += reading.bytes_read
                self._digests[path] = reading.digests
        return self._digests[path]
