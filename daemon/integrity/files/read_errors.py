"""
Narrow a failed read down to the bad sectors, and limit what a failing disk may cost.

One bad sector fails a read of megabytes. The read is split into ever smaller parts until the device cannot resolve
smaller ones. A failing read keeps a sick disk busy for seconds, a good one costs almost nothing: so parts shrink by up
to 16 at a time, which finds a bad 4 KiB in 8 MiB with four failing reads; bisection needs twelve.

After a number of failing reads, or some time spent in them, the device is left for a person to check (R4). Data that
the file system rejected because of its checksum does not count: the disk answered, and at once.
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
"""Damaged file system metadata (ext4, xfs: EFSBADCRC, EFSCORRUPTED); the disk itself answered."""

BAD_MEDIUM = REFUSED | {errno.EIO, errno.ENODATA, errno.EREMOTEIO, errno.EILSEQ}
"""Errors of one place on the disk: adjacent data may still be readable."""

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
    """Append a range that lies after all others; merge it with the last one if they touch."""
    if ranges and sum(ranges[-1]) == offset:
        ranges[-1] = (ranges[-1][0], ranges[-1][1] + length)
    else:
        ranges.append((offset, length))


def cut(start: int, end: int, unit: int) -> list[ByteRange]:
    """
    Split a range that failed to read into smaller parts at aligned positions.

    Args:
        start: first byte of the range.
        end: the byte after it.
        unit: the smallest readable size.

    Returns:
        (start, end) of each part, the last one first; empty if it cannot be split further.
    """
    step = next((step for step in (*_PARTS_BYTES, unit) if unit <= step < end - start), 0)
    if not step:
        return []
    borders = [start, *range((start // step + 1) * step, end, step), end]
    return list(itertools.pairwise(borders))[::-1]


def describe_bad(path: bytes, ranges: Sequence[ByteRange], *, is_refused: bool, witness: Witness) -> Unreadable:
    """
    Return the error for ranges of a file that cannot be read.

    Args:
        path: relative to the root.
        ranges: at least one.
        is_refused: the disk delivered them, and the file system's checksums did not match.
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
    Translate a system error into ``Unreadable``.

    Args:
        path: relative to the root.
        doing: the failed operation, as in "cannot ...".
        ranges: known unreadable ranges.
        witness: of the file; None if its stat failed.
        remedy: overrides the remedy for the error's number.
    """
    code = error.errno or errno.EIO
    remedy = _REMEDIES.get(code, "") if remedy is None else remedy
    message = f"cannot {doing} {show_path(path)}: {os.strerror(code)}{remedy and '; '}{remedy}"
    return Unreadable(message, errno=code, ranges=ranges, witness=witness)


class ErrorBudget:
    """
    Limit what failing reads of one device may cost. One per device; any thread may use it.

    Args:
        max_errors: failing reads.
        max_error_s: seconds spent in them.
        counters: of the file system, to distinguish rejected data from failed reads; None if it has none.
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
        return self._errors

    @property
    def error_s(self) -> float:
        return self._error_s

    @property
    def is_spent(self) -> bool:
        """Return whether the device must be left alone."""
        return self._errors >= self._max_errors or self._error_s >= self._max_error_s

    def is_refusal(self) -> bool:
        """Return whether the file system rejected the read that just failed; False if unknown."""
        return self._counters is not None and self._counters.show_refusals_only()

    def charge(self, duration_s: float) -> None:
        """Record one failing read and its duration."""
        with self._lock:
            self._errors += 1
            self._error_s += duration_s
