"""
Digest several large files from memory in one thread: read a piece of each in turn, and run their MD5s side by side.

One file's MD5 is a serial chain, slower than memory on any processor; those of several files are independent and fill
the lanes. Python code runs only when a file ends, or every 0.1 s. Unusual files (holes, a failing read) are left to the
code that reads files one by one. Files on a disk are not read this way: the disk would seek between them.

Importing this module raises ImportError if the extension cannot be loaded.
"""

from __future__ import annotations

import mmap
from dataclasses import dataclass
from typing import TYPE_CHECKING, Generic, TypeVar

from integrity._native import ffi, lib
from integrity.errors import NativeError, ReadError, ReadInterrupted
from integrity.hashing.digests import Want, combine_crc64nvme
from integrity.hashing.large_file import PARTIAL_INTERVAL_S, find_start, or_racy
from integrity.hashing.md5_native import SELF_TEST_FAILED, LaneScheduler, export_state, import_state
from integrity.hashing.small_batch import CRC64NVME, MD5, XXH3_128
from integrity.hashing.tasks import Done, Failed, Partial, Task
from integrity.hashing.work_queue import Batch, OpenedFile, Shared, TaskLedger
from integrity.model import CRC64NVME_BYTES, MD5_BYTES, XXH3_128_BYTES, Blocks, Digests, Reading

if TYPE_CHECKING:
    from integrity._native import CData

T = TypeVar("T")

_PIECE_BYTES = 128 << 10
"""Read per file at a time: the pieces of all files in flight fit into the cache that the processor's cores share."""

_STRIDE_BYTES = _PIECE_BYTES + mmap.PAGESIZE
"""Addresses that differ by a large power of two compete for the same sets of the processor's caches."""

_MOST_NS = 100_000_000
_MOST_BLOCKS = 1024


class LargeFile(Generic[T]):
    """
    One file in flight; made by ``LargeBatch.begin``.

    Attributes:
        owner: as passed to ``begin``.
    """

    __slots__ = ("_crc64s", "_data", "_md5s", "_xxh3s", "owner")

    def __init__(self, owner: T, data: CData) -> None:
        self.owner = owner
        self._data = data
        self._xxh3s = ffi.new("uint8_t[]", _MOST_BLOCKS * XXH3_128_BYTES)
        self._md5s = ffi.new("uint8_t[]", _MOST_BLOCKS * MD5_BYTES)
        self._crc64s = ffi.new("uint8_t[]", _MOST_BLOCKS * CRC64NVME_BYTES)
        data.block_xxh3s, data.block_md5s, data.block_crc64s = self._xxh3s, self._md5s, self._crc64s

    @property
    def position(self) -> int:
        """Return the offset up to which the file is read and digested."""
        return self._data.position

    @property
    def is_active(self) -> bool:
        """Return whether the file is still being read."""
        return self._data.status == lib.LARGE_BATCH_ACTIVE

    @property
    def is_halted(self) -> bool:
        """Return whether the file waits at a block boundary, for ``resume_reading``."""
        return self._data.status == lib.LARGE_BATCH_HALTED

    @property
    def error(self) -> int | None:
        """Return the error number if the file could not be read to its end."""
        return self._data.error if self._data.status == lib.LARGE_BATCH_FAILED else None

    def halt(self) -> None:
        """Stop at the next block boundary."""
        self._data.halts = 1

    def resume_reading(self) -> None:
        """Continue after a halt."""
        self._data.halts = 0
        self._data.status = lib.LARGE_BATCH_ACTIVE

    def take_blocks(self) -> Blocks:
        """Return the digests of the blocks since the last call."""
        count, wanted = self._data.blocks_done, self._data.wanted_of_blocks
        self._data.blocks_done = 0
        return Blocks(
            self._data.block_bytes,
            bytes(ffi.buffer(self._xxh3s, count * XXH3_128_BYTES)) if wanted & XXH3_128 else b"",
            bytes(ffi.buffer(self._md5s, count * MD5_BYTES)) if wanted & MD5 else b"",
            bytes(ffi.buffer(self._crc64s, count * CRC64NVME_BYTES)) if wanted & CRC64NVME else b"",
        )

    def md5_state(self) -> bytes | None:
        """Export the MD5 up to ``position`` while the file is halted; None if it was not requested."""
        return export_state(ffi.addressof(self._data, "whole_md5")) if self._data.wanted & MD5 else None

    @property
    def md5(self) -> bytes | None:
        """Return the file's MD5 after its end; None if it was not requested."""
        return bytes(ffi.buffer(ffi.addressof(self._data, "md5"))) if self._data.wanted & MD5 else None

    @property
    def xxh3_128(self) -> bytes | None:
        """Return the file's XXH3-128 after its end; None if it was not requested."""
        return bytes(ffi.buffer(ffi.addressof(self._data, "xxh3_128"))) if self._data.wanted & XXH3_128 else None


