"""
Notice files that went away together with a part of the file system: a disk of a pool that is gone (R5).

mergerfs, unionfs and their like go on without a member, and its files are no longer listed: no error tells them from
deleted ones. The size of the file system does: it fell by at least what the files used. Or it is that of other storage,
the folder below the member's mount point, and the space that the files used was not freed.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, NamedTuple

from integrity.catalog import versions
from integrity.catalog.root_meta import RootMeta
from integrity.files.mounts import get_mount
from integrity.jobs import messages
from integrity.jobs.open_root import LEAST_PATTERN

if TYPE_CHECKING:
    from integrity.catalog.connection import Connection
    from integrity.jobs.context import RootRun

_SPACE = RootMeta("space")
_LAST = "last"

_LEAST_PERCENT = 1
"""Pools have fewer than a hundred disks; where a member's size moves with what others write, it moves by less."""

_QUOTAS = frozenset({"prjquota", "pquota"})
"""Mount options of XFS and ext4 with which the size may be the limit of a project."""


class _Space(NamedTuple):
    total_bytes: int
    used_bytes: int


def find_lost_storage(connection: Connection, run: RootRun) -> str | None:
    """Return why the files that are gone may have been on lost storage, as the end of a sentence; None if not."""
    removed, removed_bytes = versions.measure_removals(connection, run.root.id)
    if removed < LEAST_PATTERN:
        return None
    now, before = _measure(run), _load(connection, run)
    if now is None or before is None:
        return None
    lost_bytes, freed_bytes = before.total_bytes - now.total_bytes, before.used_bytes - now.used_bytes
    if abs(lost_bytes) * 100 < before.total_bytes * _LEAST_PERCENT:
        return None
    if lost_bytes >= removed_bytes or freed_bytes < removed_bytes:
        return messages.lost_storage(before.total_bytes, now.total_bytes)
    return None


def remember_space(connection: Connection, run: RootRun) -> None:
    """Record the size of the root's file system; only for runs that looked at all of it and held nothing back."""
    now = _measure(run)
    if now is not None:
        _SPACE.save(connection, run.root, _LAST, now._asdict())


def _measure(run: RootRun) -> _Space | None:
    """Return the space of the root's file system; None where its size moves with what others write."""
    if run.capability.is_remote or run.capability.fs_type == "zfs":
        return None
    try:
        if get_mount(run.root_fd).options & _QUOTAS:
            return None
        status = os.fstatvfs(run.root_fd)
    except OSError:
        return None
    return _Space(status.f_blocks * status.f_frsize, (status.f_blocks - status.f_bfree) * status.f_frsize)


def _load(connection: Connection, run: RootRun) -> _Space | None:
    found = _SPACE.find(connection, run.root)
    return next((_Space(value["total_bytes"], value["used_bytes"]) for _, value in found), None)
