"""Manifest entries, and splitting of a stream into lines in bounded memory."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import NamedTuple, Protocol

from integrity.hashing.stored_digests import Algorithm

LONGEST_LINE = 1 << 20
"""Names are at most 4 KiB, escaped 8 KiB; a longer line is no line of a manifest."""

HEAD_BYTES = 1 << 16
"""Enough to recognize a form."""

_CHUNK_BYTES = 1 << 16


class Stream(Protocol):
    """The source of a manifest: any binary file."""

    def read(self, size: int, /) -> bytes:
        """Read up to ``size`` bytes; empty at the end."""


def read_head(stream: Stream) -> bytes:
    """Read the beginning of a stream, to recognize its form; at most ``HEAD_BYTES``, less only at the end."""
    chunks: list[bytes] = []
    missing = HEAD_BYTES
    while missing > 0:
        chunk = stream.read(missing)
        if not chunk:
            break
        chunks.append(chunk)
        missing -= len(chunk)
    return b"".join(chunks)


def split_lines(head: bytes, stream: Stream, end: bytes) -> Iterator[bytes | None]:
    """
    Yield lines without their terminator; None for a line that is too long.

    Args:
        head: bytes read already.
        stream: the rest.
        end: line terminator, one byte.
    """
    rest, is_too_long = b"", False
    chunk = head
    while chunk:
        *lines, last = (rest + chunk).split(end) if rest else chunk.split(end)
        if lines and is_too_long:
            yield None
            del lines[0]
            is_too_long = False
        yield from (line if len(line) <= LONGEST_LINE else None for line in lines)
        is_too_long = is_too_long or len(last) > LONGEST_LINE
        rest = b"" if is_too_long else last
        chunk = stream.read(_CHUNK_BYTES)
    if is_too_long:
        yield None
    elif rest:
        yield rest


Digests = Mapping[Algorithm, bytes]
"""Raw digests of one file; at least one."""


class ManifestEntry(NamedTuple):
    """
    One file of a manifest.

    Attributes:
        path: never empty, without NUL; unescaped.
        size_bytes: None if the form has no sizes.
        digests: raw; under one of ``UNNAMED`` where the list does not name the algorithm.
        line: line number, from 1.
    """

    path: bytes
    size_bytes: int | None
    digests: Digests
    line: int


@dataclass(frozen=True, slots=True)
class BadLine:
    """A malformed line; comments and empty lines are not malformed. ``algorithm``: that it seems to be of."""

    line: int
    algorithm: Algorithm | None = field(default=None, compare=False)


class Ignored(Enum):
    """A line that need not be an entry: a comment, an empty line, an object of another type."""

    IGNORED = "ignored"


IGNORED = Ignored.IGNORED


class Piece(NamedTuple):
    """A part of a file, starting at ``offset``."""

    offset: int
    length: int


_is_hex = re.compile(rb"[0-9A-Fa-f]+").fullmatch


def parse_hex(digits: bytes, algorithm: Algorithm) -> bytes | None:
    """Decode hexadecimal digits of either case; None if they are not a digest of this algorithm."""
    if len(digits) != 2 * algorithm.digest_bytes or _is_hex(digits) is None:
        return None
    return bytes.fromhex(digits.decode("ascii"))


def is_name(path: bytes) -> bool:
    """Return whether a file can have this name."""
    return bool(path) and b"\0" not in path


def piece_suffix(piece: Piece | None) -> bytes:
    """Return the suffix that marks a part of a file, as md5deep and hashdeep write it; empty for the whole file."""
    if piece is None:
        return b""
    return b" offset %d-%d" % (piece.offset, piece.offset + max(piece.length - 1, 0))
