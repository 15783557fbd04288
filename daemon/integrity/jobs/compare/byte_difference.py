"""
Read a file and its copy beside each other, to say how their bytes differ.

Reads no catalog and decides nothing: what differs is told (``jobs.byte_pattern``).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing
from typing import TYPE_CHECKING

from integrity.errors import ReadInterrupted, Unstable, show_path
from integrity.files.buffers import Buffers
from integrity.files.random_access import RandomAccessFile
from integrity.files.span import UNLIMITED, Pace
from integrity.jobs.byte_pattern import CHUNK_BYTES, ByteDifference, DifferenceFinder
from integrity.model import ByteRange

if TYPE_CHECKING:
    from integrity.copies.protocol import Copy, CopyFile
    from integrity.files.read import Reader
    from integrity.hashing.tasks import StopSignal

MOST_COMPARED_BYTES = 16 << 20
"""What a finding's sentence may cost, on each side."""

_PIECE_BYTES = 1 << 20


def find_byte_difference(
    reader: Reader,
    path: bytes,
    copy: Copy,
    place: bytes,
    ranges: Sequence[ByteRange] | None = None,
    *,
    stop: StopSignal,
    pace: Pace = UNLIMITED,
    most_bytes: int | None = MOST_COMPARED_BYTES,
    most_differing: int = MOST_COMPARED_BYTES,
) -> ByteDifference:
    """
    Compare the bytes of a file with those of its copy; either side may be the damaged one.

    Args:
        reader: of the root, from the disk.
        path: of the file, relative to the root.
        copy: entered.
        place: of the file in the copy.
        ranges: all that may differ in the part that both have, such as the blocks that either side has damaged, in any
            order; None: everything.
        stop: ends the reading.
        pace: of the copy; the reader has its own.
        most_bytes: ends the comparison after so many bytes of either side; None: never.
        most_differing: ends it after so many differing bytes.

    Raises:
        ReadError: a side can't be read, or changed meanwhile; ReadInterrupted if ``stop`` is set.
        CopyUnreachable: the copy as a whole can't be reached.
    """
    finder, left, is_complete = DifferenceFinder(), most_bytes, False
    with (
        Buffers(_PIECE_BYTES, 1) as buffers,
        closing(RandomAccessFile(reader, path, buffers)) as file,
        closing(copy.open(place)) as other,
    ):
        common = min(file.size_bytes, other.size_bytes)
        for offset, length in _find_pieces([(0, common)] if ranges is None else ranges, common):
            if (left is not None and length > left) or finder.differing_bytes >= most_differing:
                break
            if stop.is_set():
                raise ReadInterrupted(f"reading {show_path(path)} was interrupted")
            pace.take(length)
            theirs = _read(other, place, offset, length)
            pace.took(length, 0.0)
            finder.add(offset, _read(file, path, offset, length), theirs)
            left = None if left is None else left - length
        else:
            is_complete = True
        file.finish()
        return finder.finish(file.size_bytes, other.size_bytes, is_complete=is_complete)


def _read(file: RandomAccessFile | CopyFile, path: bytes, offset: int, length: int) -> bytes:
    data = file.read(offset, length)
    if len(data) != length:
        raise Unstable(f"{show_path(path)} ended before its size; compare again when nobody writes to it")
    return data


def _find_pieces(ranges: Iterable[ByteRange], end: int) -> Iterator[ByteRange]:
    """Yield pieces that cover the ranges up to ``end``, in order, each once; they begin at whole chunks."""
    position = 0
    for first, length in sorted(ranges):
        position = max(position, first // CHUNK_BYTES * CHUNK_BYTES)
        stop = min(-(-(first + length) // CHUNK_BYTES) * CHUNK_BYTES, end)
        while position < stop:
            step = min(_PIECE_BYTES, stop - position)
            yield position, step
            position += step
