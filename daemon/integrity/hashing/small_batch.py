"""
Read and digest batches of small files in few calls of the C core, for one thread.

The MD5 lanes stay full between batches: a batch's digests are complete some batches later, and only then is its memory
free again. Results equal, field by field, those of reading file by file; files that cannot be read this way are left to
that path. Importing this module raises ImportError if the extension cannot be loaded.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from operator import attrgetter
from typing import Generic, NamedTuple, TypeVar

from integrity._native import lib
from integrity.files.batch import READ, Arena
from integrity.hashing.digests import Want, digest_blake3, digest_others, digest_probe
from integrity.hashing.md5_native import LaneScheduler
from integrity.hashing.tasks import DoneBatch
from integrity.hashing.work_queue import Batch, SmallReader
from integrity.model import ReadHow, Readings

T = TypeVar("T")

MD5 = lib.FILE_BATCH_MD5
XXH3_128 = lib.FILE_BATCH_XXH3_128
CRC64NVME = lib.FILE_BATCH_CRC64NVME

_COMPUTED: tuple[Callable[[Want], bool], ...] = (attrgetter("md5"), attrgetter("xxh3_128"), attrgetter("crc64nvme"))
"""For each digest in a record: whether it is wanted."""

_NOTHING: tuple[bytes, ...] = ()


class Lanes(Generic[T]):
    """
    The batches of one thread that are being digested.

    Args:
        scheduler: of the thread; other work submitted to it is computed side by side.
        arenas: memory for the batches, all of one size.

    Attributes:
        arena_bytes: that size.
    """

    def __init__(self, scheduler: LaneScheduler, arenas: Sequence[Arena]) -> None:
        self._scheduler = scheduler
        self._free = list(arenas)
        self._under_way: list[tuple[Arena, T]] = []
        self.arena_bytes = len(arenas[0].memory)

    @property
    def is_empty(self) -> bool:
        """Return whether no batch is in flight."""
        return not self._under_way

    @property
    def arena(self) -> Arena | None:
        """Return memory for the next batch; None if all is in use."""
        return self._free[-1] if self._free else None

    def submit(self, owner: T, wanted: int) -> None:
        """
        Digest the files that were read into ``arena``.

        Args:
            owner: returned with the batch.
            wanted: a combination of MD5, XXH3_128 and CRC64NVME; the last only if ``hashing.crc64`` uses the C core.
        """
        arena = self._free.pop()
        self._under_way.append((arena, owner))
        lib.file_batch_digest(self._scheduler.data, wanted, arena.data, arena.records, arena.count, arena.unfinished)

    def wait(self) -> None:
        """Work until a batch is complete, even if some lanes are empty; there must be one in flight."""
        self._scheduler.wait([arena.unfinished for arena, _ in self._under_way])

    def take_finished(self) -> Iterator[tuple[Arena, T]]:
        """Yield the batches whose digests are complete; each is valid until the next one is requested."""
        under_way, self._under_way = self._under_way, []
        for batch in under_way:
            arena, _ = batch
            if arena.unfinished[0]:
                self._under_way.append(batch)
            else:
                yield batch
                self._free.append(arena)


class _Part(NamedTuple):
    """Files of a batch that share an arena and may not be digested yet."""

    batch: Batch
    indexes: Sequence[int]  # in the batch, of those that were read
    racy_window: tuple[int, int]  # first and last racy timestamp
    how: ReadHow


class SmallFileBatches:
    """
    Read and digest small files, for one thread.

    Args:
        memory: pieces of one size; in use until everything is answered.
    """

    def __init__(self, scheduler: LaneScheduler, memory: Sequence[memoryview]) -> None:
        self._lanes: Lanes[_Part] = Lanes(scheduler, list(map(Arena, memory)))
        self._last: _Part | None = None

    @property
    def is_empty(self) -> bool:
        """Return whether everything that was read is answered."""
        return self._lanes.is_empty

    @property
    def has_room(self) -> bool:
        """Return whether there is memory to read into."""
        return self._lanes.arena is not None

    def wait(self) -> None:
        """Work until ``take_done`` has an answer; there must be no room."""
        self._lanes.wait()

    def read(self, reader: SmallReader, batch: Batch, indexes: Sequence[int]) -> tuple[list[int], int]:
        """
        Read files until the memory is full or the time limit is reached; there must be room.

        Args:
            reader: of the root; may be shared with other threads.
            indexes: of the tasks to read.

        Returns:
            The indexes of the tasks that the reader left out, and how many it has tried.

        Raises:
            ReadInterrupted: from the pace; nothing was read.
        """
        arena, tasks = self._lanes.arena, batch.tasks
        assert arena is not None, "there is room"
        limit_bytes = min(self._lanes.arena_bytes, tasks.block_size_bytes)
        paths = [tasks.paths[index] for index in indexes]
        sizes_bytes = [tasks.sizes_bytes[index] for index in indexes]
        racy_window = reader.read(paths, sizes_bytes, limit_bytes, arena)
        if not arena.count:  # a path contains a NUL byte
            return list(indexes), len(indexes)
        statuses, tried = arena.statuses(), indexes[: arena.count]
        left = [index for index, status in zip(tried, statuses, strict=True) if status != READ]
        if len(left) < arena.count:
            read = [index for index, status in zip(tried, statuses, strict=True) if status == READ] if left else tried
            self._last = _Part(batch, read, racy_window, reader.how)
        return left, arena.count

    def digest(self) -> None:
        """Start to digest the files of the last read."""
        last, self._last = self._last, None
        if last is not None:
            self._lanes.submit(last, _find_wanted(last.batch.tasks.wants))

    def take_done(self) -> Iterator[tuple[Batch, Sequence[int], DoneBatch]]:
        """Yield the answers whose digests are complete, each with its batch and the indexes of its tasks."""
        for arena, part in self._lanes.take_finished():
            yield part.batch, part.indexes, self._answer(arena, part)

    def _answer(self, arena: Arena, part: _Part) -> DoneBatch:
        tasks = part.batch.tasks.select(part.indexes)
        rows = [row for row in arena.rows() if row[0] == READ]
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
        witnesses = sizes, mtimes_ns, ctimes_ns, inodes, _find_racy(mtimes_ns, ctimes_ns, *part.racy_window)
        count = len(rows)
        readings = Readings(witnesses, (md5s, xxh3_128s, blake3s, crc64s), [None] * count, [part.how] * count)
        return DoneBatch(tasks, readings, others, probed)


def _distinct(wants: Sequence[Want]) -> list[Want]:
    first = wants[0]
    if wants.count(first) == len(wants):  # the usual case: comparison starts with identity
        return [first]
    return list({id(want): want for want in wants}.values())


def _where(wants: Sequence[Want], is_wanted: Callable[[Want], bool], column: Sequence[T]) -> Sequence[T | None]:
    """Return the digests, with None for files that do not want them."""
    answers = {is_wanted(want) for want in _distinct(wants)}
    if len(answers) == 1:
        return column if answers.pop() else [None] * len(column)
    return [digest if is_wanted(want) else None for want, digest in zip(wants, column, strict=True)]


def _find_racy(mtimes_ns: Sequence[int], ctimes_ns: Sequence[int], since_ns: int, until_ns: int) -> Sequence[int]:
    """Return for each file whether one of its times is racy; usually none is."""
    if max(mtimes_ns) < since_ns and max(ctimes_ns) < since_ns:
        return [0] * len(mtimes_ns)
    return [
        int(since_ns <= mtime_ns <= until_ns or since_ns <= ctime_ns <= until_ns)
        for mtime_ns, ctime_ns in zip(mtimes_ns, ctimes_ns, strict=True)
    ]


def _find_wanted(wants: Sequence[Want]) -> int:
    """Return the digests that the C core must compute for these tasks, as bits."""
    distinct = _distinct(wants)
    wanted = MD5 if any(want.md5 for want in distinct) else 0
    wanted |= XXH3_128 if any(want.xxh3_128 for want in distinct) else 0
    return wanted | (CRC64NVME if any(want.crc64nvme for want in distinct) else 0)
