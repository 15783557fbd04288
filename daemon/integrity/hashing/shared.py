"""What the reading threads of one run share."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from queue import SimpleQueue
from typing import TYPE_CHECKING, NamedTuple

from integrity.errors import DeviceFailing, ReadInterrupted
from integrity.files.errorbudget import ErrorBudget
from integrity.files.read import Reader
from integrity.hashing.ledger import Delivery
from integrity.hashing.tasks import Failed, StopSignal, Task, Work
from integrity.hashing.todo import Todo
from integrity.hashing.turn import Turn

if TYPE_CHECKING:
    from integrity.files.batch import BatchReader

BUFFER_BYTES = 8 << 20
"""Read at once: what a disk needs for its full rate, and what dd is usually given."""

SIDE_BY_SIDE = 31
"""Large files for one thread at a time. With their blocks that is what the widest lanes hold."""


def small_bytes(block_size_bytes: int) -> int:
    """Say how large a file may be that is read as one piece, and so from a batch."""
    return min(block_size_bytes, BUFFER_BYTES)


class Batch(NamedTuple):
    """
    Small files, or one file, for one thread.

    Attributes:
        turn: the batches that have one are read one after the other where only one thread may read, in this order,
            from 0 on; None for one large file that lies in memory, which any thread may read at any time (R4).
    """

    turn: int | None
    tasks: Work

    @property
    def size_bytes(self) -> int:
        """Say how much there is to read, as far as known."""
        return self.tasks.size_bytes if isinstance(self.tasks, Task) else sum(self.tasks.sizes_bytes)


class Shared(NamedTuple):
    """
    What is the same for all threads.

    Attributes:
        batch_reader: for the short way, if there is one.
        turn: whose turn it is to read from the disk; None where all may.
        pool: threads for what is hashed beside the reading; None if nothing is.
    """

    reader: Reader
    batch_reader: BatchReader | None
    budget: ErrorBudget
    stop: StopSignal
    monotonic: Callable[[], float]
    turn: Turn | None
    pool: ThreadPoolExecutor | None
    todo: Todo[Batch]
    deliveries: SimpleQueue[Delivery]

    @property
    def is_over(self) -> bool:
        """Say whether no more files are to be begun."""
        return self.stop.is_set() or self.budget.is_spent

    def find_obstacle(self, task: Task) -> Failed | None:
        """Answer for a task that is not to be begun."""
        if self.stop.is_set():
            return Failed(task, ReadInterrupted("interrupted"))
        if self.budget.is_spent:
            return Failed(task, DeviceFailing("not read: the device had too many read errors and is left alone"))
        return None
