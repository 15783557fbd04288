"""
List many folders in one call of the C core and without the interpreter lock.

The short way beside ``walk``: it takes only folders about which there is nothing to decide, and leaves all others to
the walk, which knows what to do and what to say. So it never raises, and what it gives is what the long way would have
given.

Importing this module fails with ImportError where the extension cannot be loaded.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Iterable, Iterator, Sequence
from mmap import MAP_ANONYMOUS, MAP_PRIVATE, mmap
from typing import TYPE_CHECKING, Literal

from integrity._native import ffi, lib
from integrity.files.listing import FolderFiles

if TYPE_CHECKING:
    from integrity._native import CBuffer

FOLDER = lib.FOLDER_BATCH_FOLDER
SYMLINK = lib.FOLDER_BATCH_SYMLINK
"""Kinds of names that are no regular files; anything else is a FIFO, socket or device."""

LISTED = lib.FOLDER_BATCH_LISTED
TOO_LARGE = lib.FOLDER_BATCH_TOO_LARGE
ENDED = lib.FOLDER_BATCH_ENDED
"""Statuses of folders; anything else is left to the walk for whatever it is."""

Folder = tuple[int, int, int, int, bytes]
"""Status, number of files, number of others, length of the files' names, fingerprint of the files."""

_FOLDER = struct.Struct("=4Q16s")
"""``folder_batch_folder`` of native/folder_batch.h."""

_COLUMN_TYPES: tuple[Literal["q", "Q"], ...] = ("q", "q", "q", "q", "Q")
"""size_bytes, mtime_ns, ctime_ns, inode (folded as in ``stamps``), links."""

_VALUE_BYTES = 8
_NAME_BYTES = 64
"""Room for each name, on average: longer than names are."""


class Found:
    """
    What one call found, in the order of the folders asked for.

    Attributes:
        folders: that have a result.
        others: the names of all folders' others, one after the other.
        kinds: of ``others``.
    """

    __slots__ = ("_columns", "_file_names", "folders", "kinds", "others")

    def __init__(
        self,
        folders: list[Folder],
        file_names: bytes = b"",
        columns: Sequence[bytes] = (),
        other_names: bytes = b"",
        kinds: bytes = b"",
    ) -> None:
        self.folders = folders
        self.others = other_names.split(b"\0")
        self.kinds = kinds
        self._file_names = file_names
        self._columns = [memoryview(column).cast(type_) for column, type_ in zip(columns, _COLUMN_TYPES, strict=False)]

    def files(self) -> Iterator[FolderFiles]:
        """Give the files of each folder."""
        at = text_at = 0
        for _, count, _, text_bytes, _ in self.folders:
            end, text_end = at + count, text_at + text_bytes
            names = self._file_names[text_at:text_end]
            yield FolderFiles(count, names, [column[at:end] for column in self._columns])
            at, text_at = end, text_end


class FolderBatch:
    """
    The short way into one root. Used by one thread at a time.

    Args:
        root_fd: from ``open_root``.
        stays_on_mount: leave alone what lies on another mount than the root.
        leave_out: (st_dev, st_ino) of files; leave alone the folders that they lie in.
        names_room: leave alone folders with more names.
        enough: begin no other folder in a call that has found so many files.
    """

    def __init__(
        self, root_fd: int, *, stays_on_mount: bool, leave_out: Iterable[tuple[int, int]], names_room: int, enough: int
    ) -> None:
        self._root_fd = root_fd
        self._stays_on_mount = stays_on_mount
        self._marked = ffi.new("folder_batch_marked[]", list(leave_out))
        self._names_room = names_room
        self._enough = enough
        # Mapped, not allocated: only what is used becomes memory.
        text_room = names_room * _NAME_BYTES
        self._columns = _map(names_room * _VALUE_BYTES * lib.FOLDER_BATCH_COLUMNS)
        self._kinds, self._file_names, self._other_names = _map(names_room), _map(text_room), _map(text_room)
        self._scratch = _map(lib.folder_batch_scratch_bytes(names_room))
        self._result = ffi.new("folder_batch_result *")
        self._result.names_room, self._result.text_room = names_room, text_room
        self._result.columns = ffi.from_buffer("uint64_t[]", self._columns)
        self._result.kinds = ffi.from_buffer("uint8_t[]", self._kinds)
        self._result.file_names = ffi.from_buffer("char[]", self._file_names)
        self._result.other_names = ffi.from_buffer("char[]", self._other_names)
        self._result.scratch = ffi.from_buffer("uint8_t[]", self._scratch)

    def list(self, folders: Sequence[bytes]) -> Found:
        """
        List folders.

        Args:
            folders: relative to the root; at least one.

        Returns:
            The results of the first so many of them, at least one.
        """
        count, joined, result = len(folders), b"\0".join(folders) + b"\0", self._result
        if joined.count(b"\0") != count:  # a NUL byte in a path: no such folder, and all behind it would be mistaken
            return Found([(lib.FOLDER_BATCH_NOT_MINE, 0, 0, 0, b"")] * count)
        counts = ffi.new("folder_batch_folder[]", count)
        result.folders = counts
        done = lib.folder_batch_list(
            self._root_fd, self._stays_on_mount, joined, len(joined), count, self._marked, len(self._marked),
            self._enough, result,
        )  # fmt: skip
        return self._collect(ffi.buffer(counts, done * _FOLDER.size))

    def list_next(self, fd: int, most_names: int) -> Found:
        """
        List the next names of an open folder that is ``TOO_LARGE`` to be listed at once.

        Returns:
            The result of one folder: ``LISTED`` for a part, ``ENDED`` when there was nothing left. Anything else means
            that nothing was listed: the position is as it was, and what is left has to be listed the long way.

        Raises:
            OSError: the position can't be told or set.
        """
        position = os.lseek(fd, 0, os.SEEK_CUR)
        counts = self._result.folders = ffi.new("folder_batch_folder[]", 1)
        lib.folder_batch_continue(fd, most_names, self._marked, len(self._marked), self._result)
        found = self._collect(ffi.buffer(counts))
        if found.folders[0][0] not in (LISTED, ENDED):
            os.lseek(fd, position, os.SEEK_SET)
        return found

    def _collect(self, counts: CBuffer) -> Found:
        """Copy what was found out of the memory that the next call uses again."""
        result = self._result
        size, step = result.file_count * _VALUE_BYTES, self._names_room * _VALUE_BYTES
        return Found(
            list(_FOLDER.iter_unpack(counts)),
            self._file_names[: result.file_text_bytes],
            [self._columns[at : at + size] for at in range(0, step * lib.FOLDER_BATCH_COLUMNS, step)],
            self._other_names[: result.other_text_bytes],
            self._kinds[: result.other_count],
        )


def _map(size_bytes: int) -> mmap:
    return mmap(-1, size_bytes, MAP_PRIVATE | MAP_ANONYMOUS)
