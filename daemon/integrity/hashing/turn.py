"""Whose turn it is to read from a disk that only one should read from at a time (R4)."""

from __future__ import annotations

import threading


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
