"""
Memory for the contents of many small files that one call of the C core reads, and for what it says of each.

Importing this module fails with ImportError where the extension cannot be loaded.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import TYPE_CHECKING

from integrity._native import ffi, lib

if TYPE_CHECKING:
    from integrity._native import CData

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
