"""
What the reading threads have to do, and who does which part of it.

Small files wait in batches, large ones that need no disk one by one: the thread that takes some of these takes several,
for their digests cost least when they are computed side by side. The largest go first: begun last, each would be left
alone at the end. Decides nothing about how files are read.

I1  A batch is handed out once, or taken back, but never both.
I2  No thread waits for long while there is something to do.
"""

from __future__ import annotations

import threading
from collections import deque
from heapq import heappop, heappush
from itertools import count
from typing import NamedTuple

from integrity.hashing.tasks import Task

SIDE_BY_SIDE = 31
"""Large files for one thread at a time. With their blocks that is what the widest lanes hold."""

MOST_LARGE = 4 * SIDE_BY_SIDE
"""So many may wait for one thread, to choose from."""

_MANY = MOST_LARGE
_ENOUGH = 16
"""So many large files are worth to be begun while more may come: before small ones, or when there are no small ones."""


class Batch(NamedTuple):
    """
    Tasks for one thread.

    Attributes:
        turn: the batches that have one are read one after the other where only one thread may read, in this order,
            from 0 on; None for one large file that lies in memory, which any thread may read at any time (R4).
    """

    turn: int | None
    tasks: list[Task]


class Todo:
    """
    Batches that wait. Any thread may use it.

    Args:
        threads: how many take from it.
    """

    def __init__(self, threads: int) -> None:
        self._threads = threads
        self._busy = 0
        self._changed = threading.Condition()
        self._small: deque[Batch] = deque()
        self._large: list[tuple[int, int, Batch]] = []  # a heap, the largest file first
        self._numbers = count()
        self._is_whole = False  # no more will come

    def put(self, batch: Batch) -> None:
        """Add a batch."""
        with self._changed:
            if batch.turn is None:
                heappush(self._large, (-batch.tasks[0].size_bytes, next(self._numbers), batch))
            else:
                self._small.append(batch)
            self._changed.notify()

    def end(self) -> None:
        """Say that no more will come; may be said again."""
        with self._changed:
            self._is_whole = True
            self._changed.notify_all()

    def take(self) -> list[Batch]:
        """
        Wait for something to do; the thread counts as busy until it calls ``rest``.

        Returns:
            A batch of small files, or a share of the large ones; nothing when all is done.
        """
        with self._changed:
            while True:
                batches = self._choose()
                if batches:
                    self._busy += 1
                    return batches
                if self._is_whole:
                    return []
                self._changed.wait()

    def take_more(self, most: int) -> list[Batch]:
        """Take a share of the large files for a thread that has room for so many beside others; without waiting."""
        with self._changed:
            return self._share(most, takers=self._threads if self._is_whole else 1)

    def rest(self) -> None:
        """Say that a thread has done what it took."""
        with self._changed:
            self._busy -= 1

    def take_back(self) -> list[Batch]:
        """Take back what no thread has begun."""
        with self._changed:
            batches = [*self._small, *(batch for _, _, batch in self._large)]
            self._small.clear()
            self._large.clear()
            return batches

    def _choose(self) -> list[Batch]:
        """Take the large files when there are many to choose from, or when there is nothing better to do."""
        if len(self._large) >= _MANY or (self._large and self._is_whole):
            return self._share(SIDE_BY_SIDE, takers=self._threads - self._busy)
        if self._small:
            return [self._small.popleft()]
        if len(self._large) >= _ENOUGH:
            return self._share(SIDE_BY_SIDE, takers=1)
        return []

    def _share(self, most: int, takers: int) -> list[Batch]:
        share = min(most, -(-len(self._large) // max(takers, 1)))
        return [heappop(self._large)[2] for _ in range(share)]
