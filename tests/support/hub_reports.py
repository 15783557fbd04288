"""What boxes report, made up for the tests of the hub: heartbeats, findings, streams of messages, trees of files."""

from __future__ import annotations

import secrets
from collections.abc import Iterable, Mapping

from integrity.reporting import protocol
from integrity.reporting.digest_tree import ReportedFile, digest_files, digest_subtree, file_values
from integrity.reporting.protocol import (
    FIRST_CHAIN,
    JsonObject,
    MessageKind,
    ReportMessage,
    extend_chain,
    message_object,
)
from support.hub_rows import NOW, reported

RECORDED_AT = NOW - 3600
"""Well before: what is recorded on one box in the second of another's report has to wait for the next one."""


def make_heartbeat(stream: bytes, *roots: JsonObject, newest: int = 0, **changes: object) -> JsonObject:
    """Return the object of a heartbeat."""
    return {
        "protocol": 1,
        "version": "1.0",
        "hostname": "nas",
        "sent_at": NOW,
        "stream": stream.hex(),
        "newest": newest,
        "sentence": "All files were verified.",
        "state": "ok",
        "roots": list(roots),
    } | changes


def make_root(
    number: int = 1, set_name: str | None = "photos", tree: bytes | None = None, **changes: object
) -> JsonObject:
    """Return the object of a root in a heartbeat."""
    return {
        "root": number,
        "path": f"/srv/root{number}",
        "set": set_name,
        "url": "",
        "excludes": [],
        "policy": "mutable",
        "verify_every_s": 30 * 86400,
        "files": 3,
        "bytes": 300,
        "oldest_verified_at": NOW,
        "tree": None if tree is None else tree.hex(),
    } | changes


def make_finding(number: int, path: str | None = "a.jpg", *, root: int | None = 1, **changes: object) -> JsonObject:
    """Return the body of a message about a finding."""
    return {
        "id": number,
        "root_id": root,
        "relative_path": path,
        "kind": "rot",
        "certainty": "proven",
        "state": "open",
        "opened_at": "2026-11-21T03:14:00Z",
        "resolved_at": None,
    } | changes


class Stream:
    """A stream of messages, as a box numbers them."""

    def __init__(self) -> None:
        self.id = secrets.token_bytes(protocol.STREAM_BYTES)
        self.messages: list[ReportMessage] = []
        self.chains = [FIRST_CHAIN]

    def add(self, kind: MessageKind, body: JsonObject) -> Stream:
        """Add a message."""
        message = ReportMessage(len(self.messages) + 1, NOW, kind, body)
        self.messages.append(message)
        self.chains.append(extend_chain(self.chains[-1], message))
        return self

    def begin(self, *findings: JsonObject) -> Stream:
        """Add what begins a stream."""
        self.add(MessageKind.STATE, {"findings": len(findings)})
        for finding in findings:
            self.add(MessageKind.FINDING, finding)
        return self

    def header(self, first: int = 1) -> JsonObject:
        """Return the first line of messages."""
        return {"protocol": 1, "stream": self.id.hex(), "first": first, "chain": self.chains[first - 1].hex()}

    def body(self, first: int = 1, last: int | None = None) -> bytes:
        """Return the body of some messages."""
        some = self.messages[first - 1 : last]
        return protocol.encode_lines([self.header(first), *map(message_object, some)])


def make_file(name: bytes, content: bytes = b"x", *, verified_at: int | None = RECORDED_AT + 1) -> ReportedFile:
    """Return what is reported of a file with this content."""
    return reported(name, content, mtime=NOW, recorded_at=RECORDED_AT, verified_at=verified_at)


class Tree:
    """The files of a root: each folder's path and its files; folders above are made up."""

    def __init__(self, folders: Mapping[bytes, Iterable[ReportedFile]]) -> None:
        self.files: dict[bytes, list[ReportedFile]] = {}
        for path, files in folders.items():
            self.files[path] = sorted(files)
            while path:
                path = path.rpartition(b"/")[0]
                self.files.setdefault(path, [])
        self.files.setdefault(b"", [])

    @property
    def top(self) -> bytes:
        """Subtree digest of the whole."""
        return self.subtree(b"")

    def names(self, path: bytes) -> list[bytes]:
        """Return the names of the folders in a folder, in order."""
        top = path + b"/" if path else b""
        below = (each.removeprefix(top) for each in self.files if each.startswith(top) and each != path)
        return sorted(name for name in below if b"/" not in name)

    def subtree(self, path: bytes) -> bytes:
        """Return the subtree digest of a folder."""
        own = digest_files(self.files[path]).own
        top = path + b"/" if path else b""
        return digest_subtree(own, [(name, self.subtree(top + name)) for name in self.names(path)])

    def compare_line(self, path: bytes) -> JsonObject:
        """Return the line that compares a folder."""
        own = digest_files(self.files[path]).own
        return {"path": _text(path), "own": own.hex(), "subtree": self.subtree(path).hex()}

    def part(self, path: bytes, first: int = 0, last: int | None = None, *, has_files: bool = True) -> JsonObject:
        """Return the line of a folder, or of the files from ``first`` to ``last`` in it."""
        files = self.files[path]
        some = [file_values(file) for file in files[first:last]]
        return self.compare_line(path) | {
            "content": digest_files(files).content.hex(),
            "folders": [_text(name) for name in self.names(path)],
            "first": first == 0,
            "last": last is None or last >= len(files),
            "files": some if has_files else None,
        }

    def parts(self) -> list[JsonObject]:
        """Return the lines of all folders, those below first."""
        return [self.part(path) for path in sorted(self.files, reverse=True)]


def _text(path: bytes) -> str:
    return path.decode("utf-8", "surrogateescape")
