"""
Large files that lie in memory, several at a time in one thread: a piece of each in turn, all their MD5s side by side.

The MD5 of one file is a chain, which no processor computes as fast as it reads memory; those of many files have nothing
to do with each other and fill the lanes. Files on a disk are not read like this: it would have to jump between them.
"""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass

from integrity.errors import ReadError
from integrity.files.buffers import Buffers
from integrity.hashing.digests import feed_side_by_side
from integrity.hashing.large import Fed, read_large
from integrity.hashing.ledger import Ledger
from integrity.hashing.shared import PIECE_BYTES, Batch, Shared
from integrity.hashing.tasks import Done, Failed, Task


@dataclass(frozen=True, slots=True, eq=False)
class _Reading:
    """A file under way, with its buffer."""

    task: Task
    buffers: Buffers
    segments: Generator[Fed, None, Done]


class SideBySide:
    """Answer large files from memory, for one thread."""

    def __init__(self, shared: Shared, ledger: Ledger, buffers: Buffers) -> None:
        self._shared = shared
        self._ledger = ledger
        self._free = buffers.cut(PIECE_BYTES)

    def answer(self, batches: list[Batch]) -> None:
        """Answer batches of one file each, and what else can go beside them meanwhile."""
        readings: list[_Reading] = []
        try:
            while batches or readings:
                readings += [self._begin(batch) for batch in batches]
                self._go_on(readings)
                batches = self._shared.todo.take_more(len(self._free))
        finally:
            for reading in readings:
                reading.segments.close()

    def _begin(self, batch: Batch) -> _Reading:
        (task,) = batch.tasks
        self._ledger.begin(batch.tasks, is_large=True)
        buffers = self._free.pop()
        return _Reading(task, buffers, self._read(task, buffers))

    def _read(self, task: Task, buffers: Buffers) -> Generator[Fed, None, Done]:
        obstacle = self._shared.find_obstacle(task)
        if obstacle is not None:
            raise obstacle.error
        with self._ledger.busy():
            opened = self._shared.reader.open(task.path, task.known_bad)
        with opened as file:
            return (yield from read_large(self._shared, self._ledger, task, file, buffers, _is_fed))

    def _go_on(self, readings: list[_Reading]) -> None:
        """Read a piece of each file and digest them all; answer for those that are over."""
        fed: list[Fed] = []
        for reading in list(readings):
            step = _step(reading)
            if isinstance(step, Fed):
                fed.append(step)
            else:
                readings.remove(reading)
                self._free.append(reading.buffers)
                self._ledger.add(step)
                self._ledger.send()
        feed_side_by_side(fed)


def _step(reading: _Reading) -> Fed | Done | Failed:
    try:
        return next(reading.segments)
    except StopIteration as end:
        done: Done = end.value
        return done
    except ReadError as error:
        return Failed(reading.task, error)


def _is_fed() -> None:
    """Wait for nothing: all that was read has been fed before the next piece is."""
