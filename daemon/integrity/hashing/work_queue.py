"""
State that the reading threads of a run share: the work queue, the turn to read, and each thread's open answers.

Small files wait in batches, large ones singly: a thread takes several large files, because digests are cheapest side by
side, and the largest first, so that none is left alone at the end. Decides nothing about how files are read.

I1  Each queued item is handed out once or taken back, never both.
I2  No thread waits for long while there is work.
I3  Every task begun is answered exactly once: by its thread, or by ``abandon_if_stalled`` from another one.
I4  Later results of an abandoned thread are discarded: each of its calls raises ``AbandonedError``.
I5  Only time within ``busy`` counts as stalled: neither hashing nor waiting for the turn does.
"""

from __future__ import annotations

import os
import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from heapq import heappop, heappush
from itertools import count
from queue import SimpleQueue
from typing import TYPE_CHECKING, Generic, NamedTuple, Protocol, Self, TypeVar

from integrity.errors import DeviceFailing, DeviceStalled, ReadInterrupted
from integrity.files.buffers import Buffers
from integrity.files.read_errors import ErrorBudget
from integrity.hashing.tasks import Answer, Failed, Partial, StopSignal, Task, TaskBatch

if TYPE_CHECKING:
    from integrity.files.batch import Arena
    from integrity.files.read import Segment
    from integrity.model import ByteRange, ReadHow, Witness

T = TypeVar("T")

_ENOUGH = 16
"""With this many large files an otherwise idle thread begins, although more may come."""

_GRACE_S = 0.05
"""After this wait it begins with fewer: an idle thread gains nothing by waiting for more."""


