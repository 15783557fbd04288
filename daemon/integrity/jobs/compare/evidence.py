"""
Get the copy's answer for each file, by the cheapest evidence that covers the content.

Sources of evidence: digests the copy states, compared with the record; the same compared with the local file, for kinds
that are not recorded; digests computed remotely; the copy's bytes, if reading was requested, the copy is mounted, or an
earlier reading found damage. Equal sizes prove nothing; different sizes prove a difference.

I1  A store that supports a close look is queried again before its file is reported as different.
I2  A size that contradicts the listing proves nothing: the file was written meanwhile, or an answer was incomplete.
I3  Where a store encrypts, a listed ETag only looks like a digest: checksums, if there are any, outweigh it.
I4  A stated checksum that accuses a file of the recorded size is confirmed by reading its bytes (accusations.py).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

from integrity.arbitration import CopyVote, Level
from integrity.catalog import versions
from integrity.catalog.copy_listing import CompareRow, digest_stated
from integrity.catalog.rows import FileRecord
from integrity.copies.protocol import Copy, CopyEntry, Kind, Published, Trouble
from integrity.errors import ReadError, ReadInterrupted
from integrity.extras import how_to_install
from integrity.jobs import messages
from integrity.jobs.batching import IdSet
from integrity.jobs.compare.accusations import Accusations, ConfirmStep, ObjectSort
from integrity.jobs.compare.copy_answer import (
    CopyAnswer,
    Take,
    cannot,
    is_older,
    pick_checksums,
    vote_by_digests,
    whole_digest,
)
from integrity.jobs.compare.listing import CopyListing, unpack_published
from integrity.jobs.compare.local_digests import FileMatch, MatchRequest, match_file
from integrity.jobs.compare.read_back import ReadBack
from integrity.jobs.compare.renamed import RenamedFiles
from integrity.jobs.context import RunLimit
from integrity.jobs.options import CompareOptions
from integrity.jobs.report import Compared, NoteKind
from integrity.model import Reading
from integrity.same_time import is_same_time

if TYPE_CHECKING:
    from integrity.jobs.context import RootRun


class EvidenceCount:
    """
    Count by which evidence the files of one comparison were compared.

    Each file with a result is counted once for its copy: read, possibly read from memory, or by what the copy states;
    one that is missing, unreadable or not comparable is no evidence. And once for this side: read now, or known by its
    record only.

    Args:
        compared: updated in place.

    Attributes:
        read_here: files that were read here in this comparison.
    """

    def __init__(self, compared: Compared) -> None:
        self._compared = compared
        self.read_here = IdSet()

    def add_copies(self, level: Level | None, files: int = 1) -> None:
        """Count files whose copies were examined at one level; None: nothing was found out."""
        compared = self._compared
        if level is Level.READ:
            compared.read += files
        elif level is Level.CACHED:
            compared.cached += files
        elif level is Level.PUBLISHED:
            compared.published += files

    def add_files(self, records: Sequence[FileRecord]) -> None:
        """Count files by what is known of them here."""
        by_record = [one for one in records if one.id not in self.read_here]
        self._compared.read_here += len(records) - len(by_record)
        self.add_known([one.recorded_at if one.verified_at is None else one.verified_at for one in by_record])

    def add_known(self, read_at: Sequence[int]) -> None:
        """Count files that are known by their records, from when they were read last; keep the oldest."""
        compared = self._compared
        compared.known_by_record += len(read_at)
        known = read_at if compared.oldest_record_at is None else (*read_at, compared.oldest_record_at)
        compared.oldest_record_at = min(known, default=None)


class StatedDigests(NamedTuple):
    """Digests that a copy states for a file."""

    row: CompareRow
    published: tuple[Published, ...]
    level: Level


class Statement(NamedTuple):
    """What stated digests say about a file; ``encryption``: how the store says that it encrypts it."""

    answer: CopyAnswer
    encryption: str = ""


class Statements:
    """
    Evaluate the digests that a copy states.

    Args:
        copy: entered.
        verify: receives each file that was read here for an answer and is what was recorded.
    """

    def __init__(
        self, run: RootRun, copy: Copy, listing: CopyListing, *, verify: Callable[[FileRecord, Reading], None]
    ) -> None:
        self._run = run
        self._listing = listing
        self._copy = copy
        self._verify = verify

    def query(self, stated: StatedDigests, size_bytes: int | None) -> Statement | None:
        """
        Compare stated digests with the record. ``size_bytes`` is that of the copy's file, if known.

        Returns:
            None if the local file must be read; then ``answer_by_match`` decides.

        Raises:
            ReadInterrupted: the run was stopped.
            CopyUnreachable: the whole copy can't be reached, not only this file.
        """
        row, published, level = stated
        record = row.record
        proven = CopyAnswer(CopyVote.SAME, level, size_bytes=size_bytes, is_proven=True)
        if not self._copy.has_details:
            answer = self._derive(record, published, size_bytes, level)
            if answer is None and level is Level.PUBLISHED and _is_proven(row):
                answer = proven
            return None if answer is None else Statement(answer)
        if self._vote(record, published, size_bytes) is CopyVote.SAME:
            return Statement(CopyAnswer(CopyVote.SAME, level, size_bytes=size_bytes))
        return Statement(proven) if _is_proven(row) else self._query_details(record, size_bytes)

    def is_recorded_stated(self, row: CompareRow) -> bool:
        """
        Return whether the copy still states the digest of the recorded content, asking it again.

        Raises:
            ReadInterrupted: the run was stopped.
            CopyUnreachable: the whole copy can't be reached, not only this file.
        """
        record, listed = row.record, row.listed
        if listed is None or not (listed.published or self._copy.has_details):
            return False
        if _is_proven(row):
            return True
        size = record.witness.size_bytes
        if self._copy.has_details:
            return self._query_details(record, size).answer.vote is CopyVote.SAME
        place = self._listing.place(record.path)
        found = next((one for one in self._copy.list(place) if isinstance(one, CopyEntry) and one.path == place), None)
        if found is None:
            return False
        return self._weigh(record, found.published, found.size_bytes, Level.PUBLISHED).vote is CopyVote.SAME

    def _query_details(self, record: FileRecord, listed_bytes: int | None) -> Statement:
        """Ask for all that is stated; for the size of each part only where equal ones did not make it the same."""
        answer, parts, encryption = None, None, ""
        for every_part in (False, True):
            closer = self._copy.look_closer(self._listing.find_place(record.path), every_part=every_part)
            if isinstance(closer, Trouble):
                return Statement(CopyAnswer(CopyVote.UNREADABLE, reason=closer.message))
            if listed_bytes not in (None, closer.size_bytes):
                return Statement(CopyAnswer(CopyVote.UNREADABLE, reason=messages.WRITTEN_MEANWHILE))
            published, encryption = closer.published, closer.encryption
            found = [one.list_parts(record.witness.size_bytes) for one in published if one.kind is Kind.MD5_OF_PARTS]
            if answer is not None and found == parts:
                break  # the parts are of equal size
            answer, parts = self._weigh(record, published, closer.size_bytes, Level.PUBLISHED), found
            is_settled = answer.vote not in (CopyVote.DIFFERS, CopyVote.OLDER) or pick_checksums(published)
            if is_settled or not found or closer.size_bytes != record.witness.size_bytes:
                break
        assert answer is not None
        return Statement(answer, encryption)

    def _weigh(
        self, record: FileRecord, published: Sequence[Published], size_bytes: int | None, level: Level
    ) -> CopyAnswer:
        """Decide by everything stated; read the local file if the record is not enough."""
        answer = self._derive(record, published, size_bytes, level)
        if answer is not None:
            return answer
        return self.answer_by_match(record, published, level, match_file(self._run, record, published))

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
            return None if published else cannot(messages.NOTHING_STATED, wants_read=self._copy.has_bytes)
        if vote is CopyVote.SAME:
            return CopyAnswer(vote, level, size_bytes=size_bytes)
        return self._describe_mismatch(record, published, size_bytes, level)

    def _vote(self, record: FileRecord, published: Sequence[Published], size_bytes: int | None) -> CopyVote | None:
        if size_bytes is not None and size_bytes != record.witness.size_bytes:
            return CopyVote.DIFFERS
        if not any(one.kind is Kind.MD5_OF_PARTS for one in published):
            return vote_by_digests(None, record, published)
        with self._run.catalog.read() as connection:
            return vote_by_digests(connection, record, published)

    def _describe_mismatch(
        self, record: FileRecord, published: Sequence[Published], size_bytes: int | None, level: Level
    ) -> CopyAnswer:
        """Tell an older version from content that was never recorded."""
        with self._run.catalog.read() as connection:
            former = versions.former_of(connection, self._run.root.id, record.path)
        vote = CopyVote.OLDER if is_older(former, size_bytes, published) else CopyVote.DIFFERS
        return CopyAnswer(vote, level, stated=tuple(published), size_bytes=size_bytes)

    def answer_by_match(
        self, record: FileRecord, published: Sequence[Published], level: Level, found: FileMatch | ReadError
    ) -> CopyAnswer:
        """Turn a comparison of the local file with stated digests into an answer."""
        if isinstance(found, ReadError):
            return CopyAnswer(CopyVote.NOT_COMPARABLE, reason=messages.file_not_read(str(found)), is_file_suspect=True)
        if not found.is_recorded and found.is_match:
            return CopyAnswer(CopyVote.DIFFERS, level, stated=tuple(published))
        if not found.is_recorded:
            return CopyAnswer(CopyVote.NOT_COMPARABLE, reason=messages.FILE_DIFFERS, is_file_suspect=True)
        self._verify(record, found.reading)
        if found.is_match is None:
            return cannot(_describe_uncomputable(published), wants_read=self._copy.has_bytes)
        if found.is_match:
            return CopyAnswer(CopyVote.SAME, level, is_proven=level is Level.PUBLISHED)
        return self._describe_mismatch(record, published, None, level)


def _looks_the_same(row: CompareRow) -> bool:
    """Return whether a file is listed with the recorded size and time, which proves nothing about its content."""
    listed, witness = row.listed, row.record.witness
    if listed is None or listed.mtime_ns is None or listed.size_bytes not in (None, witness.size_bytes):
        return False
    return is_same_time(listed.mtime_ns, witness.mtime_ns)


def _is_proven(row: CompareRow) -> bool:
    """Return whether the copy still states what an earlier reading of the local file proved right."""
    listed = row.listed
    if row.stated is None or listed is None or listed.size_bytes not in (None, row.record.witness.size_bytes):
        return False
    return row.stated == digest_stated(listed)


def _describe_uncomputable(published: Sequence[Published]) -> str:
    kinds = dict.fromkeys(one.kind for one in published)
    hint = f"; for crc32c {how_to_install('s3')}" if Kind.CRC32C in kinds else ""
    return f"the copy states only what can't be computed here ({', '.join(kinds)}{hint}); --read has it read"


_DIGESTS_AT_ONCE = 2000  # paths per request: starting a remote program costs as much as thousands of digests
_ABSENCES_QUERIED = 50
_HELD_AT_MOST = 1000
_PREFERRED = (Kind.XXH3_128, Kind.MD5, Kind.BLAKE3, Kind.SHA256, Kind.SHA1, Kind.XXH64, Kind.SHA512, Kind.CRC32)


class CopyEvidence:
    """
    Query a copy for one file after the other.

    Args:
        copy: entered.
        total_bytes: of all files; ``read_percent`` is a share of it.
        limit: when to stop querying.
        renamed: finds missing files under other names.
        take: receives each answer, once per file.
        verify: receives each file that was read here for an answer and is what was recorded.

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
        renamed: RenamedFiles,
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
        level = Level.CACHED if options.cached else Level.READ
        self.read_back = ReadBack(run, copy, listing, compared.copy, level=level)
        self._accusations = Accusations()
        self._held: list[tuple[CompareRow, CopyAnswer, ObjectSort]] = []
        self._compared = compared
        self._renamed = renamed
        self._requests: list[MatchRequest[StatedDigests]] = []
        self._take = take
        self._remote: dict[Kind, list[CompareRow]] = {}
        self._absences = 0

    def query_all(self, rows: Iterable[CompareRow]) -> Iterator[MatchRequest[StatedDigests]]:
        """Answer for all rows, reading the copy's bytes where needed; yield the files that must be read here."""
        for row in rows:
            if self.query(row):
                self._read(row)
            yield from self._take_requests()
        self._finish()
        yield from self._take_requests()

    def _take_requests(self) -> list[MatchRequest[StatedDigests]]:
        requests, self._requests = self._requests, []
        return requests

    def query(self, row: CompareRow) -> bool:
        """Answer for one file without its bytes if possible; return whether the copy's bytes must be read."""
        record, listed = row.record, row.listed
        if listed is None:
            self._take(row, self._check_absence(record))
        elif listed.is_contradictory:
            self._take(row, cannot(messages.LISTED_TWICE))
        elif listed.published and self._listing.was_read:
            self._query_stated(StatedDigests(row, unpack_published(listed), Level.READ), listed.size_bytes)
        elif self._listing.was_read and _looks_the_same(row):
            self._take(row, None)  # it was read by the run that this one goes on with
        elif self._is_chosen(row):
            return not self._queue_remote(row)
        elif row.was_found_bad:
            self._take(row, None)  # the share is used up, and weaker evidence can't overrule bytes
        elif listed.published:
            self._query_stated(StatedDigests(row, unpack_published(listed), Level.PUBLISHED), listed.size_bytes)
        elif self._has_share:
            self._take(row, None)
        elif self._copy.reads_all_at_once and _looks_the_same(row):
            self._compared.listed += 1
            self._take(row, None)
        elif not self._queue_remote(row):
            self._take(row, self._compare_size(row))
        return False

    def _is_chosen(self, row: CompareRow) -> bool:
        """Return whether to read the copy's bytes: of all files, of a share, after earlier damage, at another size."""
        if not (self._copy.has_bytes or self._copy.remote_kinds):
            return False
        if self._reads_all:
            return True
        size = row.record.witness.size_bytes
        if not self._has_share:
            return row.was_found_bad  # a store may state what it was given, not what it has now
        if self._to_read_bytes <= 0:
            return row.listed is not None and row.listed.size_bytes not in (None, size)
        self._to_read_bytes -= size
        return True

    def _check_absence(self, record: FileRecord) -> CopyAnswer:
        place = self._listing.place(record.path)
        trouble = self._listing.find_trouble(place)
        if trouble is not None:
            return CopyAnswer(CopyVote.UNREADABLE, reason=trouble)
        fault = self._listing.find_name_fault(place)
        if fault is not None:
            return cannot(f"its name {fault}")
        self._absences += 1
        if self._copy.has_bytes and (self._folder is not None or self._absences <= _ABSENCES_QUERIED):
            for found in self._copy.list(place):  # it may have come meanwhile, or be something that can't be looked at
                if isinstance(found, Trouble):
                    return CopyAnswer(CopyVote.UNREADABLE, reason=found.message)
                if found.path == place:
                    return CopyAnswer(CopyVote.UNREADABLE, reason=messages.CAME_MEANWHILE)
                break  # the copy has a folder of this name
        return self._renamed.find(record) or CopyAnswer(CopyVote.MISSING)

    def _compare_size(self, row: CompareRow) -> CopyAnswer:
        """Answer by size alone: different sizes prove a difference, equal ones nothing."""
        assert row.listed is not None
        size = row.listed.size_bytes
        if size is not None and size != row.record.witness.size_bytes:
            return CopyAnswer(CopyVote.DIFFERS, Level.PUBLISHED, size_bytes=size)
        if self._copy.has_bytes:
            return cannot(messages.NOTHING_STATED, wants_read=True)
        return cannot(self._copy.nothing_stated)

    def _read(self, row: CompareRow) -> None:
        """Read a file of the copy; where its bytes are not the recorded ones, ask whether its checksum is."""
        answer = self.read_back.read(row)
        if answer is None:
            return
        if answer.vote in (CopyVote.DIFFERS, CopyVote.OLDER):
            try:
                answer = answer._replace(is_store_contradicted=self._statements.is_recorded_stated(row))
            except ReadInterrupted:
                return  # counted as not due
        self._take(row, answer)

    def _query_stated(self, stated: StatedDigests, size_bytes: int | None) -> None:
        """Answer by what the copy states of a file, or queue the local file for reading."""
        try:
            found = self._statements.query(stated, size_bytes)
        except ReadInterrupted:
            return  # counted as not due
        if found is None:
            self._requests.append(MatchRequest(stated, stated.row.record, stated.published))
        else:
            self._take_statement(stated.row, found)

    def _take_statement(self, row: CompareRow, found: Statement) -> None:
        """Answer by a statement; read the copy's file first if it is accused."""
        answer, size = found.answer, row.record.witness.size_bytes
        is_confirmed = answer.level is not Level.PUBLISHED and not self._listing.was_read
        is_accused = answer.vote is CopyVote.DIFFERS and not is_confirmed
        if not is_accused or not self._copy.has_bytes or answer.size_bytes not in (None, size):
            self._take(row, answer)
            return
        if self._limit.is_set():
            return  # counted as not due
        folder = self._listing.place(row.record.path).partition(b"/")
        sort = ObjectSort(folder[0] if folder[1] else b"", found.encryption, tuple(one.kind for one in answer.stated))
        step = self._accusations.decide(sort, size)
        if step is ConfirmStep.HOLD:
            self._held.append((row, answer, sort))
            if len(self._held) == _HELD_AT_MOST:
                self._release()
        elif step is ConfirmStep.LEAVE:
            self._leave(row)
        elif (reading := self.read_back.read(row)) is not None:
            self._take(row, self._accusations.take(sort, reading))

    def _leave(self, row: CompareRow) -> None:
        """Leave a file unread whose checksum says nothing; with a share to read, it is read some other time."""
        self._take(row, None if self._has_share else cannot(messages.STRANGE_CHECKSUM, wants_read=True))

    def _release(self) -> None:
        """Answer for the files that could not be read: the store is believed, unless it accused many good files."""
        held, self._held = self._held, []
        for row, answer, sort in held:
            if self._accusations.is_strange(sort):
                self._leave(row)
            else:
                self._take(row, answer)

    def finish(self) -> None:
        """Answer for the accused files that could not be read, and report once that intact files were accused."""
        self._release()
        text = self._accusations.describe()
        if text is not None:
            self._run.note(NoteKind.WARNING, None, f"{self._copy.shown}: {text}")

    def take_match(self, stated: StatedDigests, match: FileMatch | ReadError) -> None:
        """Answer by the comparison of the local file with the copy's stated digests."""
        if not isinstance(match, ReadInterrupted):
            record = stated.row.record
            answer = self._statements.answer_by_match(record, stated.published, stated.level, match)
            self._take_statement(stated.row, Statement(answer))

    def _queue_remote(self, row: CompareRow) -> bool:
        """Queue a file for a digest computed remotely; return whether the copy can compute one."""
        kinds = self._copy.remote_kinds
        if not kinds:
            return False
        able = [kind for kind in _PREFERRED if kind in kinds]
        recorded = (kind for kind in able if whole_digest(row.record.digests, kind) is not None)
        kind = next(recorded, able[0] if able else None)
        if kind is None:
            return False
        waiting = self._remote.setdefault(kind, [])
        waiting.append(row)
        if len(waiting) >= _DIGESTS_AT_ONCE:
            self._query_remote(kind)
        return True

    def _query_remote(self, kind: Kind) -> None:
        rows = self._remote.pop(kind, [])
        places = [self._listing.find_place(row.record.path) for row in rows]
        for row, (_, answer) in zip(rows, self._copy.digest(places, kind), strict=True):
            if isinstance(answer, Trouble):
                self._take(row, CopyAnswer(CopyVote.UNREADABLE, reason=answer.message))
            else:
                size = None if row.listed is None else row.listed.size_bytes
                self._query_stated(StatedDigests(row, (Published(kind, answer),), Level.READ), size)
            if self._limit.is_set():
                return

    def _finish(self) -> None:
        """Query the remaining files, unless a limit is reached."""
        for kind in list(self._remote):
            if not self._limit.is_set():
                self._query_remote(kind)
