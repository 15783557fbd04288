"""
What the engine is asked and what it answers: one file at a time, or many small ones in columns.

Handed from one thread to another, so nothing in them is ever changed.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

from integrity.errors import ReadError
from integrity.hashing.digests import Want
from integrity.model import Blocks, ByteRange, Reading, Readings, Witness


class StopSignal(Protocol):
    """What says that a run is to end; Asked from any thread."""

    def is_set(self) -> bool:
        """Say whether no more is to be begun; once it is, it stays so."""


@dataclass(frozen=True, slots=True)
class Resume:
    """Where an earlier reading of a file stopped; void if the witness moved (R7)."""

    offset: int
    md5_state: bytes | None
    witness: Witness


class Task(NamedTuple):
    """
    One file to read.

    Args:
        path: relative to the engine's root.
        size_bytes: as far as known; only decides how the work is spread.
        want: which digests.
        block_size_bytes: of its blocks.
        tag: the consumer's own; handed back untouched.
        resume: where to go on.
        known_bad: ranges that an earlier run could not read.
        probe: a range whose XXH3-128 is wanted besides, to see whether a file still begins with its old content.
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
        """Make a batch of this one; of a file with ``resume`` there is none."""
        columns = (self.path,), (self.size_bytes,), (self.want,), (self.tag,), (self.probe,), (self.known_bad,)
        return TaskBatch(*columns, self.block_size_bytes)


@dataclass(frozen=True, slots=True)
class TaskBatch:
    """
    Many files to read, in columns of one length; as much of each as of a ``Task``.

    Only small files are read from a batch, each as one piece; the engine takes all others out.
    """

    paths: Sequence[bytes]
    sizes_bytes: Sequence[int]
    wants: Sequence[Want]
    tags: Sequence[object]
    probes: Sequence[ByteRange | None]
    known_bad: Sequence[tuple[ByteRange, ...]]
    block_size_bytes: int  # of all of them

    def __len__(self) -> int:
        return len(self.paths)

    @property
    def columns(self) -> tuple[Sequence[Any], ...]:
        """Give the columns in their order."""
        return self.paths, self.sizes_bytes, self.wants, self.tags, self.probes, self.known_bad

    def task(self, index: int) -> Task:
        """Make the task of one file."""
        path, size, want, tag, probe, known_bad = (column[index] for column in self.columns)
        return Task(path, size, want, self.block_size_bytes, tag, probe=probe, known_bad=known_bad)

    def select(self, indexes: Sequence[int]) -> TaskBatch:
        """Make a batch of some of the files."""
        return self._with([column[index] for index in indexes] for column in self.columns)

    def part(self, start: int, stop: int) -> TaskBatch:
        """Make a batch of the files from ``start`` to before ``stop``."""
        if stop - start == len(self):
            return self
        return self._with(column[start:stop] for column in self.columns)

    def _with(self, columns: Iterable[Sequence[Any]]) -> TaskBatch:
        paths, sizes, wants, tags, probes, known_bad = columns
        return TaskBatch(paths, sizes, wants, tags, probes, known_bad, self.block_size_bytes)


Work = Task | TaskBatch
"""What is given to the engine at a time."""


@dataclass(frozen=True, slots=True)
class Partial:
    """A large file up to ``offset``: what a checkpoint needs. ``blocks`` begin with block ``first_block``."""

    task: Task
    offset: int
    first_block: int
    blocks: Blocks
    md5_state: bytes | None
    witness: Witness


class Done(NamedTuple):
    """
    A file read to its end as one stable version.

    ``reading.blocks`` begin with block ``first_block``. ``probe`` is the digest that the task asked for; None as well
    when the file is too short for it, or was resumed behind it.
    """

    task: Task
    reading: Reading
    first_block: int = 0
    probe: bytes | None = None


@dataclass(frozen=True, slots=True)
class Failed:
    """A file that could not be read as one stable version."""

    task: Task
    error: ReadError
    bytes_read: int = 0


class DoneBatch(NamedTuple):
    """Files of a batch that were read to their ends, each as one stable version; as much of each as of a ``Done``."""

    tasks: TaskBatch  # of these files alone
    readings: Readings
    others: Sequence[tuple[bytes, ...]]
    probes: Sequence[bytes | None]

    def each(self) -> Iterator[Done]:
        """Give the answer for each file by itself."""
        answers = zip(range(len(self.tasks)), self.readings.each(), self.others, self.probes, strict=True)
        for index, reading, others, probe in answers:
            yield Done(self.tasks.task(index), reading._replace(others=others) if others else reading, 0, probe)

    def select(self, indexes: Sequence[int]) -> DoneBatch:
        """Make a batch of some of the files."""
        return DoneBatch(
            self.tasks.select(indexes),
            self.readings.select(indexes),
            [self.others[index] for index in indexes],
            [self.probes[index] for index in indexes],
        )


Result = Partial | Done | Failed
"""What is said of one file."""

Answer = Result | DoneBatch
"""What the engine gives at a time."""


def singly(answer: Answer) -> Iterable[Result]:
    """Give what an answer says of each file by itself."""
    return answer.each() if isinstance(answer, DoneBatch) else (answer,)
