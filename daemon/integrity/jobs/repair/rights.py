"""
Decide owner and permissions of a repaired file.

Root repairs files in other users' folders, who may put anything in the place of a file. The catalog does not record who
could read the file, so the permissions of a copy that is not world-readable are used instead, where known. As root:

I1  Bytes of a copy that is not world-readable are given to nobody who could not read the copy.
I2  Set-id bits and capabilities stay with the file that has them: recorded bytes get them back, others never.

Without root the kernel enforces this.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Sequence
from typing import TYPE_CHECKING

from integrity.files.direct_io import get_birth_ns
from integrity.files.open_beneath import open_beneath
from integrity.files.replace_file import read_attributes
from integrity.files.stamps import witness_of
from integrity.jobs.judge.inodes import is_born_before

if TYPE_CHECKING:
    from integrity.catalog.rows import FileRecord
    from integrity.jobs.repair.inspect import Inspection
    from integrity.model import Capability

_SET_ID = stat.S_ISUID | stat.S_ISGID
_CAPABILITY = "security.capability"


def find_model(copies: Sequence[os.stat_result]) -> os.stat_result | None:
    """Return the copy whose permissions a lost file gets: the first that is not world-readable, else the first."""
    return next(filter(_is_closed, copies), next(iter(copies), None))


def find_owner(model: os.stat_result | None, *, is_own: bool) -> tuple[int, int] | None:
    """Return owner and group for a lost file, by a copy or its own former stat; None for those of its folder (I1)."""
    if model is None or os.geteuid() != 0 or not (is_own or _is_closed(model)):
        return None
    return model.st_uid, model.st_gid


def find_conflict(
    root_fd: int, capability: Capability, record: FileRecord, inspection: Inspection, copies: Sequence[os.stat_result]
) -> str | None:
    """
    Return why the recorded bytes must not get owner, mode and attributes of the present file; None if they may.

    Args:
        capability: of the file system.
        inspection: the present file.
        copies: stat results of the copies that supply blocks, if known.

    Raises:
        OSError: the file can't be examined.
    """
    if os.geteuid() != 0:
        return None
    shown = any(_shows_more(inspection.stat, copy) for copy in copies)
    fd = open_beneath(root_fd, record.path, os.O_PATH)
    try:
        is_judged = witness_of(os.fstat(fd)) == inspection.witness  # otherwise it is not exchanged anyway
        runs = bool(inspection.stat.st_mode & _SET_ID) or _CAPABILITY in read_attributes(fd).xattrs
        if not is_judged or not (shown or runs) or _is_recorded(fd, capability, record, inspection):
            return None
    finally:
        os.close(fd)
    what = "has set-id bits or capabilities" if runs else "may be read by others than its copy"
    return (
        f"another file than the recorded one stands there, and it {what}, which the recorded bytes must not get; look"
        " at both with ls -l, move it away if it is not wanted, then repair again: the file is made anew then"
    )


def _is_recorded(fd: int, capability: Capability, record: FileRecord, inspection: Inspection) -> bool:
    """Return whether a file is the recorded one itself, not another under its name: then its rights are its own."""
    if inspection.witness.inode != record.witness.inode:
        return False
    if capability.has_ctime and inspection.witness.ctime_ns == record.witness.ctime_ns:
        return True
    birth_ns = get_birth_ns(fd)
    return birth_ns is not None and is_born_before(birth_ns, record.witness)


def _is_closed(copy: os.stat_result) -> bool:
    return not copy.st_mode & stat.S_IROTH


def _shows_more(there: os.stat_result, copy: os.stat_result) -> bool:
    """Return whether somebody can read the file but not the copy; ACL entries show in the group bits."""
    if not _is_closed(copy):
        return False
    is_group_in = there.st_mode & copy.st_mode & stat.S_IRGRP and there.st_gid == copy.st_gid
    return bool(
        there.st_uid not in (0, copy.st_uid)
        or (there.st_mode & stat.S_IRGRP and not is_group_in)
        or there.st_mode & stat.S_IROTH
    )
