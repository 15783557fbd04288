"""
Cut a stream into lines, in memory that does not grow with them.

What a line of a manifest says.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple, Protocol

from integrity.hashing.algorithms import Algorithm

LONGEST_LINE = 1 << 20
"""Names are at most 4 KiB long, escaped twice that; what is longer than this is no line of a manifest."""

HEAD_BYTES = 1 << 16
"""Enough to recognise a form by."""

_CHUNK_BYTES = 1 << 16


class Stream(Protocol):
    """Where a manifest comes from: any binary file."""

    def read(self, size: int, /) -> bytes:
        """Read up to ``size`` bytes; none at the end."""


def read_head(stream: Stream) -> bytes:
    """Read the beginning of a stream, by which its form is recognised; short only if the stream is."""
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
    Yield lines without their end; None for one that is too long.

    Args:
        head: what was read already.
        stream: the rest.
        end: of lines, one byte.
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


@dataclass(frozen=True, slots=True)
class ManifestEntry:
    """
    One file of a manifest.

    Attributes:
        path: never empty, without NUL; escapes are undone.
        size_bytes: None where the form has no sizes.
        digests: raw.
        line: its number, from 1.
    """

    path: bytes
    size_bytes: int | None
    digests: Digests
    line: int


class BadLine(NamedTuple):
    """A line that is no entry, though it should be; comments and empty lines are neither."""

    line: int


class Ignored(Enum):
    """A line that is no entry and need not be: a comment, an empty one, an object of another type."""

    IGNORED = "ignored"


IGNORED = Ignored.IGNORED


class Piece(NamedTuple):
    """A part of a file, from ``offset`` on."""

    offset: int
    length: int


_is_hex = re.compile(rb"[0-9A-Fa-f]+").fullmatch


def parse_hex(digits: bytes, algorithm: Algorithm) -> bytes | None:
    """Decode hexadecimal digits of either case; None if they are no digest of this algorithm."""
    if len(digits) != 2 * algorithm.digest_bytes or _is_hex(digits) is None:
        return None
    return bytes.fromhex(digits.decode("ascii"))


def is_name(path: bytes) -> bool:
    """Tell whether a system could have a file of this name."""
    return bool(path) and b"\0" not in path


def piece_suffix(piece: Piece | None) -> bytes:
    """Write which part of a file is meant, behind its name, as md5deep and hashdeep do; nothing for the whole."""
    if piece is None:
        return b""
    return b" offset %d-%d" % (piece.offset, piece.offset + max(piece.length - 1, 0))
