"""What the check that a format carries says of one file."""

from __future__ import annotations

from enum import StrEnum
from typing import NamedTuple


class CheckResult(StrEnum):
    """What a file's own check says."""

    PASSES = "passes"  # all of its content has the checksum that the file states
    WHOLE = "whole"  # the format has no checksums; its structure is complete
    FAILS = "fails"
    UNTESTABLE = "untestable"  # encrypted, of a method or size that is not supported, or in use
    NO_LIBRARY = "no_library"  # the extra `formats` tests it, and is not installed
    UNKNOWN = "unknown"  # no format that is tested, or empty


class OwnCheck(NamedTuple):
    """
    The result for one file.

    Args:
        format: name for people; empty: unknown.
        has_checksum: a checksum decided, and not the structure alone.
        reason: why the file fails or can't be tested, as a clause.
        uncovered: ranges (offset, end) that no checksum covers, in order; None: nothing is covered, or not known.
    """

    result: CheckResult
    format: str = ""
    has_checksum: bool = False
    reason: str = ""
    uncovered: tuple[tuple[int, int], ...] | None = None


class OwnCheckFailed(Exception):
    """A file fails its own check; the text is a clause for people."""


class NotTestable(Exception):
    """A file can't be tested; the text is a clause for people."""


class NoChecksum(Exception):
    """A file is whole, and does not carry the checksum that its format offers."""
