"""
Read many files with few threads: each as one stable version, digested, with its result to one consumer.

Decides how work is distributed: small files in batches, one thread per batch; large files in memory several at a time
per thread; any other large file by one reading thread with a hashing pool, so that even one file keeps two cores busy.
On a rotational disk only one thread reads at a time, in task order, while others hash (R4); files in memory are read by
any thread. What to read, in which order, and what results mean is for others.

I1  Every task given to a thread is answered exactly once, by ``Done`` or ``Failed``, unless ``run`` is closed early.
I2  At most ``_IN_FLIGHT`` batches and some hundred large files per thread wait, so memory does not grow with the tree.
I3  ``Partial`` results of one file come in order, before its final answer.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import count
from math import isfinite
from queue import Empty, SimpleQueue
from typing import Any

from integrity.errors import DeviceStalled
from integrity.files.read_errors import ErrorBudget
from integrity.hashing.md5 import native_status
from integrity.hashing.tasks import Answer, Failed, Result, StopSignal, Task, TaskBatch, Work, singly
from integrity.hashing.work_queue import (
    BUFFER_BYTES,
    SIDE_BY_SIDE,
    AnswerBatch,
    Batch,
    FileReader,
    ReadTurn,
    Shared,
    SmallReader,
    WorkQueue,
    can_go_beside,
    small_bytes,
)
from integrity.hashing.worker import Worker

STALL_S = 300.0

_FILES = 64
_MOST_FILES = 256
_SMALL_BATCHES = 4
"""The first batches of files in memory are small, so that few files keep all threads busy."""

_IN_FLIGHT = 32
_END = object()


class Engine:
    """
    Read and digest files of one root.

    Args:
        reader: of the root; decides how the disk is read and at which pace.
        jobs: number of threads; None for one per processor.
        is_serial: one reader at a time, in task order: a rotational disk.
        budget: the reader's; once it is spent no more files are opened.
        stop: set it to end the run; large files then end with a ``Partial``.
        stall_s: a read that takes longer is given up and its thread abandoned; infinite for input that may block
            forever, which also skips waiting for threads at the end.
        side_by_side: most large files per thread at a time.
        poll_interval_s: how often ``tick`` is called while idle.
    """

    def __init__(
        self,
        reader: FileReader,
        *,
        jobs: int | None = None,
        is_serial: bool = False,
        budget: ErrorBudget | None = None,
        stop: StopSignal | None = None,
        monotonic: Callable[[], float] = time.monotonic,
        stall_s: float = STALL_S,
        side_by_side: int = SIDE_BY_SIDE,
        poll_interval_s: float = 1.0,
    ) -> None:
        self._reader = reader
        self._jobs = jobs or len(os.sched_getaffinity(0))
        self._is_serial = is_serial
        self._budget = budget or ErrorBudget()
        self._stop = stop or threading.Event()
        self._monotonic = monotonic
        self._stall_s = stall_s
        self._side_by_side = side_by_side
        self._poll_interval_s = poll_interval_s
        self._workers: list[Worker] = []

    @property
    def bytes_done(self) -> int:
        """Return the number of bytes read so far, holes included."""
        return sum(worker.ledger.bytes_done for worker in self._workers)

    def run(self, tasks: Iterable[Work], *, tick: Callable[[], None] = lambda: None) -> Iterator[Result]:
        """Read every task's file as ``run_batches`` does; yield the result of each file separately."""
        for answer in self.run_batches(tasks, tick=tick):
            yield from singly(answer)

    def run_batches(
        self, tasks: Iterable[Work | None], *, tick: Callable[[], None] = lambda: None
    ) -> Generator[Answer, None, None]:
        """
        Read every task's file; yield the answers in the caller's thread, in any order.

        Tasks are taken from the iterable as capacity permits; a None means that no more follow until there are more
        results. After ``stop`` is set no more are taken and those in flight end soon, large ones with a ``Partial`` and
        a ``ReadInterrupted`` failure. To end early, close the iterator. ``tick`` is called in the caller's thread
        between results, and every ``poll_interval_s`` while none is ready.
        """
        small_readers = self._reader.small_readers() if native_status().is_native else ()
        batches = _into_batches(tasks, self._reader, small_readers)
        worker_pool = _WorkerPool(
            *(self._reader, small_readers, self._jobs, self._is_serial, self._budget, self._stop),
            *(self._monotonic, self._stall_s, self._side_by_side, self._poll_interval_s),
        )
        self._workers.extend(worker_pool.workers)
        try:
            while True:
                is_paused = False
                while worker_pool.has_room and not self._stop.is_set() and not is_paused:
                    batch = next(batches, _END)
                    if isinstance(batch, Batch):
                        worker_pool.submit(batch)
                    elif batch is _END:
                        worker_pool.end_submission()
                        break
                    else:
                        is_paused = True
                if self._stop.is_set():
                    worker_pool.end_submission()
                if not worker_pool.is_waiting:
                    return
                yield from worker_pool.get(tick, is_paused=is_paused).results
                tick()
        finally:
            worker_pool.end()


