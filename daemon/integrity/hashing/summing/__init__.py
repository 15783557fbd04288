"""
Digests of files named one by one, in the order of their names: what ``sum`` computes.

Unlike the engine this reads whatever can be opened, through the page cache, as md5sum does: symbolic links are
followed, devices and FIFOs are read to their end, ``-`` is standard input. Decides how results come back into order;
who reads what how is in ``crew``, and what is printed is for others.

I1  Every request is answered once, in the order of the requests, by digests or by an error.
I2  At most ``_MOST_FILES`` files are under way, so memory does not grow with their number (but with the number of
    pieces of one file). So many, because the few large ones among them are digested side by side.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import count, groupby, islice

from integrity.hashing.algorithms import Algorithm
from integrity.hashing.summing.batches import Batch, Kind
from integrity.hashing.summing.crew import Crew
from integrity.hashing.summing.records import STDIN, FileSum, PieceSum, Request

__all__ = ["STDIN", "FileSum", "PieceSum", "Request", "sum_each", "sum_files"]

_MOST_FILES = 131_072
_FILES = 64
_MORE_FILES = 256
"""In a batch: the first ones are smaller, so that few files keep all threads busy, too."""


def _do_nothing() -> None:
    pass


def sum_files(
    paths: Iterable[bytes],
    algorithms: Sequence[Algorithm],
    *,
    piece_bytes: int | None = None,
    jobs: int | None = None,
    idle: Callable[[], None] = _do_nothing,
) -> Iterator[FileSum]:
    """
    Digest files, all with the same algorithms.

    Args:
        paths: taken as there is room for them, in the caller's thread.
        algorithms: computed side by side, in one pass.
        piece_bytes: size of the pieces to be digested one by one; None for whole files.
        jobs: threads; None for one per processor.
        idle: called in the caller's thread when the next result does not come at once.
    """
    chosen = tuple(algorithms)
    return sum_each((Request(path, chosen) for path in paths), piece_bytes=piece_bytes, jobs=jobs, idle=idle)


def sum_each(
    requests: Iterable[Request],
    *,
    piece_bytes: int | None = None,
    jobs: int | None = None,
    idle: Callable[[], None] = _do_nothing,
) -> Iterator[FileSum]:
    """Digest files, each with algorithms of its own; otherwise as ``sum_files``."""
    crew = Crew(jobs or len(os.sched_getaffinity(0)), piece_bytes)
    waiting: deque[Batch] = deque()
    under_way = 0
    try:
        for batch in _into_batches(requests):
            crew.give(batch)
            waiting.append(batch)
            under_way += len(batch.paths)
            while under_way > _MOST_FILES or (waiting and waiting[0].is_done):
                first = waiting.popleft()
                under_way -= len(first.paths)
                if not first.is_done:
                    crew.press()
                yield from first.wait(idle)
        crew.press()
        for batch in waiting:
            yield from batch.wait(idle)
    finally:
        crew.end()


def _into_batches(requests: Iterable[Request]) -> Iterator[Batch]:
    """Group requests for the same algorithms, in order; standard input stands alone."""
    numbers = count()
    for (algorithms, is_stdin), group in groupby(requests, lambda request: (request.algorithms, request.path == STDIN)):
        while paths := [request.path for request in islice(group, 1 if is_stdin else _FILES)]:
            if next(numbers) > _FILES:
                paths += [request.path for request in islice(group, _MORE_FILES - _FILES)]
            yield Batch(paths, algorithms, Kind.ALONE if is_stdin else Kind.TOGETHER)
