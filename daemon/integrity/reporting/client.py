"""
One connection to a hub: what is asked, what it answers, and why it does not.

The connection is kept open between reports. Each call is made in a thread of its own, so that the end of the service
waits for no server. Calls can be repeated (see ``protocol``): a kept connection that turns out to be closed is opened
again without an error.
"""

from __future__ import annotations

import http.client
import re
import socket
import ssl
from collections.abc import Callable
from contextlib import suppress
from importlib.util import find_spec
from urllib.parse import urlsplit

from integrity import program
from integrity.errors import HubError, ProtocolError, printable, show_path
from integrity.reporting.protocol import JSON_LINES, ZSTD, JsonObject, decode
from integrity.threads import BackgroundCall

TIMEOUT_S = 60.0
_SMALL_BYTES = 1024
"""Smaller bodies are not compressed: it would save less than its header takes."""

_MOST_BODY_BYTES = 1 << 20
_LEAST_BODY_BYTES = 16 << 10
_MOST_ANSWER_BYTES = 8 << 20
_LONGEST_WAIT_S = 120
_MOST_WAITS = 10
_API = "/hub/v1/"
_is_seconds = re.compile(r"[0-9]{1,9}").fullmatch
_STALE = (http.client.RemoteDisconnected, http.client.CannotSendRequest, BrokenPipeError, ConnectionResetError)


