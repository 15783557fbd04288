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

from integrity.hashing.algorithms import Algorithm
from integrity.hashing.summing.batches import Batch, Kind
from integrity.hashing.summing.crew import LARGE_BYTES, Crew
from integrity.hashing.summing.records import STDIN, FileSum, Hint, PieceSum, Request

__all__ = ["LARGE_BYTES", "STDIN", "FileSum", "Hint", "PieceSum", "Request", "sum_each", "sum_files"]

_MOST_FILES = 131_072
_MOST_BEGUN = 1024
_FILES = 64
_MORE_FILES = 256
"""In a batch: the first ones are smaller, so that few files keep all threads busy, too."""


def _do_nothing() -> None:
    pass


def sum_files(
    paths: Iterable[bytes | Hint],
    algorithms: Sequence[Algorithm],
    *,
    piece_bytes: int | None = None,
    jobs: int | None = None,
    idle: Callable[[], None] = _do_nothing,
) -> Iterator[FileSum]:
    """
    Digest files, all with the same algorithms.

    Args:
        paths: taken as there is room for them, in the caller's thread; with hints at those to come.
        algorithms: computed side by side, in one pass.
        piece_bytes: size of the pieces to be digested one by one; None for whole files.
        jobs: threads; None for one per processor.
        idle: called in the caller's thread when the next result does not come at once.
    """
    chosen = tuple(algorithms)
    requests = (Request(path, chosen) if isinstance(path, bytes) else path for path in paths)
    return _sum(requests, chosen, piece_bytes, jobs, idle)


def sum_each(
    requests: Iterable[Request],
    *,
    jobs: int | None = None,
    idle: Callable[[], None] = _do_nothing,
) -> Iterator[FileSum]:
    """Digest whole files, each with algorithms of its own; otherwise as ``sum_files``."""
    return _sum(requests, (), None, jobs, idle)


def _sum(
    requests: Iterable[Request | Hint],
    algorithms: tuple[Algorithm, ...],
    piece_bytes: int | None,
    jobs: int | None,
    idle: Callable[[], None],
) -> Iterator[FileSum]:
    crew = Crew(jobs or len(os.sched_getaffinity(0)), piece_bytes)
    begun: dict[bytes, Batch] = {}
    waiting: deque[Batch] = deque()
    under_way = 0
    try:
        for item in _into_batches(requests, begun):
            if isinstance(item, Hint):
                if len(begun) < _MOST_BEGUN:
                    begun[item.path] = Batch((item.path,), algorithms)
                    crew.give(begun[item.path])
                continue
            if not item.is_given:
                crew.give(item)
            waiting.append(item)
            under_way += len(item.paths)
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


def _into_batches(requests: Iterable[Request | Hint], begun: dict[bytes, Batch]) -> Iterator[Batch | Hint]:
    """Group requests for the same algorithms, in order; standard input and what was begun stand alone."""
    group: list[bytes] = []
    algorithms: tuple[Algorithm, ...] = ()
    most = _FILES
    batches = 0
    for request in requests:
        if isinstance(request, Hint):
            yield request
            continue
        alone = begun.pop(request.path, None) if begun else None
        if request.path == STDIN:
            alone = Batch((STDIN,), request.algorithms, Kind.ALONE)
        if group and (alone is not None or len(group) == most or request.algorithms != algorithms):
            yield Batch(group, algorithms)
            group = []
            batches += 1
            most = _FILES if batches < _FILES else _MORE_FILES
        if alone is not None:
            yield alone
            continue
        algorithms = request.algorithms
        group.append(request.path)
    if group:
        yield Batch(group, algorithms)
