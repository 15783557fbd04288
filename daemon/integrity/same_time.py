"""
The same time: whether two modification times are one, after what file systems and tools keep of them.

Times lose their end on the way: SMB and NTFS keep 100 ns, ext3, HFS+, tar and FTP seconds, FAT two of them, listings of
FTP servers minutes; ``touch``-like programs fill a fraction in. So a time has a *grain*, and two times are the same if
one is the other at its grain. This answers whether a file was *written*, which is what other content means. Whether
anything moved at all, which decides about reading a file, is a question of exact equality and none of this module.

I1  ``is_same_time`` is symmetric, and true for equal times.
I2  Two times of the same grain are the same only if they are equal, but for what a double loses.
"""

from __future__ import annotations

GRAINS_NS = (60 * 10**9, 2 * 10**9, 10**9, 10**7, 10**6, 10**3, 100)
"""Who keeps times of these grains: listings of FTP; FAT; tar, ext3, HFS+; exFAT; JavaScript; pax; NTFS and SMB."""

_DOUBLE_NS = 1_000
"""What is lost by a time that passed through a double, as in Python's tarfile: a double has 53 bits, so at most 240 ns
around the present, and as much again for what was computed with it."""


def find_grain(time_ns: int) -> int:
    """Return the coarsest grain, in nanoseconds, that a time can have been cut or rounded to; 1 if it was not."""
    return next((grain for grain in GRAINS_NS if time_ns % grain == 0), 1)


def is_same_time(one_ns: int, other_ns: int) -> bool:
    """Return whether two times are the same at the coarser one's grain, cut or rounded up."""
    difference_ns = abs(one_ns - other_ns)
    if difference_ns < _DOUBLE_NS:
        return True
    if difference_ns >= GRAINS_NS[0]:
        return False  # no grain is coarser: most comparisons end here
    (fine_grain, fine_ns), (grain, coarse_ns) = sorted((find_grain(time), time) for time in (one_ns, other_ns))
    return fine_grain != grain and coarse_ns in (fine_ns // grain * grain, -(-fine_ns // grain) * grain)
