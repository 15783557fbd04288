"""A clock that a test sets."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass
class Clock:
    """
    A clock that stands until it is set.

    Attributes:
        now: the time that it returns, in seconds.
    """

    now: float = 1000.0

    def __call__(self) -> float:
        return self.now
