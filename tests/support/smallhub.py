"""
A hub as small as can be: it speaks the report protocol, checks what it is sent, and answers as a test wants.

It keeps everything in memory. What it refuses, the real hub refuses, too; faults (``answers``) come before that.
"""

from __future__ import annotations

import json
import ssl
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, NamedTuple

import zstandard

from integrity.reporting.digest_tree import digest_files, digest_subtree, read_file_values
from integrity.reporting.protocol import FIRST_CHAIN, decode, decode_lines, extend_chain, read_message
from support.programs import sh

TOKEN = "integrity-box-" + "A" * 43


class Answer(NamedTuple):
    """What is answered in place of the right answer."""

    status: int
    code: str = ""
    retry_after: str = ""


CUT = Answer(0, "cut")
"""The work is done, and the connection is cut in place of an answer."""

HANG = Answer(0, "hang")
"""Nothing is done, and no answer comes until the hub ends."""


class Folder(NamedTuple):
    """A stored folder of a tree."""

    own: str
    content: str
    subtree: str
    files: list[Any]
    folders: frozenset[str] = frozenset()


class SmallHub:
    """
    ``with SmallHub() as hub: ...``.

    Attributes:
        heartbeats: all that came, in order.
        messages: the stored messages of the present stream: kind and body.
        streams: every stream that was begun.
        trees: stored folders by root and path.
        settled: digest of each root's settled tree.
        calls: path of each call below /hub/v1/, in order.
        answers: what the next calls are answered, by the beginning of their path; then all is right again.
        connections: how many were made.
        lines: lines of each call of messages or folders.
        ending: set when it ends.
    """

    def __init__(self, certificate: Path | None = None, most_body_bytes: int = 8 << 20) -> None:
        self.heartbeats: list[dict[str, Any]] = []
        self.messages: list[tuple[str, dict[str, Any]]] = []
        self.streams: list[str] = []
        self.trees: dict[int, dict[str, Folder]] = {}
        self.settled: dict[int, str] = {}
        self.calls: list[str] = []
        self.answers: list[tuple[str, Answer]] = []
        self.connections = 0
        self.lines: list[int] = []
        self.ending = threading.Event()
        self._last, self._chain = 0, FIRST_CHAIN
        self._parts: dict[tuple[int, str], list[Any]] = {}
        self._most_body_bytes = most_body_bytes
        self._lock = threading.Lock()
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._make_handler())
        self._server.daemon_threads = True
        if certificate is not None:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(certificate, certificate.with_suffix(".key"))
            self._server.socket = context.wrap_socket(self._server.socket, server_side=True)
        scheme = "http" if certificate is None else "https"
        self.url = f"{scheme}://127.0.0.1:{self._server.server_port}"

    def __enter__(self) -> SmallHub:
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self.ending.set()
        self._server.shutdown()
        self._server.server_close()

    def forget(self, count: int) -> None:
        """Lose the last messages, as a hub that was restored from a backup."""
        self.messages = self.messages[:-count]
        self._last -= count

    def _make_handler(self) -> type[BaseHTTPRequestHandler]:
        hub = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def setup(self) -> None:
                super().setup()
                hub.connections += 1

            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                answer, value = hub.take(self.path, body, dict(self.headers))
                if answer is HANG:
                    hub.ending.wait()
                if answer.status == 0:
                    self.close_connection = True
                    return
                text = json.dumps(value if answer.status == 200 else {"error": answer.code, "message": "no"}).encode()
                self.send_response(answer.status)
                self.send_header("Content-Length", str(len(text)))
                if answer.retry_after:
                    self.send_header("Retry-After", answer.retry_after)
                self.end_headers()
                self.wfile.write(text)

            def log_message(self, *_: object) -> None:
                pass

        return Handler

    def take(self, path: str, body: bytes, headers: dict[str, str]) -> tuple[Answer, dict[str, Any]]:
        """Answer a call."""
        with self._lock:
            call = path.removeprefix("/hub/v1/")
            self.calls.append(call)
            planned = next((one for one in self.answers if call.startswith(one[0])), None)
            if planned is not None:
                self.answers.remove(planned)
                if planned[1] is not CUT:
                    return planned[1], {}
            if headers["Authorization"] != f"Bearer {TOKEN}":
                return Answer(401, "unauthorized"), {}
            if len(body) > self._most_body_bytes:
                return Answer(413, "too_large"), {}
            if headers.get("Content-Encoding") == "zstd":
                body = zstandard.ZstdDecompressor().decompressobj().decompress(body)
            answer, value = self._dispatch(call, body)
            return (answer if planned is None else CUT), value

    def _dispatch(self, call: str, body: bytes) -> tuple[Answer, dict[str, Any]]:
        if call == "heartbeat":
            return Answer(200), self._take_heartbeat(decode(body))
        if call == "messages":
            return self._take_messages(list(decode_lines(body)))
        _, number, verb = call.split("/")
        tree = self.trees.setdefault(int(number), {})
        if verb == "compare":
            return Answer(200), self._compare(tree, list(decode_lines(body))[1:])
        if verb == "folders":
            return self._take_folders(int(number), list(decode_lines(body))[1:])
        top = tree.get("")
        if top is None or top.subtree != decode(body)["tree"]:
            return Answer(200), {"settled": False}
        self._check_tree(tree)
        self.settled[int(number)] = top.subtree
        return Answer(200), {"settled": True}

    def _take_heartbeat(self, beat: dict[str, Any]) -> dict[str, Any]:
        self.heartbeats.append(beat)
        is_known = bool(self.streams) and beat["stream"] == self.streams[-1] and beat["newest"] >= self._last
        roots = [one for one in beat["roots"] if one["tree"] and one["tree"] != self.settled.get(one["root"])]
        return {"now": 0, "last": self._last if is_known else None, "trees": [one["root"] for one in roots]}

    def _take_messages(self, lines: list[Any]) -> tuple[Answer, dict[str, Any]]:
        header, messages = lines[0], [read_message(line) for line in lines[1:]]
        self.lines.append(len(messages))
        if not self.streams or header["stream"] != self.streams[-1]:
            if header["first"] != 1 or not messages or messages[0].kind != "state" or header["stream"] in self.streams:
                return Answer(409, "went_back"), {}
            self.streams.append(header["stream"])
            self.messages, self._last, self._chain = [], 0, FIRST_CHAIN
        chain, last = bytes.fromhex(header["chain"]), self._last
        if header["first"] > last + 1:
            return Answer(409, "went_back"), {}
        new = []
        for message in messages:
            if message.number == last + 1 and chain != self._chain:
                return Answer(409, "went_back"), {}
            chain = extend_chain(chain, message)
            if message.number > last:
                new.append((message.kind.value, dict(message.body)))
        if new:
            self.messages += new
            self._last, self._chain = messages[-1].number, chain
        return Answer(200), {"last": messages[-1].number}

    def _compare(self, tree: dict[str, Folder], lines: list[Any]) -> dict[str, Any]:
        self.lines.append(len(lines))
        nothing = Folder("", "", "", [])
        known = [tree.get(line["path"], nothing) for line in lines]
        pairs = list(enumerate(zip(known, lines, strict=True)))
        return {
            "own": [index for index, (has, line) in pairs if has.own != line["own"]],
            "below": [index for index, (has, line) in pairs if has.subtree != line["subtree"]],
        }

    def _take_folders(self, root: int, lines: list[Any]) -> tuple[Answer, dict[str, Any]]:
        self.lines.append(len(lines))
        tree, stored = self.trees[root], 0
        for line in lines:
            path = line["path"]
            if line["files"] is None:
                rows = tree[path].files
            else:
                parts = self._parts.setdefault((root, path), [])
                if line["first"]:
                    parts.clear()
                parts += line["files"]
                rows = list(parts)
            if not line["last"]:
                continue
            digests = digest_files(read_file_values(row) for row in rows)
            if (digests.own.hex(), digests.content.hex()) != (line["own"], line["content"]):
                return Answer(409, "wrong_digest"), {}
            self._remove_others(tree, path, {*line["folders"]})
            tree[path] = Folder(line["own"], line["content"], line["subtree"], rows, frozenset(line["folders"]))
            self._parts.pop((root, path), None)
            stored += 1
        return Answer(200), {"stored": stored}

    @staticmethod
    def _remove_others(tree: dict[str, Folder], path: str, names: set[str]) -> None:
        """Remove the folders in a folder that are not named, with all below them."""
        top = f"{path}/" if path else ""
        for gone in (tree[path].folders if path in tree else set()) - names:
            for other in [one for one in tree if one == top + gone or one.startswith(f"{top}{gone}/")]:
                del tree[other]

    @staticmethod
    def _check_tree(tree: dict[str, Folder]) -> None:
        """Each subtree must follow from what is stored, and each folder lie in one that names it."""
        for path, folder in tree.items():
            top = f"{path}/" if path else ""
            names = sorted(name.encode("utf-8", "surrogateescape") for name in folder.folders)
            below = [
                (name, bytes.fromhex(tree[top + name.decode("utf-8", "surrogateescape")].subtree)) for name in names
            ]
            assert folder.subtree == digest_subtree(bytes.fromhex(folder.own), below).hex(), path
        assert len(tree) == 1 + sum(len(folder.folders) for folder in tree.values())


def make_certificate(folder: Path, *, days: str = "2") -> Path:
    """Make a certificate for 127.0.0.1 that is signed by itself; its key lies beside it."""
    certificate = folder / "hub.pem"
    sh(
        *("openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"),
        *("-keyout", certificate.with_suffix(".key"), "-out", certificate, "-days", days, "-subj", "/CN=127.0.0.1"),
        *("-addext", "subjectAltName=IP:127.0.0.1"),
    )
    return certificate
