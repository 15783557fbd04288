"""
Keep a second device's thread from working while one job uses both devices.

A job waits for the second one only while it holds the first, so two that wait for each other's would wait for ever:
only one job waits at any time. While it waits, and afterwards, it makes room as its work would.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from integrity.errors import AppError
from integrity.jobs.report import Summary
from integrity.service.control.requests import nothing_done
from integrity.service.work import Work

if TYPE_CHECKING:
    from integrity.jobs.context import Context
    from integrity.service.device_queue import Lane

_GLANCE_S = 0.2


class Holder:
    """Has lanes held, for one work after the other. Any thread may use it."""

    def __init__(self) -> None:
        self._waiting = threading.Lock()

    @contextmanager
    def hold(self, lane: Lane, whose: Work, monotonic: Callable[[], float]) -> Iterator[bool]:
        """
        Hold a lane as long as the context lasts.

        Args:
            lane: another one than that which does the work.
            whose: the work that needs it; it is asked to rest when the lane is wanted for something more urgent.
            monotonic: seconds.

        Returns:
            Whether the lane is held. If not, the work is to be tried again later, or was asked to make room.
        """
        if not self._waiting.acquire(blocking=False):
            yield False
            return
        hold = _Hold(lane, whose)
        try:
            is_held = hold.wait(monotonic)
        finally:
            self._waiting.release()
        try:
            yield is_held
        finally:
            hold.release()


class _Hold:
    def __init__(self, lane: Lane, whose: Work) -> None:
        self._lane = lane
        self._whose = whose
        self._begun = threading.Event()
        self._over = threading.Event()
        self._work = Work(
            whose.job, whose.root, whose.urgency, whose.reason, self._run, self._ended, copy=whose.copy, is_hold=True
        )
        if not lane.give(self._work):
            self._over.set()

    def wait(self, monotonic: Callable[[], float]) -> bool:
        """Wait until the lane is held; say whether it is."""
        whose = self._whose
        while not self._begun.wait(_GLANCE_S):
            whose.told_at = monotonic()
            if self._over.is_set() or whose.stop.is_set() or whose.rest.is_set():
                return False
        return not self._over.is_set()

    def release(self) -> None:
        self._over.set()
        self._lane.cancel(self._work)

    def _run(self, context: Context, work: Work) -> Summary:
        work.steady_s = self._whose.steady_s
        self._begun.set()
        while not self._over.wait(_GLANCE_S):
            work.steady_s = self._whose.steady_s
            if work.rest.is_set() or work.stop.is_set():
                self._whose.rest.set()
        return nothing_done(work.job, context.now())

    def _ended(self, _: Summary | AppError) -> None:
        """Learn that the lane is not held, or not any more: it has ended, or could not begin."""
        self._over.set()
        self._begun.set()
