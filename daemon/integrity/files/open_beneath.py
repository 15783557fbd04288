"""
Open files and folders beneath a root, and nothing else.

openat2(2) resolves the whole path and refuses to leave the root or follow a symbolic or magic link: whoever can write
to a watched tree cannot make a root process read something else. Without openat2 (before Linux 5.6, or blocked by a
container's seccomp filter) the path is walked with openat(2) and O_NOFOLLOW: equally strict, only slower.

Errors are plain OSErrors with the whole path as filename; callers interpret them. ELOOP: a symbolic link (ENOTDIR if it
replaces a folder and openat2 is missing). EXDEV: the path leaves the root, or its mount if STAY_ON_MOUNT is set.
"""

from __future__ import annotations

import ctypes
import errno
import os
import stat
from collections.abc import Callable
from functools import cache

from integrity.files.mounts import get_mount_id
from integrity.files.syscalls import OPENAT2

_RESOLVE_NO_XDEV = 0x01
_RESOLVE_NO_MAGICLINKS = 0x02
_RESOLVE_NO_SYMLINKS = 0x04
_RESOLVE_BENEATH = 0x08

STAY_ON_MOUNT = 1 << 40
"""Flag for ``open_beneath``: fail with EXDEV if the path crosses into another mount."""

GONE = frozenset({errno.ENOENT, errno.ENOTDIR, errno.ELOOP})
"""Errors of opening a path whose file or folder is gone, or was replaced by something else, also on the way there."""

_LONGEST_PATH = 4095  # PATH_MAX without its NUL byte: the longest path for one system call
_RENAME_RACES = 16  # retries after openat2's EAGAIN (a concurrent rename or mount)

_ALWAYS = os.O_CLOEXEC | os.O_NOFOLLOW
_NEVER_WAIT = os.O_NONBLOCK | os.O_NOCTTY  # a FIFO without a writer or a terminal must not block a scan
_STEP = os.O_PATH | os.O_DIRECTORY | _ALWAYS  # O_PATH: traversing a folder needs no read permission


class _OpenHow(ctypes.Structure):
    """``struct open_how`` of openat2(2)."""

    _fields_ = (("flags", ctypes.c_uint64), ("mode", ctypes.c_uint64), ("resolve", ctypes.c_uint64))


# Looked up and typed once: called for every file.
_syscall = ctypes.CDLL(None, use_errno=True).syscall
_syscall.restype = ctypes.c_long
_syscall.argtypes = (ctypes.c_long, ctypes.c_int, ctypes.c_char_p, ctypes.POINTER(_OpenHow), ctypes.c_size_t)
_OPEN_HOW_BYTES = ctypes.sizeof(_OpenHow)

_hows: dict[int, _OpenHow] = {}


def open_root(path: bytes) -> int:
    """
    Open the folder of a root.

    Args:
        path: absolute. Symbolic links in it are followed: the caller passes a real path.

    Returns:
        A descriptor for the other functions here; the caller closes it.
    """
    return os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)


def open_beneath(root_fd: int, path: bytes, flags: int) -> int:
    """
    Open a file or folder of a root without following any symbolic link.

    Never blocks on a FIFO. The path may be longer than PATH_MAX.

    Args:
        root_fd: from ``open_root``, or any folder.
        path: relative to it; empty for the folder itself. ``..`` is refused.
        flags: of open(2), without O_CREAT, optionally STAY_ON_MOUNT; close-on-exec and O_NOFOLLOW are added, and
            without O_PATH also O_NONBLOCK and O_NOCTTY.

    Returns:
        A descriptor; the caller closes it.

    Raises:
        OSError: with ``path`` as its filename.
    """
    if path[:1] == b"/" or b".." in path or b"\0" in path:
        _refuse_odd(path)
    try:
        if len(path) <= _LONGEST_PATH:
            return _openat2(root_fd, path or b".", flags)
        return _open_stepwise(root_fd, _cut(path), path, flags, _openat2)
    except OSError as error:
        if error.errno not in (errno.ENOSYS, errno.EPERM) or _has_openat2():
            raise
    components = [component for component in path.split(b"/") if component] or [b"."]
    fd = _open_stepwise(root_fd, components, path, flags, _openat)
    if flags & STAY_ON_MOUNT:
        _refuse_other_mount(root_fd, fd, path)
    return fd


