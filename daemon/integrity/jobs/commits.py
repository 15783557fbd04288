"""
When the results of a reading are written: together with what they cover, about once a second at most (R7, R9).

Decides the moments; what waits and how it is written is its owner's, a scan or a scrub. All of it happens in the
owner's thread.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from integrity.hashing.engine import Engine
from integrity.hashing.tasks import DoneBatch, Result, Work, singly

_COMMIT_S = 1.0
_ROWS_AT_ONCE = 10_000
"""So many rows are written sooner: they take memory, and a commit of more would be felt."""


class Commits:
    """
    Write what waits, now and then.

    Args:
        monotonic: seconds.
        waiting: counts the rows that wait.
        write: writes them in one transaction; after it none waits.
    """

    def __init__(
        self, monotonic: Callable[[], float], *, waiting: Callable[[], int], write: Callable[[], None]
    ) -> None:
        self._monotonic = monotonic
        self._waiting = waiting
        self._write = write
        self._written_at = monotonic()

    def read(
        self,
        engine: Engine,
        tasks: Iterable[Work],
        *,
        take: Callable[[Result], None],
        tell: Callable[[], None],
        take_batch: Callable[[DoneBatch], None] | None = None,
    ) -> None:
        """
        Read, and write what comes of it on the way and at the end.

        Args:
            engine: reads.
            tasks: what.
            take: takes each result; what it makes of them waits.
            tell: tells the progress; also called while a large file is being read.
            take_batch: takes the results that come together; None: ``take`` does.
        """

        def look() -> None:
            tell()
            self.write_if_due()

        for answer in engine.run_batches(tasks, tick=look):
            if isinstance(answer, DoneBatch) and take_batch is not None:
                take_batch(answer)
            else:
                for result in singly(answer):
                    take(result)
        self.write()

    def write(self) -> None:
        """Write what waits."""
        if self._waiting():
            self._write()
        self._written_at = self._monotonic()

    def write_if_due(self) -> None:
        """Write what waits if it is time."""
        waiting = self._waiting()
        if waiting and (waiting >= _ROWS_AT_ONCE or self._monotonic() - self._written_at >= _COMMIT_S):
            self.write()
