"""
One connection to a hub: what is asked, what it answers, and why it does not.

The connection is kept open between calls. Each call is made in a thread of its own and left to itself after a time, so
neither the end of the service nor anything else waits for a server that hangs, or sends a byte now and then. Calls can
be repeated (see ``protocol``): a kept connection that turns out to be closed is opened again without an error.
"""

from __future__ import annotations

import http.client
import re
import socket
import ssl
import time
from collections.abc import Callable
from contextlib import suppress
from importlib.util import find_spec
from typing import NamedTuple
from urllib.parse import urlsplit

from integrity import program
from integrity.errors import HubAway, HubError, ProtocolError, ReadInterrupted, printable, show_path
from integrity.reporting.protocol import JSON, JSON_LINES, PACKED, ZSTD, JsonObject, decode
from integrity.threads import BackgroundCall

TIMEOUT_S = 60.0
_SMALL_BYTES = 1024
"""Smaller bodies are not compressed: it would save less than its header takes."""

_MOST_BODY_BYTES = 1 << 20
_LEAST_BODY_BYTES = 16 << 10
_MOST_ANSWER_BYTES = 8 << 20
_LATER = (429, 502, 503, 504)
_LONGEST_WAIT_S = 120
_MOST_WAITS = 10
_API = "/hub/v1/"
_is_seconds = re.compile(r"[0-9]{1,9}").fullmatch
_STALE = (http.client.RemoteDisconnected, http.client.CannotSendRequest, BrokenPipeError, ConnectionResetError)


class _Answer(NamedTuple):
    status: int
    retry_after_s: int | None
    body: bytes


class _TlsConnection(http.client.HTTPSConnection):
    """A connection whose handshake can be ended from another thread: its socket is known while it lasts."""

    _context: ssl.SSLContext  # of the library

    def connect(self) -> None:
        http.client.HTTPConnection.connect(self)
        secured = self._context.wrap_socket(self.sock, server_hostname=self.host, do_handshake_on_connect=False)
        self.sock = secured
        try:
            secured.do_handshake()
        except BaseException:
            self.close()
            raise


