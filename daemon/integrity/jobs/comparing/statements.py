"""
Hold what a copy states of a file against what is recorded of it, and against the file itself where that takes it.

I1  A store that can be asked closer is asked before its file is said to differ.
I2  A size that contradicts the listing says nothing of the file: it was written meanwhile, or an answer was not whole.
I3  A listing's ETag only looks like a digest where a store encrypts: checksums, if there are any, outweigh it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, NamedTuple

from integrity.catalog import history
from integrity.catalog.copy_listing import CompareRow, digest_stated
from integrity.catalog.rows import FileRecord
from integrity.copies.protocol import CloseLook, Copy, Kind, Published, Trouble
from integrity.copies.s3.checksums import list_parts
from integrity.errors import ReadError, ReadInterrupted
from integrity.jobs.compare import messages
from integrity.jobs.compare.copy_answer import Level, Voice, cannot, is_older, pick_checksums, vote_by_digests
from integrity.jobs.compare.listing import CopyListing
from integrity.jobs.compare.local_digests import FileMatch, match_file
from integrity.model import Reading
from integrity.verdict import CopyVote

if TYPE_CHECKING:
    from integrity.jobs.context import RootRun


class Stated(NamedTuple):
    """What a copy states of a file."""

    row: CompareRow
    published: tuple[Published, ...]
    level: Level


class Statements:
    """
    Weigh what a copy states.

    Args:
        run: the run.
        copy: entered.
        listing: what the copy has.
        verify: takes each file that was read here for an answer, and is what was recorded.
    """

    def __init__(
        self,
        run: RootRun,
        copy: Copy,
        listing: CopyListing,
        *,
        verify: Callable[[FileRecord, Reading], None],
    ) -> None:
        self._run = run
        self._listing = listing
        self._close_look = copy if isinstance(copy, CloseLook) else None  # asking a protocol takes its time
        self._has_bytes = copy.has_bytes
        self._verify = verify

    def hear(self, stated: Stated, size_bytes: int | None) -> Voice | None:
        """
        Hold what is stated against what is recorded.

        Args:
            stated: what is stated.
            size_bytes: of the copy's file, if that is known.

        Returns:
            None where the file has to be read; then ``hear_match`` decides.

        Raises:
            ReadInterrupted: it was stopped.
            CopyUnreachable: it is not the file but the copy.
        """
        row, published, level = stated
        record = row.record
        proven = Voice(CopyVote.SAME, level, size_bytes=size_bytes, is_proven=True)
        if self._close_look is None:
            voice = self._derive(record, published, size_bytes, level)
            return proven if voice is None and level is Level.PUBLISHED and _is_proven(row) else voice
        if self._vote(record, published, size_bytes) is CopyVote.SAME:
            return Voice(CopyVote.SAME, level, size_bytes=size_bytes)
        return proven if _is_proven(row) else self._hear_closely(self._close_look, record, size_bytes)

    def _hear_closely(self, copy: CloseLook, record: FileRecord, listed_bytes: int | None) -> Voice:
        """Ask for all that is stated; for the size of each part only where equal ones did not make it the same."""
        voice, parts = None, None
        for every_part in (False, True):
            closer = copy.look_closer(self._listing.place(record.path), every_part=every_part)
            if isinstance(closer, Trouble):
                return Voice(CopyVote.UNREADABLE, reason=closer.message)
            if listed_bytes not in (None, closer.size_bytes):
                return Voice(CopyVote.UNREADABLE, reason=messages.written_meanwhile())
            published = closer.published
            found = [list_parts(record.witness.size_bytes, one) for one in published if one.kind is Kind.MD5_OF_PARTS]
            if voice is not None and found == parts:
                break  # they are equal
            voice, parts = self._weigh(record, published, closer.size_bytes, Level.PUBLISHED), found
            is_settled = voice.vote not in (CopyVote.DIFFERS, CopyVote.OLDER) or pick_checksums(published)
            if is_settled or not found or closer.size_bytes != record.witness.size_bytes:
                break
        assert voice is not None
        return voice

    def _weigh(self, record: FileRecord, published: Sequence[Published], size_bytes: int | None, level: Level) -> Voice:
        """Decide by all that is stated; the file is read where that can't be derived from what is recorded."""
        voice = self._derive(record, published, size_bytes, level)
        if voice is not None:
            return voice
        try:
            found: FileMatch | ReadError = match_file(self._run, record, published)
        except ReadInterrupted:
            raise
        except ReadError as error:
            found = error
        return self.hear_match(record, published, level, found)

    def _derive(
        self, record: FileRecord, published: Sequence[Published], size_bytes: int | None, level: Level
    ) -> Voice | None:
        """Decide by what is recorded; None where the file has to be read."""
        checksums = tuple(published) if self._close_look is None else pick_checksums(published)
        vote = self._vote(record, checksums, size_bytes)
        if vote is None and len(checksums) < len(published):
            vote = self._vote(record, published, size_bytes)
            if vote is CopyVote.DIFFERS and checksums:
                vote = None
        if vote is None:
            return None if published else cannot(messages.nothing_stated(), wants_read=self._has_bytes)
        if vote is CopyVote.SAME:
            return Voice(vote, level, size_bytes=size_bytes)
        return self._hear_other(record, published, size_bytes, level)

    def _vote(self, record: FileRecord, published: Sequence[Published], size_bytes: int | None) -> CopyVote | None:
        if size_bytes is not None and size_bytes != record.witness.size_bytes:
            return CopyVote.DIFFERS
        if not any(one.kind is Kind.MD5_OF_PARTS for one in published):
            return vote_by_digests(None, self._run.catalog.sealer, record, published)
        with self._run.catalog.read() as connection:
            return vote_by_digests(connection, self._run.catalog.sealer, record, published)

    def _hear_other(
        self, record: FileRecord, published: Sequence[Published], size_bytes: int | None, level: Level
    ) -> Voice:
        """Tell an older version from what was never recorded."""
        with self._run.catalog.read() as connection:
            former = history.history_of(connection, self._run.root.id, record.path)
        vote = CopyVote.OLDER if is_older(former, size_bytes, published) else CopyVote.DIFFERS
        return Voice(vote, level, stated=tuple(published), size_bytes=size_bytes)

    def hear_match(
        self, record: FileRecord, published: Sequence[Published], level: Level, found: FileMatch | ReadError
    ) -> Voice:
        """Take what a file has in common with what is stated of its copy, by digests that are not kept of it."""
        if isinstance(found, ReadError):
            return Voice(CopyVote.NOT_COMPARABLE, reason=messages.file_not_read(str(found)), doubts_file=True)
        if not found.is_recorded and found.is_match:
            return Voice(CopyVote.DIFFERS, level, stated=tuple(published))
        if not found.is_recorded:
            return Voice(CopyVote.NOT_COMPARABLE, reason=messages.file_differs(), doubts_file=True)
        self._verify(record, found.reading)
        if found.is_match is None:
            return cannot(_say_uncomputable(published), wants_read=self._has_bytes)
        if found.is_match:
            return Voice(CopyVote.SAME, level, is_proven=level is Level.PUBLISHED)
        return self._hear_other(record, published, None, level)


def _is_proven(row: CompareRow) -> bool:
    """Say whether the copy states what it did when the file was read for it, and it was right."""
    listed = row.listed
    if row.stated is None or listed is None or listed.size_bytes not in (None, row.record.witness.size_bytes):
        return False
    return row.stated == digest_stated(listed)


def _say_uncomputable(published: Sequence[Published]) -> str:
    kinds = dict.fromkeys(one.kind for one in published)
    hint = "; for crc32c: pip install 'integrity[s3]'" if Kind.CRC32C in kinds else ""
    return f"the copy states only what can't be computed here ({', '.join(kinds)}{hint}); --read has it read"
