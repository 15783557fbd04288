"""What servers of a test share: a free port, a certificate, HTTP answers to order, and one that never says a word."""

from __future__ import annotations

import secrets
import socket
import ssl
import struct
import threading
from collections.abc import Callable
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import NamedTuple, Self

from support.programs import sh


def free_port() -> int:
    """Find a port that nobody listens on, below those that the kernel gives to connections: none takes it meanwhile."""
    while True:
        port = secrets.choice(range(10_240, 32_768))  # random numbers of tests are the same in all workers
        with suppress(OSError), socket.socket() as found:
            found.bind(("127.0.0.1", port))
            return port


def make_certificate(folder: Path) -> Path:
    """Make a certificate for localhost that is signed by itself; its key lies beside it, with the suffix ``.key``."""
    certificate = folder / "cert.pem"
    sh(
        *("openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"),
        *("-keyout", certificate.with_suffix(".key"), "-out", certificate, "-days", "30", "-subj", "/CN=localhost"),
        *("-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1"),
    )
    return certificate


def make_context(certificate: Path) -> ssl.SSLContext:
    """Make the context of a server with a certificate of ``make_certificate``."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, certificate.with_suffix(".key"))
    return context


def reset(client: socket.socket) -> None:
    """Have a connection be reset, instead of ended in order, when it is closed."""
    client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))


class Request(NamedTuple):
    """What a client asks."""

    method: str
    path: str
    headers: dict[str, str]
    body: bytes


class Answer(NamedTuple):
    """
    What is sent.

    Attributes:
        status: of HTTP.
        body: of an answer to HEAD it is not sent.
        headers: all but Content-Length.
        stated_bytes: the Content-Length; -1: that of the body.
        cut_at: bytes of head and body after which the connection is reset; None: it isn't.
        ends_early: it is closed in order instead of reset.
        hangs_at: bytes after which nothing comes until the server lets go.
        head: sent instead of the status line and headers.
    """

    status: int = 200
    body: bytes = b""
    headers: tuple[tuple[str, str], ...] = ()
    stated_bytes: int = -1
    cut_at: int | None = None
    ends_early: bool = False
    hangs_at: int | None = None
    head: bytes = b""


NOTHING = Answer(cut_at=0, ends_early=True)
"""The connection is closed in place of an answer."""

SILENCE = Answer(hangs_at=0)
"""No answer comes until the server lets go."""


class HttpServer:
    """
    ``with HttpServer(find_answer) as server: ... server.url`` answers each request as a function says, in threads.

    Args:
        find_answer: called in the thread of the connection.
        certificate: of ``make_certificate``: it speaks TLS then.
        port: one that is free unless it is given.

    Attributes:
        connections: how many were made.
    """

    def __init__(
        self, find_answer: Callable[[Request], Answer], *, certificate: Path | None = None, port: int = 0
    ) -> None:
        self.connections = 0
        self.let_go_of = threading.Event()
        self.find_answer = find_answer
        self._server = _Server(("127.0.0.1", port), _Handler)
        self._server.owner = self
        if certificate is not None:
            context = make_context(certificate)
            self._server.socket = context.wrap_socket(
                self._server.socket, server_side=True, do_handshake_on_connect=False
            )
        self.port = int(self._server.server_port)
        self.url = f"{'http' if certificate is None else 'https'}://127.0.0.1:{self.port}"
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.01})

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.let_go_of.set()
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    def let_go(self) -> None:
        """End the connections that hang."""
        self.let_go_of.set()
        self.let_go_of = threading.Event()


class _Server(ThreadingHTTPServer):
    owner: HttpServer
    daemon_threads = True

    def handle_error(self, request: object, client_address: object) -> None:
        """Print nothing: clients that go away are what is wanted here."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: _Server

    def setup(self) -> None:
        super().setup()
        self.server.owner.connections += 1

    def do_GET(self) -> None:
        let_go_of = self.server.owner.let_go_of
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        request = Request(self.command, self.path, dict(self.headers.items()), body)
        with suppress(OSError):
            self._send(self.server.owner.find_answer(request), let_go_of)

    def do_HEAD(self) -> None:
        self.do_GET()

    def do_POST(self) -> None:
        self.do_GET()

    def _send(self, answer: Answer, let_go_of: threading.Event) -> None:
        stated = len(answer.body) if answer.stated_bytes < 0 else answer.stated_bytes
        lines = [f"HTTP/1.1 {answer.status} To-Order", *(f"{name}: {value}" for name, value in answer.headers)]
        head = "\r\n".join([*lines, f"Content-Length: {stated}", "", ""]).encode("latin-1", "replace")
        data = (answer.head or head) + (b"" if self.command == "HEAD" else answer.body)
        end = answer.hangs_at if answer.cut_at is None else answer.cut_at
        self.wfile.write(data[:end])
        if end is not None or (len(answer.body) != stated and self.command != "HEAD"):
            self.close_connection = True
        if answer.cut_at is None and answer.hangs_at is not None:
            let_go_of.wait(60)
        elif end is not None and not answer.ends_early:
            reset(self.connection)

    def log_message(self, *_: object) -> None:
        """Print nothing."""


class WebSink(HttpServer):
    """
    A web server that notes what it is asked.

    Attributes:
        asked: method, path and body of each request, in order.
        status: of the answers.
        address: host and port.
    """

    def __init__(self, port: int = 0) -> None:
        self.asked: list[tuple[str, str, bytes]] = []
        self.status = 200
        super().__init__(self._note, port=port)
        self.address = f"127.0.0.1:{self.port}"

    def _note(self, request: Request) -> Answer:
        self.asked.append((request.method, request.path, request.body))
        return Answer(self.status)


class SilentServer:
    """A server that takes connections and never says a word."""

    def __init__(self) -> None:
        self._socket = socket.create_server(("127.0.0.1", 0))
        self.port = int(self._socket.getsockname()[1])
        self._clients: list[socket.socket] = []

    def __enter__(self) -> SilentServer:
        return self

    def wait_for_client(self, timeout_s: float = 30.0) -> None:
        """Wait until somebody has connected; who did is kept waiting."""
        self._socket.settimeout(timeout_s)
        self._clients.append(self._socket.accept()[0])

    def __exit__(self, *_: object) -> None:
        for each in (*self._clients, self._socket):
            each.close()
