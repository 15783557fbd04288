"""
Many files through few threads: read each as one stable version, digest it, hand the result to one consumer.

Decides how work is spread: small files in batches, each by one thread; a large file by one reading thread with its
digests in a pool beside it, so that even a single large file keeps two cores busy. On a rotational disk only one thread
reads at a time, in the order of the tasks; hashing goes on beside it (R4), and what lies in memory is read by anybody.
Leaves to others what to read, in which order, and what the results mean; how one batch is read is in ``worker``.

I1  Every task that was taken is answered exactly once by ``Done`` or ``Failed``, unless ``run`` is closed early.
I2  At most ``_IN_FLIGHT`` batches a thread wait at any moment, so memory does not grow with the tree.
I3  ``Partial`` results of one file come in order, before its last answer.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING

from integrity.errors import DeviceStalled
from integrity.files.errorbudget import ErrorBudget
from integrity.files.read import Reader
from integrity.hashing.md5 import native_status
from integrity.hashing.tasks import Done, Failed, Partial, Result, Resume, StopSignal, Task
from integrity.hashing.turn import Turn
from integrity.hashing.worker import BUFFER_BYTES, Batch, Delivery, Shared, Worker

if TYPE_CHECKING:
    from integrity.hashing.cached import CachedFiles

__all__ = ["STALL_S", "Done", "Engine", "Failed", "Partial", "Result", "Resume", "StopSignal", "Task"]

STALL_S = 300.0

_BATCH_FILES = 64
_BATCH_BYTES = BUFFER_BYTES
"""One arena's worth, so that a batch is one call."""

_IN_FLIGHT = 4
_LOOK_INTERVAL_S = 1.0


class Engine:
    """
    Read and digest files of one root.

    Args:
        reader: of the root; decides how the disk is read and at which pace.
        jobs: threads; None for one per processor.
        is_serial: one reader at a time, in the order of the tasks: a rotational disk.
        budget: the reader's; once it is spent no more files are opened.
        stop: set by whoever wants the run to end; large files then end with a ``Partial``.
        monotonic: the clock, in seconds.
        stall_s: after so long a read that has not come back is given up, its thread abandoned.
    """

    def __init__(
        self,
        reader: Reader,
        *,
        jobs: int | None = None,
        is_serial: bool = False,
        budget: ErrorBudget | None = None,
        stop: StopSignal | None = None,
        monotonic: Callable[[], float] = time.monotonic,
        stall_s: float = STALL_S,
    ) -> None:
        self._reader = reader
        self._jobs = jobs or len(os.sched_getaffinity(0))
        self._is_serial = is_serial
        self._budget = budget or ErrorBudget()
        self._stop = stop or threading.Event()
        self._monotonic = monotonic
        self._stall_s = stall_s
        self._workers: list[Worker] = []

    @property
    def bytes_done(self) -> int:
        """Count what was read so far, holes included."""
        return sum(worker.bytes_done for worker in self._workers)

    def run(self, tasks: Iterable[Task], *, tick: Callable[[], None] = lambda: None) -> Iterator[Result]:
        """
        Read every task's file; yield the results in the caller's thread, in any order.

        Tasks are taken from the iterable as there is room for them. When ``stop`` is set no more are taken; those under
        way end soon, large ones with a ``Partial`` and an ``ReadInterrupted`` failure. Whoever does not want all
        results closes the iterator. ``tick`` is called in the caller's thread, about once a second, while nothing is
        ready: a large file takes its time.
        """
        batches = _into_batches(tasks)
        first = None if self._stop.is_set() else next(batches, None)
        if first is None:
            return  # most scans find nothing to read: no threads then, and no buffers
        crew = _Crew(
            self._reader, self._jobs, self._is_serial, self._budget, self._stop, self._monotonic, self._stall_s
        )
        self._workers.extend(crew.workers)
        try:
            crew.give(first)
            waiting = 1
            while True:
                while waiting < self._jobs * _IN_FLIGHT and not self._stop.is_set():
                    batch = next(batches, None)
                    if batch is None:
                        break
                    crew.give(batch)
                    waiting += 1
                if not waiting:
                    return
                delivery = crew.get(tick)
                waiting -= delivery.is_end
                yield from delivery.results
        finally:
            crew.end()


