"""What a line of a manifest says."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple

from integrity.hashing.algorithms import Algorithm

Digests = Mapping[Algorithm, bytes]
"""Raw digests of one file; at least one."""


@dataclass(frozen=True, slots=True)
class Entry:
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
