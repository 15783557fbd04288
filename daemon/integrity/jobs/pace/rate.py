"""
Decide how fast a device may be read: additive increase, multiplicative decrease, between floor and ceiling.

What the promise needs in the time that is left stands above everything, the ceiling included: a pace that starves the
promise protects nobody. The ceiling stands above the floor: it was asked for, the floor has a default.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from integrity.config.definition import PaceConfig as PaceSettings

_DECREASE = 0.25  # from full speed to a few MiB a second in a second: whoever came waits no longer than that
_STEPS = 16
"""So many quiet periods lead from nothing to full speed."""

_LEAST_BYTES_PER_S = 64 << 10
"""Where the floor is set to 0: a job that never moves would hold its root for ever."""

_FORGETTING = 0.99  # of the best, whenever the disk, not we, was the limit: it may have grown slower


class Rate:
    """
    The rule. Its callers hold a lock.

    Args:
        settings: floor and ceiling.
        needed_bytes_per_s: what the promise needs now; asked at each judgement.

    Attributes:
        floor: what is always allowed, the promise aside.
        allowed: bytes a second; infinite until the first judgement where there is no ceiling.
        best: the most that was measured, 0 before.
    """

    def __init__(self, settings: PaceSettings, needed_bytes_per_s: Callable[[], float]) -> None:
        self._ceiling = float(settings.rate_bytes_per_s or math.inf)
        self._needed_bytes_per_s = needed_bytes_per_s
        self.floor = min(max(settings.floor_bytes_per_s, _LEAST_BYTES_PER_S), self._ceiling)
        self._lowest = self.floor
        self.best = 0.0
        self.allowed = self._ceiling
        self._mind_promise()

    @property
    def lowest(self) -> float:
        """What is allowed now, whoever suffers."""
        return self._lowest

    @property
    def is_choice(self) -> bool:
        """Say whether anything depends on what others do: not while the promise needs all that the disk can."""
        return not self.best or self._lowest < self.best

    def note_speed(self, bytes_per_s: float) -> None:
        """Note what was reached."""
        was_free = self.allowed > bytes_per_s * 1.2
        self.best = max(self.best * _FORGETTING if was_free else self.best, bytes_per_s)

    def fall(self, reached_bytes_per_s: float) -> None:
        """Go slower: others suffer."""
        self._mind_promise()
        self.allowed = max(min(self.allowed, reached_bytes_per_s) * _DECREASE, self._lowest)

    def rise(self) -> None:
        """Go faster: nobody does. What nobody can reach is not climbed to, for the way back would be as long."""
        self._mind_promise()
        step = max(self.best / _STEPS, self._lowest / 4)
        if self.allowed < 2 * self.best or self.allowed == self._lowest:
            self.allowed = max(min(self.allowed + step, self._ceiling), self._lowest)

    def _mind_promise(self) -> None:
        self._lowest = max(self.floor, self._needed_bytes_per_s())
        self.allowed = max(self.allowed, self._lowest)
