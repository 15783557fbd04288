"""
What a box reports: a class for each object, by which it is read before anything reaches the database, and described.

Texts lose what is not printable; paths are bytes without NUL; numbers fit into 64 bits. Folders come with their files,
or in parts, which are joined.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import pairwise
from typing import Annotated, Any, ClassVar, Literal, Self, TypeVar

from msgspec import Meta, Struct

from integrity.errors import CallRefused, ProtocolError
from integrity.model import FindingState
from integrity.reporting import protocol
from integrity.reporting.digest_tree import (
    MOST_BITS,
    READ_HOWS,
    Buckets,
    FolderDigests,
    ReportedFile,
    digest_files,
)
from integrity.reporting.forms import LONGEST_PATH, Hex, Number, OneLine, PathBytes, Signed, read_form
from integrity.reporting.protocol import JsonObject, MessageKind

_MOST = 1000
_LONGEST_SET = 200
LONGEST_INDEXED = 2560
"""The longest path relative to a root, in bytes: an index of PostgreSQL holds no row of more than 2,704."""

_LONGEST_BODY = 64 << 10
"""A vote reads thousands of them at once. A box sends at most a thousand places of damage: half as much."""

_LONGEST_VALUE = 4 << 10

T = TypeVar("T")

Version = Literal[1]
HexText = Annotated[str, Meta(pattern="^[0-9a-f]{32}$")]


class SetName(OneLine):
    """The name of a replica set."""

    @classmethod
    def read(cls, text: str) -> Self:
        name = super().read(text)
        if not 0 < len(name) <= _LONGEST_SET:
            raise ValueError(f"a name of at most {_LONGEST_SET} characters is needed")
        return name


class RootPath(PathBytes):
    """The absolute path of a root."""

    @classmethod
    def read(cls, text: str) -> Self:
        path = super().read(text)
        if not path.startswith(b"/"):
            raise ValueError("an absolute path is needed")
        return path


class FolderPath(PathBytes):
    """The path of a folder, relative to its root; empty: the top."""

    @classmethod
    def read(cls, text: str) -> Self:
        path = super().read(text)
        if len(path) > LONGEST_INDEXED:
            raise ValueError(f"a path of {len(path):,} bytes; at most {LONGEST_INDEXED:,}")
        if path and any(name in (b"", b".", b"..") for name in path.split(b"/")):
            raise ValueError("a path relative to the root is needed")
        return path


class FolderName(FolderPath):
    """The name of a folder in another one."""

    @classmethod
    def read(cls, text: str) -> Self:
        name = super().read(text)
        if not name or b"/" in name:
            raise ValueError("a name is needed")
        return name


class Time(int):
    """A time of ``--json``: UTC, ISO 8601; seconds."""

    schema: ClassVar[JsonObject] = {"type": "string", "format": "date-time"}

    @classmethod
    def read(cls, text: str) -> Self:
        return cls(datetime.strptime(text, "%Y-%m-%dT%H:%M:%SZ").replace(tzinfo=UTC).timestamp())


class AnnouncedRoot(
    Struct,
    frozen=True,
    rename={"root_id": "root", "set_name": "set", "file_count": "files", "byte_count": "bytes"},
):
    """A root in a heartbeat; see the columns of ``schema.member``."""

    root_id: Number
    path: RootPath
    url: OneLine
    excludes: Annotated[list[Annotated[str, Meta(max_length=LONGEST_PATH)]], Meta(max_length=_MOST)]
    policy: OneLine
    verify_every_s: Number
    file_count: Number
    byte_count: Number
    set_name: SetName | None = None
    oldest_verified_at: Number | None = None
    tree: Hex | None = None


class BoxHeartbeat(Struct, frozen=True):
    """
    A heartbeat; see hub-api.md.

    Attributes:
        run: random number of the process that reports; None: its version has none.
        machine: differs between two machines that run at the same time, and lasts until a restart of the machine.
    """

    protocol: Version
    version: OneLine
    hostname: OneLine
    sent_at: Number
    stream: Hex
    newest: Number
    sentence: OneLine
    state: Literal["ok", "problem", "gap"]
    roots: Annotated[tuple[AnnouncedRoot, ...], Meta(max_length=_MOST)]
    run: Hex | None = None
    machine: Hex | None = None

    def __post_init__(self) -> None:
        if len({root.root_id for root in self.roots}) < len(self.roots):
            raise ValueError("roots: one of them is named twice")


class MessagesHeader(Struct, frozen=True):
    """The first line of messages. ``joining``: the machine that asks whether it may use the token; None: it reports."""

    protocol: Version
    stream: Hex
    first: Annotated[int, Meta(ge=1, le=protocol.LARGEST)]
    chain: Hex
    joining: Hex | None = None


class ReportedFinding(Struct, frozen=True, rename={"number": "id"}):
    """An object of ``findings --json``, with ``root_id`` and ``relative_path`` where it belongs to a root."""

    number: Number
    kind: OneLine
    state: Annotated[OneLine, Meta(examples=[state.value for state in FindingState])]
    opened_at: Time
    root_id: Number | None = None
    relative_path: PathBytes | None = None
    certainty: OneLine | None = None
    resolved_at: Time | None = None

    @property
    def path(self) -> bytes | None:
        """The path; one that is too long to be looked up stands in the body only."""
        path = self.relative_path
        return None if path is None or len(path) > LONGEST_INDEXED else path


class ForgottenFinding(Struct, frozen=True, rename={"number": "id"}):
    """A finding of which the box has nothing but its number any more."""

    number: Number


class AboutRoot(Struct, frozen=True):
    """A run or an action, as far as it is looked into."""

    root_id: Number | None = None


class BeginsStream(Struct, frozen=True):
    """What a stream begins with: how many messages repeat findings."""

    findings: Number | None = None


class MessageLine(Struct, frozen=True):
    """A line with a message; see ``ReportMessage``."""

    n: Annotated[int, Meta(ge=1, le=protocol.LARGEST)]
    at: Number
    kind: MessageKind
    body: dict[str, Any]


class PlainHeader(Struct, frozen=True):
    """The first line of what has no more to say."""

    protocol: Version


class FolderQuestion(PlainHeader, frozen=True):
    """A folder of which the buckets are asked for."""

    path: FolderPath


class TreeQuestion(PlainHeader, frozen=True):
    """A tree that is to be settled."""

    tree: Hex


class ComparedFolder(Struct, frozen=True):
    """A folder with its digests, for a comparison."""

    path: FolderPath
    own: Hex
    subtree: Hex


class FileLine(Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """A file; see ``ReportedFile``. Digests are texts: a dozen million of them are read."""

    name: str
    size_bytes: Number
    mtime_ns: Signed
    md5: HexText | None
    xxh3_128: HexText | None
    recorded_at: Signed
    verified_at: Signed | None
    read_how: Annotated[int, Meta(ge=0, le=len(READ_HOWS) - 1)]
    flags: Annotated[int, Meta(ge=0, le=255)]


class BucketNumbers(Struct, frozen=True):
    """Some of the buckets of a folder's files."""

    bits: Number
    numbers: list[Number]


