"""
What a file is to be, block by block: its baseline, in the form in which a repair asks for it.

Look at a file as it is on the disk now: which of its blocks are what was recorded, and which are not or can't be read.

Nothing is taken from what a finding said: between then and now more may have rotted.
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
    from integrity.catalog.seal import Sealer
    from integrity.files.buffers import Buffers
    from integrity.files.read import OpenFile, Reader, Segment
    from integrity.model import Reading


class Expected:
    """
    The recorded content of one file.

    A file that fits one block counts as one block, which its whole-file digests judge; an empty file has none.

    Args:
        size_bytes: of the file.
        digests: of the whole file, as far as there are any.
        blocks: None if the file fits one.
    """

    def __init__(self, size_bytes: int, digests: Digests, blocks: Blocks | None) -> None:
        self.size_bytes = size_bytes
        self.digests = digests
        self._blocks = blocks
        self.block_size_bytes = max(size_bytes, 1) if blocks is None else blocks.block_size_bytes
        self.count = -(-size_bytes // self.block_size_bytes)

    def length(self, index: int) -> int:
        """Tell how many bytes a block has."""
        return min(self.block_size_bytes, self.size_bytes - index * self.block_size_bytes)

    def matches(self, index: int, data: bytes | memoryview) -> bool:
        """Say whether these bytes are a block's, by every digest that is recorded of it."""
        if len(data) != self.length(index):
            return False
        if self._blocks is None:
            return self._is_whole(memoryview(data))
        at = slice(index * 16, index * 16 + 16)
        if xxh3_128_digest(data) != self._blocks.xxh3_128[at]:
            return False
        return not self._blocks.md5 or Md5(data).digest() == self._blocks.md5[at]

    def matches_block(self, index: int, data: bytes | None) -> bool:
        """Say whether a block of a file is right; None is a hole, and those may be many."""
        if data is not None:
            return self.matches(index, data)
        if self._blocks is None or self.length(index) != self.block_size_bytes:
            return self.matches(index, bytes(self.length(index)))
        return self._blocks.xxh3_128[index * 16 : index * 16 + 16] == self._zeros

    def holds(self, reading: Reading) -> bool:
        """Say whether a reading of a whole file is this, by every digest that both have."""
        if reading.witness.size_bytes != self.size_bytes:
            return False
        ours, theirs = self.digests, reading.digests
        pairs = [(ours.md5, theirs.md5), (ours.xxh3_128, theirs.xxh3_128), (ours.blake3, theirs.blake3)]
        known = [(one, other) for one, other in pairs if one is not None and other is not None]
        if any(one != other for one, other in known):
            return False
        if self._blocks is None:
            return bool(known)
        if reading.blocks is None or reading.blocks.xxh3_128 != self._blocks.xxh3_128:
            return False
        return not self._blocks.md5 or reading.blocks.md5 == self._blocks.md5

    def is_same_as(self, other: Expected) -> bool:
        """Say whether the baseline of another name of the file is the same content."""
        if self.size_bytes != other.size_bytes or (self._blocks is None) != (other._blocks is None):
            return False
        if self._blocks is not None and other._blocks is not None:
            return self._blocks.xxh3_128 == other._blocks.xxh3_128
        return self.digests.md5 == other.digests.md5 and self.digests.xxh3_128 == other.digests.xxh3_128

    def _is_whole(self, data: memoryview) -> bool:
        known = self.digests
        want = Want(md5=known.md5 is not None, xxh3_128=known.xxh3_128 is not None, blake3=known.blake3 is not None)
        found = digest_whole(data, want)
        has_any = want.md5 or want.xxh3_128 or want.blake3
        pairs = ((known.md5, found.md5), (known.xxh3_128, found.xxh3_128), (known.blake3, found.blake3))
        return has_any and all(one == other for one, other in pairs)

    @cached_property
    def _zeros(self) -> bytes:
        return xxh3_128_digest(bytes(self.block_size_bytes))


