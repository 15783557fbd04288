"""Read the files of a mounted copy past the page cache, many at a time, as a scrub reads the root."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING

from integrity.catalog.copylist import CompareRow
from integrity.copies.tree import TreeCopy
from integrity.errors import ReadError, ReadInterrupted
from integrity.files.devices import find_device
from integrity.files.errorbudget import ErrorBudget
from integrity.files.read import Reader, ReadMode
from integrity.hashing.engine import Done, Engine, Partial, Result, Task
from integrity.jobs.commits import Commits
from integrity.jobs.comparing.hearing import Hearing, Take
from integrity.jobs.comparing.listing import CopyListing
from integrity.jobs.comparing.readings import READING
from integrity.jobs.comparing.voices import Level, Voice
from integrity.jobs.contents import Difference, compare_blocks, compare_content
from integrity.jobs.limit import Limit
from integrity.verdict import CopyVote

if TYPE_CHECKING:
    from integrity.jobs.context import RootRun


class TreeReading:
    """
    Have the files of a mounted copy read.

    Args:
        run: the run.
        copy: entered.
        listing: what it has.
        hearing: hears what needs no reading, and takes what was read.
        limit: when to stop.
        take: takes what could not be read.
    """

    def __init__(
        self, run: RootRun, copy: TreeCopy, listing: CopyListing, hearing: Hearing, limit: Limit, *, take: Take
    ) -> None:
        self._run = run
        self._listing = listing
        self._hearing = hearing
        self._take = take
        self._bad: dict[bytes, list[int]] = {}  # of large files under way
        budget = ErrorBudget()
        self._engine = Engine(
            Reader(copy.root_fd, copy.capability, mode=ReadMode.DISK, pace=run.pace, budget=budget),
            jobs=run.context.jobs,
            is_serial=find_device(copy.root_fd).is_rotational and run.context.jobs is None,
            budget=budget,
            stop=limit,
            monotonic=run.context.monotonic,
        )

    def read(self, rows: Iterable[CompareRow], commits: Commits, *, tell: Callable[[int], None]) -> None:
        """Read what has to be read of these files."""
        commits.read(
            self._engine, self._tasks(rows), take=self._take_result, tell=lambda: tell(self._engine.bytes_done)
        )

    def _tasks(self, rows: Iterable[CompareRow]) -> Iterator[Task]:
        default = self._run.settings.block_size_bytes
        for row in rows:
            if self._hearing.hear(row):
                record = row.record
                size = record.witness.size_bytes
                place = self._listing.place(record.path)
                yield Task(place, size, READING, record.block_size_bytes or default, row)

    def _take_result(self, result: Result) -> None:
        row = result.task.tag
        assert isinstance(row, CompareRow)
        if isinstance(result, Partial):
            self._take_part(row, result)
        elif isinstance(result, Done):
            self._take_whole(row, result)
        elif not isinstance(result.error, ReadInterrupted):
            self._failed(row, result.error)

    def _take_part(self, row: CompareRow, part: Partial) -> None:
        with self._run.catalog.read() as connection:
            bad = compare_blocks(connection, self._run.catalog.sealer, row.record, part.blocks, part.first_block)
        self._bad.setdefault(part.task.path, []).extend(bad or ())

    def _take_whole(self, row: CompareRow, done: Done) -> None:
        bad_before = tuple(self._bad.pop(done.task.path, ()))
        with self._run.catalog.read() as connection:
            found = compare_content(connection, self._run.catalog.sealer, row.record, done.reading, done.first_block)
        if bad_before:
            found = Difference(is_same=False, bad_blocks=bad_before + found.bad_blocks)
        self._hearing.take_reading(row, done.reading, found)

    def _failed(self, row: CompareRow, error: ReadError) -> None:
        self._bad.pop(self._listing.place(row.record.path), None)
        self._take(row, Voice(CopyVote.UNREADABLE, Level.READ, str(error)))