class FolderLine(ComparedFolder, frozen=True):
    """A folder, or a part of its files."""

    content: Hex
    folders: list[FolderName]
    first: bool
    last: bool
    files: list[FileLine] | None = None
    buckets: BucketNumbers | None = None


def read_call(kind: type[T], value: Mapping[str, object]) -> T:
    """Read a body, or the first line of one. ProtocolError: its version, or a value, is none that it may be."""
    if value.get("protocol") != protocol.VERSION:
        raise ProtocolError(f"this hub speaks version {protocol.VERSION} of the report protocol; update the older side")
    return read_form(kind, value)


def write_body(value: JsonObject) -> str:
    """Write what a box says of a finding or an event; without its longest values, if it is too long to be kept."""
    text = protocol.encode(value).decode("ascii")
    if len(text) <= _LONGEST_BODY:
        return text
    short = {key: one for key, one in value.items() if len(key) + len(protocol.encode(one)) <= _LONGEST_VALUE}
    text = protocol.encode(short).decode("ascii")
    return text if len(text) <= _LONGEST_BODY else "{}"


def refuse_digest(message: str) -> CallRefused:
    """Return the refusal of a folder whose digests are not those of its files: both sides have to compare again."""
    return CallRefused(409, "wrong_digest", f"{message}; compare again")


