"""
The report protocol: how a box reports to a hub over HTTP. Both sides read and write it with this module.

A box calls, the hub answers; nothing is ever sent to a box. Each call carries the token of its box. The calls are
listed in ``docs/hub-api.md``; a body is one JSON object, or JSON lines with a header in the first line (``Content-Type:
application/x-ndjson``), and may be compressed with zstd.

I1  Messages are numbered without gaps within a stream. A box repeats a message until the hub has confirmed it, so the
    hub stores each (box, number) at most once.
I2  Each message carries the digest of all before it (``chain``). A box that was restored from an old image, and numbers
    anew from there, can't continue the chain, so the hub notices; the box then starts a new stream.
I3  Each process that reports has a random number (``run``), which is stored nowhere: two that take turns are two
    machines with one token.
I4  File names are any bytes. In JSON they are text with lone surrogates for bytes that are not UTF-8 (PEP 383), and
    all text is written with ASCII escapes.
"""

from __future__ import annotations

import json
from base64 import b64decode
from collections.abc import Callable, Iterable, Iterator
from enum import StrEnum
from typing import NamedTuple, TypeGuard, TypeVar

import xxhash

from integrity.errors import ProtocolError

VERSION = 1

JSON = "application/json"
JSON_LINES = "application/x-ndjson"
PACKED = "application/octet-stream"
ZSTD = "zstd"

MOST_BODY_BYTES = 8 << 20
"""A body, decompressed: a box sends more in several calls."""

MOST_LINES = 10_000
MOST_LINE_BYTES = 4 << 20
STREAM_BYTES = 16
CHAIN_BYTES = 16
RUN_BYTES = 16
FIRST_CHAIN = bytes(CHAIN_BYTES)
LARGEST = (1 << 63) - 1
"""What databases store as a whole number."""

JsonObject = dict[str, object]
T = TypeVar("T")


class MessageKind(StrEnum):
    """What a numbered message is about."""

    FINDING = "finding"  # as it is now: opened, changed, or resolved
    RUN = "run"  # a run that ended
    ACTION = "action"  # something that a person had done on the box
    STATE = "state"  # begins a stream; the next messages, as many as ``findings`` of its body says, repeat all
    # unresolved findings; then the hub ends those of older streams that were not among them


class ReportMessage(NamedTuple):
    """
    A numbered message.

    Attributes:
        number: from 1, without gaps within a stream (I1).
        at: when it was written, seconds UTC by the clock of the box.
        kind: what ``body`` is.
        body: an object of ``--json``, and ``root_id`` where it belongs to a root.
    """

    number: int
    at: int
    kind: MessageKind
    body: JsonObject


def to_text(path: bytes) -> str:
    """Write a path as the text that it is in JSON (I4)."""
    return path.decode("utf-8", "surrogateescape")


def encode(value: object) -> bytes:
    """Write one JSON value as one line, without its end."""
    return json.dumps(value, separators=(",", ":")).encode("ascii")


def encode_lines(values: Iterable[object]) -> bytes:
    return b"".join(encode(value) + b"\n" for value in values)


def decode(data: bytes) -> JsonObject:
    """Read one JSON object, or raise ProtocolError."""
    try:
        value = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise ProtocolError(f"not JSON: {error}") from error
    if not isinstance(value, dict):
        raise ProtocolError("not a JSON object")
    return value


def decode_lines(body: bytes) -> Iterator[JsonObject]:
    """Read JSON lines. ProtocolError: a line is no object, or too long, or there are too many."""
    lines = body.splitlines()
    if len(lines) > MOST_LINES + 1:
        raise ProtocolError(f"{len(lines):,} lines; at most {MOST_LINES:,} and a header")
    for number, line in enumerate(lines, 1):
        if len(line) > MOST_LINE_BYTES:
            raise ProtocolError(f"line {number} has {len(line):,} bytes; at most {MOST_LINE_BYTES:,}")
        try:
            yield decode(line)
        except ProtocolError as error:
            raise ProtocolError(f"line {number}: {error}") from error


def extend_chain(chain: bytes, message: ReportMessage) -> bytes:
    """Return the digest of all messages up to this one, from that of all before it (I2)."""
    return xxhash.xxh3_128_digest(chain + encode(message_object(message)))


def message_object(message: ReportMessage) -> JsonObject:
    return {"n": message.number, "at": message.at, "kind": message.kind.value, "body": message.body}


def is_number(value: object) -> TypeGuard[int]:
    """Return whether a value is a whole number, not negative and of at most 63 bits; true and false are none."""
    return type(value) is int and 0 <= value <= LARGEST


def cut(values: Iterable[T], write: Callable[[T], object], most_bytes: int) -> Iterator[list[T]]:
    """
    Cut values into groups that fit into one body each.

    Args:
        write: returns a value's line, or what is encoded as its line.
        most_bytes: of a body; a single longer value is a group by itself.
    """
    group: list[T] = []
    size = 0
    for value in values:
        line = write(value)
        length = len(line if isinstance(line, bytes) else encode(line)) + 1
        if group and (size + length > most_bytes or len(group) >= MOST_LINES):
            yield group
            group, size = [], 0
        group.append(value)
        size += length
    if group:
        yield group


def read_indexes(answer: JsonObject, name: str, count: int) -> list[int]:
    """Read indexes of lines. ProtocolError: one is none, or comes twice: what is asked again must not become more."""
    found = answer.get(name)
    if not isinstance(found, list) or not all(type(one) is int and 0 <= one < count for one in found):
        raise ProtocolError(f"the answer has no list of lines as {name!r}")
    if len(set(found)) < len(found):
        raise ProtocolError(f"the answer names a line twice as {name!r}")
    return found


def read_base64(answer: JsonObject, name: str) -> bytes:
    """Read bytes that are written in base64, or raise ProtocolError."""
    text = answer.get(name)
    try:
        return b64decode(text if isinstance(text, str) else "?", validate=True)
    except ValueError as error:
        raise ProtocolError(f"the answer has no base64 as {name!r}") from error
