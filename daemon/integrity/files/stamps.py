"""
Bring what stat says into the 64 signed bits in which it is stored and compared.

Inode numbers use all 64 bits where they are hashes (mergerfs, some network servers): the upper half becomes negative,
as the same bits. Nanoseconds of 64 bits end in the year 2262, file systems later (ext4 in 2446): what lies beyond is
all one time, so that such a date costs a file its mtime, not the run.
"""

from __future__ import annotations

import os

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
