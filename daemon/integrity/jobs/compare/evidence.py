"""
Hold what a copy states of a file against what is recorded of it, and against the file itself where that takes it.

I1  A store that can be asked closer is asked before its file is said to differ.
I2  A size that contradicts the listing says nothing of the file: it was written meanwhile, or an answer was not whole.
I3  A listing's ETag only looks like a digest where a store encrypts: checksums, if there are any, outweigh it.

Find out what a copy says of a file, by the cheapest evidence that covers the content.

In this order: what the copy states of it, held against what is recorded; the same held against the file, where it is a
digest that is not kept; a digest that is computed over there; the bytes, where they are asked for or nothing else is.

That the size is the same is no evidence; that it differs is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

from integrity.catalog import history
from integrity.catalog.copy_listing import CompareRow, digest_stated
from integrity.catalog.rows import FileRecord
from integrity.copies.protocol import Copy, Kind, Published, Trouble
from integrity.copies.s3.checksums import list_parts
from integrity.errors import ReadError, ReadInterrupted
from integrity.jobs.compare import messages
from integrity.jobs.compare.copy_answer import (
    CopyAnswer,
    Level,
    Take,
    cannot,
    is_older,
    pick_checksums,
    vote_by_digests,
    whole_digest,
)
from integrity.jobs.compare.listing import CopyListing, unpack_published
from integrity.jobs.compare.local_digests import Asked, FileMatch, match_file
from integrity.jobs.compare.read_back import ReadBack
from integrity.jobs.compare.renamed import RenamedFiles
from integrity.jobs.context import RunLimit
from integrity.jobs.options import CompareOptions
from integrity.jobs.report import Compared
from integrity.model import Reading
from integrity.verdict import CopyVote

if TYPE_CHECKING:
    from integrity.jobs.context import RootRun


class StatedDigests(NamedTuple):
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
        self._copy = copy
        self._verify = verify

    def hear(self, stated: StatedDigests, size_bytes: int | None) -> CopyAnswer | None:
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
        proven = CopyAnswer(CopyVote.SAME, level, size_bytes=size_bytes, is_proven=True)
        if not self._copy.has_details:
            voice = self._derive(record, published, size_bytes, level)
            return proven if voice is None and level is Level.PUBLISHED and _is_proven(row) else voice
        if self._vote(record, published, size_bytes) is CopyVote.SAME:
            return CopyAnswer(CopyVote.SAME, level, size_bytes=size_bytes)
        return proven if _is_proven(row) else self._hear_closely(record, size_bytes)

    def _hear_closely(self, record: FileRecord, listed_bytes: int | None) -> CopyAnswer:
        """Ask for all that is stated; for the size of each part only where equal ones did not make it the same."""
        voice, parts = None, None
        for every_part in (False, True):
            closer = self._copy.look_closer(self._listing.place(record.path), every_part=every_part)
            if isinstance(closer, Trouble):
                return CopyAnswer(CopyVote.UNREADABLE, reason=closer.message)
            if listed_bytes not in (None, closer.size_bytes):
                return CopyAnswer(CopyVote.UNREADABLE, reason=messages.written_meanwhile())
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

    def _weigh(
        self, record: FileRecord, published: Sequence[Published], size_bytes: int | None, level: Level
    ) -> CopyAnswer:
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
    ) -> CopyAnswer | None:
        """Decide by what is recorded; None where the file has to be read."""
        checksums = pick_checksums(published) if self._copy.has_details else tuple(published)
        vote = self._vote(record, checksums, size_bytes)
        if vote is None and len(checksums) < len(published):
            vote = self._vote(record, published, size_bytes)
            if vote is CopyVote.DIFFERS and checksums:
                vote = None
        if vote is None:
            return None if published else cannot(messages.nothing_stated(), wants_read=self._copy.has_bytes)
        if vote is CopyVote.SAME:
            return CopyAnswer(vote, level, size_bytes=size_bytes)
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
    ) -> CopyAnswer:
        """Tell an older version from what was never recorded."""
        with self._run.catalog.read() as connection:
            former = history.history_of(connection, self._run.root.id, record.path)
        vote = CopyVote.OLDER if is_older(former, size_bytes, published) else CopyVote.DIFFERS
        return CopyAnswer(vote, level, stated=tuple(published), size_bytes=size_bytes)

    def hear_match(
        self, record: FileRecord, published: Sequence[Published], level: Level, found: FileMatch | ReadError
    ) -> CopyAnswer:
        """Take what a file has in common with what is stated of its copy, by digests that are not kept of it."""
        if isinstance(found, ReadError):
            return CopyAnswer(CopyVote.NOT_COMPARABLE, reason=messages.file_not_read(str(found)), doubts_file=True)
        if not found.is_recorded and found.is_match:
            return CopyAnswer(CopyVote.DIFFERS, level, stated=tuple(published))
        if not found.is_recorded:
            return CopyAnswer(CopyVote.NOT_COMPARABLE, reason=messages.file_differs(), doubts_file=True)
        self._verify(record, found.reading)
        if found.is_match is None:
            return cannot(_say_uncomputable(published), wants_read=self._copy.has_bytes)
        if found.is_match:
            return CopyAnswer(CopyVote.SAME, level, is_proven=level is Level.PUBLISHED)
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


_DIGESTS_AT_ONCE = 2000  # paths of one question: starting programs over there costs as much as thousands of digests
_ABSENCES_ASKED = 50
_PREFERRED = (Kind.XXH3_128, Kind.MD5, Kind.BLAKE3, Kind.SHA256, Kind.SHA1, Kind.XXH64, Kind.SHA512, Kind.CRC32)


class CopyEvidence:
    """
    Hear a copy on one file after the other.

    Args:
        run: the run.
        copy: entered.
        listing: what the copy has.
        options: how to compare.
        compared: which copy it is.
        total_bytes: of all files; what a share of them is a share of.
        limit: when to stop asking.
        take: takes each answer, once for each file.
        verify: takes each file that was read here for an answer, and is what was recorded.

    Attributes:
        read_back: reads files of the copy.
    """

    def __init__(
        self,
        run: RootRun,
        copy: Copy,
        listing: CopyListing,
        options: CompareOptions,
        compared: Compared,
        total_bytes: int,
        *,
        limit: RunLimit,
        take: Take,
        verify: Callable[[FileRecord, Reading], None],
    ) -> None:
        self._run = run
        self._copy = copy
        self._listing = listing
        self._folder = copy.folder
        self._reads_all = options.read or (self._folder is not None and options.read_percent is None)
        share = options.read_percent
        self._to_read_bytes = 0.0 if share is None else total_bytes * share / 100
        self._has_share = share is not None
        self._limit = limit
        self._statements = Statements(run, copy, listing, verify=verify)
        self.read_back = ReadBack(run, copy, listing, compared.copy, take=take)
        self._renamed = RenamedFiles(run, copy, listing, reads=options.read or self._folder is not None)
        self._asked: list[Asked[StatedDigests]] = []
        self._take = take
        self._remote: dict[Kind, list[CompareRow]] = {}
        self._absences = 0

    def hear_all(self, rows: Iterable[CompareRow]) -> Iterator[Asked[StatedDigests]]:
        """Hear and, where that takes their bytes, read all of some files; give those that are to be read here."""
        for row in rows:
            if self.hear(row):
                self.read_back.read(row)
            yield from self._take_asked()
        self._finish()
        yield from self._take_asked()

    def _take_asked(self) -> list[Asked[StatedDigests]]:
        asked, self._asked = self._asked, []
        return asked

    def hear(self, row: CompareRow) -> bool:
        """Hear what can be heard without bytes; say whether these are to be read."""
        record, listed = row.record, row.listed
        if not record.is_sealed:
            self._take(row, CopyAnswer(CopyVote.NOT_COMPARABLE))
        elif listed is None:
            self._take(row, self._hear_absence(record))
        elif listed.is_contradictory:
            self._take(row, cannot(messages.listed_twice()))
        elif self._is_part_folded:
            self._take(row, cannot(messages.spelling()))
        elif self._is_chosen(row):
            return not self._ask_remote(row)
        elif row.was_found_bad:
            self._take(row, None)  # the share is used up, and what was found by bytes is not ended by less
        elif listed.published:
            self._take_stated(StatedDigests(row, unpack_published(listed), Level.PUBLISHED), listed.size_bytes)
        elif self._has_share:
            self._take(row, None)
        elif not self._ask_remote(row):
            self._take(row, self._hear_size(row))
        return False

    def _is_chosen(self, row: CompareRow) -> bool:
        """Say whether the bytes are wanted: of all, of those whose turn it is, of what was bad, or of another size."""
        if not (self._copy.has_bytes or self._copy.remote_kinds):
            return False
        if self._reads_all:
            return True
        size = row.record.witness.size_bytes
        if not self._has_share:
            return row.was_found_bad  # what a store states may be what it was given, not what it has by now
        if self._to_read_bytes <= 0:
            return row.listed is not None and row.listed.size_bytes not in (None, size)
        self._to_read_bytes -= size
        return True

    @cached_property
    def _is_part_folded(self) -> bool:
        """Say whether the part that was listed was found under another spelling than its own."""
        part = self._listing.part
        try:
            return self._folder is not None and part != b"" and not self._folder.is_exact(part)
        except OSError:
            return False  # it was listed a moment ago: reading its files tells what is the matter

    def _hear_absence(self, record: FileRecord) -> CopyAnswer:
        place = self._listing.place(record.path)
        trouble = self._listing.find_trouble(place)
        if trouble is not None:
            return CopyAnswer(CopyVote.UNREADABLE, reason=trouble)
        fault = self._listing.find_name_fault(place)
        if fault is not None:
            return cannot(f"its name {fault}")
        self._absences += 1
        if self._copy.has_bytes and (self._folder is not None or self._absences <= _ABSENCES_ASKED):
            for found in self._copy.list(place):  # it may have come meanwhile, or be something that can't be looked at
                if isinstance(found, Trouble):
                    return CopyAnswer(CopyVote.UNREADABLE, reason=found.message)
                if found.path == place:
                    return self._hear_unlisted(place)
                break  # a folder has its name over there
        return self._renamed.find(record) or CopyAnswer(CopyVote.MISSING)

    def _hear_unlisted(self, place: bytes) -> CopyAnswer:
        """Say what is the matter with a file that is there, though the listing did not have it."""
        try:
            is_exact = self._folder is None or self._folder.is_exact(place)
        except OSError as error:
            return CopyAnswer(CopyVote.UNREADABLE, reason=f"its folder can't be listed: {error.strerror}")
        return (
            CopyAnswer(CopyVote.UNREADABLE, reason=messages.came_meanwhile())
            if is_exact
            else cannot(messages.spelling())
        )

    def _hear_size(self, row: CompareRow) -> CopyAnswer:
        """Conclude what can be concluded of a size: that it differs."""
        assert row.listed is not None
        size = row.listed.size_bytes
        if size is not None and size != row.record.witness.size_bytes:
            return CopyAnswer(CopyVote.DIFFERS, Level.PUBLISHED, size_bytes=size)
        if self._copy.has_bytes:
            return cannot(messages.nothing_stated(), wants_read=True)
        return cannot("the copy states no digest of it")

    def _take_stated(self, stated: StatedDigests, size_bytes: int | None) -> None:
        """Take what the copy states of a file, or put the file among those that are to be read for it."""
        try:
            voice = self._statements.hear(stated, size_bytes)
        except ReadInterrupted:
            return  # it is not due
        if voice is None:
            self._asked.append(Asked(stated, stated.row.record, stated.published))
        else:
            self._take(stated.row, voice)

    def take_match(self, stated: StatedDigests, match: FileMatch | ReadError) -> None:
        """Take what a file has in common with what is stated of its copy."""
        if not isinstance(match, ReadInterrupted):
            record = stated.row.record
            self._take(stated.row, self._statements.hear_match(record, stated.published, stated.level, match))

    def _ask_remote(self, row: CompareRow) -> bool:
        """Put a file among those whose digests are computed over there; say whether that is possible."""
        kinds = self._copy.remote_kinds
        if not kinds:
            return False
        able = [kind for kind in _PREFERRED if kind in kinds]
        kept = (kind for kind in able if whole_digest(row.record.digests, kind) is not None)
        kind = next(kept, able[0] if able else None)
        if kind is None:
            return False
        waiting = self._remote.setdefault(kind, [])
        waiting.append(row)
        if len(waiting) >= _DIGESTS_AT_ONCE:
            self._hear_remote(kind)
        return True

    def _hear_remote(self, kind: Kind) -> None:
        rows = self._remote.pop(kind, [])
        places = [self._listing.place(row.record.path) for row in rows]
        for row, (_, answer) in zip(rows, self._copy.digest(places, kind), strict=True):
            if isinstance(answer, Trouble):
                self._take(row, CopyAnswer(CopyVote.UNREADABLE, reason=answer.message))
            else:
                size = None if row.listed is None else row.listed.size_bytes
                self._take_stated(StatedDigests(row, (Published(kind, answer),), Level.READ), size)
            if self._limit.is_set():
                return

    def _finish(self) -> None:
        """Have those heard that wait, unless a limit is reached."""
        for kind in list(self._remote):
            if not self._limit.is_set():
                self._hear_remote(kind)
