"""Have one file share another's extents, and ask whether anybody has a file open for writing."""

from __future__ import annotations

import errno
import fcntl
import os
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager

_FICLONE = 0x40049409


def clone(new_fd: int, old_fd: int) -> bool:
    """
    Make an empty file a reflink of another, which costs nothing and reads nothing.

    Returns:
        False where that can't be done: another kind of file system, or two of them.
    """
    try:
        fcntl.ioctl(new_fd, _FICLONE, old_fd)
    except OSError:
        os.ftruncate(new_fd, 0)  # copying will meet the reason again if it is one that matters
        return False
    return True


def is_open_for_writing(fd: int) -> bool | None:
    """
    Say whether a program has a file open, or mapped, for writing; None where it can't be told.

    A lease for reading is given only while nobody has; it is given back at once. Leases are for the file's owner and
    CAP_LEASE. Network file systems have none, or none that knows what other machines do.

    Args:
        fd: open for reading only.
    """
    is_open = _take_lease(fd)
    if is_open is False:
        fcntl.fcntl(fd, fcntl.F_SETLEASE, fcntl.F_UNLCK)
    return is_open


@contextmanager
def noticing_writers(fd: int) -> Iterator[Callable[[], bool]]:
    """
    Notice whoever opens or truncates a file for writing; he waits until this ends.

    Args:
        fd: open for reading only.

    Yields:
        What says whether somebody has it open for writing, or wanted that, so far. False, too, where there are no
        leases: nothing is known then.
    """
    is_open = _take_lease(fd)
    if is_open is not False:
        yield lambda: is_open is True
        return
    try:
        yield lambda: fcntl.fcntl(fd, fcntl.F_GETLEASE) != fcntl.F_RDLCK
    finally:
        fcntl.fcntl(fd, fcntl.F_SETLEASE, fcntl.F_UNLCK)


def _take_lease(fd: int) -> bool | None:
    """Take a lease for reading, and say as ``is_open_for_writing`` does why there is none; False: it was taken."""
    try:
        # Whoever opens the file in this moment has us told by a signal: one that is ignored unless somebody wants it.
        fcntl.fcntl(fd, fcntl.F_SETSIG, signal.SIGURG)
        fcntl.fcntl(fd, fcntl.F_SETLEASE, fcntl.F_RDLCK)
    except OSError as error:
        return True if error.errno == errno.EAGAIN else None
    return False
