"""
One reading thread: answer tasks, small files by the fast path if possible, else file by file.

Decides how each taken file is read, what is hashed beside the reading, and which answer a failure becomes.
``work_queue`` distributes the work; the engine detects stalled devices.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import Future
from itertools import chain
from typing import TYPE_CHECKING, NamedTuple

from integrity.errors import ReadError, ReadInterrupted
from integrity.files.buffers import Buffers
from integrity.hashing.digests import digest_others, digest_probe, digest_whole
from integrity.hashing.large_file import Fed, read_large
from integrity.hashing.md5 import native_status
from integrity.hashing.tasks import Done, Failed, Result, Task
from integrity.hashing.work_queue import (
    BUFFER_BYTES,
    AbandonedError,
    AnswerBatch,
    Batch,
    OpenedFile,
    Shared,
    SmallReader,
    TaskLedger,
    small_bytes,
)
from integrity.model import Reading, Witness

if TYPE_CHECKING:
    from integrity.hashing.large_batch import LaneReader
    from integrity.hashing.md5_native import LaneScheduler
    from integrity.hashing.small_batch import SmallFileBatches

_ARENA_BYTES = 1 << 20


class _Small(NamedTuple):
    """A file of one piece that is read but not digested."""

    task: Task
    file: OpenedFile
    witness: Witness
    data: memoryview


class _NativeCore(NamedTuple):
    """The C core's parts for one thread."""

    scheduler: LaneScheduler
    small_files: SmallFileBatches
    beside: LaneReader