class _WorkerPool:
    """The threads of one run, and the check for stalled ones. Used by the consumer's thread."""

    def __init__(
        self,
        reader: FileReader,
        small_readers: Sequence[SmallReader],
        jobs: int,
        is_serial: bool,
        budget: ErrorBudget,
        stop: StopSignal,
        monotonic: Callable[[], float],
        stall_s: float,
        side_by_side: int,
        poll_interval_s: float,
    ) -> None:
        self._monotonic = monotonic
        self._stall_s = stall_s
        self._poll_interval_s = poll_interval_s
        self._next_check_at = monotonic() + poll_interval_s
        self._is_over = threading.Event()
        self._queue: WorkQueue[Batch] = WorkQueue(jobs, side_by_side)
        self._most_room = {False: jobs * _IN_FLIGHT, True: self._queue.most_large}
        self._room = dict(self._most_room)  # for batches by whether they are one large file each
        self._deliveries: SimpleQueue[AnswerBatch] = SimpleQueue()
        self._pool = ThreadPoolExecutor(jobs, thread_name_prefix="hash") if jobs > 1 else None
        shared = Shared(
            reader,
            small_readers,
            budget,
            _Either(stop, self._is_over),
            monotonic,
            ReadTurn() if is_serial else None,
            self._pool,
            side_by_side,
            self._queue,
            self._deliveries,
        )
        self.workers = [Worker(shared) for _ in range(jobs)]
        self._threads = {
            worker: threading.Thread(target=worker.work, name=f"read-{number}", daemon=True)
            for number, worker in enumerate(self.workers)
        }
        self._unstarted = list(self._threads.values())

    @property
    def has_room(self) -> bool:
        """Return whether another batch of either kind may be given."""
        return min(self._room.values()) > 0

    @property
    def is_waiting(self) -> bool:
        """Return whether any given batch is unanswered."""
        return self._room != self._most_room

    def submit(self, batch: Batch) -> None:
        """Queue a batch, and start a thread for each of the first ones: most scans find nothing to read."""
        if self._unstarted:
            self._unstarted.pop().start()
        is_large = batch.turn is None
        self._room[is_large] -= 1
        if not self._threads:
            self._fail(batch)
        elif is_large:
            self._queue.put_large(batch, batch.tasks.sizes_bytes[0])
        else:
            self._queue.put(batch)

    def end_submission(self) -> None:
        """Announce that no more batches follow; may be called again."""
        self._queue.end()

    def get(self, tick: Callable[[], None], *, is_paused: bool = False) -> AnswerBatch:
        """
        Wait for results; meanwhile detect threads that hang in the kernel, and call ``tick``.

        Args:
            tick: called while idle.
            is_paused: no more batches follow before there are results.

        Raises:
            BaseException: the error that ended a thread.
        """
        while True:
            if self._monotonic() >= self._next_check_at:
                self._next_check_at = self._monotonic() + self._poll_interval_s
                self._abandon_stalled()
            self._queue.set_flushing(is_paused or not self.has_room)
            try:
                delivery = self._deliveries.get(timeout=min(self._poll_interval_s, self._stall_s))
            except Empty:
                self._abandon_stalled()
                tick()
                continue
            if delivery.error is not None:
                raise delivery.error
            for batch in delivery.ended:
                self._room[batch.turn is None] += 1
            return delivery

    def end(self) -> None:
        """Let the threads end after their current batches, and wait for those that do not hang."""
        self._is_over.set()
        self._queue.take_back()
        self._queue.end()
        waits = isfinite(self._stall_s)
        for thread in list(self._threads.values()) if waits else ():
            while thread in self._threads.values() and thread.is_alive():
                thread.join(min(self._poll_interval_s, self._stall_s))
                self._abandon_stalled()
        if self._pool is not None:
            self._pool.shutdown(wait=waits and len(self._threads) == len(self.workers))

    def _abandon_stalled(self) -> None:
        now = self._monotonic()
        for worker in list(self._threads):
            if worker.abandon_if_stalled(now, self._stall_s):
                del self._threads[worker]
        if not self._threads:
            for batch in self._queue.take_back():
                self._fail(batch)

    def _fail(self, batch: Batch) -> None:
        """Fail a batch when no thread is left."""
        error = "not read: the device hangs"
        failed = [Failed(batch.tasks.task(index), DeviceStalled(error)) for index in range(len(batch.tasks))]
        self._deliveries.put(AnswerBatch(failed, [batch]))


