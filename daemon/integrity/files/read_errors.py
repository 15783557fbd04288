"""
Close in on what of a failing read is really bad.

A read of megabytes fails as a whole when one sector of it is bad. It is cut into ever smaller parts until the bad ones
are as small as the device can tell. Each failing read makes a sick disk try for seconds, a good one costs next to
nothing: so the parts shrink to a sixteenth at a time, which finds a bad sector in 8 MiB with four failing reads, where
halving would need twelve.
"""

from __future__ import annotations

import errno
import itertools
import os
from collections.abc import Sequence

from integrity.errors import Unreadable, show_path
from integrity.model import ByteRange, Witness

REFUSED = frozenset({errno.EBADMSG, errno.EUCLEAN})
"""The file system's own records of a place are damaged (ext4, xfs: EFSBADCRC, EFSCORRUPTED); the disk has answered."""

BAD_MEDIUM = REFUSED | {errno.EIO, errno.ENODATA, errno.EREMOTEIO, errno.EILSEQ}
"""Errors of a place on the disk: what stands beside it may still be readable."""

_PARTS_BYTES = (1 << 19, 1 << 15, 1 << 12, 1 << 9)

_DISK_REMEDY = "look at the disk's health and its cable, and get the file from a copy"
_CHECK_REMEDY = "unmount the file system and check it (fsck), and get the file from a copy"
_CHECKSUM_REMEDY = (
    "the file system's checksum does not match, so the data was damaged on the disk or on the way to it; get the file"
    " from a copy"
)
_REMEDIES = {
    errno.EACCES: "run as a user that may read it",
    errno.EPERM: "run as a user that may read it",
    errno.ESTALE: "mount the share again",
    errno.EMFILE: "raise the limit of open files",
    errno.ENFILE: "raise the limit of open files",
    **dict.fromkeys(BAD_MEDIUM, _DISK_REMEDY),
    **dict.fromkeys(REFUSED, _CHECK_REMEDY),
}


def add_range(ranges: list[ByteRange], offset: int, length: int) -> None:
    """Append a range that lies behind all others, joined to the last one if they touch."""
    if ranges and sum(ranges[-1]) == offset:
        ranges[-1] = (ranges[-1][0], ranges[-1][1] + length)
    else:
        ranges.append((offset, length))


def cut(start: int, end: int, unit: int) -> list[ByteRange]:
    """
    Cut what failed to read into smaller parts at round positions.

    Args:
        start: first byte of what failed.
        end: the byte behind it.
        unit: the least that can be read alone.

    Returns:
        (start, end) of each part, the last one first; nothing if it can't be cut any further.
    """
    step = next((step for step in (*_PARTS_BYTES, unit) if unit <= step < end - start), 0)
    if not step:
        return []
    borders = [start, *range((start // step + 1) * step, end, step), end]
    return list(itertools.pairwise(borders))[::-1]


def describe_bad(path: bytes, ranges: Sequence[ByteRange], *, is_refused: bool, witness: Witness) -> Unreadable:
    """
    Say that some ranges of a file can't be read.

    Args:
        path: of the file, relative to its root.
        ranges: at least one.
        is_refused: the disk delivered them, and the file system's checksums did not match.
        witness: of the file.
    """
    total = sum(length for _, length in ranges)
    error = OSError(errno.EIO, os.strerror(errno.EIO))
    doing = f"read {total} bytes in {len(ranges)} place(s), the first at {ranges[0][0]}, of"
    remedy = _CHECKSUM_REMEDY if is_refused else None
    return describe_failure(path, doing, error, tuple(ranges), witness=witness, remedy=remedy)


def describe_failure(
    path: bytes,
    doing: str,
    error: OSError,
    ranges: tuple[ByteRange, ...] = (),
    *,
    witness: Witness | None = None,
    remedy: str | None = None,
) -> Unreadable:
    """
    Put what the system said into the words of the domain.

    Args:
        path: of the file, relative to its root.
        doing: what was tried, as in "cannot ...".
        error: what the system said.
        ranges: what is known to be unreadable.
        witness: of the file; None if it could not be looked at.
        remedy: what to do, in the place of what the error's number tells.
    """
    code = error.errno or errno.EIO
    remedy = _REMEDIES.get(code, "") if remedy is None else remedy
    message = f"cannot {doing} {show_path(path)}: {os.strerror(code)}{remedy and '; '}{remedy}"
    return Unreadable(message, errno=code, ranges=ranges, witness=witness)
