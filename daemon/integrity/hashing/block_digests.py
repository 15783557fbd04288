"""
Digest a file's blocks from pieces of any length.

Each block size's block of zeros is digested once: a hole costs only its entries in the result.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from itertools import repeat

from xxhash import xxh3_128, xxh3_128_digest

from integrity.files.read import Segment
from integrity.hashing import crc64
from integrity.hashing.md5 import Md5, digest_many
from integrity.model import Blocks

_ZEROS = memoryview(bytes(1 << 20))


def pieces(segment: Segment) -> Iterator[memoryview]:
    """Yield a hole as pieces of zeros; yield data as one piece."""
    if segment.data is not None:
        yield segment.data
        return
    whole, rest = divmod(segment.length, len(_ZEROS))
    yield from repeat(_ZEROS, whole)
    if rest:
        yield _ZEROS[:rest]


class BlockCutter:
    """Digest blocks of one size from pieces of any length."""

    def __init__(self, size_bytes: int, *, md5: bool, crc64nvme: bool) -> None:
        self._size = size_bytes
        self._wants_md5 = md5
        self._wants_crc64 = crc64nvme
        self._md5s: list[bytes] = []
        self._xxh3s: list[bytes] = []
        self._crc64s = bytearray()
        self._fed = 0  # bytes in these blocks and in the open one
        self._open = 0  # bytes in the incomplete block
        self._md5 = Md5()
        self._xxh3 = xxh3_128()
        self._crc64 = 0

    @property
    def count(self) -> int:
        """Return the number of complete blocks that were not taken."""
        return len(self._xxh3s)

    def feed(self, data: memoryview, *, beside: tuple[Md5, memoryview] | None = None) -> None:
        """
        Append the next bytes.

        Args:
            beside: another stream and the bytes to append to it, computed in the same call.
        """
        head = data[: min(self._size - self._open, len(data)) if self._open else 0]  # completes the open block
        whole = (len(data) - len(head)) // self._size
        blocks = [data[at : at + self._size] for at in range(len(head), len(head) + whole * self._size, self._size)]
        rest = data[len(head) + whole * self._size :]  # starts the next one
        is_full = self._open + len(head) == self._size
        self._feed_xxh3(head, blocks, rest, is_full=is_full)
        if self._wants_crc64:
            self._feed_crc64(head, data[len(head) : len(data) - len(rest)], rest, is_full=is_full)
        self._fed += len(data)
        self._open = (self._open + len(data)) % self._size
        streams = [] if beside is None else [beside]
        if not self._wants_md5:
            digest_many((), beside=streams)
            return
        md5s = digest_many(blocks, beside=[*streams, (self._md5, head or rest)])
        if is_full:  # the open block, before the others
            self._md5s.append(self._md5.digest())
            self._md5.reset()
            self._md5.update(rest)
        self._md5s += md5s

    def _feed_xxh3(self, head: memoryview, blocks: list[memoryview], rest: memoryview, *, is_full: bool) -> None:
        self._xxh3.update(head)
        if is_full:
            self._xxh3s.append(self._xxh3.digest())
            self._xxh3.reset()
        self._xxh3s += [xxh3_128_digest(block) for block in blocks]
        self._xxh3.update(rest)

    def _feed_crc64(self, head: memoryview, blocks: memoryview, rest: memoryview, *, is_full: bool) -> None:
        if head:
            self._crc64 = crc64.crc64(head, self._crc64)
        if is_full:
            self._crc64s += crc64.pack(self._crc64)
            self._crc64 = 0
        if blocks:
            self._crc64s += crc64.digest_blocks(blocks, self._size)
        if rest:
            self._crc64 = crc64.crc64(rest, self._crc64)

    def feed_zeros(self, length: int) -> None:
        """Append a hole; all whole blocks of zeros share one set of digests."""
        if self._open:
            first = min(self._size - self._open, length)
            self._feed_pieces(first)
            length -= first
        whole, rest = divmod(length, self._size)
        if whole:
            md5, xxh3, crc = _zero_block(self._size, needs_crc64=self._wants_crc64)
            self._fed += whole * self._size
            self._xxh3s.extend([xxh3] * whole)
            if self._wants_md5:
                self._md5s.extend([md5] * whole)
            self._crc64s += crc * whole
        self._feed_pieces(rest)

    def _feed_pieces(self, length: int) -> None:
        for piece in pieces(Segment(0, length, None)):
            self.feed(piece)

    def end(self) -> None:
        """Close the open block, which may be short."""
        if not self._open:
            return
        self._xxh3s.append(self._xxh3.digest())
        self._xxh3.reset()
        if self._wants_md5:
            self._md5s.append(self._md5.digest())
            self._md5.reset()
        if self._wants_crc64:
            self._crc64s += crc64.pack(self._crc64)
            self._crc64 = 0
        self._open = 0

    def combine_crc64nvme(self) -> bytes | None:
        """Combine the CRCs of all blocks; None if they were not computed. Call this after ``end``."""
        if not self._wants_crc64:
            return None
        return crc64.pack(crc64.combine_blocks(self._crc64s, self._size, self._fed))

    def take(self) -> Blocks:
        """Return the digests of the complete blocks, and forget them."""
        blocks = Blocks(self._size, b"".join(self._xxh3s), b"".join(self._md5s), bytes(self._crc64s))
        self._xxh3s.clear()
        self._md5s.clear()
        self._crc64s.clear()
        self._fed = self._open
        return blocks


@lru_cache(maxsize=16)
def _zero_block(size_bytes: int, *, needs_crc64: bool) -> tuple[bytes, bytes, bytes]:
    """Return the digests of a block of zeros: MD5, XXH3-128, CRC-64/NVME."""
    zeros = bytes(size_bytes)
    return Md5(zeros).digest(), xxh3_128_digest(zeros), crc64.pack(crc64.crc64(zeros)) if needs_crc64 else b""
