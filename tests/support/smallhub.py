"""
A hub as small as can be: it speaks the report protocol, checks what it is sent, and answers as a test wants.

It keeps everything in memory. What it refuses, the real hub refuses, too; faults (``answers``) come before that.
"""

from __future__ import annotations

import json
import threading
from base64 import b64encode
from pathlib import Path
from typing import Any, NamedTuple

import zstandard

from integrity.hub.reported import FileLine, MessageLine, read_file
from integrity.reporting.digest_tree import (
    BucketDigests,
    choose_bits,
    digest_files,
    digest_subtree,
    find_bucket,
)
from integrity.reporting.forms import read_form
from integrity.reporting.protocol import FIRST_CHAIN, ReportMessage, decode, decode_lines, extend_chain
from support.cli import Box, Completed, complete
from support.servers import NOTHING, Answer, HttpServer, Request
from support.warmstart import get_warm_start

_MOST_BODY_BYTES = 8 << 20
_JOIN_S = 60.0
TOKEN = "integrity-box-" + "A" * 43


def refusal(status: int, code: str = "", retry_after: str = "") -> Answer:
    """Return what is answered in place of the right answer."""
    headers = (("Retry-After", retry_after),) if retry_after else ()
    return Answer(status, json.dumps({"error": code, "message": "no"}).encode(), headers)


class _RefusedError(Exception):
    """Ends a call with an answer."""

    def __init__(self, status: int, code: str) -> None:
        self.answer = refusal(status, code)


class Folder(NamedTuple):
    """A stored folder of a tree."""

    own: str
    content: str
    subtree: str
    files: list[Any]
    folders: frozenset[str] = frozenset()


