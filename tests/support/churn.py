"""A folder that changes while somebody reads it."""

from __future__ import annotations

import os
import random

from support import AnyPath
from support.shapes import put


def churn(folder: AnyPath, changes: int, *, seed: int = 1) -> None:
    """
    Change the files of ``folder`` (made if need be) in as many ways as there are, ``changes`` times.

    They grow, shrink, are replaced, swapped for a symlink, a FIFO or a folder and back, and rewritten with their mtime
    put back. Meant for a thread, while somebody reads the folder; it ends with eight regular files.
    """
    source, root = random.Random(seed), os.fsencode(folder)
    os.makedirs(root, exist_ok=True)
    paths = [os.path.join(root, b"churn-%d" % nth) for nth in range(8)]
    for path in paths:
        put(path, source.randbytes(1 << 20))
    kinds = (_grow, _shrink, _replace, _swap_symlink, _swap_fifo, _swap_folder, _rewrite_unseen)
    for _ in range(changes):
        source.choice(kinds)(source.choice(paths), source)


def _grow(path: bytes, source: random.Random) -> None:
    with open(path, "ab") as file:
        file.write(source.randbytes(70000))


def _shrink(path: bytes, source: random.Random) -> None:
    os.truncate(path, source.randrange(1, 1 << 20))


def _replace(path: bytes, source: random.Random) -> None:
    put(path + b".new", source.randbytes(source.randrange(1 << 20)))
    os.rename(path + b".new", path)


def _swap_symlink(path: bytes, source: random.Random) -> None:
    os.unlink(path)
    os.symlink(b"/etc/passwd", path)
    os.unlink(path)
    put(path)


def _swap_fifo(path: bytes, source: random.Random) -> None:
    os.unlink(path)
    os.mkfifo(path)
    os.unlink(path)
    put(path)


def _swap_folder(path: bytes, source: random.Random) -> None:
    os.unlink(path)
    os.mkdir(path)
    os.rmdir(path)
    put(path)


def _rewrite_unseen(path: bytes, source: random.Random) -> None:
    with open(path, "r+b") as file:
        before = os.fstat(file.fileno())
        os.pwrite(file.fileno(), b"!" * 10, source.randrange(max(1, before.st_size)))
        os.utime(file.fileno(), ns=(before.st_atime_ns, before.st_mtime_ns))
