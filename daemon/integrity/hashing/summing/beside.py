"""
Several large files at a time in one thread: a piece of each in turn, all their MD5s side by side.

The MD5 of one file is a chain, which no processor computes as fast as it reads memory; those of many files have nothing
to do with each other and fill the lanes.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Sequence
from dataclasses import dataclass

from integrity.files.buffers import Buffers
from integrity.hashing.algorithms import Hasher
from integrity.hashing.md5 import Md5, digest_many
from integrity.hashing.summing.batches import Batch
from integrity.hashing.summing.records import FileSum
from integrity.hashing.summing.single import open_any
from integrity.hashing.todo import Todo

SHARE_BYTES = 256 << 10
SIDE_BY_SIDE = 60


@dataclass(slots=True, eq=False)
class _Reading:
    """A file under way."""

    batch: Batch
    fd: int
    buffer: memoryview
    hashers: list[Hasher]
    size_bytes: int = 0  # read so far


class SideBySide:
    """
    Digest large files, for one thread.

    Args:
        todo: where more of them come from.
        buffers: whose memory is used.
        is_over: set when nobody needs the results any more.
    """

    def __init__(self, todo: Todo[Batch], buffers: Buffers, is_over: threading.Event) -> None:
        self._todo = todo
        self._free = [ring.acquire() for ring in buffers.cut(SHARE_BYTES)]
        self._is_over = is_over
        self._readings: list[_Reading] = []

    def answer(self, batches: Sequence[Batch]) -> None:
        """Answer batches of one file each, and what else can go beside them meanwhile."""
        try:
            while (batches or self._readings) and not self._is_over.is_set():
                for batch in batches:
                    self._begin(batch)
                self._go_on()
                batches = self._todo.take_more(len(self._free))
        except BaseException as failure:
            for batch in (*batches, *(reading.batch for reading in self._readings)):
                batch.fail(failure)
            raise
        finally:
            for reading in self._readings:
                os.close(reading.fd)
                self._free.append(reading.buffer)
            self._readings.clear()

    def _begin(self, batch: Batch) -> None:
        (path,) = batch.paths
        hashers = [algorithm.find_constructor()() for algorithm in batch.algorithms]
        try:
            fd = open_any(path)
        except OSError as error:
            batch.finish((FileSum(path, 0, (), error),))
            return
        self._readings.append(_Reading(batch, fd, self._free.pop(), hashers))

    def _go_on(self) -> None:
        """Read a piece of each file and digest them all; answer for those that are over."""
        streams: list[tuple[Md5, memoryview]] = []
        for reading in list(self._readings):
            data = self._read(reading)
            if data is None:
                self._readings.remove(reading)
                os.close(reading.fd)
                self._free.append(reading.buffer)
                continue
            for hasher in reading.hashers:
                if isinstance(hasher, Md5):
                    streams.append((hasher, data))
                else:
                    hasher.update(data)
        digest_many((), beside=streams)

    def _read(self, reading: _Reading) -> memoryview | None:
        """Read the next piece; answer for the file and give None when there is none."""
        (path,) = reading.batch.paths
        try:
            count = os.readv(reading.fd, (reading.buffer,))
        except OSError as error:
            reading.batch.finish((FileSum(path, 0, (), error),))
            return None
        if count:
            reading.size_bytes += count
            return reading.buffer[:count]
        digests = tuple([hasher.digest() for hasher in reading.hashers])
        reading.batch.finish((FileSum(path, reading.size_bytes, ((0, reading.size_bytes, digests),), None),))
        return None
