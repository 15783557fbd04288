"""
Convert stat values to 64-bit signed integers, and decide which witnesses are racy (R1).

Inode numbers that are hashes use all 64 bits (mergerfs, some network servers): the upper half becomes negative. 64-bit
nanoseconds end in the year 2262, file systems later (ext4 in 2446): later dates are clamped to one value, so such a
date makes one mtime useless but does not fail the run.

A file can change after its last timestamp in two ways:

- A write in the same tick: file systems use a coarse clock, so a write in the tick of the reading leaves mtime and
  ctime unchanged. Only timestamps near the reading are racy. Those further ahead (a camera's wrong date, a clock that
  was set back) differ from that of the next write, so they are as good as old ones.
- A write in flight: the kernel stamps when a write(2) begins and then copies, as slowly as its source, a memory limit
  and the disk allow. So a recent timestamp is racy unless nobody had the file open for writing after it was seen. A
  timestamp older than any write takes is not racy: otherwise a virtual machine's image, open for writing all day, could
  never be proven to rot.
"""

from __future__ import annotations

import os
from collections.abc import Callable

from integrity.model import Witness

MOST = 2**63 - 1


def fold_inode(inode: int) -> int:
    """Convert an unsigned 64-bit inode number to a signed one with the same bits."""
    return inode - 2**64 if inode > MOST else inode


def witness_of(stat: os.stat_result) -> Witness:
    """Return the witness of a stat."""
    return Witness(stat.st_size, _clamp(stat.st_mtime_ns), _clamp(stat.st_ctime_ns), fold_inode(stat.st_ino))


def _clamp(time_ns: int) -> int:
    return max(-MOST, min(time_ns, MOST))


_LEAST_GRANULE_NS = 20_000_000  # two ticks of the slowest kernel clock (HZ=100), whatever the file system stores
_SKEW_NS = 3600 * 10**9  # a server's clock may be ahead of ours

_LONGEST_WRITE_NS = 900 * 10**9
"""Linux writes less than 2 GiB in one call (write(2), NOTES); a slow USB stick at 3 MB/s needs 12 minutes."""

_NEVER_NS = 2**63 - 1


class RacyWindow:
    """The racy timestamps of one or more readings: from a granule before the start to a granule after now."""

    __slots__ = ("_ahead_ns", "_clock_ns", "_since_ns", "recent_since_ns")

    def __init__(self, clock_ns: Callable[[], int], granule_ns: int, *, is_remote: bool) -> None:
        """
        Start the window; call this before pages are written back and before the first stat.

        A store to a page after its write-back is stamped after this moment, so its timestamp is racy.

        Args:
            clock_ns: the wall clock, comparable with the file system's timestamps.
            granule_ns: granularity of the file system's timestamps.
            is_remote: the timestamps come from another machine's clock.
        """
        granule_ns = max(granule_ns, _LEAST_GRANULE_NS)
        self._clock_ns = clock_ns
        self._ahead_ns = granule_ns + (_SKEW_NS if is_remote else 0)
        now_ns = clock_ns()
        self._since_ns = now_ns - granule_ns
        # A server stamps each request of about a MiB; whether another machine has the file open is unknown.
        self.recent_since_ns = _NEVER_NS if is_remote else now_ns - _LONGEST_WRITE_NS

    def end(self) -> tuple[int, int]:
        """Return the first and the last racy timestamp; call this after the last reading."""
        return self._since_ns, self._clock_ns() + self._ahead_ns

    def covers(self, mtime_ns: int, ctime_ns: int, *, has_writer: bool = False) -> bool:
        """
        Return whether a file that was just read may have been written to without a change of its timestamps.

        Args:
            mtime_ns: from the stat before the reading.
            ctime_ns: from the same stat.
            has_writer: a program had, or may have had, the file open for writing after that stat.
        """
        since_ns, until_ns = self.end()
        if has_writer:
            since_ns = self.recent_since_ns
        return since_ns <= mtime_ns <= until_ns or since_ns <= ctime_ns <= until_ns
