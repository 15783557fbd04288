"""
Read files whose manifest has digests that a recording does not compute, all of them in one pass.

The engine knows what the catalog keeps: MD5, XXH3-128 and BLAKE3. What else a manifest may have (SHA-1 to SHA-512,
XXH64, 64 bits of XXH3), and whole-file digests of very sparse files, are computed here beside the same digests that the
engine would give, by some threads, each of which reads one file as one stable version (R1).
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor, wait
from queue import SimpleQueue
from typing import TYPE_CHECKING, NamedTuple

from integrity.errors import DeviceFailing, ReadError, ReadInterrupted
from integrity.files.buffers import Buffers
from integrity.files.read import Reader, ReadMode, Segment
from integrity.hashing.algorithms import BLAKE3, MD5, XXH128, Algorithm, Hasher
from integrity.hashing.digests import FileHasher, is_very_sparse, recording, without_chain
from integrity.jobs.manifests.kept import known_digests
from integrity.model import Reading

if TYPE_CHECKING:
    from integrity.jobs.context import RootRun

_LOOK_INTERVAL_S = 0.5
_ZEROS = memoryview(bytes(1 << 20))


class Order(NamedTuple):
    """A file to read, and which digests are wanted; ``tag`` is handed back untouched."""

    path: bytes
    algorithms: tuple[Algorithm, ...]
    tag: object


class Answer(NamedTuple):
    """
    What came of an order.

    ``reading`` has what a recording keeps, ``digests`` what was wanted; or ``error`` says why there are none.
    """

    order: Order
    reading: Reading | None
    digests: dict[Algorithm, bytes]
    error: ReadError | None = None


class OnePass:
    """
    Read files of one run.

    Args:
        run: whose root they are in; ends early when it is stopped.
    """

    def __init__(self, run: RootRun) -> None:
        self._run = run
        self._reader: Reader = run.reader(ReadMode.RECORD)
        is_serial = run.device.is_rotational and run.context.jobs is None
        self._threads = 1 if is_serial else run.context.jobs or len(os.sched_getaffinity(0))
        self._has_blake3 = "blake3" in run.settings.digests
        self.bytes_done = 0

    def read(self, orders: Iterable[Order], *, tick: Callable[[], None]) -> Iterator[Answer]:
        """Answer all orders, in order, in the caller's thread; ``tick`` is called there while a file takes its time."""
        buffers: SimpleQueue[Buffers] = SimpleQueue()
        for _ in range(self._threads):
            buffers.put(Buffers())
        waiting: deque[Future[Answer]] = deque()
        with ThreadPoolExecutor(self._threads, thread_name_prefix="one-pass") as pool:
            for order in orders:
                waiting.append(pool.submit(self._answer, order, buffers))
                if len(waiting) > 4 * self._threads:
                    yield _await(waiting.popleft(), tick)
            while waiting:
                yield _await(waiting.popleft(), tick)
        while not buffers.empty():
            buffers.get().close()

    def _answer(self, order: Order, free: SimpleQueue[Buffers]) -> Answer:
        buffers = free.get()
        try:
            return self._read(order, buffers)
        except ReadError as error:
            return Answer(order, None, {}, error)
        finally:
            free.put(buffers)

    def _read(self, order: Order, buffers: Buffers) -> Answer:
        if self._run.context.stop.is_set():
            raise ReadInterrupted("interrupted")
        if self._run.budget.is_spent:
            raise DeviceFailing("not read: the device had too many read errors and is left alone")
        with self._reader.open(order.path) as file:
            want = recording(blake3=self._has_blake3)
            if is_very_sparse(file.size_bytes, file.size_bytes - file.stat.st_blocks * 512):
                want = without_chain(want)
            hasher = FileHasher(want, file.size_bytes, self._run.settings.block_size_bytes)
            kept = {
                one for one, is_kept in ((MD5, want.md5), (XXH128, want.xxh3_128), (BLAKE3, want.blake3)) if is_kept
            }
            others = {one: one.find_constructor()() for one in order.algorithms if one not in kept}
            for segment in file.segments(buffers):
                if self._run.context.stop.is_set():
                    raise ReadInterrupted("interrupted")
                hasher.feed(segment)
                _feed(others.values(), segment)
                self.bytes_done += segment.length
            witness = file.finish()
            digests = hasher.digests()
            _, blocks = hasher.take_blocks()
        found = {one: other.digest() for one, other in others.items()}
        found |= {one: digest for one, digest in known_digests(digests).items() if one in order.algorithms}
        return Answer(order, Reading(witness, digests, blocks, file.how, file.bytes_read), found)


def _feed(hashers: Iterable[Hasher], segment: Segment) -> None:
    """Feed a piece of a file; a hole is as many zeros."""
    if segment.data is not None:
        for hasher in hashers:
            hasher.update(segment.data)
        return
    for start in range(0, segment.length, len(_ZEROS)):
        for hasher in hashers:
            hasher.update(_ZEROS[: segment.length - start])


def _await(future: Future[Answer], tick: Callable[[], None]) -> Answer:
    while not wait((future,), timeout=_LOOK_INTERVAL_S).done:
        tick()
    return future.result()
