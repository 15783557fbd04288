"""
Read a file as one stable version (R1), from memory or disk as the mode requires (R4).

``Reader`` opens a file, ``OpenFile`` reads it and then verifies that all data belongs to one version. ``span`` fetches
the bytes; others judge their digests. A file is never mapped: a truncation or a read error would raise a signal instead
of an exception.
"""

from __future__ import annotations

import errno
import os
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from stat import S_ISREG
from typing import TYPE_CHECKING, NamedTuple

from integrity.errors import Leased, ReadError, Unreadable, Unstable, Vanished, show_path
from integrity.files.buffers import Buffers
from integrity.files.direct_io import write_back
from integrity.files.open_beneath import open_beneath, stat_beneath, was_removed
from integrity.files.page_cache import lies_in_memory
from integrity.files.read_errors import ErrorBudget, describe_bad, describe_failure
from integrity.files.replace_file import is_open_for_writing
from integrity.files.span import PAGES_ELSEWHERE, SURE_DIRECT, UNLIMITED, Pace, ReadMode, SpanReader, Terms, find_data
from integrity.files.stamps import RacyWindow, witness_of
from integrity.model import ByteRange, Capability, ReadHow, Witness

if TYPE_CHECKING:
    from integrity.files.batch import BatchReader


_NOT_THERE = frozenset({errno.ENOENT, errno.ENOTDIR, errno.ELOOP, errno.ESPIPE})
"""The file is gone or was replaced: a parent folder became a link or a file, or the file became a link or a FIFO."""

MOST_SPARSE_BYTES = 16 << 40
"""The maximum file size of ext4. Elsewhere, one call creates a file of 8 EiB that takes years to digest."""

_LYING_HOLES = frozenset({"zfs"})
"""OpenZFS has reported fresh data as holes (openzfs/zfs#15526), and a write-back does not flush its writes."""


class Segment(NamedTuple):
    """
    A piece of a file; segments come in file order.

    ``data`` is None for a hole: ``length`` zeros. Otherwise it is valid until the ring reuses its buffer.
    """

    offset: int
    length: int
    data: memoryview | None


