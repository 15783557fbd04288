"""
Tell from how long our own reads take whether others use the disk: the second best, where the kernel tells no pressure.

Reads of much the same size are compared with each other. What was once quick is believed for about an hour: the inner
tracks of a disk take twice as long as the outer ones.
"""

from __future__ import annotations

from collections.abc import Callable

_HALF_LIFE_S = 3600.0
_LEARNING = 0.25  # how far the usual duration follows one quick period: single lucky reads are not the rule
_FEWEST_READS = 4


class Latency:
    """
    Hold the durations of reads against the usual ones. Its callers hold a lock.

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
        """Note a read."""
        self._period.setdefault(size_bytes.bit_length(), []).append(duration_s)
        self._reads += 1

    @property
    def has_enough(self) -> bool:
        """Say whether there were enough reads since the last answer."""
        return self._reads >= _FEWEST_READS

    def take_percent(self) -> float:
        """Return how much of the reading time since the last answer was more than usual."""
        self._forget_slowly()
        spent_s = sum(sum(durations) for durations in self._period.values())
        usual_s = sum(self._learn(size, durations) * len(durations) for size, durations in self._period.items())
        self._period.clear()
        self._reads = 0
        return 100 * max(0.0, 1 - usual_s / spent_s) if spent_s else 0.0

    def _learn(self, size_class: int, durations: list[float]) -> float:
        """Return the usual duration of a read of this size, with these in mind."""
        mean_s = sum(durations) / len(durations)
        usual_s = self._usual_s.get(size_class, mean_s)
        if mean_s < usual_s:
            usual_s += (mean_s - usual_s) * _LEARNING
        self._usual_s[size_class] = usual_s
        return usual_s

    def _forget_slowly(self) -> None:
        now = self._monotonic()
        growth = 2 ** ((now - self._aged_at) / _HALF_LIFE_S)
        self._aged_at = now
        self._usual_s = {size: usual_s * growth for size, usual_s in self._usual_s.items()}
