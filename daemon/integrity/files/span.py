"""
Read spans of one open file: from cache or disk, around bad sectors, without changing the cache.

Decides what a reading does to the cache and how certain it is that the disk was read (R4):

- DISK: O_DIRECT. Where that is missing or not vouched for, the file's clean pages are dropped first: nothing else makes
  a buffered read reach the disk. What was read through the cache is dropped afterwards.
- RECORD: what is in memory is read from there and stays. The rest is read with O_DIRECT; where that is missing, or
  costs more for a small file than it saves (``SURE_DIRECT``), through the cache, and is then dropped. If residency is
  unknown, nothing is dropped.

Residency is checked before anything is read: even RWF_NOWAIT starts a readahead, whose pages would look like another
program's. Hole maps make a terabyte of zeros cheap; they are valid only with the stability check that ends a reading
(R1), and a confirming re-read ignores them (R3).
"""

from __future__ import annotations

import errno
import math
import mmap
import os
import time
from collections import deque
from collections.abc import Iterator
from enum import StrEnum
from typing import NamedTuple

from integrity.files.direct_io import (
    USUAL_ALIGNMENT_BYTES,
    direct_alignment,
    has_encoded_extents,
    sector_bytes,
    set_direct,
)
from integrity.files.page_cache import drop_clean_pages, find_absent, page_bytes, resident_bytes
from integrity.files.read_errors import BAD_MEDIUM, REFUSED, ErrorBudget, add_range, cut, describe_bad, describe_failure
from integrity.model import ByteRange, Capability, ReadHow, Witness

_GRAIN_BYTES = 4096  # so that O_DIRECT can read every data range, whatever the block size


