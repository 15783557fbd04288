"""
The threads that digest files for ``sum``: who reads which file how.

Small files are loaded and digested a batch at a time by the C core, and large ones side by side, if it computes what is
wanted of them and no disk has to jump between them; anything else is read one by one. What may take long (a large
file, a FIFO, standard input) is put off: it becomes a batch of its own, so that threads share out large files and no
result waits for the file behind it.
"""

from __future__ import annotations

import os
import stat
import threading
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from integrity.files.buffers import Buffers
from integrity.hashing.algorithms import MD5, Algorithm
from integrity.hashing.md5 import native_status
from integrity.hashing.summing.batches import Batch, Kind
from integrity.hashing.summing.disks import Disks
from integrity.hashing.summing.records import FileSum
from integrity.hashing.summing.single import Summer, open_any
from integrity.hashing.todo import Todo

if TYPE_CHECKING:
    from integrity.hashing.summing.beside import SideBySide
    from integrity.hashing.summing.loading import Loader

_BUFFER_BYTES = 8 << 20
_SIDE_BY_SIDE = 60
"""Large files for one thread at a time: what the widest lanes hold."""

LARGE_BYTES = 1 << 20
"""From here on a file costs a thread more than a whole batch of small ones."""


class Crew:
    """
    The threads of one call: daemons, as one that waits for a FIFO or a terminal must not keep the program alive.

    Args:
        jobs: how many at most.
        piece_bytes: size of the pieces to be digested one by one; None for whole files.
    """

    def __init__(self, jobs: int, piece_bytes: int | None) -> None:
        self.jobs = jobs
        self._piece_bytes = piece_bytes
        self._todo: Todo[Batch] = Todo(jobs, _SIDE_BY_SIDE)
        self._disks = Disks()
        self._is_over = threading.Event()
        self._threads: list[threading.Thread] = []

    def give(self, batch: Batch) -> None:
        """Have a batch answered; threads are started as they may be needed."""
        batch.is_given = True
        self._todo.press(False)
        self._todo.put(batch)
        wanted = min(self.jobs, len(self._threads) + len(batch.paths))
        while len(self._threads) < wanted:
            thread = threading.Thread(target=self._work, name=f"sum-{len(self._threads)}", daemon=True)
            self._threads.append(thread)
            thread.start()

    def press(self) -> None:
        """Say that whoever gives batches waits for one of those that were given."""
        self._todo.press(True)

    def end(self) -> None:
        """Let the threads end; one that is reading does so after its next buffer."""
        self._is_over.set()
        self._todo.take_back()
        self._todo.end()

    def _work(self) -> None:
        worker: _Worker | None = None
        while batches := self._take(worker):
            try:
                worker = worker or _Worker(self._todo, self._disks, self._piece_bytes, self._is_over)
                worker.answer(batches)
            except BaseException as failure:  # noqa: BLE001 - raised in the thread that waits for the results
                for batch in batches:
                    batch.fail(failure)
            self._todo.rest(worker.take_put_off() if worker else ())

    def _take(self, worker: _Worker | None) -> list[Batch]:
        """Wait for something to do; what the thread has begun is finished if nothing comes."""
        while True:
            batches = self._todo.take(has_unfinished=worker is not None and worker.has_unfinished)
            if worker is not None and not batches:
                worker.finish()
            if batches is not None:
                return batches


class _Core(NamedTuple):
    """What the C core does for one thread."""

    loader: Loader
    beside: SideBySide
    computes: Callable[[Sequence[Algorithm]], bool]  # of large files


class _Worker:
    """One thread with its memory."""

    def __init__(self, todo: Todo[Batch], disks: Disks, piece_bytes: int | None, is_over: threading.Event) -> None:
        self._todo = todo
        self._disks = disks
        self._buffers = Buffers(_BUFFER_BYTES, 2)
        self._summer = Summer(self._buffers.acquire()[:LARGE_BYTES], piece_bytes, disks, is_over)
        self._core = None
        if piece_bytes is None and native_status().is_native:
            self._core = _make_core(todo, self._buffers, is_over)
        self._put_off: list[tuple[Batch, int]] = []

    def take_put_off(self) -> list[tuple[Batch, int]]:
        """Hand over the large files that were met, with their sizes, to be read side by side."""
        put_off, self._put_off = self._put_off, []
        return put_off

    @property
    def has_unfinished(self) -> bool:
        """Say whether a batch that was begun has not all of its digests."""
        return self._core is not None and not self._core.loader.is_empty

    def finish(self) -> None:
        """Answer all that was begun."""
        if self._core is not None:
            self._core.loader.flush()

    def answer(self, batches: Sequence[Batch]) -> None:
        """Answer what was taken: one batch, or large files to be read side by side."""
        first = batches[0]
        if first.kind is Kind.TOGETHER and self._core is not None:
            self._core.loader.load(first, partial(self._sum, batch=first))
            return
        self.finish()  # its memory is needed
        if first.kind is Kind.BESIDE and self._core is not None:
            self._core.beside.answer(batches)
            return
        constructors = [algorithm.find_constructor() for algorithm in first.algorithms]
        if first.kind is Kind.ALONE:
            first.finish([self._summer.sum(path, constructors) for path in first.paths])
        else:
            first.finish([self._sum(path, first) for path in first.paths])

    def _sum(self, path: bytes, batch: Batch) -> FileSum | Batch:
        """Answer one file, or put it off. Before opening it: a FIFO would wait for a writer."""
        constructors = [algorithm.find_constructor() for algorithm in batch.algorithms]
        try:
            status = os.stat(path)
        except OSError:
            return self._summer.sum(path, constructors)
        is_regular = stat.S_ISREG(status.st_mode)
        if is_regular and status.st_size > LARGE_BYTES:
            kind = Kind.BESIDE if self._can_be_beside(path, batch.algorithms) else Kind.ALONE
        elif is_regular or stat.S_ISDIR(status.st_mode):
            return self._summer.sum(path, constructors)
        else:
            kind = Kind.ALONE
        later = Batch((path,), batch.algorithms, kind)
        if kind is Kind.BESIDE:
            self._put_off.append((later, status.st_size))
        else:
            self._todo.put(later)
        return later

    def _can_be_beside(self, path: bytes, algorithms: Sequence[Algorithm]) -> bool:
        if self._core is None or MD5 not in algorithms or not self._core.computes(algorithms):
            return False
        try:
            fd = open_any(path)
            try:
                return self._disks.can_jump(fd)
            finally:
                os.close(fd)
        except OSError:
            return False  # whoever reads it by itself says why


def _make_core(todo: Todo[Batch], buffers: Buffers, is_over: threading.Event) -> _Core:
    from integrity.hashing.summing.beside import COMPUTED, SideBySide  # these need the extension
    from integrity.hashing.summing.loading import Loader

    return _Core(Loader(buffers), SideBySide(todo, buffers.memory, _SIDE_BY_SIDE, is_over), COMPUTED.issuperset)
