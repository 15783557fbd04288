"""
An HTTP proxy before a real S3 server that lies, stalls and cuts to order: ``with LyingProxy(port) as proxy: ...``.

Each answer is taken whole from the server and passed on as it is, unless a ``Lie`` says otherwise: from the n-th answer
of the kind that it is about, once or for ever.
"""

from __future__ import annotations

import http.client
import random
import re
import socket
import ssl
import struct
import threading
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from urllib.parse import parse_qs, urlsplit

_CONTENTS = re.compile(rb"<Contents>.*?</Contents>", re.DOTALL)
_TOKEN = b"of-a-lie-"  # the server has never heard of it, and is not asked for it
_REDIRECT = "http://127.0.0.1:{port}/elsewhere"


@dataclass(frozen=True, slots=True)
class Lie:
    """
    What is wrong with which answers.

    Attributes:
        what: a name in ``LIES``.
        nth: the first answer, of those that it can be about, from 1.
        lasts: so are all later ones.
        seed: of what is random about it.
    """

    what: str
    nth: int = 1
    lasts: bool = False
    seed: int = 1


@dataclass(frozen=True, slots=True)
class Answer:
    """
    What is sent.

    Attributes:
        status: of HTTP.
        headers: all but Content-Length, Connection and Date.
        body: of an answer to HEAD it is empty.
        stated_bytes: the Content-Length.
        cut_at: bytes of head and body after which the connection is reset; None: it isn't.
        ends_early: it is closed in order instead of reset.
        hangs_at: bytes after which nothing comes any more.
        head: sent instead of the status line and headers.
    """

    status: int
    headers: tuple[tuple[str, str], ...]
    body: bytes
    stated_bytes: int
    cut_at: int | None = None
    ends_early: bool = False
    hangs_at: int | None = None
    head: bytes = b""

    def with_body(self, body: bytes) -> Answer:
        """Change the body, and the length with it."""
        return replace(self, body=body, stated_bytes=len(body))

    def without(self, *names: str) -> tuple[tuple[str, str], ...]:
        """Return the headers but those."""
        return tuple(pair for pair in self.headers if pair[0].lower() not in names)


class Asked:
    """The kinds of questions."""

    ALL = ("LIST", "HEAD", "GET")
    LIST = ("LIST",)
    OBJECT = ("HEAD", "GET")
    HEAD = ("HEAD",)
    GET = ("GET",)


_Change = Callable[[Answer, random.Random], Answer]


def _somewhere(answer: Answer, source: random.Random) -> int:
    return source.randrange(300 + len(answer.body))


def _status(number: int) -> _Change:
    code = {429: "TooManyRequests", 500: "InternalError", 503: "SlowDown", 403: "AccessDenied", 404: "NoSuchKey"}
    text = f"<Error><Code>{code.get(number, 'InvalidRequest')}</Code><Message>to order</Message></Error>".encode()

    def change(answer: Answer, _: random.Random) -> Answer:
        is_head = not answer.body and answer.stated_bytes != 0
        return replace(Answer(number, (("Content-Type", "application/xml"),), b"" if is_head else text, len(text)))

    return change


def _redirect(number: int) -> _Change:
    def change(_: Answer, source: random.Random) -> Answer:
        to = source.choice(["/again", _REDIRECT.format(port=source.randrange(1024, 65536)), "s3://nowhere", "\x01"])
        return Answer(number, (("Location", to),), b"", 0)

    return change


def _header(name: str, make: Callable[[str, random.Random], str]) -> _Change:
    def change(answer: Answer, source: random.Random) -> Answer:
        pairs = answer.headers
        headers = tuple((key, make(value, source) if key.lower().startswith(name) else value) for key, value in pairs)
        return replace(answer, headers=headers)

    return change


def _entries(make: Callable[[list[bytes], random.Random], list[bytes]], more: str = "") -> _Change:
    """Change what a listing names, and say that there is more of it behind a token."""

    def change(answer: Answer, source: random.Random) -> Answer:
        found = _CONTENTS.findall(answer.body)
        if answer.status != 200 or not found:
            return answer
        first, last = answer.body.index(found[0]), answer.body.rindex(found[-1]) + len(found[-1])
        body = answer.body[:first] + b"".join(make(found, source)) + answer.body[last:]
        if more:
            token = _TOKEN + more.format(source.getrandbits(60)).encode()
            body = re.sub(rb"<IsTruncated>\w+<", b"<IsTruncated>true<", body)
            body = re.sub(rb"<NextContinuationToken>.*?</NextContinuationToken>", b"", body)
            place = body.rindex(b"</ListBucketResult>")
            named = b"<NextContinuationToken>" + token + b"</NextContinuationToken>"
            body = body[:place] + named + body[place:]
        return answer.with_body(body)

    return change