class HubClient:
    """
    Calls the hub as one box.

    Args:
        url: of the hub.
        token: of the box.
        certificate: path of a PEM file that the hub's certificate is signed with; empty: those of the system.
        is_over: called several times a second while an answer is awaited; true ends the call with ReadInterrupted.
        pause: waits so many seconds, or until the end; returns whether to go on.

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
        parts = urlsplit(url)
        self.body_bytes = _MOST_BODY_BYTES
        self._host, self._port, self._prefix = parts.hostname or "", parts.port, parts.path.rstrip("/") + _API
        self._is_tls = parts.scheme == "https"
        self._certificate = certificate
        self._token = token
        self._is_over = is_over
        self._pause = pause
        self._timeout_s = timeout_s
        self._connection: http.client.HTTPConnection | None = None
        self._has_zstd = find_spec("zstandard") is not None

    def call(self, path: str, body: bytes, *, is_lines: bool = False, patience: int = 1) -> JsonObject:
        """
        Send a body and return the answer. A hub that is busy is asked again when it said, at most two minutes later.

        Args:
            patience: so many times the usual time limit: what is asked takes long.

        Raises:
            HubError: the hub can't be reached, or refuses.
            ReadInterrupted: the service ends.
        """
        for _ in range(_MOST_WAITS):
            try:
                return self._call(path, body, is_lines=is_lines, timeout_s=self._timeout_s * patience)
            except HubError as error:
                wait_s = error.retry_after_s
                if error.status not in (429, 503) or wait_s is None or wait_s > _LONGEST_WAIT_S:
                    raise
                busy = error
            if not self._pause(wait_s):
                raise busy
        raise busy

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

    def _call(self, path: str, body: bytes, *, is_lines: bool, timeout_s: float) -> JsonObject:
        headers = {
            "Authorization": f"Bearer {self._token}",
            "Content-Type": JSON_LINES if is_lines else "application/json",
        }
        if len(body) >= _SMALL_BYTES and self._has_zstd:
            body = _compress(body)
            headers["Content-Encoding"] = ZSTD
        call = BackgroundCall("hub", lambda: self._exchange(path, body, headers, timeout_s))
        try:
            status, retry_after, answer = call.result(self._is_over)
        except (OSError, http.client.HTTPException) as error:
            self.close()
            raise self._explain(error) from error
        except BaseException:
            self._abandon()
            raise
        if status != http.client.OK:
            raise self._refused(status, retry_after, answer)
        try:
            return decode(answer)
        except ProtocolError as error:
            raise HubError(f"{self._host}: what answers there is no hub ({error}); check `url` in [hub]") from error

    def _exchange(
        self, path: str, body: bytes, headers: dict[str, str], timeout_s: float
    ) -> tuple[int, int | None, bytes]:
        """Return status, Retry-After and body of the answer."""
        kept = self._connection
        if kept is not None:
            if kept.sock is not None:
                kept.sock.settimeout(timeout_s)
            try:
                return self._send(kept, path, body, headers)
            except _STALE:
                if self._connection is None:
                    raise  # it was abandoned
        self._connection = self._connect(timeout_s)
        return self._send(self._connection, path, body, headers)

    def _abandon(self) -> None:
        """Leave the connection to the thread that waits for an answer, which ends its waiting."""
        connection, self._connection = self._connection, None
        if connection is not None and connection.sock is not None:
            with suppress(OSError):
                connection.sock.shutdown(socket.SHUT_RDWR)

    def _send(
        self, connection: http.client.HTTPConnection, path: str, body: bytes, headers: dict[str, str]
    ) -> tuple[int, int | None, bytes]:
        try:
            return self._transfer(connection, path, body, headers)
        except BaseException:
            connection.close()
            raise

    def _transfer(
        self, connection: http.client.HTTPConnection, path: str, body: bytes, headers: dict[str, str]
    ) -> tuple[int, int | None, bytes]:
        connection.putrequest("POST", self._prefix + path, skip_accept_encoding=True)
        for name, value in {**headers, "Content-Length": str(len(body))}.items():
            connection.putheader(name, value)
        connection.endheaders(body)
        response = connection.getresponse()
        answer = response.read(_MOST_ANSWER_BYTES + 1)
        if not response.isclosed():  # longer than any answer of a hub
            connection.close()
        after = response.headers.get("Retry-After", "")
        return response.status, int(after) if _is_seconds(after) else None, answer

    def _connect(self, timeout_s: float) -> http.client.HTTPConnection:
        if not self._is_tls:
            return http.client.HTTPConnection(self._host, self._port, timeout=timeout_s)
        context = ssl.create_default_context(cafile=self._certificate or None)
        return http.client.HTTPSConnection(self._host, self._port, timeout=timeout_s, context=context)

    def _explain(self, error: OSError | http.client.HTTPException) -> HubError:
        """Say why there is no answer."""
        if isinstance(error, ssl.SSLCertVerificationError):
            hint = "set `certificate` in [hub] to the file that it is signed with, if it is your own"
            if "expired" in error.verify_message or "not yet valid" in error.verify_message:
                hint = "renew it on the hub, or set the clock of this machine"
            return HubError(f"{self._host}: its certificate is not trusted ({error.verify_message}): {hint}")
        if isinstance(error, FileNotFoundError) and self._certificate:
            return HubError(f"{show_path(self._certificate)}: the `certificate` of [hub] is missing")
        if isinstance(error, ssl.SSLError):
            return HubError(f"{self._host}: no TLS connection ({error.reason or error}); check `url` in [hub]")
        if isinstance(error, TimeoutError):
            return HubError(f"{self._host}: no answer in time")
        if isinstance(error, socket.gaierror):
            return HubError(f"{self._host}: no machine of this name is known: {error.strerror}")
        return HubError(f"{self._host}: {getattr(error, 'strerror', None) or error}")

    def _refused(self, status: int, retry_after_s: int | None, answer: bytes) -> HubError:
        """Say what an answer other than 200 means."""
        code = text = ""
        try:
            said = decode(answer)
        except ProtocolError:
            pass
        else:
            code, text = str(said.get("error", "")), str(said.get("message", ""))
        if status == http.client.UNAUTHORIZED:
            text = (
                f"it does not accept the token of this box: it was revoked, or is another hub's. Get a new one there:"
                f" integrity hub add BOX; then here: {program.command('hub join URL')}"
            )
        shown = printable(text[:300]) or http.client.responses.get(status, "no reason given")
        return HubError(
            f"{self._host} answered {status}: {shown}", status=status, code=code, retry_after_s=retry_after_s
        )


def _compress(body: bytes) -> bytes:
    import zstandard

    return zstandard.ZstdCompressor(level=3).compress(body)
