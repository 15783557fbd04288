"""
Read one large file segment by segment, and checkpoint it at block boundaries: periodically, and when the run ends.

Decides where a reading starts, when its state is saved, and what a file's digests are. The caller decides which thread
computes them.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from typing import NamedTuple

from integrity.errors import ReadInterrupted
from integrity.files.buffers import Buffers
from integrity.files.read import Segment
from integrity.files.stamps import witness_of
from integrity.hashing.digests import FileHasher, is_very_sparse, without_chain
from integrity.hashing.tasks import Done, Partial, Task
from integrity.hashing.work_queue import Batch, OpenedFile, Shared, TaskLedger
from integrity.model import Reading, Witness

PARTIAL_BLOCKS = 1024
PARTIAL_INTERVAL_S = 5.0
"""A kill may cost this much reading; more frequent commits would slow a disk that the catalog shares."""


class Fed(NamedTuple):
    """A segment, and the hasher to feed it to."""

    hasher: FileHasher
    segment: Segment


def read_large(
    shared: Shared,
    task: Task,
    file: OpenedFile,
    buffers: Buffers,
    settle: Callable[[], None],
    ledger: TaskLedger,
    batch: Batch,
) -> Generator[Fed, None, Done]:
    """
    Read an open file to its end; yield each segment to be digested, and return the answer after the last.

    Args:
        task: the requested file and digests.
        file: stays the caller's to close.
        buffers: to read into; with two, a yielded segment may be digested while the next is read.
        settle: waits until all yielded segments have been digested.
        ledger: of the thread; receives partial answers.
        batch: the task's.

    Raises:
        ReadError: as ``OpenedFile`` does.
        ReadInterrupted: the run ends; what was read so far is in the ledger if it can resume.
    """
    hasher, start = _make_hasher(task, file)
    was_racy = start > 0 and task.resume is not None and task.resume.witness.is_racy
    saved_at = shared.monotonic()
    segments = file.segments(buffers, start)
    while (segment := _read(segments, ledger)) is not None:
        settle()
        is_over = ledger.is_abandoned or shared.stop.is_set()
        is_due = hasher.blocks_done >= PARTIAL_BLOCKS or shared.monotonic() - saved_at > PARTIAL_INTERVAL_S
        if (is_over or is_due) and _can_be_kept(task, file, hasher, segment.offset):
            saved_at = shared.monotonic()
            ledger.add(_make_partial(task, or_racy(file.witness, was_racy), hasher, segment.offset), batch, ())
        if is_over:
            raise ReadInterrupted("interrupted; what was read is kept")
        ledger.bytes_done += segment.length
        if not file.bad_ranges:  # with bad ranges no digest is valid: read on only to map them
            yield Fed(hasher, segment)
    settle()
    with ledger.busy():
        witness = file.finish()
    digests = hasher.digests()
    first, blocks = hasher.take_blocks()
    reading = Reading(or_racy(witness, was_racy), digests, blocks, file.how, file.bytes_read, hasher.others())
    return Done(task, reading, first, hasher.probe())


def _read(segments: Iterator[Segment], ledger: TaskLedger) -> Segment | None:
    with ledger.busy():
        return next(segments, None)


def _can_be_kept(task: Task, file: OpenedFile, hasher: FileHasher, offset: int) -> bool:
    return bool(hasher.blocks_done) and offset % task.block_size_bytes == 0 and not file.bad_ranges


def _make_partial(task: Task, witness: Witness, hasher: FileHasher, offset: int) -> Partial:
    first, blocks = hasher.take_blocks()
    assert blocks is not None
    return Partial(task, offset, first, blocks, hasher.md5_state(), witness)


def or_racy(witness: Witness, was_racy: bool) -> Witness:
    """Mark a witness racy if an earlier part was read with a racy one: later writes may have left no timestamp."""
    return witness._replace(is_racy=True) if was_racy else witness


def find_start(task: Task, file: OpenedFile) -> tuple[int, bytes | None]:
    """Return the start offset and the MD5 state there: the resume point if the file is unchanged since, else 0."""
    resume = task.resume
    if resume is not None and resume.witness.stamps == witness_of(file.stat).stamps:
        return resume.offset, resume.md5_state
    return 0, None


def _make_hasher(task: Task, file: OpenedFile) -> tuple[FileHasher, int]:
    want, (start, md5_state) = task.want, find_start(task, file)
    if is_very_sparse(file.size_bytes, file.hole_bytes):
        want = without_chain(want)
    hasher = FileHasher(
        want, file.size_bytes, task.block_size_bytes, start=start, md5_state=md5_state, probe=task.probe
    )
    return hasher, start
