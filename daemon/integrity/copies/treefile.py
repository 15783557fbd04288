"""
Read a file of a mounted copy from anywhere in it, past the page cache, as one version.

Built on ``files.read``, which reads a file from one place to its end: going on where the last reading ended is one
reading, any other place begins a new one, and all must be of the same version of the file.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import NamedTuple, NoReturn

from integrity.errors import Unreadable, Unstable, show_path
from integrity.files.buffers import Buffers
from integrity.files.direct import USUAL_ALIGNMENT_BYTES
from integrity.files.read import Reader
from integrity.files.stamps import witness_of


class _Piece(NamedTuple):
    """What was read last; ``data`` is None for zeros."""

    offset: int
    end: int
    data: bytes | None


class TreeFile:
    """
    One file of a mounted copy; see ``CopyFile``.

    Args:
        reader: of the copy.
        path: relative to it.
        buffers: of one thread; may serve several files, as nothing is left in it.

    Raises:
        ReadError: from the reader.
    """

    def __init__(self, reader: Reader, path: bytes, buffers: Buffers) -> None:
        self._reader = reader
        self._path = path
        self._buffers = buffers
        self._file = reader.open(path)
        self._witness = witness_of(self._file.stat)
        self._pieces: Iterator[_Piece] | None = None
        self._piece = _Piece(0, 0, None)
        self._position = 0
        self.size_bytes = self._file.size_bytes

    @property
    def stat(self) -> os.stat_result:
        """Return what was said of the file when it was opened."""
        return self._file.stat

    def read(self, offset: int, length: int) -> bytes:
        """Read from anywhere; see ``CopyFile``."""
        end = min(offset + length, self.size_bytes)
        if offset >= end:
            return b""
        if self._pieces is None or offset != self._position:
            self._begin(offset)
        parts: list[bytes] = []
        position = offset
        while position < end:
            part = self._take(position, end)
            parts.append(part)
            position += len(part)
        if position == self.size_bytes:
            self._file.finish()
        self._position = position
        return b"".join(parts)

    def close(self) -> None:
        """Close the file; may be called twice."""
        self._pieces = None
        self._file.close()

    def _begin(self, offset: int) -> None:
        """Start a reading at an offset, on a descriptor of its own unless the first one is still unused."""
        if self._pieces is not None:
            self._pieces = None
            self._file.close()
            self._file = self._reader.open(self._path)
            if witness_of(self._file.stat) != self._witness:
                raise Unstable(f"{show_path(self._path)} changed while it was read; try again when nobody writes to it")
        self._piece = _Piece(0, 0, None)
        self._pieces = self._find_pieces(offset // USUAL_ALIGNMENT_BYTES * USUAL_ALIGNMENT_BYTES)

    def _find_pieces(self, start: int) -> Iterator[_Piece]:
        for offset, length, data in self._file.segments(self._buffers, start):
            # Copied out at once: the buffer is shared with other files.
            yield _Piece(offset, offset + length, None if data is None else bytes(data))

    def _take(self, position: int, end: int) -> bytes:
        """Take what the current piece has from ``position`` on, or that of the next one."""
        assert self._pieces is not None
        while self._piece.end <= position:
            following = next(self._pieces, None)
            if following is None or following.offset > position:
                self._fail()
            self._piece = following
        first, last = position - self._piece.offset, min(end, self._piece.end) - self._piece.offset
        return bytes(last - first) if self._piece.data is None else self._piece.data[first:last]

    def _fail(self) -> NoReturn:
        """Say why there is nothing at a place; what lies behind it can still be asked for."""
        self._position = -1
        self._file.finish()
        ranges = tuple(self._file.bad_ranges)
        raise Unreadable(f"cannot read {show_path(self._path)}: it has a gap; try again", errno=0, ranges=ranges)
