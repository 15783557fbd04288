"""
The short way for small files: batches of them are read and digested in few calls of the C core.

What it gives is what the long way would have given, field by field; what it does not take goes the long way. Importing
this module fails with ImportError where the extension cannot be loaded.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from typing import NamedTuple

from integrity.files.arena import READ, Arena
from integrity.files.batch import BatchReader
from integrity.hashing.digests import digest_blake3, digest_others, digest_probe
from integrity.hashing.lanes import CRC64NVME, MD5, XXH3_128, Lanes
from integrity.hashing.md5_native import Scheduler
from integrity.hashing.tasks import Done, Task
from integrity.model import Digests, ReadHow, Reading, Witness

_new_witness = partial(tuple.__new__, Witness)  # what Witness(...) does, without a call of Python for each file
_new_digests = partial(tuple.__new__, Digests)
_new_reading = partial(tuple.__new__, Reading)
_new_done = partial(tuple.__new__, Done)


class _Read(NamedTuple):
    """Files that were read, and may not be digested yet."""

    tasks: Sequence[Task]  # as many as there are records
    in_doubt: tuple[int, int]  # the first and the last stamp


class ShortWay:
    """
    Read and digest small files, for one thread.

    Args:
        reader: of the root; may be shared with other threads.
        scheduler: of the thread.
        memory: pieces of it, all of one size; used until all is answered.

    Attributes:
        waits_for_disk: it reads from the disk, and where one thread may read at a time, only in its turn.
    """

    def __init__(self, reader: BatchReader, scheduler: Scheduler, memory: Sequence[memoryview]) -> None:
        self._reader = reader
        self._lanes: Lanes[_Read] = Lanes(scheduler, list(map(Arena, memory)))
        self._last: _Read | None = None
        self.waits_for_disk = reader.how is not ReadHow.CACHE_POSSIBLE

    @property
    def is_empty(self) -> bool:
        """Say whether all that was read is answered."""
        return self._lanes.is_empty

    @property
    def has_room(self) -> bool:
        """Say whether there is memory to read into."""
        return self._lanes.arena is not None

    def read(self, tasks: Sequence[Task]) -> tuple[list[Task], Sequence[Task]]:
        """
        Read what can be read in this way, until the memory is full or the disk has taken long; there must be room.

        Args:
            tasks: of files that are not large, as far as known; at least one.

        Returns:
            Tasks for the long way; and those that are still to be asked for, the last ones.

        Raises:
            ReadInterrupted: from the pace; nothing was read.
        """
        arena = self._lanes.arena
        assert arena is not None, "there is room"
        limit_bytes = min(self._lanes.arena_bytes, min(task.block_size_bytes for task in tasks))
        paths, sizes_bytes = [task.path for task in tasks], [task.size_bytes for task in tasks]
        in_doubt = self._reader.read(paths, sizes_bytes, limit_bytes, arena)
        if not arena.count:  # one of the paths is none that any file can have
            return list(tasks), []
        self._last = _Read(tasks[: arena.count], in_doubt)
        left = [task for task, status in zip(tasks, arena.statuses(), strict=False) if status != READ]
        return left, tasks[arena.count :]

    def digest(self) -> None:
        """Begin to digest what was read last."""
        last, self._last = self._last, None
        if last is not None:
            self._lanes.submit(last, _find_wanted(last.tasks))

    def take_done(self) -> Iterator[list[Done]]:
        """Hand over the answers whose digests are all there, those of a batch together."""
        for arena, (tasks, in_doubt) in self._lanes.take_finished():
            yield self._answer(arena, tasks, in_doubt)

    def _answer(self, arena: Arena, tasks: Sequence[Task], in_doubt: tuple[int, int]) -> list[Done]:
        since_ns, until_ns = in_doubt
        how = self._reader.how
        done: list[Done] = []
        for task, row in zip(tasks, arena.rows(), strict=True):
            status, size, mtime_ns, ctime_ns, inode, offset, md5, xxh3_128, crc64nvme = row
            if status != READ:
                continue
            want, blake3, probe = task.want, None, None
            others: tuple[bytes, ...] = ()
            if want.blake3 or want.others or task.probe is not None:
                data = arena.memory[offset : offset + size]
                blake3, others = digest_blake3(data) if want.blake3 else None, digest_others(data, want)
                probe = None if task.probe is None else digest_probe(task.probe, data)
            is_racy = since_ns <= mtime_ns <= until_ns or since_ns <= ctime_ns <= until_ns
            witness = _new_witness((size, mtime_ns, ctime_ns, inode, is_racy))
            digests = _new_digests(
                (
                    md5 if want.md5 else None,
                    xxh3_128 if want.xxh3_128 else None,
                    blake3,
                    crc64nvme if want.crc64nvme else None,
                )
            )
            reading = _new_reading((witness, digests, None, how, size, others))
            done.append(_new_done((task, reading, 0, probe)))
        return done


def _find_wanted(tasks: Sequence[Task]) -> int:
    """Say what the C core is to compute for some of the tasks, in bits."""
    wants = {id(task.want): task.want for task in tasks}.values()
    wanted = MD5 if any(want.md5 for want in wants) else 0
    wanted |= XXH3_128 if any(want.xxh3_128 for want in wants) else 0
    return wanted | (CRC64NVME if any(want.crc64nvme for want in wants) else 0)
