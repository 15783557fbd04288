"""
Read what a box sends of its folders: parts of folders, whole ones put together, and digests checked.

Pure: nothing here knows the database. A folder with more files than fit into a call comes in several calls; then only
the database can check its digests (``trees.py``).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import pairwise
from typing import NamedTuple

from integrity.errors import AppError, ProtocolError
from integrity.hub.reported import LONGEST_INDEXED, FileLine, FolderLine
from integrity.reporting.digest_tree import (
    MOST_BITS,
    FolderDigests,
    ReportedFile,
    digest_files,
    find_bucket,
)
from integrity.reporting.forms import LONGEST_PATH, read_form
from integrity.reporting.protocol import JsonObject


class WrongDigest(AppError):
    """Say that the digests of a folder are not those of its files: both sides have to compare again."""


class SentBuckets(NamedTuple):
    """Some of the buckets of a folder's files; see digest_tree.py."""

    bits: int
    numbers: frozenset[int]

    def has(self, name: bytes) -> bool:
        return find_bucket(name, self.bits) in self.numbers


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
    buckets: SentBuckets | None = None

    @property
    def is_in_one_call(self) -> bool:
        """Whether all of its files are here."""
        return self.has_files and self.is_begun and self.is_whole and self.buckets is None

    def check(self, digests: FolderDigests) -> None:
        """
        Compare with the digests of its files.

        Raises:
            WrongDigest: they differ.
        """
        if digests != (self.own, self.content):
            raise WrongDigest("the digests of a folder are not those of its files; compare again")


def read_folders(lines: Iterable[JsonObject]) -> list[SentFolder]:
    """
    Read the lines behind the header, and join the parts of each folder.

    Raises:
        ProtocolError: a line is no part of a folder, or parts are not in order.
        WrongDigest: a folder that is here as a whole has other digests.
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
    """
    Require each name once, in the order of their bytes.

    Raises:
        ProtocolError: they are not.
    """
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
    """
    Read a file.

    Raises:
        ProtocolError: it has a name that no file has.
    """
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


def _read_buckets(line: FolderLine, files: Iterable[ReportedFile]) -> SentBuckets | None:
    if line.buckets is None or line.files is None:
        return None
    bits, numbers = line.buckets.bits, line.buckets.numbers
    if not 1 <= bits <= MOST_BITS or not (line.first and line.last) or any(one >= 1 << bits for one in numbers):
        raise ProtocolError("buckets: bits and numbers of buckets are needed, of a folder in one part")
    found = SentBuckets(bits, frozenset(numbers))
    if not all(found.has(one.name) for one in files):
        raise ProtocolError("buckets: a file is in another bucket")
    return found


def _join(folder: SentFolder, part: SentFolder) -> None:
    if (folder.own, folder.content, folder.subtree) != (part.own, part.content, part.subtree):
        raise ProtocolError("folders: the parts of a folder have different digests")
    folder.files += part.files
    folder.folders |= part.folders
    folder.is_whole = part.is_whole
