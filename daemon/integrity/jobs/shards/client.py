"""
The calls of a worker to the hub: messages, and the files of shards in parts.

A worker keeps its shard while the hub is away, so each call is tried again for as long as the caller wants; only a hub
that refuses ends it.
"""

from __future__ import annotations

import logging
import os
import random
from collections.abc import Callable
from functools import partial
from typing import IO, TypeVar

from integrity.errors import HubAway, ProtocolError
from integrity.reporting.client import HubClient
from integrity.reporting.protocol import PACKED, JsonObject, encode

_log = logging.getLogger(__name__)

_PART_BYTES = 4 << 20
_PART_PATIENCE = 4
_FIRST_WAIT_S = 0.5
_LONGEST_WAIT_S = 60.0
_API = "shards/"

T = TypeVar("T")


class ShardClient:
    """
    Calls the hub as a worker of one box. Used by one thread.

    Args:
        wait: waits this many seconds before a call is repeated; returns True if it should not be.
    """

    def __init__(self, hub: HubClient, wait: Callable[[float], bool]) -> None:
        self.hub = hub
        self._wait = wait

    def call(self, path: str, body: bytes, *, is_lines: bool = False) -> JsonObject:
        """
        Send a body and return the answer.

        Raises:
            HubAway: there was none until ``wait`` said to give up.
            HubError: the hub refuses.
        """
        return self._until_answered(lambda: self.hub.call(_API + path, body, is_lines=is_lines))

    def send_file(self, path: str, header: JsonObject, file: IO[bytes], progress: Callable[[], None]) -> None:
        """
        Send a file in parts, each after a line with ``header`` and its place; otherwise as ``call``.

        Args:
            progress: called after each part.
        """
        size, offset = file.seek(0, os.SEEK_END), 0
        file.seek(0)
        while data := file.read(_PART_BYTES):
            self._exchange(path, encode({**header, "offset": offset, "size": size}) + b"\n" + data)
            offset += len(data)
            progress()

    def receive_file(
        self, path: str, body: JsonObject, file: IO[bytes], progress: Callable[[], None], *, most_bytes: int
    ) -> None:
        """
        Write a file that the hub sends in parts, up to an empty one; otherwise as ``send_file``.

        Raises:
            ProtocolError: it is longer than ``most_bytes``.
        """
        while part := self._exchange(path, encode({**body, "offset": file.tell()})):
            if file.tell() + len(part) > most_bytes:
                raise ProtocolError("what the hub sends is longer than a catalog can be")
            file.write(part)
            progress()
        file.flush()

    def _exchange(self, path: str, body: bytes) -> bytes:
        return self._until_answered(partial(self.hub.exchange, _API + path, body, kind=PACKED, patience=_PART_PATIENCE))

    def _until_answered(self, exchange: Callable[[], T]) -> T:
        wait_s = _FIRST_WAIT_S
        while True:
            try:
                return exchange()
            except HubAway as error:
                # Many workers come back after the same outage: they must not do so in step.
                asked_s = min(max(wait_s, error.retry_after_s or 0), _LONGEST_WAIT_S)
                if self._wait(asked_s * (0.5 + random.random())):  # noqa: S311 - no secret
                    raise
                if wait_s == _FIRST_WAIT_S:
                    _log.warning("hub_away: %s; it is asked again until it answers", error)
            wait_s *= 2
