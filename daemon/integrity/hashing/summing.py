"""
Digests of files named one by one, in the order of their names: what ``sum`` computes.

Unlike the engine this reads whatever can be opened, through the page cache, as md5sum does: symbolic links are
followed, devices and FIFOs are read to their end, ``-`` is standard input. Decides how work is spread over threads and
how results come back into order; what is printed of them is for others.

I1  Every request is answered once, in the order of the requests, by digests or by an error.
I2  At most ``_IN_FLIGHT`` batches a thread are under way, so memory does not grow with the number of files (but with
    the number of pieces of one file).
I3  What may take long (a large file, a FIFO, standard input) gets a batch of its own: threads share out large files one
    by one, and no result waits for the file behind it.
"""

from __future__ import annotations

import errno
import os
import stat
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from itertools import groupby, islice
from operator import attrgetter
from queue import SimpleQueue
from typing import NamedTuple

from integrity.files.buffers import Buffers
from integrity.files.opening import open_beneath
from integrity.hashing.algorithms import Algorithm, Hasher

STDIN = b"-"

_BUFFER_BYTES = 1 << 20
_BATCH_FILES = 64
_IN_FLIGHT = 4
_LARGE_BYTES = 4 << 20
"""From here on a file costs a thread more than a whole batch of small ones."""

_AT_ONCE_S = 0.05

_FLAGS = os.O_RDONLY | os.O_CLOEXEC | os.O_NOCTTY
_LONGEST_PATH = 4095

_Constructors = Sequence[Callable[[], Hasher]]

PieceSum = tuple[int, int, tuple[bytes, ...]]
"""Offset, length, and raw digests in the order of the algorithms that were asked for."""


class FileSum(NamedTuple):
    """
    The digests of one file.

    Attributes:
        path: as it was given.
        size_bytes: what was read; 0 with an error.
        pieces: the whole file as one piece, or all its pieces; an empty file is one, too. Empty with an error.
        error: why it could not be opened or read to its end.
    """

    path: bytes
    size_bytes: int
    pieces: Sequence[PieceSum]
    error: OSError | None


class Request(NamedTuple):
    """A file, and the algorithms to digest it with."""

    path: bytes
    algorithms: tuple[Algorithm, ...]


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
    crew = _Crew(jobs or len(os.sched_getaffinity(0)), piece_bytes)
    waiting: deque[_Batch] = deque()
    try:
        for batch in _into_batches(requests):
            crew.give(batch)
            waiting.append(batch)
            if len(waiting) >= crew.jobs * _IN_FLIGHT:
                yield from waiting.popleft().wait(idle)
        while waiting:
            yield from waiting.popleft().wait(idle)
    finally:
        crew.end()


class _Batch:
    """Files for one thread, then their results."""

    __slots__ = ("_is_done", "algorithms", "failure", "paths", "results")

    def __init__(self, paths: Sequence[bytes], algorithms: tuple[Algorithm, ...]) -> None:
        self.paths = paths
        self.algorithms = algorithms
        self.results: Sequence[FileSum | _Batch] = ()
        self.failure: BaseException | None = None
        self._is_done = threading.Event()

    def finish(self) -> None:
        """Let the results be taken."""
        self._is_done.set()

    def wait(self, idle: Callable[[], None]) -> Iterator[FileSum]:
        """
        Yield the results when they are there; call ``idle`` if that takes a while.

        Raises:
            BaseException: what the thread died of.
        """
        if not self._is_done.wait(_AT_ONCE_S):
            idle()
            self._is_done.wait()
        if self.failure is not None:
            raise self.failure
        for result in self.results:
            if isinstance(result, _Batch):
                yield from result.wait(idle)
            else:
                yield result


