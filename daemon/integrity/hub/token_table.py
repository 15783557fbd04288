"""
The tokens of all boxes in memory, so that a stranger costs the database nothing that a box would wait for.

K1  A token is called unknown only after a reading of the boxes that began after the call came: a box that was added a
    moment ago is known.
K2  However many calls bring unknown tokens, there is one reading at a time, and a pause between two. They wait for the
    next one, so guessing is slow; a token that is known waits for nothing.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Mapping

import anyio

from integrity.errors import HubDatabaseAway
from integrity.hub.boxes import TOKEN_PREFIX, Box, hash_token

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
        """
        Return whose a token is, as of the last reading; None: nobody's. Its box may have been revoked meanwhile.

        Raises:
            HubDatabaseAway: nobody knows now.
        """
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
