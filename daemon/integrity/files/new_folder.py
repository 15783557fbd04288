"""Make a folder in somebody else's: nobody can have another one given away in its place."""

from __future__ import annotations

import errno
import os
import stat

_PRIVATE = 0o700


def make_folder_at(above_fd: int, name: bytes, *, mode: int | None) -> bool:
    """
    Make a folder; as root with the owner of the one that it lies in.

    Whoever may write to that can exchange the new folder before it is open. So it is looked at before it is given away:
    one that is ours, private and empty is the one that was made, or as good as that.

    Args:
        above_fd: descriptor of the folder that it lies in.
        name: its name there.
        mode: its permission bits; None: as of the folder that it lies in. Its group bit is inherited from that.

    Returns:
        False if something has that name.

    Raises:
        OSError: it can't be made; EBUSY: it was exchanged meanwhile.
    """
    try:
        os.mkdir(name, _PRIVATE, dir_fd=above_fd)
    except FileExistsError:
        return False
    above = os.fstat(above_fd)
    try:
        fd = os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=above_fd)
    except (FileNotFoundError, NotADirectoryError) as error:
        raise _exchanged(name) from error
    try:
        mine = os.fstat(fd)
        if mine.st_dev != above.st_dev or not _is_as_made(mine, above) or os.listdir(fd):
            raise _exchanged(name)
        if os.geteuid() == 0 and (mine.st_uid, mine.st_gid) != (above.st_uid, above.st_gid):
            os.fchown(fd, above.st_uid, above.st_gid)
        inherited = mine.st_mode & stat.S_ISGID  # where files are to belong to the folder's group
        os.fchmod(fd, (above.st_mode if mode is None else mode) & 0o777 | inherited)
        os.fsync(fd)
    finally:
        os.close(fd)
    os.fsync(above_fd)
    return True


def _is_as_made(mine: os.stat_result, above: os.stat_result) -> bool:
    """Say whether a folder looks like one of ours; where a file system has one owner for all, nothing is given away."""
    is_private = mine.st_mode & 0o077 == 0
    return mine.st_uid == above.st_uid or (mine.st_uid == os.geteuid() and is_private)


def _exchanged(name: bytes) -> OSError:
    return OSError(errno.EBUSY, "the folder was exchanged by somebody while it was made", name)
