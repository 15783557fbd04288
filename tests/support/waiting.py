"""Waiting for something that gives no event of its own, with a deadline. The one place of the tests that polls."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

_LONG_PAUSE_S = 0.02
_LONGEST_PAUSE_S = 0.25  # who asks may have waited for the processor itself, and what comes soon must not be missed


class TimedOutError(AssertionError):
    """Say that what a test waited for did not come."""


def wait_until(is_so: Callable[[], bool], what: str, *, timeout_s: float = 120.0, every_s: float = 0.005) -> None:
    """
    Return as soon as ``is_so()`` is true.

    Args:
        is_so: asked again and again; its exceptions end the waiting.
        what: what is waited for, for the message.
        timeout_s: how long at most.
        every_s: the pause between two questions, but at least four times what one takes, up to 250 ms, and a twentieth
            of what has been waited, up to 20 ms: what is waited for needs the processor more.

    Raises:
        TimedOutError: it was not true in time.
    """
    began = time.monotonic()
    pause = threading.Event()
    while True:
        asked_at = time.monotonic()
        if is_so():
            return
        now = time.monotonic()
        if now > began + timeout_s:
            raise TimedOutError(f"{what}: not within {timeout_s} s")
        took_s, waited_s = now - asked_at, now - began
        pause.wait(max(every_s, min(_LONGEST_PAUSE_S, 4 * took_s), min(_LONG_PAUSE_S, waited_s / 20)))
