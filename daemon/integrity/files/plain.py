"""
Read any file that can be opened, through the page cache, to its end, as other programs do.

Unlike ``read``, which verifies that it read one version of a regular file, this follows symbolic links, waits for FIFOs
and terminals, and reads a file to whatever end it turns out to have. Large files on a rotational disk are read one at a
time, to avoid seeks (R4).
"""

from __future__ import annotations

import errno
import os
import stat
import sys
import threading
from collections.abc import Iterator
from contextlib import suppress
from typing import TYPE_CHECKING

from integrity.errors import Unreadable
from integrity.files.block_devices import find_device
from integrity.files.buffers import Buffers
from integrity.files.open_beneath import open_beneath
from integrity.files.page_cache import lies_in_memory
from integrity.files.read import Segment
from integrity.files.stamps import witness_of
from integrity.model import ByteRange, ReadHow, Witness

if TYPE_CHECKING:
    from integrity.files.batch import PlainBatchReader

STDIN = b"-"
UNKNOWN_BYTES = sys.maxsize
"""The size of anything but a regular file."""

LARGE_BYTES = 1 << 20
"""From this size on, seeks between files are noticeable."""

_FLAGS = os.O_RDONLY | os.O_CLOEXEC | os.O_NOCTTY
_LONGEST_PATH = 4095


class PlainReader:
    """Open files by paths of any length; ``STDIN`` is standard input. Any thread may use it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._spindles: dict[int, threading.Lock | None] = {}  # by st_dev; None: not rotational

    def small_readers(self) -> tuple[PlainBatchReader]:
        """
        Return the reader for batches of small files.

        Raises:
            ImportError: the extension cannot be loaded.
        """
        from integrity.files.batch import PlainBatchReader

        return (PlainBatchReader(),)

    def can_read_beside(self, path: bytes) -> bool:
        """Return whether a regular file can be read in parallel with others without disk seeks between them."""
        try:
            if path == STDIN or not stat.S_ISREG(os.stat(path).st_mode):
                return False
            fd = _open(path)
        except OSError:
            return False  # reading it reports the error
        try:
            return self._find_turn(fd) is None
        except OSError:
            return False  # as above
        finally:
            os.close(fd)

    def open(self, path: bytes, known_bad: tuple[ByteRange, ...] = ()) -> PlainFile:  # noqa: ARG002 - used by other readers
        """
        Open a file; the caller closes it.

        Raises:
            Unreadable: it cannot be opened.
        """
        try:
            fd = os.dup(0) if path == STDIN else _open(path)
        except OSError as error:
            raise _explain(error) from error
        try:
            return PlainFile(fd, self._find_turn(fd))
        except BaseException as error:
            os.close(fd)
            if isinstance(error, OSError):
                raise _explain(error) from error
            raise

    def _find_turn(self, fd: int) -> threading.Lock | None:
        """Return the lock to hold while a large file is read from a rotational disk; None for all others."""
        status = os.fstat(fd)
        if not stat.S_ISREG(status.st_mode) or status.st_size <= LARGE_BYTES:
            return None
        with self._lock:
            if status.st_dev not in self._spindles:
                self._spindles[status.st_dev] = threading.Lock() if _is_rotational(fd) else None
            spindle = self._spindles[status.st_dev]
        return None if spindle is None or lies_in_memory(fd) else spindle


class PlainFile:
    """
    An open file; made by ``PlainReader.open``, with the interface of ``read.OpenFile``.

    Attributes:
        size_bytes: unknown before the end.
    """

    how = ReadHow.CACHE_POSSIBLE
    size_bytes = UNKNOWN_BYTES
    hole_bytes = 0  # holes are read as zeros

    def __init__(self, fd: int, turn: threading.Lock | None) -> None:
        self._fd = fd
        self._turn = turn
        self._has_turn = False
        self.stat = os.fstat(fd)
        self.bytes_read = 0
        self.bad_ranges: list[ByteRange] = []

    @property
    def witness(self) -> Witness:
        """Return the witness at opening."""
        return witness_of(self.stat)

    def segments(self, buffers: Buffers, start: int = 0) -> Iterator[Segment]:
        """
        Read from the descriptor's position to the end; ``start`` must be 0.

        On a disk that reads one file at a time, waits for the disk's lock and holds it until the file is closed.
        """
        if self._turn is not None:
            self._has_turn = self._turn.acquire()
        while True:
            view = buffers.acquire()
            try:
                count = os.readv(self._fd, (view,))
            except OSError as error:
                raise _explain(error) from error
            if not count:
                return
            if count == len(view) and not start:
                with suppress(OSError):  # only a hint, refused for a pipe
                    os.posix_fadvise(self._fd, 0, 0, os.POSIX_FADV_SEQUENTIAL)
            self.bytes_read += count
            yield Segment(start, count, view[:count])
            start += count

    def lend(self) -> int:
        """Return the descriptor, for another reader that reads it to its end."""
        return self._fd

    def take_back(self, start: int, end: int) -> None:
        """Count what the other reader read."""
        self.bytes_read += end - start

    def finish(self) -> Witness:
        """Return the witness; nothing is verified."""
        return self.witness

    def close(self) -> None:
        """Close the descriptor and release the disk's lock; may be called twice."""
        if self._fd >= 0:
            fd, self._fd = self._fd, -1
            if self._has_turn and self._turn is not None:
                self._turn.release()
            os.close(fd)

    def __enter__(self) -> PlainFile:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _open(path: bytes) -> int:
    """Open a file as any program does; resolve a path that is too long for one system call in parts."""
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


def _explain(error: OSError) -> Unreadable:
    return Unreadable(os.strerror(error.errno or 0), errno=error.errno or 0)


def _is_rotational(fd: int) -> bool:
    """Return whether the file's disk is rotational; False on an error, which the read itself reports."""
    try:
        return find_device(fd).is_rotational
    except OSError:
        return False
