"""
Detect from pressure or from the latency of our own reads whether others use the disk.

``IdlePeriods`` measures pressure while no read of ours is in flight and at least one of our readers waits: while we
read, the waiting that others cause can't be told from our own. ``Latency`` is the fallback where the kernel reports no
reliable pressure: it compares reads of similar size. The usual durations double every hour unless new reads lower them,
because the inner tracks of a disk take twice as long as the outer ones.
"""

from __future__ import annotations

from collections.abc import Callable

_HALF_LIFE_S = 3600.0
_LEARNING = 0.25  # how far one fast period lowers the usual duration, so that a single lucky read does not set it
_FEWEST_READS = 4


class Latency:
    """
    Compare the durations of reads with the usual ones. Callers hold a lock.

    Args:
        monotonic: the clock, in seconds.
    """

    def __init__(self, monotonic: Callable[[], float]) -> None:
        self._monotonic = monotonic
        self._aged_at = monotonic()
        self._usual_s: dict[int, float] = {}
        self._period: dict[int, list[float]] = {}
        self._reads = 0

    def note(self, size_bytes: int, duration_s: float) -> None:
        """Record a read."""
        self._period.setdefault(size_bytes.bit_length(), []).append(duration_s)
        self._reads += 1

    @property
    def has_enough(self) -> bool:
        """Whether enough reads were recorded since the last ``take_percent``."""
        return self._reads >= _FEWEST_READS

    def take_percent(self) -> float:
        """Return the share of the reading time since the last call that exceeded the usual, in percent."""
        self._age()
        spent_s = sum(sum(durations) for durations in self._period.values())
        usual_s = sum(self._learn(size, durations) * len(durations) for size, durations in self._period.items())
        self._period.clear()
        self._reads = 0
        return 100 * max(0.0, 1 - usual_s / spent_s) if spent_s else 0.0

    def _learn(self, size_class: int, durations: list[float]) -> float:
        """Return the usual duration of a read of this size class, updated with these durations."""
        mean_s = sum(durations) / len(durations)
        usual_s = self._usual_s.get(size_class, mean_s)
        if mean_s < usual_s:
            usual_s += (mean_s - usual_s) * _LEARNING
        self._usual_s[size_class] = usual_s
        return usual_s

    def _age(self) -> None:
        now = self._monotonic()
        growth = 2 ** ((now - self._aged_at) / _HALF_LIFE_S)
        self._aged_at = now
        self._usual_s = {size: usual_s * growth for size, usual_s in self._usual_s.items()}


LEAST_S = 0.02
"""Minimum idle time for a measurement: one seek of another reader fits in."""


class IdlePeriods:
    """
    Add up our idle time on one device and the pressure during it. Callers hold a lock.

    Args:
        pressure: total seconds that others have waited for the device; None where unknown.
    """

    def __init__(self, pressure: Callable[[], float | None]) -> None:
        self._pressure = pressure
        self._readers = 0
        self._waiting = 0
        self._began_at: float | None = None
        self._stalled_before_s = 0.0
        self._idle_s = 0.0
        self._stalled_s = 0.0
        self.is_unknown = False  # the pressure is unknown

    @property
    def is_reading(self) -> bool:
        """Whether one of our reads is in flight."""
        return self._readers > 0

    def begin_wait(self, now: float) -> None:
        """Record that a reader begins to wait."""
        self._waiting += 1
        self._begin(now)

    def begin_read(self, now: float, *, has_waited: bool) -> None:
        """Record that a reader begins to read."""
        self._waiting -= has_waited
        self._readers += 1
        if self._began_at is not None:
            self._end(now, self._began_at)

    def end_read(self, now: float) -> None:
        """Record that a reader finished reading."""
        self._readers -= 1
        self._begin(now)

    @property
    def has_enough(self) -> bool:
        """Whether enough idle time was measured since the last ``take_percent``; True where the pressure is unknown."""
        return self.is_unknown or self._idle_s >= LEAST_S

    def take_percent(self) -> float:
        """Return the share of the idle time since the last call during which others waited, in percent."""
        percent = 100 * min(self._stalled_s / self._idle_s, 1.0) if self._idle_s else 0.0
        self._idle_s = self._stalled_s = 0.0
        return percent

    def _begin(self, now: float) -> None:
        if self._readers or not self._waiting or self._began_at is not None or self.is_unknown:
            return
        stalled_s = self._pressure()
        if stalled_s is None:
            self.is_unknown = True
            return
        self._began_at, self._stalled_before_s = now, stalled_s

    def _end(self, now: float, began_at: float) -> None:
        self._began_at = None
        stalled_s = self._pressure()
        if stalled_s is None:
            self.is_unknown = True
            return
        self._idle_s += now - began_at
        self._stalled_s += stalled_s - self._stalled_before_s
