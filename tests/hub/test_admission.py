"""How much boxes can take of the hub."""

from __future__ import annotations

import pytest

from integrity.errors import CallRefused
from integrity.hub.admission import Rates, Slots
from support.clock import Clock


def test_burst_is_allowed_and_then_the_rate() -> None:
    """A key may make a burst of requests, then as many as come back each second; the answer says when to try again."""
    clock = Clock()
    rates = Rates(2.0, 3, clock)
    for _ in range(3):
        rates.take("nas")
    with pytest.raises(CallRefused) as refused:
        rates.take("nas")
    rates.take("other")
    clock.now += 0.5
    rates.take("nas")

    assert (429, 1) == (refused.value.status, refused.value.retry_after_s)


def test_slots_come_back() -> None:
    """One request too many is refused with a time to wait; after the end of another it is not."""
    slots = Slots(1)
    with slots.hold(), pytest.raises(CallRefused) as refused, slots.hold():
        pass
    with slots.hold():
        pass

    assert 503 == refused.value.status
    assert 2 <= (refused.value.retry_after_s or 0) <= 20
