"""
Bound what boxes and strangers can take of the hub: requests, large bodies at once, and readings of the tokens.

Everything here runs in the event loop, so it needs no locks. The tokens are kept in memory.

K1  A token is called unknown only after a reading of the boxes that began after the call came: a box that was added a
    moment ago is known.
K2  However many calls bring unknown tokens, there is one reading at a time, and a pause between two. They wait for the
    next one, so guessing is slow; a token that is known waits for nothing.
"""

from __future__ import annotations

import random
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager

import anyio

from integrity.errors import CallRefused, HubDatabaseAway
from integrity.hub.boxes import TOKEN_PREFIX, Box, hash_token

_MOST_BUCKETS = 100_000


class Rates:
    """Token buckets, one for each key, which may make so many requests each second in the long run."""

    def __init__(self, per_s: float, burst: int, clock: Callable[[], float] = time.monotonic) -> None:
        self._per_s = per_s
        self._burst = burst
        self._clock = clock
        self._buckets: dict[object, tuple[float, float]] = {}

    def take(self, key: object) -> None:
        """Take one token, or raise CallRefused (429)."""
        now = self._clock()
        if len(self._buckets) >= _MOST_BUCKETS:
            known = self._buckets.items()
            self._buckets = {one: bucket for one, bucket in known if self._level(one, now) < self._burst}  # not full
        left = self._level(key, now)
        if left < 1:
            wait_s = 1 + int((1 - left) / self._per_s)
            raise CallRefused(429, "too_many", "too many requests; wait", wait_s)
        self._buckets[key] = (left - 1, now)

    def _level(self, key: object, now: float) -> float:
        left, then = self._buckets.get(key, (float(self._burst), now))
        return min(float(self._burst), left + (now - then) * self._per_s)


class Slots:
    """Requests in work: ``count``, ``each`` of one key. One more is refused, so the memory of the hub is bounded."""

    def __init__(self, count: int, each: int | None = None) -> None:
        self._count = count
        self._each = count if each is None else each
        self._held: Counter[object] = Counter()

    @contextmanager
    def hold(self, key: object = None) -> Iterator[None]:
        """
        Hold a slot during the block.

        Raises:
            CallRefused: 503, all are in use, or all that the key may have. The time to wait differs, so that 200 boxes
                do not come back at once.
        """
        if self._held.total() >= self._count or self._held[key] >= self._each:
            raise CallRefused(503, "busy", "the hub is busy", random.randint(2, 20))  # noqa: S311 - spreads load
        self._held[key] += 1
        try:
            yield
        finally:
            self._held[key] -= 1
            if not self._held[key]:
                del self._held[key]


_PAUSE_S = 0.1
_CUT_OFF = "the tokens could not be read"


class TokenTable:
    """
    Finds whose a token is. For one event loop.

    Args:
        read: returns all boxes by what is stored of their tokens; raises HubDatabaseAway.
        sleep: waits for some seconds.
    """

    def __init__(
        self,
        read: Callable[[], Awaitable[Mapping[bytes, Box]]],
        sleep: Callable[[float], Awaitable[None]] = anyio.sleep,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._read = read
        self._sleep = sleep
        self._monotonic = monotonic
        self._boxes: dict[bytes, Box] = {}
        self._lock = anyio.Lock()
        self._begun = 0
        self._trouble = ""
        self._next_at = 0.0

    async def find(self, token: str) -> Box | None:
        """Return whose a token is, as of the last reading; None: nobody's. HubDatabaseAway: nobody knows now."""
        if not token.startswith(TOKEN_PREFIX):
            return None
        key = hash_token(token)
        if key not in self._boxes:
            await self._renew()
        return self._boxes.get(key)

    def forget(self, token: str) -> None:
        """Forget a token that holds no more: the next call with it waits for a reading."""
        self._boxes.pop(hash_token(token), None)

    async def _renew(self) -> None:
        """Wait until a reading has ended that began after this moment (K1); only one of those that wait reads (K2)."""
        wanted = self._begun + 1
        async with self._lock:
            if self._begun < wanted:
                await self._sleep(max(0.0, self._next_at - self._monotonic()))
                await self._read_boxes()
            if self._trouble:
                raise HubDatabaseAway(self._trouble)

    async def _read_boxes(self) -> None:
        self._begun += 1
        self._next_at = self._monotonic() + _PAUSE_S
        self._trouble = _CUT_OFF
        try:
            self._boxes = dict(await self._read())
        except HubDatabaseAway as error:
            self._trouble = str(error)
        else:
            self._trouble = ""
