"""
One reading thread: answers batches of tasks, the short way where it can, else file by file.

Decides for one batch which files are read how, what is hashed beside the reading, and what a failure means for the file
that it met. Leaves to the engine which batches there are, and watching over devices that hang: whoever watches may
abandon a worker, from another thread, and answers for it then.

I1  Every task of a batch is answered exactly once, by the worker or by ``abandon_if_stalled``.
I2  What an abandoned worker still finds out is thrown away, and it ends as soon as the kernel lets go of it.
I3  ``is_stalled`` speaks of reading only: neither hashing nor waiting for the turn counts.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import chain
from queue import SimpleQueue
from typing import TYPE_CHECKING, NamedTuple

from integrity.errors import DeviceFailing, DeviceStalled, ReadError, ReadInterrupted
from integrity.files.buffers import Buffers
from integrity.files.errorbudget import ErrorBudget
from integrity.files.read import OpenFile, Reader
from integrity.files.stamps import witness_of
from integrity.hashing.digests import FileHasher, digest_probe, digest_whole, is_very_sparse, without_chain
from integrity.hashing.md5 import native_status
from integrity.hashing.tasks import Done, Failed, Partial, Result, StopSignal, Task
from integrity.hashing.turn import Turn
from integrity.model import Reading, Witness

if TYPE_CHECKING:
    from integrity.files.read import Segment
    from integrity.hashing.cached import CachedFiles

BUFFER_BYTES = 8 << 20
"""Read at once: what a disk needs for its full rate, and what dd is usually given."""

PARTIAL_BLOCKS = 1024
PARTIAL_INTERVAL_S = 30.0


class Batch(NamedTuple):
    """Tasks for one thread. ``number`` counts the batches of a run from 0."""

    number: int
    tasks: list[Task]


class Delivery(NamedTuple):
    """What a worker sends: answers, whether its batch is over with them, or the error that it died of."""

    results: Sequence[Result]
    is_end: bool = False
    error: BaseException | None = None


class Shared(NamedTuple):
    """What the workers of one run share. Without a ``turn`` all may read; without a ``pool`` nothing runs beside."""

    reader: Reader
    cached: CachedFiles | None
    budget: ErrorBudget
    stop: StopSignal
    monotonic: Callable[[], float]
    turn: Turn | None
    pool: ThreadPoolExecutor | None
    deliveries: SimpleQueue[Delivery]


class _Small(NamedTuple):
    """A file of one piece that is read and not digested yet."""

    task: Task
    file: OpenFile
    witness: Witness
    data: memoryview


class _AbandonedError(Exception):
    """Nobody waits for this worker any more."""


class Worker:
    """One reading thread. Its attributes may be read from any thread."""

    def __init__(self, shared: Shared) -> None:
        self._shared = shared
        self._buffers = Buffers(BUFFER_BYTES, 2)
        self._lock = threading.Lock()  # over the next four
        self._number = 0
        self._results: list[Result] = []
        self._unanswered: deque[Task] = deque()
        self.is_abandoned = False
        self._busy_since: float | None = None
        self.bytes_done = 0

    def work(self, todo: SimpleQueue[Batch | None]) -> None:
        """Answer batches until there is None; to be run in a thread."""
        try:
            while (batch := todo.get()) is not None:
                self._answer_batch(batch)
            self._buffers.close()
        except _AbandonedError:
            return
        except BaseException as error:  # noqa: BLE001 (whoever waits for the answers raises it)
            self._shared.deliveries.put(Delivery((), error=error))

    def abandon_if_stalled(self, now: float, stall_s: float) -> bool:
        """Give a worker up that hangs in a read, and answer for it; it may hold the turn, so hand that on."""
        with self._lock:
            if self._busy_since is None or now - self._busy_since <= stall_s:
                return False
            self.is_abandoned = True
            message = f"a read has not come back for {stall_s:.0f} s: the device hangs; look at its cables and at dmesg"
            failed = [Failed(task, DeviceStalled(message)) for task in self._unanswered]
            self._shared.deliveries.put(Delivery([*self._results, *failed], is_end=True))
        if self._shared.turn is not None:
            self._shared.turn.pass_on(self._number)
        return True

    def _answer_batch(self, batch: Batch) -> None:
        with self._lock:
            self._number, self._results, self._unanswered = batch.number, [], deque(batch.tasks)
        turn = self._shared.turn
        try:
            left = self._answer_cached(batch.tasks)
            if left and turn is not None and not self._is_cached(left):
                turn.wait(batch.number)
            self._answer_singly(left)
        finally:
            if turn is not None:
                turn.pass_on(batch.number)
        with self._lock:
            self._check_abandoned()
            self._shared.deliveries.put(Delivery(self._results, is_end=True))

    def _answer_cached(self, tasks: list[Task]) -> list[Task]:
        """Answer what can be answered the short way; return the rest."""
        cached = self._shared.cached
        if cached is None or tasks[0].size_bytes > BUFFER_BYTES or self._find_obstacle(tasks[0]) is not None:
            return tasks
        arena = self._buffers.acquire()
        self._buffers.release()  # nothing in it is needed when the next file is read
        self._set_busy()
        done, left = cached.answer(tasks, arena)
        self._set_idle()
        with self._lock:
            self._check_abandoned()
            self._results.extend(done)
            self._unanswered = deque(left)
        self.bytes_done += sum(one.reading.bytes_read for one in done)
        return left

    def _is_cached(self, tasks: list[Task]) -> bool:
        """Say whether a batch is one large file that lies in memory: any thread may read that at any time (R4)."""
        return (
            len(tasks) == 1 and tasks[0].size_bytes > BUFFER_BYTES and self._shared.reader.lies_in_memory(tasks[0].path)
        )

    def _answer_singly(self, tasks: list[Task]) -> None:
        """Answer file by file. Where only one thread may read, small files are hashed beside the next one's reading."""
        pool = self._shared.pool if self._shared.turn is not None else None
        beside: Future[None] | None = None
        for task in tasks:
            answer = self._answer(task)
            if beside is not None:
                beside.result()
                beside = None
            if not isinstance(answer, _Small):
                self._add(answer)
            elif pool is None:
                self._add_small(answer)
            else:  # of a copy: the buffers are the next file's
                beside = pool.submit(self._add_small, answer._replace(data=memoryview(bytes(answer.data))))
        if beside is not None:
            beside.result()

    def _add_small(self, small: _Small) -> None:
        task, file, witness, data = small
        reading = Reading(witness, digest_whole(data, task.want), None, file.how, file.bytes_read)
        self._add(Done(task, reading, probe=None if task.probe is None else digest_probe(task.probe, data)))

    def _add(self, result: Result) -> None:
        """Answer the first task that is not answered yet."""
        with self._lock:
            self._check_abandoned()
            self._results.append(result)
            self._unanswered.popleft()

    def _check_abandoned(self) -> None:
        if self.is_abandoned:
            raise _AbandonedError

    def _set_busy(self) -> None:
        """Start the clock of a read that may hang."""
        self._busy_since = self._shared.monotonic()

    def _set_idle(self) -> None:
        """Stop it: the read came back."""
        self._busy_since = None

    def _find_obstacle(self, task: Task) -> Failed | None:
        """Answer for a task that is not to be begun."""
        if self._shared.stop.is_set():
            return Failed(task, ReadInterrupted("interrupted"))
        if self._shared.budget.is_spent:
            return Failed(task, DeviceFailing("not read: the device had too many read errors and is left alone"))
        return None

    def _answer(self, task: Task) -> Result | _Small:
        """Read one file; turn what can go wrong with a file into its answer."""
        obstacle = self._find_obstacle(task)
        if obstacle is not None:
            return obstacle
        self._set_busy()
        try:
            return self._read(task)
        except ReadError as error:
            return Failed(task, error)
        finally:
            self._set_idle()

    def _read(self, task: Task) -> Done | _Small:
        with self._shared.reader.open(task.path) as file:
            if file.size_bytes <= min(BUFFER_BYTES, task.block_size_bytes):
                data = _read_small(file, self._buffers)
                self.bytes_done += len(data)
                return _Small(task, file, file.finish(), data)
            hasher = self._read_large(task, file)
            witness = file.finish()
        digests = hasher.digests()
        first, blocks = hasher.take_blocks()
        return Done(task, Reading(witness, digests, blocks, file.how, file.bytes_read), first, hasher.probe())

    def _read_large(self, task: Task, file: OpenFile) -> FileHasher:
        """Read a file of several segments, its digests running one segment behind the disk."""
        hasher, start = _make_hasher(task, file)
        monotonic = self._shared.monotonic
        beside: list[Future[None]] = []
        saved_at = monotonic()
        for segment in file.segments(self._buffers, start):
            self._set_idle()  # the disk answered; hashing may take its time
            _await(beside)
            if self.is_abandoned:
                raise ReadInterrupted("abandoned")
            if self._shared.stop.is_set():
                self._send_partial(task, file, hasher, segment.offset)
                raise ReadInterrupted("interrupted; what was read is kept")
            if hasher.blocks_done >= PARTIAL_BLOCKS or monotonic() - saved_at > PARTIAL_INTERVAL_S:
                saved_at = monotonic()
                self._send_partial(task, file, hasher, segment.offset)
            if not file.bad_ranges:  # digests of a file with holes torn into it mean nothing: read on only to map them
                beside = self._hash(hasher, segment)
            self.bytes_done += segment.length
            self._set_busy()
        self._set_idle()
        _await(beside)
        self._set_busy()
        return hasher

    def _hash(self, hasher: FileHasher, segment: Segment) -> list[Future[None]]:
        """Start the digests of one segment: in one thread if the C core does two MD5s at once, else in two."""
        pool = self._shared.pool
        if pool is None:
            hasher.feed(segment)
            return []
        if native_status().is_native:
            return [pool.submit(hasher.feed, segment)]
        return [pool.submit(hasher.chain, segment), pool.submit(hasher.cut_blocks, segment)]

    def _send_partial(self, task: Task, file: OpenFile, hasher: FileHasher, offset: int) -> None:
        """Send what a checkpoint needs, if the file stands at a block's border."""
        if not hasher.blocks_done or offset % task.block_size_bytes or file.bad_ranges:
            return
        first, blocks = hasher.take_blocks()
        assert blocks is not None
        partial = Partial(task, offset, first, blocks, hasher.md5_state(), _first_witness(file))
        with self._lock:
            self._check_abandoned()
            self._shared.deliveries.put(Delivery([partial]))


def _await(futures: list[Future[None]]) -> None:
    """Wait for digests under way; an error in one of them is raised here."""
    for future in futures:
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


def _make_hasher(task: Task, file: OpenFile) -> tuple[FileHasher, int]:
    """Find where to start: at the resume point if the file is still the one that was read up to there."""
    want, resume, start, md5_state = task.want, task.resume, 0, None
    if resume is not None and resume.witness[:4] == _first_witness(file)[:4]:
        start, md5_state = resume.offset, resume.md5_state
    if is_very_sparse(file.size_bytes, file.size_bytes - file.stat.st_blocks * 512):
        want = without_chain(want)
    hasher = FileHasher(
        want, file.size_bytes, task.block_size_bytes, start=start, md5_state=md5_state, probe=task.probe
    )
    return hasher, start


def _first_witness(file: OpenFile) -> Witness:
    return witness_of(file.stat)
