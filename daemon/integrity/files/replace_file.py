"""
Carry over all that a file is besides its bytes: owner, mode, ACL, extended attributes, times, and how it is stored.

POSIX ACLs are extended attributes (``system.posix_acl_access``). What can't be carried over is an error, never left out
in silence: a file that lost its ACL may be read by others than before.
"""

from __future__ import annotations

import errno
import fcntl
import os
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from stat import S_IMODE

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