def open_noatime(root_fd: int, path: bytes, flags: int) -> int:
    """Open for reading as ``open_beneath`` does, without updating the atime if the kernel permits (owner, root)."""
    try:
        return open_beneath(root_fd, path, flags | os.O_NOATIME)
    except PermissionError as error:
        if error.errno != errno.EPERM:
            raise
    return open_beneath(root_fd, path, flags)


def stat_beneath(root_fd: int, path: bytes, *, stay_on_mount: bool = False) -> os.stat_result:
    """
    Return the lstat(2) of a path in a root without following a symbolic link anywhere on the way.

    Raises:
        OSError: with ``path`` as its filename; EXDEV if ``stay_on_mount`` is set and the path lies on another mount.
    """
    fd = open_beneath(root_fd, path, os.O_PATH | STAY_ON_MOUNT if stay_on_mount else os.O_PATH)
    try:
        return os.fstat(fd)
    except OSError as error:
        raise OSError(error.errno, os.strerror(error.errno or 0), path) from error
    finally:
        os.close(fd)


def was_removed(root_fd: int, path: bytes, error: OSError) -> bool:
    """
    Return whether an error only means that the server removed the open file since (ESTALE).

    If the whole share is stale, looking the path up again also fails with ESTALE.
    """
    if error.errno != errno.ESTALE:
        return False
    try:
        stat_beneath(root_fd, path)
    except OSError as again:
        return again.errno in (errno.ENOENT, errno.ENOTDIR)
    return False


def _openat2(folder_fd: int, path: bytes, flags: int) -> int:
    how = _hows.get(flags)
    if how is None:
        resolve = _RESOLVE_BENEATH | _RESOLVE_NO_SYMLINKS | _RESOLVE_NO_MAGICLINKS
        if flags & STAY_ON_MOUNT:
            resolve |= _RESOLVE_NO_XDEV
        how = _hows[flags] = _OpenHow(_complete(flags), 0, resolve)
    races = 0
    while (fd := _syscall(OPENAT2, folder_fd, path, how, _OPEN_HOW_BYTES)) < 0:
        code = ctypes.get_errno()
        # EINTR: Python runs signal handlers between iterations, as os.open does.
        if code == errno.EAGAIN and races < _RENAME_RACES:
            races += 1
        elif code != errno.EINTR:
            raise OSError(code, os.strerror(code), path)
    return int(fd)


def _openat(folder_fd: int, name: bytes, flags: int) -> int:
    return os.open(name, _complete(flags), dir_fd=folder_fd)


def _refuse_other_mount(root_fd: int, fd: int, path: bytes) -> None:
    """Close ``fd`` and raise if it lies on another mount. One check suffices: no path below leads back to a mount."""
    is_other = True
    try:
        is_other = get_mount_id(fd) != get_mount_id(root_fd)
    finally:
        if is_other:
            os.close(fd)
    if is_other:
        raise OSError(errno.EXDEV, os.strerror(errno.EXDEV), path)


def _complete(flags: int) -> int:
    flags = flags & ~STAY_ON_MOUNT | _ALWAYS
    # openat2 refuses O_PATH with flags that have no effect on it.
    return flags if flags & os.O_PATH else flags | _NEVER_WAIT


def _open_stepwise(
    root_fd: int, steps: list[bytes], path: bytes, flags: int, open_step: Callable[[int, bytes, int], int]
) -> int:
    folder_fd = root_fd
    through = _STEP | flags & STAY_ON_MOUNT
    try:
        for step in steps[:-1]:
            deeper_fd = open_step(folder_fd, step, through)
            if folder_fd != root_fd:
                os.close(folder_fd)
            folder_fd = deeper_fd
        return open_step(folder_fd, steps[-1], flags)
    except OSError as error:
        raise OSError(error.errno, os.strerror(error.errno or 0), path) from error
    finally:
        if folder_fd != root_fd:
            os.close(folder_fd)


def _cut(path: bytes) -> list[bytes]:
    """Split a path into pieces short enough for one system call each."""
    pieces = []
    start = 0
    while len(path) - start > _LONGEST_PATH:
        slash = path.rfind(b"/", start, start + _LONGEST_PATH + 1)
        if slash <= start:
            raise OSError(errno.ENAMETOOLONG, os.strerror(errno.ENAMETOOLONG), path)
        pieces.append(path[start:slash])
        start = slash + 1
    pieces.append(path[start:])
    return [piece.strip(b"/") or b"." for piece in pieces]


