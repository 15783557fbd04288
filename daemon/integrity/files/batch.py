"""
Read many small files in one call of the C core and without the interpreter lock.

The short way beside ``read``: it takes only files about which there is nothing to decide, and leaves all others to
``Reader.open``, which knows what to do and what to say. So it never raises, and what it gives is what the long way
would have given. To record, it reads what lies in memory, and waits for no disk, so any thread may use it at any time;
to see the disk, it reads past the page cache (R4).

Importing this module fails with ImportError where the extension cannot be loaded.
"""

from __future__ import annotations

import struct
import time
from collections.abc import Callable, Iterator, Sequence
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
"""So long one call reads from the disk: whoever is to stop can't do so before, and no one else's turn comes before."""

_FIRST_FILES = 8
"""Read in one call before it is known how long a file takes."""

_LEARNING = 0.25

READ = lib.FILE_BATCH_READ
"""The status of a file that was read."""

Row = tuple[int, int, int, int, int, int, bytes, bytes, bytes]
"""What is known of a file: status, size, mtime, ctime, inode (folded), offset, MD5, XXH3-128, CRC-64/NVME."""

_RECORD = struct.Struct("=QQqqqQ16s16s8s")
"""``file_batch_record`` of native/file_batch.h."""

_RECORD_WORDS = _RECORD.size // 8


class Arena:
    """
    Memory for one batch at a time.

    Args:
        memory: writable; begins with a page where files are to be read from the disk.

    Attributes:
        memory: as given; the content of a file begins at its offset.
        data: the same for the C core.
        records: ``file_batch_record[]``, one for each path.
        count: how many of them the last reading has filled in, from the first on.
        unfinished: ``size_t *``: so many digests are still being computed. Until it is 0 nothing here may change.
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
        Begin a batch: pack its paths, and make room for a record of each.

        Returns:
            ``file_batch_paths *``, valid until the next batch; None if one of the paths holds a NUL byte: there is no
            such file, and all paths behind it would be mistaken.
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
        """Tell of each file whether it was ``READ``; the others are the caller's."""
        words = memoryview(ffi.buffer(self.records)).cast("B").cast("Q")
        return words[: self.count * _RECORD_WORDS : _RECORD_WORDS].tolist()

    def rows(self) -> Iterator[Row]:
        """Give what is known of each file; only of those that were ``READ`` anything but the status means something."""
        rows: Iterator[Row] = _RECORD.iter_unpack(ffi.buffer(self.records))
        return islice(rows, self.count)


class BatchReader:
    """
    The short way into one root; made by ``Reader.batch``. Any thread may use it, each with its own arenas.

    Args:
        root_fd: the root's folder; stays the caller's.
        begin_window: begins to note which times are in doubt.
        from_disk: past the page cache, on a file system that has no other; else from memory only.
        pace: asked before each call that reads from the disk.

    Attributes:
        how: how sure it is that the disk answered.
    """

    def __init__(
        self, root_fd: int, begin_window: Callable[[], RacyWindow], *, from_disk: bool, pace: Pace = UNLIMITED
    ) -> None:
        self._root_fd = root_fd
        self._begin_window = begin_window
        self._from_disk = from_disk
        self._pace = pace
        self._file_s = _MOST_PACED_S / _FIRST_FILES  # how long a file takes at the moment
        self.how = ReadHow.DIRECT if from_disk else ReadHow.CACHE_POSSIBLE

    def read(
        self, paths: Sequence[bytes], sizes_bytes: Sequence[int], limit_bytes: int, arena: Arena
    ) -> tuple[int, int]:
        """
        Read files until the arena is full, or the time is over.

        Args:
            paths: relative to the root; at least one.
            sizes_bytes: of the files, as far as known; only decides how many are read at once.
            limit_bytes: larger files are left alone.
            arena: gets a record for each of the first so many paths, at least one; for none if one of the paths is
                none that any file can have.

        Returns:
            The first and the last stamp in doubt: see ``RacyWindow.end``.

        Raises:
            ReadInterrupted: from the pace; nothing was read.
        """
        if self._from_disk and self._pace.holds_back:
            return self._read_paced(paths, sizes_bytes, limit_bytes, arena)
        return self._read(paths, limit_bytes, _MOST_S, arena)

    def _read_paced(
        self, paths: Sequence[bytes], sizes_bytes: Sequence[int], limit_bytes: int, arena: Arena
    ) -> tuple[int, int]:
        """Read no more than may be read at once."""
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
            in_doubt = self._read(paths[:count], limit_bytes, _MOST_PACED_S, arena)
            size_bytes = wanted_bytes * arena.count // count
        finally:
            duration_s = time.monotonic() - began
            self._pace.took(size_bytes, duration_s, max(arena.count, 1))
        self._file_s += (duration_s / max(arena.count, 1) - self._file_s) * _LEARNING
        return in_doubt

    def _read(self, paths: Sequence[bytes], limit_bytes: int, most_s: float, arena: Arena) -> tuple[int, int]:
        packed = arena.pack(paths)
        window = self._begin_window()
        if packed is not None:
            size, data, records = len(arena.memory), arena.data, arena.records
            terms = self._root_fd, packed, limit_bytes, window.recent_since_ns
            if self._from_disk:
                arena.count = lib.stable_batch_read_disk(*terms, int(most_s * 1e9), data, size, records)
            else:
                arena.count = lib.stable_batch_read(*terms, data, size, records)
        return window.end()


class PlainBatchReader:
    """
    The same for files as any program reads them: by paths that any system call takes, whatever is cached.

    Of times and inodes its records say nothing.
    """

    how = ReadHow.CACHE_POSSIBLE

    def read(
        self,
        paths: Sequence[bytes],
        sizes_bytes: Sequence[int],  # noqa: ARG002 - of the other one
        limit_bytes: int,
        arena: Arena,
    ) -> tuple[int, int]:
        """Read files until the arena is full, as ``BatchReader.read`` does; no stamp is in doubt."""
        packed = arena.pack(paths)
        if packed is not None:
            arena.count = lib.load_batch_read(packed, limit_bytes, arena.data, len(arena.memory), arena.records)
        return 1, 0
