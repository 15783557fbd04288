"""
Give files other names without ever replacing one: exchange two names, or take one that is free.

renameat2(2) does both at once and atomically. Where a file system has it not, exchanging is refused, for there is no
other way that is atomic; a free name is then looked for first, which leaves a moment for somebody to take it.

FUSE servers get the flags handed on and some never look at them: an exchange there would be a plain rename, and what
stood under the second name would be gone. So they are never asked.
"""

from __future__ import annotations

import ctypes
import errno
import os

from integrity.files.open_beneath import stat_beneath
from integrity.model import Capability

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
