"""A ceiling on the rate holds from the first byte on."""

from __future__ import annotations

from integrity.jobs.pace.throttle import Throttle
from integrity.jobs.report import Stop


class Clock:
    """A clock that only waiting moves."""

    def __init__(self) -> None:
        self.now_s = 1000.0

    def monotonic(self) -> float:
        return self.now_s

    def wait(self, duration_s: float) -> bool:
        self.now_s += duration_s
        return False


def make_throttle(rate: int) -> tuple[Throttle, Clock]:
    clock = Clock()
    return Throttle(rate, Stop(), monotonic=clock.monotonic, wait=clock.wait), clock


def test_one_large_piece_is_waited_for():
    """The first piece is no gift: four seconds' worth of bytes take four seconds."""
    throttle, clock = make_throttle(1000)

    throttle.take(4000)

    assert 4.0 == clock.now_s - 1000.0


def test_many_small_pieces_keep_the_rate():
    """A thousand pieces take as long as their sum."""
    throttle, clock = make_throttle(1000)

    for _ in range(1000):
        throttle.take(10)

    assert 9.7 < clock.now_s - 1000.0 <= 10.001


def test_what_was_not_used_is_not_saved_up():
    """After a long silence no more than a short burst is free."""
    throttle, clock = make_throttle(1000)
    throttle.take(1000)
    clock.now_s += 3600
    began_s = clock.now_s

    throttle.take(2000)

    assert 1.75 == clock.now_s - began_s
