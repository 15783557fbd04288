"""
Disks that are full, read-only, dead, gone, or not the one that should be there.

Each context manager undoes what it did. What is only called once a test is at its end (``vanish``, ``shut_down``)
leaves a mount point that ``LoopFS`` still cleans up.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from support import AnyPath
from support.loopfs import unmount
from support.mountinfo import get_mount, is_mounted
from support.programs import sh

_BALLAST = b".ballast"


@contextmanager
def small_tmpfs(folder: AnyPath, size_bytes: int, *, inodes: int = 0) -> Iterator[bytes]:
    """
    Mount a tmpfs of ``size_bytes`` on ``folder`` (made if need be) and yield it in bytes.

    With ``inodes`` it is full when so many files and folders exist (the root folder is one), with bytes still free.
    """
    os.makedirs(folder, exist_ok=True)
    sh("mount", "-t", "tmpfs", "-o", f"size={size_bytes},nr_inodes={inodes}", "tmpfs", folder)
    try:
        yield os.fsencode(folder)
    finally:
        unmount(folder)


@contextmanager
def hidden(folder: AnyPath) -> Iterator[None]:
    """Put an empty file system over ``folder``: what a disk that is not mounted looks like. No error, no event."""
    sh("mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", folder)
    try:
        yield
    finally:
        unmount(folder)


@contextmanager
def bound(source: AnyPath, folder: AnyPath) -> Iterator[None]:
    """Show the folder ``source`` at ``folder`` as well."""
    sh("mount", "--bind", source, folder)
    try:
        yield
    finally:
        unmount(folder)


@contextmanager
def filled(folder: AnyPath, *, keep_bytes: int = 0) -> Iterator[None]:
    """
    Fill the file system of ``folder`` until ENOSPC, then give ``keep_bytes`` back; made for small ones.

    Reserved blocks and rounding make the last bytes come and go in several ways, so they are written down to the byte.
    """
    ballast = os.path.join(os.fsencode(folder), _BALLAST)
    status = os.statvfs(folder)
    fd = os.open(ballast, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600)
    try:
        with suppress(OSError):  # ENOSPC is the aim
            os.posix_fallocate(fd, 0, status.f_bavail * status.f_frsize)
        os.lseek(fd, 0, os.SEEK_END)
        for chunk in (1 << 20, 4096, 1):
            with suppress(OSError):
                while True:
                    os.write(fd, bytes(chunk))
        if keep_bytes:
            os.ftruncate(fd, max(0, os.fstat(fd).st_size - keep_bytes))
        yield
    finally:
        os.close(fd)
        os.unlink(ballast)


def vanish(folder: AnyPath) -> None:
    """Detach what is mounted on ``folder`` while it is used: the path shows the mount point, open descriptors go on."""
    sh("umount", "-l", folder)


def shut_down(folder: AnyPath) -> None:
    """
    Kill an ext4 or xfs at once: EIO on everything until unmounted, what was not fsynced is lost.

    A yanked disk, or a power cut when it is mounted again. btrfs has no such call: take a ``FlakyDisk``.
    """
    sh("xfs_io", "-x", "-c", "shutdown", folder)


@contextmanager
def unmounted(folder: AnyPath) -> Iterator[None]:
    """Take what is mounted on ``folder`` away and bring it back: a removable disk that is absent for a while."""
    mount = get_mount(folder)
    assert is_mounted(folder), f"{folder!r} is no mount point"
    sh("mount", "--make-private", folder)
    parked = os.fsencode(folder) + b".parked"
    os.mkdir(parked)
    sh("mount", "--bind", folder, parked)  # keeps the file system and its loop device alive
    unmount(folder)
    try:
        yield
    finally:
        sh("mount", "--bind", parked, folder)
        unmount(parked)
        os.rmdir(parked)
        assert get_mount(folder).source == mount.source
