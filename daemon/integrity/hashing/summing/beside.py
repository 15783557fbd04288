"""
Several large files at a time in one thread, their MD5s side by side.

Importing this module fails with ImportError where the extension cannot be loaded.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Sequence
from typing import NamedTuple

from integrity.hashing.algorithms import MD5, XXH128, Algorithm
from integrity.hashing.digests import Want
from integrity.hashing.large_batch import LargeBatch, LargeFile
from integrity.hashing.summing.batches import Batch
from integrity.hashing.summing.records import FileSum
from integrity.hashing.summing.single import open_any
from integrity.hashing.todo import Todo

COMPUTED = frozenset({MD5, XXH128})
"""What can be computed in this way."""


class _Reading(NamedTuple):
    """A file under way."""

    batch: Batch
    fd: int


class SideBySide:
    """
    Digest large files, for one thread.

    Args:
        todo: where more of them come from.
        memory: used while there is something to digest.
        most_files: at a time.
        is_over: set when nobody needs the results any more.
    """

    def __init__(self, todo: Todo[Batch], memory: memoryview, most_files: int, is_over: threading.Event) -> None:
        self._todo = todo
        self._files: LargeBatch[_Reading] = LargeBatch(memory, most_files)
        self._is_over = is_over

    def answer(self, batches: Sequence[Batch]) -> None:
        """Answer batches of one file each, and what else can go beside them meanwhile."""
        try:
            while (batches or self._files.under_way) and not self._is_over.is_set():
                for batch in batches:
                    self._begin(batch)
                for file in self._files.run():
                    self._files.release(file)
                    self._end(file)
                batches = self._todo.take_more(self._files.room)
        except BaseException as failure:
            for batch in (*batches, *(file.owner.batch for file in self._files.under_way.values())):
                batch.fail(failure)
            raise
        finally:
            fds = [file.owner.fd for file in self._files.under_way.values()]
            self._files.drop_all()
            for fd in fds:
                os.close(fd)

    def _begin(self, batch: Batch) -> None:
        (path,) = batch.paths
        try:
            fd = open_any(path)
        except OSError as error:
            batch.finish((FileSum(path, 0, (), error),))
            return
        self._files.begin(
            _Reading(batch, fd), fd, Want(md5=MD5 in batch.algorithms, xxh3_128=XXH128 in batch.algorithms)
        )

    def _end(self, file: LargeFile[_Reading]) -> None:
        batch, fd = file.owner
        os.close(fd)
        (path,) = batch.paths
        if file.error is not None:
            error = OSError(file.error, os.strerror(file.error))
            batch.finish((FileSum(path, 0, (), error),))
            return
        size = file.position
        batch.finish((FileSum(path, size, ((0, size, _get_digests(file, batch.algorithms)),), None),))


def _get_digests(file: LargeFile[_Reading], algorithms: Sequence[Algorithm]) -> tuple[bytes, ...]:
    computed = {MD5: file.md5, XXH128: file.xxh3_128}
    return tuple([digest for algorithm in algorithms if (digest := computed[algorithm]) is not None])
