"""
Compute the digests of one file in one pass over its bytes.

Decides how bytes, holes and block boundaries become digests; leaves reading, threads and comparison to others. A file
is fed in order, as segments of any length, which do not affect its block digests.

I1  Digests of a file with holes equal those of the same bytes written out as zeros.
I2  ``chain`` and ``cut_blocks`` share no state, so two threads may run them on the same segment.
I3  ``feed`` returns the same digests as the two; the C core then computes the file's MD5 beside those of its blocks.

CRC-64/NVME serves copies in S3. A file of several blocks gets it from its blocks at almost no cost, so very sparse and
resumed files have it, too. It is computed only with new baselines, and only by the C core; no recorded file is re-read
for it.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import NamedTuple

from blake3 import blake3
from xxhash import xxh3_128, xxh3_128_digest

from integrity.files.read import Segment
from integrity.hashing import crc64
from integrity.hashing.block_digests import BlockCutter, pieces
from integrity.hashing.md5 import Md5, native_status
from integrity.hashing.stored_digests import STORED, Hasher
from integrity.model import CRC64NVME_BYTES, XXH3_128_BYTES, Blocks, ByteRange, Digests

SPARSE_HOLES_BYTES = 1 << 30
"""Files with more holes than this, and more holes than data, get no whole-file digests: MD5 of 1 TiB of zeros takes 20
min."""


class Want(NamedTuple):
    """The digests to compute: of the whole file, and of its blocks if it is larger than one block."""

    md5: bool = False
    xxh3_128: bool = False
    blake3: bool = False
    block_md5: bool = False
    block_xxh3_128: bool = False
    crc64nvme: bool = False  # of the file and of its blocks
    others: tuple[Callable[[], Hasher], ...] = ()  # of the whole file; called once per file

    @property
    def needs_chain(self) -> bool:
        """Return whether any digest runs over the whole file; CRCs are combined from blocks."""
        return self.md5 or self.xxh3_128 or self.blake3 or bool(self.others)

    @property
    def needs_blocks(self) -> bool:
        """Return whether blocks are digested."""
        return self.block_md5 or self.block_xxh3_128


def want_to_record(*, blake3: bool) -> Want:
    """Return the digests that are stored when a file is recorded."""
    return want_to_confirm(blake3=blake3)._replace(crc64nvme=crc64.is_native)


def want_to_verify(*, is_one_block: bool, deep: bool, blake3: bool) -> Want:
    """Return the digests that verify a recorded file: XXH3 of file or blocks; ``deep`` adds the file's MD5."""
    return Want(md5=deep, xxh3_128=is_one_block, blake3=blake3, block_xxh3_128=True)


def want_to_confirm(*, blake3: bool) -> Want:
    """Return XXH3 and MD5 side by side, to distinguish a damaged file from a damaged catalog (R3)."""
    return Want(md5=True, xxh3_128=True, blake3=blake3, block_md5=True, block_xxh3_128=True)


def without_chain(want: Want) -> Want:
    """Remove the digests that run over the whole file, for very sparse files."""
    return want._replace(md5=False, xxh3_128=False, blake3=False)


def is_very_sparse(size_bytes: int, hole_bytes: int) -> bool:
    """Return whether whole-file digests would run mostly over zeros that are not stored."""
    return hole_bytes > SPARSE_HOLES_BYTES and hole_bytes * 2 > size_bytes


def have_equal_digests(one: Digests, other: Digests) -> bool:
    """Return whether two contents have a judging digest in common, and all that both have are equal."""
    equal = [
        mine == theirs
        for mine, theirs, digest in zip(one, other, STORED, strict=True)
        if digest.judges and mine is not None and theirs is not None
    ]
    return bool(equal) and all(equal)


