"""
Rot is confirmed before it is said (R3).

A mismatch is read twice more, from the disk, holes included, some seconds apart, with MD5 beside XXH3; in files of
several blocks only the blocks that did not match. What the readings together mean is the verdict's to decide.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from integrity.catalog import blocks as block_store
from integrity.catalog.blocks import BLOCKS_PER_RUN
from integrity.catalog.rows import FileRecord
from integrity.errors import ReadError, Unstable, show_path
from integrity.files.buffers import Buffers
from integrity.files.read import OpenFile, Reader, ReadMode, Segment
from integrity.hashing.digests import FileHasher, Want, confirming
from integrity.model import Reading
from integrity.verdict import Confirmation, Judgement, Pair, confirm

if TYPE_CHECKING:
    from integrity.catalog.connect import Connection
    from integrity.jobs.context import RootRun

BETWEEN_S = 2.0
"""Long enough for a drive to have turned some hundred times and for a controller's buffer to have seen other data."""

REREADS = 2

_NOTHING_READ = Pair(None, None)


@dataclass(frozen=True, slots=True)
class Suspicion:
    """A mismatch that looks like rot, waiting to be confirmed."""

    record: FileRecord
    reading: Reading
    judgement: Judgement
    bad_blocks: tuple[int, ...]
    seen_at: float  # monotonic


@dataclass(frozen=True, slots=True)
class Outcome:
    """What re-reading showed. ``bad_blocks`` are those that stayed wrong."""

    confirmation: Confirmation
    bad_blocks: tuple[int, ...]
    rereads: int


class Rereader:
    """Read what did not match once more."""

    def __init__(self, run: RootRun) -> None:
        self._run = run
        self._reader: Reader = run.reader(ReadMode.DISK, use_holes=False)
        self._want = confirming(blake3="blake3" in run.settings.digests)

    def confirm_all(self, suspicions: Sequence[Suspicion]) -> list[tuple[Suspicion, Outcome | ReadError]] | None:
        """
        Confirm mismatches, all of them in two rounds, so that they share the waiting.

        Returns:
            An outcome for each, or why it could not be had; None when the job was asked to stop.
        """
        rounds: list[list[dict[int, Pair] | ReadError]] = []
        with Buffers() as buffers:
            for _ in range(REREADS):
                if self._run.context.pause(BETWEEN_S):
                    return None
                rounds.append([self._reread(one, buffers) for one in suspicions])
        return [
            (one, self._conclude(one, [readings[index] for readings in rounds])) for index, one in enumerate(suspicions)
        ]

    def _reread(self, suspicion: Suspicion, buffers: Buffers) -> dict[int, Pair] | ReadError:
        """Digest the blocks in question; a file of one block counts as block 0."""
        record = suspicion.record
        pairs: dict[int, Pair] = {}
        try:
            if record.block_size_bytes is None:
                with self._open(suspicion) as file:
                    pairs[0] = _read_whole(file, buffers, self._want)
                return pairs
            if not suspicion.bad_blocks:  # all blocks are right and the size is not, which needs no reading
                with self._open(suspicion):
                    pairs[0] = _NOTHING_READ
                return pairs
            for first, count in _neighbours(suspicion.bad_blocks):
                with self._open(suspicion) as file:
                    pairs |= _read_blocks(file, buffers, record, first, count)
        except ReadError as error:
            return error
        return pairs

    @contextmanager
    def _open(self, suspicion: Suspicion) -> Iterator[OpenFile]:
        """Open a file; at the end, make sure that it held still since the reading that did not match (R1)."""
        path = suspicion.record.path
        with self._reader.open(path) as file:
            yield file
            self._run.counts.bytes_read += file.bytes_read
            if file.finish()[:4] != suspicion.reading.witness[:4]:
                raise Unstable(f"{show_path(path)} changed before it could be read once more")

    def _conclude(self, suspicion: Suspicion, readings: Sequence[dict[int, Pair] | ReadError]) -> Outcome | ReadError:
        rereads: list[dict[int, Pair]] = []
        for reading in readings:
            if isinstance(reading, ReadError):
                return reading
            rereads.append(reading)
        with self._run.catalog.read() as connection:
            verdicts = {
                index: confirm(*self._pairs(connection, suspicion, index), [reading[index] for reading in rereads])
                for index in rereads[0]
            }
        for confirmation in (Confirmation.CATALOG_DAMAGED, Confirmation.PERSISTENT, Confirmation.UNSTEADY):
            blocks = tuple(index for index, value in verdicts.items() if value is confirmation)
            if blocks:
                return Outcome(confirmation, blocks if suspicion.bad_blocks else (), len(rereads))
        return Outcome(Confirmation.TRANSIENT, suspicion.bad_blocks, len(rereads))

    def _pairs(self, connection: Connection, suspicion: Suspicion, index: int) -> tuple[Pair, Pair]:
        """Give the recorded digests and those of the first reading, of one block or of the whole file."""
        record, reading = suspicion.record, suspicion.reading
        if not suspicion.bad_blocks and record.block_size_bytes is not None:
            return _NOTHING_READ, _NOTHING_READ
        if record.block_size_bytes is None:
            old, new = record.digests, reading.digests
            return Pair(old.xxh3_128, old.md5), Pair(new.xxh3_128, new.md5)
        known = block_store.load_run(
            connection, self._run.catalog.sealer, record.id, record.version, index // BLOCKS_PER_RUN
        )
        assert known is not None  # it was there when the mismatch was found
        at = slice(index % BLOCKS_PER_RUN * 16, index % BLOCKS_PER_RUN * 16 + 16)
        return Pair(known.xxh3_128[at], known.md5[at] or None), Pair(None, None)


def _read_whole(file: OpenFile, buffers: Buffers, want: Want) -> Pair:
    hasher = FileHasher(want, file.size_bytes, max(file.size_bytes, 1))
    for segment in file.segments(buffers):
        hasher.chain(segment)
    digests = hasher.digests()
    return Pair(digests.xxh3_128, digests.md5)


def _read_blocks(file: OpenFile, buffers: Buffers, record: FileRecord, first: int, count: int) -> dict[int, Pair]:
    """Read and digest neighbouring blocks; one that lies behind the end of the file has the digests of no bytes."""
    size = record.block_size_bytes
    assert size is not None
    begin, end = first * size, (first + count) * size
    hasher = FileHasher(Want(block_md5=True, block_xxh3_128=True), record.witness.size_bytes, size, start=begin)
    for segment in file.segments(buffers, begin):
        if segment.offset >= end:
            break
        hasher.cut_blocks(_trim(segment, end))
    hasher.digests()
    _, blocks = hasher.take_blocks()
    assert blocks is not None
    pairs = {}
    for index in range(count):
        at = slice(index * 16, index * 16 + 16)
        pairs[first + index] = Pair(blocks.xxh3_128[at], blocks.md5[at])
    return pairs


def _trim(segment: Segment, end: int) -> Segment:
    length = min(segment.length, end - segment.offset)
    return Segment(segment.offset, length, None if segment.data is None else segment.data[:length])


def _neighbours(blocks: Sequence[int]) -> Iterator[tuple[int, int]]:
    """Group ascending block indexes into (first, count) of neighbours."""
    first, count = blocks[0], 0
    for index in blocks:
        if index != first + count:
            yield first, count
            first, count = index, 0
        count += 1
    yield first, count
