"""What the program gets wrong and is known to: the one place where the matrix is told so."""

from __future__ import annotations

from fnmatch import fnmatchcase

_PERMUTED = "not knowable: names passed on, where inodes or times tell too little"
_MOVED = "not knowable: moved under a time of whole seconds, without a time of birth, and damaged before"

_KNOWN: dict[tuple[str, str, str], str] = {
    ("*", "rotten_file_in_c*", "overlay*"): _PERMUTED,
    ("missed", "rotten_file*swapped*", "overlay*"): _PERMUTED,
    ("missed", "rotten_file_renamed_over_another", "overlay*"): _PERMUTED,
    ("missed", "rotten_file_linked_and_old_name_removed_later", "overlay*"): _PERMUTED,
    ("*", "known_rot*swapped*", "overlay*"): _PERMUTED,
    ("*", "*_swapped*", "FUSE"): _PERMUTED,
    ("*", "rotten_file_in_c*", "FUSE"): _PERMUTED,
    ("missed", "rotten_file_linked_and_old_name_removed_later", "FUSE"): _PERMUTED,
    ("missed", "rotten_file_renamed_over_another", "FUSE"): _PERMUTED,
    ("missed", "whole_files_exchanged_below", "FUSE"): _PERMUTED,
    ("false", "known_rot*swapped*", "ext4 -I 128"): _PERMUTED,
    ("missed", "rotten_f*_moved_by_copy", "ext4 -I 128"): _MOVED,
    ("missed", "rotten_file_*renamed*", "ext4 -I 128"): _MOVED,
    ("missed", "file_just_renamed", "ext4 -I 128"): _MOVED,
    ("missed", "rot_in_file_moved_while_deletions_are_held_back", "ext4 -I 128"): _MOVED,
    ("missed", "rotten_file_linked_and_old_name_removed_at_once", "ext4 -I 128"): _MOVED,
}
"""By patterns of errors, of cases and of disks: why. Each is still printed."""


def find_known(error: str, case: str, disk: str) -> str | None:
    """Find why an error is known; None if it is not."""
    this = (error, case, disk)
    fitting = (why for those, why in _KNOWN.items() if all(map(fnmatchcase, this, those)))
    return next(fitting, None)
