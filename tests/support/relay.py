"""What can lie between a box and its hub: a relay that counts bytes, and a proxy that delays, cuts, and repeats."""

from __future__ import annotations

import http.client
import random
import socket
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from urllib.parse import urlsplit

_CHUNK = 65536
_TIMES = {"cut": 0, "repeat": 2}
"""How often the hub gets a request."""


class CountingRelay:
    """
    Passes bytes on, encrypted or not, and counts them.

    Attributes:
        url: to use in place of that of the hub.
        bytes: passed in both directions.
        connections: how many were made.
    """

    def __init__(self, url: str) -> None:
        parts = urlsplit(url)
        self._to = (parts.hostname or "", parts.port or 0)
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"{parts.scheme}://127.0.0.1:{self._listener.getsockname()[1]}"
        self.bytes = self.connections = 0
        self._open: list[socket.socket] = []

    def __enter__(self) -> CountingRelay:
        threading.Thread(target=self._accept, daemon=True).start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for one in (self._listener, *self._open):
            one.close()

    def _accept(self) -> None:
        while True:
            try:
                near, _ = self._listener.accept()
            except OSError:
                return
            far = socket.create_connection(self._to)
            self.connections += 1
            self._open += [near, far]
            for source, target in ((near, far), (far, near)):
                threading.Thread(target=self._pass, args=(source, target), daemon=True).start()

    def _pass(self, source: socket.socket, target: socket.socket) -> None:
        try:
            while data := source.recv(_CHUNK):
                self.bytes += len(data)
                target.sendall(data)
            target.shutdown(socket.SHUT_WR)
        except OSError:
            pass


class _QuietServer(ThreadingHTTPServer):
    """A box that was killed does not read its answer."""

    def handle_error(self, *_: object) -> None:
        pass


class BadProxy:
    """
    An HTTP proxy in front of a hub, which damages no byte and does everything else.

    Args:
        url: of the hub, http only.
        seed: of what happens to which request.
        faults: share of requests that meet one.

    Attributes:
        url: to use in place of that of the hub.
        happened: what happened, in order: pass, delay, cut (before the hub got it), lose (the answer), repeat.
    """

    def __init__(self, url: str, *, seed: int, faults: float = 0.5) -> None:
        parts = urlsplit(url)
        self._to = (parts.hostname or "", parts.port or 0)
        self._random = random.Random(seed)
        self._faults = faults
        self.happened: list[str] = []
        self._server = _QuietServer(("127.0.0.1", 0), self._make_handler())
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_port}"

    def __enter__(self) -> BadProxy:
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.shutdown()
        self._server.server_close()

    def _make_handler(self) -> type[BaseHTTPRequestHandler]:
        proxy = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                fault = proxy.choose()
                if fault == "delay":
                    time.sleep(0.05)
                try:
                    answers = [proxy.forward(self, body) for _ in range(_TIMES.get(fault, 1))]
                except (OSError, http.client.HTTPException):
                    answers = []  # the hub is away
                if fault == "lose" or not answers:
                    self.close_connection = True
                    return
                status, headers, answer = answers[-1]
                self.send_response_only(status)
                for name, value in headers:
                    if name.lower() not in ("connection", "transfer-encoding", "content-length"):
                        self.send_header(name, value)
                self.send_header("Content-Length", str(len(answer)))
                self.end_headers()
                self.wfile.write(answer)

            def log_message(self, *_: object) -> None:
                pass

        return Handler

    def choose(self) -> str:
        """Choose what happens to the next request."""
        is_bad = self._random.random() < self._faults
        self.happened.append(self._random.choice(["delay", "cut", "lose", "repeat"]) if is_bad else "pass")
        return self.happened[-1]

    def forward(self, request: BaseHTTPRequestHandler, body: bytes) -> tuple[int, list[tuple[str, str]], bytes]:
        """Send a request to the hub, and return status, headers and body of the answer."""
        connection = http.client.HTTPConnection(*self._to, timeout=30)
        try:
            connection.request("POST", request.path, body, dict(request.headers))
            response = connection.getresponse()
            return response.status, response.getheaders(), response.read()
        finally:
            connection.close()
