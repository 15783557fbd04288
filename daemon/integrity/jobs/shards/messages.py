"""
What a worker of a shared tree and the hub say to each other, as values; docs/shared-trees.md lists the calls.

Paths are text with lone surrogates for bytes that are not UTF-8, as everywhere in the report protocol.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import MISSING, asdict, dataclass, field, fields
from enum import StrEnum
from typing import TypeVar

from integrity.errors import ProtocolError
from integrity.files.scope import TreeScope
from integrity.jobs.shards.survey import FolderSize, Size
from integrity.reporting.protocol import JsonObject, encode, is_number

MOST_FINDINGS = 5000
"""Findings of one shard that a worker sends; of more, the hub learns the number."""

T = TypeVar("T")


def to_text(path: bytes) -> str:
    """Write a path as text."""
    return path.decode("utf-8", "surrogateescape")


def is_in_tree(path: bytes) -> bool:
    """Return whether a relative path can be a name in a tree, by its parts; its top has none."""
    return b"\0" not in path and not any(part in (b"", b".", b"..") for part in path.split(b"/"))


def to_path(text: str) -> bytes:
    """
    Read a path relative to a tree.

    Raises:
        ProtocolError: it leads out of the tree.
    """
    try:
        path = text.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError as error:  # a surrogate that stands for no byte
        raise ProtocolError(f"{text!r} is no path") from error
    if path and not is_in_tree(path):
        raise ProtocolError(f"{text!r} is no path in a tree")
    return path


class DiskTrust(StrEnum):
    """How surely a machine sees the disk from which it read a tree before."""

    DISK = "disk"  # a UUID proves it
    NAME = "name"  # it has the same name, under which a server may export something else
    NONE = "none"  # it never read the tree, or the name is another one that proves nothing


@dataclass(frozen=True, slots=True)
class ShardTask:
    """
    What a worker is to do.

    Args:
        job: number of the job, which the worker names in all calls about it.
        shard: number of the shard; None: survey the tree.
        version: of the catalog to begin with; 0: begin with an empty one.
        digest: of that catalog.
        folders: see ``TreeScope``.
        left_out: see ``TreeScope``.
        round_at: when this round of reading began, seconds UTC by the clock of the hub.
        now: the hub's clock.
        visit_s: store the catalog after this time at the latest.
        every_s: when the next round begins, counted from ``round_at``.
        most_files: the size of a shard.
        most_bytes: the size of a shard.
        landmarks: folders of other shards of the tree, by which a machine knows that it sees the tree.
        requires_names: recorded names have to be there; False: the owner said that what is there is right.
    """

    job: int
    shard: int | None
    version: int
    digest: str | None
    folders: tuple[str, ...]
    left_out: tuple[str, ...]
    round_at: int
    now: int
    visit_s: int
    every_s: int
    most_files: int
    most_bytes: int
    landmarks: tuple[str, ...] = ()
    requires_names: bool = True

    @property
    def scope(self) -> TreeScope:
        """The part of the tree."""
        return TreeScope(map(to_path, self.folders), map(to_path, self.left_out))

    @property
    def limit(self) -> Size:
        """The size of a shard."""
        return Size(self.most_files, self.most_bytes)


@dataclass(frozen=True, slots=True)
class VisitResult:
    """
    What a worker says of a shard when it has stored the catalog.

    Args:
        version: of the catalog that it began with.
        digest: of the stored catalog.
        is_complete: the round is over; otherwise another visit continues it.
        files: recorded files.
        bytes: their sizes, added up.
        oldest_at: when the file was verified that waits longest; None: no file.
        apart_bytes: what can't be verified, as findings say.
        read_bytes: what the visit read.
        read_ms: how long that took.
        findings_total: open findings; more than are sent, perhaps.
        survey: digest of a stored survey of the shard, which is too large; None: it is not.
        is_reading: it was a visit. False: a person's command changed the catalog, and the rounds go on as they were.
        disk: name of the file system on which recorded names were found; None: it is not known to be the right one.
    """

    version: int
    digest: str
    is_complete: bool
    files: int
    bytes: int
    oldest_at: int | None
    apart_bytes: int
    read_bytes: int
    read_ms: int
    findings_total: int
    survey: str | None = None
    is_reading: bool = True
    disk: str | None = None


@dataclass(frozen=True, slots=True)
class TreeRest:
    """
    What the hub says of a tree to a worker for which it has nothing now.

    Args:
        is_surveyed: False: another worker lists its folders; then there are parts to read.
        parts: number of its shards.
        taken: of them, those that other workers have now.
        next_due_at: when the next one that nobody has is due, seconds UTC; None: others have all of them.
    """

    is_surveyed: bool
    parts: int
    taken: int
    next_due_at: int | None


@dataclass(frozen=True, slots=True)
class TreeOffer:
    """
    What a worker says of its tree when it comes.

    Args:
        tree: ``[[root]] shared``.
        inode: inode number of the top folder, as it sees it.
        verify_every_s: the promise.
        settings: the other settings that all workers must agree on.
        names: of its file system as this machine sees it, strongest first; see ``same_place``.
    """

    tree: str
    inode: int
    verify_every_s: int
    settings: JsonObject = field(default_factory=dict)
    names: tuple[str, ...] = ()


def write_message(message: ShardTask | VisitResult | TreeOffer | TreeRest) -> JsonObject:
    """Write a message as an object."""
    return asdict(message)


def read_message(kind: type[T], value: JsonObject) -> T:
    """
    Read the object of a message.

    Raises:
        ProtocolError: a value is missing, or none that it may be.
    """
    names = {one.name: one for one in fields(kind)}  # type: ignore[arg-type]  # only called with dataclasses
    try:
        known = [name for name, one in names.items() if name in value or one.default is MISSING]
        return kind(**{name: _check(names[name].type, value[name], name) for name in known})
    except KeyError as error:
        raise ProtocolError(f"{error.args[0]} is missing") from error


def _check(kind: object, value: object, name: str) -> object:
    """Return a value of a message if its type and range are right. Types are texts: annotations are not evaluated."""
    allowed = str(kind).split(" | ")
    if value is None and "None" in allowed:
        return value
    match value:
        case bool():
            is_right = "bool" in allowed
        case int():
            is_right = "int" in allowed and is_number(value)
        case str():
            is_right = "str" in allowed
        case dict():
            is_right = "JsonObject" in allowed
        case list() | tuple() if all(isinstance(one, str) for one in value):
            is_right, value = "tuple[str, ...]" in allowed, tuple(value)
        case _:
            is_right = False
    if not is_right:
        raise ProtocolError(f"{name} is no {kind}")
    return value


def write_survey(folders: Iterable[FolderSize]) -> Iterator[bytes]:
    """Write a survey as JSON lines."""
    for path, size in folders:
        yield encode([to_text(path), size.files, size.bytes]) + b"\n"


def read_survey_line(line: object) -> FolderSize:
    """
    Read the value of one line of a survey.

    Raises:
        ProtocolError: it is none.
    """
    match line:
        case [str(path), int(files), int(size)] if is_number(files) and is_number(size):
            return FolderSize(to_path(path), Size(files, size))
    raise ProtocolError("not a line of a survey: it needs path, files and bytes")
