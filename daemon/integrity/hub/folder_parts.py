"""
Read what a box sends of its folders: parts of folders, whole ones put together, and digests checked.

Pure: nothing here knows the database. A folder with more files than fit into a call comes in several calls; then only
the database can check its digests (``trees.py``).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from typing import NamedTuple

from integrity.errors import AppError, ProtocolError
from integrity.hub.reported import DIGEST_BYTES, LONGEST_INDEXED, read_hex, read_path
from integrity.reporting.digest_tree import (
    MOST_BITS,
    FolderDigests,
    ReportedFile,
    digest_files,
    find_bucket,
    read_file_values,
)
from integrity.reporting.protocol import JsonObject


class WrongDigest(AppError):
    """Say that the digests of a folder are not those of its files: both sides have to compare again."""


class SentBuckets(NamedTuple):
    """Some of the buckets of a folder's files; see digest_tree.py."""

    bits: int
    numbers: frozenset[int]

    def has(self, name: bytes) -> bool:
        """Return whether a file is in one of them."""
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
    for line in lines:
        part = _read_part(line)
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


def read_relative(value: Mapping[str, object], key: str) -> bytes:
    """Read the path of a folder, relative to its root."""
    path = read_path(value, key)
    _require_short(path, key)
    if path and any(name in (b"", b".", b"..") for name in path.split(b"/")):
        raise ProtocolError(f"{key}: a path relative to the root is needed")
    return path


def _require_short(path: bytes, key: str) -> None:
    if len(path) > LONGEST_INDEXED:
        raise ProtocolError(f"{key}: a path of {len(path):,} bytes; at most {LONGEST_INDEXED:,}")


def _read_part(line: JsonObject) -> SentFolder:
    path = read_relative(line, "path")
    names, files, first, last = (line.get(key) for key in ("folders", "files", "first", "last"))
    if not (isinstance(names, list) and (files is None or isinstance(files, list))):
        raise ProtocolError("folders and files: lists are needed")
    if not (isinstance(first, bool) and isinstance(last, bool)) or (files is None and not (first and last)):
        raise ProtocolError("first and last: true or false is needed, and true for a folder without its files")
    top = path + b"/" if path else b""
    rows = [read_file_values(values) for values in files or ()]
    _require_short(top + max((row.name for row in rows), key=len, default=b""), "files")
    return SentFolder(
        path,
        read_hex(line, "own", DIGEST_BYTES),
        read_hex(line, "content", DIGEST_BYTES),
        read_hex(line, "subtree", DIGEST_BYTES),
        frozenset(top + _read_name(name) for name in names),
        files is not None,
        first,
        last,
        rows,
        _read_buckets(line, rows, is_single=first and last),
    )


def _read_buckets(line: JsonObject, files: Iterable[ReportedFile], *, is_single: bool) -> SentBuckets | None:
    value = line.get("buckets")
    if value is None or line.get("files") is None:
        return None
    bits, numbers = (value.get("bits"), value.get("numbers")) if isinstance(value, dict) else (None, None)
    if not (isinstance(numbers, list) and type(bits) is int and 1 <= bits <= MOST_BITS and is_single):
        raise ProtocolError("buckets: bits and numbers are needed, of a folder in one part")
    if not all(type(one) is int and 0 <= one < 1 << bits for one in numbers):
        raise ProtocolError("buckets: numbers of buckets are needed")
    found = SentBuckets(bits, frozenset(numbers))
    if not all(found.has(one.name) for one in files):
        raise ProtocolError("buckets: a file is in another bucket")
    return found


def _read_name(name: object) -> bytes:
    path = read_relative({"folders": name}, "folders")
    if not path or b"/" in path:
        raise ProtocolError("folders: a name is needed")
    return path


def _join(folder: SentFolder, part: SentFolder) -> None:
    if (folder.own, folder.content, folder.subtree) != (part.own, part.content, part.subtree):
        raise ProtocolError("folders: the parts of a folder have different digests")
    folder.files += part.files
    folder.folders |= part.folders
    folder.is_whole = part.is_whole
