"""
Tell witnesses that prove nothing, because they were taken too close to a write (R1).

A file system stamps with a clock that ticks coarsely: a write in the same tick as the reading leaves mtime and ctime as
they were. Only stamps around the moment of the reading are in doubt. Those that lie further ahead (a camera's wrong
date, a clock that was set back) can't be met by the next write, so they are as good as old ones.
"""

from __future__ import annotations

from collections.abc import Callable

_LEAST_GRANULE_NS = 20_000_000  # two ticks of the slowest kernel clock (HZ=100), whatever the file system stores
_SKEW_NS = 3600 * 10**9  # a server stamps with its own clock, which may be ahead of ours


class RacyWindow:
    """The stamps that are in doubt after one reading, or several: from a granule before it began to one after now."""

    __slots__ = ("_ahead_ns", "_clock_ns", "_since_ns")

    def __init__(self, clock_ns: Callable[[], int], granule_ns: int, *, is_remote: bool) -> None:
        """
        Begin; to be done before the first stat.

        Args:
            clock_ns: the wall clock, in which the file system stamps.
            granule_ns: of the file system's stamps.
            is_remote: the stamps are of another machine's clock.
        """
        granule_ns = max(granule_ns, _LEAST_GRANULE_NS)
        self._clock_ns = clock_ns
        self._ahead_ns = granule_ns + (_SKEW_NS if is_remote else 0)
        self._since_ns = clock_ns() - granule_ns

    def end(self) -> tuple[int, int]:
        """Give the first and the last stamp in doubt; to be done after the last reading."""
        return self._since_ns, self._clock_ns() + self._ahead_ns

    def covers(self, mtime_ns: int, ctime_ns: int) -> bool:
        """Say whether a file that was just read may be written to without a trace in its stamps."""
        since_ns, until_ns = self.end()
        return since_ns <= mtime_ns <= until_ns or since_ns <= ctime_ns <= until_ns