class Reader:
    """Open the files of one root, each for one reading. Any thread may use it; each file belongs to one thread."""

    def __init__(
        self,
        root_fd: int,
        capability: Capability,
        *,
        mode: ReadMode,
        pace: Pace = UNLIMITED,
        budget: ErrorBudget | None = None,
        clock_ns: Callable[[], int] = time.time_ns,
        use_holes: bool = True,
    ) -> None:
        """
        Store the settings for all files.

        Args:
            root_fd: the root's folder; stays the caller's.
            capability: of its file system.
            mode: the purpose of the readings.
            pace: consulted before each read from the disk.
            budget: error budget of the device; None creates one, because no failing disk may be read forever.
            clock_ns: the wall clock, comparable with the file system's timestamps.
            use_holes: False reads holes as well: a confirming re-read trusts no hole map (R3).
        """
        self._root_fd = root_fd
        self._terms = Terms(capability, mode, pace, budget or ErrorBudget())
        self._begin_window = partial(RacyWindow, clock_ns, capability.granularity_ns, is_remote=capability.is_remote)
        self._use_holes = use_holes and capability.fs_type not in _LYING_HOLES

    def open(self, path: bytes, known_bad: tuple[ByteRange, ...] = ()) -> OpenFile:
        """
        Open a file, write back its dirty pages, and take its first stat.

        Args:
            path: relative to the root.
            known_bad: ranges that could not be read before: another disk error within them ends the reading, because
                narrowing it down again would only wear a failing disk.

        Returns:
            The file; the caller closes it.

        Raises:
            Vanished: the file does not exist or is no longer a regular file.
            Unreadable: it cannot be opened or written back, or it is a huge sparse file.
            Leased: another program holds a lease on it (Samba's oplocks).
        """
        try:
            fd = _open_quietly(self._root_fd, path)
        except OSError as error:
            raise self._explain_open(path, error) from error
        try:
            window = self._begin_window()
            write_back(fd)
            stat = _stat_regular(fd, path)
            _require_feasible(path, stat)
            return OpenFile(fd, self._root_fd, path, stat, self._terms, window, self._use_holes, known_bad)
        except BaseException as error:
            _close(fd)
            if isinstance(error, OSError):
                raise _explain(path, "bring to the disk", error, witness=_stat_witness(fd)) from error
            raise

    def is_being_written(self, path: bytes) -> bool:
        """
        Return whether a reading begun now would have a racy witness because the file may be open for writing.

        That lasts until its timestamps are older than the longest write, not just than one granule. False if the file
        cannot be opened: opening it to read reports why.
        """
        try:
            fd = _open_quietly(self._root_fd, path)
        except OSError:
            return False
        try:
            window, stat = self._begin_window(), os.fstat(fd)
            return _may_be_written(fd, stat, window) and window.covers(
                stat.st_mtime_ns, stat.st_ctime_ns, has_writer=True
            )
        finally:
            os.close(fd)

    @property
    def reads_memory(self) -> bool:
        """Return whether pages in memory may be read from there."""
        return self._terms.mode is ReadMode.RECORD

    def can_read_beside(self, path: bytes) -> bool:
        """
        Return whether a file would be read (nearly) all from memory, without waiting for its disk.

        Always False if this reader must read the disk, and False if residency is unknown.
        """
        if not self.reads_memory:
            return False
        try:
            fd = _open_quietly(self._root_fd, path)
        except OSError:
            return False  # opening it to read reports the error
        try:
            return lies_in_memory(fd)
        finally:
            os.close(fd)

    def small_readers(self) -> list[BatchReader]:
        """
        Return the fast paths for small files, with the guarantees of this reader; there may be none.

        Each is to read what those before it left out; what all of them leave out needs ``open``.

        Raises:
            ImportError: the extension cannot be loaded.
        """
        from integrity.files.batch import BatchReader, Way  # imported here: all else works without the extension

        capability = self._terms.capability
        fs_type, is_direct = capability.fs_type, capability.has_direct_io and self._use_holes
        ways = [Way.DIRECT] if is_direct and fs_type in SURE_DIRECT else []
        if self.reads_memory:
            ways = [Way.MEMORY, *ways, Way.KEPT if fs_type in PAGES_ELSEWHERE else Way.PASSING]
        elif is_direct and fs_type == "btrfs":
            ways = [Way.UNENCODED, Way.DROPPED]
        return [BatchReader(self._root_fd, self._begin_window, way, pace=self._terms.pace) for way in ways]

    def _explain_open(self, path: bytes, error: OSError) -> ReadError:
        """Translate an error of open: ENXIO and ENODEV mean a socket or device node, or a lost disk."""
        if error.errno in (errno.ENXIO, errno.ENODEV):
            try:
                is_regular = S_ISREG(stat_beneath(self._root_fd, path).st_mode)
            except OSError as gone:
                return _explain(path, "open", gone)
            if not is_regular:
                return _make_vanished(path)
        if error.errno == errno.EAGAIN:
            return Leased(f"cannot open {show_path(path)}: another program holds a lease on it; try again")
        return _explain(path, "open", error, witness=self._stat_beneath(path))

    def _stat_beneath(self, path: bytes) -> Witness | None:
        """Return the witness of a file that cannot be opened, at once: its name may soon be another file's."""
        try:
            return witness_of(stat_beneath(self._root_fd, path))
        except OSError:
            return None