class WorkQueue(Generic[T]):
    """
    Queue of work for several threads. Any thread may use it.

    Args:
        threads: number of threads that take from it.
        side_by_side: most large files per thread at a time.
    """

    def __init__(self, threads: int, side_by_side: int) -> None:
        self._threads = threads
        self._side_by_side = side_by_side
        self._busy = 0
        self._changed = threading.Condition()
        self._small: deque[T] = deque()
        self._large: list[tuple[int, int, T]] = []  # heap, largest file first
        self._numbers = count()
        self._is_whole = False  # no more will come
        self._is_flushing = False  # the producer waits until the queued work is done

    @property
    def most_large(self) -> int:
        """Return how many large files may wait, so that there is a choice."""
        return 4 * self._side_by_side * self._threads

    def put(self, item: T) -> None:
        """Add work for one thread alone."""
        with self._changed:
            self._small.append(item)
            self._changed.notify()

    def put_large(self, item: T, size_bytes: int) -> None:
        """Add a large file that can be read side by side with others."""
        with self._changed:
            heappush(self._large, (-size_bytes, next(self._numbers), item))
            self._changed.notify()

    def set_flushing(self, is_flushing: bool) -> None:
        """Set whether the producer waits for the queued work before it adds more."""
        if is_flushing is not self._is_flushing:
            with self._changed:
                self._is_flushing = is_flushing
                self._changed.notify_all()

    def end(self) -> None:
        """Announce that no more will come; may be called again."""
        with self._changed:
            self._is_whole = True
            self._changed.notify_all()

    def take(self, *, has_unfinished: bool = False) -> list[T] | None:
        """
        Wait for work; the thread counts as busy until it calls ``mark_idle``.

        Args:
            has_unfinished: the thread has work that it can finish if nothing comes for a moment.

        Returns:
            One ``put`` item or a share of the large files; empty when all is done; None if there is nothing for the
            moment and the thread has unfinished work.
        """
        can_wait = True
        with self._changed:
            while True:
                items = self._choose(can_wait=can_wait)
                if items:
                    self._busy += 1
                    return items
                if has_unfinished and (self._is_urgent or not can_wait):
                    return None
                if self._is_whole:
                    return []
                can_wait = self._changed.wait(_GRACE_S if self._large or has_unfinished else None)

    def take_more(self, most: int) -> list[T]:
        """Take a share of the large files, at most ``most``, for a thread that already reads others; never waits."""
        with self._changed:
            return self._share(most, takers=self._threads if self._is_urgent else 1)

    def mark_idle(self) -> None:
        """Announce that a thread has finished what it took."""
        with self._changed:
            self._busy -= 1
            self._changed.notify_all()

    def take_back(self) -> list[T]:
        """Remove and return everything that no thread has begun."""
        with self._changed:
            items = [*self._small, *(item for _, _, item in self._large)]
            self._small.clear()
            self._large.clear()
            return items

    @property
    def _is_urgent(self) -> bool:
        return self._is_whole or self._is_flushing

    def _choose(self, *, can_wait: bool) -> list[T]:
        """Take large files if there are many, or nothing else: a few of them leave lanes empty."""
        if len(self._large) >= 4 * self._side_by_side:
            return self._share(self._side_by_side, takers=self._threads - self._busy)
        if self._small:
            return [self._small.popleft()]
        if self._is_urgent or not can_wait or len(self._large) >= _ENOUGH:
            return self._share(self._side_by_side, takers=self._threads - self._busy)
        return []

    def _share(self, most: int, takers: int) -> list[T]:
        """Take a fair share with files of similar size: for two takers, every second of the largest."""
        takers = max(takers, 1)
        share = min(most, -(-len(self._large) // takers))
        longest = [heappop(self._large) for _ in range(min(share * takers, len(self._large)))]
        taken = longest[::takers]
        for place, left in enumerate(longest):
            if place % takers:
                heappush(self._large, left)
        return [item for _, _, item in taken]


class ReadTurn:
    """
    Admit one thread at a time, in the order of the numbers 0, 1, 2, ...

    Every number must be passed on once its holder is done, even if nobody waited for it.
    """

    def __init__(self) -> None:
        self._condition = threading.Condition()
        self._next = 0
        self._over: set[int] = set()  # passed on before their turn

    def wait(self, number: int) -> None:
        """Wait until all lower numbers have been passed on."""
        with self._condition:
            self._condition.wait_for(lambda: self._next >= number)

    def pass_on(self, number: int) -> None:
        """Admit the next thread. May be called twice, also by another thread: the holder may hang in the kernel."""
        with self._condition:
            if number < self._next:
                return
            self._over.add(number)
            while self._next in self._over:
                self._over.remove(self._next)
                self._next += 1
            self._condition.notify_all()


_RESULTS_AT_ONCE = 64
"""Send at this many results at the latest, so that the consumer can store them meanwhile."""


class Batch(NamedTuple):
    """
    Small files, or one file, for one thread.

    Attributes:
        turn: position in the order in which batches are read if only one thread may read, from 0; None for one large
            file in memory, which any thread may read at any time (R4).
    """

    turn: int | None
    tasks: TaskBatch

    @property
    def is_one_file(self) -> bool:
        """Return whether this is a file that is not read as one piece."""
        tasks = self.tasks
        return tasks.resume is not None or tasks.sizes_bytes[0] > small_bytes(tasks.block_size_bytes)


class AnswerBatch(NamedTuple):
    """A message from a thread: answers, the batches that they complete, or the error that ended the thread."""

    results: Sequence[Answer]
    ended: Sequence[Batch] = ()
    error: BaseException | None = None


class AbandonedError(Exception):
    """The thread was abandoned; nobody uses its results."""


class TaskLedger:
    """
    The tasks that a thread has begun, and their answers. Only that thread uses it, unless stated otherwise.

    Attributes:
        is_abandoned: the thread was abandoned; any thread may read it.
        bytes_done: bytes read so far, holes included; any thread may read it.
    """

    def __init__(self, deliveries: SimpleQueue[AnswerBatch], monotonic: Callable[[], float]) -> None:
        self._deliveries = deliveries
        self._monotonic = monotonic
        self._lock = threading.Lock()  # protects the next three
        self._results: list[Answer] = []
        self._open: dict[int, tuple[Batch, set[int]]] = {}  # by identity, each with the indexes of unanswered tasks
        self._ended: list[Batch] = []
        self.is_abandoned = False
        self._busy_since: float | None = None
        self.bytes_done = 0

    def begin(self, batch: Batch) -> None:
        """Record a batch that must be answered, in addition to the open ones."""
        with self._lock:
            self._check()
            self._open[id(batch)] = batch, set(range(len(batch.tasks)))

    def add(self, answer: Answer, batch: Batch, indexes: Sequence[int]) -> None:
        """Record the answer for some tasks of a batch; for none if it is a ``Partial``, which is sent at once."""
        with self._lock:
            self._check()
            self._results.append(answer)
            self._end(batch, indexes)
        if len(self._results) >= _RESULTS_AT_ONCE or isinstance(answer, Partial):
            self.send()

    def send(self) -> None:
        """Deliver the answers so far."""
        with self._lock:
            self._check()
            self._deliver()

    @contextmanager
    def busy(self) -> Iterator[None]:
        """Count the time within the block as a read that may hang."""
        self._busy_since = self._monotonic()
        try:
            yield
        finally:
            self._busy_since = None

    def abandon_if_stalled(self, now: float, stall_s: float) -> bool:
        """Abandon the thread if it hangs in a read, and fail its open tasks; callable from any thread."""
        with self._lock:
            if self._busy_since is None or now - self._busy_since <= stall_s:
                return False
            self.is_abandoned = True
            message = f"a read has not come back for {stall_s:.0f} s: the device hangs; look at its cables and at dmesg"
            for batch, waiting in list(self._open.values()):
                indexes = list(waiting)
                self._results += [Failed(batch.tasks.task(index), DeviceStalled(message)) for index in indexes]
                self._end(batch, indexes)
            self._deliver()
        return True

    def _end(self, batch: Batch, indexes: Sequence[int]) -> None:
        _, waiting = self._open[id(batch)]
        waiting.difference_update(indexes)
        if not waiting:
            del self._open[id(batch)]
            self._ended.append(batch)

    def _deliver(self) -> None:
        if self._results:
            self._deliveries.put(AnswerBatch(self._results, self._ended))
            self._results, self._ended = [], []

    def _check(self) -> None:
        if self.is_abandoned:
            raise AbandonedError


BUFFER_BYTES = 4 << 20
"""Read size: a disk reaches its full rate with it; twice as much is no faster and uses twice the memory."""

SIDE_BY_SIDE = 31
"""Large files per thread at a time. With their blocks they fill the widest lanes."""


def small_bytes(block_size_bytes: int) -> int:
    """Return the largest size of a file that is read as one piece, and so from a batch."""
    return min(block_size_bytes, BUFFER_BYTES)


def can_go_beside(task: Task) -> bool:
    """Return whether the C core computes everything wanted of a large file side by side with others."""
    return task.probe is None and not task.want.blake3 and not task.want.others


class OpenedFile(Protocol):
    """One open file; ``files.read`` documents the members, also for ``files.plain``."""

    @property
    def stat(self) -> os.stat_result: ...  # noqa: D102
    @property
    def size_bytes(self) -> int: ...  # noqa: D102
    @property
    def hole_bytes(self) -> int: ...  # noqa: D102
    @property
    def how(self) -> ReadHow: ...  # noqa: D102
    @property
    def bad_ranges(self) -> list[ByteRange]: ...  # noqa: D102
    @property
    def bytes_read(self) -> int: ...  # noqa: D102
    @property
    def witness(self) -> Witness: ...  # noqa: D102
    def segments(self, buffers: Buffers, start: int = 0) -> Iterator[Segment]: ...  # noqa: D102
    def lend(self) -> int | None: ...  # noqa: D102
    def take_back(self, start: int, end: int) -> None: ...  # noqa: D102
    def finish(self) -> Witness: ...  # noqa: D102
    def close(self) -> None: ...  # noqa: D102
    def __enter__(self) -> Self: ...
    def __exit__(self, *_: object) -> None: ...


class SmallReader(Protocol):
    """Reads small files into an arena; ``files.batch`` has two implementations."""

    @property
    def how(self) -> ReadHow:
        """Return how certain it is that the data came from the disk."""

    @property
    def waits_for_disk(self) -> bool:
        """Return whether it may be used only by the thread whose turn it is, if one thread may read at a time."""

    def read(
        self, paths: Sequence[bytes], sizes_bytes: Sequence[int], limit_bytes: int, arena: Arena
    ) -> tuple[int, int]:
        """Read files until the arena is full; return the first and the last racy timestamp."""


class FileReader(Protocol):
    """Opens files; ``files.read`` documents the members, also for ``files.plain``."""

    def small_readers(self) -> Sequence[SmallReader]: ...  # noqa: D102
    def can_read_beside(self, path: bytes) -> bool: ...  # noqa: D102
    def open(self, path: bytes, known_bad: tuple[ByteRange, ...] = ()) -> OpenedFile: ...  # noqa: D102


class Shared(NamedTuple):
    """
    Settings and objects that all threads share.

    Attributes:
        small_readers: fast paths for small files; each reads what those before it left out. Empty without the C core.
        turn: the turn to read from the disk; None if all threads may read.
        pool: threads that hash beside the reading; None for none.
        side_by_side: most large files per thread at a time.
    """

    reader: FileReader
    small_readers: Sequence[SmallReader]
    budget: ErrorBudget
    stop: StopSignal
    monotonic: Callable[[], float]
    turn: ReadTurn | None
    pool: ThreadPoolExecutor | None
    side_by_side: int
    work_queue: WorkQueue[Batch]
    deliveries: SimpleQueue[AnswerBatch]

    @property
    def is_over(self) -> bool:
        """Return whether no more files may be begun."""
        return self.stop.is_set() or self.budget.is_spent

    def find_obstacle(self, task: Task) -> Failed | None:
        """Return the failure of a task that must not be begun; None if it may."""
        if self.stop.is_set():
            return Failed(task, ReadInterrupted("interrupted"))
        if self.budget.is_spent:
            return Failed(task, DeviceFailing("not read: the device had too many read errors and is left alone"))
        return None
