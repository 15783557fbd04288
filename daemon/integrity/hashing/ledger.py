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
from queue import SimpleQueue
from typing import NamedTuple

from integrity.errors import DeviceStalled
from integrity.hashing.tasks import Failed, Partial, Result, Task

_RESULTS_AT_ONCE = 64
"""So many are sent at the latest: whoever waits for them may be writing them down."""


class Delivery(NamedTuple):
    """What a thread sends: answers, how many batches are over with them, or the error that it died of."""

    results: Sequence[Result]
    ended: int = 0
    is_large: bool = False  # those batches are of one large file each
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
        self._batches = 0
        self._is_large = False
        self._results: list[Result] = []
        self._unanswered: list[Task] = []
        self.is_abandoned = False
        self._busy_since: float | None = None
        self.bytes_done = 0

    def begin(self, tasks: Iterable[Task], *, is_large: bool = False) -> None:
        """Note that a batch has to be answered, beside those of the same kind that have not ended."""
        with self._lock:
            self._check()
            self._batches += 1
            self._is_large = is_large
            self._unanswered += tasks

    def add(self, result: Result) -> None:
        """Note an answer; one that is not the last of its task is sent at once."""
        with self._lock:
            self._check()
            self._results.append(result)
            if not isinstance(result, Partial):
                # Usually the first one; identity, because two tasks may be equal.
                del self._unanswered[next(i for i, task in enumerate(self._unanswered) if task is result.task)]
        if len(self._results) >= _RESULTS_AT_ONCE or isinstance(result, Partial):
            self.send()

    def add_many(self, results: Sequence[Result], left: Iterable[Task]) -> None:
        """Note the answers of all that was begun but for ``left``."""
        with self._lock:
            self._check()
            self._results.extend(results)
            self._unanswered = list(left)

    def send(self, *, ended: int = 0) -> None:
        """Deliver the answers so far; ``ended`` batches are over with them."""
        with self._lock:
            self._check()
            self._deliveries.put(Delivery(self._results, ended, self._is_large))
            self._results = []
            self._batches -= ended

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
            failed = [Failed(task, DeviceStalled(message)) for task in self._unanswered]
            self._deliveries.put(Delivery([*self._results, *failed], self._batches, self._is_large))
        return True

    def _check(self) -> None:
        if self.is_abandoned:
            raise AbandonedError
