"""
The same time: whether two modification times are one, and whether a time moved by itself or with those of other files.

Times lose their end on the way: SMB and NTFS keep 100 ns, ext3, HFS+, tar and FTP seconds, FAT two of them, listings of
FTP servers minutes; ``touch``-like programs fill a fraction in. So a time has a *grain*, and two times are the same if
one is the other at its grain. This answers whether a file was *written*, which is what other content means. Whether
anything moved at all, which decides about reading a file, is a question of exact equality and none of this module.

I1  ``is_same_time`` is symmetric, and true for equal times.
I2  Two times of the same grain are the same only if they are equal, but for what a double loses.
I3  A time moves together only with times of unchanged files, and only if there are at least as many of them as of
    changed ones that moved alike: what changes most files of a folder are writes.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import NamedTuple

from integrity.model import Witness

GRAINS_NS = (60 * 10**9, 2 * 10**9, 10**9, 10**7, 10**6, 10**3, 100)
"""What keeps times of this grain, the coarsest first: listings of FTP, FAT, tar, exFAT, JavaScript, pax, NTFS."""

_SECOND_NS = 10**9
DOUBLE_NS = 1_000
"""What is lost by a time that passed through a double, as in Python's tarfile: a double has 53 bits, so at most 240 ns
around the present, and as much again for what was computed with it."""


def find_grain(time_ns: int) -> int:
    """Return the coarsest grain, in nanoseconds, that a time can have been cut or rounded to; 1 if it was not."""
    return next((grain for grain in GRAINS_NS if time_ns % grain == 0), 1)


def is_same_time(one_ns: int, other_ns: int, *, kept_ns: int = 1) -> bool:
    """
    Return whether two times are the same at the coarser one's grain, cut or rounded up.

    ``kept_ns``: what the file system keeps. If that is whole seconds, two times that it can store are those of two
    writes, and the same only if they are equal.
    """
    if kept_ns >= _SECOND_NS and one_ns % kept_ns == 0 == other_ns % kept_ns:
        return one_ns == other_ns
    difference_ns = abs(one_ns - other_ns)
    if difference_ns < DOUBLE_NS:
        return True
    if difference_ns >= GRAINS_NS[0]:
        return False  # no grain is coarser: most comparisons end here
    (fine_grain, fine_ns), (grain, coarse_ns) = sorted((find_grain(time), time) for time in (one_ns, other_ns))
    return fine_grain != grain and coarse_ns in (fine_ns // grain * grain, -(-fine_ns // grain) * grain)


def is_unwritten(recorded: Witness, seen: Witness) -> bool:
    """Return whether a file has the recorded size and time: what moves with its content, and not with its name."""
    return recorded.size_bytes == seen.size_bytes and is_same_time(recorded.mtime_ns, seen.mtime_ns)


class TimeMove(NamedTuple):
    """The recorded time of a file and the one that it has now."""

    before_ns: int
    after_ns: int

    @property
    def shift_ns(self) -> int:
        """How far the time moved."""
        return self.after_ns - self.before_ns


def moved_alike(one: TimeMove, other: TimeMove) -> bool:
    """
    Return whether two times moved by the same shift, as on FAT after a change of the clock.

    Files that were written together before and now say nothing by that: their shift is that of two writes.
    """
    is_shift = is_same_time(other.before_ns + one.shift_ns, other.after_ns)
    return is_shift and not is_same_time(one.before_ns, other.before_ns)


_SLACK_NS = 2 * 10**9
_COPIED_NS = 100
"""What copying a byte takes at most, on a slow disk: a copied file has the time of the end of its copying."""

_FEWEST = 3
"""Unchanged files that must have got a present time with the changed one: a program may save two or three together."""


class Beside(NamedTuple):
    """
    The files beside a changed one whose times moved as well.

    Attributes:
        same: moves of those whose content did not change.
        changed: moves of those whose content did, with the changed one.
        unread: how many more moved whose content nobody has looked at.
        files: how many there are in all, with the changed one and those whose times did not move.
    """

    same: Sequence[TimeMove]
    changed: Sequence[TimeMove]
    unread: int
    files: int


def moved_by_shift(one: TimeMove, beside: Beside, *, of_most: bool = False) -> bool:
    """
    Return whether the time of a changed file moved by the same shift as the times of unchanged files.

    The kernel's clock ticks: a few times that writes set are the same shift away by chance, but hardly by whole
    seconds, as zones and clocks are.

    ``of_most``: as those of most of them, for folders where all times are new ones.
    """
    alike = sum(moved_alike(one, other) for other in beside.same)
    is_of_clock = one.shift_ns % _SECOND_NS == 0 or one.after_ns % _SECOND_NS == 0
    if (alike < _FEWEST and not is_of_clock) or (of_most and alike * 2 <= len(beside.same)):
        return False
    return alike > sum(moved_alike(one, other) for other in beside.changed)


def moved_into_span(one: TimeMove, beside: Beside, *, size_bytes: int, written_since_ns: int) -> bool:
    """
    Return whether the time of a changed file moved into the span of the new times of most files, all unchanged.

    Args:
        one: the move of the changed file.
        beside: the files beside it.
        size_bytes: its size: a copied file has the time of the end of its copying.
        written_since_ns: a new time before this one was set, and does not come from a write.
    """
    times = _leave_out_shifted(beside.same)
    if not times:
        return False
    slack_ns = _SLACK_NS + size_bytes * _COPIED_NS
    first_ns, last_ns = min(times) - slack_ns, max(times) + slack_ns
    with_it = sum(first_ns <= other.after_ns <= last_ns for other in beside.changed)
    is_enough = len(times) >= _FEWEST or one.after_ns < written_since_ns
    is_most = len(times) >= with_it and (len(times) + with_it + beside.unread) * 2 >= beside.files
    return is_enough and is_most and first_ns <= one.after_ns <= last_ns


def lost_times(beside: Beside) -> bool:
    """Return whether most files got other times for no reason that their content or a shift of all would give."""
    count = len(_leave_out_shifted(beside.same))
    return count >= _FEWEST and (count + beside.unread) * 2 >= beside.files


def _leave_out_shifted(moves: Sequence[TimeMove]) -> list[int]:
    """Return the new times of those that did not move by a shift that others share."""
    by_shift: defaultdict[int, set[int]] = defaultdict(set)
    for move in moves:
        by_shift[move.shift_ns].add(move.before_ns)
    return [move.after_ns for move in moves if len(by_shift[move.shift_ns]) == 1]
