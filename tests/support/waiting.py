"""Waiting for something that gives no event of its own, with a deadline. The one place of the tests that polls."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable


class TimedOutError(AssertionError):
    """Say that what a test waited for did not come."""


def wait_until(is_so: Callable[[], bool], what: str, *, timeout_s: float = 120.0, every_s: float = 0.005) -> None:
    """
    Return as soon as ``is_so()`` is true.

    Args:
        is_so: asked again and again; its exceptions end the waiting.
        what: what is waited for, for the message.
        timeout_s: how long at most.
        every_s: the pause between two questions, but at least twice what one takes: what is waited for needs the
            processor more.

    Raises:
        TimedOutError: it was not true in time.
    """
    deadline = time.monotonic() + timeout_s
    pause = threading.Event()
    while True:
        asked_at = time.monotonic()
        if is_so():
            return
        now = time.monotonic()
        if now > deadline:
            raise TimedOutError(f"{what}: not within {timeout_s} s")
        pause.wait(max(every_s, 2 * (now - asked_at)))