class SmallHub(HttpServer):
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
        lines: lines of each call of messages or folders.
        tree_bytes: sizes of the bodies of all calls about trees, added up.
    """

    def __init__(self, certificate: Path | None = None) -> None:
        super().__init__(self.answer, certificate=certificate)
        self.heartbeats: list[dict[str, Any]] = []
        self.messages: list[tuple[str, dict[str, Any]]] = []
        self.streams: list[str] = []
        self.trees: dict[int, dict[str, Folder]] = {}
        self.settled: dict[int, str] = {}
        self.calls: list[str] = []
        self.answers: list[tuple[str, Answer]] = []
        self.lines: list[int] = []
        self.tree_bytes = 0
        self._last, self._chain = 0, FIRST_CHAIN
        self._parts: dict[tuple[int, str], list[Any]] = {}
        self._lock = threading.Lock()

    def forget(self, count: int) -> None:
        """Lose the last messages, as a hub that was restored from a backup."""
        self.messages = self.messages[:-count]
        self._last -= count

    def answer(self, request: Request) -> Answer:
        """Answer a call."""
        with self._lock:
            call = request.path.removeprefix("/hub/v1/")
            self.calls.append(call)
            planned = next((one for one in self.answers if call.startswith(one[0])), None)
            if planned is not None:
                self.answers.remove(planned)
                if planned[1] is not NOTHING:  # then the work is done, and its answer is lost
                    return planned[1]
            try:
                answer = Answer(body=json.dumps(self._dispatch(call, self._open(request))).encode())
            except _RefusedError as refused:
                answer = refused.answer
            return answer if planned is None else NOTHING

    @staticmethod
    def _open(request: Request) -> bytes:
        if request.headers["Authorization"] != f"Bearer {TOKEN}":
            raise _RefusedError(401, "unauthorized")
        if len(request.body) > _MOST_BODY_BYTES:
            raise _RefusedError(413, "too_large")
        is_packed = request.headers.get("Content-Encoding") == "zstd"
        return zstandard.ZstdDecompressor().decompressobj().decompress(request.body) if is_packed else request.body

    def _dispatch(self, call: str, body: bytes) -> dict[str, Any]:
        if call == "heartbeat":
            return self._take_heartbeat(decode(body))
        if call == "messages":
            return self._take_messages(list(decode_lines(body)))
        _, number, verb = call.split("/")
        self.tree_bytes += len(body)
        tree = self.trees.setdefault(int(number), {})
        if verb == "compare":
            return self._compare(tree, list(decode_lines(body))[1:])
        if verb == "buckets":
            return {"buckets": self._digest_buckets(tree.get(str(decode(body)["path"])))}
        if verb == "folders":
            return self._take_folders(int(number), list(decode_lines(body))[1:])
        self._digest(tree, "")
        top = tree.get("")
        if top is None or top.subtree != decode(body)["tree"]:
            return {"settled": False}
        self._check_tree(tree)
        self.settled[int(number)] = top.subtree
        return {"settled": True}

    def _take_heartbeat(self, beat: dict[str, Any]) -> dict[str, Any]:
        self.heartbeats.append(beat)
        is_known = bool(self.streams) and beat["stream"] == self.streams[-1] and beat["newest"] >= self._last
        roots = [one for one in beat["roots"] if one["tree"] and one["tree"] != self.settled.get(one["root"])]
        return {"now": 0, "last": self._last if is_known else None, "trees": [one["root"] for one in roots]}

    def _take_messages(self, lines: list[Any]) -> dict[str, Any]:
        header, messages = (
            lines[0],
            [ReportMessage(one.n, one.at, one.kind, one.body) for one in read_form(list[MessageLine], lines[1:])],
        )
        self.lines.append(len(messages))
        if not self.streams or header["stream"] != self.streams[-1]:
            if header["first"] != 1 or not messages or messages[0].kind != "state" or header["stream"] in self.streams:
                raise _RefusedError(409, "went_back")
            self.streams.append(header["stream"])
            self.messages, self._last, self._chain = [], 0, FIRST_CHAIN
        chain, last = bytes.fromhex(header["chain"]), self._last
        if header["first"] > last + 1:
            raise _RefusedError(409, "went_back")
        new = []
        for message in messages:
            if message.number == last + 1 and chain != self._chain:
                raise _RefusedError(409, "went_back")
            chain = extend_chain(chain, message)
            if message.number > last:
                new.append((message.kind.value, dict(message.body)))
        if new:
            self.messages += new
            self._last, self._chain = messages[-1].number, chain
        return {"last": messages[-1].number}

    def _compare(self, tree: dict[str, Folder], lines: list[Any]) -> dict[str, Any]:
        self.lines.append(len(lines))
        nothing = Folder("", "", "", [])
        known = [tree.get(line["path"], nothing) for line in lines]
        pairs = list(enumerate(zip(known, lines, strict=True)))
        return {
            "own": [index for index, (has, line) in pairs if has.own != line["own"]],
            "below": [index for index, (has, line) in pairs if has.subtree != line["subtree"]],
        }

    @staticmethod
    def _digest_buckets(folder: Folder | None) -> str:
        if folder is None or not folder.files:
            return ""
        digests = BucketDigests(choose_bits(len(folder.files)))
        for row in folder.files:
            digests.add(read_file(read_form(FileLine, row)))
        return b64encode(digests.pack()).decode("ascii")

    def _take_folders(self, root: int, lines: list[Any]) -> dict[str, Any]:
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
            if "buckets" in line:
                kept = [row for row in tree[path].files if not _is_sent(row, line["buckets"])]
                assert all(_is_sent(row, line["buckets"]) for row in rows)
                rows = sorted([*kept, *rows], key=lambda row: read_file(read_form(FileLine, row)).name)
            if not line["last"]:
                continue
            digests = digest_files(read_file(read_form(FileLine, row)) for row in rows)
            if (digests.own.hex(), digests.content.hex()) != (line["own"], line["content"]):
                raise _RefusedError(409, "wrong_digest")
            self._remove_others(tree, path, {*line["folders"]})
            tree[path] = Folder(line["own"], line["content"], line["subtree"], rows, frozenset(line["folders"]))
            self._parts.pop((root, path), None)
            stored += 1
        return {"stored": stored}

    @staticmethod
    def _remove_others(tree: dict[str, Folder], path: str, names: set[str]) -> None:
        """Remove the folders in a folder that are not named, with all below them."""
        top = f"{path}/" if path else ""
        for gone in (tree[path].folders if path in tree else set()) - names:
            for other in [one for one in tree if one == top + gone or one.startswith(f"{top}{gone}/")]:
                del tree[other]

    def _digest(self, tree: dict[str, Folder], path: str) -> bytes:
        """Digest a subtree as the hub does: a folder above a change may not have been sent."""
        if path not in tree:
            return b""
        folder, top = tree[path], f"{path}/" if path else ""
        names = sorted(name.encode("utf-8", "surrogateescape") for name in folder.folders)
        below = [(name, self._digest(tree, top + name.decode("utf-8", "surrogateescape"))) for name in names]
        subtree = digest_subtree(bytes.fromhex(folder.own), below)
        tree[path] = folder._replace(subtree=subtree.hex())
        return subtree

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


def _is_sent(row: object, buckets: dict[str, Any]) -> bool:
    return find_bucket(read_file(read_form(FileLine, row)).name, buckets["bits"]) in buckets["numbers"]


def join_hub(box: Box, *args: object, token: str = TOKEN, expect: int = 0, folder: Path | None = None) -> Completed:
    """Run ``hub join`` with a token on standard input; ``folder``: where it is started."""
    words, typed = ["hub", "join", *map(str, args)], token.encode() + b"\n"
    code, out, err = get_warm_start().run(words, box.environment, folder, _JOIN_S, stdin=typed)
    assert expect == code, (out + err).decode()
    return complete(code, out, err, is_json=False)
