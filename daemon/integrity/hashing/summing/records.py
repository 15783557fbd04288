"""What is asked of ``sum``, and what it answers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from integrity.hashing.algorithms import Algorithm

STDIN = b"-"

PieceSum = tuple[int, int, tuple[bytes, ...]]
"""Offset, length, and raw digests in the order of the algorithms that were asked for."""


class FileSum(NamedTuple):
    """
    The digests of one file.

    Attributes:
        path: as it was given.
        size_bytes: what was read; 0 with an error.
        pieces: the whole file as one piece, or all its pieces; an empty file is one, too. Empty with an error.
        error: why it could not be opened or read to its end.
    """

    path: bytes
    size_bytes: int
    pieces: Sequence[PieceSum]
    error: OSError | None


class Request(NamedTuple):
    """A file, and the algorithms to digest it with."""

    path: bytes
    algorithms: tuple[Algorithm, ...]


class Hint(NamedTuple):
    """A large file that will be asked for later on, and can be begun at once."""

    path: bytes
