"""
What one reading thread has to answer for, and whether the device has left it hanging.

I1  Every task that was begun is answered exactly once: by the thread, or by ``abandon_if_stalled`` from another one.
I2  What an abandoned thread still finds out is thrown away: each of its calls raises ``AbandonedError``.
I3  Only the time within ``busy`` counts as hanging: neither hashing nor waiting for the turn does.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from queue import SimpleQueue
from typing import NamedTuple

from integrity.errors import DeviceStalled
from integrity.hashing.tasks import Failed, Partial, Result, Task

_RESULTS_AT_ONCE = 64
"""So many are sent at the latest: whoever waits for them may be writing them down."""


class Delivery(NamedTuple):
    """What a thread sends: answers, how many batches are over with them, or the error that it died of."""

    results: Sequence[Result]
    ended: int = 0  # of small files
    ended_large: int = 0  # of one large file each
    error: BaseException | None = None


class AbandonedError(Exception):
    """Nobody waits for this thread any more."""


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
        self._results: list[Result] = []
        self._unanswered: dict[int, tuple[Task, list[_Open]]] = {}  # by identity, because two tasks may be equal
        self._ended = 0
        self._ended_large = 0
        self.is_abandoned = False
        self._busy_since: float | None = None
        self.bytes_done = 0

    def begin(self, tasks: Iterable[Task], *, is_large: bool = False) -> None:
        """Note that a batch has to be answered, beside those that have not ended."""
        with self._lock:
            self._check()
            batch = _Open(is_large)
            for task in tasks:
                self._unanswered.setdefault(id(task), (task, []))[1].append(batch)  # a task may be given twice
                batch.left += 1

    def add(self, result: Result) -> None:
        """Note an answer; one that is not the last of its task is sent at once."""
        self.add_many((result,))
        if len(self._results) >= _RESULTS_AT_ONCE or isinstance(result, Partial):
            self.send()

    def add_many(self, results: Iterable[Result]) -> None:
        """Note answers."""
        with self._lock:
            self._check()
            for result in results:
                self._results.append(result)
                if not isinstance(result, Partial):
                    self._answer(result.task)

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
            for task in [task for task, batches in self._unanswered.values() for _ in batches]:
                self._results.append(Failed(task, DeviceStalled(message)))
                self._answer(task)
            self._deliver()
        return True

    def _answer(self, task: Task) -> None:
        _, batches = self._unanswered[id(task)]
        batch = batches.pop()
        if not batches:
            del self._unanswered[id(task)]
        batch.left -= 1
        self._ended += not batch.left and not batch.is_large
        self._ended_large += not batch.left and batch.is_large

    def _deliver(self) -> None:
        if self._results:
            self._deliveries.put(Delivery(self._results, self._ended, self._ended_large))
            self._results, self._ended, self._ended_large = [], 0, 0

    def _check(self) -> None:
        if self.is_abandoned:
            raise AbandonedError


@dataclass(slots=True)
class _Open:
    """A batch that was begun."""

    is_large: bool
    left: int = 0  # of its tasks, not answered yet
