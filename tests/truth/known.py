"""What the program gets wrong and is known to: the one place where the matrix is told so."""

from __future__ import annotations

from fnmatch import fnmatchcase

_UNSEEN = "not mended: rot that nobody had seen, in a file that was renamed where inodes tell nothing"
_PERMUTED = "not mended: names passed on among files of one size and time, where inodes or times tell too little"

_KNOWN: dict[tuple[str, str, str], str] = {
    ("*", "rotten_file_in_c*", "overlay*"): _PERMUTED,
    ("missed", "rotten_file*swapped*", "overlay*"): _PERMUTED,
    ("*", "*_swapped*", "FUSE"): _PERMUTED,
    ("*", "*_in_a_cycle", "FUSE"): _PERMUTED,
    ("*", "rotten_file_in_c*", "FUSE"): _PERMUTED,
    ("missed", "whole_files_exchanged_below", "FUSE"): _PERMUTED,
    ("false", "*renamed*", "FUSE"): _PERMUTED,
    ("false", "folders_exchanged", "FUSE"): _PERMUTED,
    ("*", "folder_replaced_by_the_next*", "FUSE"): _PERMUTED,
}
"""By patterns of errors, of cases and of disks: why. Each is still printed."""


def find_known(error: str, case: str, disk: str) -> str | None:
    """Find why an error is known; None if it is not."""
    this = (error, case, disk)
    fitting = (why for those, why in _KNOWN.items() if all(map(fnmatchcase, this, those)))
    return next(fitting, None)
