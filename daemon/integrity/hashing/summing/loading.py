"""
Small files of ``sum``, a batch at a time: loaded and digested by the C core.

Importing this module fails with ImportError where the extension cannot be loaded.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from operator import itemgetter
from typing import NamedTuple

from integrity.files.arena import READ, Arena, Row
from integrity.files.buffers import Buffers
from integrity.files.load import load_files
from integrity.hashing import lanes
from integrity.hashing.algorithms import MD5, XXH128, Algorithm, Hasher
from integrity.hashing.lanes import Lanes
from integrity.hashing.md5_native import Scheduler
from integrity.hashing.summing.batches import Batch
from integrity.hashing.summing.records import FileSum

_ARENA_BYTES = 1 << 20


class _Computed(NamedTuple):
    """A digest that the C core computes beside reading: what it is asked for, and what it answers."""

    wanted: int
    take: Callable[[Row], bytes]


_COMPUTED: dict[Algorithm, _Computed] = {
    MD5: _Computed(lanes.MD5, itemgetter(6)),
    XXH128: _Computed(lanes.XXH3_128, itemgetter(7)),
}


class _Loading(NamedTuple):
    """A batch under way; what is not digested yet is None."""

    batch: Batch
    results: list[FileSum | Batch | None]


class _Part(NamedTuple):
    """Files of a batch that lie in one arena."""

    loading: _Loading
    first: int


class Loader:
    """
    Load and digest small files, for one thread.

    Args:
        buffers: whose memory is used, until ``flush``.
    """

    def __init__(self, buffers: Buffers) -> None:
        self._scheduler = Scheduler()
        self._lanes: Lanes[_Part] = Lanes(
            self._scheduler, [Arena(ring.acquire()) for ring in buffers.cut(_ARENA_BYTES)]
        )

    @property
    def is_empty(self) -> bool:
        """Say whether all batches are answered."""
        return self._lanes.is_empty

    def load(self, batch: Batch, sum_one: Callable[[bytes], FileSum | Batch]) -> None:
        """
        Load the files of a batch, which is answered when all their digests are there.

        Args:
            batch: its paths and algorithms.
            sum_one: answers a file that can't be loaded; uses the same memory.
        """
        loading = _Loading(batch, [])
        left: list[int] = []
        while (first := len(loading.results)) < len(batch.paths):
            arena = self._lanes.arena
            if arena is None:
                self._scheduler.step()
                self._take_finished()
                continue
            load_files(batch.paths[first:], _ARENA_BYTES, arena)
            if not arena.count:  # one of the paths is none that any file can have
                left += range(first, len(batch.paths))
                loading.results.extend([None] * (len(batch.paths) - first))
                break
            left += [first + at for at, status in enumerate(arena.statuses()) if status != READ]
            loading.results.extend([None] * arena.count)
            self._lanes.submit(
                _Part(loading, first), sum(_COMPUTED[one].wanted for one in batch.algorithms if one in _COMPUTED)
            )
            if not left:
                self._take_finished()
        if left:
            self.flush()
            for at in left:
                loading.results[at] = sum_one(batch.paths[at])
            _finish_if_whole(loading)

    def flush(self) -> None:
        """Answer all that was loaded."""
        self._scheduler.flush()
        self._take_finished()

    def _take_finished(self) -> None:
        for arena, (loading, first) in self._lanes.take_finished():
            batch = loading.batch
            computed = [_COMPUTED.get(algorithm) for algorithm in batch.algorithms]
            constructors = [algorithm.find_constructor() for algorithm in batch.algorithms]
            for at, row in enumerate(arena.rows(), first):
                if row[0] != READ:
                    continue
                size, offset = row[1], row[5]
                digests = tuple(
                    [
                        _digest(arena.memory[offset : offset + size], make) if known is None else known.take(row)
                        for known, make in zip(computed, constructors, strict=True)
                    ]
                )
                loading.results[at] = FileSum(batch.paths[at], size, ((0, size, digests),), None)
            _finish_if_whole(loading)


def _digest(data: memoryview, make: Callable[[], Hasher]) -> bytes:
    hasher = make()
    hasher.update(data)
    return hasher.digest()


def _finish_if_whole(loading: _Loading) -> None:
    results: Sequence[FileSum | Batch] = [one for one in loading.results if one is not None]
    if len(results) == len(loading.batch.paths):
        loading.batch.finish(results)