class LargeBatch(Generic[T]):
    """
    The large files of one thread.

    Args:
        memory: for the pieces; in use while there are files.
        most_files: maximum number at a time.
    """

    def __init__(self, memory: memoryview, most_files: int) -> None:
        self._scheduler = LaneScheduler()
        self._count = min(most_files, len(memory) // _STRIDE_BYTES)
        # The bare address: CPython crashes when its collector clears a memoryview that cffi still has a buffer of.
        self._memory, self._pieces = memory, ffi.cast("uint8_t *", ffi.from_buffer(memory))
        self._files = ffi.new("large_batch_file[]", self._count)
        self._places = list(range(self._count))
        self.under_way: dict[int, LargeFile[T]] = {}

    @property
    def room(self) -> int:
        """Return how many more files can be begun."""
        return len(self._places)

    def begin(
        self,
        owner: T,
        fd: int,
        want: Want,
        *,
        end: int,
        block_bytes: int,
        start: int = 0,
        md5_state: bytes | None = None,
    ) -> LargeFile[T]:
        """
        Begin a file; there must be room.

        Args:
            owner: stored in the result.
            fd: the open file; must stay open until the file is released.
            want: MD5, XXH3-128, and of blocks CRC-64/NVME; other digests are not computed here.
            end: stop reading at this offset.
            start: a multiple of ``block_bytes``; if not 0, the only whole-file digest is an MD5 with ``md5_state``.
            md5_state: exported at ``start``.

        Raises:
            NativeError: the state is damaged, or the C core fails its self-test.
        """
        data = ffi.addressof(self._files, self._places[-1])
        has_md5 = want.md5 and (not start or md5_state is not None)
        data.fd, data.position, data.end_bytes = fd, start, end
        data.wanted = MD5 * has_md5 | XXH3_128 * (want.xxh3_128 and not start)
        data.block_bytes, data.blocks_room = block_bytes, _MOST_BLOCKS
        data.wanted_of_blocks = MD5 * want.block_md5 | XXH3_128 * want.block_xxh3_128 | CRC64NVME * want.crc64nvme
        if start and md5_state is not None:
            import_state(ffi.addressof(data, "whole_md5"), md5_state)
        if lib.large_batch_begin(data) != 0:
            raise NativeError(SELF_TEST_FAILED)
        file = self.under_way[self._places.pop()] = LargeFile(owner, data)
        return file

    def run(self) -> list[LargeFile[T]]:
        """Read and digest for at most about 0.1 s; return the files that are no longer ``is_active``."""
        lib.large_batch_run(
            self._scheduler.data, self._files, self._count, self._pieces, _PIECE_BYTES, _STRIDE_BYTES, _MOST_NS
        )
        return [file for file in self.under_way.values() if not file.is_active]

    def release(self, file: LargeFile[T]) -> None:
        """Free the place of a file that is no longer ``is_active``."""
        place = next(place for place, one in self.under_way.items() if one is file)
        del self.under_way[place]
        self._places.append(place)

    def drop_all(self) -> None:
        """Free all places and discard files in flight."""
        self._scheduler.flush()
        for place in list(self.under_way):
            ffi.addressof(self._files, place).status = lib.LARGE_BATCH_IDLE
            self._places.append(place)
        self.under_way.clear()


_LAST_WORK_S = 0.5
"""Time that interrupted files get to reach a block boundary, where they can resume."""


@dataclass(slots=True, eq=False)
class _Reading:
    """A file in flight."""

    batch: Batch
    task: Task
    file: OpenedFile
    was_racy: bool  # when its first part was read
    start: int
    first_block: int
    position: int
    saved_at: float


class LaneReader:
    """
    Answer large files from memory, for one thread.

    Args:
        memory: in use while files are in flight.
    """

    def __init__(self, shared: Shared, ledger: TaskLedger, memory: memoryview) -> None:
        self._shared = shared
        self._ledger = ledger
        self._files: LargeBatch[_Reading] = LargeBatch(memory, shared.side_by_side)

    def answer(self, batches: list[Batch]) -> list[Batch]:
        """
        Answer batches of one file each, and take further files from the queue while there is room.

        Returns:
            Those to answer one by one.
        """
        left: list[Batch] = []
        try:
            while batches or self._files.under_way:
                for batch in batches:
                    self._begin(batch, left)
                self._resume_halted(left)
                batches = self._shared.work_queue.take_more(self._files.room)
        finally:
            readings = [file.owner for file in self._files.under_way.values()]
            self._files.drop_all()
            for reading in readings:
                reading.file.close()
        return left

    def _begin(self, batch: Batch, left: list[Batch]) -> None:
        self._ledger.begin(batch)
        task = batch.tasks.task(0)
        obstacle = self._shared.find_obstacle(task)
        if obstacle is not None:
            self._ledger.add(obstacle, batch, (0,))
            return
        try:
            with self._ledger.busy():
                file = self._shared.reader.open(task.path, task.known_bad)
        except ReadError as error:
            self._ledger.add(Failed(task, error), batch, (0,))
            return
        try:
            is_begun = self._begin_open(batch, task, file)
        except BaseException as error:
            file.close()
            if not isinstance(error, ReadError):
                raise
            self._ledger.add(Failed(task, error), batch, (0,))
            return
        if not is_begun:
            file.close()
            left.append(batch)

    def _begin_open(self, batch: Batch, task: Task, file: OpenedFile) -> bool:
        """Begin to read an open file; return False if it must be read on its own."""
        with self._ledger.busy():
            fd = file.lend() if file.size_bytes > task.block_size_bytes else None
        if fd is None:
            return False
        start, md5_state = find_start(task, file)
        was_racy = start > 0 and task.resume is not None and task.resume.witness.is_racy
        first_block, now = start // task.block_size_bytes, self._shared.monotonic()
        reading = _Reading(batch, task, file, was_racy, start, first_block, start, now)
        self._files.begin(
            reading,
            fd,
            task.want,
            end=file.size_bytes,
            block_bytes=task.block_size_bytes,
            start=start,
            md5_state=md5_state,
        )
        return True

    def _resume_halted(self, left: list[Batch]) -> None:
        """Read and digest a piece of each file; answer the finished ones."""
        is_over = self._ledger.is_abandoned or self._shared.stop.is_set()
        if is_over:
            self._interrupt()
            return
        now = self._shared.monotonic()
        for file in self._files.under_way.values():
            if now - file.owner.saved_at > PARTIAL_INTERVAL_S:
                file.halt()
        for file in self._run():
            if file.is_halted:
                self._save(file)
                file.resume_reading()
            else:
                self._files.release(file)
                self._end(file, left)

    def _run(self) -> list[LargeFile[_Reading]]:
        with self._ledger.busy():
            stopped = self._files.run()
        for file in self._files.under_way.values():
            reading, position = file.owner, file.position
            self._ledger.bytes_done += position - reading.position
            reading.position = position
        return stopped

    def _interrupt(self) -> None:
        """Keep what was read up to a block boundary, and answer all files."""
        until = self._shared.monotonic() + _LAST_WORK_S
        for file in self._files.under_way.values():
            file.halt()
        while any(file.is_active for file in self._files.under_way.values()) and self._shared.monotonic() < until:
            self._run()
        for file in self._files.under_way.values():
            if file.is_halted:
                self._save(file)
            reading = file.owner
            reading.file.close()
            failed = Failed(reading.task, ReadInterrupted("interrupted; what was read is kept"))
            self._ledger.add(failed, reading.batch, (0,))
        self._files.drop_all()

    def _save(self, file: LargeFile[_Reading]) -> None:
        """Send a checkpoint if any block was completed."""
        reading = file.owner
        blocks = file.take_blocks()
        reading.saved_at = self._shared.monotonic()
        if blocks:
            witness = or_racy(reading.file.witness, reading.was_racy)
            first, reading.first_block = reading.first_block, reading.first_block + len(blocks)
            partial = Partial(reading.task, file.position, first, blocks, file.md5_state(), witness)
            self._ledger.add(partial, reading.batch, ())

    def _end(self, file: LargeFile[_Reading], left: list[Batch]) -> None:
        reading = file.owner
        task, opened = reading.task, reading.file
        if file.error is not None:
            opened.close()
            left.append(reading.batch)  # reading it on its own determines the bad ranges
            return
        try:
            with self._ledger.busy(), opened:
                opened.take_back(reading.start, file.position)
                witness = or_racy(opened.finish(), reading.was_racy)
        except ReadError as error:
            self._ledger.add(Failed(task, error), reading.batch, (0,))
        else:
            blocks = file.take_blocks()
            crc64nvme = None if reading.first_block else combine_crc64nvme(blocks, file.position)
            digests = Digests(file.md5, file.xxh3_128, None, crc64nvme)
            result = Reading(witness, digests, blocks, opened.how, opened.bytes_read)
            self._ledger.add(Done(task, result, reading.first_block), reading.batch, (0,))
        self._ledger.send()
