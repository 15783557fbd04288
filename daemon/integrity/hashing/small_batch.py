"""
Small files of one thread: batches of them are read and digested in few calls of the C core.

The lanes in which it computes MD5 stay full from one batch to the next: so the digests of a batch are there some
batches later, and only then its memory is free again. What this gives is what the long way would have given, field by
field; what it does not take goes the long way. Importing this module fails with ImportError where the extension cannot
be loaded.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import compress
from operator import attrgetter
from typing import TYPE_CHECKING, Generic, NamedTuple, TypeVar

from integrity._native import lib
from integrity.files.batch import READ, Arena
from integrity.hashing.digests import Want, digest_blake3, digest_others, digest_probe
from integrity.hashing.md5_native import LaneScheduler
from integrity.hashing.tasks import DoneBatch, TaskBatch
from integrity.hashing.work_queue import OpenBatch
from integrity.model import ReadHow, Readings

if TYPE_CHECKING:
    from integrity.hashing.work_queue import SmallReader

T = TypeVar("T")

MD5 = lib.FILE_BATCH_MD5
XXH3_128 = lib.FILE_BATCH_XXH3_128
CRC64NVME = lib.FILE_BATCH_CRC64NVME

_COMPUTED: tuple[Callable[[Want], bool], ...] = (attrgetter("md5"), attrgetter("xxh3_128"), attrgetter("crc64nvme"))
"""Whether each of the digests in a record is wanted."""

_NOTHING: tuple[bytes, ...] = ()


class Lanes(Generic[T]):
    """
    Batches of one thread.

    Args:
        scheduler: of the thread; what else is submitted to it goes beside them.
        arenas: the memory of the batches, all of one size.

    Attributes:
        arena_bytes: the size.
    """

    def __init__(self, scheduler: LaneScheduler, arenas: Sequence[Arena]) -> None:
        self._scheduler = scheduler
        self._free = list(arenas)
        self._under_way: list[tuple[Arena, T]] = []
        self.arena_bytes = len(arenas[0].memory)

    @property
    def is_empty(self) -> bool:
        """Say whether no batch is under way."""
        return not self._under_way

    @property
    def arena(self) -> Arena | None:
        """Give memory for the next batch; None if all of it is in use."""
        return self._free[-1] if self._free else None

    def submit(self, owner: T, wanted: int) -> None:
        """
        Digest the files that were read into ``arena``.

        Args:
            owner: comes back with the batch.
            wanted: the sum of some of MD5, XXH3_128 and CRC64NVME; the last only where ``hashing.crc64`` says that the
                C core computes it.
        """
        arena = self._free.pop()
        self._under_way.append((arena, owner))
        lib.file_batch_digest(self._scheduler.data, wanted, arena.data, arena.records, arena.count, arena.unfinished)

    def take_finished(self) -> Iterator[tuple[Arena, T]]:
        """Hand over the batches whose digests are all there; each is whole until the next one is asked for."""
        under_way, self._under_way = self._under_way, []
        for batch in under_way:
            arena, _ = batch
            if arena.unfinished[0]:
                self._under_way.append(batch)
            else:
                yield batch
                self._free.append(arena)


class _Part(NamedTuple):
    """Files of a batch that lie in one arena, and may not be digested yet."""

    batch: OpenBatch
    start: int  # of the first one's record in the batch
    in_doubt: tuple[int, int]  # the first and the last stamp


class SmallFileBatches:
    """
    Read and digest small files, for one thread.

    Args:
        reader: of the root; may be shared with other threads.
        scheduler: of the thread.
        memory: pieces of it, all of one size; used until all is answered.

    Attributes:
        waits_for_disk: it reads from the disk, and where one thread may read at a time, only in its turn.
    """

    def __init__(self, reader: SmallReader, scheduler: LaneScheduler, memory: Sequence[memoryview]) -> None:
        self._reader = reader
        self._lanes: Lanes[_Part] = Lanes(scheduler, list(map(Arena, memory)))
        self._last: _Part | None = None
        self.waits_for_disk = reader.how is not ReadHow.CACHE_POSSIBLE

    @property
    def is_empty(self) -> bool:
        """Say whether all that was read is answered."""
        return self._lanes.is_empty

    @property
    def has_room(self) -> bool:
        """Say whether there is memory to read into."""
        return self._lanes.arena is not None

    def read(self, batch: OpenBatch, start: int) -> tuple[list[int], int]:
        """
        Read what can be read in this way, until the memory is full or the disk has taken long; there must be room.

        Args:
            batch: that is answered.
            start: index of the first task that is to be read.

        Returns:
            The indexes of tasks for the long way, and that of the first one which is still to be asked for.

        Raises:
            ReadInterrupted: from the pace; nothing was read.
        """
        arena, tasks = self._lanes.arena, batch.tasks
        assert arena is not None, "there is room"
        limit_bytes = min(self._lanes.arena_bytes, tasks.block_size_bytes)
        in_doubt = self._reader.read(tasks.paths[start:], tasks.sizes_bytes[start:], limit_bytes, arena)
        if not arena.count:  # one of the paths is none that any file can have
            return list(range(start, len(tasks))), len(tasks)
        left = [index for index, status in enumerate(arena.statuses(), start) if status != READ]
        if len(left) < arena.count:
            self._last = _Part(batch, start, in_doubt)
        return left, start + arena.count

    def digest(self) -> None:
        """Begin to digest what was read last."""
        last, self._last = self._last, None
        if last is not None:
            self._lanes.submit(last, _find_wanted(last.batch.tasks.wants))

    def take_done(self) -> Iterator[tuple[OpenBatch, range, DoneBatch]]:
        """Hand over the answers whose digests are all there, with the indexes among which their tasks are."""
        for arena, part in self._lanes.take_finished():
            stop = part.start + arena.count
            tasks = part.batch.tasks.part(part.start, stop)
            yield part.batch, range(part.start, stop), self._answer(arena, tasks, part.in_doubt)

    def _answer(self, arena: Arena, tasks: TaskBatch, in_doubt: tuple[int, int]) -> DoneBatch:
        rows = list(arena.rows())
        is_read = [row[0] == READ for row in rows]
        if not all(is_read):
            rows, tasks = list(compress(rows, is_read)), tasks.select(list(compress(range(len(tasks)), is_read)))
        _, sizes, mtimes_ns, ctimes_ns, inodes, offsets, *computed = zip(*rows, strict=True)
        wants, probes = tasks.wants, tasks.probes
        blake3s: Sequence[bytes | None] = [None] * len(rows)
        probed, others = blake3s, [_NOTHING] * len(rows)
        if any(probes) or any(want.blake3 or want.others for want in _distinct(wants)):
            contents = [arena.memory[offset : offset + size] for offset, size in zip(offsets, sizes, strict=True)]
            files = list(zip(contents, wants, probes, strict=True))
            blake3s = [digest_blake3(data) if want.blake3 else None for data, want, _ in files]
            others = [digest_others(data, want) for data, want, _ in files]
            probed = [None if probe is None else digest_probe(probe, data) for data, _, probe in files]
        md5s, xxh3_128s, crc64s = (
            _where(wants, is_wanted, column) for is_wanted, column in zip(_COMPUTED, computed, strict=True)
        )
        witnesses = sizes, mtimes_ns, ctimes_ns, inodes, _find_racy(mtimes_ns, ctimes_ns, *in_doubt)
        readings = Readings(witnesses, (md5s, xxh3_128s, blake3s, crc64s), self._reader.how)
        return DoneBatch(tasks, readings, others, probed)


def _distinct(wants: Sequence[Want]) -> list[Want]:
    first = wants[0]
    if wants.count(first) == len(wants):  # as nearly always: the comparison begins with the identity
        return [first]
    return list({id(want): want for want in wants}.values())


def _where(wants: Sequence[Want], is_wanted: Callable[[Want], bool], column: Sequence[T]) -> Sequence[T | None]:
    """Give the digests of those files for which they are wanted."""
    answers = {is_wanted(want) for want in _distinct(wants)}
    if len(answers) == 1:
        return column if answers.pop() else [None] * len(column)
    return [digest if is_wanted(want) else None for want, digest in zip(wants, column, strict=True)]


def _find_racy(mtimes_ns: Sequence[int], ctimes_ns: Sequence[int], since_ns: int, until_ns: int) -> Sequence[int]:
    """Say of each file whether one of its times is in doubt; nearly always none is."""
    if max(mtimes_ns) < since_ns and max(ctimes_ns) < since_ns:
        return [0] * len(mtimes_ns)
    return [
        int(since_ns <= mtime_ns <= until_ns or since_ns <= ctime_ns <= until_ns)
        for mtime_ns, ctime_ns in zip(mtimes_ns, ctimes_ns, strict=True)
    ]


def _find_wanted(wants: Sequence[Want]) -> int:
    """Say what the C core is to compute for some of the tasks, in bits."""
    distinct = _distinct(wants)
    wanted = MD5 if any(want.md5 for want in distinct) else 0
    wanted |= XXH3_128 if any(want.xxh3_128 for want in distinct) else 0
    return wanted | (CRC64NVME if any(want.crc64nvme for want in distinct) else 0)
