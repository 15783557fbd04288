"""
Listen while we are silent: what others suffer from a disk can't be told from what we cause while we read ourselves.

A silence is a stretch in which none of our readers has a read under way on the device and at least one of them waits.
"""

from __future__ import annotations

from collections.abc import Callable

LEAST_S = 0.02
"""So much silence must have been heard before it says anything: one seek of somebody else fits in."""


class Silence:
    """
    Add up the silences on one device and the pressure in them. Its callers hold a lock.

    Args:
        pressure: the seconds for which others have waited so far; None where that can't be known.
    """

    def __init__(self, pressure: Callable[[], float | None]) -> None:
        self._pressure = pressure
        self._readers = 0
        self._waiting = 0
        self._began_at: float | None = None
        self._stalled_before_s = 0.0
        self._heard_s = 0.0
        self._stalled_s = 0.0
        self.is_deaf = False  # pressure can't be known

    @property
    def is_broken(self) -> bool:
        """Say whether one of our reads is under way."""
        return self._readers > 0

    def begin_wait(self, now: float) -> None:
        """Note that a reader begins to wait."""
        self._waiting += 1
        self._begin(now)

    def begin_read(self, now: float, *, has_waited: bool) -> None:
        """Note that a reader begins to read."""
        self._waiting -= has_waited
        self._readers += 1
        if self._began_at is not None:
            self._end(now, self._began_at)

    def end_read(self, now: float) -> None:
        """Note that a reader has read."""
        self._readers -= 1
        self._begin(now)

    @property
    def has_enough(self) -> bool:
        """Say whether enough was heard since the last answer; where nothing can be heard, nothing is enough."""
        return self.is_deaf or self._heard_s >= LEAST_S

    def take_percent(self) -> float:
        """Return for how much of the silence since the last answer others were held up."""
        percent = 100 * min(self._stalled_s / self._heard_s, 1.0) if self._heard_s else 0.0
        self._heard_s = self._stalled_s = 0.0
        return percent

    def _begin(self, now: float) -> None:
        if self._readers or not self._waiting or self._began_at is not None or self.is_deaf:
            return
        stalled_s = self._pressure()
        if stalled_s is None:
            self.is_deaf = True
            return
        self._began_at, self._stalled_before_s = now, stalled_s

    def _end(self, now: float, began_at: float) -> None:
        self._began_at = None
        stalled_s = self._pressure()
        if stalled_s is None:
            self.is_deaf = True
            return
        self._heard_s += now - began_at
        self._stalled_s += stalled_s - self._stalled_before_s
