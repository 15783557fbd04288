"""What fails every second is not said every second, and a flood of refusals is a few lines in the log."""

from __future__ import annotations

import pytest

from integrity.service.log_backoff import LogBackoff, RefusalLog
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


def test_refusals_are_counted_between_two_lines(caplog: pytest.LogCaptureFixture) -> None:
    """The first is logged at once, those of the next minute with the one that ends it."""
    clock = Clock()
    refusals = RefusalLog(clock)
    for _ in range(61):
        refusals.note(7, 70, "a line: not understood", "no JSON")
        clock.now += 1

    expected = "control.refused uid=7 pid=70 times={}: a line: not understood (no JSON)"
    assert [expected.format(1), expected.format(60)] == caplog.messages


def test_users_and_reasons_have_lines_of_their_own(caplog: pytest.LogCaptureFixture) -> None:
    """One user's flood hides nobody else's refusal."""
    refusals = RefusalLog(Clock())
    for uid in (7, 8, 7, 8):
        refusals.note(uid, 70, "a connection: too many")
    refusals.note(7, 70, "a request: too many")
    assert 3 == len(caplog.messages)


def test_refusal_after_a_quiet_hour_is_news(caplog: pytest.LogCaptureFixture) -> None:
    """What happens once a day is logged once a day."""
    clock = Clock()
    refusals = RefusalLog(clock)
    for _ in range(10):
        for _ in range(100):
            refusals.note(7, 70, "a connection: too many")
            clock.now += 10
        caplog.clear()
        clock.now += 86_400
        refusals.note(7, 70, "a connection: too many")
        assert 1 == len(caplog.messages)
