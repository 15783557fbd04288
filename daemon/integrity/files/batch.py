"""
Read many small files in one call of the C core, without the interpreter lock.

This is the fast path beside ``read``. It reads only ordinary files, with the same results as ``Reader.open``, and
leaves all others to ``Reader.open``. A file that cannot be read this way gets a status, not an exception.

A reader has one of several ways. From memory it reads only pages that are in the page cache and never waits for a disk,
so any thread may do that at any time. All other ways read from the disk, and leave the page cache as it was (R4).

Importing this module raises ImportError if the extension cannot be loaded.
"""

from __future__ import annotations

import struct
import time
from collections.abc import Callable, Iterator, Sequence
from enum import Enum
from itertools import islice
from typing import TYPE_CHECKING

from integrity._native import ffi, lib
from integrity.files.span import UNLIMITED, Pace
from integrity.files.stamps import RacyWindow
from integrity.model import ReadHow

if TYPE_CHECKING:
    from integrity._native import CData

_MOST_S = 1.0
_MOST_PACED_S = 0.1
"""Longest time that one call reads from the disk. The reader cannot stop, and no other reader gets the disk, before it
returns."""

_FIRST_FILES = 8
"""Number of files in a paced call before the time per file is known."""

_LEARNING = 0.25

READ = lib.FILE_BATCH_READ
"""Status of a file that was read."""

Row = tuple[int, int, int, int, int, int, bytes, bytes, bytes]
"""One file: status, size, mtime, ctime, inode (folded), offset in the arena, MD5, XXH3-128, CRC-64/NVME."""

_RECORD = struct.Struct("=QQqqqQ16s16s8s")
"""``file_batch_record`` of native/file_batch.h."""

_RECORD_WORDS = _RECORD.size // 8


class Arena:
    """
    Memory for one batch at a time.

    Args:
        memory: writable; page-aligned if files are read from the disk.

    Attributes:
        memory: the contents; a file's content begins at its record's offset.
        data: pointer to the same memory for the C core.
        records: ``file_batch_record[]``, one per path.
        count: number of records that the last read filled in, from index 0.
        unfinished: ``size_t *``: number of digests still being computed. Nothing here may change until it is 0.
    """

    __slots__ = ("_room", "_text", "count", "data", "memory", "records", "unfinished")

    def __init__(self, memory: memoryview) -> None:
        self.memory = memory
        # The bare address: CPython crashes when its collector clears a memoryview that cffi still has a buffer of.
        self.data = ffi.cast("uint8_t *", ffi.from_buffer(memory))
        self.unfinished = ffi.new("size_t *")
        self._room = 0
        self.count = 0

    def pack(self, paths: Sequence[bytes]) -> CData | None:
        """
        Begin a batch: pack its paths and allocate a record for each.

        Returns:
            ``file_batch_paths *``, valid until the next batch; None if a path contains a NUL byte: no such file exists,
            and the byte would shift all paths after it.
        """
        count, text = len(paths), b"\0".join(paths) + b"\0"
        if count > self._room:
            self._room, self.records = count, ffi.new("file_batch_record[]", count)
        self.count = 0
        if text.count(b"\0") != count:
            return None
        self._text = ffi.from_buffer(text)  # keeps the bytes that the structure points to
        return ffi.new("file_batch_paths *", (self._text, len(text), count))

    def statuses(self) -> list[int]:
        """Return the status of each file; the caller must read every file whose status is not ``READ``."""
        words = memoryview(ffi.buffer(self.records)).cast("B").cast("Q")
        return words[: self.count * _RECORD_WORDS : _RECORD_WORDS].tolist()

    def rows(self) -> Iterator[Row]:
        """Yield the row of each file. Unless the status is ``READ``, only the status is valid."""
        rows: Iterator[Row] = _RECORD.iter_unpack(ffi.buffer(self.records))
        return islice(rows, self.count)


class Way(Enum):
    """Where contents come from, and what that does to the page cache; see ``stable_batch_way`` of the C core."""

    MEMORY = lib.STABLE_BATCH_MEMORY, ReadHow.CACHE_POSSIBLE
    DIRECT = lib.STABLE_BATCH_DIRECT, ReadHow.DIRECT
    UNENCODED = lib.STABLE_BATCH_UNENCODED, ReadHow.DIRECT
    DROPPED = (
        lib.STABLE_BATCH_DROPPED,
        ReadHow.CACHE_POSSIBLE,
    )  # what is inline comes with metadata, from memory perhaps
    PASSING = lib.STABLE_BATCH_PASSING, ReadHow.CACHE_POSSIBLE
    KEPT = lib.STABLE_BATCH_KEPT, ReadHow.CACHE_POSSIBLE


