"""
Open what lies beneath a root, and nothing else.

A path of a root is resolved in one go by openat2(2), which refuses to leave the root, to follow a symbolic link or one
of /proc's magic links anywhere on the way: whoever may write into a watched tree can't make a program that runs as root
read something else. Where the kernel (before 5.6) or a container's seccomp filter has no openat2, the path is walked
folder by folder with openat(2) and O_NOFOLLOW, which is as strict and only slower.

Errors are plain OSErrors with the whole path as their filename; what they mean is for the callers to say. A symbolic
link is ELOOP, or ENOTDIR where it stands in for a folder without openat2; a way out of the root is EXDEV, and so is
another mount, for those who ask to stay on theirs.

Open folders far below a root without resolving all of their paths each time.

The kernel resolves a path component by component: in a chain of n folders, opening each from the root costs n * n / 2
steps. So some of the folders on the way to the last one opened stay open. Used while a tree is walked depth first, when
what lies on the way was open a moment ago anyway.

Make a folder in somebody else's: nobody can have another one given away in its place.
"""

from __future__ import annotations

import ctypes
import errno
import os
import stat
from collections.abc import Callable
from functools import cache

from integrity.files.mounts import get_mount_id

_OPENAT2 = 437  # the same on every architecture but Alpha
_RESOLVE_NO_XDEV = 0x01
_RESOLVE_NO_MAGICLINKS = 0x02
_RESOLVE_NO_SYMLINKS = 0x04
_RESOLVE_BENEATH = 0x08

STAY_ON_MOUNT = 1 << 40
"""To be added to the flags of ``open_beneath``: fail with EXDEV if anything on the way is mounted from elsewhere."""

_LONGEST_PATH = 4095  # PATH_MAX without its NUL byte: the most that one system call resolves
_RENAME_RACES = 16  # how often openat2's EAGAIN (a rename or mount somewhere on the way) is tried again

_ALWAYS = os.O_CLOEXEC | os.O_NOFOLLOW
_NEVER_WAIT = os.O_NONBLOCK | os.O_NOCTTY  # a FIFO without a writer and a terminal must not stop a scan
_STEP = os.O_PATH | os.O_DIRECTORY | _ALWAYS  # O_PATH: to pass through a folder needs no right to list it


class _OpenHow(ctypes.Structure):
    """``struct open_how`` of openat2(2)."""

    _fields_ = (("flags", ctypes.c_uint64), ("mode", ctypes.c_uint64), ("resolve", ctypes.c_uint64))


# Looked up and typed once: this runs once a file.
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

    Never waits for the other end of a FIFO. The path may be longer than PATH_MAX.

    Args:
        root_fd: from ``open_root``, or any folder.
        path: relative to it; empty for the folder itself. ``..`` is refused.
        flags: of open(2), without O_CREAT; close-on-exec, O_NOFOLLOW, O_NONBLOCK and O_NOCTTY are added.
            STAY_ON_MOUNT may be among them.

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
    """Open as ``open_beneath`` does, for reading that doesn't move the atime where the kernel lets us (owner, root)."""
    try:
        return open_beneath(root_fd, path, flags | os.O_NOATIME)
    except PermissionError as error:
        if error.errno != errno.EPERM:
            raise
    return open_beneath(root_fd, path, flags)


def stat_beneath(root_fd: int, path: bytes, *, stay_on_mount: bool = False) -> os.stat_result:
    """
    Say what lstat(2) says of a name in a root, without following a symbolic link on the way to it, either.

    Raises:
        OSError: with ``path`` as its filename; EXDEV if it lies on another mount than the root, and is not to.
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
    Say whether an error only means that what was open was removed from its server since (ESTALE).

    Where the share as a whole is stale, looking the path up anew fails in the same way.
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
    while (fd := _syscall(_OPENAT2, folder_fd, path, how, _OPEN_HOW_BYTES)) < 0:
        code = ctypes.get_errno()
        # EINTR: Python runs its signal handlers between two turns of this loop, as os.open does.
        if code == errno.EAGAIN and races < _RENAME_RACES:
            races += 1
        elif code != errno.EINTR:
            raise OSError(code, os.strerror(code), path)
    return int(fd)


def _openat(folder_fd: int, name: bytes, flags: int) -> int:
    return os.open(name, _complete(flags), dir_fd=folder_fd)


def _refuse_other_mount(root_fd: int, fd: int, path: bytes) -> None:
    """Close ``fd`` and raise if it lies on another mount. Asked once, at the end: no path leads back to a mount."""
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
    # openat2 refuses O_PATH together with flags that mean nothing to it.
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
    """Cut a path into pieces that one system call can resolve."""
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
    """Refuse what the ways of opening would understand differently, or not as it was written."""
    if b"\0" in path:
        raise OSError(errno.EINVAL, "a path can't contain a NUL byte", path)
    if path[:1] == b"/" or b".." in path.split(b"/"):
        raise OSError(errno.EXDEV, "the path leaves its folder", path)


@cache
def _has_openat2() -> bool:
    """Ask once: EPERM alone can come from the file (O_NOATIME) as well as from a seccomp filter."""
    try:
        fd = _openat2(-100, b".", os.O_PATH)  # AT_FDCWD
    except OSError as error:
        return error.errno not in (errno.ENOSYS, errno.EPERM)
    os.close(fd)
    return True


_SHALLOW_BYTES = 1024
"""Shorter paths are resolved from the root: that is fast, and notices a folder on the way that was renamed."""

_MOST_OPEN = 16

_PASS = os.O_PATH | os.O_DIRECTORY


class DeepFolders:
    """
    Keep folders open on the way to the last one that was opened.

    Args:
        root_fd: of the root; stays the caller's.
        flags: for opening folders, STAY_ON_MOUNT among them if they are to lie on the root's mount.
    """

    def __init__(self, root_fd: int, flags: int) -> None:
        self._root_fd = root_fd
        self._flags = flags
        self._on_the_way: list[tuple[bytes, int]] = []  # paths with a slash at their ends, the outermost first

    def open(self, folder: bytes) -> int:
        """Open a folder, as ``open_noatime`` does; of an error's path only the last part is told."""
        if len(folder) <= _SHALLOW_BYTES:
            return open_noatime(self._root_fd, folder, self._flags)
        while self._on_the_way and not folder.startswith(self._on_the_way[-1][0]):
            os.close(self._on_the_way.pop()[1])
        if len(self._on_the_way) >= _MOST_OPEN:
            self.close()  # and have fewer, further apart
        step_bytes = max(_SHALLOW_BYTES, 2 * len(folder) // _MOST_OPEN)
        above, above_fd = self._on_the_way[-1] if self._on_the_way else (b"", self._root_fd)
        while len(folder) - len(above) > step_bytes:
            slash = folder.find(b"/", len(above) + step_bytes)
            if slash < 0:
                break
            passed = folder[len(above) : slash]
            above_fd = open_beneath(above_fd, passed, _PASS | self._flags & STAY_ON_MOUNT)
            above = folder[: slash + 1]
            self._on_the_way.append((above, above_fd))
        return open_noatime(above_fd, folder[len(above) :], self._flags)

    def close(self) -> None:
        """Close what is open."""
        while self._on_the_way:
            os.close(self._on_the_way.pop()[1])


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