class OpenFile:
    """
    One reading of one file; a context manager, used by one thread.

    Attributes:
        size_bytes: the size by the first stat, which is what is read.
    """

    __slots__ = ("_fd", "_has_writer", "_path", "_root_fd", "_spans", "_use_holes", "_window", "size_bytes", "stat")

    def __init__(
        self,
        fd: int,
        root_fd: int,
        path: bytes,
        stat: os.stat_result,
        terms: Terms,
        window: RacyWindow,
        use_holes: bool,
        known_bad: tuple[ByteRange, ...],
    ) -> None:
        self._fd = fd
        self._root_fd = root_fd
        self._path = path
        self._window = window
        self._has_writer = _may_be_written(fd, stat, window)
        self._use_holes = use_holes
        self.stat = stat
        self.size_bytes = stat.st_size
        self._spans = SpanReader(fd, path, witness_of(stat), terms, known_bad)

    @property
    def how(self) -> ReadHow:
        """Return how certain it is that the data came from the disk; final after the last segment."""
        return self._spans.how

    @property
    def hole_bytes(self) -> int:
        """Return how many bytes of the file are not stored."""
        return self.size_bytes - self.stat.st_blocks * 512

    @property
    def bad_ranges(self) -> list[ByteRange]:
        """Return the ranges that could not be read so far, merged."""
        return self._spans.bad_ranges

    @property
    def bytes_read(self) -> int:
        """Return the number of bytes read so far, without holes and bad ranges."""
        return self._spans.bytes_read

    @property
    def witness(self) -> Witness:
        """Return the first stat, marked racy if that applies to what was read so far; ``finish`` verifies it."""
        witness = witness_of(self.stat)
        is_racy = self._window.covers(witness.mtime_ns, witness.ctime_ns, has_writer=self._has_writer)
        return witness._replace(is_racy=True) if is_racy else witness

    def segments(self, buffers: Buffers, start: int = 0) -> Iterator[Segment]:
        """
        Read the file from ``start`` to the size of the first stat, in order; call it once.

        Bad ranges are left out and added to ``bad_ranges``. A segment with data lies within one multiple of the buffer
        size; a hole is one segment of any length. If the file ends early, so do the segments, and ``finish`` raises.

        Args:
            buffers: acquired in order, at most one per segment.
            start: a multiple of 4,096.

        Raises:
            Unreadable: continuing is pointless; holds the bad ranges known so far.
            ReadInterrupted: from the pace.
        """
        try:
            self._spans.begin(buffers.size_bytes)
            if self.size_bytes - start > buffers.size_bytes or self._may_have_holes():
                return self._walk(buffers, start)
            return iter(self._read(buffers, start, self.size_bytes))
        except OSError as error:
            raise self._explain_failure("read", error) from error

    def lend(self) -> int | None:
        """
        Return the descriptor, for a reader that reads the whole file through the cache instead of ``segments``.

        Returns:
            None if the file must be read here: it may have holes, or the pace must be consulted.

        Raises:
            Unreadable: the file cannot be queried.
        """
        try:
            return None if self._may_have_holes() or not self._spans.begin_elsewhere() else self._fd
        except OSError as error:
            raise self._explain_failure("read", error) from error

    def take_back(self, start: int, end: int) -> None:
        """Record what the other reader read; it stopped at ``end`` because it could read no further."""
        self._spans.bytes_read += end - start
        self._spans.has_ended = end < self.size_bytes

    def _explain_failure(self, doing: str, error: OSError) -> ReadError:
        """Translate an error: ESTALE can mean that the file was removed or replaced on its server."""
        if was_removed(self._root_fd, self._path, error):
            return _make_vanished(self._path)
        if error.errno == errno.ESTALE and self._was_replaced():
            return Unstable(f"{show_path(self._path)} was replaced while it was read; try again")
        return _explain(self._path, doing, error, tuple(self.bad_ranges), witness=witness_of(self.stat))

    def _was_replaced(self) -> bool:
        try:
            return stat_beneath(self._root_fd, self._path).st_ino != self.stat.st_ino
        except OSError:
            return False

    def finish(self) -> Witness:
        """
        Verify that all data belongs to one version of the file, then restore the cache and return the witness.

        Raises:
            Vanished: the path no longer leads to a regular file.
            Unstable: size, mtime, ctime or inode changed, or the file ended early.
            Unreadable: some ranges could not be read, or stat fails.
        """
        try:
            after = os.fstat(self._fd)
            there = stat_beneath(self._root_fd, self._path)
        except OSError as error:
            raise self._explain_failure("stat", error) from error
        if not S_ISREG(there.st_mode):
            raise _make_vanished(self._path)
        seen = witness_of(self.stat)
        if witness_of(after) != seen or witness_of(there) != seen:
            raise Unstable(f"{show_path(self._path)} changed while it was read; try again when nobody writes to it")
        if self._spans.has_ended:
            raise Unstable(f"{show_path(self._path)} ended before its size; try again")
        if self.bad_ranges:
            raise describe_bad(self._path, self.bad_ranges, is_refused=self._spans.is_refused, witness=seen)
        self._spans.give_back()
        return self.witness

    def close(self) -> None:
        """Restore the cache and close the descriptor; may be called twice."""
        if self._fd < 0:
            return
        fd, self._fd = self._fd, -1
        try:
            self._spans.give_back()
        finally:
            _close(fd)

    def __enter__(self) -> OpenFile:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _may_have_holes(self) -> bool:
        return self._use_holes and self.stat.st_blocks * 512 < self.size_bytes

    def _walk(self, buffers: Buffers, start: int) -> Iterator[Segment]:
        """Yield the segments of a file that is large or sparse."""
        position = start
        try:
            for first, length in self._find_data(start):
                if first > position:
                    yield Segment(position, first - position, None)
                position = first + length
                while first < position:
                    end = min(position, (first // buffers.size_bytes + 1) * buffers.size_bytes)
                    yield from self._read(buffers, first, end)
                    if self._spans.has_ended:
                        return
                    first = end
        except OSError as error:
            raise self._explain_failure("read", error) from error
        if position < self.size_bytes:
            yield Segment(position, self.size_bytes - position, None)

    def _find_data(self, start: int) -> Iterator[ByteRange]:
        if not self._use_holes:
            return iter(((start, self.size_bytes - start),))
        return find_data(self._fd, start, self.size_bytes)

    def _read(self, buffers: Buffers, start: int, end: int) -> list[Segment]:
        if start >= end:
            return []
        view = buffers.acquire()
        good = self._spans.read(view, start, end)
        if not good:
            buffers.release()
        return [Segment(offset, length, view[offset - start : offset - start + length]) for offset, length in good]


def _open_quietly(root_fd: int, path: bytes) -> int:
    """Open for reading, without updating the atime if the kernel permits."""
    try:
        return open_beneath(root_fd, path, os.O_RDONLY | os.O_NOATIME)
    except PermissionError as error:
        if error.errno != errno.EPERM:  # EACCES: no permission to read
            raise
    return open_beneath(root_fd, path, os.O_RDONLY)  # O_NOATIME needs the owner or root


def _close(fd: int) -> None:
    """
    Close a descriptor that was only read from.

    close(2) always frees the number, and an error (from a dead FUSE server, say) concerns a flush of data that this
    descriptor never had; raising it would hide why the reading failed.
    """
    with suppress(OSError):
        os.close(fd)


def _stat_regular(fd: int, path: bytes) -> os.stat_result:
    stat = os.fstat(fd)
    if not S_ISREG(stat.st_mode):
        raise _make_vanished(path)
    return stat


def _require_feasible(path: bytes, stat: os.stat_result) -> None:
    """Refuse a huge sparse file: it has more blocks than can be digested and stored."""
    stored_bytes = stat.st_blocks * 512
    if stat.st_size > MOST_SPARSE_BYTES and stored_bytes * 2 < stat.st_size:
        raise Unreadable(
            f"{show_path(path)} claims {stat.st_size:,} bytes, of which {stored_bytes:,} are stored; sparse files of"
            f" more than {MOST_SPARSE_BYTES >> 40} TiB are not read: exclude it",
            errno=errno.EFBIG,
        )


def _may_be_written(fd: int, stat: os.stat_result, window: RacyWindow) -> bool:
    """Return whether a program may have the file open for writing; checked only if its timestamps are recent."""
    is_recent = max(stat.st_mtime_ns, stat.st_ctime_ns) >= window.recent_since_ns
    return is_recent and is_open_for_writing(fd) is not False


def _make_vanished(path: bytes) -> Vanished:
    return Vanished(f"{show_path(path)} is no longer a regular file; scan again")


def _stat_witness(fd: int) -> Witness | None:
    try:
        return witness_of(os.fstat(fd))
    except OSError:
        return None


def _explain(
    path: bytes, doing: str, error: OSError, ranges: tuple[ByteRange, ...] = (), *, witness: Witness | None = None
) -> ReadError:
    if error.errno in _NOT_THERE:
        return Vanished(f"cannot {doing} {show_path(path)}: {os.strerror(error.errno)}; scan again")
    return describe_failure(path, doing, error, ranges, witness=witness)
