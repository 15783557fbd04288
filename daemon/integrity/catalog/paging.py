"""
Write many rows in several short transactions, so that other connections get the write lock in between.

The catalog has one write lock, and a waiting connection fails after its busy timeout. So an unbounded number of rows is
written in pages; each page leaves a state that another run can continue from.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from functools import partial
from itertools import islice
from typing import TypeVar

from integrity.catalog.db import Connection

_HOLD_S = 0.3  # a page ends after this time; its last rows and the commit come on top
_LONG_S = 0.02
_HELD_MOST_S = 0.25
"""
After this much time in consecutive long transactions a gap follows; short transactions leave enough gaps.

Shorter than a page: a connection that starts to wait during a page waits only for the rest of that page.
"""

_GAP_S = 0.12
"""SQLite polls the lock every 100 ms. The lock must be free for longer, or a waiting connection never gets it."""

T = TypeVar("T")

_ROWS = 100  # rows between two checks of the clock: less than a second even at some milliseconds for each row


def write_in_pages(
    transaction: Callable[[], AbstractContextManager[Connection]],
    items: Sequence[T],
    write: Callable[[Connection, Sequence[T]], object],
    *,
    rows: int = _ROWS,
    monotonic: Callable[[], float] = time.monotonic,
) -> None:
    """Write all items, in this order, ``rows`` with each call of ``write``, in as many transactions as needed."""
    queue = deque(items)
    while queue:
        with transaction() as connection:
            write_page(queue, rows, partial(write, connection), make_timer(monotonic))


def write_page(queue: deque[T], rows: int, write: Callable[[list[T]], object], is_over: Callable[[], bool]) -> bool:
    """Write from the front of a queue, ``rows`` items at a time, until the page is over; return whether it is empty."""
    while queue:
        some = list(islice(queue, rows))
        write(some)
        for _ in some:
            queue.popleft()
        if is_over():
            break
    return not queue


def make_timer(monotonic: Callable[[], float]) -> Callable[[], bool]:
    """Start a page; the returned function returns whether the page is over."""
    until = monotonic() + _HOLD_S
    return lambda: monotonic() >= until


class LockGap:
    """
    Leave the write lock free between two long transactions of one connection, so that others get it.

    SQLite does not queue waiting connections: a connection that takes the lock again immediately keeps it from all
    others until their busy timeouts expire.
    """

    def __init__(
        self, monotonic: Callable[[], float] = time.monotonic, sleep: Callable[[float], None] = time.sleep
    ) -> None:
        self._monotonic = monotonic
        self._sleep = sleep
        self._began_at = self._ended_at = self._held_s = 0.0

    def before(self) -> None:
        """Wait for a gap, if the lock was held for long without one."""
        since_s = self._monotonic() - self._ended_at
        if since_s < _GAP_S and self._held_s > _HELD_MOST_S:
            self._sleep(_GAP_S - since_s)
            since_s = _GAP_S
        if since_s >= _GAP_S:
            self._held_s = 0.0

    def began(self) -> None:
        """Note that the lock was taken."""
        self._began_at = self._monotonic()

    def ended(self) -> None:
        """Note that the lock was released."""
        self._ended_at = self._monotonic()
        duration_s = self._ended_at - self._began_at
        self._held_s += duration_s if duration_s > _LONG_S else 0.0
