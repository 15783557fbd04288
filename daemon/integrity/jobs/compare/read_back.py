"""
Read a copy's files back, one after the other, from wherever they are, and digest them as a scrub would.

A mismatch is read a second time before it is reported: memory, cable or line may have returned wrong bytes once (R3). A
mismatch in a file whose size changed since the listing is not reported as damage: something is writing it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from integrity.arbitration import CopyVote, Level
from integrity.catalog import versions
from integrity.catalog.copy_listing import CompareRow
from integrity.catalog.rows import FileRecord, is_current
from integrity.copies.protocol import Copy
from integrity.errors import ReadError, ReadInterrupted, Unstable, show_path
from integrity.files.read import Segment
from integrity.files.span import UNLIMITED, Pace
from integrity.files.stamps import witness_of
from integrity.hashing.digests import FileHasher, Want
from integrity.hashing.tasks import StopSignal
from integrity.jobs import messages
from integrity.jobs.compare.copy_answer import CopyAnswer, answer_by_reading
from integrity.jobs.compare.listing import CopyListing
from integrity.jobs.judge.content_diff import Difference, compare_content
from integrity.model import FindingKind, ReadHow, Reading, Witness

if TYPE_CHECKING:
    from integrity.catalog.copies import FolderRead
    from integrity.jobs.context import RootRun

READING = Want(xxh3_128=True, block_xxh3_128=True)
"""Digests of the whole file, to compare with former versions, and of its blocks, to locate differences."""

_PIECE_BYTES = 8 << 20


def read_from_copy(
    copy: Copy, path: bytes, block_size_bytes: int, *, pace: Pace, stop: StopSignal, want: Want = READING
) -> Reading:
    """
    Read one file of an entered copy, throttled by ``pace``; ``path`` is relative to the copy.

    Returns:
        A reading whose witness contains only the size, unless the copy is mounted on this machine.

    Raises:
        ReadError: the file can't be read; ReadInterrupted if ``stop`` is set.
        CopyUnreachable: the whole copy can't be reached, not only this file.
    """
    file = copy.open(path)
    try:
        size = file.size_bytes
        witness = Witness(size, 0, 0, 0) if file.stat is None else witness_of(file.stat)
        hasher = FileHasher(want, size, block_size_bytes)
        for offset in range(0, size, _PIECE_BYTES):
            if stop.is_set():
                raise ReadInterrupted(f"reading {show_path(path)} was interrupted")
            length = min(_PIECE_BYTES, size - offset)
            pace.take(length)
            data = file.read(offset, length)
            pace.took(len(data), 0.0)
            if len(data) != length:
                raise Unstable(f"{show_path(path)} ended before its size; compare again when nobody writes to the copy")
            hasher.feed(Segment(offset, length, memoryview(data)))
        digests = hasher.digests()
        blocks = hasher.take_blocks()[1]
    finally:
        file.close()
    return Reading(witness, digests, blocks, ReadHow.CACHE_POSSIBLE, size)


def digest_in_copy(copy: Copy, path: bytes, stop: StopSignal) -> bytes:
    """Read one file of an entered copy, unthrottled, and return its XXH3 digest; see ``read_from_copy``."""
    want = Want(xxh3_128=True)
    found = read_from_copy(copy, path, _PIECE_BYTES, pace=UNLIMITED, stop=stop, want=want).digests.xxh3_128
    assert found is not None
    return found


_SECOND_READINGS = 500


class ReadBack:
    """
    Read a copy's files.

    Args:
        copy: entered.
        level: of a first reading; a second one is always from the disk.
    """

    def __init__(self, run: RootRun, copy: Copy, listing: CopyListing, name: str, *, level: Level = Level.READ) -> None:
        self._run = run
        self._copy = copy
        self._listing = listing
        self._name = name
        self.level = level
        self._second_readings = 0

    def read(self, row: CompareRow) -> CopyAnswer | None:
        """Read a file of the copy; None if it was interrupted: the file is counted as not due, and comes first next."""
        try:
            reading = self._read(row.record)
        except ReadInterrupted:
            return None
        except ReadError as error:
            return CopyAnswer(CopyVote.UNREADABLE, Level.READ, str(error))
        with self._run.catalog.read() as connection:
            difference = compare_content(connection, row.record, reading)
        return self.judge(row, reading, difference)

    def judge(self, row: CompareRow, reading: Reading, difference: Difference) -> CopyAnswer:
        """Turn a reading into an answer; read a mismatch a second time first."""
        run, record, level = self._run, row.record, self.level
        self._run.counts.bytes_read += reading.bytes_read
        if not difference.is_same and not difference.is_catalog_damaged and self._second_readings < _SECOND_READINGS:
            self._second_readings += 1
            again = self._read_again(record)
            if again is not None and again[1].is_same:
                with run.writing() as connection:
                    if is_current(connection, record):
                        text = messages.copy_transient(self._name)
                        run.open_finding(connection, FindingKind.TRANSIENT, text, record=record, copy=self._name)
            if again is not None:
                reading, difference, level = *again, Level.READ
        if not difference.is_same and _has_moved(row, reading):
            return CopyAnswer(CopyVote.UNREADABLE, Level.READ, messages.WRITTEN_MEANWHILE)
        with run.catalog.read() as connection:
            former = versions.former_of(connection, run.root.id, record.path) if not difference.is_same else []
        return answer_by_reading(difference, reading, former, level)

    def _read_again(self, record: FileRecord) -> tuple[Reading, Difference] | None:
        try:
            reading = self._read(record)
        except ReadError:
            return None  # the first reading stands
        self._run.counts.bytes_read += reading.bytes_read
        with self._run.catalog.read() as connection:
            return reading, compare_content(connection, record, reading)

    def _read(self, record: FileRecord) -> Reading:
        block_bytes = record.block_size_bytes or self._run.settings.block_size_bytes
        place, stop = self._listing.find_place(record.path), self._run.context.stop
        return read_from_copy(self._copy, place, block_bytes, pace=self._run.pace, stop=stop)


def _has_moved(row: CompareRow, reading: Reading) -> bool:
    """Return whether a file of the copy was written since it was listed, judging by its size."""
    listed_bytes = None if row.listed is None else row.listed.size_bytes
    return listed_bytes is not None and listed_bytes != reading.witness.size_bytes


_START_BYTES = 100 << 20
"""What restic and borg read in the time that they take to open a repository."""


@dataclass(slots=True)
class _Subtree:
    """A folder with all that is in it; ``cost_bytes``: of reading what was not read; ``read``: folders to leave out."""

    size_bytes: int = 0
    cost_bytes: int = 0
    read: list[bytes] = field(default_factory=list)


def choose_left_out(folders: Iterable[FolderRead]) -> frozenset[bytes]:
    """
    Return the folders of a repository whose files are not to be read again after a run that was cut short.

    What is read is read in streams, each of a folder with all that is in it. To start one takes as long as reading some
    data does, so a folder that was read is left out only where that saves more than the additional streams cost.
    """
    subtrees = {b"": _Subtree()}
    own = {one.path: one for one in folders}
    for path in own:
        while path not in subtrees:
            subtrees[path] = _Subtree()
            path = path.rpartition(b"/")[0]
    for path in sorted(subtrees, key=lambda path: (path != b"", path.count(b"/")), reverse=True):
        subtree, folder = subtrees[path], own.get(path)
        if folder is not None:
            subtree.size_bytes += folder.size_bytes
            if folder.unread_files:
                subtree.cost_bytes += folder.unread_files * _START_BYTES  # one by one
            else:
                subtree.read.append(path)
        whole_bytes = subtree.size_bytes + _START_BYTES
        if not subtree.read or whole_bytes < subtree.cost_bytes:
            subtree.cost_bytes, subtree.read = whole_bytes, []
        if path:
            above = subtrees[path.rpartition(b"/")[0]]
            above.size_bytes += subtree.size_bytes
            above.cost_bytes += subtree.cost_bytes
            above.read += subtree.read
    return frozenset(subtrees[b""].read)
