"""
Carry over all that a file is besides its bytes: owner, mode, ACL, extended attributes, times, and how it is stored.

POSIX ACLs are extended attributes (``system.posix_acl_access``). What can't be carried over is an error, never left out
in silence: a file that lost its ACL may be read by others than before.

Have one file share another's extents, and ask whether anybody has a file open for writing.

Give files other names without ever replacing one: exchange two names, or take one that is free.

renameat2(2) does both at once and atomically. Where a file system has it not, exchanging is refused, for there is no
other way that is atomic; a free name is then looked for first, which leaves a moment for somebody to take it.

FUSE servers get the flags handed on and some never look at them: an exchange there would be a plain rename, and what
stood under the second name would be gone. So they are never asked.
"""

from __future__ import annotations

import ctypes
import errno
import fcntl
import os
import signal
import struct
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from stat import S_IMODE

from integrity.files.open_beneath import stat_beneath
from integrity.model import Capability

_FS_IOC_GETFLAGS = 0x80086601
_FS_IOC_SETFLAGS = 0x40086602
_IMMUTABLE = 0x10
_APPEND_ONLY = 0x20
_NO_COW = 0x800000
_FLAGS = struct.Struct("=l4x")

_NO_FLAGS = frozenset({errno.ENOTTY, errno.EOPNOTSUPP, errno.EINVAL, errno.ENOSYS, errno.EBADF})
_NO_XATTRS = frozenset({errno.EOPNOTSUPP, errno.ENOSYS})


@dataclass(frozen=True, slots=True)
class Attributes:
    """
    What a file is besides its bytes.

    Args:
        uid: of the owner.
        gid: of the group.
        mode: permission bits, with set-uid, set-gid and sticky.
        atime_ns: of the last access.
        mtime_ns: of the last modification.
        xattrs: extended attributes, ACLs among them, by name.
        is_no_cow: btrfs writes it in place, without checksums (``chattr +C``).
    """

    uid: int
    gid: int
    mode: int
    atime_ns: int
    mtime_ns: int
    xattrs: dict[str, bytes]
    is_no_cow: bool = False


def read_attributes(fd: int) -> Attributes:
    """
    Read the attributes of an open file; a descriptor of O_PATH is enough.

    Raises:
        OSError: something of it can't be read.
    """
    stat = os.fstat(fd)
    return Attributes(
        uid=stat.st_uid,
        gid=stat.st_gid,
        mode=S_IMODE(stat.st_mode),
        atime_ns=stat.st_atime_ns,
        mtime_ns=stat.st_mtime_ns,
        xattrs=_read_xattrs(fd),
        is_no_cow=bool(_read_flags(fd) & _NO_COW),
    )


def is_locked(fd: int) -> bool:
    """Say whether a file may not be renamed by anybody: immutable or append-only (``chattr +i``, ``+a``)."""
    return bool(_read_flags(fd) & (_IMMUTABLE | _APPEND_ONLY))


def set_storage(fd: int, attributes: Attributes) -> None:
    """Have an empty file stored as another is; it can't be changed once there are bytes in it."""
    if attributes.is_no_cow:
        flags = bytearray(_FLAGS.pack(_read_flags(fd) | _NO_COW))
        fcntl.ioctl(fd, _FS_IOC_SETFLAGS, flags)


def write_attributes(fd: int, attributes: Attributes) -> None:
    """
    Give an open file these attributes, and see that it has them.

    Raises:
        OSError: it can't have one of them; ``filename`` says which.
    """
    present = os.fstat(fd)
    if (present.st_uid, present.st_gid) != (attributes.uid, attributes.gid):
        with _naming("owner"):
            os.fchown(fd, attributes.uid, attributes.gid)  # first: it takes set-uid bits and capabilities away
    _write_xattrs(fd, attributes.xattrs)
    with _naming("mode"):
        os.fchmod(fd, attributes.mode)
    with _naming("times"):
        os.utime(fd, ns=(attributes.atime_ns, attributes.mtime_ns))
    found = read_attributes(fd)
    for name in ("uid", "gid", "mode", "mtime_ns", "xattrs", "is_no_cow"):
        if getattr(found, name) != getattr(attributes, name):
            raise OSError(errno.EOPNOTSUPP, "it was set and is not so", name)


