"""What stat says fits into 64 signed bits, whatever it says."""

from __future__ import annotations

import os

from integrity.files.stamps import MOST, fold_inode, witness_of


def make_stat(*, inode: int = 1, mtime_ns: int = 0, ctime_ns: int = 0) -> os.stat_result:
    fields = [0o100644, inode, 1, 1, 0, 0, 7, 0, 0, 0]
    return os.stat_result(fields, {"st_mtime_ns": mtime_ns, "st_ctime_ns": ctime_ns})


def test_usual_numbers_stay() -> None:
    """Nothing happens to the numbers of an ordinary file."""
    stat = make_stat(inode=12, mtime_ns=-5, ctime_ns=10**18)
    assert (7, -5, 10**18, 12, False) == witness_of(stat)


def test_inode_numbers_of_64_bits_stay_different() -> None:
    """Folded numbers fit, and no two become one."""
    inodes = [0, 1, 2**63 - 1, 2**63, 2**63 + 1, 2**64 - 1]
    folded = [fold_inode(inode) for inode in inodes]
    assert len(inodes) == len(set(folded))
    assert all(-(2**63) <= inode < 2**63 for inode in folded)


def test_times_beyond_2262_are_one_time() -> None:
    """A date that does not fit becomes the last that does, on both ends."""
    witness = witness_of(make_stat(mtime_ns=15032385535 * 10**9, ctime_ns=-(10**20)))
    assert (MOST, -MOST) == (witness.mtime_ns, witness.ctime_ns)
