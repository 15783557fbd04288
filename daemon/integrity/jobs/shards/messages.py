"""
What a worker of a shared tree and the hub say to each other, as values and as files.

``docs/shared-trees.md`` lists the calls. Paths are text with lone surrogates for bytes that are not UTF-8, as in all of
the report protocol. A survey says how many files and bytes lie in which folder, as far as a cut may separate them.
Whatever changes during a survey, or after it, is counted wrongly but belongs to a shard all the same
(``files/scope.py``). Files are packed by zstd, and known by the BLAKE3 digest of what is sent.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from typing import IO, TYPE_CHECKING, Annotated, Any, NamedTuple

import zstandard
from blake3 import blake3
from msgspec import Meta

from integrity.errors import AppError, ProtocolError, show_path
from integrity.files.excludes import TreeScope, find_parents
from integrity.files.walk import walk
from integrity.reporting.forms import Number, read_form
from integrity.reporting.protocol import JsonObject, encode, to_text

if TYPE_CHECKING:
    from integrity.files.excludes import Excludes


class Size(NamedTuple):
    """Of a folder, or of a shard at most."""

    files: int
    bytes: int

    def __add__(self, other: object) -> Size:
        assert isinstance(other, Size)
        return Size(self.files + other.files, self.bytes + other.bytes)

    def fits(self, limit: Size) -> bool:
        return self.files <= limit.files and self.bytes <= limit.bytes


NOTHING = Size(0, 0)


class FolderSize(NamedTuple):
    """A folder of a tree, and what lies in it, and below it as far as no other folder of the survey is above that."""

    path: bytes
    size: Size


def measure_tree(root_fd: int, excludes: Excludes, *, cross_mounts: bool) -> Iterator[FolderSize]:
    """Walk a tree and yield what lies directly in each folder; a folder may come several times."""
    for listing in walk(root_fd, excludes=excludes, cross_mounts=cross_mounts):
        files = listing.files
        yield FolderSize(listing.folder, Size(len(files), sum(one.size_bytes for one in files)))


def measure_files(files: Iterable[tuple[bytes, int]]) -> Iterator[FolderSize]:
    """Yield the folder of each file. Args: path and size of each."""
    for path, size_bytes in files:
        yield FolderSize(path.rpartition(b"/")[0], Size(1, size_bytes))


def summarize(folders: Iterable[FolderSize], limit: Size) -> list[FolderSize]:
    """
    Return the folders that a cut may separate, in the order of their paths.

    Memory: some 300 bytes for each folder of the tree.
    """
    own: dict[bytes, Size] = {b"": NOTHING}
    for path, size in folders:
        own[path] = own.get(path, NOTHING) + size
    whole = add_up(own)
    kept: dict[bytes, Size] = {}
    for path in whole:
        above = (path, *find_parents(path))
        may_be_cut = (one for one in above if not one or not whole[one.rpartition(b"/")[0]].fits(limit))
        place = next(may_be_cut, b"")
        kept[place] = kept.get(place, NOTHING) + own.get(path, NOTHING)
    return [FolderSize(path, kept[path]) for path in sorted(kept)]


def add_up(own: dict[bytes, Size]) -> dict[bytes, Size]:
    """Return the size of each folder with all that lies below it."""
    whole = dict(own)
    for path, size in own.items():
        for parent in find_parents(path):
            whole[parent] = whole.get(parent, NOTHING) + size
    return whole


def restrict(folders: Iterable[FolderSize], scope: TreeScope) -> list[FolderSize]:
    return [one for one in folders if scope.covers(one.path)]


MOST_FINDINGS = 5000
"""Findings of one shard that a worker sends; of more, the hub learns the number."""


def is_in_tree(path: bytes) -> bool:
    """Return whether a relative path can be a name in a tree, by its parts; its top has none."""
    return b"\0" not in path and not any(part in (b"", b".", b"..") for part in path.split(b"/"))


def to_path(text: str) -> bytes:
    """Read a path relative to a tree, or raise ProtocolError if it leads out of it."""
    try:
        path = text.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError as error:  # a surrogate that stands for no byte
        raise ProtocolError(f"{text!r} is no path") from error
    if path and not is_in_tree(path):
        raise ProtocolError(f"{text!r} is no path in a tree")
    return path


_SURVEY_LINE: Any = tuple[str, Number, Number]
PackedDigest = Annotated[str, Meta(pattern=r"^[0-9a-f]{64}\Z")]
"""BLAKE3 of a packed file, which is its name in the store of the hub."""


class DiskTrust(StrEnum):
    """How surely a machine sees the disk from which it read a tree before."""

    DISK = "disk"  # a UUID proves it
    NAME = "name"  # it has the same name, under which a server may export something else
    NONE = "none"  # it never read the tree, or the name is another one that proves nothing


@dataclass(frozen=True, slots=True)
class ShardTask:
    """
    What a worker is to do. Times are by the clock of the hub, seconds UTC.

    Attributes:
        shard: None: survey the tree.
        version, digest: of the catalog to begin with; 0: begin with an empty one.
        round_at: when this round of reading began; the next one begins ``every_s`` later.
        visit_s: store the catalog after this time at the latest.
        most_files, most_bytes: the size of a shard.
        landmarks: folders of other shards of the tree, by which a machine knows that it sees the tree.
        requires_names: recorded names have to be there; False: the owner said that what is there is right.
    """

    job: Number
    shard: Number | None
    version: Number
    digest: str | None
    folders: tuple[str, ...]
    left_out: tuple[str, ...]
    round_at: Number
    now: Number
    visit_s: Number
    every_s: Number
    most_files: Number
    most_bytes: Number
    landmarks: tuple[str, ...] = ()
    requires_names: bool = True

    @property
    def scope(self) -> TreeScope:
        return TreeScope(map(to_path, self.folders), map(to_path, self.left_out))

    @property
    def limit(self) -> Size:
        return Size(self.most_files, self.most_bytes)


@dataclass(frozen=True, slots=True)
class VisitResult:
    """
    What a worker says of a shard when it has stored the catalog.

    Attributes:
        version: of the catalog that it began with.
        is_complete: the round is over; otherwise another visit continues it.
        oldest_at: when the file was verified that waits longest; None: no file.
        apart_bytes: what can't be verified, as findings say.
        findings_total: open findings; more than are sent, perhaps.
        survey: digest of a stored survey of the shard, which is too large; None: it is not.
        is_reading: it was a visit. False: a person's command changed the catalog, and the rounds go on as they were.
        disk: name of the file system on which recorded names were found; None: it is not known to be the right one.
    """

    version: Number
    digest: PackedDigest
    is_complete: bool
    files: Number
    bytes: Number
    oldest_at: Number | None
    apart_bytes: Number
    read_bytes: Number
    read_ms: Number
    findings_total: Number
    survey: PackedDigest | None = None
    is_reading: bool = True
    disk: str | None = None


@dataclass(frozen=True, slots=True)
class TreeRest:
    """
    What the hub says of a tree to a worker for which it has nothing now.

    Attributes:
        is_surveyed: False: another worker lists its folders; then there are parts to read.
        taken: of its parts, those that other workers have now.
        next_due_at: when the next one that nobody has is due, seconds UTC; None: others have all of them.
    """

    is_surveyed: bool
    parts: Number
    taken: Number
    next_due_at: Number | None


@dataclass(frozen=True, slots=True)
class TreeOffer:
    """
    What a worker says of its tree when it comes.

    Attributes:
        inode: of the top folder, as it sees it.
        settings: those that all workers must agree on, beside the promise.
        names: of its file system as this machine sees it, strongest first; see ``same_place``.
    """

    tree: str
    inode: Number
    verify_every_s: Number
    settings: JsonObject = field(default_factory=dict)
    names: tuple[str, ...] = ()


def write_message(message: ShardTask | VisitResult | TreeOffer | TreeRest) -> JsonObject:
    return asdict(message)


def write_survey(folders: Iterable[FolderSize]) -> Iterator[bytes]:
    for path, size in folders:
        yield encode([to_text(path), size.files, size.bytes]) + b"\n"


def read_survey_line(line: object) -> FolderSize:
    """Read the value of one line of a survey, or raise ProtocolError."""
    path, files, size = read_form(_SURVEY_LINE, line)
    return FolderSize(to_path(path), Size(files, size))


_CHUNK_BYTES = 1 << 20
_LEVEL = 3
_MOST_TIMES = 100
_ALWAYS_BYTES = 1 << 30
_MOST_BYTES = 16 << 30
"""What unpacks to more than the first, and to more than a hundred times its size or the second, fills the disk."""

MOST_PACKED_BYTES = 2 << 30
"""Of a packed catalog: ten times what one of 100,000 files and 500 GB takes."""


class PackedDamaged(AppError):
    """Say that a packed file is not what its digest says."""


def pack_file(path: bytes) -> bytes:
    """Compress a file; return the path of the packed one, beside it."""
    packed = path + b".zst"
    with open(path, "rb") as source, open(packed, "wb") as target:
        zstandard.ZstdCompressor(level=_LEVEL).copy_stream(source, target)
    return packed


def pack_lines(lines: Iterable[bytes], path: bytes) -> bytes:
    with open(path, "wb") as target, zstandard.ZstdCompressor(level=_LEVEL).stream_writer(target) as writer:
        for line in lines:
            writer.write(line)
    return path


def digest_file(file: IO[bytes]) -> str:
    """Return the digest of a packed file, from its beginning."""
    file.seek(0)
    digest = blake3()
    while chunk := file.read(_CHUNK_BYTES):
        digest.update(chunk)
    return digest.hexdigest()


def unpack_file(file: IO[bytes], path: bytes, digest: str, *, most_bytes: int = _MOST_BYTES) -> None:
    """Unpack a file. PackedDamaged: it is not what its digest says, or unpacks to more than a catalog can be."""
    if digest_file(file) != digest:
        raise PackedDamaged(f"{show_path(path)}: what arrived from the hub is not what was stored; it is fetched again")
    file.seek(0)
    left = min(most_bytes, max(_ALWAYS_BYTES, os.fstat(file.fileno()).st_size * _MOST_TIMES))
    try:
        with open(path, "wb") as target, zstandard.ZstdDecompressor().stream_reader(file, closefd=False) as reader:
            while chunk := reader.read(_CHUNK_BYTES):
                left -= len(chunk)
                if left < 0:
                    raise PackedDamaged(f"{show_path(path)}: unpacks to more than a catalog can be")
                target.write(chunk)
    except zstandard.ZstdError as error:
        raise PackedDamaged(f"{show_path(path)}: can't be unpacked: {error}") from error
