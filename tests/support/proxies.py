"""
What can lie between a program and a server: a line that counts, cuts and stalls, and an HTTP proxy that lies to order.

``with LineProxy(port) as line: ... line.port`` passes bytes on, encrypted or not, and fails as ``LineRules`` say.
``with HttpProxy(url) as proxy: ... proxy.url`` takes each answer whole from the server and passes it on as it is,
unless a ``Lie`` says otherwise, from the n-th answer of the kind that it is about, or the road is ``rough``.
"""

from __future__ import annotations

import http.client
import random
import re
import select
import socket
import threading
import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

from support.servers import NOTHING, Answer, HttpServer, Request, reset

_CONTENTS = re.compile(rb"<Contents>.*?</Contents>", re.DOTALL)
_TOKEN = b"of-a-lie-"  # the server has never heard of it, and is not asked for it
_REDIRECT = "http://127.0.0.1:{port}/elsewhere"
_DROPPED = ("content-length", "connection", "date", "transfer-encoding", "server")


@dataclass
class LineRules:
    """
    How the line fails; None means that it does not.

    Attributes:
        cut_after: bytes from the server, then the connection is reset.
        hang_after: bytes from the server, then silence for ever.
        garble_after: bytes from the server, then each has a bit flipped.
        chunk_bytes: at most so many bytes at a time, each followed by a pause.
        pause_s: of that length.
    """

    cut_after: int | None = None
    hang_after: int | None = None
    garble_after: int | None = None
    chunk_bytes: int = 65_536
    pause_s: float = 0.0


class LineProxy:
    """
    A TCP proxy.

    Args:
        target: port on the loopback.

    Attributes:
        rules: may be changed at any time.
        sent: bytes to the server.
        received: bytes from the server.
        connections: how many were made.
    """

    def __init__(self, target: int) -> None:
        self.rules = LineRules()
        self.sent = self.received = self.connections = 0
        self._target = target
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = int(self._listener.getsockname()[1])
        self._stopped = threading.Event()
        self._threads = [threading.Thread(target=self._accept)]

    def __enter__(self) -> LineProxy:
        self._threads[0].start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopped.set()
        for thread in self._threads:
            thread.join()
        self._listener.close()

    def _accept(self) -> None:
        while not self._stopped.is_set():
            if select.select([self._listener], [], [], 0.05)[0]:
                client = self._listener.accept()[0]
                self.connections += 1
                thread = threading.Thread(target=self._serve, args=(client,))
                self._threads.append(thread)
                thread.start()

    def _serve(self, client: socket.socket) -> None:
        with client, socket.create_connection(("127.0.0.1", self._target)) as server, suppress(OSError):
            passed = 0
            while not self._stopped.is_set():
                ready = select.select([client, server], [], [], 0.05)[0]
                if client in ready:
                    data = client.recv(self.rules.chunk_bytes)
                    self.sent += len(data)
                    server.sendall(data)
                    if not data:
                        return
                if server in ready and not self._is_hung(passed):
                    data = self._take(server, passed)
                    passed += len(data)
                    self.received += len(data)
                    client.sendall(self._garble(data, passed))
                    if not data or passed == self.rules.cut_after:
                        reset(client)
                        return
                    if self.rules.pause_s:
                        self._stopped.wait(self.rules.pause_s)

    def _is_hung(self, passed: int) -> bool:
        if self.rules.hang_after is None or passed < self.rules.hang_after:
            return False
        self._stopped.wait(0.02)
        return True

    def _garble(self, data: bytes, passed: int) -> bytes:
        """Garble what lies behind the place; ``passed`` is where the data ends."""
        if self.rules.garble_after is None:
            return data
        whole = max(0, len(data) - max(0, passed - self.rules.garble_after))
        return data[:whole] + bytes(byte ^ 1 for byte in data[whole:])

    def _take(self, server: socket.socket, passed: int) -> bytes:
        limits = [limit - passed for limit in (self.rules.cut_after, self.rules.hang_after) if limit is not None]
        return server.recv(min([self.rules.chunk_bytes, *(limit for limit in limits if limit > 0)]))


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
        return Answer(number, b"" if is_head else text, (("Content-Type", "application/xml"),), len(text))

    return change


def _redirect(number: int) -> _Change:
    def change(_: Answer, source: random.Random) -> Answer:
        to = source.choice(["/again", _REDIRECT.format(port=source.randrange(1024, 65536)), "s3://nowhere", "\x01"])
        return Answer(number, b"", (("Location", to),), 0)

    return change


def _header(name: str, make: Callable[[str, random.Random], str]) -> _Change:
    def change(answer: Answer, source: random.Random) -> Answer:
        pairs = answer.headers
        headers = tuple((key, make(value, source) if key.lower().startswith(name) else value) for key, value in pairs)
        return answer._replace(headers=headers)

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
        return answer._replace(body=body, stated_bytes=len(body))

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
    return answer._replace(body=bytes(data))


def _shorten(answer: Answer, length: int) -> Answer:
    return answer._replace(body=answer.body[:length], stated_bytes=length)


def _tag(_: str, source: random.Random) -> str:
    digits = source.randbytes(16).hex()
    return source.choice([f'"{digits}"', f'"{digits}-3"', '""', '"x"', f'"{digits}-4000000000"'])


_TAGS = [b"", b"&quot;x&quot;", b"0" * 32, b"1" * 32 + b"-7"]
_SUMS = ["", "x", "AAAAAAAAAAA="]
_SIZES = [b"0", b"-1", b"99999999999999999999", b"many", b"", b"12345"]
_KEYS = [b"/../up", b"/a%00b", b"//etc/passwd", b"/a/./b", b"/%FF%FE", b"/a/", b"", b"/" + b"x" * 2000, b"/b%0Anew"]

