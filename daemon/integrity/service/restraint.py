"""Not saying the same again and again while something is tried every second."""

from __future__ import annotations

from collections.abc import Callable

from integrity.alerts.delivery import back_off_s


class Restraint:
    """Hold back what would be said again and again: for a minute, and twice as long each time, up to an hour."""

    def __init__(self, monotonic: Callable[[], float]) -> None:
        self._monotonic = monotonic
        self._failures = 0
        self._until = 0.0

    def is_on(self) -> bool:
        """Say whether it is to be held back now."""
        return self._failures > 0 and self._monotonic() < self._until

    def begin(self) -> None:
        """Learn of a failure; one that is held back is none of its own."""
        if not self.is_on():
            self._until = self._monotonic() + back_off_s(self._failures)
            self._failures += 1

    def end(self) -> None:
        """Learn that it went well."""
        self._failures = 0
