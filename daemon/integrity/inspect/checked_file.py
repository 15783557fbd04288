"""The open file that a check reads, and which of its ranges a checksum covers."""

from __future__ import annotations

import io
import os
from collections.abc import Iterator
from itertools import pairwise
from typing import BinaryIO, cast

from integrity.inspect.outcome import OwnCheckFailed

PIECE_BYTES = 1 << 20
MOST_RANGES = 100_000


class CheckedFile(io.RawIOBase):
    """
    A file that is read by position; ``stream`` is the same for libraries.

    Args:
        fd: of a regular file; stays the caller's.
    """

    def __init__(self, fd: int) -> None:
        super().__init__()
        self.fd, self._position = fd, 0
        self.size_bytes = os.fstat(fd).st_size
        self._covered: list[tuple[int, int]] = []

    @property
    def stream(self) -> BinaryIO:
        """The file as libraries want it, buffered, from its beginning."""
        self._position = 0
        return cast("BinaryIO", io.BufferedReader(self, PIECE_BYTES // 4))

    def take(self, offset: int, length: int) -> bytes:
        """
        Read exactly ``length`` bytes.

        Raises:
            OwnCheckFailed: the file ends before.
        """
        data = os.pread(self.fd, length, offset)
        if len(data) != length:
            raise OwnCheckFailed(f"it ends before its content does ({self.size_bytes:,} bytes)")
        return data

    def pieces(self, start: int, end: int) -> Iterator[bytes]:
        """Yield the bytes of a range; raise as ``take``."""
        for at in range(start, end, PIECE_BYTES):
            yield self.take(at, min(PIECE_BYTES, end - at))

    def cover(self, start: int, end: int) -> None:
        """Record that a checksum covers a range."""
        if self._covered and self._covered[-1][1] == start:
            start = self._covered.pop()[0]
        self._covered.append((start, end))

    def find_uncovered(self) -> tuple[tuple[int, int], ...] | None:
        """Return the ranges that no checksum covers; None if there is none, or there are too many."""
        if not self._covered or len(self._covered) > MOST_RANGES:
            return None
        edges = ((0, 0), *sorted(self._covered), (self.size_bytes, self.size_bytes))
        return tuple((one[1], other[0]) for one, other in pairwise(edges) if one[1] < other[0])

    # ruff: noqa: D102 - the other methods are those of io.RawIOBase
    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._position

    def seek(self, offset: int, whence: int = os.SEEK_SET, /) -> int:
        start = {os.SEEK_SET: 0, os.SEEK_CUR: self._position, os.SEEK_END: self.size_bytes}[whence]
        if start + offset < 0:
            raise OSError("negative position")
        self._position = start + offset
        return self._position

    def readinto(self, buffer: bytearray, /) -> int:  # type: ignore[override]
        data = os.pread(self.fd, len(buffer), self._position)
        buffer[: len(data)] = data
        self._position += len(data)
        return len(data)