class HubClient:
    """
    Calls the hub as one box. Used by one thread; ``copy`` for another.

    Args:
        certificate: path of a PEM file that the hub's certificate is signed with; empty: those of the system.
        is_over: called several times a second while an answer is awaited; true ends the call with ReadInterrupted.
        pause: waits so many seconds, or until the end; returns whether to go on. Without it a busy hub is an error.
        timeout_s: how long a call may take, from the first byte to the last.

    Attributes:
        body_bytes: how large a body should be at most, before it is compressed. A 413 halves it.
    """

    def __init__(
        self,
        url: str,
        token: str,
        *,
        certificate: bytes = b"",
        is_over: Callable[[], bool] = lambda: False,
        pause: Callable[[float], bool] = lambda _: False,
        timeout_s: float = TIMEOUT_S,
    ) -> None:
        self.body_bytes = _MOST_BODY_BYTES
        self._url = urlsplit(url)
        self._host = self._url.hostname or ""
        self._certificate = certificate
        self._token = token
        self._is_over = is_over
        self._pause = pause
        self._timeout_s = timeout_s
        self._connection: http.client.HTTPConnection | None = None
        self._has_zstd = find_spec("zstandard") is not None

    def copy(self) -> HubClient:
        return HubClient(
            self._url.geturl(),
            self._token,
            certificate=self._certificate,
            is_over=self._is_over,
            pause=self._pause,
            timeout_s=self._timeout_s,
        )

    def call(self, path: str, body: bytes, *, is_lines: bool = False, patience: int = 1) -> JsonObject:
        """
        Send a body and return the answer. A hub that is busy is asked again when it said, at most two minutes later.

        Args:
            patience: so many times the usual time limit: what is asked takes long.

        Raises:
            HubAway: the hub can't be reached, or is busy for longer.
            HubError: it refuses, or is none.
            ReadInterrupted: the service ends.
        """
        kind = JSON_LINES if is_lines else JSON
        for _ in range(_MOST_WAITS):
            try:
                return self._decode(self.exchange(path, body, kind=kind, patience=patience))
            except HubAway as error:
                wait_s = error.retry_after_s
                if wait_s is None or wait_s > _LONGEST_WAIT_S:
                    raise
                busy = error
            if not self._pause(wait_s):
                raise busy
        raise busy

    def exchange(self, path: str, body: bytes, *, kind: str = JSON, patience: int = 1) -> bytes:
        """Send a body once and return that of the answer, whatever it is; otherwise as ``call``."""
        headers = {"Authorization": f"Bearer {self._token}", "Content-Type": kind}
        if len(body) >= _SMALL_BYTES and kind != PACKED and self._has_zstd:
            from zstandard import ZstdCompressor  # here, for it is a library of an extra

            body = ZstdCompressor(level=3).compress(body)
            headers["Content-Encoding"] = ZSTD
        answer = self._await(path, body, headers, self._timeout_s * patience)
        if answer.status != http.client.OK:
            raise self._refused(answer)
        if len(answer.body) > _MOST_ANSWER_BYTES:
            raise self._no_hub("it sends more than any answer has")
        return answer.body

    def close(self) -> None:
        """Close the connection; the next call opens another."""
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()

    def shrink(self) -> bool:
        """Halve ``body_bytes``; return whether it was possible."""
        if self.body_bytes <= _LEAST_BODY_BYTES:
            return False
        self.body_bytes //= 2
        return True

    def _decode(self, answer: bytes) -> JsonObject:
        try:
            return decode(answer)
        except ProtocolError as error:
            raise self._no_hub(str(error)) from error

    def _no_hub(self, reason: str) -> HubError:
        return HubError(f"{self._host}: what answers there is no hub ({reason}); check `url` in [hub]")

    def _await(self, path: str, body: bytes, headers: dict[str, str], timeout_s: float) -> _Answer:
        """Exchange in the background; leave it to itself when its time is up, or in the end."""
        ends_at = time.monotonic() + timeout_s
        call = BackgroundCall("hub", lambda: self._exchange(path, body, headers, timeout_s))
        try:
            return call.result(lambda: self._is_over() or time.monotonic() >= ends_at)
        except (OSError, http.client.HTTPException) as error:
            self.close()
            raise self._explain(error) from error
        except BaseException as error:
            self._abandon()
            if isinstance(error, ReadInterrupted) and not self._is_over():
                raise self._explain(TimeoutError()) from error
            raise

    def _exchange(self, path: str, body: bytes, headers: dict[str, str], timeout_s: float) -> _Answer:
        kept = self._connection
        if kept is not None:
            if kept.sock is not None:
                kept.sock.settimeout(timeout_s)
            try:
                return self._send(kept, path, body, headers)
            except _STALE:
                if self._connection is None:
                    raise  # it was abandoned
        made = self._connection = self._make_connection(timeout_s)
        made.connect()
        if self._connection is not made:
            made.close()
            raise TimeoutError  # it was abandoned meanwhile, when there was no socket yet that could be shut
        return self._send(made, path, body, headers)

    def _abandon(self) -> None:
        """Leave the connection to the thread that waits for an answer, which ends its waiting."""
        connection, self._connection = self._connection, None
        if connection is not None and connection.sock is not None:
            with suppress(OSError):
                connection.sock.shutdown(socket.SHUT_RDWR)

    def _send(self, connection: http.client.HTTPConnection, path: str, body: bytes, headers: dict[str, str]) -> _Answer:
        try:
            return self._transfer(connection, path, body, headers)
        except BaseException:
            connection.close()
            raise

    def _transfer(
        self, connection: http.client.HTTPConnection, path: str, body: bytes, headers: dict[str, str]
    ) -> _Answer:
        connection.putrequest("POST", self._url.path.rstrip("/") + _API + path, skip_accept_encoding=True)
        for name, value in {**headers, "Content-Length": str(len(body))}.items():
            connection.putheader(name, value)
        connection.endheaders(body)
        response = connection.getresponse()
        answer = response.read(_MOST_ANSWER_BYTES + 1)
        if not response.isclosed():  # longer than any answer of a hub
            connection.close()
        after = response.headers.get("Retry-After", "")
        return _Answer(response.status, int(after) if _is_seconds(after) else None, answer)

    def _make_connection(self, timeout_s: float) -> http.client.HTTPConnection:
        if self._url.scheme != "https":
            return http.client.HTTPConnection(self._host, self._url.port, timeout=timeout_s)
        context = ssl.create_default_context(cafile=self._certificate or None)
        return _TlsConnection(self._host, self._url.port, timeout=timeout_s, context=context)

    def _explain(self, error: OSError | http.client.HTTPException) -> HubError:
        if isinstance(error, ssl.SSLCertVerificationError):
            hint = "set `certificate` in [hub] to the file that it is signed with, if it is your own"
            if "expired" in error.verify_message or "not yet valid" in error.verify_message:
                hint = "renew it on the hub, or set the clock of this machine"
            return HubError(f"{self._host}: its certificate is not trusted ({error.verify_message}): {hint}")
        if isinstance(error, FileNotFoundError) and self._certificate:
            return HubError(f"{show_path(self._certificate)}: the `certificate` of [hub] is missing")
        if isinstance(error, ssl.SSLError):
            return HubAway(f"{self._host}: no TLS connection ({error.reason or error}); check `url` in [hub]")
        if isinstance(error, TimeoutError):
            return HubAway(f"{self._host}: no answer in time")
        if isinstance(error, socket.gaierror):
            return HubAway(f"{self._host}: no machine of this name is known: {error.strerror}")
        return HubAway(f"{self._host}: {getattr(error, 'strerror', None) or error}")

    def _refused(self, answer: _Answer) -> HubError:
        code = text = ""
        try:
            said = decode(answer.body)
        except ProtocolError:
            pass
        else:
            code, text = str(said.get("error", "")), str(said.get("message", ""))
        if answer.status == http.client.UNAUTHORIZED:
            text = (
                f"it does not accept the token of this box: it was revoked, or is another hub's. Get a new one there:"
                f" integrity hub add BOX; then here: {program.command('hub join URL')}"
            )
        shown = printable(text[:500]) or http.client.responses.get(answer.status, "no reason given")
        kind = HubAway if answer.status in _LATER else HubError
        words = f"{self._host} answered {answer.status}: {shown}"
        return kind(words, status=answer.status, code=code, retry_after_s=answer.retry_after_s)
