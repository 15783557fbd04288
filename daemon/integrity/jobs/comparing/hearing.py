"""
Find out what a copy says of a file, by the cheapest evidence that covers the content.

In this order: what the copy states of it, held against what is recorded; the same held against the file, where it is a
digest that is not kept; a digest that is computed over there; the bytes, where they are asked for or nothing else is.

I1  That the size is the same is no evidence; that it differs is.
I2  A store that is asked closer is asked before its file is said to differ.
I3  A listing's ETag only looks like a digest where a store encrypts: checksums, if there are any, outweigh it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

from integrity.catalog import history
from integrity.catalog.copylist import CompareRow, digest_stated
from integrity.catalog.rows import FileRecord
from integrity.copies.etags import list_parts
from integrity.copies.protocol import CloseLook, Copy, Kind, Published, Trouble
from integrity.copies.tree import TreeCopy
from integrity.errors import ReadError, ReadInterrupted
from integrity.jobs.comparing import messages
from integrity.jobs.comparing.listing import CopyListing, unpack_published
from integrity.jobs.comparing.localdigests import Asked, FileMatch, match_file
from integrity.jobs.comparing.options import CompareOptions
from integrity.jobs.comparing.readings import read_from_copy
from integrity.jobs.comparing.voices import (
    Level,
    Voice,
    hear_reading,
    is_older,
    pick_checksums,
    vote_by_digests,
    whole_digest,
)
from integrity.jobs.contents import Difference, compare_content
from integrity.jobs.limit import Limit
from integrity.jobs.report import Compared
from integrity.model import FindingKind, Reading
from integrity.verdict import CopyVote

if TYPE_CHECKING:
    from integrity.jobs.context import RootRun

Take = Callable[[CompareRow, Voice | None], None]
"""Takes what a copy says of a file; None where it was not asked."""

_DIGESTS_AT_ONCE = 2000  # paths of one question: starting programs over there costs as much as thousands of digests
_ABSENCES_ASKED = 50
_SECOND_READINGS = 500
_PREFERRED = (Kind.XXH3_128, Kind.MD5, Kind.BLAKE3, Kind.SHA256, Kind.SHA1, Kind.XXH64, Kind.SHA512, Kind.CRC32)


class Stated(NamedTuple):
    """What a copy states of a file that has to be read for it."""

    row: CompareRow
    published: tuple[Published, ...]
    level: Level


class Hearing:
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
        limit: Limit,
        take: Take,
        verify: Callable[[FileRecord, Reading], None],
    ) -> None:
        self._run = run
        self._copy = copy
        self._listing = listing
        self._name = compared.copy
        self._reads_all = options.read or (isinstance(copy, TreeCopy) and options.read_percent is None)
        share = options.read_percent
        self._to_read_bytes = 0.0 if share is None else total_bytes * share / 100
        self._has_share = share is not None
        self._limit = limit
        self._close_look = copy if isinstance(copy, CloseLook) else None  # asking a protocol takes its time
        self._asked: list[Asked[Stated]] = []
        self._take = take
        self._verify = verify
        self._remote: dict[Kind, list[CompareRow]] = {}
        self._absences = 0
        self._second_readings = 0

    def hear_all(self, rows: Iterable[CompareRow]) -> Iterator[Asked[Stated]]:
        """Hear and, where that takes their bytes, read all of some files; give those that are to be read here."""
        for row in rows:
            if self.hear(row):
                self.read(row)
            yield from self._take_asked()
        self._finish()
        yield from self._take_asked()

    def _take_asked(self) -> list[Asked[Stated]]:
        asked, self._asked = self._asked, []
        return asked

    def hear(self, row: CompareRow) -> bool:
        """Hear what can be heard without bytes; say whether these are to be read."""
        record, listed = row.record, row.listed
        if not record.is_sealed:
            self._take(row, Voice(CopyVote.NOT_COMPARABLE))
        elif listed is None:
            self._take(row, self._hear_absence(self._listing.place(record.path)))
        elif listed.is_contradictory:
            self._take(row, _cannot(messages.listed_twice()))
        elif self._is_chosen(row):
            return not self._ask_remote(row)
        elif listed.published:
            self._take_stated(row, unpack_published(listed), listed.size_bytes)
        elif self._has_share:
            self._take(row, None)
        elif not self._ask_remote(row):
            self._take(row, self._hear_size(row))
        return False

    def _is_chosen(self, row: CompareRow) -> bool:
        """Say whether the bytes are wanted: of all, of those whose turn it is, or of one whose size alone tells."""
        if not (self._copy.has_bytes or self._copy.remote_kinds):
            return False
        if self._reads_all:
            return True
        size = row.record.witness.size_bytes
        if not self._has_share or self._to_read_bytes <= 0:
            has_other_size = row.listed is not None and row.listed.size_bytes not in (None, size)
            return self._has_share and has_other_size
        self._to_read_bytes -= size
        return True

    def _hear_absence(self, place: bytes) -> Voice:
        trouble = self._listing.find_trouble(place)
        if trouble is not None:
            return Voice(CopyVote.UNREADABLE, reason=trouble)
        fault = self._listing.find_name_fault(place)
        if fault is not None:
            return _cannot(f"its name {fault}")
        self._absences += 1
        if self._copy.has_bytes and self._absences <= _ABSENCES_ASKED:
            for found in self._copy.list(place):  # it may have come meanwhile, or be something that can't be looked at
                if isinstance(found, Trouble):
                    return Voice(CopyVote.UNREADABLE, reason=found.message)
                if found.path == place:
                    return Voice(CopyVote.UNREADABLE, reason=messages.came_meanwhile())
                break  # a folder has its name over there
        return Voice(CopyVote.MISSING)

    def _hear_size(self, row: CompareRow) -> Voice:
        """Conclude what can be concluded of a size: that it differs."""
        assert row.listed is not None
        size = row.listed.size_bytes
        if size is not None and size != row.record.witness.size_bytes:
            return Voice(CopyVote.DIFFERS, Level.PUBLISHED, size_bytes=size)
        if self._copy.has_bytes:
            return _cannot("the copy states no digest of it, and none can be computed over there; --read has it read")
        return _cannot("the copy states no digest of it")

    def _take_stated(
        self,
        row: CompareRow,
        published: tuple[Published, ...],
        size_bytes: int | None,
        level: Level = Level.PUBLISHED,
    ) -> None:
        """Hold what a copy states against what is recorded; ask closer before it is said to differ."""
        record = row.record
        if self._close_look is None:
            voice = self._derive(record, published, size_bytes, level)
            if voice is None and level is Level.PUBLISHED and _is_proven(row):
                voice = Voice(CopyVote.SAME, level, size_bytes=size_bytes, is_proven=True)
            if voice is None:
                self._asked.append(Asked(Stated(row, published, level), record, published))
                return
        elif self._vote(record, published, size_bytes) is CopyVote.SAME:
            voice = Voice(CopyVote.SAME, level, size_bytes=size_bytes)
        elif _is_proven(row):
            voice = Voice(CopyVote.SAME, level, size_bytes=size_bytes, is_proven=True)
        else:
            try:
                voice = self._hear_closely(self._close_look, record)
            except ReadInterrupted:
                return  # it is not due
        self._take(row, voice)

    def take_match(self, stated: Stated, match: FileMatch | ReadError) -> None:
        """Take what a file has in common with what is stated of its copy."""
        if not isinstance(match, ReadInterrupted):
            self._take(stated.row, self._hear_match(stated.row.record, stated.published, stated.level, match))

    def _hear_closely(self, copy: CloseLook, record: FileRecord) -> Voice:
        """Ask for all that is stated; for the size of each part only where equal ones did not make it the same."""
        voice, parts = None, None
        for every_part in (False, True):
            closer = copy.look_closer(self._listing.place(record.path), every_part=every_part)
            if isinstance(closer, Trouble):
                return Voice(CopyVote.UNREADABLE, reason=closer.message)
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
        return self._hear_match(record, published, level, found)

    def _derive(
        self, record: FileRecord, published: Sequence[Published], size_bytes: int | None, level: Level
    ) -> Voice | None:
        """Decide by what is recorded; None where the file has to be read."""
        has_etags = isinstance(self._copy, CloseLook)
        checksums = pick_checksums(published) if has_etags else tuple(published)
        vote = self._vote(record, checksums, size_bytes)
        if vote is None and len(checksums) < len(published):
            vote = self._vote(record, published, size_bytes)
            if vote is CopyVote.DIFFERS and checksums:
                vote = None
        if vote is None:
            return None if published else _cannot(messages.nothing_stated())
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

    def _hear_match(
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
            return _cannot(_say_uncomputable(published))
        if found.is_match:
            return Voice(CopyVote.SAME, level, is_proven=level is Level.PUBLISHED)
        return self._hear_other(record, published, None, level)

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
                self._take(row, Voice(CopyVote.UNREADABLE, reason=answer.message))
            else:
                size = None if row.listed is None else row.listed.size_bytes
                self._take_stated(row, (Published(kind, answer),), size, Level.READ)
            if self._limit.is_set():
                return

    def _finish(self) -> None:
        """Have those heard that wait, unless a limit is reached."""
        for kind in list(self._remote):
            if not self._limit.is_set():
                self._hear_remote(kind)

    def read(self, row: CompareRow) -> None:
        """Read a file of the copy, and take what it says."""
        try:
            reading = self._read(row.record)
        except ReadInterrupted:
            return  # it is not due, and comes first the next time
        except ReadError as error:
            self._take(row, Voice(CopyVote.UNREADABLE, Level.READ, str(error)))
            return
        with self._run.catalog.read() as connection:
            difference = compare_content(connection, self._run.catalog.sealer, row.record, reading)
        self.take_reading(row, reading, difference)

    def take_reading(self, row: CompareRow, reading: Reading, difference: Difference) -> None:
        """Take what was read; what differs is read once more before it is said."""
        run, record = self._run, row.record
        self._run.counts.bytes_read += reading.bytes_read
        if not difference.is_same and not difference.is_catalog_damaged and self._second_readings < _SECOND_READINGS:
            self._second_readings += 1
            again = self._read_again(record)
            if again is not None and again[1].is_same:
                with run.writing() as connection:
                    text = messages.transient(self._name)
                    run.open_finding(
                        connection, FindingKind.TRANSIENT, text, path=record.path, file_id=record.id, copy=self._name
                    )
            reading, difference = again or (reading, difference)
        with run.catalog.read() as connection:
            former = history.history_of(connection, run.root.id, record.path) if not difference.is_same else []
        self._take(row, hear_reading(difference, reading, former))

    def _read_again(self, record: FileRecord) -> tuple[Reading, Difference] | None:
        try:
            reading = self._read(record)
        except ReadError:
            return None  # the first reading stands
        self._run.counts.bytes_read += reading.bytes_read
        with self._run.catalog.read() as connection:
            return reading, compare_content(connection, self._run.catalog.sealer, record, reading)

    def _read(self, record: FileRecord) -> Reading:
        block_bytes = record.block_size_bytes or self._run.settings.block_size_bytes
        place, stop = self._listing.place(record.path), self._run.context.stop
        return read_from_copy(self._copy, place, block_bytes, pace=self._run.pace, stop=stop)


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


def _cannot(reason: str) -> Voice:
    return Voice(CopyVote.NOT_COMPARABLE, reason=reason)