def _refuse_odd(path: bytes) -> None:
    """Refuse paths that openat2 and openat would interpret differently, or not as written."""
    if b"\0" in path:
        raise OSError(errno.EINVAL, "a path can't contain a NUL byte", path)
    if path[:1] == b"/" or b".." in path.split(b"/"):
        raise OSError(errno.EXDEV, "the path leaves its folder", path)


@cache
def _has_openat2() -> bool:
    """Test once: EPERM can also come from the file (O_NOATIME), not only from a seccomp filter."""
    try:
        fd = _openat2(-100, b".", os.O_PATH)  # AT_FDCWD
    except OSError as error:
        return error.errno not in (errno.ENOSYS, errno.EPERM)
    os.close(fd)
    return True


_SHALLOW_BYTES = 1024
"""Shorter paths are resolved from the root: fast, and detects a renamed parent folder."""

_MOST_OPEN = 16

_PASS = os.O_PATH | os.O_DIRECTORY


class DeepFolders:
    """
    Keep some ancestors of the last opened folder open, so that deep paths open quickly.

    Opening each folder of a chain of n from the root costs n * n / 2 lookups. Meant for a depth-first walk, in which
    those ancestors were open a moment ago.

    Args:
        root_fd: of the root; stays the caller's.
        flags: for opening folders; with STAY_ON_MOUNT they must lie on the root's mount.
    """

    def __init__(self, root_fd: int, flags: int) -> None:
        self._root_fd = root_fd
        self._flags = flags
        self._ancestors: list[tuple[bytes, int]] = []  # paths with a final slash, the outermost first

    def open(self, folder: bytes) -> int:
        """Open a folder as ``open_noatime`` does; the path in an error may be shortened to its last part."""
        if len(folder) <= _SHALLOW_BYTES:
            return open_noatime(self._root_fd, folder, self._flags)
        while self._ancestors and not folder.startswith(self._ancestors[-1][0]):
            os.close(self._ancestors.pop()[1])
        if len(self._ancestors) >= _MOST_OPEN:
            self.close()  # start over with fewer, farther apart
        step_bytes = max(_SHALLOW_BYTES, 2 * len(folder) // _MOST_OPEN)
        above, above_fd = self._ancestors[-1] if self._ancestors else (b"", self._root_fd)
        while len(folder) - len(above) > step_bytes:
            slash = folder.find(b"/", len(above) + step_bytes)
            if slash < 0:
                break
            passed = folder[len(above) : slash]
            above_fd = open_beneath(above_fd, passed, _PASS | self._flags & STAY_ON_MOUNT)
            above = folder[: slash + 1]
            self._ancestors.append((above, above_fd))
        return open_noatime(above_fd, folder[len(above) :], self._flags)

    def close(self) -> None:
        """Close all descriptors."""
        while self._ancestors:
            os.close(self._ancestors.pop()[1])


_PRIVATE = 0o700


def make_folder_at(above_fd: int, name: bytes, *, mode: int | None) -> bool:
    """
    Make a folder; if running as root, give it the owner of its parent folder.

    Anyone with write access to the parent can replace the new folder before it is opened. So the folder is checked
    before its owner changes: if it is ours, private and empty, it is the new one or equivalent.

    Args:
        above_fd: descriptor of the parent folder.
        mode: its permission bits; None: those of the parent. The set-group-ID bit is inherited from the parent.

    Returns:
        False if the name exists.

    Raises:
        OSError: it cannot be made; EBUSY: it was replaced meanwhile.
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
        inherited = mine.st_mode & stat.S_ISGID  # files inherit the folder's group
        os.fchmod(fd, (above.st_mode if mode is None else mode) & 0o777 | inherited)
        os.fsync(fd)
    finally:
        os.close(fd)
    os.fsync(above_fd)
    return True


def _is_as_made(mine: os.stat_result, above: os.stat_result) -> bool:
    """Return whether a folder looks like ours; if a file system has one owner for all, no ownership changes."""
    is_private = mine.st_mode & 0o077 == 0
    return mine.st_uid == above.st_uid or (mine.st_uid == os.geteuid() and is_private)


def _exchanged(name: bytes) -> OSError:
    return OSError(errno.EBUSY, "the folder was exchanged by somebody while it was made", name)
