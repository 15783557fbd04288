"""
Many files through few threads: read each as one stable version, digest it, hand the result to one consumer.

Decides how work is spread: small files in batches, each by one thread; a large file by one reading thread with its
digests in a pool beside it, so that even a single large file keeps two cores busy. On a rotational disk only one thread
reads at a time, in the order of the tasks; hashing goes on beside it (R4). Leaves to others what to read, in which
order, and what the results mean.

I1  Every task that was taken is answered exactly once by ``Done`` or ``Failed``, unless ``run`` is closed early.
I2  At most ``_IN_FLIGHT`` batches a thread wait at any moment, so memory does not grow with the tree.
I3  ``Partial`` results of one file come in order, before its last answer.
"""

from __future__ import annotations

import os
import queue
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from itertools import chain
from typing import Protocol

from integrity.errors import DeviceFailing, DeviceStalled, ReadError, ReadInterrupted
from integrity.files.buffers import Buffers
from integrity.files.errorbudget import ErrorBudget
from integrity.files.read import OpenFile, Reader, Segment
from integrity.hashing.digests import FileHasher, ProbeHasher, Want, digest_whole, is_very_sparse, without_chain
from integrity.model import Blocks, ByteRange, Reading, Witness

BUFFER_BYTES = 4 << 20
"""Read at once: large enough for a disk's full rate, small enough that two a thread stay in the third-level cache."""

PARTIAL_BLOCKS = 1024
PARTIAL_INTERVAL_S = 30.0
STALL_S = 300.0

_BATCH_FILES = 64
_BATCH_BYTES = 8 << 20
_IN_FLIGHT = 4


class StopSignal(Protocol):
    """What ends a run early: a person, a limit. Asked often, from any thread."""

    def is_set(self) -> bool:
        """Say whether to stop."""


@dataclass(frozen=True, slots=True)
class Resume:
    """Where an earlier reading of a file stopped; void if the witness moved (R7)."""

    offset: int
    md5_state: bytes | None
    witness: Witness


@dataclass(frozen=True, slots=True)
class Task:
    """
    One file to read.

    Args:
        path: relative to the engine's root.
        size_bytes: as far as known; only decides how the work is spread.
        want: which digests.
        block_size_bytes: of its blocks.
        tag: the consumer's own; handed back untouched.
        resume: where to go on.
        probe: a range whose XXH3-128 is wanted besides, to see whether a file still begins with its old content.
    """

    path: bytes
    size_bytes: int
    want: Want
    block_size_bytes: int
    tag: object = None
    resume: Resume | None = None
    probe: ByteRange | None = None


@dataclass(frozen=True, slots=True)
class Partial:
    """A large file up to ``offset``: what a checkpoint needs. ``blocks`` begin with block ``first_block``."""

    task: Task
    offset: int
    first_block: int
    blocks: Blocks
    md5_state: bytes | None
    witness: Witness


@dataclass(frozen=True, slots=True)
class Done:
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


Result = Partial | Done | Failed