def find_data(fd: int, start: int, size: int) -> Iterator[ByteRange]:
    """
    Yield the ranges of data between ``start`` and ``size``, in order, widened to multiples of 4,096.

    Each range is looked up when it is requested.

    Raises:
        OSError: the map cannot be read, for example EIO.
    """
    position = start
    while position < size:
        data = _seek_data(fd, position)
        if data is None or data >= size:
            return
        hole = os.lseek(fd, data, os.SEEK_HOLE)
        first = max(position, data // _GRAIN_BYTES * _GRAIN_BYTES)
        position = min(size, -(-hole // _GRAIN_BYTES) * _GRAIN_BYTES)
        yield first, position - first


def _seek_data(fd: int, position: int) -> int | None:
    """Return the next position with data; None if only a hole follows."""
    try:
        return os.lseek(fd, position, os.SEEK_DATA)
    except OSError as error:
        if error.errno == errno.ENXIO:
            return None
        if error.errno in (errno.EINVAL, errno.EOPNOTSUPP):  # no hole maps here: treat everything as data
            return position
        raise


_PAGES_ARE_ALL = frozenset(
    {"bcachefs", "btrfs", "exfat", "ext2", "ext3", "ext4", "f2fs", "hfsplus", "iso9660", "jfs", "nilfs2", "ntfs3"}
    | {"reiserfs", "udf", "vfat", "xfs"}
)
"""Local file systems whose only cache is the page cache: below it is the disk. On others memory may have answered:
tmpfs accepts O_DIRECT and reads memory; FUSE, network servers, ZFS and overlays cache elsewhere."""

SURE_DIRECT = _PAGES_ARE_ALL - {"btrfs"}
"""Here a file that the kernel vouches for comes from the disk. btrfs is excluded: it stores some files so that they
cannot."""

PAGES_ELSEWHERE = frozenset({"overlay", "zfs"})
"""File systems with caches of their own or in a lower layer: no resident page proves nothing."""

_ANY_SIZE = 1 << 62

_MOST_REFUSALS = 1000
"""Reads per file rejected by the file system that are narrowed down; later failures count as bad as a whole. They cost
a disk nothing, but a file of terabytes with damage everywhere would be read page by page."""

_MOST_PIECES = 4096  # most pieces per file in the map of resident pages


def can_prove_disk_read(capability: Capability) -> bool:
    """Return whether a reading there can be certain to come from the disk."""
    return capability.fs_type in _PAGES_ARE_ALL


class ReadMode(StrEnum):
    """The purpose of a reading."""

    RECORD = "record"  # read cached data from memory and keep it; leave nothing else in the cache
    DISK = "disk"  # read from the disk: O_DIRECT, else drop clean pages first


class Pace:
    """
    Limit a reading: by a rate, the machine's load, a stop request. Any thread may use it.

    The base class does not limit; subclasses do.
    """

    @property
    def holds_back(self) -> bool:
        """Return whether each read must call ``take`` and ``took``."""
        return type(self) is not Pace

    def piece_bytes(self) -> int:
        """Return the most bytes for one read, so that others do not wait long: a multiple of 64 KiB."""
        return _ANY_SIZE

    def share_bytes(self, duration_s: float) -> float:  # noqa: ARG002 (for those who inherit)
        """Return how many bytes may be read in this time at the current rate."""
        return math.inf

    def take(self, size_bytes: int) -> None:
        """
        Wait until this many bytes may be read from the disk; the reading thread calls it before each such read.

        Raises:
            ReadInterrupted: the reading must end.
        """

    def took(self, size_bytes: int, duration_s: float, reads: int = 1) -> None:
        """
        Record a finished read; called once per ``take`` that returned, by the same thread.

        Args:
            size_bytes: bytes read; 0 if the read failed.
            reads: number of consecutive reads it consisted of; at least 1.
        """

    def duration_s(self, size_bytes: int) -> float:  # noqa: ARG002 (for those who inherit)
        """Return the longest wait for this many bytes, in seconds: a reader that waits this long does not hang."""
        return 0.0


UNLIMITED = Pace()


class Terms(NamedTuple):
    """Settings for all files of one reader."""

    capability: Capability
    mode: ReadMode
    pace: Pace
    budget: ErrorBudget


class SpanReader:
    """
    Read one open descriptor; used by one thread, which calls ``begin`` first and ``give_back`` at the end.

    Attributes:
        how: how certain it is that the disk answered, for everything read so far.
        bad_ranges: what could not be read so far, merged.
        has_ended: a read found the end of the file before its expected size.
        is_refused: the file system rejected every bad range after the disk delivered it; also True without any.
    """

    __slots__ = (
        "_alignment",
        "_fd",
        "_is_direct",
        "_is_large",
        "_is_probing",
        "_known_bad",
        "_ours",
        "_path",
        "_refusals",
        "_size_bytes",
        "_terms",
        "_unit",
        "_witness",
        "bad_ranges",
        "bytes_read",
        "has_ended",
        "how",
        "is_refused",
    )

    def __init__(
        self, fd: int, path: bytes, witness: Witness, terms: Terms, known_bad: tuple[ByteRange, ...] = ()
    ) -> None:
        self._fd = fd
        self._path = path
        self._witness = witness
        self._size_bytes = witness.size_bytes
        self._terms = terms
        self._alignment = 0  # of O_DIRECT; 0 while all reads use the cache
        self._is_direct = False  # O_DIRECT is set on the descriptor now
        self._is_large = False  # more than one span
        self._is_probing = False  # all of it may be in memory: try without waiting first
        self._ours: deque[ByteRange] = deque()  # was not in memory before, must be dropped
        self._known_bad = known_bad
        self._refusals = 0
        self._unit = 0  # smallest readable unit; 0: not determined yet
        self.how = ReadHow.CACHE_POSSIBLE
        self.bad_ranges: list[ByteRange] = []
        self.bytes_read = 0
        self.has_ended = False
        self.is_refused = True

    def begin(self, buffer_bytes: int) -> None:
        """
        Decide how this file is read.

        Args:
            buffer_bytes: the longest span that will be requested.

        Raises:
            OSError: the file cannot be queried.
        """
        self._is_large = self._size_bytes > buffer_bytes
        may_be_small = self._size_bytes and self._terms.capability.fs_type in SURE_DIRECT  # of nothing, nothing is read
        if self._terms.mode is ReadMode.DISK or self._is_large or may_be_small:
            self._begin_direct(buffer_bytes)
        if not self._alignment:
            self._begin_buffered(0)

    def begin_elsewhere(self) -> bool:
        """
        Prepare for another reader that reads the whole file through the cache, instead of ``begin``.

        Returns:
            Whether it may: otherwise the pace must be consulted, because not everything is in memory.

        Raises:
            OSError: the file cannot be queried.
        """
        self._begin_buffered(0)
        return self._is_probing or not self._terms.pace.holds_back

    def read(self, view: memoryview, start: int, end: int) -> list[ByteRange]:
        """
        Read from ``start`` to ``end`` into the beginning of ``view``, skipping bad ranges.

        Returns:
            The readable ranges in order; byte p of the file is at p - start in the view.

        Raises:
            Unreadable: the disk must be left alone; raised with the bad ranges.
            OSError: the error does not concern one place on the disk.
            ReadInterrupted: from the pace.
        """
        if self._alignment and self._terms.mode is ReadMode.RECORD:
            self._choose_way(start, end)
        if self._is_probing and self._read_memory(view[: end - start], start):
            self.bytes_read += end - start
            return [(start, end - start)]
        good = self._read_around(view, start, end)
        if self._is_large:
            self._drop_behind(end)
        return good

    def give_back(self) -> None:
        """Drop from the cache what this reading brought there; may be called twice."""
        while self._ours:
            offset, length = self._ours.popleft()
            drop_clean_pages(self._fd, offset, length)

    def _begin_direct(self, buffer_bytes: int) -> None:
        fs_type = self._terms.capability.fs_type
        if not self._terms.capability.has_direct_io or (fs_type == "btrfs" and has_encoded_extents(self._fd)):
            return
        vouched = direct_alignment(self._fd)
        alignment = USUAL_ALIGNMENT_BYTES if vouched is None else vouched
        if not alignment or buffer_bytes % alignment or not set_direct(self._fd, True):
            return
        self._is_direct = True
        self._alignment = alignment
        is_sure = fs_type in _PAGES_ARE_ALL
        if vouched is None and self._terms.mode is ReadMode.DISK:
            drop_clean_pages(self._fd)
            # O_DIRECT on btrfs also bypasses pages that could not be dropped; old kernels: unknown
            is_sure = is_sure and (fs_type == "btrfs" or self._resident(0, self._size_bytes) == 0)
        elif vouched is None and fs_type != "btrfs":
            is_sure = False
        self.how = ReadHow.DIRECT if is_sure else ReadHow.CACHE_POSSIBLE

    def _begin_buffered(self, start: int) -> None:
        """Prepare the cache before the first buffered read: in DISK mode drop pages, else record which are resident."""
        size_bytes = self._size_bytes - start
        self.how = ReadHow.CACHE_POSSIBLE
        if self._terms.mode is ReadMode.DISK:
            drop_clean_pages(self._fd)
            self._ours.append((start, size_bytes))
            fs_type = self._terms.capability.fs_type
            if fs_type in _PAGES_ARE_ALL and self._resident(0, self._size_bytes) == 0:
                is_encoded = fs_type == "btrfs" and has_encoded_extents(self._fd)
                self.how = ReadHow.CACHE_POSSIBLE if is_encoded else ReadHow.DROPPED
            return
        resident = self._resident(start, size_bytes)
        if resident is None or resident >= page_bytes(size_bytes, start):
            self._is_probing = True
        elif resident == 0:
            self._ours.append((start, size_bytes))
        else:
            absent: list[ByteRange] = []
            grain_bytes = max(mmap.PAGESIZE, size_bytes // _MOST_PIECES)
            for offset, length in find_absent(self._fd, start, size_bytes, grain_bytes):
                add_range(absent, offset, length)
            self._ours.extend(absent)

    def _choose_way(self, start: int, end: int) -> None:
        """Read a span from memory if all of it is there, else with O_DIRECT, which leaves the cache unchanged."""
        resident = self._resident(start, end - start)
        self._is_probing = resident is not None and resident >= page_bytes(end - start, start)
        if self._is_direct is self._is_probing:
            self._is_direct = not self._is_probing
            set_direct(self._fd, self._is_direct)
        if self._is_probing:
            self.how = ReadHow.CACHE_POSSIBLE

    def _resident(self, start: int, size_bytes: int) -> int | None:
        if self._terms.capability.fs_type in PAGES_ELSEWHERE:
            return None
        return resident_bytes(self._fd, size_bytes, start)

    def _read_memory(self, view: memoryview, start: int) -> bool:
        """Read from memory without waiting for the disk; return False unless all of it was there."""
        try:
            return os.preadv(self._fd, (view,), start, os.RWF_NOWAIT) == len(view)
        except OSError:
            return False  # EAGAIN, unsupported flag, or an error that the ordinary read meets again

    def _read_around(self, view: memoryview, start: int, end: int) -> list[ByteRange]:
        good: list[ByteRange] = []
        pending = [(start, end)]
        while pending:
            first, last = pending.pop()
            piece_end = first + self._terms.pace.piece_bytes()
            if piece_end < last:
                pending.append((piece_end, last))
                last = piece_end
            self._terms.pace.take(last - first)
            began_ns = time.monotonic_ns()
            count = 0
            try:
                count = self._read_once(view[first - start :], first, last)
            except OSError as error:
                pending.extend(self._narrow(error, first, last, (time.monotonic_ns() - began_ns) / 1e9))
                continue
            finally:
                self._terms.pace.took(count, (time.monotonic_ns() - began_ns) / 1e9)
            if count == 0:
                self.has_ended = True
                break
            self.bytes_read += count
            add_range(good, first, count)
            if first + count < last:
                pending.append((first + count, last))
        return good

    def _read_once(self, view: memoryview, start: int, end: int) -> int:
        """Read with one call, at most up to ``end``."""
        if self._is_direct:
            rounded = -(-(end - start) // self._alignment) * self._alignment
            try:
                return min(os.preadv(self._fd, (view[:rounded],), start), end - start)
            except OSError as error:
                if error.errno not in (errno.EINVAL, errno.EOPNOTSUPP):
                    raise
            # O_DIRECT is unsupported after all, or a short read left an unaligned position.
            self._leave_direct(start)
        return os.preadv(self._fd, (view[: end - start],), start)

    def _leave_direct(self, start: int) -> None:
        set_direct(self._fd, False)
        self._is_direct = False
        self._alignment = 0
        self._unit = 0
        self._begin_buffered(start // USUAL_ALIGNMENT_BYTES * USUAL_ALIGNMENT_BYTES)

    def _narrow(self, error: OSError, start: int, end: int, duration_s: float) -> list[ByteRange]:
        """
        Record a bad range, or split it to narrow it down.

        Returns:
            The parts (start, end) to read next, the last one first.

        Raises:
            OSError: ``error``, if it does not concern a place on the medium.
            Unreadable: the budget is spent, or a known bad range failed again.
        """
        if error.errno not in BAD_MEDIUM:
            raise error  # not one place: the opener translates it
        budget = self._terms.budget
        if error.errno in REFUSED or budget.is_refusal():
            self._refusals += 1
        else:
            self.is_refused = False
            budget.charge(duration_s)
            if any(offset < end and start < offset + length for offset, length in self._known_bad):
                self.bad_ranges[:] = self._known_bad
                raise describe_bad(self._path, self._known_bad, is_refused=False, witness=self._witness) from error
        if not self._unit:
            disk_unit = min(sector_bytes(os.fstat(self._fd).st_dev), USUAL_ALIGNMENT_BYTES)
            self._unit = max(self._alignment, disk_unit) if self._is_direct else USUAL_ALIGNMENT_BYTES
        is_enough = budget.is_spent or self._refusals > _MOST_REFUSALS
        parts = [] if is_enough else cut(start, end, self._unit)
        if not parts:
            add_range(self.bad_ranges, start, end - start)
        if budget.is_spent:
            doing = f"go on reading (the device is failing: {budget.errors} errors, {budget.error_s:.0f} s), stopped at"
            ranges = tuple(self.bad_ranges)
            raise describe_failure(self._path, doing, error, ranges, witness=self._witness) from error
        return parts

    def _drop_behind(self, end: int) -> None:
        """Drop our pages up to ``end``, each range from its beginning: folios cross span boundaries."""
        while self._ours:
            offset, length = self._ours[0]
            if offset >= end:
                return
            drop_clean_pages(self._fd, offset, min(end, offset + length) - offset)
            if offset + length > end:
                return
            self._ours.popleft()
