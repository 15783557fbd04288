"""Files for one thread, then their results, for which one consumer waits in the order of the files."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from enum import Enum, auto

from integrity.hashing.algorithms import Algorithm
from integrity.hashing.summing.records import FileSum

_AT_ONCE_S = 0.05


class Kind(Enum):
    """How the files of a batch are read."""

    TOGETHER = auto()  # small ones; what is not is put off
    ALONE = auto()  # one file to its end, or for ever
    BESIDE = auto()  # one large file beside others


class Batch:
    """
    Files that one thread digests.

    Args:
        paths: of the files.
        algorithms: to digest them with.
        kind: how they are read.

    Attributes:
        is_given: a thread has it, or will have it.
    """

    __slots__ = ("_is_done", "algorithms", "failure", "is_given", "kind", "paths", "results")

    def __init__(self, paths: Sequence[bytes], algorithms: tuple[Algorithm, ...], kind: Kind = Kind.TOGETHER) -> None:
        self.paths = paths
        self.algorithms = algorithms
        self.kind = kind
        self.is_given = False
        self.results: Sequence[FileSum | Batch] = ()
        self.failure: BaseException | None = None
        self._is_done = threading.Event()

    def finish(self, results: Sequence[FileSum | Batch]) -> None:
        """Let the results be taken; a batch among them stands for a file that was put off."""
        self.results = results
        self._is_done.set()

    def fail(self, failure: BaseException) -> None:
        """Let whoever waits raise what the thread died of."""
        self.failure = failure
        self._is_done.set()

    @property
    def is_done(self) -> bool:
        """Say whether all results are there."""
        return self._is_done.is_set() and all(result.is_done for result in self.results if isinstance(result, Batch))

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
            if isinstance(result, Batch):
                yield from result.wait(idle)
            else:
                yield result