class _Crew:
    """The threads of one run, and the watch over them. Used by the consumer's thread."""

    def __init__(
        self,
        reader: Reader,
        jobs: int,
        is_serial: bool,
        budget: ErrorBudget,
        stop: StopSignal,
        monotonic: Callable[[], float],
        stall_s: float,
    ) -> None:
        self._monotonic = monotonic
        self._stall_s = stall_s
        self._look_at = monotonic() + _LOOK_INTERVAL_S
        self._is_over = threading.Event()
        self._todo: SimpleQueue[Batch | None] = SimpleQueue()
        self._deliveries: SimpleQueue[Delivery] = SimpleQueue()
        self._pool = ThreadPoolExecutor(jobs, thread_name_prefix="hash") if jobs > 1 else None
        shared = Shared(
            reader,
            _find_short_way(reader),
            budget,
            _Either(stop, self._is_over),
            monotonic,
            Turn() if is_serial else None,
            self._pool,
            self._deliveries,
        )
        self.workers = [Worker(shared) for _ in range(jobs)]
        self._threads = {
            worker: threading.Thread(target=worker.work, args=(self._todo,), name=f"read-{number}", daemon=True)
            for number, worker in enumerate(self.workers)
        }
        for thread in self._threads.values():
            thread.start()

    def give(self, batch: Batch) -> None:
        """Have a batch answered."""
        if self._threads:
            self._todo.put(batch)
        else:
            self._refuse(batch)

    def get(self, tick: Callable[[], None]) -> Delivery:
        """
        Wait for results; on the way, find threads that hang in the kernel, and call ``tick``.

        Raises:
            BaseException: whatever a thread died of.
        """
        while True:
            if self._monotonic() >= self._look_at:
                self._look_at = self._monotonic() + _LOOK_INTERVAL_S
                self._look_for_stalled()
            try:
                delivery = self._deliveries.get(timeout=min(_LOOK_INTERVAL_S, self._stall_s))
            except Empty:
                self._look_for_stalled()
                tick()
                continue
            if delivery.error is not None:
                raise delivery.error
            return delivery

    def end(self) -> None:
        """Let the threads end, after the batches that they have begun, and wait for those that do not hang."""
        self._is_over.set()
        self._take_back()
        for _ in self._threads:
            self._todo.put(None)
        for thread in list(self._threads.values()):
            while thread in self._threads.values() and thread.is_alive():
                thread.join(min(_LOOK_INTERVAL_S, self._stall_s))
                self._look_for_stalled()
        if self._pool is not None:
            self._pool.shutdown(wait=len(self._threads) == len(self.workers))

    def _look_for_stalled(self) -> None:
        now = self._monotonic()
        for worker in list(self._threads):
            if worker.abandon_if_stalled(now, self._stall_s):
                del self._threads[worker]
        if not self._threads:
            for batch in self._take_back():
                self._refuse(batch)

    def _take_back(self) -> list[Batch]:
        """Take back the batches that no thread has begun."""
        batches: list[Batch] = []
        while True:
            try:
                batch = self._todo.get_nowait()
            except Empty:
                return batches
            if batch is not None:
                batches.append(batch)

    def _refuse(self, batch: Batch) -> None:
        """Answer for a batch when there is no thread left."""
        error = "not read: the device hangs"
        self._deliveries.put(Delivery([Failed(task, DeviceStalled(error)) for task in batch.tasks], is_end=True))


class _Either:
    """Set when one of two is."""

    def __init__(self, one: StopSignal, other: StopSignal) -> None:
        self._one, self._other = one, other

    def is_set(self) -> bool:
        return self._one.is_set() or self._other.is_set()


def _find_short_way(reader: Reader) -> CachedFiles | None:
    """Find the short way for small files in memory: in the C core, and only for a reader that may use the cache."""
    if not native_status().is_native:
        return None
    from integrity.hashing.cached import CachedFiles  # needs the extension

    batch_reader = reader.batch()
    return None if batch_reader is None else CachedFiles(batch_reader)


def _into_batches(tasks: Iterable[Task]) -> Iterator[Batch]:
    """Group small files; a large one stands alone. Keep the order."""
    number = 0
    batch: list[Task] = []
    size = 0
    for task in tasks:
        is_large = task.size_bytes > BUFFER_BYTES
        if batch and (is_large or len(batch) == _BATCH_FILES or size + task.size_bytes > _BATCH_BYTES):
            yield Batch(number, batch)
            number, batch, size = number + 1, [], 0
        batch.append(task)
        size += task.size_bytes
        if is_large:
            yield Batch(number, batch)
            number, batch, size = number + 1, [], 0
    if batch:
        yield Batch(number, batch)
