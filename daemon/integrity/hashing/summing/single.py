"""One file after the other, whatever it is: opened, read to its end, digested in one pass."""

from __future__ import annotations

import errno
import os
import stat
import threading
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext, suppress

from integrity.files.opening import open_beneath
from integrity.hashing.algorithms import Hasher
from integrity.hashing.summing.disks import Disks
from integrity.hashing.summing.records import STDIN, FileSum, PieceSum

Constructors = Sequence[Callable[[], Hasher]]

_FLAGS = os.O_RDONLY | os.O_CLOEXEC | os.O_NOCTTY
_LONGEST_PATH = 4095


class Summer:
    """
    Open, read and digest one file after the other, in one thread.

    Args:
        buffer: used again and again.
        piece_bytes: size of the pieces; None for whole files.
        disks: tell whether another thread has to be waited for.
        is_over: set when nobody needs the results any more.
    """

    def __init__(self, buffer: memoryview, piece_bytes: int | None, disks: Disks, is_over: threading.Event) -> None:
        self._buffer = buffer
        self._piece_bytes = piece_bytes
        self._disks = disks
        self._is_over = is_over

    def sum(self, path: bytes, constructors: Constructors) -> FileSum:
        """Digest a file, whatever it is."""
        try:
            if path == STDIN:
                return self._read(0, path, constructors)
            fd = open_any(path)
            try:
                with self._wait_for_disk(fd):
                    return self._read(fd, path, constructors)
            finally:
                os.close(fd)
        except OSError as error:
            return FileSum(path, 0, (), error)

    def _wait_for_disk(self, fd: int) -> AbstractContextManager[object]:
        status = os.fstat(fd)
        is_large_file = stat.S_ISREG(status.st_mode) and status.st_size > len(self._buffer)
        return self._disks.turn(fd) if is_large_file else nullcontext()

    def _read(self, fd: int, path: bytes, constructors: Constructors) -> FileSum:
        """Read to the end, whatever size it was said to have: files grow, and those in /proc have none."""
        pieces: list[PieceSum] = []
        begin = position = 0
        hashers = [make() for make in constructors]
        while not self._is_over.is_set():
            rest = len(self._buffer) if self._piece_bytes is None else begin + self._piece_bytes - position
            if not rest:
                pieces.append((begin, position - begin, tuple([hasher.digest() for hasher in hashers])))
                begin, hashers = position, [make() for make in constructors]
                continue
            count = os.readv(fd, (self._buffer[:rest],))
            if not count:
                break
            if count == len(self._buffer) and not position:
                with suppress(OSError):  # only a hint, and not for a pipe
                    os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_SEQUENTIAL)
            data = self._buffer[:count]
            for hasher in hashers:
                hasher.update(data)
            position += count
        if position > begin or not pieces:
            pieces.append((begin, position - begin, tuple([hasher.digest() for hasher in hashers])))
        return FileSum(path, position, pieces, None)


def open_any(path: bytes) -> int:
    """Open a file as any program does; a path that no system call takes is resolved part by part."""
    try:
        return os.open(path, _FLAGS)
    except OSError as error:
        if error.errno != errno.ENAMETOOLONG or len(path) <= _LONGEST_PATH:
            raise
    folder = os.open(b"/" if path.startswith(b"/") else b".", os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        return open_beneath(folder, path.lstrip(b"/"), _FLAGS)
    finally:
        os.close(folder)
