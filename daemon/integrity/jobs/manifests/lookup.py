"""What is there, and what is recorded, under a name that a manifest has: no file is read."""

from __future__ import annotations

import errno
import os
from stat import S_ISLNK, S_ISREG
from typing import TYPE_CHECKING, NamedTuple

from integrity.catalog import files
from integrity.errors import show_path
from integrity.files.open_beneath import STAY_ON_MOUNT, open_beneath, stat_beneath
from integrity.files.stamps import witness_of
from integrity.jobs.judge.inodes import as_last_seen, is_same_inode
from integrity.jobs.manifests.entries import Verdict

if TYPE_CHECKING:
    from integrity.catalog.connection import Connection
    from integrity.catalog.rows import FileRecord
    from integrity.jobs.context import RootRun

_NOT_THERE = frozenset({errno.ENOENT, errno.ENOTDIR, errno.ENAMETOOLONG})


class Refusal(NamedTuple):
    """Why a name is not read."""

    verdict: Verdict
    message: str


class Found(NamedTuple):
    """A file that is there, and its record, which may stand under a former name; None: it has none."""

    size_bytes: int
    record: FileRecord | None
    former: bytes | None = None


def look_up(run: RootRun, connection: Connection, path: bytes) -> Found | Refusal:
    """Look at a name, relative to the root, as a walk would; nothing outside of the root is ever touched."""
    if run.excludes.covers(path):
        return Refusal(Verdict.LEFT_OUT, "is excluded from this root")
    try:
        stat = _stat(run, path)
    except OSError as error:
        return _explain(error)
    if S_ISLNK(stat.st_mode):
        return Refusal(Verdict.LEFT_OUT, "is a symbolic link, and those are not recorded")
    if not S_ISREG(stat.st_mode):
        return Refusal(Verdict.LEFT_OUT, "is no regular file")
    record = files.find_file(connection, run.catalog.sealer, run.root.id, path)
    if record is not None:
        return Found(stat.st_size, record)
    moved = _find_moved(run, connection, path, stat)
    return Found(stat.st_size, moved, None if moved is None else moved.path)


def _stat(run: RootRun, path: bytes) -> os.stat_result:
    flags = os.O_PATH if run.settings.cross_mounts else os.O_PATH | STAY_ON_MOUNT
    fd = open_beneath(run.root_fd, path, flags)
    try:
        return os.fstat(fd)
    finally:
        os.close(fd)


def _explain(error: OSError) -> Refusal:
    if error.errno in _NOT_THERE:
        return Refusal(Verdict.MISSING, "is not there")
    if error.errno == errno.ELOOP:
        return Refusal(Verdict.LEFT_OUT, "lies behind a symbolic link, and those are not followed")
    if error.errno == errno.EXDEV:
        return Refusal(Verdict.LEFT_OUT, "lies on another file system, which is mounted inside the root")
    return Refusal(Verdict.UNREADABLE, f"can't be looked at: {error.strerror}")


def _find_moved(run: RootRun, connection: Connection, path: bytes, stat: os.stat_result) -> FileRecord | None:
    """Find the record of a file that was moved here since it was recorded; the next scan will take it along."""
    if not run.capability.has_stable_inodes or not run.root.file_count:
        return None
    seen = witness_of(stat)
    for record in files.find_by_inode(connection, run.catalog.sealer, run.root.id, seen.inode):
        last = as_last_seen(connection, record)
        is_like = last.witness.size_and_mtime == seen.size_and_mtime
        if is_like and _is_gone(run, record.path) and is_same_inode(run.root_fd, path, last):
            return record
    return None


def _is_gone(run: RootRun, path: bytes) -> bool:
    try:
        stat_beneath(run.root_fd, path)
    except OSError as error:
        return error.errno in _NOT_THERE
    return False


def say_former(path: bytes) -> str:
    """Say under which name a file is recorded that was moved since."""
    return f" (recorded as {show_path(path)})"
