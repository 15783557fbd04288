"""
Requests to the engine and its answers: single files, or many small ones in columns.

They pass between threads, so they are never modified.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple, Protocol

from integrity.errors import ReadError
from integrity.hashing.digests import Want
from integrity.model import Blocks, ByteRange, Reading, Readings, Witness


class StopSignal(Protocol):
    """Tells a run to end; queried from any thread."""

    def is_set(self) -> bool:
        """Return whether no more work may be started; once True, it stays True."""


class Resume(NamedTuple):
    """Where an earlier reading of a file stopped; invalid if the witness changed (R7)."""

    offset: int
    md5_state: bytes | None
    witness: Witness


class Task(NamedTuple):
    """
    One file to read.

    Args:
        path: relative to the engine's root.
        size_bytes: as far as known; only decides how the work is distributed.
        tag: the consumer's own; returned unchanged.
        known_bad: ranges that an earlier run could not read.
        probe: a range to digest with XXH3-128 as well, to check whether a file still begins with its old content.
    """

    path: bytes
    size_bytes: int
    want: Want
    block_size_bytes: int
    tag: object = None
    resume: Resume | None = None
    probe: ByteRange | None = None
    known_bad: tuple[ByteRange, ...] = ()

    def as_batch(self) -> TaskBatch:
        """Return a batch of this task alone."""
        columns = (self.path,), (self.size_bytes,), (self.want,), (self.tag,), (self.probe,), (self.known_bad,)
        return TaskBatch(*columns, self.block_size_bytes, self.resume)


class TaskBatch(NamedTuple):
    """
    Files to read, as columns of equal length with the fields of ``Task``.

    Small files, each of which is read as one piece, or one other file.
    """

    paths: Sequence[bytes]
    sizes_bytes: Sequence[int]
    wants: Sequence[Want]
    tags: Sequence[object]
    probes: Sequence[ByteRange | None]
    known_bad: Sequence[tuple[ByteRange, ...]]
    block_size_bytes: int  # for all of them
    resume: Resume | None = None  # of the only one

    def __len__(self) -> int:
        return len(self.paths)

    @property
    def columns(self) -> tuple[Sequence[Any], ...]:
        """Return the columns in order."""
        return self.paths, self.sizes_bytes, self.wants, self.tags, self.probes, self.known_bad

    def task(self, index: int) -> Task:
        """Return the task of one file."""
        path, size, want, tag, probe, known_bad = (column[index] for column in self.columns)
        return Task(path, size, want, self.block_size_bytes, tag, self.resume, probe, known_bad)

    def select(self, indexes: Sequence[int]) -> TaskBatch:
        """Return a batch of some of the files, or of all."""
        if len(indexes) == len(self):
            return self
        columns = ([column[index] for index in indexes] for column in self.columns)
        paths, sizes, wants, tags, probes, known_bad = columns
        return TaskBatch(paths, sizes, wants, tags, probes, known_bad, self.block_size_bytes)


Work = Task | TaskBatch
"""One unit of work for the engine."""


class Partial(NamedTuple):
    """A large file up to ``offset``: the data of a checkpoint. ``blocks`` start with block ``first_block``."""

    task: Task
    offset: int
    first_block: int
    blocks: Blocks
    md5_state: bytes | None
    witness: Witness


class Done(NamedTuple):
    """
    A file read to its end as one stable version.

    ``reading.blocks`` start with block ``first_block``. ``probe`` is the digest of the task's probe; None also if the
    file is too short for it, or was resumed after its start.
    """

    task: Task
    reading: Reading
    first_block: int = 0
    probe: bytes | None = None


class Failed(NamedTuple):
    """A file that could not be read as one stable version."""

    task: Task
    error: ReadError
    bytes_read: int = 0


class DoneBatch(NamedTuple):
    """Files of a batch, each read to its end as one stable version, with the fields of ``Done``."""

    tasks: TaskBatch  # for these files only
    readings: Readings
    others: Sequence[tuple[bytes, ...]]
    probes: Sequence[bytes | None]

    def each(self) -> Iterator[Done]:
        """Yield the answer for each file separately."""
        answers = zip(range(len(self.tasks)), self.readings.each(), self.others, self.probes, strict=True)
        for index, reading, others, probe in answers:
            yield Done(self.tasks.task(index), reading._replace(others=others) if others else reading, 0, probe)

    def select(self, indexes: Sequence[int]) -> DoneBatch:
        """Return a batch of some of the files."""
        return DoneBatch(
            self.tasks.select(indexes),
            self.readings.select(indexes),
            [self.others[index] for index in indexes],
            [self.probes[index] for index in indexes],
        )


Result = Partial | Done | Failed
"""The answer for one file."""

Answer = Result | DoneBatch
"""One item from the engine."""


def singly(answer: Answer) -> Iterable[Result]:
    """Return the results of an answer, one per file."""
    return answer.each() if isinstance(answer, DoneBatch) else (answer,)
