"""
Have a copy's files read back, one after the other, and take what was read of any.

What differs is read once more before it is said: memory, cable or line may have given wrong bytes once (R3). Of what is
another size than when the copy was listed nothing is said: somebody writes it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from integrity.catalog import history
from integrity.catalog.copy_listing import CompareRow
from integrity.catalog.rows import FileRecord, is_current
from integrity.copies.protocol import Copy
from integrity.errors import ReadError, ReadInterrupted
from integrity.jobs.compare import messages
from integrity.jobs.compare.copy_answer import Level, Take, Voice, hear_reading
from integrity.jobs.compare.listing import CopyListing
from integrity.jobs.comparing.readings import read_from_copy
from integrity.jobs.judge.content_diff import Difference, compare_content
from integrity.model import FindingKind, Reading
from integrity.verdict import CopyVote

if TYPE_CHECKING:
    from integrity.jobs.context import RootRun

_SECOND_READINGS = 500


class ReadBack:
    """
    Read a copy's files.

    Args:
        run: the run.
        copy: entered.
        listing: what the copy has.
        name: of the copy.
        take: takes each answer.
    """

    def __init__(self, run: RootRun, copy: Copy, listing: CopyListing, name: str, *, take: Take) -> None:
        self._run = run
        self._copy = copy
        self._listing = listing
        self._name = name
        self._take = take
        self._second_readings = 0

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
                    if is_current(connection, record):
                        text = messages.transient(self._name)
                        run.open_finding(connection, FindingKind.TRANSIENT, text, record=record, copy=self._name)
            reading, difference = again or (reading, difference)
        if not difference.is_same and _has_moved(row, reading):
            self._take(row, Voice(CopyVote.UNREADABLE, Level.READ, messages.written_meanwhile()))
            return
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


def _has_moved(row: CompareRow, reading: Reading) -> bool:
    """Say whether a file of the copy was written since it was listed, as far as its size tells."""
    listed_bytes = None if row.listed is None else row.listed.size_bytes
    return listed_bytes is not None and listed_bytes != reading.witness.size_bytes
