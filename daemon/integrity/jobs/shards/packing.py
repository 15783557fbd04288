"""Pack the files that a worker and the hub's store exchange: zstd, known by the BLAKE3 digest of what is sent."""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import IO

import zstandard
from blake3 import blake3

from integrity.errors import AppError, show_path

_CHUNK_BYTES = 1 << 20
_LEVEL = 3
_MOST_TIMES = 100
_ALWAYS_BYTES = 1 << 30
_MOST_BYTES = 16 << 30
"""What unpacks to more than the first, and to more than a hundred times its size or the second, fills the disk."""

MOST_PACKED_BYTES = 2 << 30
"""Of a packed catalog: ten times what one of 100,000 files and 500 GB takes."""


class PackedDamaged(AppError):
    """Say that a packed file is not what its digest says."""


def pack_file(path: bytes) -> bytes:
    """Compress a file; return the path of the packed one, beside it."""
    packed = path + b".zst"
    with open(path, "rb") as source, open(packed, "wb") as target:
        zstandard.ZstdCompressor(level=_LEVEL).copy_stream(source, target)
    return packed


def pack_lines(lines: Iterable[bytes], path: bytes) -> bytes:
    """Write lines into a packed file and return its path."""
    with open(path, "wb") as target, zstandard.ZstdCompressor(level=_LEVEL).stream_writer(target) as writer:
        for line in lines:
            writer.write(line)
    return path


def digest_file(file: IO[bytes]) -> str:
    """Return the digest of a packed file, from its beginning."""
    file.seek(0)
    digest = blake3()
    while chunk := file.read(_CHUNK_BYTES):
        digest.update(chunk)
    return digest.hexdigest()


def unpack_file(file: IO[bytes], path: bytes, digest: str, *, most_bytes: int = _MOST_BYTES) -> None:
    """
    Unpack a file.

    Raises:
        PackedDamaged: it is not what its digest says.
    """
    if digest_file(file) != digest:
        raise PackedDamaged(f"{show_path(path)}: what arrived from the hub is not what was stored; it is fetched again")
    file.seek(0)
    left = min(most_bytes, max(_ALWAYS_BYTES, os.fstat(file.fileno()).st_size * _MOST_TIMES))
    try:
        with open(path, "wb") as target, zstandard.ZstdDecompressor().stream_reader(file, closefd=False) as reader:
            while chunk := reader.read(_CHUNK_BYTES):
                left -= len(chunk)
                if left < 0:
                    raise PackedDamaged(f"{show_path(path)}: unpacks to more than a catalog can be")
                target.write(chunk)
    except zstandard.ZstdError as error:
        raise PackedDamaged(f"{show_path(path)}: can't be unpacked: {error}") from error
