"""Read one file from any offset, past the page cache, as one version."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import NamedTuple, NoReturn

from integrity.errors import Unreadable, Unstable, show_path
from integrity.files.buffers import Buffers
from integrity.files.direct_io import USUAL_ALIGNMENT_BYTES
from integrity.files.read import Reader
from integrity.files.stamps import witness_of


class _Piece(NamedTuple):
    """The piece that was read last; ``data`` is None for zeros."""

    offset: int
    end: int
    data: bytes | None


class RandomAccessFile:
    """
    One file, read from any offset, past the page cache, as one version.

    ``files.read`` reads from one offset to the end: reading on continues that pass, any other offset begins a new one,
    and all passes must see the same version.

    Args:
        path: relative to the reader's folder.
        buffers: of one thread; several files may share them, as no data stays there.

    Raises:
        ReadError: the file can't be opened.
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
        """Return the stat of the descriptor from when the file was opened."""
        return self._file.stat

    def read(self, offset: int, length: int) -> bytes:
        """
        Read from any offset.

        Returns:
            ``length`` bytes; fewer only at the end of the file, none beyond it.

        Raises:
            ReadError: the file can't be read, or changed meanwhile.
        """
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

    def finish(self) -> None:
        """
        Verify that what was read belongs to one version; done by itself at the end of the file.

        Raises:
            ReadError: the file changed, is gone, or has ranges that could not be read.
        """
        self._file.finish()

    def close(self) -> None:
        """Close the file; may be called twice."""
        self._pieces = None
        self._file.close()

    def _begin(self, offset: int) -> None:
        """Begin a pass at an offset; reopen the file unless its descriptor is unused."""
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
            # Copied at once: other files share the buffer.
            yield _Piece(offset, offset + length, None if data is None else bytes(data))

    def _take(self, position: int, end: int) -> bytes:
        """Return the bytes of the current piece from ``position`` on, or those of the next one."""
        assert self._pieces is not None
        while self._piece.end <= position:
            following = next(self._pieces, None)
            if following is None or following.offset > position:
                self._fail()
            self._piece = following
        first, last = position - self._piece.offset, min(end, self._piece.end) - self._piece.offset
        return bytes(last - first) if self._piece.data is None else self._piece.data[first:last]

    def _fail(self) -> NoReturn:
        """Raise for a gap at the current offset; later offsets can still be read."""
        self._position = -1
        self._file.finish()
        ranges = tuple(self._file.bad_ranges)
        raise Unreadable(f"cannot read {show_path(self._path)}: it has a gap; try again", errno=0, ranges=ranges)
