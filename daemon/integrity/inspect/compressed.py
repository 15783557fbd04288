"""
Compressed streams: gzip, bzip2, xz and Zstandard.

Each may be several streams one after the other. What follows the last one must be padding: a stream whose beginning is
damaged would pass for that otherwise, as it does for gzip(1).
"""

from __future__ import annotations

import bz2
import importlib
import lzma
import sys
import zlib
from collections.abc import Callable
from typing import Protocol

from integrity.inspect.checked_file import PIECE_BYTES, CheckedFile
from integrity.inspect.outcome import NoChecksum, NotTestable, OwnCheckFailed

ZSTD_MODULE = "compression.zstd" if sys.version_info >= (3, 14) else "backports.zstd"
_OUTPUT_BYTES = 1 << 20
_XZ_MEMORY = 512 << 20
_GZIP_BYTES = 10
_GZIP_EXTRA, _GZIP_NAME, _GZIP_COMMENT, _GZIP_CRC = 4, 8, 16, 2  # flags, RFC 1952
_ZSTD_MAGIC, _ZSTD_HAS_CHECKSUM = b"\x28\xb5\x2f\xfd", 4
_PLAIN_LZMA_CHECKS = (lzma.CHECK_NONE, lzma.CHECK_UNKNOWN)


class Decompressor(Protocol):
    """What bz2, lzma and zstd share."""

    @property
    def eof(self) -> bool: ...
    @property
    def needs_input(self) -> bool: ...
    @property
    def unused_data(self) -> bytes: ...
    def decompress(self, data: bytes, max_length: int, /) -> bytes: ...


# ruff: noqa: D102 - the methods are those of bz2.BZ2Decompressor
class Inflater:
    """zlib's decompressor in the form of the others."""

    def __init__(self, wbits: int) -> None:
        self._zlib = zlib.decompressobj(wbits)

    @property
    def eof(self) -> bool:
        return self._zlib.eof

    @property
    def needs_input(self) -> bool:
        return not self._zlib.unconsumed_tail

    @property
    def unused_data(self) -> bytes:
        return self._zlib.unused_data

    def decompress(self, data: bytes, max_length: int, /) -> bytes:
        return self._zlib.decompress(data or self._zlib.unconsumed_tail, max_length)


def decompress(
    file: CheckedFile, start: int, end: int, stream: Decompressor, take: Callable[[bytes], object] = len
) -> int:
    """
    Decompress one stream, passing its content to ``take``, and return the offset behind it.

    Raises:
        OwnCheckFailed: it is damaged, or ends early.
    """
    at = start
    try:
        while not stream.eof:
            data = b""
            if stream.needs_input:
                if at >= end:
                    raise OwnCheckFailed("its compressed data ends early")
                data = file.take(at, min(PIECE_BYTES, end - at))
                at += len(data)
            take(stream.decompress(data, _OUTPUT_BYTES))
    except (OSError, EOFError, ValueError, zlib.error, lzma.LZMAError) as error:
        if "Memory" in str(error):
            raise NotTestable(f"it needs too much memory: {error}") from error
        raise OwnCheckFailed(f"its compressed data is damaged: {error}") from error
    return at - len(stream.unused_data)


def _check_streams(
    file: CheckedFile, make: Callable[[int], Decompressor], find_content: Callable[[int], int] = lambda start: start
) -> None:
    at = 0
    while at < file.size_bytes:
        if at and not file.take(at, min(PIECE_BYTES, file.size_bytes - at)).strip(b"\0"):
            at = min(at + PIECE_BYTES, file.size_bytes)  # padding, as on tapes
            continue
        start, at = at, decompress(file, at, file.size_bytes, make(at))
        file.cover(find_content(start), at)


def check_gzip(file: CheckedFile) -> None:
    """By the CRC-32 of the content; names and times in the header have none."""
    _check_streams(file, lambda _: Inflater(31), lambda start: _skip_gzip_header(file, start))


def _skip_gzip_header(file: CheckedFile, start: int) -> int:
    """Return where the compressed data begins, in a stream that is right."""
    flags, at = file.take(start + 3, 1)[0], start + _GZIP_BYTES
    if flags & _GZIP_EXTRA:
        at += 2 + int.from_bytes(file.take(at, 2), "little")
    for flag in (_GZIP_NAME, _GZIP_COMMENT):
        while flags & flag:
            piece = file.take(at, min(256, file.size_bytes - at))
            at += len(piece) if b"\0" not in piece else piece.index(b"\0") + 1
            flags &= ~flag if b"\0" in piece else ~0
    return at + (2 if flags & _GZIP_CRC else 0)


def check_bzip2(file: CheckedFile) -> None:
    """By the CRC-32 of each block and of the whole."""
    _check_streams(file, lambda _: bz2.BZ2Decompressor())


def check_xz(file: CheckedFile) -> None:
    """By the checks of each block, which may be left out."""
    made: list[lzma.LZMADecompressor] = []

    def make(_: int) -> Decompressor:
        made[:] = [lzma.LZMADecompressor(lzma.FORMAT_XZ, memlimit=_XZ_MEMORY)]
        return made[0]

    _check_streams(file, make)
    if made[0].check in _PLAIN_LZMA_CHECKS:
        raise NoChecksum


def check_zstd(file: CheckedFile) -> None:
    """By the checksum of each frame, which may be left out."""
    zstd = importlib.import_module(ZSTD_MODULE)
    has_all = True

    def make(at: int) -> Decompressor:
        nonlocal has_all
        head = file.take(at, min(5, file.size_bytes - at))
        has_all &= head[:4] == _ZSTD_MAGIC and bool(head[4:] and head[4] & _ZSTD_HAS_CHECKSUM)
        return zstd.ZstdDecompressor()  # type: ignore[no-any-return]

    try:
        _check_streams(file, make)
    except zstd.ZstdError as error:
        if "memory" in str(error):
            raise NotTestable(f"it needs too much memory: {error}") from error
        raise OwnCheckFailed(f"its compressed data is damaged: {error}") from error
    if not has_all:
        raise NoChecksum
