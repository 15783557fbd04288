"""
Check what a box reports before anything of it reaches the database.

Each function takes decoded JSON and returns values of known types and lengths, or raises ProtocolError. Texts lose what
is not printable; paths are bytes without NUL; numbers fit into 64 bits.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime

from integrity.errors import ProtocolError, printable
from integrity.reporting import protocol
from integrity.reporting.protocol import CHAIN_BYTES, RUN_BYTES, STREAM_BYTES, JsonObject

DIGEST_BYTES = 16
_LONGEST_TEXT = 1000
_LONGEST_PATH = 4096
_MOST_ROOTS = 1000
_MOST_EXCLUDES = 1000
_LONGEST_SET = 200
LONGEST_INDEXED = 2560
"""The longest path relative to a root, in bytes: an index of PostgreSQL holds no row of more than 2,704."""

_LONGEST_BODY = 64 << 10
"""A vote reads thousands of them at once. A box sends at most a thousand places of damage: half as much."""

_LONGEST_VALUE = 4 << 10
_STATES = frozenset({"ok", "problem", "gap"})


@dataclass(frozen=True, slots=True)
class AnnouncedRoot:
    """
    A root in a heartbeat; see the columns of ``schema.member``.

    Attributes:
        set_name: name of its replica set; None: it is in none.
        excludes: JSON list of patterns.
        tree: announced subtree digest of its top; None: no files are reported, or none are known yet.
    """

    root_id: int
    path: bytes
    set_name: str | None
    url: str
    excludes: str
    policy: str
    verify_every_s: int
    file_count: int
    byte_count: int
    oldest_verified_at: int | None
    tree: bytes | None


@dataclass(frozen=True, slots=True)
class BoxHeartbeat:
    """
    A heartbeat; see hub-api.md.

    Attributes:
        run: random number of the process that reports; None: its version has none.
        machine: differs between two machines that run at the same time, and lasts until a restart of the machine.
    """

    hostname: str
    version: str
    sent_at: int
    stream: bytes
    newest: int
    sentence: str
    state: str
    roots: tuple[AnnouncedRoot, ...]
    run: bytes | None = None
    machine: bytes | None = None


@dataclass(frozen=True, slots=True)
class ReportedFinding:
    """A finding of a box; see the columns of ``schema.box_finding``."""

    number: int
    root_id: int | None
    path: bytes | None
    kind: str
    state: str
    certainty: str | None
    opened_at: int
    resolved_at: int | None
    body: str


@dataclass(frozen=True, slots=True)
class MessagesHeader:
    """The first line of messages. ``joining``: the machine that asks whether it may use the token; None: it reports."""

    stream: bytes
    first: int
    chain: bytes
    joining: bytes | None = None


def require_version(value: Mapping[str, object]) -> None:
    """
    Require the version of the protocol that this hub speaks.

    Raises:
        ProtocolError: it is another one.
    """
    if value.get("protocol") != protocol.VERSION:
        raise ProtocolError(f"this hub speaks version {protocol.VERSION} of the report protocol; update the older side")


def read_heartbeat(value: JsonObject) -> BoxHeartbeat:
    """Read a heartbeat."""
    require_version(value)
    roots = value.get("roots")
    if not isinstance(roots, list) or len(roots) > _MOST_ROOTS:
        raise ProtocolError(f"roots: a list of at most {_MOST_ROOTS:,} is needed")
    read = tuple(_read_root(root) for root in roots)
    if len({root.root_id for root in read}) < len(read):
        raise ProtocolError("roots: one of them is named twice")
    state = read_text(value, "state")
    if state not in _STATES:
        raise ProtocolError("state: not ok, problem or gap")
    return BoxHeartbeat(
        read_text(value, "hostname"),
        read_text(value, "version"),
        read_number(value, "sent_at"),
        read_hex(value, "stream", STREAM_BYTES),
        read_number(value, "newest"),
        read_text(value, "sentence"),
        state,
        read,
        *(_read_hex_or_none(value, name, RUN_BYTES) for name in ("run", "machine")),
    )


def _read_root(value: object) -> AnnouncedRoot:
    if not isinstance(value, dict):
        raise ProtocolError("roots: one of them is no object")
    excludes = value.get("excludes")
    if not isinstance(excludes, list) or len(excludes) > _MOST_EXCLUDES or not _are_texts(excludes):
        raise ProtocolError("excludes: a list of texts is needed")
    set_name = None if value.get("set") is None else read_text(value, "set")
    if set_name is not None and not 0 < len(set_name) <= _LONGEST_SET:
        raise ProtocolError(f"set: a name of at most {_LONGEST_SET} characters is needed")
    path = read_path(value, "path")
    if not path.startswith(b"/"):
        raise ProtocolError("path: an absolute path is needed")
    return AnnouncedRoot(
        read_number(value, "root"),
        path,
        set_name,
        read_text(value, "url"),
        protocol.encode(excludes).decode("ascii"),
        read_text(value, "policy"),
        read_number(value, "verify_every_s"),
        read_number(value, "files"),
        read_number(value, "bytes"),
        read_number_or_none(value, "oldest_verified_at"),
        None if value.get("tree") is None else read_hex(value, "tree", DIGEST_BYTES),
    )


def _are_texts(values: list[object]) -> bool:
    return all(isinstance(value, str) and len(value) <= _LONGEST_PATH for value in values)


def read_messages_header(value: JsonObject) -> MessagesHeader:
    """Read the first line of messages."""
    require_version(value)
    first = read_number(value, "first")
    if first < 1:
        raise ProtocolError("first: messages are numbered from 1")
    stream, chain = read_hex(value, "stream", STREAM_BYTES), read_hex(value, "chain", CHAIN_BYTES)
    return MessagesHeader(stream, first, chain, _read_hex_or_none(value, "joining", RUN_BYTES))


def read_finding(value: JsonObject) -> ReportedFinding:
    """Read an object of ``findings --json``, with ``root_id`` and ``relative_path`` where it belongs to a root."""
    resolved_at = None if value.get("resolved_at") is None else read_time(value, "resolved_at")
    return ReportedFinding(
        read_number(value, "id"),
        read_number_or_none(value, "root_id"),
        _read_indexed_path(value, "relative_path"),
        read_text(value, "kind"),
        read_text(value, "state"),
        None if value.get("certainty") is None else read_text(value, "certainty"),
        read_time(value, "opened_at"),
        resolved_at,
        write_body(value),
    )


def write_body(value: JsonObject) -> str:
    """Write what a box says of a finding or an event; without its longest values, if it is too long to be kept."""
    text = protocol.encode(value).decode("ascii")
    if len(text) <= _LONGEST_BODY:
        return text
    short = {key: one for key, one in value.items() if len(key) + len(protocol.encode(one)) <= _LONGEST_VALUE}
    text = protocol.encode(short).decode("ascii")
    return text if len(text) <= _LONGEST_BODY else "{}"


def _read_indexed_path(value: JsonObject, key: str) -> bytes | None:
    """Read a path, or null; one that is too long to be looked up stands in the body only."""
    path = None if value.get(key) is None else read_path(value, key)
    return None if path is None or len(path) > LONGEST_INDEXED else path


def read_text(value: Mapping[str, object], key: str) -> str:
    """Read a text of one line; what is not printable is escaped, and what is too long cut."""
    text = value.get(key)
    if not isinstance(text, str):
        raise ProtocolError(f"{key}: a text is needed")
    return printable(text[:_LONGEST_TEXT])


def read_number(value: Mapping[str, object], key: str) -> int:
    """Read a number that is not negative."""
    number = value.get(key)
    if not protocol.is_number(number):
        raise ProtocolError(f"{key}: a whole number is needed, not negative and of at most 63 bits")
    return number


def read_number_or_none(value: Mapping[str, object], key: str) -> int | None:
    """Read a number, or null."""
    return None if value.get(key) is None else read_number(value, key)


def read_hex(value: Mapping[str, object], key: str, length: int) -> bytes:
    """Read so many bytes, which are written in hex."""
    text = value.get(key)
    try:
        data = bytes.fromhex(text) if isinstance(text, str) else b""
    except ValueError:
        data = b""
    if len(data) != length:
        raise ProtocolError(f"{key}: {length} bytes in hex are needed")
    return data


def _read_hex_or_none(value: Mapping[str, object], key: str, length: int) -> bytes | None:
    return None if value.get(key) is None else read_hex(value, key, length)


def read_path(value: Mapping[str, object], key: str) -> bytes:
    """Read a path, whose bytes are written as in I4 of the protocol."""
    text = value.get(key)
    try:
        path = text.encode("utf-8", "surrogateescape") if isinstance(text, str) else b"\0"
    except UnicodeEncodeError:
        path = b"\0"
    if b"\0" in path or len(path) > _LONGEST_PATH:
        raise ProtocolError(f"{key}: a path of at most {_LONGEST_PATH:,} bytes is needed")
    return path


def read_time(value: Mapping[str, object], key: str) -> int:
    """Read a time of ``--json``: UTC, ISO 8601. Return seconds."""
    text = value.get(key)
    try:
        moment = datetime.strptime(text if isinstance(text, str) else "", "%Y-%m-%dT%H:%M:%SZ")
    except ValueError as error:
        raise ProtocolError(f"{key}: a time such as 2026-11-21T03:14:00Z is needed") from error
    return int(moment.replace(tzinfo=UTC).timestamp())
