"""
What one reading thread has to answer for, and whether the device has left it hanging.

I1  Every task that was begun is answered exactly once: by the thread, or by ``abandon_if_stalled`` from another one.
I2  What an abandoned thread still finds out is thrown away: each of its calls raises ``AbandonedError``.
I3  Only the time within ``busy`` counts as hanging: neither hashing nor waiting for the turn does.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from queue import SimpleQueue
from typing import NamedTuple

from integrity.errors import DeviceStalled
from integrity.hashing.tasks import Answer, DoneBatch, Failed, Partial, Result, Task, TaskBatch, Work

_RESULTS_AT_ONCE = 64
"""So many are sent at the latest: whoever waits for them may be writing them down."""


_NO_TASKS = TaskBatch((), (), (), (), (), 1)


class Delivery(NamedTuple):
    """What a thread sends: answers, how many batches are over with them, or the error that it died of."""

    results: Sequence[Answer]
    ended: int = 0  # of small files
    ended_large: int = 0  # of one large file each
    error: BaseException | None = None


class AbandonedError(Exception):
    """Nobody waits for this thread any more."""


@dataclass(slots=True, eq=False)
class OpenBatch:
    """
    Tasks that a thread has begun and not answered all.

    Attributes:
        tasks: all of them.
        waiting: indexes of those that are neither answered nor to be answered by themselves.
        singles: so many are to be answered by themselves.
    """

    tasks: TaskBatch
    waiting: set[int]
    is_large: bool = False
    singles: int = 0


class Ledger:
    """
    The tasks that a thread has begun, and their answers; used by that thread, but for what says otherwise.

    Attributes:
        is_abandoned: nobody waits for the thread any more; may be read from any thread.
        bytes_done: what was read so far, holes included; may be read from any thread.
    """

    def __init__(self, deliveries: SimpleQueue[Delivery], monotonic: Callable[[], float]) -> None:
        self._deliveries = deliveries
        self._monotonic = monotonic
        self._lock = threading.Lock()  # over the next five
        self._results: list[Answer] = []
        self._open: dict[int, OpenBatch] = {}  # by identity
        self._singles: dict[int, tuple[Task, list[OpenBatch]]] = {}  # the same, but one may be given twice
        self._ended = 0
        self._ended_large = 0
        self.is_abandoned = False
        self._busy_since: float | None = None
        self.bytes_done = 0

    def begin(self, tasks: Work, *, is_large: bool = False) -> OpenBatch:
        """Note that tasks have to be answered, beside those that have not ended."""
        if isinstance(tasks, Task):
            batch = OpenBatch(_NO_TASKS, set(), is_large)
        else:
            batch = OpenBatch(tasks, set(range(len(tasks))), is_large)
        with self._lock:
            self._check()
            self._open[id(batch)] = batch
            if isinstance(tasks, Task):
                self._await_single(tasks, batch)
        return batch

    def take_out(self, batch: OpenBatch, indexes: Sequence[int]) -> list[Task]:
        """Note that some tasks are to be answered by themselves, and give them."""
        tasks = [batch.tasks.task(index) for index in indexes]
        with self._lock:
            self._check()
            batch.waiting.difference_update(indexes)
            for task in tasks:
                self._await_single(task, batch)
        return tasks

    def add(self, result: Result) -> None:
        """Note the answer for a task that was taken out; one that is not its last is sent at once."""
        with self._lock:
            self._check()
            self._results.append(result)
            if not isinstance(result, Partial):
                self._answer(result.task)
        if len(self._results) >= _RESULTS_AT_ONCE or isinstance(result, Partial):
            self.send()

    def add_batch(self, batch: OpenBatch, indexes: range, done: DoneBatch) -> None:
        """Note answers for all of some tasks that were not taken out."""
        with self._lock:
            self._check()
            self._results.append(done)
            batch.waiting.difference_update(indexes)
            self._end_if_answered(batch)

    def send(self) -> None:
        """Deliver the answers so far."""
        with self._lock:
            self._check()
            self._deliver()

    @contextmanager
    def busy(self) -> Iterator[None]:
        """Let the clock of a read that may hang run within the block."""
        self._busy_since = self._monotonic()
        try:
            yield
        finally:
            self._busy_since = None

    def abandon_if_stalled(self, now: float, stall_s: float) -> bool:
        """Give the thread up if it hangs in a read, and answer for it; from any thread."""
        with self._lock:
            if self._busy_since is None or now - self._busy_since <= stall_s:
                return False
            self.is_abandoned = True
            message = f"a read has not come back for {stall_s:.0f} s: the device hangs; look at its cables and at dmesg"
            for batch in list(self._open.values()):
                tasks = [batch.tasks.task(index) for index in batch.waiting]
                self._results += [Failed(task, DeviceStalled(message)) for task in tasks]
                batch.waiting.clear()
                self._end_if_answered(batch)
            for task in [task for task, batches in self._singles.values() for _ in batches]:
                self._results.append(Failed(task, DeviceStalled(message)))
                self._answer(task)
            self._deliver()
        return True

    def _await_single(self, task: Task, batch: OpenBatch) -> None:
        self._singles.setdefault(id(task), (task, []))[1].append(batch)
        batch.singles += 1

    def _answer(self, task: Task) -> None:
        _, batches = self._singles[id(task)]
        batch = batches.pop()
        if not batches:
            del self._singles[id(task)]
        batch.singles -= 1
        self._end_if_answered(batch)

    def _end_if_answered(self, batch: OpenBatch) -> None:
        if not (batch.waiting or batch.singles):
            del self._open[id(batch)]
            self._ended += not batch.is_large
            self._ended_large += batch.is_large

    def _deliver(self) -> None:
        if self._results:
            self._deliveries.put(Delivery(self._results, self._ended, self._ended_large))
            self._results, self._ended, self._ended_large = [], 0, 0

    def _check(self) -> None:
        if self.is_abandoned:
            raise AbandonedError