def load_expected(connection: Connection, sealer: Sealer, record: FileRecord) -> Expected | None:
    """Load what a file is to be; None if its rows in the catalog are damaged or lost."""
    if not record.is_sealed:
        return None
    size_bytes, block_size = record.witness.size_bytes, record.block_size_bytes
    if block_size is None:
        return Expected(size_bytes, record.digests, None)
    blocks = block_store.load_blocks(connection, sealer, record.id, record.version, block_size)
    if blocks is None or len(blocks) != -(-size_bytes // block_size):
        return None
    return Expected(size_bytes, record.digests, blocks)


Tick = Callable[[int], bool]
"""Is told how many bytes were dealt with; says whether to go on."""


@dataclass(frozen=True, slots=True)
class Inspection:
    """
    What a file is now.

    Args:
        stat: as it was read.
        bad: the blocks that are not what was recorded, in order.
        unreadable: what of it could not be read.
        how: how sure it is that the disk was read.
    """

    stat: os.stat_result
    bad: tuple[int, ...]
    unreadable: tuple[ByteRange, ...]
    how: ReadHow

    @property
    def witness(self) -> Witness:
        """Take the witness."""
        return witness_of(self.stat)

    def is_whole(self, expected: Expected) -> bool:
        """Say whether the file is what was recorded."""
        return not self.bad and self.stat.st_size == expected.size_bytes


class BlockRead(NamedTuple):
    """One whole block as it was read. ``data`` is None where the file system says that it is a hole: zeros."""

    number: int
    data: bytes | None


def look_at(reader: Reader, path: bytes, root_fd: int, expected: Expected, buffers: Buffers, tick: Tick) -> Inspection:
    """
    Read a file past the cache and hold its blocks against its baseline.

    Raises:
        Vanished: it is gone, or no regular file.
        Unstable: it changed meanwhile.
        Unreadable: a permission keeps it from being looked at; what the disk can't give is in the result.
        ReadInterrupted: ``tick`` said so.
    """
    try:
        with reader.open(path) as file:
            return _look(file, expected, buffers, tick)
    except Unreadable as error:
        if not _is_of_disk(error):
            raise
        try:
            stat = stat_beneath(root_fd, path)
        except OSError:
            raise error from None
        every = tuple(range(expected.count))
        return Inspection(stat, every, ((0, stat.st_size),) if stat.st_size else (), ReadHow.CACHE_POSSIBLE)


def _look(file: OpenFile, expected: Expected, buffers: Buffers, tick: Tick) -> Inspection:
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
    """Say whether the disk refused, not a permission."""
    return bool(error.ranges) or error.errno in BAD_MEDIUM


def read_blocks(file: OpenFile, buffers: Buffers, expected: Expected, tick: Tick) -> Iterator[BlockRead]:
    """
    Cut what can be read of a file into its blocks, in order; those that lie behind its end are not among them.

    Raises:
        Unreadable: a permission, say; a disk that gives up only ends the blocks early.
        Unstable: the file is shorter than it said.
        ReadInterrupted: ``tick`` said so.
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
    """Put segments, which may end anywhere and leave gaps, together to blocks."""

    def __init__(self, expected: Expected) -> None:
        self._expected = expected
        self._index = -1
        self._parts: list[bytes] = []
        self._have = 0

    def take(self, segment: Segment) -> Iterator[BlockRead]:
        """Take the next segment and give the blocks that are complete with it."""
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
        if at != self._have:  # a gap: the block never becomes complete
            return
        self._parts.append(part)
        self._have += len(part)
        if self._have == self._expected.length(index):
            data = self._parts[0] if len(self._parts) == 1 else b"".join(self._parts)
            yield BlockRead(index, data)


def require_unmoved(root_fd: int, path: bytes, look: Inspection) -> None:
    """
    See that a name still leads to the file that was looked at, and that nothing of it moved.

    Raises:
        Unstable: it does not.
    """
    try:
        witness = witness_of(stat_beneath(root_fd, path))
    except OSError as error:
        raise Unstable(f"{show_path(path)}: {os.strerror(error.errno or 0)}: it is not there as it was") from error
    if witness != look.witness:
        raise Unstable(f"{show_path(path)}: {describe_move(look.witness, witness)} since it was looked at")


def describe_move(before: Witness, after: Witness) -> str:
    """Say what of a witness moved."""
    moved = [
        name
        for name, one, other in (
            ("its size", before.size_bytes, after.size_bytes),
            ("its time of modification", before.mtime_ns, after.mtime_ns),
            ("its ctime", before.ctime_ns, after.ctime_ns),
            ("its inode", before.inode, after.inode),
        )
        if one != other
    ]
    return f"{' and '.join(moved) or 'nothing'} moved"
