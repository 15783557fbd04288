"""
Write the results of readings in batches, and iterate over recorded files in pages.

``Commits`` writes queued results together with what they cover, at most about once a second (R7, R9), in the owner's
thread. The owner, a scan or a scrub, decides what is queued and how it is written. ``IdSet`` keeps file ids as a
bitmap: a million ids in 125 KB. ``iterate_files`` reads a page at a time, so that rows can be written in between.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING

from integrity.catalog import files
from integrity.hashing.engine import Engine
from integrity.hashing.tasks import DoneBatch, Result, Work, singly
from integrity.model import FileId

if TYPE_CHECKING:
    from integrity.jobs.context import RootRun


_COMMIT_S = 1.0
_ROWS_AT_ONCE = 10_000
"""Write earlier at this many rows: they take memory, and a larger commit would be noticeable."""


class Commits:
    """
    Write queued rows from time to time.

    Args:
        monotonic: the clock, in seconds.
        waiting: returns the number of queued rows.
        write: writes all of them in one or more transactions.
    """

    def __init__(
        self, monotonic: Callable[[], float], *, waiting: Callable[[], int], write: Callable[[], None]
    ) -> None:
        self._monotonic = monotonic
        self._waiting = waiting
        self._write = write
        self._written_at = monotonic()

    def read(
        self,
        engine: Engine,
        tasks: Iterable[Work],
        *,
        handle: Callable[[Result], None],
        report_progress: Callable[[], None],
        handle_batch: Callable[[DoneBatch], None] | None = None,
    ) -> None:
        """
        Run tasks; write their results periodically and at the end.

        Args:
            engine: runs the tasks.
            tasks: what to read.
            handle: handles each result and may queue rows.
            report_progress: reports the progress; also called during the reading of a large file.
            handle_batch: handles batches of results; None: ``handle`` handles their results one by one.
        """

        def tick() -> None:
            report_progress()
            self.write_if_due()

        for answer in engine.run_batches(tasks, tick=tick):
            if isinstance(answer, DoneBatch) and handle_batch is not None:
                handle_batch(answer)
            else:
                for result in singly(answer):
                    handle(result)
        self.write()

    def write(self) -> None:
        """Write the queued rows."""
        if self._waiting():
            self._write()
        self._written_at = self._monotonic()

    def write_if_due(self) -> None:
        """Write the queued rows if it is time."""
        waiting = self._waiting()
        if waiting and (waiting >= _ROWS_AT_ONCE or self._monotonic() - self._written_at >= _COMMIT_S):
            self.write()


_MOST_BYTES = 128 << 20
"""Maximum size of the bitmap: room for a thousand million files, whose ids are consecutive."""


class IdSet:
    """A growing set of small integers. It may hold a few others, which a catalog from elsewhere can have."""

    def __init__(self) -> None:
        self._bits = bytearray()
        self._others: set[FileId] = set()
        self._count = 0

    def add(self, file_id: FileId) -> bool:
        """Add an id; return whether it was new."""
        byte, bit = file_id >> 3, 1 << (file_id & 7)
        try:
            old = self._bits[byte]
        except IndexError:
            if not self._grow(byte):
                is_new = file_id not in self._others
                self._others.add(file_id)
                return is_new
            old = 0
        if old & bit:
            return False
        self._bits[byte] = old | bit
        self._count += 1
        return True

    def update(self, file_ids: Iterable[FileId]) -> None:
        """Add many ids."""
        bits, count = self._bits, self._count
        for file_id in file_ids:
            byte, bit = file_id >> 3, 1 << (file_id & 7)
            try:
                old = bits[byte]
            except IndexError:
                if not self._grow(byte):
                    self._others.add(file_id)
                    continue
                old = 0
            if not old & bit:
                bits[byte] = old | bit
                count += 1
        self._count = count

    def discard(self, file_id: FileId) -> None:
        """Remove an id if present."""
        if file_id in self._others:
            self._others.remove(file_id)
        elif file_id in self:
            self._bits[file_id >> 3] &= ~(1 << (file_id & 7))
            self._count -= 1

    def __contains__(self, file_id: FileId) -> bool:
        byte = file_id >> 3
        if byte < len(self._bits):
            return bool(self._bits[byte] & (1 << (file_id & 7)))
        return file_id in self._others

    def __len__(self) -> int:
        return self._count + len(self._others)

    def _grow(self, byte: int) -> bool:
        """Grow the bitmap to include a byte; return False if that would be too large."""
        if not 0 <= byte < _MOST_BYTES:
            return False
        self._bits.extend(bytes(byte + 1 - len(self._bits) + 4096))
        return True


_PAGE = 2000


def iterate_files(run: RootRun) -> Iterator[tuple[FileId, bytes]]:
    """Yield id and path of each recorded file in the run's parts of the root, by id within each part."""
    for part in run.parts:
        yield from _iterate_part(run, part)


def _iterate_part(run: RootRun, part: bytes) -> Iterator[tuple[FileId, bytes]]:
    after = FileId(0)
    while True:
        with run.catalog.read() as connection:
            page = files.page_files(connection, run.root.id, prefix=part, after=after, limit=_PAGE)
        if not page:
            return
        for file_id, path, _ in page:
            yield file_id, path
        after = page[-1][0]
