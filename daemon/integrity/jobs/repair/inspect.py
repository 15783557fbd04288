"""
Compare a file on the disk, block by block, with its recorded content.

Findings are not used: more may have rotted since they were made.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

from xxhash import xxh3_128_digest

from integrity.catalog import blocks as block_store
from integrity.errors import ReadInterrupted, Unreadable, Unstable, show_path
from integrity.files.open_beneath import stat_beneath
from integrity.files.read_errors import BAD_MEDIUM
from integrity.files.stamps import witness_of
from integrity.hashing.digests import Want, digest_whole
from integrity.hashing.md5 import Md5
from integrity.model import Blocks, ByteRange, Digests, ReadHow, Witness

if TYPE_CHECKING:
    from integrity.catalog.connection import Connection
    from integrity.catalog.rows import FileRecord
    from integrity.files.buffers import Buffers
    from integrity.files.read import OpenFile, Reader, Segment
    from integrity.model import Reading


class Expected:
    """
    The recorded content of one file.

    A file that fits into one block counts as one block, which its whole-file digests verify; an empty file has none.

    Args:
        digests: of the whole file; those that were recorded.
        blocks: None if the file fits into one block.
    """

    def __init__(self, size_bytes: int, digests: Digests, blocks: Blocks | None) -> None:
        self.size_bytes = size_bytes
        self.digests = digests
        self._blocks = blocks
        self.block_size_bytes = max(size_bytes, 1) if blocks is None else blocks.block_size_bytes
        self.count = -(-size_bytes // self.block_size_bytes)

    def length(self, index: int) -> int:
        """Return the length of a block in bytes."""
        return min(self.block_size_bytes, self.size_bytes - index * self.block_size_bytes)

    def matches(self, index: int, data: bytes | memoryview) -> bool:
        """Return whether these bytes are the block, by every digest that is recorded of it."""
        if len(data) != self.length(index):
            return False
        if self._blocks is None:
            return self._is_whole(memoryview(data))
        at = slice(index * 16, index * 16 + 16)
        if xxh3_128_digest(data) != self._blocks.xxh3_128[at]:
            return False
        return not self._blocks.md5 or Md5(data).digest() == self._blocks.md5[at]

    def matches_block(self, index: int, data: bytes | None) -> bool:
        """Return whether a block is good; None stands for a hole, which is compared by cached digests of zeros."""
        if data is not None:
            return self.matches(index, data)
        blocks = self._blocks
        if blocks is None or self.length(index) != self.block_size_bytes:
            return self.matches(index, bytes(self.length(index)))
        at = slice(index * 16, index * 16 + 16)
        if blocks.xxh3_128[at] != self._xxh3_of_zeros:
            return False
        return not blocks.md5 or blocks.md5[at] == self._md5_of_zeros

    def holds(self, reading: Reading) -> bool:
        """Return whether the reading of a whole file matches, by every digest that both have."""
        if reading.witness.size_bytes != self.size_bytes:
            return False
        is_whole_equal = _are_equal(self.digests, reading.digests)
        if self._blocks is None or is_whole_equal is False:
            return is_whole_equal is True
        if reading.blocks is None or reading.blocks.xxh3_128 != self._blocks.xxh3_128:
            return False
        return not self._blocks.md5 or reading.blocks.md5 == self._blocks.md5

    def is_same_as(self, other: Expected) -> bool:
        """Return whether the record of another name of the file has the same content, by every digest both have."""
        if self.size_bytes != other.size_bytes or (self._blocks is None) != (other._blocks is None):
            return False
        is_whole_equal = _are_equal(self.digests, other.digests)
        if self._blocks is None or other._blocks is None or is_whole_equal is False:
            return is_whole_equal is True
        ours, theirs = self._blocks, other._blocks
        return ours.xxh3_128 == theirs.xxh3_128 and (not ours.md5 or not theirs.md5 or ours.md5 == theirs.md5)

    def _is_whole(self, data: memoryview) -> bool:
        known = self.digests
        want = Want(md5=known.md5 is not None, xxh3_128=known.xxh3_128 is not None, blake3=known.blake3 is not None)
        found = digest_whole(data, want)
        has_any = want.md5 or want.xxh3_128 or want.blake3
        pairs = ((known.md5, found.md5), (known.xxh3_128, found.xxh3_128), (known.blake3, found.blake3))
        return has_any and all(one == other for one, other in pairs)

    @cached_property
    def _xxh3_of_zeros(self) -> bytes:
        return xxh3_128_digest(bytes(self.block_size_bytes))

    @cached_property
    def _md5_of_zeros(self) -> bytes:
        return Md5(bytes(self.block_size_bytes)).digest()


def _are_equal(ours: Digests, theirs: Digests) -> bool | None:
    """Compare two sets of whole-file digests; None if they have no digest of the same kind."""
    pairs = ((ours.md5, theirs.md5), (ours.xxh3_128, theirs.xxh3_128), (ours.blake3, theirs.blake3))
    known = [one == other for one, other in pairs if one is not None and other is not None]
    return all(known) if known else None


def load_expected(connection: Connection, record: FileRecord) -> Expected | None:
    """Return the recorded content of a file; None if its blocks are lost."""
    size_bytes, block_size = record.witness.size_bytes, record.block_size_bytes
    if block_size is None:
        return Expected(size_bytes, record.digests, None)
    blocks = block_store.load_blocks(connection, record.id, record.version, block_size)
    if blocks is None or len(blocks) != -(-size_bytes // block_size):
        return None
    return Expected(size_bytes, record.digests, blocks)


Tick = Callable[[int], bool]
"""Called with the number of bytes processed; returns whether to continue."""


@dataclass(frozen=True, slots=True)
class Inspection:
    """
    State of a file on the disk.

    Args:
        stat: when the file was read.
        bad: numbers of the blocks that are not what was recorded, ascending.
        unreadable: ranges that could not be read.
        how: whether the bytes certainly came from the disk.
    """

    stat: os.stat_result
    bad: tuple[int, ...]
    unreadable: tuple[ByteRange, ...]
    how: ReadHow

    @property
    def witness(self) -> Witness:
        """Return the witness of the inspected file."""
        return witness_of(self.stat)

    def is_whole(self, expected: Expected) -> bool:
        """Return whether the file is what was recorded."""
        return not self.bad and self.stat.st_size == expected.size_bytes


class BlockRead(NamedTuple):
    """One whole block as read. ``data`` is None if the file system reports a hole: zeros."""

    number: int
    data: bytes | None


def inspect_file(
    reader: Reader, path: bytes, root_fd: int, expected: Expected, buffers: Buffers, tick: Tick
) -> Inspection:
    """
    Read a file past the cache and compare its blocks with the record.

    Raises:
        Vanished: the file is gone, or not a regular file.
        Unstable: it changed meanwhile.
        Unreadable: permissions prevent reading. What the disk can't read is in the result instead.
        ReadInterrupted: ``tick`` returned False.
    """
    try:
        with reader.open(path) as file:
            return _inspect(file, expected, buffers, tick)
    except Unreadable as error:
        if not _is_of_disk(error):
            raise
        try:
            stat = stat_beneath(root_fd, path)
        except OSError:
            raise error from None
        every = tuple(range(expected.count))
        return Inspection(stat, every, ((0, stat.st_size),) if stat.st_size else (), ReadHow.CACHE_POSSIBLE)


def _inspect(file: OpenFile, expected: Expected, buffers: Buffers, tick: Tick) -> Inspection:
    good = bytearray(expected.count)
    for block in read_blocks(file, buffers, expected, tick):
        good[block.number] = expected.matches_block(block.number, block.data)
    try:
        file.finish()
    except Unreadable as error:
        if not _is_of_disk(error):
            raise
    bad = tuple(number for number, is_good in enumerate(good) if not is_good)
    return Inspection(file.stat, bad, tuple(file.bad_ranges), file.how)


def _is_of_disk(error: Unreadable) -> bool:
    """Return whether the disk failed, rather than a permission."""
    return bool(error.ranges) or error.errno in BAD_MEDIUM


def read_blocks(file: OpenFile, buffers: Buffers, expected: Expected, tick: Tick) -> Iterator[BlockRead]:
    """
    Yield the readable blocks of a file in order, up to its expected size.

    Raises:
        Unreadable: for example for lack of permission. A failing disk only ends the blocks early.
        Unstable: the file is shorter than its stat text.
        ReadInterrupted: ``tick`` returned False.
    """
    cutter = _Cutter(expected)
    try:
        for segment in file.segments(buffers):
            yield from cutter.take(segment)
            if not tick(segment.length):
                raise ReadInterrupted("interrupted")
    except Unreadable as error:
        if not _is_of_disk(error):
            raise


class _Cutter:
    """Assemble blocks from segments, which may end anywhere and leave gaps."""

    def __init__(self, expected: Expected) -> None:
        self._expected = expected
        self._index = -1
        self._parts: list[bytes] = []
        self._have = 0

    def take(self, segment: Segment) -> Iterator[BlockRead]:
        """Add the next segment and yield the blocks that it completes."""
        size = self._expected.block_size_bytes
        offset, end = segment.offset, min(segment.offset + segment.length, self._expected.size_bytes)
        while offset < end:
            index = offset // size
            block_end = index * size + self._expected.length(index)
            stop = min(end, block_end)
            if segment.data is None and offset == index * size and stop == block_end:
                yield BlockRead(index, None)
            else:
                at = offset - segment.offset
                part = bytes(stop - offset) if segment.data is None else bytes(segment.data[at : at + stop - offset])
                yield from self._add(index, offset - index * size, part)
            offset = stop

    def _add(self, index: int, at: int, part: bytes) -> Iterator[BlockRead]:
        if index != self._index:
            self._index, self._parts, self._have = index, [], 0
        if at != self._have:  # a gap: this block can't be completed
            return
        self._parts.append(part)
        self._have += len(part)
        if self._have == self._expected.length(index):
            data = self._parts[0] if len(self._parts) == 1 else b"".join(self._parts)
            yield BlockRead(index, data)


def require_unmoved(root_fd: int, path: bytes, inspection: Inspection) -> None:
    """
    Check that a name still leads to the inspected file, unchanged.

    Raises:
        Unstable: the file changed or is gone.
    """
    try:
        witness = witness_of(stat_beneath(root_fd, path))
    except OSError as error:
        raise Unstable(f"{show_path(path)}: {os.strerror(error.errno or 0)}: it disappeared or was replaced") from error
    if witness != inspection.witness:
        raise Unstable(f"{show_path(path)}: {describe_move(inspection.witness, witness)} since it was examined")


def describe_move(before: Witness, after: Witness) -> str:
    """Describe which fields of a witness changed."""
    moved = [
        name
        for name, one, other in (
            ("its size", before.size_bytes, after.size_bytes),
            ("its modification time", before.mtime_ns, after.mtime_ns),
            ("its ctime", before.ctime_ns, after.ctime_ns),
            ("its inode", before.inode, after.inode),
        )
        if one != other
    ]
    return f"{' and '.join(moved) or 'nothing'} changed"
