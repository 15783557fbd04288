"""
Find out what a copy says of a file, by the cheapest evidence that covers the content.

In this order: what the copy states of it, held against what is recorded; the same held against the file, where it is a
digest that is not kept; a digest that is computed over there; the bytes, where they are asked for or nothing else is.

That the size is the same is no evidence; that it differs is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import cached_property
from typing import TYPE_CHECKING

from integrity.catalog.copy_listing import CompareRow
from integrity.catalog.rows import FileRecord
from integrity.copies.folder import TreeCopy
from integrity.copies.protocol import Copy, Kind, Published, Trouble
from integrity.copies.spelling import Spelling
from integrity.errors import ReadError, ReadInterrupted
from integrity.jobs.compare import messages
from integrity.jobs.compare.copy_answer import Level, Take, Voice, cannot, whole_digest
from integrity.jobs.compare.listing import CopyListing, unpack_published
from integrity.jobs.compare.local_digests import Asked, FileMatch
from integrity.jobs.compare.read_back import ReadBack
from integrity.jobs.compare.renamed import RenamedFiles
from integrity.jobs.comparing.statements import Stated, Statements
from integrity.jobs.limit import Limit
from integrity.jobs.options import CompareOptions
from integrity.jobs.report import Compared
from integrity.model import Reading
from integrity.verdict import CopyVote

if TYPE_CHECKING:
    from integrity.jobs.context import RootRun

_DIGESTS_AT_ONCE = 2000  # paths of one question: starting programs over there costs as much as thousands of digests
_ABSENCES_ASKED = 50
_PREFERRED = (Kind.XXH3_128, Kind.MD5, Kind.BLAKE3, Kind.SHA256, Kind.SHA1, Kind.XXH64, Kind.SHA512, Kind.CRC32)


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
        limit: Limit,
        take: Take,
        verify: Callable[[FileRecord, Reading], None],
    ) -> None:
        self._run = run
        self._copy = copy
        self._listing = listing
        self._reads_all = options.read or (isinstance(copy, TreeCopy) and options.read_percent is None)
        share = options.read_percent
        self._to_read_bytes = 0.0 if share is None else total_bytes * share / 100
        self._has_share = share is not None
        self._limit = limit
        self._spelling = Spelling(copy.root_fd) if isinstance(copy, TreeCopy) else None
        self._statements = Statements(run, copy, listing, verify=verify)
        self.read_back = ReadBack(run, copy, listing, compared.copy, take=take)
        self._renamed = RenamedFiles(run, copy, listing, reads=options.read or isinstance(copy, TreeCopy))
        self._asked: list[Asked[Stated]] = []
        self._take = take
        self._remote: dict[Kind, list[CompareRow]] = {}
        self._absences = 0

    def hear_all(self, rows: Iterable[CompareRow]) -> Iterator[Asked[Stated]]:
        """Hear and, where that takes their bytes, read all of some files; give those that are to be read here."""
        for row in rows:
            if self.hear(row):
                self.read_back.read(row)
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
            self._take_stated(Stated(row, unpack_published(listed), Level.PUBLISHED), listed.size_bytes)
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
            return self._spelling is not None and part != b"" and not self._spelling.is_exact(part)
        except OSError:
            return False  # it was listed a moment ago: reading its files tells what is the matter

    def _hear_absence(self, record: FileRecord) -> Voice:
        place = self._listing.place(record.path)
        trouble = self._listing.find_trouble(place)
        if trouble is not None:
            return Voice(CopyVote.UNREADABLE, reason=trouble)
        fault = self._listing.find_name_fault(place)
        if fault is not None:
            return cannot(f"its name {fault}")
        self._absences += 1
        if self._copy.has_bytes and (self._spelling is not None or self._absences <= _ABSENCES_ASKED):
            for found in self._copy.list(place):  # it may have come meanwhile, or be something that can't be looked at
                if isinstance(found, Trouble):
                    return Voice(CopyVote.UNREADABLE, reason=found.message)
                if found.path == place:
                    return self._hear_unlisted(place)
                break  # a folder has its name over there
        return self._renamed.find(record) or Voice(CopyVote.MISSING)

    def _hear_unlisted(self, place: bytes) -> Voice:
        """Say what is the matter with a file that is there, though the listing did not have it."""
        try:
            is_exact = self._spelling is None or self._spelling.is_exact(place)
        except OSError as error:
            return Voice(CopyVote.UNREADABLE, reason=f"its folder can't be listed: {error.strerror}")
        return Voice(CopyVote.UNREADABLE, reason=messages.came_meanwhile()) if is_exact else cannot(messages.spelling())

    def _hear_size(self, row: CompareRow) -> Voice:
        """Conclude what can be concluded of a size: that it differs."""
        assert row.listed is not None
        size = row.listed.size_bytes
        if size is not None and size != row.record.witness.size_bytes:
            return Voice(CopyVote.DIFFERS, Level.PUBLISHED, size_bytes=size)
        if self._copy.has_bytes:
            return cannot(messages.nothing_stated(), wants_read=True)
        return cannot("the copy states no digest of it")

    def _take_stated(self, stated: Stated, size_bytes: int | None) -> None:
        """Take what the copy states of a file, or put the file among those that are to be read for it."""
        try:
            voice = self._statements.hear(stated, size_bytes)
        except ReadInterrupted:
            return  # it is not due
        if voice is None:
            self._asked.append(Asked(stated, stated.row.record, stated.published))
        else:
            self._take(stated.row, voice)

    def take_match(self, stated: Stated, match: FileMatch | ReadError) -> None:
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
                self._take(row, Voice(CopyVote.UNREADABLE, reason=answer.message))
            else:
                size = None if row.listed is None else row.listed.size_bytes
                self._take_stated(Stated(row, (Published(kind, answer),), Level.READ), size)
            if self._limit.is_set():
                return

    def _finish(self) -> None:
        """Have those heard that wait, unless a limit is reached."""
        for kind in list(self._remote):
            if not self._limit.is_set():
                self._hear_remote(kind)
