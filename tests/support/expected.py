"""What digests must come out as: those of the libraries, over bytes in one piece."""

from __future__ import annotations

import hashlib
from pathlib import Path

import xxhash
from awscrt import checksums

from integrity.model import Blocks

_PIECE_BYTES = 16 << 20


def expect_md5(content: bytes | bytearray) -> bytes:
    """Digest ``content`` as hashlib does."""
    return hashlib.md5(content).digest()


def expect_crc64nvme(content: bytes) -> bytes:
    """Digest ``content`` as S3 does."""
    value: int = checksums.crc64nvme(content)
    return value.to_bytes(8, "big")


def expect_crc64nvme_of(path: Path) -> bytes:
    """Digest a file, however large, as S3 does."""
    value = 0
    with path.open("rb") as file:
        while piece := file.read(_PIECE_BYTES):
            value = checksums.crc64nvme(piece, value)
    return value.to_bytes(8, "big")


def expect_blocks(content: bytes, size: int) -> Blocks:
    """Digest ``content`` in blocks of ``size`` bytes."""
    blocks = [content[at : at + size] for at in range(0, len(content), size)]
    return Blocks(
        size,
        xxh3_128=b"".join(xxhash.xxh3_128_digest(block) for block in blocks),
        md5=b"".join(hashlib.md5(block).digest() for block in blocks),
        crc64nvme=b"".join(expect_crc64nvme(block) for block in blocks),
    )