LIES: dict[str, tuple[tuple[str, ...], _Change]] = {
    "cut": (Asked.ALL, lambda answer, source: answer._replace(cut_at=_somewhere(answer, source))),
    "stall": (Asked.ALL, lambda answer, source: answer._replace(hangs_at=_somewhere(answer, source))),
    "stall before all": (Asked.ALL, lambda answer, _: answer._replace(hangs_at=0)),
    "ended early": (
        Asked.ALL,
        lambda answer, source: answer._replace(cut_at=_somewhere(answer, source), ends_early=True),
    ),
    "head ended early": (
        Asked.ALL,
        lambda answer, source: answer._replace(cut_at=source.randrange(20, 150), ends_early=True),
    ),
    "garbage": (Asked.ALL, lambda answer, source: answer._replace(body=source.randbytes(len(answer.body)))),
    "garbage head": (Asked.ALL, lambda answer, source: answer._replace(head=source.randbytes(200) + b"\r\n\r\n")),
    "endless head": (
        Asked.ALL,
        lambda answer, _: answer._replace(head=b"HTTP/1.1 200 OK\r\n" + b"X-Much: more\r\n" * 5000 + b"\r\n"),
    ),
    "shortened": (
        Asked.ALL,
        lambda answer, source: _shorten(answer, source.randrange(len(answer.body) + 1)),
    ),
    "nothing": (Asked.ALL, lambda answer, _: _shorten(answer, 0)),
    "stated longer": (Asked.ALL, lambda answer, _: answer._replace(stated_bytes=answer.stated_bytes + 1000)),
    "stated shorter": (Asked.ALL, lambda answer, _: answer._replace(stated_bytes=answer.stated_bytes // 2)),
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
        lambda answer, source: answer._replace(
            headers=(
                *(pair for pair in answer.headers if pair[0].lower() != "x-amz-mp-parts-count"),
                ("x-amz-mp-parts-count", source.choice(["0", "1", "7", "10000", "9999999999", "x", "-2"])),
            ),
        ),
    ),
    "other size": (
        Asked.HEAD,
        lambda answer, source: answer._replace(stated_bytes=source.choice([0, 1, answer.stated_bytes + 1, 1 << 62])),
    ),
}
"""Which answers each is about, and what it does to one."""


_TIMES = {"cut": 0, "repeat": 2}
"""How often the server gets a request on a rough road."""


class HttpProxy(HttpServer):
    """
    The proxy, in threads; ``tell`` a lie, and ``be_honest`` again.

    Args:
        target: URL of the real server, http only.
        certificate: of the proxy, which speaks TLS then.

    Attributes:
        asked: how often what was asked since it was last honest: LIST, HEAD, GET, POST.
        told: how many lies.
        happened: on a rough road, to each request in order: pass, delay, cut (before the server got it), lose (the
            answer), repeat.
    """

    def __init__(self, target: str, *, certificate: Path | None = None) -> None:
        super().__init__(self._pass_on, certificate=certificate)
        self._to = urlsplit(target).netloc
        self.asked: Counter[str] = Counter()
        self.told = 0
        self.happened: list[str] = []
        self._lie: Lie | None = None
        self._matched = 0
        self._chance, self._faults = random.Random(), 0.0
        self._lock = threading.Lock()

    def tell(self, lie: Lie) -> None:
        """Lie from now on."""
        self.be_honest()
        self._lie = lie

    def be_honest(self) -> None:
        """Pass on what the server says; what hangs is let go."""
        with self._lock:
            self._lie, self._matched, self.told = None, 0, 0
            self.asked.clear()
            self.let_go()

    def rough(self, seed: int, *, faults: float = 0.5) -> HttpProxy:
        """Damage no byte from now on, but delay, cut, lose or repeat this share of the requests."""
        self._chance, self._faults = random.Random(seed), faults
        return self

    def _pass_on(self, request: Request) -> Answer:
        fault = self._choose() if self._faults else "pass"
        if fault == "delay":
            time.sleep(0.05)
        try:
            answers = [self._ask(request) for _ in range(_TIMES.get(fault, 1))]
        except (OSError, http.client.HTTPException):  # the server is away
            answers = []
        return self._change(_find_kind(request), answers[-1]) if answers and fault != "lose" else NOTHING

    def _choose(self) -> str:
        with self._lock:
            is_bad = self._chance.random() < self._faults
            self.happened.append(self._chance.choice(["delay", "cut", "lose", "repeat"]) if is_bad else "pass")
            return self.happened[-1]

    def _ask(self, request: Request) -> Answer:
        connection = http.client.HTTPConnection(self._to, timeout=60)
        try:
            path = re.sub(rf"&?continuation-token={_TOKEN.decode()}\w*", "", request.path)
            connection.request(request.method, path, request.body or None, request.headers)
            answer = connection.getresponse()
            body = answer.read()
            length = int(answer.getheader("Content-Length") or len(body))
            headers = tuple(pair for pair in answer.getheaders() if pair[0].lower() not in _DROPPED)
            return Answer(answer.status, body, headers, length)
        finally:
            connection.close()

    def _change(self, kind: str, answer: Answer) -> Answer:
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


def _find_kind(request: Request) -> str:
    return "LIST" if "list-type" in parse_qs(urlsplit(request.path).query) else request.method