@dataclass(slots=True)
class _Worker:
    """A reading thread and what the watch over stalled devices needs to know of it."""

    buffers: Buffers
    thread: threading.Thread | None = None
    busy_since: float | None = None
    batch: list[Task] = field(default_factory=list)
    is_abandoned: bool = False


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
        self._turn = threading.Semaphore(1 if is_serial else self._jobs)
        self._budget = budget or ErrorBudget()
        self._stop = stop or threading.Event()
        self._monotonic = monotonic
        self._stall_s = stall_s
        self._todo: queue.SimpleQueue[list[Task] | None] = queue.SimpleQueue()
        self._results: queue.SimpleQueue[tuple[_Worker, list[Result], bool]] = queue.SimpleQueue()
        self._pool = ThreadPoolExecutor(self._jobs, thread_name_prefix="hash") if self._jobs > 1 else None
        self._workers: list[_Worker] = []
        self.bytes_done = 0

    def run(self, tasks: Iterable[Task]) -> Iterator[Result]:
        """
        Read every task's file; yield the results in the caller's thread, in any order.

        Tasks are taken from the iterable as there is room for them. When ``stop`` is set no more are taken; those under
        way end soon, large ones with a ``Partial`` and an ``ReadInterrupted`` failure.
        """
        batches = _into_batches(tasks)
        self._start()
        waiting = 0
        try:
            while True:
                while waiting < self._jobs * _IN_FLIGHT and not self._stop.is_set():
                    batch = next(batches, None)
                    if batch is None:
                        break
                    self._todo.put(batch)
                    waiting += 1
                if not waiting:
                    return
                results, ended = self._next_results()
                waiting -= ended
                yield from results
                if not self._live_workers():
                    yield from self._give_up(batches)
                    return
        finally:
            self._end()

    def _start(self) -> None:
        for number in range(self._jobs):
            worker = _Worker(Buffers(BUFFER_BYTES, 2))
            worker.thread = threading.Thread(target=self._work, args=(worker,), name=f"read-{number}", daemon=True)
            self._workers.append(worker)
            worker.thread.start()

    def _end(self) -> None:
        for _ in self._workers:
            self._todo.put(None)
        for worker in self._live_workers():
            assert worker.thread is not None
            worker.thread.join()
            worker.buffers.close()
        if self._pool is not None:
            self._pool.shutdown(wait=not any(worker.is_abandoned for worker in self._workers))

    def _live_workers(self) -> list[_Worker]:
        return [worker for worker in self._workers if not worker.is_abandoned]

    def _next_results(self) -> tuple[list[Result], int]:
        """Wait for results; answer for the tasks of a thread that hangs in the kernel."""
        while True:
            try:
                worker, results, is_end = self._results.get(timeout=min(1.0, self._stall_s))
            except queue.Empty:
                stalled = self._find_stalled()
                if stalled is not None:
                    return self._abandon(stalled), 1
            else:
                if not worker.is_abandoned:
                    return results, int(is_end)

    def _find_stalled(self) -> _Worker | None:
        now = self._monotonic()
        for worker in self._live_workers():
            if worker.busy_since is not None and now - worker.busy_since > self._stall_s:
                return worker
        return None

    def _abandon(self, worker: _Worker) -> list[Result]:
        """Answer for a thread that does not come back; it may hold the turn, so hand that on."""
        worker.is_abandoned = True
        self._turn.release()
        message = (
            f"a read has not come back for {self._stall_s:.0f} s: the device hangs; look at its cables and at dmesg"
        )
        return [Failed(task, DeviceStalled(message)) for task in worker.batch]

    def _give_up(self, batches: Iterator[list[Task]]) -> Iterator[Result]:
        """Answer for all that is left when no thread is."""
        while not self._todo.empty():
            batch = self._todo.get()
            for task in batch or ():
                yield Failed(task, DeviceStalled("not read: the device hangs"))
        for batch in batches:
            for task in batch:
                yield Failed(task, DeviceStalled("not read: the device hangs"))

    def _work(self, worker: _Worker) -> None:
        """Run in a reading thread until there is no more to do."""
        while (batch := self._todo.get()) is not None:
            worker.batch = list(batch)
            results: list[Result] = []
            for task in batch:
                results.append(self._answer(worker, task))
                worker.batch.pop(0)
            self._results.put((worker, results, True))

    def _answer(self, worker: _Worker, task: Task) -> Result:
        """Read one file; turn what can go wrong with a file into its answer."""
        if self._stop.is_set():
            return Failed(task, ReadInterrupted("interrupted"))
        if self._budget.is_spent:
            return Failed(task, DeviceFailing("not read: the device had too many read errors and is left alone"))
        worker.busy_since = self._monotonic()
        try:
            return self._read(worker, task)
        except ReadError as error:
            return Failed(task, error)
        finally:
            worker.busy_since = None

    def _read(self, worker: _Worker, task: Task) -> Done:
        """Read and digest one file; the turn is held while the disk is read, not while the rest is hashed."""
        with self._turn:
            worker.busy_since = self._monotonic()
            file = self._reader.open(task.path)
            try:
                if file.size_bytes <= min(BUFFER_BYTES, task.block_size_bytes):
                    data = _read_small(file, worker.buffers)
                    witness = file.finish()
                    hasher = None
                else:
                    hasher = self._read_large(worker, task, file)
                    witness = file.finish()
            finally:
                file.close()
        if hasher is None:
            return self._answer_small(task, file, witness, data)
        digests = hasher.digests()
        first, blocks = hasher.take_blocks()
        return Done(task, Reading(witness, digests, blocks, file.how, file.bytes_read), first, hasher.probe())

    def _answer_small(self, task: Task, file: OpenFile, witness: Witness, data: memoryview) -> Done:
        self.bytes_done += len(data)
        reading = Reading(witness, digest_whole(data, task.want), None, file.how, file.bytes_read)
        probe = None
        if task.probe is not None:
            hasher = ProbeHasher(task.probe)
            hasher.feed(Segment(0, len(data), data))
            probe = hasher.digest()
        return Done(task, reading, probe=probe)

    def _read_large(self, worker: _Worker, task: Task, file: OpenFile) -> FileHasher:
        """Read a file of several segments, its digests running one segment behind the disk."""
        start, md5_state = _resume_point(task, file)
        want = task.want
        if is_very_sparse(file.size_bytes, file.size_bytes - file.stat.st_blocks * 512):
            want = without_chain(want)
        hasher = FileHasher(
            want, file.size_bytes, task.block_size_bytes, start=start, md5_state=md5_state, probe=task.probe
        )
        beside: list[Future[None]] = []
        saved_at = self._monotonic()
        for segment in file.segments(worker.buffers, start):
            worker.busy_since = None  # the disk answered; hashing may take its time
            _await(beside)
            end = segment.offset + segment.length
            if self._stop.is_set():
                self._emit_partial(worker, task, file, hasher, segment.offset)
                raise ReadInterrupted("interrupted; what was read is kept")
            if hasher.blocks_done >= PARTIAL_BLOCKS or self._monotonic() - saved_at > PARTIAL_INTERVAL_S:
                saved_at = self._monotonic()
                self._emit_partial(worker, task, file, hasher, segment.offset)
            if not file.bad_ranges:  # digests of a file with holes torn into it mean nothing: read on only to map them
                beside = self._hash(hasher, segment)
            self.bytes_done += segment.length
            worker.busy_since = self._monotonic() if end < file.size_bytes else None
        _await(beside)
        return hasher

    def _hash(self, hasher: FileHasher, segment: Segment) -> list[Future[None]]:
        """Start the digests of one segment: the whole file's and the blocks' beside each other (FileHasher I2)."""
        if self._pool is None:
            hasher.chain(segment)
            hasher.cut_blocks(segment)
            return []
        return [self._pool.submit(hasher.chain, segment), self._pool.submit(hasher.cut_blocks, segment)]

    def _emit_partial(self, worker: _Worker, task: Task, file: OpenFile, hasher: FileHasher, offset: int) -> None:
        """Send what a checkpoint needs, if the file stands at a block's border."""
        if not hasher.blocks_done or offset % task.block_size_bytes or file.bad_ranges:
            return
        first, blocks = hasher.take_blocks()
        assert blocks is not None
        stat = file.stat
        witness = Witness(stat.st_size, stat.st_mtime_ns, stat.st_ctime_ns, stat.st_ino)
        partial = Partial(task, offset, first, blocks, hasher.md5_state(), witness)
        self._results.put((worker, [partial], False))


