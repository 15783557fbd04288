"""What a file is to be, block by block: its baseline, in the form in which a repair asks for it."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

from xxhash import xxh3_128_digest

from integrity.catalog import blocks as block_store
from integrity.hashing.digests import Want, digest_whole
from integrity.hashing.md5 import Md5
from integrity.model import Blocks, Digests

if TYPE_CHECKING:
    from integrity.catalog.connection import Connection
    from integrity.catalog.rows import FileRecord
    from integrity.catalog.seal import Sealer
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
