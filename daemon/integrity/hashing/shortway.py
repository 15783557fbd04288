"""
The short way for small files that lie in memory: a whole batch is read and digested in three calls of the C core.

What it gives is what the long way would have given, field by field; what it does not take goes the long way. Importing
this module fails with ImportError where the extension cannot be loaded.
"""

from __future__ import annotations

from collections.abc import Sequence

from integrity.files.batch import BatchReader, CachedFile
from integrity.hashing.digests import digest_probe, digest_whole
from integrity.hashing.tasks import Done, Task
from integrity.model import ReadHow, Reading


class CachedFiles:
    """Read and digest small files from memory. Any thread may use it, each with its own arena."""

    def __init__(self, reader: BatchReader) -> None:
        self._reader = reader

    def answer(self, tasks: Sequence[Task], arena: memoryview) -> tuple[list[Done], list[Task]]:
        """
        Answer what can be answered without waiting for a disk.

        Args:
            tasks: of files that are not large, as far as known.
            arena: writable; used again and again.

        Returns:
            The answers, and the tasks that are left for the long way; both in the order of the tasks.
        """
        limit_bytes = min(len(arena), min(task.block_size_bytes for task in tasks))
        paths = [task.path for task in tasks]
        wants_md5 = any(task.want.md5 for task in tasks)
        wants_crc = any(task.want.crc64nvme for task in tasks)
        done: list[Done] = []
        left: list[Task] = []
        position = 0
        while position < len(tasks):
            files = self._reader.read(paths[position:], limit_bytes, arena, md5=wants_md5, crc64nvme=wants_crc)
            for task, file in zip(tasks[position:], files, strict=False):
                if file is None:
                    left.append(task)
                else:
                    done.append(_digest(task, file))
            position += len(files)
        return done, left


def _digest(task: Task, file: CachedFile) -> Done:
    """Digest a file of which some digests are known already."""
    witness, data, md5, crc64nvme = file
    digests = digest_whole(data, task.want, md5=md5, crc64nvme=crc64nvme)
    reading = Reading(witness, digests, None, ReadHow.CACHE_POSSIBLE, witness.size_bytes)
    return Done(task, reading, 0, None if task.probe is None else digest_probe(task.probe, data))
