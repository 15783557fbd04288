"""
Learn how a copy keeps times, from its files with equal content, before any differing one is judged.

A copy whose equal files mostly have other times keeps none: ``cp -r``, scp, WebDAV, uploads by most programs. If they
all moved by one span of whole quarter hours, as on FAT after a change of zone, that is taken off. Only then is a time
older, the same, or newer.
"""

from __future__ import annotations

from collections import Counter

from integrity.arbitration import CopyTime
from integrity.same_time import is_same_time

KNOWN_AFTER = 20
"""Equal files after which the habit is taken for known."""

_FEWEST = 3
_ENOUGH = 10_000  # more of them would change nothing
_QUARTER_NS = 900 * 10**9
_FARTHEST_NS = 26 * 3600 * 10**9  # from UTC-12 to UTC+14
_COARSE_NS = 2 * 10**9  # FAT keeps such times
_FIRST_NS = 315_619_200 * 10**9  # 1980-01-02: where FAT's times begin, and before which clocks without a battery stand


class CopyHabit:
    """
    How one copy keeps times.

    Args:
        keeps_times: the times of the copy are those of the files, as far as its kind can say.
    """

    def __init__(self, *, keeps_times: bool) -> None:
        self._keeps_times = keeps_times
        self._equal = self._kept = 0
        self._shifts: Counter[int] = Counter()
        self._moves: Counter[int] = Counter()

    @property
    def is_known(self) -> bool:
        """Return whether enough files were seen to judge by."""
        return not self._keeps_times or self._equal >= KNOWN_AFTER

    def add(self, recorded_ns: int, copy_ns: int | None) -> None:
        """Learn from the times of a file and of its copy, whose contents are equal."""
        if copy_ns is None or self._equal >= _ENOUGH:
            return
        self._equal += 1
        if recorded_ns == copy_ns or is_same_time(recorded_ns, copy_ns):
            self._kept += 1
            return
        moved_ns = copy_ns - recorded_ns
        if abs(moved_ns) > _FARTHEST_NS + _COARSE_NS:
            return
        shift_ns = round(moved_ns / _QUARTER_NS) * _QUARTER_NS
        if shift_ns and is_same_time(recorded_ns, copy_ns - shift_ns):
            self._shifts[shift_ns] += 1

    @property
    def has_times(self) -> bool:
        """Return whether the times of the copy say when its files were written."""
        if not self._keeps_times:
            return False
        return self._equal == 0 or self._kept * 2 >= self._equal or self._find_shift() != 0

    def find_time(self, file_ns: int, copy_ns: int | None) -> CopyTime:
        """Return where the time of a copy stands against that of the file's content."""
        if copy_ns is None or not self.has_times or min(copy_ns, file_ns) < _FIRST_NS:
            return CopyTime.NONE
        copy_ns = self.take_off_shift(copy_ns)
        if is_same_time(file_ns, copy_ns):
            return CopyTime.SAME
        return CopyTime.OLDER if copy_ns < file_ns else CopyTime.NEWER

    def take_off_shift(self, copy_ns: int) -> int:
        """Return the time that a copy would have if the clock or zone of its disk had not moved."""
        return copy_ns - self._find_shift()

    def add_before(self, before_ns: int | None, now_ns: int | None) -> None:
        """Learn from the times that one copy had when the last comparison found it equal, and has now, equal again."""
        if before_ns is not None and now_ns is not None:
            self._moves[now_ns - before_ns] += 1

    def is_kept_time(self, before_ns: int | None, now_ns: int | None) -> bool:
        """Return whether a copy has the time that it had before, but for a clock of its disk that was set since."""
        if before_ns is None or now_ns is None:
            return before_ns == now_ns
        move_ns, count = next(iter(self._moves.most_common(1)), (0, 0))
        is_shift = count >= _FEWEST and count * 10 >= self._moves.total() * 9 and move_ns % _QUARTER_NS == 0
        return now_ns - before_ns in (0, move_ns if is_shift else 0)

    def _find_shift(self) -> int:
        """Return by how much nearly all equal files moved; 0 if they did not."""
        shift_ns, count = next(iter(self._shifts.most_common(1)), (0, 0))
        return shift_ns if count * 10 >= self._equal * 9 else 0
