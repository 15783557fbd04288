"""Read back what a copy has of a file, from wherever that is, and digest it as a scrub would."""

from __future__ import annotations

from integrity.copies.protocol import Copy
from integrity.errors import ReadInterrupted, Unstable, show_path
from integrity.files.read import Segment
from integrity.files.span import Pace
from integrity.hashing.digests import FileHasher, Want
from integrity.hashing.tasks import StopSignal
from integrity.model import ReadHow, Reading, Witness

READING = Want(xxh3_128=True, block_xxh3_128=True)
"""The whole and the blocks: the one is compared with former baselines, the others tell where it differs."""

_PIECE_BYTES = 8 << 20


def read_from_copy(copy: Copy, path: bytes, block_size_bytes: int, *, pace: Pace, stop: StopSignal) -> Reading:
    """
    Read one file of a copy.

    Args:
        copy: entered.
        path: in the copy.
        block_size_bytes: of the blocks to be digested.
        pace: holds the reading back.
        stop: ends it.

    Returns:
        A reading whose witness has nothing but the size.

    Raises:
        ReadError: of the kind that fits; ReadInterrupted if it was stopped.
        CopyUnreachable: it is not the file but the copy.
    """
    file = copy.open(path)
    try:
        size = file.size_bytes
        hasher = FileHasher(READING, size, block_size_bytes)
        for offset in range(0, size, _PIECE_BYTES):
            if stop.is_set():
                raise ReadInterrupted(f"reading {show_path(path)} was interrupted")
            length = min(_PIECE_BYTES, size - offset)
            pace.take(length)
            data = file.read(offset, length)
            pace.took(len(data), 0.0)
            if len(data) != length:
                raise Unstable(f"{show_path(path)} ended before its size; compare again when nobody writes to the copy")
            hasher.feed(Segment(offset, length, memoryview(data)))
        digests = hasher.digests()
        blocks = hasher.take_blocks()[1]
    finally:
        file.close()
    return Reading(Witness(size, 0, 0, 0), digests, blocks, ReadHow.CACHE_POSSIBLE, size)
