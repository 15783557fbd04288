"""Threads that may hang: nobody waits for them longer than it wants to."""

from __future__ import annotations

import threading
import time

import pytest

from integrity.errors import ReadInterrupted
from integrity.threads import BackgroundCall, RoundThread
from support.waiting import wait_until


def test_result_and_error_of_a_call_reach_who_waits() -> None:
    """What the call returns is returned, and what it raises is raised, also a TimeoutError of its own."""

    def fail() -> None:
        raise TimeoutError("the disk's own")

    assert 5 == BackgroundCall("good", lambda: 5).result()
    bad = BackgroundCall("bad", fail)
    assert bad.wait(20)
    with pytest.raises(TimeoutError, match="the disk's own"):
        bad.result()


def test_call_that_hangs_is_left_alone() -> None:
    """The wait ends at its deadline, and when it is asked to; the answer can be had when it comes after all."""
    released = threading.Event()
    call = BackgroundCall("hangs", released.wait)
    assert not call.wait(0.01)
    assert not call.is_over
    with pytest.raises(ReadInterrupted):
        call.result(lambda: True)
    assert not call.join(0.01)
    released.set()
    assert call.result()
    assert call.join(20)


def test_rounds_follow_calls_and_end() -> None:
    """A call begins the next round though its pause is long; one that comes during a round is not lost."""

    class Rounds(RoundThread):
        count = 0
        is_finished = False

        def _round(self) -> float:
            self.count += 1
            if self.count == 1:
                self.call()
            return 3600.0

        def _finish(self) -> None:
            self.is_finished = True

    rounds = Rounds("rounds")
    assert rounds.join(0.0), "was never started"
    rounds.start()
    wait_until(lambda: rounds.count == 2, "the round that the first one asked for")
    rounds.call()
    wait_until(lambda: rounds.count == 3, "a round")
    rounds.end()
    assert rounds.join(20)
    assert rounds.is_finished


def test_defect_in_a_round_does_not_end_the_thread(caplog: pytest.LogCaptureFixture) -> None:
    """It is logged and counted, the next round follows, and who calls does not make it follow at once."""
    called = threading.Event()

    class Rounds(RoundThread):
        count = 0

        def _round(self) -> float:
            self.count += 1
            if self.count == 1:
                called.set()
                raise ZeroDivisionError
            return 3600.0

    rounds = Rounds("rounds")
    began_at = time.monotonic()
    rounds.start()
    assert called.wait(20)
    rounds.call()
    wait_until(lambda: rounds.count == 2, "the round after the defect")

    assert 1 == rounds.defects
    assert time.monotonic() - began_at > 0.9
    assert "round_failed thread=rounds defects=1" in caplog.text
    assert "ZeroDivisionError" in caplog.text
    rounds.end()
    assert rounds.join(20)