def _read_xattrs(fd: int) -> dict[str, bytes]:
    place: int | str = fd
    try:
        names = os.listxattr(fd)
    except OSError as error:
        if error.errno in _NO_XATTRS:
            return {}
        if error.errno != errno.EBADF:
            raise
        place = f"/proc/self/fd/{fd}"  # O_PATH
        names = os.listxattr(place)
    return {name: os.getxattr(place, name) for name in names}


def _write_xattrs(fd: int, wanted: dict[str, bytes]) -> None:
    present = _read_xattrs(fd)
    for name in sorted(present.keys() - wanted.keys()):  # an ACL that the folder gives to all new files, say
        try:
            with _naming(name):
                os.removexattr(fd, name)
        except OSError as error:
            if error.errno != errno.ENODATA:  # XFS lists an ACL under two names; it went with the other one
                raise
    for name, value in wanted.items():
        if present.get(name) != value:
            with _naming(name):
                os.setxattr(fd, name, value)


@contextmanager
def _naming(what: str) -> Iterator[None]:
    """Put into an error what of the file could not be set."""
    try:
        yield
    except OSError as error:
        raise OSError(error.errno, os.strerror(error.errno or 0), what) from error


def _read_flags(fd: int) -> int:
    flags = bytearray(_FLAGS.size)
    try:
        fcntl.ioctl(fd, _FS_IOC_GETFLAGS, flags)
    except OSError as error:
        if error.errno in _NO_FLAGS:
            return 0
        raise
    return int(_FLAGS.unpack(flags)[0])


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


_RENAME_NOREPLACE = 1
_RENAME_EXCHANGE = 2

UNSUPPORTED = frozenset({errno.EINVAL, errno.ENOSYS, errno.EOPNOTSUPP})
"""What a file system answers that can't do this kind of rename."""

_renameat2 = ctypes.CDLL(None, use_errno=True).renameat2
_renameat2.restype = ctypes.c_int
_renameat2.argtypes = (ctypes.c_int, ctypes.c_char_p, ctypes.c_int, ctypes.c_char_p, ctypes.c_uint)


def may_exchange(capability: Capability) -> bool:
    """Say whether a file system may be asked to exchange names at all."""
    return not capability.fs_type.startswith("fuse")


def exchange(folder_fd: int, one: bytes, other: bytes) -> None:
    """
    Exchange two names of a folder: at no moment is either of them missing.

    Raises:
        OSError: of ``UNSUPPORTED`` where the file system can't; nothing was changed then.
    """
    _rename(folder_fd, one, other, _RENAME_EXCHANGE)


def rename_to_free(folder_fd: int, old: bytes, new: bytes, *, has_flags: bool) -> None:
    """
    Rename a file, but never over another.

    Args:
        folder_fd: of the folder of both names.
        old: its name.
        new: its new one.
        has_flags: see ``may_exchange``.

    Raises:
        OSError: EEXIST if there is something under the new name.
    """
    if has_flags:
        try:
            _rename(folder_fd, old, new, _RENAME_NOREPLACE)
        except OSError as error:
            if error.errno not in UNSUPPORTED:
                raise
        else:
            return
    if is_there(folder_fd, new):
        raise OSError(errno.EEXIST, os.strerror(errno.EEXIST), new)
    os.rename(old, new, src_dir_fd=folder_fd, dst_dir_fd=folder_fd)


def is_there(folder_fd: int, name: bytes) -> bool:
    """
    Say whether a folder has anything under a name.

    Raises:
        OSError: it can't be told.
    """
    try:
        stat_beneath(folder_fd, name)
    except FileNotFoundError:
        return False
    except OSError as error:
        if error.errno == errno.ELOOP:  # a symbolic link is something, too
            return True
        raise
    return True


def _rename(folder_fd: int, old: bytes, new: bytes, flags: int) -> None:
    while _renameat2(folder_fd, old, folder_fd, new, flags) < 0:
        code = ctypes.get_errno()
        if code != errno.EINTR:
            raise OSError(code, os.strerror(code), old)
