"""
Replace a file without loss: copy its attributes, clone its extents, detect writers, and exchange names.

Attributes are owner, mode, ACL, extended attributes, times and storage flags; POSIX ACLs are extended attributes
(``system.posix_acl_access``). An attribute that cannot be copied is an error, never dropped silently: a file that lost
its ACL may be readable by others than before.

Renames never overwrite a file: renameat2(2) atomically exchanges two names or takes a free one. Without it an exchange
is refused, because no other way is atomic; a free name is checked first, which leaves a short race. FUSE servers may
ignore the flags and do a plain rename, which would destroy the second file: they are never asked.

A new file, which must not replace another one, is written whole or not at all.
"""

from __future__ import annotations

import ctypes
import errno
import fcntl
import os
import signal
import struct
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from stat import S_IMODE
from typing import BinaryIO, NamedTuple

from integrity.files.open_beneath import stat_beneath
from integrity.files.syscalls import find_function
from integrity.model import Capability

_FS_IOC_GETFLAGS = 0x80086601
_FS_IOC_SETFLAGS = 0x40086602
_IMMUTABLE = 0x10
_APPEND_ONLY = 0x20
_NO_COW = 0x800000
_FLAGS = struct.Struct("=l4x")

_NO_FLAGS = frozenset({errno.ENOTTY, errno.EOPNOTSUPP, errno.EINVAL, errno.ENOSYS, errno.EBADF})
_NO_XATTRS = frozenset({errno.EOPNOTSUPP, errno.ENOSYS})


class Attributes(NamedTuple):
    """
    What a file has besides its bytes.

    Args:
        mode: permission bits, with set-uid, set-gid and sticky.
        xattrs: extended attributes by name, ACLs included.
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
    Read the attributes of an open file; an O_PATH descriptor is enough.

    Raises:
        OSError: some attribute cannot be read.
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
    """Return whether a file is immutable or append-only (``chattr +i``, ``+a``), so that nobody may rename it."""
    return bool(_read_flags(fd) & (_IMMUTABLE | _APPEND_ONLY))


def set_storage(fd: int, attributes: Attributes) -> None:
    """Set the storage flags of an empty file; they cannot be changed once it holds data."""
    if attributes.is_no_cow:
        flags = bytearray(_FLAGS.pack(_read_flags(fd) | _NO_COW))
        fcntl.ioctl(fd, _FS_IOC_SETFLAGS, flags)


def write_attributes(fd: int, attributes: Attributes) -> None:
    """
    Set these attributes on an open file, and read them back to verify.

    Raises:
        OSError: one of them cannot be set; ``filename`` names it.
    """
    present = os.fstat(fd)
    if (present.st_uid, present.st_gid) != (attributes.uid, attributes.gid):
        with _naming("owner"):
            os.fchown(fd, attributes.uid, attributes.gid)  # first: chown clears set-uid bits and capabilities
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
    for name in sorted(present.keys() - wanted.keys()):  # such as a default ACL inherited from the folder
        try:
            with _naming(name):
                os.removexattr(fd, name)
        except OSError as error:
            if error.errno != errno.ENODATA:  # XFS lists an ACL under two names; removing one removes both
                raise
    for name, value in wanted.items():
        if present.get(name) != value:
            with _naming(name):
                os.setxattr(fd, name, value)


@contextmanager
def _naming(what: str) -> Iterator[None]:
    """Add to an error the name of the attribute that could not be set."""
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
    Make an empty file a reflink of another; no data is read or copied.

    Returns:
        False if unsupported: another type of file system, or two file systems.
    """
    try:
        fcntl.ioctl(new_fd, _FICLONE, old_fd)
    except OSError:
        os.ftruncate(new_fd, 0)  # copying fails for the same reason, if it matters
        return False
    return True


def is_open_for_writing(fd: int) -> bool | None:
    """
    Return whether a program has a file open, or mapped, for writing; None if unknown.

    The kernel grants a read lease only if nobody does; it is released at once. Leases need the file's owner or
    CAP_LEASE. Network file systems have none, or none that covers other machines.

    Args:
        fd: open for reading only.
    """
    is_open = _take_lease(fd)
    if is_open is False:
        fcntl.fcntl(fd, fcntl.F_SETLEASE, fcntl.F_UNLCK)
    return is_open


