"""
What the reading threads have to do, and who does which part of it.

Small files wait in batches, large ones one by one: the thread that takes some of these takes several, for their digests
cost least when they are computed side by side. The largest go first: begun last, each would be left alone at the end.
Decides nothing about how files are read.

I1  What was put in is handed out once, or taken back, but never both.
I2  No thread waits for long while there is something to do.
"""

from __future__ import annotations

import threading
from collections import deque
from heapq import heappop, heappush
from itertools import count
from typing import Generic, TypeVar

T = TypeVar("T")

_ENOUGH = 16
"""So many large files are worth to be begun although more may come, when there is nothing else to do."""

_PATIENCE_S = 0.05
"""Fewer are begun as well when nothing has come for so long: an idle thread gains nothing by waiting for more."""


class Todo(Generic[T]):
    """
    What waits for some threads. Any thread may use it.

    Args:
        threads: how many take from it.
        side_by_side: large files for one thread at a time.
    """

    def __init__(self, threads: int, side_by_side: int) -> None:
        self._threads = threads
        self._side_by_side = side_by_side
        self._busy = 0
        self._changed = threading.Condition()
        self._small: deque[T] = deque()
        self._large: list[tuple[int, int, T]] = []  # a heap, the largest file first
        self._numbers = count()
        self._is_whole = False  # no more will come
        self._is_pressing = False  # or not until what is there is done

    @property
    def most_large(self) -> int:
        """Say how many large files may wait, so that there is something to choose from."""
        return 4 * self._side_by_side * self._threads

    def put(self, item: T) -> None:
        """Add something that one thread does by itself."""
        with self._changed:
            self._small.append(item)
            self._changed.notify()

    def put_large(self, item: T, size_bytes: int) -> None:
        """Add a large file that can be read beside others."""
        with self._changed:
            heappush(self._large, (-size_bytes, next(self._numbers), item))
            self._changed.notify()

    def press(self, is_pressing: bool) -> None:
        """Say that whoever puts things in waits for what is there, or no longer waits."""
        if is_pressing is not self._is_pressing:
            with self._changed:
                self._is_pressing = is_pressing
                self._changed.notify_all()

    def end(self) -> None:
        """Say that no more will come; may be said again."""
        with self._changed:
            self._is_whole = True
            self._changed.notify_all()

    def take(self, *, has_unfinished: bool = False) -> list[T] | None:
        """
        Wait for something to do; the thread counts as busy until it calls ``rest``.

        Args:
            has_unfinished: there is something that the thread can finish when nothing comes for a moment.

        Returns:
            One thing that was ``put``, or a share of the large files; nothing when all is done; None when there is
            nothing for the moment, and something unfinished.
        """
        is_patient = True
        with self._changed:
            while True:
                items = self._choose(is_patient=is_patient)
                if items:
                    self._busy += 1
                    return items
                if has_unfinished and (self._is_urgent or not is_patient):
                    return None
                if self._is_whole:
                    return []
                is_patient = self._changed.wait(_PATIENCE_S if self._large or has_unfinished else None)

    def take_more(self, most: int) -> list[T]:
        """Take a share of the large files for a thread that has room for so many beside others; without waiting."""
        with self._changed:
            return self._share(most, takers=self._threads if self._is_urgent else 1)

    def rest(self) -> None:
        """Say that a thread has done what it took."""
        with self._changed:
            self._busy -= 1
            self._changed.notify_all()

    def take_back(self) -> list[T]:
        """Take back what no thread has begun."""
        with self._changed:
            items = [*self._small, *(item for _, _, item in self._large)]
            self._small.clear()
            self._large.clear()
            return items

    @property
    def _is_urgent(self) -> bool:
        return self._is_whole or self._is_pressing

    def _choose(self, *, is_patient: bool) -> list[T]:
        """Take large files when there are many to choose from, or nothing else: few of them leave lanes empty."""
        if len(self._large) >= 4 * self._side_by_side:
            return self._share(self._side_by_side, takers=self._threads - self._busy)
        if self._small:
            return [self._small.popleft()]
        if self._is_urgent or not is_patient or len(self._large) >= _ENOUGH:
            return self._share(self._side_by_side, takers=self._threads - self._busy)
        return []

    def _share(self, most: int, takers: int) -> list[T]:
        """Take a part as large as that of each other taker, and of files as long: every second one for two."""
        takers = max(takers, 1)
        share = min(most, -(-len(self._large) // takers))
        longest = [heappop(self._large) for _ in range(min(share * takers, len(self._large)))]
        taken = longest[::takers]
        for place, left in enumerate(longest):
            if place % takers:
                heappush(self._large, left)
        return [item for _, _, item in taken]


class Turn:
    """
    Let one thread in at a time, in the order of the numbers 0, 1, 2, ...

    Every number must be passed on once its holder is done, whether it was waited for or not.
    """

    def __init__(self) -> None:
        self._condition = threading.Condition()
        self._next = 0
        self._over: set[int] = set()  # passed on before it was their turn

    def wait(self, number: int) -> None:
        """Wait until all numbers below have been passed on."""
        with self._condition:
            self._condition.wait_for(lambda: self._next >= number)

    def pass_on(self, number: int) -> None:
        """Let the next one in. May be called twice, also by another thread: the holder may hang in the kernel."""
        with self._condition:
            if number < self._next:
                return
            self._over.add(number)
            while self._next in self._over:
                self._over.remove(self._next)
                self._next += 1
            self._condition.notify_all()
