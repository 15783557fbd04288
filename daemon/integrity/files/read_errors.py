"""
Close in on what of a failing read is really bad.

A read of megabytes fails as a whole when one sector of it is bad. It is cut into ever smaller parts until the bad ones
are as small as the device can tell. Each failing read makes a sick disk try for seconds, a good one costs next to
nothing: so the parts shrink to a sixteenth at a time, which finds a bad sector in 8 MiB with four failing reads, where
halving would need twelve.

Count what reading a sick disk has cost, so that it is left alone in time.

Every failing read makes a dying disk try again for seconds and brings its end nearer. After so many, or so much time,
the device is left for a person to look at (R4). What a file system refused because its checksum did not match costs
nothing: the disk has answered, and at once.
"""

from __future__ import annotations

import errno
import itertools
import os
import threading
from collections.abc import Sequence
from typing import TYPE_CHECKING

from integrity.errors import Unreadable, show_path
from integrity.model import ByteRange, Witness

if TYPE_CHECKING:
    from integrity.files.block_devices import ErrorCounters


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


class ErrorBudget:
    """
    What one device may cost in failing reads. One per device; any thread may use it.

    Args:
        max_errors: failing reads.
        max_error_s: seconds spent in them.
        counters: of the file system, which tell refused data from reads that failed; None: it has none.
    """

    def __init__(
        self, max_errors: int = 100, max_error_s: float = 600.0, *, counters: ErrorCounters | None = None
    ) -> None:
        self._counters = counters
        self._max_errors = max_errors
        self._max_error_s = max_error_s
        self._errors = 0
        self._error_s = 0.0
        self._lock = threading.Lock()

    @property
    def errors(self) -> int:
        """Failing reads so far."""
        return self._errors

    @property
    def error_s(self) -> float:
        """Seconds spent in failing reads so far."""
        return self._error_s

    @property
    def is_spent(self) -> bool:
        """Say whether the device is to be left alone."""
        return self._errors >= self._max_errors or self._error_s >= self._max_error_s

    def is_refusal(self) -> bool:
        """Say whether the read that just failed was refused by the file system; False if that can't be told."""
        return self._counters is not None and self._counters.show_refusals_only()

    def charge(self, duration_s: float) -> None:
        """Note one failing read and how long it took."""
        with self._lock:
            self._errors += 1
            self._error_s += duration_s