@contextmanager
def detecting_writers(fd: int) -> Iterator[Callable[[], bool]]:
    """
    Detect programs that open or truncate a file for writing; they block until this ends.

    Args:
        fd: open for reading only.

    Yields:
        A function that returns whether anybody has had it open for writing, or tried to, so far. It also returns False
        where leases are unavailable: then nothing is known.
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
    """Take a read lease. Return False if it was taken, else as ``is_open_for_writing`` why not."""
    try:
        # A program that opens the file now makes the kernel signal us: SIGURG is ignored by default.
        fcntl.fcntl(fd, fcntl.F_SETSIG, signal.SIGURG)
        fcntl.fcntl(fd, fcntl.F_SETLEASE, fcntl.F_RDLCK)
    except OSError as error:
        return True if error.errno == errno.EAGAIN else None
    return False


_RENAME_NOREPLACE = 1
_RENAME_EXCHANGE = 2

UNSUPPORTED = frozenset({errno.EINVAL, errno.ENOSYS, errno.EOPNOTSUPP})
"""Errors of a file system that does not support this kind of rename."""

_renameat2 = find_function("renameat2", ctypes.c_int, ctypes.c_char_p, ctypes.c_int, ctypes.c_char_p, ctypes.c_uint)


def may_exchange(capability: Capability) -> bool:
    """Return whether a file system may be asked to exchange names."""
    return not capability.fs_type.startswith("fuse")


def exchange(folder_fd: int, one: bytes, other: bytes) -> None:
    """
    Exchange two names of a folder; at no moment is either missing.

    Raises:
        OSError: one of ``UNSUPPORTED`` if the file system cannot do it; then nothing was changed.
    """
    _rename(folder_fd, one, other, _RENAME_EXCHANGE)


def rename_to_free(folder_fd: int, old: bytes, new: bytes, *, has_flags: bool) -> None:
    """
    Rename a file, but never over another.

    Args:
        folder_fd: the folder of both names.
        old: the current name.
        has_flags: see ``may_exchange``.

    Raises:
        OSError: EEXIST if the new name exists.
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
    Return whether a name exists in a folder.

    Raises:
        OSError: it cannot be queried.
    """
    try:
        stat_beneath(folder_fd, name)
    except FileNotFoundError:
        return False
    except OSError as error:
        if error.errno == errno.ELOOP:  # a symbolic link exists, too
            return True
        raise
    return True


def _rename(folder_fd: int, old: bytes, new: bytes, flags: int) -> None:
    while _renameat2(folder_fd, old, folder_fd, new, flags) < 0:
        code = ctypes.get_errno()
        if code != errno.EINTR:
            raise OSError(code, os.strerror(code), old)


_WRITING_S = 60
"""No writer needs longer."""


def write_new_file(path: bytes, content: bytes, *, mode: int, folder_mode: int) -> None:
    """
    Write a file under a name that is free, and flush it to the disk. Missing folders are made.

    Args:
        path: of the file; one that is relative begins at the working directory.
        mode: permission bits, whatever the umask.
        folder_mode: those of folders that are made.

    Raises:
        FileExistsError: the name is taken, if only by a dangling link.
        OSError: it can't be written; nothing is left.
    """
    folder, name = os.path.split(os.path.abspath(path))
    made = _make_folders(folder, folder_mode)
    try:
        folder_fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            _write(folder_fd, name, content, mode)
        finally:
            os.close(folder_fd)
    except BaseException:
        for one in reversed(made):
            with suppress(OSError):
                os.rmdir(one)
        raise


def write_in_place_of(
    path: bytes, content: bytes, *, mode: int, folder_mode: int, owner: tuple[int, int] | None = None
) -> None:
    """
    Write a file as ``write_new_file`` does, and rename it over the former one, if there is one.

    Args:
        owner: user and group; None for those of this process.
    """
    new = path + b".new"
    with suppress(FileNotFoundError):
        os.unlink(new)
    write_new_file(new, content, mode=mode, folder_mode=folder_mode)
    if owner is not None:
        os.chown(new, *owner)
    os.rename(new, path)


def find_obstacle(path: bytes) -> str | None:
    """Return why a file can't be written at a path, as far as that can be told; None if it can."""
    folder = os.path.dirname(os.path.abspath(path))
    while not os.path.lexists(folder):
        folder = os.path.dirname(folder)
    if not os.path.isdir(folder):
        return "a file lies in the way"
    if os.access(folder, os.W_OK | os.X_OK):
        return None
    is_read_only = bool(os.statvfs(folder).f_flag & os.ST_RDONLY)
    return "the file system is mounted read-only" if is_read_only else "you may not write there"


def _make_folders(folder: bytes, mode: int) -> list[bytes]:
    """Make the missing folders of an absolute path; return them, the outermost first."""
    made: list[bytes] = []
    missing = []
    while not os.path.isdir(folder):
        missing.append(folder)
        folder = os.path.dirname(folder)
    for one in reversed(missing):
        os.mkdir(one, mode)
        made.append(one)
        os.chmod(one, mode)
    return made


def _write(folder_fd: int, name: bytes, content: bytes, mode: int) -> None:
    """Write a file without a name, and name it in the end: a killed writer leaves nothing."""
    try:
        fd = os.open(b".", os.O_WRONLY | os.O_TMPFILE | os.O_CLOEXEC, 0o600, dir_fd=folder_fd)
    except OSError:  # FUSE and some network file systems have none; the other way finds out if it was something else
        _write_named(folder_fd, name, content, mode)
        return
    with open(fd, "wb") as file:
        _fill(file, content, mode)
        try:
            os.link(b"/proc/self/fd/%d" % fd, name, dst_dir_fd=folder_fd)
        except FileExistsError:
            raise
        except OSError:
            _write_named(folder_fd, name, content, mode)
            return
    os.fsync(folder_fd)


def _write_named(folder_fd: int, name: bytes, content: bytes, mode: int) -> None:
    partial = make_partial_name(folder_fd, name)
    try:
        fd = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600, dir_fd=folder_fd)
        with open(fd, "wb") as file:
            _fill(file, content, mode)
        rename_to_free(folder_fd, partial, name, has_flags=True)
        os.fsync(folder_fd)
    finally:
        with suppress(FileNotFoundError):
            os.unlink(partial, dir_fd=folder_fd)


def _fill(file: BinaryIO, content: bytes, mode: int) -> None:
    file.write(content)
    os.fchmod(file.fileno(), mode)
    file.flush()
    os.fsync(file.fileno())


def make_partial_name(folder_fd: int, name: bytes) -> bytes:
    """Return a free name beside a file, for its content until that is complete; remove what killed writers left."""
    prefix = b"." + name + b".new-"
    for left in map(os.fsencode, os.listdir(folder_fd)):
        if left.startswith(prefix):
            with suppress(OSError):
                if os.stat(left, dir_fd=folder_fd).st_mtime < time.time() - _WRITING_S:
                    os.unlink(left, dir_fd=folder_fd)
    return prefix + os.urandom(4).hex().encode()
