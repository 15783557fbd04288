"""
Resolve the entries of a manifest: which file of a root each names, what they claim, and what is recorded of it.

No file is read. Names never lead out of the root, whatever they say.
"""

from __future__ import annotations

import errno
import os
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from stat import S_ISLNK, S_ISREG
from typing import TYPE_CHECKING, NamedTuple

from integrity.catalog import files
from integrity.errors import show_path
from integrity.files.open_beneath import STAY_ON_MOUNT, open_beneath, stat_beneath
from integrity.files.stamps import witness_of
from integrity.hashing.algorithms import SHORT
from integrity.hashing.stored_digests import BLAKE3, MD5, XXH128, Algorithm
from integrity.jobs.judge.inodes import as_last_seen, is_same_inode
from integrity.jobs.targets import Target
from integrity.lists.entries import BadLine, ManifestEntry
from integrity.same_time import is_unwritten

if TYPE_CHECKING:
    from integrity.catalog.connection import Connection
    from integrity.catalog.rows import FileRecord
    from integrity.jobs.context import RootRun


RECORDED_ALGORITHMS = frozenset({MD5, XXH128, BLAKE3})


class RootPlaces:
    """
    Resolve the names of one manifest.

    Names are resolved as text: ``..`` removes the part before it, and no symbolic link is followed. The result is
    opened beneath the root, so a malicious name can't lead out of it.

    Args:
        target: the root, or the part of it, that names must be in.
        base: absolute real path of the folder that names are relative to.
        spelled: absolute path of the target as the user wrote it; absolute names may begin with it as well.
    """

    def __init__(self, target: Target, base: bytes, spelled: bytes) -> None:
        root = target.root.path.rstrip(b"/")
        whole = root + b"/" + target.prefix if target.prefix else root
        self._base = base
        self._prefix = target.prefix + b"/" if target.prefix else b""
        self._tops = tuple(dict.fromkeys((whole + b"/", spelled.rstrip(b"/") + b"/")))

    def find(self, name: bytes) -> bytes | None:
        """Return the path relative to the root; None if the name is the target or outside of it."""
        path = b"/" + os.path.normpath(os.path.join(self._base, name)).lstrip(b"/")  # POSIX allows a leading "//"
        for top in self._tops:
            if path.startswith(top) and len(path) > len(top):
                return self._prefix + path[len(top) :]
        return None


_AT_ONCE = 10_000
"""Names per page: the part of a manifest that is in memory at a time."""


class ImportVerdict(StrEnum):
    """Result of an import for an entry; each entry has exactly one (R8)."""

    VERIFIED = "verified"  # read, found equal, and recorded
    ALREADY = "already"  # has a baseline; the digests that both have are equal
    DIFFERING = "differing"  # the file or its record differs from the manifest
    MISSING = "missing"
    UNREADABLE = "unreadable"  # could not be read as one stable version
    OUTSIDE = "outside"  # the name is outside of what is imported
    LEFT_OUT = "left_out"  # not part of the root: excluded, not a regular file, on another file system
    UNKNOWN = "unknown"  # the algorithm is not named, and no file shows it
    BAD = "bad"  # not a usable entry


@dataclass(slots=True)
class ImportCounts:
    """
    Number of entries by verdict.

    Args:
        not_compared: part of ``already``: the manifest has no digest that is recorded.
    """

    by_verdict: Counter[str] = field(default_factory=Counter)
    not_compared: int = 0

    @property
    def entries(self) -> int:
        """Return the total of all verdicts."""
        return self.by_verdict.total()


@dataclass(frozen=True, slots=True)
class ReportedEntry:
    """
    A reported entry; verified, already recorded and unknown entries are not reported.

    Args:
        path: absolute, or the name as written if it means no file; None for a bad line.
        line: number in the manifest, from 1.
        message: the reason.
    """

    verdict: ImportVerdict
    path: bytes | None
    line: int
    message: str


@dataclass(slots=True)
class Claim:
    """
    What all entries of one page claim about one file.

    Args:
        path: relative to the root.
        line: of the first entry.
        count: number of entries.
        digests: raw.
        size_bytes: None if no entry gives it.
        is_contradictory: two entries can't both be right.
        expected_bytes: size of the file at look-up.
        was_racy: the file was read within a clock granule of a write, and must be read again.
        needs_all: the file is very sparse: recording it computes none of the digests.
    """

    path: bytes
    line: int
    count: int
    digests: dict[Algorithm, bytes]
    size_bytes: int | None
    is_contradictory: bool = False
    expected_bytes: int = 0
    was_racy: bool = False
    needs_all: bool = False

    def add(self, count: int, digests: Mapping[Algorithm, bytes], size_bytes: int | None) -> None:
        """Add the claims of other entries about the same file."""
        self.count += count
        for algorithm, digest in digests.items():
            self.is_contradictory |= self.digests.setdefault(algorithm, digest) != digest
        if self.size_bytes is None:
            self.size_bytes = size_bytes
        self.is_contradictory |= size_bytes not in (None, self.size_bytes)

    def find_difference(self, digests: Mapping[Algorithm, bytes], size_bytes: int) -> str | None:
        """Return how a content differs from the claim; None if no given digest or size differs."""
        if self.is_contradictory:
            return "the manifest contradicts itself"
        if self.size_bytes not in (None, size_bytes):
            return f"has {size_bytes:,} bytes, the manifest says {self.size_bytes:,}"
        for algorithm, digest in self.digests.items():
            found = digests.get(algorithm, digest)
            if found != digest:
                return f"has {algorithm.name} {found.hex()}, the manifest says {digest.hex()}"
        return None


