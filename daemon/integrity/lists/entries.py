"""What stands in lists of digests."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum, StrEnum
from typing import NamedTuple

from integrity.hashing.stored_digests import Algorithm

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


class Form(StrEnum):
    """The form of a list, in the words of the command line."""

    LINES = "md5sum"  # GNU and BSD
    ZEROS = "zeros"  # the same, with NUL at the end of each line
    HASHDEEP = "hashdeep"
    BAGIT = "bagit"
    SFV = "sfv"
    OBJECTS = "json"
