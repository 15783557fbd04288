"""Files of every shape: plain, sparse, sharing their extents, deeper than any path."""

from __future__ import annotations

import fcntl
import hashlib
import os
from collections.abc import Sequence
from pathlib import Path

from support import AnyPath

MIB = 1 << 20
TIB = 1 << 40

_FICLONE = 0x40049409  # linux/fs.h


def put(path: AnyPath, data: bytes = b"content\n") -> None:
    """Write a file."""
    with open(path, "wb") as file:
        file.write(data)


def put_in(folder: Path, name: str, data: bytes) -> bytes:
    """Write a file in ``folder`` and return its path."""
    put(folder / name, data)
    return bytes(folder / name)


def damage(path: AnyPath, *offsets: int) -> None:
    """Flip a bit of bytes of a file, the first if none is named, and put its times back: a silent rewrite."""
    with open(path, "r+b") as file:
        before = os.fstat(file.fileno())
        for offset in offsets or (0,):
            byte = os.pread(file.fileno(), 1, offset)
            os.pwrite(file.fileno(), bytes([byte[0] ^ 1]), offset)
        os.utime(file.fileno(), ns=(before.st_atime_ns, before.st_mtime_ns))


def put_large(path: AnyPath, size_bytes: int) -> None:
    """Write a file in which no two MiB are alike, the same for the same size."""
    with open(path, "wb") as file:
        for number, offset in enumerate(range(0, size_bytes, MIB)):
            file.write(hashlib.shake_128(b"%d" % number).digest(min(MIB, size_bytes - offset)))


def put_sparse(path: AnyPath, size_bytes: int, pieces: Sequence[tuple[int, bytes]] = ()) -> None:
    """Write a file of holes, with ``pieces`` of data at offsets."""
    with open(path, "wb") as file:
        for offset, data in pieces:
            os.pwrite(file.fileno(), data, offset)
        file.truncate(size_bytes)


def put_clone(source: AnyPath, target: AnyPath) -> None:
    """Make ``target`` share its extents with ``source``, as ``cp --reflink`` does; xfs and btrfs only."""
    with open(source, "rb") as original, open(target, "wb") as clone:
        fcntl.ioctl(clone.fileno(), _FICLONE, original.fileno())


def put_deep(folder: AnyPath, levels: int, name: bytes) -> None:
    """Make ``levels`` folders in one another with a file at the bottom, by openat: no call takes such a path whole."""
    fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    for _ in range(levels):
        os.mkdir(name, dir_fd=fd)
        below = os.open(name, os.O_RDONLY | os.O_DIRECTORY, dir_fd=fd)
        os.close(fd)
        fd = below
    file = os.open(b"bottom.txt", os.O_CREAT | os.O_WRONLY, 0o644, dir_fd=fd)
    os.write(file, b"deep\n")
    os.close(file)
    os.close(fd)
