"""Read the files of a mounted copy past the page cache, many at a time, as a scrub reads the root."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import compress
from typing import TYPE_CHECKING, cast

from integrity.arbitration import CopyVote, Level
from integrity.catalog import blocks
from integrity.catalog.blocks import CopyReading
from integrity.catalog.copies import CopyRecord
from integrity.catalog.copy_listing import CompareRow
from integrity.catalog.rows import FileRecord
from integrity.copies.protocol import LocalFolder
from integrity.errors import CopyUnreachable, DeviceFailing, DeviceStalled, ReadError, ReadInterrupted, Unreadable
from integrity.files.block_devices import find_device
from integrity.files.open_beneath import stat_beneath
from integrity.files.span import ReadMode
from integrity.hashing.tasks import Done, DoneBatch, Partial, Result, Resume, Task, TaskBatch, Work
from integrity.hashing.work_queue import small_bytes
from integrity.jobs import messages
from integrity.jobs.batching import Commits, IdSet
from integrity.jobs.checkpoints import LARGE_BYTES
from integrity.jobs.compare.copy_answer import CopyAnswer, Take
from integrity.jobs.compare.evidence import CopyEvidence
from integrity.jobs.compare.listing import CopyListing
from integrity.jobs.compare.read_back import READING
from integrity.jobs.compare.shared_extents import SharedExtents
from integrity.jobs.context import RunLimit
from integrity.jobs.judge.content_diff import Difference, compare_blocks, compare_content
from integrity.model import ByteRange, FileId, Reading

if TYPE_CHECKING:
    from integrity.jobs.context import RootRun


_FILES_AT_ONCE = 64


class TreeReading:
    """
    Read the files of a mounted copy.

    Args:
        shown: the copy's URL, for people.
        evidence: answers what needs no reading, and receives what was read.
        take: receives the answer for files that could not be read.
        take_same: receives small files whose copies are as recorded, and the stamps of these, many at a time.
        mode: of the readings.
        shared: counts the files that share data with their copies, if they can.
    """

    def __init__(
        self,
        run: RootRun,
        known: CopyRecord,
        folder: LocalFolder,
        shown: str,
        listing: CopyListing,
        evidence: CopyEvidence,
        limit: RunLimit,
        *,
        take: Take,
        take_same: Callable[[Sequence[CompareRow], Iterable[tuple[int, ...]]], None],
        mode: ReadMode,
        shared: SharedExtents | None,
    ) -> None:
        self._run = run
        self._copy_id = known.id
        self._root_fd = folder.root_fd
        self._shown = shown
        self._listing = listing
        self._evidence = evidence
        self._take = take
        self._take_same = take_same
        self._shared = shared
        self._bad: dict[bytes, list[int]] = {}  # of large files under way
        self._parts_read: dict[FileId, int] = {}  # bytes of large files under way, counted already
        self._unsound = IdSet()  # files of which what is recorded of a part is damaged
        device = find_device(folder.root_fd)
        self._engine = run.engine_of(folder.reader(run.pace, mode), device, folder.budget, stop=limit)

    def read(self, rows: Iterable[CompareRow], commits: Commits, *, tell: Callable[[int], None]) -> None:
        """Answer for all rows, reading the files that need it."""
        commits.read(
            self._engine,
            self._tasks(rows),
            handle=self._take_result,
            handle_batch=self._take_batch,
            report_progress=lambda: tell(self._engine.bytes_done),
        )

    def _tasks(self, rows: Iterable[CompareRow]) -> Iterator[Work]:
        block_bytes = self._run.settings.block_size_bytes
        most_bytes = small_bytes(block_bytes)
        small: list[CompareRow] = []
        for row in rows:
            if not self._evidence.query(row):
                continue
            record = row.record
            size = record.witness.size_bytes
            if record.block_size_bytes is None and size <= most_bytes:
                small.append(row)
                if len(small) == _FILES_AT_ONCE:
                    yield self._batch(small, block_bytes)
                    small = []
                continue
            if small:
                yield self._batch(small, block_bytes)
                small = []
            if self._shared is not None:
                self._shared.look_at([record])
            task = Task(
                self._listing.find_place(record.path), size, READING, record.block_size_bytes or block_bytes, row
            )
            yield task if size < LARGE_BYTES else self._resume(task, record)
        if small:
            yield self._batch(small, block_bytes)

    def _batch(self, rows: Sequence[CompareRow], block_bytes: int) -> TaskBatch:
        if self._shared is not None:
            self._shared.look_at([row.record for row in rows])
        places = [self._listing.find_place(row.record.path) for row in rows]
        sizes = [row.record.witness.size_bytes for row in rows]
        nothing: list[tuple[ByteRange, ...]] = [()] * len(rows)
        return TaskBatch(places, sizes, [READING] * len(rows), rows, [None] * len(rows), nothing, block_bytes)

    def _take_batch(self, done: DoneBatch) -> None:
        """Take small files: those that are as recorded together, the others one by one."""
        rows, readings = cast("Sequence[CompareRow]", done.tasks.tags), done.readings
        found = zip(rows, readings.sizes_bytes, readings.witnesses[3], readings.digests[1], strict=True)
        is_same = [
            digest is not None
            and (size, digest) == (row.record.witness.size_bytes, row.record.digests.xxh3_128)
            and inode != row.record.witness.inode  # else it may be the file itself
            for row, size, inode, digest in found
        ]
        same = list(compress(rows, is_same))
        stamps = compress(zip(*readings.witnesses[:4], strict=True), is_same)
        self._run.counts.bytes_read += sum(compress(readings.sizes_bytes, is_same))
        self._take_same(same, stamps)
        if len(same) < len(rows):
            for one in done.select([index for index, known in enumerate(is_same) if not known]).each():
                self._take_result(one)

    def _resume(self, task: Task, record: FileRecord) -> Task:
        """Resume a large file at the block where the last comparison stopped."""
        with self._run.catalog.read() as connection:
            found = blocks.load_reading(connection, self._copy_id, record.id, record.version)
        if found is None:
            return task
        self._bad[task.path] = list(found.bad_blocks)
        return task._replace(resume=Resume(found.offset_bytes, None, found.witness))

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
        """Compare the next part of a large file, and save at once how far it was read."""
        run, record, path = self._run, row.record, part.task.path
        size = part.offset - part.first_block * part.task.block_size_bytes
        run.counts.bytes_read += size
        self._parts_read[record.id] = self._parts_read.get(record.id, 0) + size
        if part.first_block == 0:  # a fresh start: discard the saved progress
            self._bad[path] = []
        with run.catalog.read() as connection:
            bad = compare_blocks(connection, record, part.blocks, part.first_block)
        if bad is None or record.id in self._unsound:  # save no progress: a later comparison must not skip this part
            self._unsound.add(record.id)
            return
        known = self._bad.setdefault(path, [])
        known += bad
        with run.writing() as connection:
            reading = CopyReading(record.id, record.version, part.witness, part.offset, tuple(known))
            blocks.save_reading(connection, self._copy_id, reading)

    def _take_whole(self, row: CompareRow, done: Done) -> None:
        record = row.record
        counted_bytes = self._parts_read.pop(record.id, 0)
        self._run.counts.bytes_read -= counted_bytes  # the whole file is counted below
        bad_before = tuple(self._bad.pop(done.task.path, ())) if done.first_block else ()
        with self._run.catalog.read() as connection:
            found = compare_content(connection, record, done.reading, done.first_block)
        if record.id in self._unsound:
            found = Difference(is_same=False, is_catalog_damaged=True)
        elif bad_before:
            found = Difference(is_same=False, bad_blocks=bad_before + found.bad_blocks)
        if self._is_itself(row, done.reading):
            self._run.counts.bytes_read += done.reading.bytes_read
            self._take(row, CopyAnswer(CopyVote.NOT_COMPARABLE, reason=messages.IS_ITSELF))
            return
        if done.task.resume is not None or counted_bytes:
            with self._run.writing() as connection:
                blocks.drop_reading(connection, self._copy_id, record.id)
        self._take(row, self._evidence.read_back.judge(row, done.reading, found))

    def _is_itself(self, row: CompareRow, reading: Reading) -> bool:
        """Return whether the file that was read is the recorded file itself, not a copy."""
        if reading.witness.inode != row.record.witness.inode:
            return False
        try:
            there = stat_beneath(self._root_fd, self._listing.find_place(row.record.path))
            return os.path.samestat(there, stat_beneath(self._run.root_fd, row.record.path))
        except OSError:
            return False  # one of them is gone

    def _refuse_silent(self, error: ReadError) -> None:
        """
        Raise if a read error concerns the whole copy and not only one file.

        Raises:
            CopyUnreachable: the copy's device or folder is gone.
        """
        reason = ""
        if isinstance(error, DeviceFailing | DeviceStalled):
            reason = str(error)
        elif isinstance(error, Unreadable):
            try:
                with os.scandir(self._root_fd) as names:
                    next(names, None)
            except OSError as failure:
                reason = os.strerror(failure.errno or 0)
        if reason:
            raise CopyUnreachable(f"{self._shown}: {messages.gone_silent(reason)}") from error

    def _failed(self, row: CompareRow, error: ReadError) -> None:
        self._refuse_silent(error)
        self._bad.pop(self._listing.find_place(row.record.path), None)
        self._take(row, CopyAnswer(CopyVote.UNREADABLE, Level.READ, str(error)))