def digest_whole(data: memoryview, want: Want) -> Digests:
    """Digest a file that is in memory as one piece."""
    return Digests(
        md5=Md5(data).digest() if want.md5 else None,
        xxh3_128=xxh3_128_digest(data) if want.xxh3_128 else None,
        blake3=digest_blake3(data) if want.blake3 else None,
        crc64nvme=crc64.pack(crc64.crc64(data)) if want.crc64nvme else None,
    )


def digest_blake3(data: memoryview) -> bytes:
    """Compute the BLAKE3 of a file that is in memory as one piece."""
    return blake3(data).digest()


def digest_others(data: memoryview, want: Want) -> tuple[bytes, ...]:
    """Compute the other digests of a file that is in memory as one piece."""
    return tuple([_digest(make(), data) for make in want.others])


def _digest(hasher: Hasher, data: memoryview) -> bytes:
    hasher.update(data)
    return hasher.digest()


def combine_crc64nvme(blocks: Blocks, size_bytes: int) -> bytes | None:
    """Combine a file's CRC from those of all its blocks; None if they are missing."""
    count = -(-size_bytes // blocks.block_size_bytes)
    if not count or len(blocks.crc64nvme) != count * CRC64NVME_BYTES:
        return None
    return crc64.pack(crc64.combine_blocks(blocks.crc64nvme, blocks.block_size_bytes, size_bytes))


def is_blank(size_bytes: int, digests: Digests, blocks: Blocks | None) -> bool:
    """Return whether content is empty, all zeros or all ones: what disks return for data that they lost."""
    if blocks is None:
        return digests.xxh3_128 in _blank_digests(size_bytes)
    first = blocks.xxh3_128[:XXH3_128_BYTES]
    whole = blocks.xxh3_128[: size_bytes // blocks.block_size_bytes * XXH3_128_BYTES]
    return whole == first * (len(whole) // XXH3_128_BYTES) and first in _blank_digests(blocks.block_size_bytes)


@lru_cache(maxsize=16)
def _blank_digests(size_bytes: int) -> tuple[bytes, ...]:
    return tuple(xxh3_128_digest(byte * size_bytes) for byte in (b"\0", b"\xff"))


def digest_probe(probe: ByteRange, data: memoryview) -> bytes | None:
    """Digest a range of a file that is in memory as one piece; None if the file is too short for it."""
    hasher = ProbeHasher(probe)
    hasher.feed(Segment(0, len(data), data))
    return hasher.digest()


class FileHasher:
    """
    Digest one file, segment by segment, in order.

    Args:
        size_bytes: of the file; decides whether blocks are digested.
        start: offset of the first segment, a multiple of the block size; not 0 when resumed.
        md5_state: exported at ``start``. A resumed file gets no whole-file digests except an MD5 with this state.
    """

    def __init__(
        self,
        want: Want,
        size_bytes: int,
        block_size_bytes: int,
        *,
        start: int = 0,
        md5_state: bytes | None = None,
        probe: ByteRange | None = None,
    ) -> None:
        is_resumed = start > 0
        self._md5 = None
        if want.md5 and not is_resumed:
            self._md5 = Md5()
        elif want.md5 and md5_state is not None:
            self._md5 = Md5.import_state(md5_state)
        self._xxh3 = xxh3_128() if want.xxh3_128 and not is_resumed else None
        self._blake3 = blake3() if want.blake3 and not is_resumed else None
        self._others = [] if is_resumed else [make() for make in want.others]
        self._blocks = (
            BlockCutter(block_size_bytes, md5=want.block_md5, crc64nvme=want.crc64nvme)
            if want.needs_blocks and size_bytes > block_size_bytes
            else None
        )
        self._first_block = start // block_size_bytes
        self._crc64 = 0 if want.crc64nvme and self._blocks is None and not is_resumed else None
        self._probe = None if probe is None or probe[0] < start else ProbeHasher(probe)

    def feed(self, segment: Segment) -> None:
        """Feed all digests in one thread; the file's MD5 is computed beside those of its blocks."""
        if segment.data is None or self._md5 is None or self._blocks is None:
            self.chain(segment)
            self.cut_blocks(segment)
            return
        self._chain_others(segment.data)
        if self._probe is not None:
            self._probe.feed(segment)
        self._blocks.feed(segment.data, beside=(self._md5, segment.data))

    def chain(self, segment: Segment) -> None:
        """Feed the digests of the whole file."""
        for piece in pieces(segment):
            if self._md5 is not None:
                self._md5.update(piece)
            self._chain_others(piece)

    def _chain_others(self, piece: memoryview) -> None:
        if self._xxh3 is not None:
            self._xxh3.update(piece)
        if self._blake3 is not None:
            self._blake3.update(piece)
        if self._crc64 is not None:
            self._crc64 = crc64.crc64(piece, self._crc64)
        for hasher in self._others:
            hasher.update(piece)

    def cut_blocks(self, segment: Segment) -> None:
        """Feed the digests of the blocks, and the probe."""
        if self._probe is not None:
            self._probe.feed(segment)
        if self._blocks is None:
            return
        if segment.data is None:
            self._blocks.feed_zeros(segment.length)
        else:
            self._blocks.feed(segment.data)

    @property
    def blocks_done(self) -> int:
        """Return the number of whole blocks digested since the last ``take_blocks``."""
        return 0 if self._blocks is None else self._blocks.count

    def take_blocks(self) -> tuple[int, Blocks | None]:
        """
        Return the blocks digested since the last call, and forget them.

        Returns:
            The index of the first of them, and the digests; None if the file is not split into blocks.
        """
        first = self._first_block
        if self._blocks is None:
            return first, None
        blocks = self._blocks.take()
        self._first_block += len(blocks)
        return first, blocks

    def md5_state(self) -> bytes | None:
        """Export the state of the whole file's MD5; None if there is none, or without the C core."""
        return None if self._md5 is None or not native_status().is_native else self._md5.export_state()

    def probe(self) -> bytes | None:
        """Return the digest of the probed range; None if there is none or the file ended before it."""
        return None if self._probe is None else self._probe.digest()

    def others(self) -> tuple[bytes, ...]:
        """Return the other digests of everything fed so far; none for a resumed file."""
        return tuple([hasher.digest() for hasher in self._others])

    def digests(self) -> Digests:
        """
        End the last, short block, and return the digests of everything fed.

        Without the CRC if blocks were taken before: the owner of all blocks combines it.
        """
        crc64nvme = None if self._crc64 is None else crc64.pack(self._crc64)
        if self._blocks is not None:
            self._blocks.end()
            if not self._first_block:
                crc64nvme = self._blocks.combine_crc64nvme()
        return Digests(
            md5=None if self._md5 is None else self._md5.digest(),
            xxh3_128=None if self._xxh3 is None else self._xxh3.digest(),
            blake3=None if self._blake3 is None else self._blake3.digest(),
            crc64nvme=crc64nvme,
        )


class ProbeHasher:
    """Compute the XXH3-128 of one range of a file from its segments, in order."""

    def __init__(self, probe: ByteRange) -> None:
        self._position, self._end = probe[0], probe[0] + probe[1]
        self._xxh3 = xxh3_128()

    def feed(self, segment: Segment) -> None:
        """Append the part of a segment that lies in the range."""
        begin = max(self._position, segment.offset)
        end = min(self._end, segment.offset + segment.length)
        if begin >= end:
            return
        for piece in pieces(_slice(segment, begin, end)):
            self._xxh3.update(piece)
        self._position = end

    def digest(self) -> bytes | None:
        """Return the digest; None if the file ended before the range did."""
        return self._xxh3.digest() if self._position == self._end else None


def _slice(segment: Segment, begin: int, end: int) -> Segment:
    data = None if segment.data is None else segment.data[begin - segment.offset : end - segment.offset]
    return Segment(begin, end - begin, data)
