"""
The short way for small files: a whole batch is read and digested in three calls of the C core.

What it gives is what the long way would have given, field by field; what it does not take goes the long way. Importing
this module fails with ImportError where the extension cannot be loaded.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from integrity.files.batch import BatchFile, BatchReader
from integrity.hashing.digests import digest_others, digest_probe, digest_whole
from integrity.hashing.tasks import Done, Task
from integrity.model import ReadHow, Reading


class Answered(NamedTuple):
    """
    What came of some tasks, each list in their order.

    Attributes:
        done: the answers.
        left: tasks for the long way.
        rest: tasks that are still to be asked for, the last ones.
    """

    done: list[Done]
    left: list[Task]
    rest: Sequence[Task]


class ShortWay:
    """
    Read and digest small files. Any thread may use it, each with its own arena.

    Attributes:
        waits_for_disk: it reads from the disk, and where one thread may read at a time, only in its turn.
    """

    def __init__(self, reader: BatchReader) -> None:
        self._reader = reader
        self.waits_for_disk = reader.how is not ReadHow.CACHE_POSSIBLE

    def answer(self, tasks: Sequence[Task], arena: memoryview, all_read: Callable[[], None]) -> Answered:
        """
        Answer what can be answered in this way, until the arena is full or the disk has taken long.

        Args:
            tasks: of files that are not large, as far as known; at least one.
            arena: writable, begins with a page; used again and again.
            all_read: called once all of them are read, but perhaps not digested yet; not if some are left.
        """
        limit_bytes = min(len(arena), min(task.block_size_bytes for task in tasks))
        paths = [task.path for task in tasks]
        wants_md5 = any(task.want.md5 for task in tasks)
        wants_crc = any(task.want.crc64nvme for task in tasks)
        files = self._reader.read(paths, limit_bytes, arena, md5=wants_md5, crc64nvme=wants_crc)
        read = list(zip(tasks, files, strict=False))
        left = [task for task, file in read if file is None]
        rest = tasks[len(files) :]
        if not left and not rest:
            all_read()
        return Answered([self._digest(task, file) for task, file in read if file is not None], left, rest)

    def _digest(self, task: Task, file: BatchFile) -> Done:
        """Digest a file of which some digests are known already."""
        witness, data, md5, crc64nvme = file
        digests = digest_whole(data, task.want, md5=md5, crc64nvme=crc64nvme)
        others = digest_others(data, task.want)
        reading = Reading(witness, digests, None, self._reader.how, witness.size_bytes, others)
        return Done(task, reading, 0, None if task.probe is None else digest_probe(task.probe, data))
