"""What fails every second is not said every second."""

from __future__ import annotations

from integrity.service.log_backoff import LogBackoff
from support.clock import Clock


def count_said(backoff: LogBackoff, clock: Clock, seconds: int) -> int:
    """Fail once a second, and say so unless that is held back; count how often it was said."""
    said = 0
    for _ in range(seconds):
        said += not backoff.is_silent()
        backoff.record_failure()
        clock.now += 1
    return said


def test_lasting_failure_is_said_less_and_less() -> None:
    """At once, after a minute, after two more and so on, and no less than hourly."""
    clock = Clock()
    backoff = LogBackoff(clock)
    assert not backoff.is_silent()
    assert 1 == count_said(backoff, clock, 60)
    assert 1 == count_said(backoff, clock, 120)
    count_said(backoff, clock, 36_000)
    assert 24 <= count_said(backoff, clock, 86_400) <= 25


def test_success_ends_the_backoff() -> None:
    """The next failure is news."""
    clock = Clock()
    backoff = LogBackoff(clock)
    count_said(backoff, clock, 600)
    assert backoff.is_silent()
    backoff.reset()
    assert 1 == count_said(backoff, clock, 60)