def _await(futures: list[Future[None]]) -> None:
    """Wait for digests under way; an error in one of them is raised here."""
    if futures:
        for future in wait(futures).done:
            future.result()


def _read_small(file: OpenFile, buffers: Buffers) -> memoryview:
    """
    Read a file that fits one buffer as one piece.

    Usually that is one segment, used where it lies; a file with holes is put together, its holes as zeros. Where bytes
    could not be read the result is short; ``finish`` then raises.
    """
    segments = file.segments(buffers)
    first = next(segments, None)
    if first is None:
        return memoryview(b"")
    if first.data is not None and first.length == file.size_bytes:
        next(segments, None)  # lets the reader see that this was the end
        return first.data
    whole = bytearray(file.size_bytes)
    for segment in chain((first,), segments):
        if segment.data is not None:
            whole[segment.offset : segment.offset + segment.length] = segment.data
    return memoryview(whole)


def _resume_point(task: Task, file: OpenFile) -> tuple[int, bytes | None]:
    """Find where to start: at the resume point if the file is still the one that was read up to there."""
    resume = task.resume
    if resume is None:
        return 0, None
    stat = file.stat
    seen = Witness(stat.st_size, stat.st_mtime_ns, stat.st_ctime_ns, stat.st_ino)
    return (resume.offset, resume.md5_state) if seen == resume.witness else (0, None)


def _into_batches(tasks: Iterable[Task]) -> Iterator[list[Task]]:
    """Group small files; a large one stands alone."""
    batch: list[Task] = []
    size = 0
    for task in tasks:
        if task.size_bytes > BUFFER_BYTES:
            yield [task]
            continue
        batch.append(task)
        size += task.size_bytes
        if len(batch) == _BATCH_FILES or size >= _BATCH_BYTES:
            yield batch
            batch, size = [], 0
    if batch:
        yield batch
