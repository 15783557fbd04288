"""Records that a walk yields: the files, skips and errors of a folder."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from itertools import chain
from struct import pack
from typing import NamedTuple, overload

from xxhash import xxh3_128_digest

from integrity.model import SkipReason, Stamps


class Seen(NamedTuple):
    """A regular file, as lstat returned it."""

    name: bytes
    size_bytes: int
    mtime_ns: int
    ctime_ns: int
    inode: int
    links: int

    @property
    def stamps(self) -> Stamps:
        """Return the fields that a witness also holds: size, mtime, ctime, inode."""
        return self[1:5]


_new_seen = partial(tuple.__new__, Seen)  # same as Seen(...), without a Python call per file


class FolderFiles(Sequence[Seen]):
    """
    The files of one folder, in the order of their names; records are created on first access.

    Args:
        names: each terminated by a NUL byte.
        columns: size_bytes, mtime_ns, ctime_ns, inode (folded) and links, one value per file.
    """

    __slots__ = ("_columns", "_count", "_decoded", "names")

    def __init__(self, count: int, names: bytes, columns: Sequence[memoryview]) -> None:
        self._count = count
        self.names = names
        self._columns = columns
        self._decoded: list[Seen] | None = None

    def __len__(self) -> int:
        return self._count

    def __iter__(self) -> Iterator[Seen]:
        return iter(self._decode())

    @overload
    def __getitem__(self, index: int) -> Seen: ...
    @overload
    def __getitem__(self, index: slice) -> list[Seen]: ...
    def __getitem__(self, index: int | slice) -> Seen | list[Seen]:
        return self._decode()[index]

    @property
    def sizes_bytes(self) -> list[int]:
        """Return the size of each file."""
        return self._columns[0].tolist()

    @property
    def has_links(self) -> bool:
        """Return whether any file has more than one name."""
        return self._count > 0 and max(self._columns[-1]) > 1

    def find_paths(self, prefix: bytes) -> list[bytes]:
        """Return the path of each file: ``prefix`` plus its name."""
        return (prefix + self.names[:-1].replace(b"\0", b"\0" + prefix)).split(b"\0") if self._count else []

    def _decode(self) -> list[Seen]:
        """Create the records. All loops run in C: a first scan does this for every file of a tree."""
        if self._decoded is None:
            columns = [column.tolist() for column in self._columns]
            self._decoded = list(map(_new_seen, zip(self.names.split(b"\0"), *columns, strict=False)))
        return self._decoded


def find_fingerprint(names: Sequence[bytes], columns: Sequence[Sequence[int]]) -> bytes:
    """
    Return the fingerprint of a folder with these files, as ``native/folder_batch.h`` computes it when it lists them.

    Args:
        names: sorted.
        columns: size_bytes, mtime_ns, ctime_ns and inode of each.
    """
    values = pack(f"={len(columns) * len(names)}q", *chain.from_iterable(columns))
    return xxh3_128_digest(b"\0".join((*names, values)))


class Skip(NamedTuple):
    """A name that is not covered, and the reason."""

    path: bytes
    reason: SkipReason
    is_folder: bool


class FolderError(NamedTuple):
    """
    A folder or name that could not be read.

    ``path`` is the folder that could not be opened or fully listed, or the name in it whose lstat failed.
    """

    path: bytes
    errno: int
    message: str


class FolderListing(NamedTuple):
    """
    A folder, or a part of it.

    A folder has one or more consecutive listings; the last one has ``is_last`` set. A recorded file is known to be
    missing only if the folder's only listing ``is_whole``, or if none of its listings has an ``error``.

    A named tuple, like ``Seen``: a walk makes one per folder.
    """

    folder: bytes  # relative to the root; empty for the root itself
    files: Sequence[Seen]  # in the order of their names
    is_whole: bool  # ``files`` holds all regular files of this folder
    is_last: bool
    skips: list[Skip]
    error: FolderError | None  # ``files`` holds those found before it
    fingerprint: bytes | None = None  # of all ``files`` of a whole folder, see ``native/folder_batch.h``

    @property
    def sizes_bytes(self) -> list[int]:
        """Return the size of each file."""
        return self.files.sizes_bytes if isinstance(self.files, FolderFiles) else [one.size_bytes for one in self.files]

    def find_paths(self, prefix: bytes) -> list[bytes]:
        """Return the path of each file: ``prefix`` plus its name."""
        if isinstance(self.files, FolderFiles):
            return self.files.find_paths(prefix)
        return [prefix + one.name for one in self.files]
