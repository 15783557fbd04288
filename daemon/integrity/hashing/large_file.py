"""
One large file on its way: read segment by segment, and kept at a block's border when it is time or the run ends.

Decides where a reading begins, when its state is worth to be kept, and what the digests of a whole file are. Which
thread feeds them is the caller's.
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
from integrity.hashing.work_queue import OpenedFile, Shared, TaskLedger
from integrity.model import Reading, Witness

PARTIAL_BLOCKS = 1024
PARTIAL_INTERVAL_S = 5.0
"""So much reading a kill may cost; a commit more often would be felt by a disk that the catalog shares."""


class Fed(NamedTuple):
    """A segment, and the digests that it is to be fed to."""

    hasher: FileHasher
    segment: Segment


def read_large(
    shared: Shared, ledger: TaskLedger, task: Task, file: OpenedFile, buffers: Buffers, settle: Callable[[], None]
) -> Generator[Fed, None, Done]:
    """
    Read an open file to its end; give each segment to be fed, and return the answer when all has been.

    Args:
        shared: of the run.
        ledger: of the thread; partial answers are added to it.
        task: what is wanted of the file.
        file: stays the caller's to close.
        buffers: to read into. What was given may be fed while the next segment is read if there are two.
        settle: waits until all that was given has been fed.

    Raises:
        ReadError: as ``OpenedFile`` does.
        ReadInterrupted: the run ends; what was read so far was added to the ledger if it can be kept.
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
            ledger.add(_make_partial(task, or_racy(file.witness, was_racy), hasher, segment.offset))
        if is_over:
            raise ReadInterrupted("interrupted; what was read is kept")
        ledger.bytes_done += segment.length
        if not file.bad_ranges:  # digests of a file with holes torn into it mean nothing: read on only to map them
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
    """Carry over that a part was read with a racy witness: it may have been written to since, without a stamp."""
    return witness._replace(is_racy=True) if was_racy else witness


def find_start(task: Task, file: OpenedFile) -> tuple[int, bytes | None]:
    """Find where to start, with the MD5 up to there: at the resume point if the file is still what was read then."""
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