@dataclass(slots=True)
class SentFolder:
    """
    A folder, or the part of it that is in one call.

    Attributes:
        path: relative to the root; empty: the top.
        own, content, subtree: digests, as the box says.
        folders: paths of the folders in it.
        has_files: its files are here; else they are those that are stored, and only what lies below it changed.
        is_begun: its first part is here; else parts came before.
        is_whole: its last part is here.
        files: of these parts, in the order of their names.
        buckets: all files of these buckets are here, and no others: those of the others are as stored. None: all are.
    """

    path: bytes
    own: bytes
    content: bytes
    subtree: bytes
    folders: frozenset[bytes]
    has_files: bool
    is_begun: bool
    is_whole: bool
    files: list[ReportedFile] = field(default_factory=list)
    buckets: Buckets | None = None

    @property
    def is_in_one_call(self) -> bool:
        return self.has_files and self.is_begun and self.is_whole and self.buckets is None

    def check(self, digests: FolderDigests) -> None:
        """Require the digests of its files, or raise CallRefused."""
        if digests != (self.own, self.content):
            raise refuse_digest("the digests of a folder are not those of its files")


def read_folders(lines: Iterable[JsonObject]) -> list[SentFolder]:
    """
    Read the lines behind the header, and join the parts of each folder.

    Raises:
        ProtocolError: a line is no part of a folder, or parts are not in order.
        CallRefused: a folder that is here as a whole has other digests.
    """
    folders: list[SentFolder] = []
    for part in map(_read_part, read_form(list[FolderLine], [*lines])):
        if part.is_begun:
            folders.append(part)
        elif folders and folders[-1].path == part.path and not folders[-1].is_whole:
            _join(folders[-1], part)
        elif not folders:
            folders.append(part)  # continues what an earlier call began
        else:
            raise ProtocolError("folders: a part does not follow the part before it")
        if folders[:-1] and not folders[-2].is_whole:
            raise ProtocolError("folders: a folder begins before the last part of another one")
    for folder in folders:
        require_order(folder.files)
        if folder.is_in_one_call:
            folder.check(digest_files(folder.files))
    if len({folder.path for folder in folders}) < len(folders):
        raise ProtocolError("folders: one of them is named twice")
    return folders


def parent_of(path: bytes) -> bytes | None:
    """Return the folder that a folder lies in; None for the top."""
    return None if not path else path.rpartition(b"/")[0]


def require_order(files: list[ReportedFile]) -> None:
    """Require each name once, in the order of their bytes, or raise ProtocolError."""
    names = [file.name for file in files]
    if any(first >= second for first, second in pairwise(names)):
        raise ProtocolError("files: names are not in order, or one comes twice")


def _read_part(line: FolderLine) -> SentFolder:
    if line.files is None and not (line.first and line.last):
        raise ProtocolError("first and last: true is needed for a folder without its files")
    top = line.path + b"/" if line.path else b""
    files = [read_file(one) for one in line.files or ()]
    longest = len(top) + max((len(one.name) for one in files), default=0)
    if longest > LONGEST_INDEXED:
        raise ProtocolError(f"files: a path of {longest:,} bytes; at most {LONGEST_INDEXED:,}")
    folders = frozenset(top + name for name in line.folders)
    flags = line.files is not None, line.first, line.last
    digests = line.own, line.content, line.subtree
    return SentFolder(line.path, *digests, folders, *flags, files, _read_buckets(line, files))


def read_file(line: FileLine) -> ReportedFile:
    """Read a file, or raise ProtocolError if it has a name that no file has."""
    try:
        name = line.name.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        name = b""
    if not 0 < len(name) <= LONGEST_PATH or b"/" in name or b"\0" in name or name in (b".", b".."):
        raise ProtocolError("files: a name can't be a file's")
    md5, xxh3 = line.md5, line.xxh3_128
    digests = None if md5 is None else bytes.fromhex(md5), None if xxh3 is None else bytes.fromhex(xxh3)
    times = line.recorded_at, line.verified_at
    return ReportedFile(name, line.size_bytes, line.mtime_ns, *digests, *times, line.read_how, line.flags)


def _read_buckets(line: FolderLine, files: Iterable[ReportedFile]) -> Buckets | None:
    if line.buckets is None or line.files is None:
        return None
    bits, numbers = line.buckets.bits, line.buckets.numbers
    if not 1 <= bits <= MOST_BITS or not (line.first and line.last) or any(one >= 1 << bits for one in numbers):
        raise ProtocolError("buckets: bits and numbers of buckets are needed, of a folder in one part")
    found = Buckets(bits, frozenset(numbers))
    if not all(found.has(one.name) for one in files):
        raise ProtocolError("buckets: a file is in another bucket")
    return found


def _join(folder: SentFolder, part: SentFolder) -> None:
    if (folder.own, folder.content, folder.subtree) != (part.own, part.content, part.subtree):
        raise ProtocolError("folders: the parts of a folder have different digests")
    folder.files += part.files
    folder.folders |= part.folders
    folder.is_whole = part.is_whole
