"""
Bring what stat says into the 64 signed bits in which it is stored and compared.

Inode numbers use all 64 bits where they are hashes (mergerfs, some network servers): the upper half becomes negative,
as the same bits. Nanoseconds of 64 bits end in the year 2262, file systems later (ext4 in 2446): what lies beyond is
all one time, so that such a date costs a file its mtime, not the run.

Decide which witnesses prove nothing, because what they announce may not have ended when the file was read (R1).

Two things can change a file after its last stamp.

A write in the same tick: a file system stamps with a clock that ticks coarsely, so a write in the tick of the reading
leaves mtime and ctime as they were. Only stamps around the moment of the reading are in doubt. Those further ahead (a
camera's wrong date, a clock that was set back) can't be met by the next write, so they are as good as old ones.

A write under way: the kernel stamps when a write(2) begins and copies afterwards, for as long as its source, a memory
limit and the disk make it wait. So a recent stamp is in doubt unless nobody had the file open for writing once it was
there: what is written after that has a stamp of its own. A stamp that is older than any write takes is not in doubt:
else the image of a virtual machine, which is open for writing all day, could never be proven to rot.
"""

from __future__ import annotations

import os
from collections.abc import Callable

from integrity.model import Witness

MOST = 2**63 - 1


def fold_inode(inode: int) -> int:
    """Read the 64 bits of an inode number as a signed integer."""
    return inode - 2**64 if inode > MOST else inode


def witness_of(stat: os.stat_result) -> Witness:
    """Take the witness from a stat."""
    return Witness(stat.st_size, _clamp(stat.st_mtime_ns), _clamp(stat.st_ctime_ns), fold_inode(stat.st_ino))


def _clamp(time_ns: int) -> int:
    return max(-MOST, min(time_ns, MOST))


_LEAST_GRANULE_NS = 20_000_000  # two ticks of the slowest kernel clock (HZ=100), whatever the file system stores
_SKEW_NS = 3600 * 10**9  # a server stamps with its own clock, which may be ahead of ours

_LONGEST_WRITE_NS = 900 * 10**9
"""Linux writes less than 2 GiB in one call (write(2), NOTES); a slow USB stick at 3 MB/s needs 12 minutes."""

_NEVER_NS = 2**63 - 1


class RacyWindow:
    """The stamps that are in doubt after one reading, or several: from a granule before it began to one after now."""

    __slots__ = ("_ahead_ns", "_clock_ns", "_since_ns", "recent_since_ns")

    def __init__(self, clock_ns: Callable[[], int], granule_ns: int, *, is_remote: bool) -> None:
        """
        Begin; to be done before pages are written back and before the first stat.

        A page that is stored to after it was written back is stamped after this moment, so its stamp is in doubt.

        Args:
            clock_ns: the wall clock, in which the file system stamps.
            granule_ns: of the file system's stamps.
            is_remote: the stamps are of another machine's clock.
        """
        granule_ns = max(granule_ns, _LEAST_GRANULE_NS)
        self._clock_ns = clock_ns
        self._ahead_ns = granule_ns + (_SKEW_NS if is_remote else 0)
        now_ns = clock_ns()
        self._since_ns = now_ns - granule_ns
        # A server stamps each request, of a MiB or so; whether another machine has the file open can't be asked.
        self.recent_since_ns = _NEVER_NS if is_remote else now_ns - _LONGEST_WRITE_NS

    def end(self) -> tuple[int, int]:
        """Give the first and the last stamp in doubt; to be done after the last reading."""
        return self._since_ns, self._clock_ns() + self._ahead_ns

    def covers(self, mtime_ns: int, ctime_ns: int, *, has_writer: bool = False) -> bool:
        """
        Say whether a file that was just read may be written to without a trace in its stamps.

        Args:
            mtime_ns: by the stat before the reading.
            ctime_ns: of the same.
            has_writer: after that stat a program had the file open for writing, or may have had.
        """
        since_ns, until_ns = self.end()
        if has_writer:
            since_ns = self.recent_since_ns
        return since_ns <= mtime_ns <= until_ns or since_ns <= ctime_ns <= until_ns
