"""
Run one job at a time on a root (R9).

The lock is an advisory flock(2) on a file beside the catalog. The kernel releases it with the process, so a kill -9
leaves nothing to clean up. The file names the holder, for the message to the user of the second job.
"""

import fcntl
import json
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import NamedTuple

from integrity import program
from integrity.catalog import own_files
from integrity.catalog.own_files import root_lock_path
from integrity.errors import CatalogError, CatalogLocked, show_path
from integrity.model import Job, RootId

_TRIES = 4
_BETWEEN_S = 0.1


class LockHolder(NamedTuple):
    """The holder of a root's lock. ``socket``: where the holder accepts requests, None for a command."""

    pid: int
    job: str
    since: int
    socket: str | None = None


@contextmanager
def lock_root(
    catalog_path: bytes,
    root_id: RootId,
    root: bytes,
    job: Job,
    *,
    now: int,
    socket: str | None = None,
    wait: Callable[[float], None] = time.sleep,
) -> Iterator[None]:
    """
    Hold the lock of a root.

    Args:
        catalog_path: path of the catalog's file.
        root: its path, for messages.
        job: what is done under the lock.
        now: seconds UTC.
        socket: where the holder accepts requests; None if nowhere.
        wait: waits this many seconds between two tries.

    Raises:
        CatalogLocked: another job holds the lock; the message names it.
        CatalogError: the lock file can't be written.
    """
    path = root_lock_path(catalog_path, root_id)
    try:
        fd = own_files.open_own(path, os.O_RDWR | os.O_CREAT, own_files.find_owner(catalog_path))
    except OSError as error:
        raise _explain(path, error) from error
    try:
        if not _acquire(fd, wait):
            raise CatalogLocked(_describe(root, _read_holder(fd)))
        try:
            os.ftruncate(fd, 0)
            os.pwrite(fd, json.dumps(LockHolder(os.getpid(), job.value, now, socket)._asdict()).encode(), 0)
        except OSError as error:
            raise _explain(path, error) from error
        yield
        with suppress(OSError):  # the job is done, and the next holder overwrites the file anyway
            os.ftruncate(fd, 0)
    finally:
        os.close(fd)


def _acquire(fd: int, wait: Callable[[float], None]) -> bool:
    """Acquire the lock. Retry, because ``find_holder`` locks the file for a moment as well."""
    for _ in range(_TRIES):
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            wait(_BETWEEN_S)
        else:
            return True
    return False


def _explain(path: bytes, error: OSError) -> CatalogError:
    return CatalogError(
        f"{show_path(path)}: the lock of the root can't be written: {error.strerror}; free space there, and check its"
        " permissions"
    )


def find_holder(catalog_path: bytes, root_id: RootId) -> LockHolder | None:
    """
    Return the current holder of a root's lock.

    Returns:
        None: it is free, or the caller may read the catalog only. The lock is closed to such readers, because whoever
        can open it can also hold it, and then no job could start.
    """
    try:
        owner = own_files.find_owner(catalog_path)
        fd = own_files.open_own(root_lock_path(catalog_path, root_id), os.O_RDONLY, owner)
    except (FileNotFoundError, PermissionError):
        return None
    try:
        fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return _read_holder(fd)
    finally:
        os.close(fd)
    return None


def _read_holder(fd: int) -> LockHolder | None:
    """Return the holder from the lock file; None if the holder has not written its name yet."""
    text = os.pread(fd, 4096, 0)
    try:
        return LockHolder(**json.loads(text)) if text else None
    except (ValueError, TypeError):
        return None


def _describe(root: bytes, holder: LockHolder | None) -> str:
    name = os.fsdecode(root).encode(errors="surrogateescape").decode(errors="backslashreplace")
    if holder is None:
        return f"{name}: another job has just begun to work on it; try again when it has ended"
    if holder.socket is not None:
        return (
            f"{name}: the service (process {holder.pid}) works on it, at a {holder.job}; try again when that has ended,"
            f" which is shown by: {program.command('status')}"
        )
    return f"{name}: a {holder.job} of it is running (process {holder.pid}); wait for it to end, or stop that process"
