"""
Find where a sparse file has data, so that a terabyte of zeros costs nothing.

What lies outside is zeros, as far as the file system says. Such a map is only worth something together with the stable
check at the end of a reading (R1), and a confirming re-read does without it (R3).

Read spans of one open file: past the page cache or through it, around bad sectors, and leaving the cache as it was.

What a reading does to the cache and how sure it is to have seen the disk is decided here (R4):

- DISK: O_DIRECT. Where that is missing or not vouched for, the file's clean pages are dropped first: nothing else makes
  a buffered read see the disk. What was read through the cache is dropped behind.
- RECORD: what is in memory is read from there and stays. The rest is read with O_DIRECT if the file is large, else
  through the cache and dropped afterwards; where residency can't be told nothing is dropped.

Residency is asked before anything is read: even RWF_NOWAIT starts a readahead, and what that brought in would look like
somebody else's pages.
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

_GRAIN_BYTES = 4096  # so that every data range can be read with O_DIRECT, whatever the file system's block size is


def find_data(fd: int, start: int, size: int) -> Iterator[ByteRange]:
    """
    Yield the ranges of data between ``start`` and ``size``, in order, widened to multiples of 4,096.

    The map is read while it is used: a range is looked up when it is asked for.

    Raises:
        OSError: EIO, say, when the map itself can't be read.
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
    """Return the next position with data; None when only a hole follows."""
    try:
        return os.lseek(fd, position, os.SEEK_DATA)
    except OSError as error:
        if error.errno == errno.ENXIO:
            return None
        if error.errno in (errno.EINVAL, errno.EOPNOTSUPP):  # no hole maps here: everything is data
            return position
        raise


_PAGES_ARE_ALL = frozenset(
    {"bcachefs", "btrfs", "exfat", "ext2", "ext3", "ext4", "f2fs", "hfsplus", "iso9660", "jfs", "nilfs2", "ntfs3"}
    | {"reiserfs", "udf", "vfat", "xfs"}
)
"""Local file systems without any memory but the page cache: past it there is only the disk. On others (tmpfs takes
O_DIRECT and reads memory; FUSE and network servers, ZFS, overlays have caches elsewhere) memory may have answered."""

SURE_DIRECT = _PAGES_ARE_ALL - {"btrfs"}
"""Where a file that the kernel vouches for comes from the disk; btrfs stores some files such that it can't."""

_PAGES_ELSEWHERE = frozenset({"overlay", "zfs"})
"""File systems that keep data in caches of their own or of a layer below: "nothing resident" means nothing there."""

_ANY_SIZE = 1 << 62

_MOST_REFUSALS = 1000
"""So many reads of one file that the file system refused are looked at closely; then what fails is bad as a whole. They
cost a disk nothing, but a file of terabytes that is damaged all over would be asked for page by page."""

_MOST_PIECES = 4096  # into how many pieces the map of what is in memory may cut a file at most


def can_vouch(capability: Capability) -> bool:
    """Say whether any reading there can be sure to have come from the disk; else the best there is has to do."""
    return capability.fs_type in _PAGES_ARE_ALL


class ReadMode(StrEnum):
    """What a reading is for."""

    RECORD = "record"  # what others had cached is read from memory and stays, the rest is not left behind
    DISK = "disk"  # from the disk: O_DIRECT, else clean pages dropped first


class Pace:
    """
    What holds a reading back: a rate, the load of the machine, a stop request. Any thread may use it.

    As it is it holds nothing back; whoever inherits does.
    """

    @property
    def holds_back(self) -> bool:
        """Say whether it has to be asked before each read, and told of it."""
        return type(self) is not Pace

    def piece_bytes(self) -> int:
        """Say how much one read should fetch at most, so that nobody waits long behind it: a multiple of 64 KiB."""
        return _ANY_SIZE

    def share_bytes(self, duration_s: float) -> float:  # noqa: ARG002 (for those who inherit)
        """Say how much may be read in so long, at the rate of the moment."""
        return math.inf

    def take(self, size_bytes: int) -> None:
        """
        Wait until so many bytes may be read from the disk; called before each such read, from the reading thread.

        Raises:
            ReadInterrupted: when the reading is to end.
        """

    def took(self, size_bytes: int, duration_s: float, reads: int = 1) -> None:
        """
        Be told that what was taken was read; called once after each ``take`` that returned, from the same thread.

        Args:
            size_bytes: what was fetched; 0 when that failed.
            duration_s: how long it took.
            reads: in so many reads, one after the other; at least 1.
        """

    def duration_s(self, size_bytes: int) -> float:  # noqa: ARG002 (for those who inherit)
        """Tell how long so many bytes may have to wait at worst: a reader that waits its turn does not hang."""
        return 0.0


UNLIMITED = Pace()


class Terms(NamedTuple):
    """What holds for all files that one reader opens."""

    capability: Capability
    mode: ReadMode
    pace: Pace
    budget: ErrorBudget


