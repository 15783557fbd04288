"""
Decide how fast a device may be read: additive increase, multiplicative decrease, between floor and ceiling.

The rate that ``verify_every`` requires overrides both, because a slower pace would break the promise. The ceiling
overrides the floor, because the owner set it and the floor has a default.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from integrity.config.definition import PaceConfig as PaceSettings

_DECREASE = 0.25  # from full speed to a few MiB/s within a second, so that others wait no longer than that
_STEPS = 16
"""Number of quiet periods to get from zero to full speed."""

_LEAST_BYTES_PER_S = 64 << 10
"""Used where the floor is set to 0: a job without progress would hold its root forever."""

_DECAY = 0.99  # of ``best``, each time the disk was the limit: it may have become slower


class Rate:
    """
    The allowed rate of one device. Callers hold a lock.

    Args:
        needed_bytes_per_s: the rate that ``verify_every`` requires now; called at each change.

    Attributes:
        floor: the rate that is always allowed, apart from the required one.
        allowed: bytes per second; without a ceiling infinite until the first ``fall``.
        best: the highest measured rate; 0 before the first measurement.
    """

    def __init__(self, settings: PaceSettings, needed_bytes_per_s: Callable[[], float]) -> None:
        self._ceiling = float(settings.rate_bytes_per_s or math.inf)
        self._needed_bytes_per_s = needed_bytes_per_s
        self.floor = min(max(settings.floor_bytes_per_s, _LEAST_BYTES_PER_S), self._ceiling)
        self._lowest = self.floor
        self.best = 0.0
        self.allowed = self._ceiling
        self._apply_needed_rate()

    @property
    def lowest(self) -> float:
        """The rate that is allowed now even if others wait."""
        return self._lowest

    @property
    def is_adjustable(self) -> bool:
        """Whether the rate depends on others: not while ``verify_every`` requires all that the disk can do."""
        return not self.best or self._lowest < self.best

    def note_speed(self, bytes_per_s: float) -> None:
        """Record a measured rate."""
        was_free = self.allowed > bytes_per_s * 1.2
        self.best = max(self.best * _DECAY if was_free else self.best, bytes_per_s)

    def fall(self, reached_bytes_per_s: float) -> None:
        """Slow down, because others wait."""
        self._apply_needed_rate()
        self.allowed = max(min(self.allowed, reached_bytes_per_s) * _DECREASE, self._lowest)

    def rise(self) -> None:
        """Speed up, because nobody waits, to at most twice the best rate: slowing down from more would take as long."""
        self._apply_needed_rate()
        step = max(self.best / _STEPS, self._lowest / 4)
        if self.allowed < 2 * self.best or self.allowed == self._lowest:
            self.allowed = max(min(self.allowed + step, self._ceiling), self._lowest)

    def _apply_needed_rate(self) -> None:
        self._lowest = max(self.floor, self._needed_bytes_per_s())
        self.allowed = max(self.allowed, self._lowest)