def _some(found: list[bytes], source: random.Random) -> list[bytes]:
    return [each for each in found if source.random() < 0.6] or found[:1]


def _sub(pattern: bytes, values: list[bytes]) -> Callable[[list[bytes], random.Random], list[bytes]]:
    def make(found: list[bytes], source: random.Random) -> list[bytes]:
        chosen = {source.randrange(len(found)), source.randrange(len(found))}
        return [
            re.sub(pattern, lambda match: match[1] + source.choice(values) + match[2], each) if at in chosen else each
            for at, each in enumerate(found)
        ]

    return make


def _flip(answer: Answer, source: random.Random) -> Answer:
    if not answer.body:
        return answer
    data = bytearray(answer.body)
    data[source.randrange(len(data))] ^= 1 << source.randrange(8)
    return replace(answer, body=bytes(data))


def _tag(_: str, source: random.Random) -> str:
    digits = source.randbytes(16).hex()
    return source.choice([f'"{digits}"', f'"{digits}-3"', '""', '"x"', f'"{digits}-4000000000"'])


_TAGS = [b"", b"&quot;x&quot;", b"0" * 32, b"1" * 32 + b"-7"]
_SUMS = ["", "x", "AAAAAAAAAAA="]
_SIZES = [b"0", b"-1", b"99999999999999999999", b"many", b"", b"12345"]
_KEYS = [b"/../up", b"/a%00b", b"//etc/passwd", b"/a/./b", b"/%FF%FE", b"/a/", b"", b"/" + b"x" * 2000, b"/b%0Anew"]

LIES: dict[str, tuple[tuple[str, ...], _Change]] = {
    "cut": (Asked.ALL, lambda answer, source: replace(answer, cut_at=_somewhere(answer, source))),
    "stall": (Asked.ALL, lambda answer, source: replace(answer, hangs_at=_somewhere(answer, source))),
    "stall before all": (Asked.ALL, lambda answer, _: replace(answer, hangs_at=0)),
    "ended early": (
        Asked.ALL,
        lambda answer, source: replace(answer, cut_at=_somewhere(answer, source), ends_early=True),
    ),
    "head ended early": (
        Asked.ALL,
        lambda answer, source: replace(answer, cut_at=source.randrange(20, 150), ends_early=True),
    ),
    "garbage": (Asked.ALL, lambda answer, source: replace(answer, body=source.randbytes(len(answer.body)))),
    "garbage head": (Asked.ALL, lambda answer, source: replace(answer, head=source.randbytes(200) + b"\r\n\r\n")),
    "endless head": (
        Asked.ALL,
        lambda answer, _: replace(answer, head=b"HTTP/1.1 200 OK\r\n" + b"X-Much: more\r\n" * 5000 + b"\r\n"),
    ),
    "shortened": (
        Asked.ALL,
        lambda answer, source: answer.with_body(answer.body[: source.randrange(len(answer.body) + 1)]),
    ),
    "nothing": (Asked.ALL, lambda answer, _: answer.with_body(b"")),
    "stated longer": (Asked.ALL, lambda answer, _: replace(answer, stated_bytes=answer.stated_bytes + 1000)),
    "stated shorter": (Asked.ALL, lambda answer, _: replace(answer, stated_bytes=answer.stated_bytes // 2)),
    **{str(number): (Asked.ALL, _status(number)) for number in (400, 403, 404, 412, 416, 429, 500, 503)},
    **{str(number): (Asked.ALL, _redirect(number)) for number in (301, 302, 307, 308)},
    "some hidden": (Asked.LIST, _entries(_some)),
    "all hidden": (Asked.LIST, _entries(lambda found, _: [])),
    "listed twice": (Asked.LIST, _entries(lambda found, _: found + found)),
    "other order": (Asked.LIST, _entries(lambda found, source: source.sample(found, len(found)))),
    "endless pages": (Asked.LIST, _entries(lambda found, _: found, "{}")),
    "endless empty pages": (Asked.LIST, _entries(lambda found, _: [], "{}")),
    "one page for ever": (Asked.LIST, _entries(lambda found, _: found, "same")),
    "wrong sizes": (Asked.LIST, _entries(_sub(rb"(<Size>)\d+(<)", _SIZES))),
    "wrong tags": (Asked.LIST, _entries(_sub(rb"(<ETag>).*?(</ETag>)", _TAGS))),
    "strange keys": (Asked.LIST, _entries(_sub(rb"(<Key>[^</]*)[^<]*(<)", _KEYS))),
    "flipped": (Asked.GET, _flip),
    "other tag": (Asked.OBJECT, _header("etag", _tag)),
    "other checksum": (Asked.OBJECT, _header("x-amz-checksum", lambda _, source: source.choice(_SUMS))),
    "other parts": (
        Asked.HEAD,
        lambda answer, source: replace(
            answer,
            headers=(
                *answer.without("x-amz-mp-parts-count"),
                ("x-amz-mp-parts-count", source.choice(["0", "1", "7", "10000", "9999999999", "x", "-2"])),
            ),
        ),
    ),
    "other size": (
        Asked.HEAD,
        lambda answer, source: replace(answer, stated_bytes=source.choice([0, 1, answer.stated_bytes + 1, 1 << 62])),
    ),
}
"""Which answers each is about, and what it does to one."""


class LyingProxy:
    """
    The proxy, in threads; ``tell`` a lie, and ``be_honest`` again.

    Args:
        target: port of the real server on the loopback.
        tls: context of the proxy's certificate: it speaks TLS then.

    Attributes:
        asked: how often what was asked since it was last honest: LIST, HEAD, GET.
        told: how many lies.
    """

    def __init__(self, target: int, *, tls: ssl.SSLContext | None = None) -> None:
        self.target = target
        self.asked: Counter[str] = Counter()
        self.told = 0
        self._lie: Lie | None = None
        self._matched = 0
        self._lock = threading.Lock()
        self.is_over = threading.Event()
        self._server = _Server(("127.0.0.1", 0), _Handler)
        if tls is not None:
            self._server.socket = tls.wrap_socket(self._server.socket, server_side=True, do_handshake_on_connect=False)
        self._server.proxy = self
        self.port = int(self._server.server_port)
        self.endpoint = f"{'http' if tls is None else 'https'}://127.0.0.1:{self.port}"
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.01})

    def __enter__(self) -> LyingProxy:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.is_over.set()
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    def tell(self, lie: Lie) -> None:
        """Lie from now on."""
        self.be_honest()
        self._lie = lie

    def be_honest(self) -> None:
        """Pass on what the server says; what hangs is let go."""
        with self._lock:
            self._lie, self._matched, self.told = None, 0, 0
            self.asked.clear()
            self.is_over.set()
            self.is_over = threading.Event()

    def change(self, kind: str, answer: Answer) -> Answer:
        """Lie about an answer, if it is the time."""
        with self._lock:
            self.asked[kind] += 1
            lie = self._lie
            if lie is None or kind not in LIES[lie.what][0]:
                return answer
            self._matched += 1
            if self._matched < lie.nth or (self._matched > lie.nth and not lie.lasts):
                return answer
            self.told += 1
            return LIES[lie.what][1](answer, random.Random(f"{lie.seed} {self._matched}"))


