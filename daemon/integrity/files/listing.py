"""The words of a walk: what was seen of a folder."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from integrity.model import SkipReason


class Seen(NamedTuple):
    """A regular file, as lstat saw it."""

    name: bytes
    size_bytes: int
    mtime_ns: int
    ctime_ns: int
    inode: int
    links: int


@dataclass(frozen=True, slots=True)
class Skip:
    """A name that is not covered, and why."""

    path: bytes
    reason: SkipReason
    is_folder: bool


@dataclass(frozen=True, slots=True)
class FolderError:
    """
    What could not be found out.

    ``path`` is the folder that could not be opened or listed to its end, or the one name in it that lstat failed for.
    """

    path: bytes
    errno: int
    message: str


class Listing(NamedTuple):
    """
    A folder, or a part of it.

    A folder has one or more listings, directly after each other, the last of which says ``is_last``. What is missing
    from a folder is known when its only listing ``is_whole``, or when none of its listings has an ``error``.

    A named tuple, like ``Seen``: a walk makes one for every folder.
    """

    folder: bytes  # relative to the root; empty for the root itself
    files: Sequence[Seen]  # in the order of their names
    is_whole: bool  # ``files`` are all regular files of this folder
    is_last: bool
    skips: list[Skip]
    error: FolderError | None  # ``files`` are those found before
    fingerprint: bytes | None = None  # of all ``files`` of a whole folder, as ``folder_batch`` computes it
