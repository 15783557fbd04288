"""
Bound what boxes can take of the hub: requests at once, large bodies at once, and requests of one box or address.

Everything here runs in the event loop, so it needs no locks.
"""

from __future__ import annotations

import random
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager

_MOST_BUCKETS = 100_000


class Refused(Exception):
    """
    Say that a request is refused before it is looked at.

    Args:
        code: of the error, for programs.
        retry_after_s: when the same may be tried again; None: never.
    """

    def __init__(self, status: int, code: str, message: str, retry_after_s: int | None = None) -> None:
        super().__init__(message)
        self.status = status
        self.code = code
        self.message = message
        self.retry_after_s = retry_after_s


class Rates:
    """
    Token buckets, one for each key.

    Args:
        per_s: how many requests a key may make in the long run, each second.
        burst: how many at once.
    """

    def __init__(self, per_s: float, burst: int, clock: Callable[[], float] = time.monotonic) -> None:
        self._per_s = per_s
        self._burst = burst
        self._clock = clock
        self._buckets: dict[object, tuple[float, float]] = {}

    def take(self, key: object) -> None:
        """
        Take one token.

        Raises:
            Refused: 429, there is none.
        """
        now = self._clock()
        if len(self._buckets) >= _MOST_BUCKETS:
            self._forget_full(now)
        left = self._level(key, now)
        if left < 1:
            wait_s = 1 + int((1 - left) / self._per_s)
            raise Refused(429, "too_many", "too many requests; wait", wait_s)
        self._buckets[key] = (left - 1, now)

    def _level(self, key: object, now: float) -> float:
        left, then = self._buckets.get(key, (float(self._burst), now))
        return min(float(self._burst), left + (now - then) * self._per_s)

    def _forget_full(self, now: float) -> None:
        self._buckets = {key: bucket for key, bucket in self._buckets.items() if self._level(key, now) < self._burst}


class Slots:
    """
    Requests in work. One too many is refused, not queued: the box backs off, and the hub's memory stays bounded.

    Args:
        count: how many at once.
        each: how many of one key.
    """

    def __init__(self, count: int, each: int | None = None) -> None:
        self._count = count
        self._each = count if each is None else each
        self._held: Counter[object] = Counter()

    @contextmanager
    def hold(self, key: object = None) -> Iterator[None]:
        """
        Hold a slot during the block.

        Raises:
            Refused: 503, all are in use, or all that the key may have. The time to wait differs, so that 200 boxes do
                not come back at once.
        """
        if self._held.total() >= self._count or self._held[key] >= self._each:
            raise Refused(503, "busy", "the hub is busy", random.randint(2, 20))  # noqa: S311 - spreads load
        self._held[key] += 1
        try:
            yield
        finally:
            self._held[key] -= 1
            if not self._held[key]:
                del self._held[key]