class _Server(ThreadingHTTPServer):
    proxy: LyingProxy
    daemon_threads = True

    def handle_error(self, request: object, client_address: object) -> None:
        """Say nothing: a client that went away is what is wanted here."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: _Server

    def do_GET(self) -> None:
        self._pass_on()

    def do_HEAD(self) -> None:
        self._pass_on()

    def _pass_on(self) -> None:
        proxy = self.server.proxy
        is_over = proxy.is_over
        self._send(proxy.change(self._find_kind(), self._ask(proxy.target)), is_over)

    def _find_kind(self) -> str:
        if self.command == "HEAD":
            return "HEAD"
        return "LIST" if "list-type" in parse_qs(urlsplit(self.path).query) else "GET"

    def _ask(self, port: int) -> Answer:
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
        try:
            path = re.sub(rf"&?continuation-token={_TOKEN.decode()}\w*", "", self.path)
            connection.request(self.command, path, headers=dict(self.headers.items()))
            answer = connection.getresponse()
            body = answer.read()
            length = int(answer.getheader("Content-Length") or len(body))
            dropped = ("content-length", "connection", "date", "transfer-encoding", "server")
            headers = tuple(pair for pair in answer.getheaders() if pair[0].lower() not in dropped)
            return Answer(answer.status, headers, body, length)
        finally:
            connection.close()

    def _send(self, answer: Answer, is_over: threading.Event) -> None:
        lines = [f"HTTP/1.1 {answer.status} To-Order", *(f"{name}: {value}" for name, value in answer.headers)]
        lines.append(f"Content-Length: {answer.stated_bytes}")
        head = answer.head or ("\r\n".join(lines) + "\r\n\r\n").encode("latin-1", "replace")
        data = head + (b"" if self.command == "HEAD" else answer.body)
        self.close_connection = len(answer.body) != answer.stated_bytes and self.command != "HEAD"
        with suppress(OSError):
            if answer.cut_at is not None:
                self.wfile.write(data[: answer.cut_at])
                self.close_connection = True
                if not answer.ends_early:
                    linger = struct.pack("ii", 1, 0)
                    self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
            elif answer.hangs_at is not None:
                self.wfile.write(data[: answer.hangs_at])
                is_over.wait(60)
                self.close_connection = True
            else:
                self.wfile.write(data)

    def log_message(self, *args: object) -> None:
        """Say nothing."""