class _Either:
    """Set if either of two signals is set."""

    def __init__(self, one: StopSignal, other: StopSignal) -> None:
        self._one, self._other = one, other

    def is_set(self) -> bool:
        return self._one.is_set() or self._other.is_set()


def _into_batches(
    tasks: Iterable[Work | None], reader: FileReader, small_readers: Sequence[SmallReader]
) -> Iterator[Batch | None]:
    """
    Group small files; a file that is large or resumed stands alone. A pause follows the files before it.

    Files read from the disk keep their order. Files that may be in memory form larger batches, except for the first, so
    that few files keep all threads busy.
    """
    may_be_cached = any(not one.waits_for_disk for one in small_readers)
    turns = count()
    group = _Group(_MOST_FILES if may_be_cached else _FILES)
    for item in tasks:
        if item is None:
            if len(group):
                yield Batch(next(turns), group.take())
            yield None
            continue
        if not isinstance(item, Task):
            yield from (Batch(next(turns), full) for full in group.add(item))
            continue
        is_large = item.size_bytes > small_bytes(item.block_size_bytes)
        if not is_large and item.resume is None:
            yield from (Batch(next(turns), full) for full in group.add(item.as_batch()))
            continue
        is_free = is_large and may_be_cached and can_go_beside(item) and reader.can_read_beside(item.path)
        if not is_free and len(group):
            yield Batch(next(turns), group.take())
        yield Batch(None if is_free else next(turns), item.as_batch())
    if len(group):
        yield Batch(next(turns), group.take())


class _Group:
    """
    Small files that are read together.

    Args:
        most_files: per batch, once all threads are busy.
    """

    def __init__(self, most_files: int) -> None:
        self._most_files = most_files
        self._taken = 0
        self._clear()

    def _clear(self) -> None:
        self._columns: tuple[list[Any], ...] = ([], [], [], [], [], [])
        self._block_size_bytes = self._size_bytes = 0

    def __len__(self) -> int:
        return len(self._columns[0])

    def add(self, tasks: TaskBatch) -> Iterator[TaskBatch]:
        """Add files; yield the collected ones whenever the batch would exceed its number of files or bytes."""
        if len(self) and tasks.block_size_bytes != self._block_size_bytes:
            yield self.take()
        start = 0
        while start < len(tasks):
            stop = self._find_room(tasks.sizes_bytes, start)
            if stop == start:
                yield self.take()
                continue
            for mine, theirs in zip(self._columns, tasks.columns, strict=True):
                mine += theirs[start:stop]
            self._size_bytes += sum(tasks.sizes_bytes[start:stop])
            self._block_size_bytes = tasks.block_size_bytes
            start = stop

    def _find_room(self, sizes_bytes: Sequence[int], start: int) -> int:
        """Return the index before which files fit; at least one file fits into an empty group."""
        most_files = self._most_files if self._taken > _SMALL_BATCHES else _FILES
        stop = min(start + most_files - len(self), len(sizes_bytes))
        while stop - start > (not len(self)) and self._size_bytes + sum(sizes_bytes[start:stop]) > BUFFER_BYTES:
            stop = start + (stop - start) // 2
        return stop

    def take(self) -> TaskBatch:
        """Return the collected files, and start anew."""
        paths, sizes, wants, tags, probes, known_bad = self._columns
        tasks = TaskBatch(paths, sizes, wants, tags, probes, known_bad, self._block_size_bytes)
        self._clear()
        self._taken += 1
        return tasks
