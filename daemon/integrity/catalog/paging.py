"""
Many rows in several short transactions, so that others get the write lock in between.

There is one write lock for the whole catalog, and those who wait for it give up after the busy timeout. So whoever
writes rows without bound writes them in pages, each of which leaves a state that another run can go on from.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from functools import partial
from itertools import islice
from typing import TypeVar

from sqlalchemy import Connection

_HOLD_S = 0.3
"""A page ends when it has taken so long; what it wrote last and the commit come on top."""

_LONG_S = 0.02
_HELD_MOST_S = 0.25
"""
So much of long transactions in a row is followed by a gap; shorter ones leave gaps enough.

Less than a page takes: who comes in the middle of one waits for the rest of it alone.
"""

_GAP_S = 0.12
"""SQLite looks every 100 ms whether the lock is free: so long it must be, or those who wait never find it so."""

T = TypeVar("T")

_ROWS = 100
"""Rows between two looks at the clock: at the most that a row costs, some milliseconds, still within a second."""


def write_in_pages(
    transaction: Callable[[], AbstractContextManager[Connection]],
    items: Sequence[T],
    write: Callable[[Connection, Sequence[T]], object],
    *,
    rows: int = _ROWS,
    monotonic: Callable[[], float] = time.monotonic,
) -> None:
    """
    Write all items, in as many transactions as it takes.

    Args:
        transaction: opens one.
        items: what is written, in this order.
        write: writes some of them.
        rows: how many at a time.
        monotonic: seconds.
    """
    queue = deque(items)
    while queue:
        with transaction() as connection:
            write_page(queue, rows, partial(write, connection), make_timer(monotonic))


def write_page(queue: deque[T], rows: int, write: Callable[[list[T]], object], is_over: Callable[[], bool]) -> bool:
    """Write from the front of a queue, so many rows at a time, until the page is over; return whether none is left."""
    while queue:
        some = list(islice(queue, rows))
        write(some)
        for _ in some:
            queue.popleft()
        if is_over():
            break
    return not queue


def make_timer(monotonic: Callable[[], float]) -> Callable[[], bool]:
    """Begin a page; the returned function says when it is over."""
    until = monotonic() + _HOLD_S
    return lambda: monotonic() >= until


class LockGap:
    """
    Leave the write lock free between two long transactions of one connection, so that others get it.

    SQLite has no queue for the lock. Without this, whoever takes it again at once keeps it from all others until their
    busy timeouts are over.
    """

    def __init__(
        self, monotonic: Callable[[], float] = time.monotonic, sleep: Callable[[float], None] = time.sleep
    ) -> None:
        self._monotonic = monotonic
        self._sleep = sleep
        self._began_at = self._ended_at = self._held_s = 0.0

    def before(self) -> None:
        """Wait, if the lock was hardly free for some time."""
        since_s = self._monotonic() - self._ended_at
        if since_s < _GAP_S and self._held_s > _HELD_MOST_S:
            self._sleep(_GAP_S - since_s)
            since_s = _GAP_S
        if since_s >= _GAP_S:
            self._held_s = 0.0

    def began(self) -> None:
        """Note that the lock is held from now on."""
        self._began_at = self._monotonic()

    def ended(self) -> None:
        """Note that it is free."""
        self._ended_at = self._monotonic()
        duration_s = self._ended_at - self._began_at
        self._held_s += duration_s if duration_s > _LONG_S else 0.0