class Worker:
    """One reading thread."""

    def __init__(self, shared: Shared) -> None:
        self._shared = shared
        self._turn: int | None = None
        self.ledger = TaskLedger(shared.deliveries, shared.monotonic)
        self._make_core = self._find_core() if shared.small_readers else None

    def work(self) -> None:
        """Answer batches until none is left; runs in a thread."""
        try:
            self._buffers = Buffers(BUFFER_BYTES, 2)
            self._core = None if self._make_core is None else self._make_core()
            while self._work_on():
                pass
            self._buffers.close()
        except AbandonedError:
            return
        except BaseException as error:  # noqa: BLE001 (the consumer raises it)
            self._shared.deliveries.put(AnswerBatch((), error=error))

    def _work_on(self) -> bool:
        """Answer the next work item; return whether there may be more."""
        core, work_queue = self._core, self._shared.work_queue
        batches = work_queue.take(has_unfinished=core is not None and not core.small_files.is_empty)
        if batches is None:
            self._finish()
            return True
        if not batches:
            return False
        turn = batches[0].turn
        if turn is None:
            assert core is not None, "only the C core reads several at a time"
            self._finish()
            for left in core.beside.answer(batches):
                self._answer_singly(left, (0,))
            self.ledger.send()
        else:
            self._answer_in_turn(batches[0], turn)
        work_queue.mark_idle()
        return True

    def _finish(self) -> None:
        """Finish and answer all files read by the fast path, when idle or when their memory is needed."""
        if self._core is not None:
            self._core.scheduler.flush()
            self._take_done(self._core)
            self.ledger.send()

    def _find_core(self) -> Callable[[], _NativeCore]:
        # What needs the extension is imported here, not in the thread: where nobody waits for a thread that hangs, the
        # interpreter may end while it imports, and crashes.
        from integrity.hashing.large_batch import LaneReader
        from integrity.hashing.md5_native import LaneScheduler
        from integrity.hashing.small_batch import SmallFileBatches

        def make_core() -> _NativeCore:
            scheduler = LaneScheduler()
            arenas = [arena.acquire() for arena in self._buffers.cut(_ARENA_BYTES)]
            beside = LaneReader(self._shared, self.ledger, self._buffers.memory)
            return _NativeCore(scheduler, SmallFileBatches(scheduler, arenas), beside)

        return make_core

    def abandon_if_stalled(self, now: float, stall_s: float) -> bool:
        """Abandon the thread if it hangs in a read, and pass on its turn if it holds it. Callable from any thread."""
        turn = self._turn
        if not self.ledger.abandon_if_stalled(now, stall_s):
            return False
        self._shared.work_queue.mark_idle()
        if self._shared.turn is not None and turn is not None:
            self._shared.turn.pass_on(turn)
        return True

    def _answer_in_turn(self, batch: Batch, number: int) -> None:
        """Answer a batch; read what is not in memory when its turn comes (R4)."""
        turn, core = self._shared.turn, self._core
        self._turn = number
        self.ledger.begin(batch)
        try:
            left: Sequence[int] = range(len(batch.tasks))
            if core is not None and not batch.is_one_file:
                for reader in self._shared.small_readers:
                    left = self._read_by_the_batch(core, reader, batch, left) if left else left
            if left and turn is not None:
                turn.wait(number)
            if left:
                self._finish()
            self._answer_singly(batch, left)
        finally:
            if turn is not None:
                turn.pass_on(number)
        self.ledger.send()

    def _read_by_the_batch(
        self, core: _NativeCore, reader: SmallReader, batch: Batch, indexes: Sequence[int]
    ) -> list[int]:
        """Read small files and begin to digest them; return the indexes of those that the reader leaves out."""
        if self._shared.turn is not None and self._turn is not None and reader.waits_for_disk:
            self._shared.turn.wait(self._turn)
        left: list[int] = []
        while indexes and not self._shared.is_over:
            while not core.small_files.has_room:
                core.small_files.wait()
                self._take_done(core)
            try:
                with self.ledger.busy():
                    left_here, count = core.small_files.read(reader, batch, indexes)
            except ReadInterrupted:
                break  # the next single read is interrupted, too
            left, indexes = left + left_here, indexes[count:]
            if not (left or indexes):
                self._pass_on()
            core.small_files.digest()
            self._take_done(core)
        return [*left, *indexes]

    def _take_done(self, core: _NativeCore) -> None:
        for batch, indexes, done in core.small_files.take_done():
            self.ledger.add(done, batch, indexes)
            self.ledger.bytes_done += sum(done.readings.sizes_bytes)
            self.ledger.send()

    def _pass_on(self) -> None:
        """Let the next thread read while this one digests."""
        if self._shared.turn is not None and self._turn is not None:
            self._shared.turn.pass_on(self._turn)

    def _answer_singly(self, batch: Batch, indexes: Sequence[int]) -> None:
        """Answer file by file. If only one thread may read, hash small files while the next one is read."""
        pool = self._shared.pool if self._shared.turn is not None else None
        beside: list[Future[None]] = []
        for index in indexes:
            answer = self._answer(batch, index)
            _await(beside)
            beside = []
            if not isinstance(answer, _Small):
                self.ledger.add(answer, batch, (index,))
            elif pool is None:
                self._add_small(answer, batch, index)
            else:  # hash a copy: the next file reuses the buffers
                copy = answer._replace(data=memoryview(bytes(answer.data)))
                beside = [pool.submit(self._add_small, copy, batch, index)]
        _await(beside)

    def _add_small(self, small: _Small, batch: Batch, index: int) -> None:
        task, file, witness, data = small
        others = digest_others(data, task.want)
        reading = Reading(witness, digest_whole(data, task.want), None, file.how, file.bytes_read, others)
        probe = None if task.probe is None else digest_probe(task.probe, data)
        self.ledger.add(Done(task, reading, probe=probe), batch, (index,))

    def _answer(self, batch: Batch, index: int) -> Result | _Small:
        """Read one file; convert a read error into its answer."""
        task = batch.tasks.task(index)
        obstacle = self._shared.find_obstacle(task)
        if obstacle is not None:
            return obstacle
        try:
            return self._read(batch, task)
        except ReadError as error:
            return Failed(task, error)

    def _read(self, batch: Batch, task: Task) -> Done | _Small:
        with self.ledger.busy():
            opened = self._shared.reader.open(task.path, task.known_bad)
        with opened as file:
            if file.size_bytes > small_bytes(task.block_size_bytes):
                return self._read_large(batch, task, file)
            with self.ledger.busy():
                data = _read_small(file, self._buffers)
                self.ledger.bytes_done += len(data)
                return _Small(task, file, file.finish(), data)

    def _read_large(self, batch: Batch, task: Task, file: OpenedFile) -> Done:
        """Read a file of several segments; hashing runs one segment behind the disk."""
        beside: list[Future[None]] = []

        def settle() -> None:
            _await(beside)
            beside.clear()

        segments = read_large(self._shared, task, file, self._buffers, settle, self.ledger, batch)
        while True:
            try:
                beside += self._hash(next(segments))
            except StopIteration as end:
                done: Done = end.value
                return done

    def _hash(self, fed: Fed) -> list[Future[None]]:
        """Start to digest a segment: in one thread if the C core runs both MD5s side by side, else in two."""
        pool = self._shared.pool
        hasher, segment = fed
        if pool is None:
            hasher.feed(segment)
            return []
        if native_status().is_native:
            return [pool.submit(hasher.feed, segment)]
        return [pool.submit(hasher.chain, segment), pool.submit(hasher.cut_blocks, segment)]


def _await(futures: list[Future[None]]) -> None:
    """Wait for pending digests; raise the error of any that failed."""
    for future in futures:
        future.result()


def _read_small(file: OpenedFile, buffers: Buffers) -> memoryview:
    """
    Read a file that fits one buffer as one piece.

    Usually that is one segment, used in place; a file with holes is assembled, with zeros for holes. If bytes could not
    be read, the result has wrong content and ``finish`` raises.
    """
    segments = file.segments(buffers)
    first = next(segments, None)
    if first is None:
        return memoryview(b"")
    if first.data is not None and first.length == file.size_bytes:
        next(segments, None)  # so that the reader reaches the end
        return first.data
    whole = bytearray(file.size_bytes)
    for segment in chain((first,), segments):
        if segment.data is not None:
            whole[segment.offset : segment.offset + segment.length] = segment.data
    return memoryview(whole)
