"""
The digests of many batches of small files, the MD5s of all of them side by side.

The lanes in which the C core computes MD5 stay full from one batch to the next: so the digests of a batch are there
some batches later, and only then its memory is free again. All other digests are computed at once.

Importing this module fails with ImportError where the extension cannot be loaded.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Generic, TypeVar

from integrity._native import lib
from integrity.files.arena import Arena
from integrity.hashing.md5_native import Scheduler

T = TypeVar("T")

MD5 = lib.FILE_BATCH_MD5
XXH3_128 = lib.FILE_BATCH_XXH3_128
CRC64NVME = lib.FILE_BATCH_CRC64NVME


class Lanes(Generic[T]):
    """
    Batches of one thread.

    Args:
        scheduler: of the thread; what else is submitted to it goes beside them.
        arenas: the memory of the batches, all of one size.

    Attributes:
        arena_bytes: the size.
    """

    def __init__(self, scheduler: Scheduler, arenas: Sequence[Arena]) -> None:
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