class SpanReader:
    """
    Read one open descriptor; used by one thread, which calls ``begin`` first and ``give_back`` at the end.

    Attributes:
        how: how sure it is that the disk answered, for all that was read so far.
        bad_ranges: what could not be read so far, merged.
        bytes_read: what could be read so far.
        has_ended: a read found the end of the file before its expected size.
        is_refused: all that could not be read was delivered by the disk and refused by the file system.
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
        self._alignment = 0  # of O_DIRECT; 0 while all reads go through the cache
        self._is_direct = False  # O_DIRECT is set on the descriptor now
        self._is_large = False  # more than one span
        self._is_probing = False  # all of it may be in memory: ask for it without waiting first
        self._ours: deque[ByteRange] = deque()  # what was not in memory and is not to be left there
        self._known_bad = known_bad
        self._refusals = 0
        self._unit = 0  # what the disk can read alone; 0: not needed yet
        self.how = ReadHow.CACHE_POSSIBLE
        self.bad_ranges: list[ByteRange] = []
        self.bytes_read = 0
        self.has_ended = False
        self.is_refused = True

    def begin(self, buffer_bytes: int) -> None:
        """
        Decide how this file is read.

        Args:
            buffer_bytes: the longest span that will be asked for.

        Raises:
            OSError: when the system can't even tell about the file.
        """
        self._is_large = self._size_bytes > buffer_bytes
        if self._terms.mode is ReadMode.DISK or self._is_large:
            self._begin_direct(buffer_bytes)
        if not self._alignment:
            self._begin_buffered(0)

    def begin_elsewhere(self) -> bool:
        """
        Prepare for all of the file to be read through the cache by somebody else, instead of ``begin``.

        Returns:
            Whether that may be: what is not in memory would have to be asked of the pace.

        Raises:
            OSError: when the system can't even tell about the file.
        """
        self._begin_buffered(0)
        return self._is_probing or not self._terms.pace.holds_back

    def read(self, view: memoryview, start: int, end: int) -> list[ByteRange]:
        """
        Read from ``start`` to ``end`` into the beginning of ``view``, around what is bad.

        Returns:
            What could be read, in order; the byte at position p of the file is at p - start of the view.

        Raises:
            Unreadable: when the disk must be left alone or the error is none of a place on it.
            ReadInterrupted: from the pace.
        """
        if self._is_large and self._alignment and self._terms.mode is ReadMode.RECORD:
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
            # btrfs passes pages that could not be dropped by, too; of old kernels nothing is known
            is_sure = is_sure and (fs_type == "btrfs" or self._resident(0, self._size_bytes) == 0)
        elif vouched is None and fs_type != "btrfs":
            is_sure = False
        self.how = ReadHow.DIRECT if is_sure else ReadHow.CACHE_POSSIBLE

    def _begin_buffered(self, start: int) -> None:
        """Look at the cache before the first read through it: drop in DISK mode, note what is there in the other."""
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
        """Read what is wholly in memory from there, and anything else past the cache, which leaves it as it is."""
        resident = self._resident(start, end - start)
        self._is_probing = resident is not None and resident >= page_bytes(end - start, start)
        if self._is_direct is self._is_probing:
            self._is_direct = not self._is_probing
            set_direct(self._fd, self._is_direct)
        if self._is_probing:
            self.how = ReadHow.CACHE_POSSIBLE

    def _resident(self, start: int, size_bytes: int) -> int | None:
        if self._terms.capability.fs_type in _PAGES_ELSEWHERE:
            return None
        return resident_bytes(self._fd, size_bytes, start)

    def _read_memory(self, view: memoryview, start: int) -> bool:
        """Read what is in memory, without waiting for the disk; False unless it is all of it."""
        try:
            return os.preadv(self._fd, (view,), start, os.RWF_NOWAIT) == len(view)
        except OSError:
            return False  # EAGAIN, no such flag here, or an error that the ordinary read, which follows, meets again

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
        """Read what one call gives, at most up to ``end``."""
        if self._is_direct:
            rounded = -(-(end - start) // self._alignment) * self._alignment
            try:
                return min(os.preadv(self._fd, (view[:rounded],), start), end - start)
            except OSError as error:
                if error.errno not in (errno.EINVAL, errno.EOPNOTSUPP):
                    raise
            # No O_DIRECT after all, or a short read has left no aligned place to go on from.
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
        Note what is bad, or say where to look closer.

        Returns:
            The parts (start, end) to be read next, the last one first.

        Raises:
            OSError: ``error``, which is not of a place of the medium.
        """
        if error.errno not in BAD_MEDIUM:
            raise error  # not of a place: whoever opened the file knows what it means
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
        """Drop what is ours up to ``end``, each range from its beginning: folios lie across the borders of spans."""
        while self._ours:
            offset, length = self._ours[0]
            if offset >= end:
                return
            drop_clean_pages(self._fd, offset, min(end, offset + length) - offset)
            if offset + length > end:
                return
            self._ours.popleft()
