"""
The calls of a worker to the hub: messages, and the files of shards, which are streamed.

A worker keeps its shard while the hub is away, so each call is tried again for as long as the caller wants; only a hub
that refuses ends it.
"""

from __future__ import annotations

import http.client
import os
import random
import ssl
from collections.abc import Callable
from typing import IO
from urllib.parse import urlsplit

from integrity.errors import AppError, ProtocolError, printable
from integrity.reporting.protocol import JSON_LINES, JsonObject, decode, encode

_TIMEOUT_S = 60.0
_CHUNK_BYTES = 1 << 20
_PART_BYTES = 4 << 20
_MOST_ANSWER_BYTES = 64 << 20
_FIRST_WAIT_S = 0.5
_LONGEST_WAIT_S = 60.0
_API = "/hub/v1/shards/"


class HubAway(AppError):
    """Say that the hub was not reached, or is busy: the same call may work later."""


class HubRefusal(AppError):
    """
    Say that the hub refused a call.

    Args:
        code: its reason, for programs.
    """

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code


class ShardClient:
    """
    Calls the hub as one box. Used by one thread; ``copy`` for another.

    Args:
        url: of the hub.
        token: of the box.
        certificate: path of a PEM file that the hub's certificate is signed with; empty: those of the system.
        wait: waits this many seconds before a call is repeated; returns True if it should not be.
    """

    def __init__(
        self,
        url: str,
        token: str,
        *,
        certificate: bytes = b"",
        wait: Callable[[float], bool],
        timeout_s: float = _TIMEOUT_S,
    ) -> None:
        self._url = url
        self._token = token
        self._certificate = certificate
        self._wait = wait
        self._timeout_s = timeout_s
        self._connection: http.client.HTTPConnection | None = None

    def copy(self) -> ShardClient:
        """Return a client for another thread."""
        return ShardClient(
            self._url, self._token, certificate=self._certificate, wait=self._wait, timeout_s=self._timeout_s
        )

    def close(self) -> None:
        """Close the connection; the next call opens another."""
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()

    def call(self, path: str, body: bytes, *, is_lines: bool = False) -> JsonObject:
        """
        Send a body and return the answer.

        Raises:
            HubAway: there was none until ``wait`` said to give up.
            HubRefusal: the hub refuses.
        """
        kind = JSON_LINES if is_lines else "application/json"
        return self._until_answered(lambda: decode(self._exchange(path, body, kind).read(_MOST_ANSWER_BYTES)))

    def call_once(self, path: str, body: bytes) -> JsonObject:
        """Do the same without trying again."""
        return decode(self._exchange(path, body, "application/json").read(_MOST_ANSWER_BYTES))

    def send_file(self, path: str, header: JsonObject, file: IO[bytes]) -> None:
        """Send a file in parts, each after a line with ``header`` and its place; otherwise as ``call``."""
        size, offset = file.seek(0, os.SEEK_END), 0
        file.seek(0)
        while data := file.read(_PART_BYTES):
            self.call(path, encode({**header, "offset": offset, "size": size}) + b"\n" + data)
            offset += len(data)

    def receive_file(self, path: str, body: bytes, file: IO[bytes], *, most_bytes: int) -> JsonObject:
        """
        Write the answer, whatever it is, to a file; otherwise as ``call``.

        Raises:
            ProtocolError: it is longer than ``most_bytes``.
        """

        def receive() -> JsonObject:
            file.seek(0)
            file.truncate()
            response = self._exchange(path, body, "application/json")
            while chunk := response.read(_CHUNK_BYTES):
                if file.tell() + len(chunk) > most_bytes:
                    self.close()
                    raise ProtocolError(f"{self._url}: what the hub sends is longer than a catalog can be")
                file.write(chunk)
            file.flush()
            return {}

        return self._until_answered(receive)

    def _until_answered(self, exchange: Callable[[], JsonObject]) -> JsonObject:
        wait_s = _FIRST_WAIT_S
        while True:
            try:
                return exchange()
            except HubAway:
                # Many workers come back after the same outage: they must not do so in step.
                if self._wait(wait_s * (0.5 + random.random())):  # noqa: S311 - no secret
                    raise
            wait_s = min(2 * wait_s, _LONGEST_WAIT_S)

    def _exchange(self, path: str, body: bytes, kind: str) -> _Answer:
        try:
            response = self._send(path, body, kind)
            if response.status == http.client.OK:
                return _Answer(response)
            answer = response.read(_MOST_ANSWER_BYTES)
        except (OSError, http.client.HTTPException) as error:
            self.close()
            raise HubAway(f"{self._url}: the hub does not answer: {error}") from error
        if response.status in (429, 502, 503, 504):
            raise HubAway(f"{self._url}: the hub is busy ({response.status})")
        raise self._refuse(response.status, answer)

    def _send(self, path: str, body: bytes, kind: str) -> http.client.HTTPResponse:
        if self._connection is None:
            self._connection = self._connect()
        headers = {"Authorization": f"Bearer {self._token}", "Content-Type": kind}
        self._connection.request("POST", urlsplit(self._url).path.rstrip("/") + _API + path, body, headers)
        return self._connection.getresponse()

    def _connect(self) -> http.client.HTTPConnection:
        parts = urlsplit(self._url)
        host = parts.hostname or ""
        if parts.scheme != "https":
            return http.client.HTTPConnection(host, parts.port, timeout=self._timeout_s)
        context = ssl.create_default_context(cafile=os.fsdecode(self._certificate) or None)
        return http.client.HTTPSConnection(host, parts.port, timeout=self._timeout_s, context=context)

    def _refuse(self, status: int, answer: bytes) -> HubRefusal:
        try:
            said = decode(answer)
        except ProtocolError:
            said = {}
        text = str(said.get("message", "")) or http.client.responses.get(status, "no reason given")
        return HubRefusal(str(said.get("error", status)), f"the hub refuses ({status}): {printable(text[:500])}")


class _Answer:
    """A body that is read in parts; what breaks meanwhile is an outage of the hub, too."""

    def __init__(self, response: http.client.HTTPResponse) -> None:
        self._response = response

    def read(self, count: int) -> bytes:
        try:
            return self._response.read(count)
        except (OSError, http.client.HTTPException) as error:
            raise HubAway(f"the answer of the hub broke off: {error}") from error
