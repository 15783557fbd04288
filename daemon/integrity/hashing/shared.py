"""What the reading threads of one run share, and what they need of whatever they read."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from queue import SimpleQueue
from typing import TYPE_CHECKING, NamedTuple, Protocol, Self

from integrity.errors import DeviceFailing, ReadInterrupted
from integrity.files.buffers import Buffers
from integrity.files.errorbudget import ErrorBudget
from integrity.hashing.ledger import Delivery
from integrity.hashing.tasks import Failed, StopSignal, Task, Work
from integrity.hashing.todo import Todo, Turn

if TYPE_CHECKING:
    from integrity.files.read import Segment
    from integrity.hashing.small_batch import SmallReader
    from integrity.model import ByteRange, ReadHow, Witness

BUFFER_BYTES = 8 << 20
"""Read at once: what a disk needs for its full rate, and what dd is usually given."""

SIDE_BY_SIDE = 31
"""Large files for one thread at a time. With their blocks that is what the widest lanes hold."""


def small_bytes(block_size_bytes: int) -> int:
    """Say how large a file may be that is read as one piece, and so from a batch."""
    return min(block_size_bytes, BUFFER_BYTES)


def can_go_beside(task: Task) -> bool:
    """Say whether the C core computes all that is wanted of a large file beside others."""
    return task.probe is None and not task.want.blake3 and not task.want.others


class OpenedFile(Protocol):
    """One open file; what its parts mean is said in ``files.read``, for ``files.plain`` as well."""

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


class FileReader(Protocol):
    """What opens files, in the same way."""

    def batch(self) -> SmallReader | None: ...  # noqa: D102
    def lies_in_memory(self, path: bytes) -> bool: ...  # noqa: D102
    def open(self, path: bytes, known_bad: tuple[ByteRange, ...] = ()) -> OpenedFile: ...  # noqa: D102


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
        side_by_side: large files for one thread at a time.
    """

    reader: FileReader
    batch_reader: SmallReader | None
    budget: ErrorBudget
    stop: StopSignal
    monotonic: Callable[[], float]
    turn: Turn | None
    pool: ThreadPoolExecutor | None
    side_by_side: int
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