Refuse = Callable[[ImportVerdict, bytes | None, int, str], None]
"""Receives verdict, name, line and reason of an entry that is no claim."""


def gather(
    lines: Iterable[ManifestEntry | BadLine], places: RootPlaces, refuse: Refuse, is_stopped: Callable[[], bool]
) -> Iterator[list[Claim]]:
    """
    Yield the claims of a manifest, a page at a time.

    Entries of one page about the same file become one claim: a file with several algorithms has a line for each.
    """
    claims: dict[bytes, Claim] = {}
    for line in lines:
        if is_stopped():
            return
        if isinstance(line, BadLine):
            refuse(ImportVerdict.BAD, None, line.line, "can't be read as an entry")
            continue
        digests = {algorithm: digest for algorithm, digest in line.digests.items() if algorithm not in SHORT}
        path = places.find(line.path)
        if not digests:
            refuse(ImportVerdict.BAD, line.path, line.line, "has no digest that could tell that the file is right")
        elif path is None:
            refuse(ImportVerdict.OUTSIDE, line.path, line.line, f"{show_path(line.path)} leads out of what is imported")
        elif path in claims:
            claims[path].add(1, digests, line.size_bytes)
        else:
            if len(claims) == _AT_ONCE:
                yield list(claims.values())
                claims.clear()
            claims[path] = Claim(path, line.line, 1, digests, line.size_bytes)
    if claims:
        yield list(claims.values())


_NOT_THERE = frozenset({errno.ENOENT, errno.ENOTDIR, errno.ENAMETOOLONG})


class Refusal(NamedTuple):
    """Why a name is not read."""

    verdict: ImportVerdict
    message: str


class FoundFile(NamedTuple):
    """An existing file and its record, which may be under a former name; None if it has none."""

    size_bytes: int
    record: FileRecord | None
    former: bytes | None = None


def look_up(run: RootRun, connection: Connection, path: bytes) -> FoundFile | Refusal:
    """Examine a name, relative to the root, as a walk would; nothing outside of the root is ever touched."""
    if run.excludes.covers(path):
        return Refusal(ImportVerdict.LEFT_OUT, "is excluded from this root")
    try:
        stat = _stat(run, path)
    except OSError as error:
        return _explain(error)
    if S_ISLNK(stat.st_mode):
        return Refusal(ImportVerdict.LEFT_OUT, "is a symbolic link, and those are not recorded")
    if not S_ISREG(stat.st_mode):
        return Refusal(ImportVerdict.LEFT_OUT, "is not a regular file")
    record = files.find_file(connection, run.root.id, path)
    if record is not None:
        return FoundFile(stat.st_size, record)
    moved = _find_moved(run, connection, path, stat)
    return FoundFile(stat.st_size, moved, None if moved is None else moved.path)


def list_names(run: RootRun, folder: bytes) -> list[bytes]:
    """Return the names in a folder, relative to the root; none if there is no such folder in it."""
    if b".." in folder.split(b"/"):
        return []  # resolved as text it may lie outside of what is imported
    try:
        fd = open_beneath(run.root_fd, folder or b".", os.O_RDONLY | os.O_DIRECTORY)
    except OSError:
        return []
    try:
        return [os.fsencode(name) for name in os.listdir(fd)]
    finally:
        os.close(fd)


def _stat(run: RootRun, path: bytes) -> os.stat_result:
    flags = os.O_PATH if run.settings.cross_mounts else os.O_PATH | STAY_ON_MOUNT
    fd = open_beneath(run.root_fd, path, flags)
    try:
        return os.fstat(fd)
    finally:
        os.close(fd)


def _explain(error: OSError) -> Refusal:
    if error.errno in _NOT_THERE:
        return Refusal(ImportVerdict.MISSING, "is not there")
    if error.errno == errno.ELOOP:
        return Refusal(ImportVerdict.LEFT_OUT, "lies behind a symbolic link, and those are not followed")
    if error.errno == errno.EXDEV:
        return Refusal(ImportVerdict.LEFT_OUT, "lies on another file system, which is mounted inside the root")
    return Refusal(ImportVerdict.UNREADABLE, f"can't be looked at: {error.strerror}")


def _find_moved(run: RootRun, connection: Connection, path: bytes, stat: os.stat_result) -> FileRecord | None:
    """Return the record of a file that was moved here since; the next scan will move the record."""
    if not run.capability.has_stable_inodes or not run.root.file_count:
        return None
    seen = witness_of(stat)
    for record in files.find_by_inode(connection, run.root.id, seen.inode):
        last = as_last_seen(connection, record)
        if is_unwritten(last.witness, seen) and _is_gone(run, record.path) and is_same_inode(run.root_fd, path, last):
            return record
    return None


def _is_gone(run: RootRun, path: bytes) -> bool:
    try:
        stat_beneath(run.root_fd, path)
    except OSError as error:
        return error.errno in _NOT_THERE
    return False
