"""When a run that has limits stops; stopping at one is no error."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from integrity.jobs.context import RootRun


class Limit:
    """
    Say when to stop: asked to, out of time, or enough bytes read.

    Args:
        run: whose context and counts are looked at.
        until: on the monotonic clock.
        until_bytes: so many in all.
    """

    def __init__(self, run: RootRun, *, until: float | None, until_bytes: int | None) -> None:
        self._run = run
        self._until = until
        self._until_bytes = until_bytes

    @property
    def is_any(self) -> bool:
        """Say whether there is one, apart from being asked to stop."""
        return self._until is not None or self._until_bytes is not None

    def is_set(self) -> bool:
        """Say whether no more is to be begun."""
        run = self._run
        if run.context.stop.is_set() or run.context.rest.is_set():
            return True
        if self._until is not None and run.context.monotonic() >= self._until:
            return True
        return self._until_bytes is not None and run.counts.bytes_read >= self._until_bytes

    def half(self) -> Limit:
        """Make one that stops half-way from here."""
        now, done = self._run.context.monotonic(), self._run.counts.bytes_read
        until = None if self._until is None else (now + self._until) / 2
        return Limit(
            self._run, until=until, until_bytes=None if self._until_bytes is None else (done + self._until_bytes) // 2
        )