class BatchReader:
    """
    Read the small files of one root; made by ``Reader.small_readers``. Any thread may use it with its own arena.

    Args:
        root_fd: descriptor of the root's folder; stays the caller's.
        begin_window: starts the window of racy timestamps.
        way: how to read; the file system must be known to bear it out.
        pace: consulted before each call that reads from the disk.

    Attributes:
        how: how certain it is that the data came from the disk.
        waits_for_disk: reads come from the disk.
    """

    def __init__(
        self, root_fd: int, begin_window: Callable[[], RacyWindow], way: Way, *, pace: Pace = UNLIMITED
    ) -> None:
        self._root_fd = root_fd
        self._begin_window = begin_window
        self._way, self.how = way.value
        self.waits_for_disk = way is not Way.MEMORY
        self._pace = pace
        self._file_s = _MOST_PACED_S / _FIRST_FILES  # current estimate per file

    def read(
        self, paths: Sequence[bytes], sizes_bytes: Sequence[int], limit_bytes: int, arena: Arena
    ) -> tuple[int, int]:
        """
        Read files until the arena is full or the time limit is reached.

        Args:
            paths: relative to the root; at least one.
            sizes_bytes: sizes as far as known; they only limit how many files are read in one call.
            limit_bytes: skip files larger than this.
            arena: receives a record for at least the first path; for none if a path contains a NUL byte.

        Returns:
            The first and the last racy timestamp: see ``RacyWindow.end``.

        Raises:
            ReadInterrupted: from the pace; nothing was read.
        """
        if self.waits_for_disk and self._pace.holds_back:
            return self._read_paced(paths, sizes_bytes, limit_bytes, arena)
        return self._read(paths, limit_bytes, _MOST_S, arena)

    def _read_paced(
        self, paths: Sequence[bytes], sizes_bytes: Sequence[int], limit_bytes: int, arena: Arena
    ) -> tuple[int, int]:
        """Read no more in one call than the pace allows."""
        most_bytes = min(self._pace.piece_bytes(), self._pace.share_bytes(_MOST_PACED_S), len(arena.memory))
        most_files = max(int(_MOST_PACED_S / self._file_s), 1)
        count = wanted_bytes = 0
        for size_bytes in sizes_bytes[:most_files]:
            if count and wanted_bytes + size_bytes > most_bytes:
                break
            wanted_bytes += min(size_bytes, limit_bytes)
            count += 1
        arena.count = 0
        self._pace.take(wanted_bytes)
        began, size_bytes = time.monotonic(), 0
        try:
            racy_window = self._read(paths[:count], limit_bytes, _MOST_PACED_S, arena)
            size_bytes = wanted_bytes * arena.count // count
        finally:
            duration_s = time.monotonic() - began
            self._pace.took(size_bytes, duration_s, max(arena.count, 1))
        self._file_s += (duration_s / max(arena.count, 1) - self._file_s) * _LEARNING
        return racy_window

    def _read(self, paths: Sequence[bytes], limit_bytes: int, most_s: float, arena: Arena) -> tuple[int, int]:
        packed = arena.pack(paths)
        window = self._begin_window()
        if packed is not None:
            most_ns = int(most_s * 1e9)
            terms = ffi.new(
                "stable_batch_terms *", (self._root_fd, self._way, limit_bytes, window.recent_since_ns, most_ns)
            )
            arena.count = lib.stable_batch_read(terms, packed, arena.data, len(arena.memory), arena.records)
        return window.end()


class PlainBatchReader:
    """
    Read small files by path through the page cache, as any program does.

    Its records hold no timestamps and no inodes.
    """

    how = ReadHow.CACHE_POSSIBLE
    waits_for_disk = False

    def read(
        self,
        paths: Sequence[bytes],
        sizes_bytes: Sequence[int],  # noqa: ARG002 - used by BatchReader
        limit_bytes: int,
        arena: Arena,
    ) -> tuple[int, int]:
        """Read files until the arena is full, as ``BatchReader.read`` does; no timestamp is racy."""
        packed = arena.pack(paths)
        if packed is not None:
            arena.count = lib.load_batch_read(packed, limit_bytes, arena.data, len(arena.memory), arena.records)
        return 1, 0