class _Crew:
    """The threads of one call: daemons, as one that waits for a FIFO or a terminal must not keep the program alive."""

    def __init__(self, jobs: int, piece_bytes: int | None) -> None:
        self.jobs = jobs
        self._piece_bytes = piece_bytes
        self._todo: SimpleQueue[_Batch | None] = SimpleQueue()
        self._is_over = threading.Event()
        self._threads: list[threading.Thread] = []

    def give(self, batch: _Batch) -> None:
        """Have a batch answered; threads are started as they are needed."""
        self._todo.put(batch)
        if len(self._threads) < self.jobs:
            thread = threading.Thread(target=self._work, name=f"sum-{len(self._threads)}", daemon=True)
            self._threads.append(thread)
            thread.start()

    def end(self) -> None:
        """Let the threads end; one that is reading does so after its next buffer."""
        self._is_over.set()
        for _ in self._threads:
            self._todo.put(None)

    def _work(self) -> None:
        summer: _Summer | None = None
        while (batch := self._todo.get()) is not None:
            try:
                if summer is None:
                    summer = _Summer(Buffers(_BUFFER_BYTES, 1).acquire(), self._piece_bytes, self._is_over)
                batch.results = self._answer(batch, summer)
            except BaseException as failure:  # noqa: BLE001 - raised in the thread that waits for the results
                batch.failure = failure
            batch.finish()

    def _answer(self, batch: _Batch, summer: _Summer) -> list[FileSum | _Batch]:
        constructors = [algorithm.find_constructor() for algorithm in batch.algorithms]
        is_alone = len(batch.paths) == 1
        results: list[FileSum | _Batch] = []
        for path in batch.paths:
            if not is_alone and _may_take_long(path):
                results.append(self._set_apart(path, batch.algorithms))
            else:
                results.append(summer.sum(path, constructors))
        return results

    def _set_apart(self, path: bytes, algorithms: tuple[Algorithm, ...]) -> _Batch:
        batch = _Batch((path,), algorithms)
        self._todo.put(batch)
        return batch


class _Summer:
    """
    Open, read and digest one file after the other, in one thread.

    Args:
        buffer: used again and again.
        piece_bytes: size of the pieces; None for whole files.
        is_over: set when nobody needs the results any more.
    """

    def __init__(self, buffer: memoryview, piece_bytes: int | None, is_over: threading.Event) -> None:
        self._buffer = buffer
        self._piece_bytes = piece_bytes
        self._is_over = is_over

    def sum(self, path: bytes, constructors: _Constructors) -> FileSum:
        """Digest a file, whatever it is."""
        try:
            if path == STDIN:
                return self._read(0, path, constructors)
            fd = _open(path)
            try:
                return self._read(fd, path, constructors)
            finally:
                os.close(fd)
        except OSError as error:
            return FileSum(path, 0, (), error)

    def _read(self, fd: int, path: bytes, constructors: _Constructors) -> FileSum:
        """Read to the end, whatever size it was said to have: files grow, and those in /proc have none."""
        pieces: list[PieceSum] = []
        begin = position = 0
        hashers = [make() for make in constructors]
        while not self._is_over.is_set():
            rest = len(self._buffer) if self._piece_bytes is None else begin + self._piece_bytes - position
            if not rest:
                pieces.append((begin, position - begin, tuple([hasher.digest() for hasher in hashers])))
                begin, hashers = position, [make() for make in constructors]
                continue
            count = os.readv(fd, (self._buffer[:rest],))
            if not count:
                break
            if count == len(self._buffer) and not position:
                with suppress(OSError):  # only a hint, and not for a pipe
                    os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_SEQUENTIAL)
            data = self._buffer[:count]
            for hasher in hashers:
                hasher.update(data)
            position += count
        if position > begin or not pieces:
            pieces.append((begin, position - begin, tuple([hasher.digest() for hasher in hashers])))
        return FileSum(path, position, pieces, None)


def _open(path: bytes) -> int:
    """Open a file as any program does; a path that no system call takes is resolved part by part."""
    try:
        return os.open(path, _FLAGS)
    except OSError as error:
        if error.errno != errno.ENAMETOOLONG or len(path) <= _LONGEST_PATH:
            raise
    folder = os.open(b"/" if path.startswith(b"/") else b".", os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        return open_beneath(folder, path.lstrip(b"/"), _FLAGS)
    finally:
        os.close(folder)


def _may_take_long(path: bytes) -> bool:
    """Tell whether others should not have to wait for this file. Before opening it: a FIFO would wait for a writer."""
    if path == STDIN:
        return True
    try:
        status = os.stat(path)
    except OSError:
        return False
    return status.st_size > _LARGE_BYTES or not (stat.S_ISREG(status.st_mode) or stat.S_ISDIR(status.st_mode))


def _into_batches(requests: Iterable[Request]) -> Iterator[_Batch]:
    """Group requests for the same algorithms, in order."""
    for algorithms, group in groupby(requests, attrgetter("algorithms")):
        while paths := [request.path for request in islice(group, _BATCH_FILES)]:
            yield _Batch(paths, algorithms)
