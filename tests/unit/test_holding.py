"""A job that uses two devices has both threads, makes room on either, and never waits in a circle."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import cast

import pytest

from integrity.jobs.context import Context
from integrity.jobs.report import Summary
from integrity.model import Job
from integrity.service.control.requests import nothing_done
from integrity.service.device_queue import DeviceQueue, Urgency, Work
from integrity.service.dispatch import DeviceHold
from support.waiting import wait_until

DONE = nothing_done(Job.COMPARE, 0)
LONG_S = 10.0


class FakeContext:
    """As much of a context as a hold asks of it."""

    def now(self) -> int:
        """Tell the time."""
        return 0


@contextmanager
def surround(work: Work) -> Iterator[Context]:
    """Give what the service would; the work has begun with it."""
    work.began_at = time.monotonic()
    yield cast(Context, FakeContext())


@pytest.fixture
def lanes() -> Iterator[tuple[DeviceQueue, DeviceQueue]]:
    """Run two threads that end with the test."""
    both = DeviceQueue("sda", surround, clock=lambda: 0.0), DeviceQueue("sdb", surround, clock=lambda: 0.0)
    yield both
    for lane in both:
        lane.end()
        assert lane.join(LONG_S)


class Comparison:
    """Work in one lane that holds another, until it is told to end or asked to rest."""

    def __init__(self, holder: DeviceHold, other: DeviceQueue, root: bytes = b"/root") -> None:
        self.got: list[bool] = []
        self.ended = threading.Event()
        self.let_go = threading.Event()

        def run(_: Context, work: Work) -> Summary:
            with holder.hold(other, work, time.monotonic) as is_held:
                self.got.append(is_held)
                while is_held and not (self.let_go.wait(0.01) or work.rest.is_set() or work.stop.is_set()):
                    pass
            return DONE

        def ended(_: object) -> None:
            self.ended.set()

        self.work = Work(Job.COMPARE, root, Urgency.COMPARE, "a test", run, ended, copy="nightly")

    @property
    def is_running(self) -> bool:
        """Say whether it has what it needs and goes on."""
        return self.got == [True] and not self.ended.is_set()


def make_scan(done: list[str], urgency: Urgency = Urgency.SCAN, *, until: threading.Event | None = None) -> Work:
    """Make work that is done at once, or when it may end."""

    def run(_: Context, __: Work) -> Summary:
        if until is not None:
            until.wait(LONG_S)
        done.append("scan")
        return DONE

    return Work(Job.SCAN, b"/other", urgency, "a test", run, lambda _: None)


def test_other_lane_does_nothing_else_meanwhile(lanes: tuple[DeviceQueue, DeviceQueue]) -> None:
    """What is not more urgent waits until both disks are free."""
    one, other = lanes
    comparison, done = Comparison(DeviceHold(), other), list[str]()
    one.give(comparison.work)
    wait_until(lambda: comparison.is_running, "the comparison")
    held = other.current
    assert held is not None
    assert held.is_hold
    other.give(make_scan(done, Urgency.COMPARE))
    assert 1 == len(other.waiting())
    assert not comparison.ended.wait(0.5)
    assert [] == done
    comparison.let_go.set()
    wait_until(lambda: done == ["scan"], "the other to be free")
    assert comparison.ended.wait(LONG_S)


@pytest.mark.parametrize("which", [0, 1])
def test_it_makes_room_on_either_lane(lanes: tuple[DeviceQueue, DeviceQueue], which: int) -> None:
    """What is more urgent on the copy's disk ends it as well; it is asked to rest, not to stop."""
    one, other = lanes
    comparison, done = Comparison(DeviceHold(), other), list[str]()
    one.give(comparison.work)
    wait_until(lambda: comparison.is_running, "the comparison")
    lanes[which].give(make_scan(done))
    assert comparison.ended.wait(LONG_S)
    wait_until(lambda: done == ["scan"], "the scan")
    assert not comparison.work.stop.is_set()


def test_it_makes_room_while_it_waits(lanes: tuple[DeviceQueue, DeviceQueue]) -> None:
    """The other disk may be busy for hours; its own must not idle if there is something to do."""
    one, other = lanes
    busy, done = threading.Event(), list[str]()
    other.give(make_scan([], until=busy))
    comparison = Comparison(DeviceHold(), other)
    one.give(comparison.work)
    wait_until(lambda: one.current is comparison.work, "the comparison to wait")
    one.give(make_scan(done))
    assert comparison.ended.wait(LONG_S)
    assert comparison.got == [False]
    wait_until(lambda: done == ["scan"], "the scan")
    assert not other.waiting()
    busy.set()


def test_two_that_want_each_others_disks_do_not_wait_for_ever(lanes: tuple[DeviceQueue, DeviceQueue]) -> None:
    """Each holds its own and wants the other's: one of them gives up at once, and is tried again later."""
    one, other = lanes
    holder, gate = DeviceHold(), threading.Barrier(2)
    comparisons = Comparison(holder, other), Comparison(holder, one, b"/second")
    for lane, comparison in zip(lanes, comparisons, strict=True):
        run = comparison.work.run

        def begin(context: Context, work: Work, run: object = run) -> Summary:
            gate.wait(LONG_S)
            return run(context, work)  # type: ignore[operator,no-any-return]

        comparison.work.run = begin
        lane.give(comparison.work)
    wait_until(lambda: any(each.ended.is_set() for each in comparisons), "one to give up")
    wait_until(lambda: any(each.got == [True] for each in comparisons), "the other to begin")
    for each in comparisons:
        each.let_go.set()
    wait_until(lambda: all(each.ended.is_set() for each in comparisons), "the end of both")


def test_end_of_the_service_ends_both(lanes: tuple[DeviceQueue, DeviceQueue]) -> None:
    """Whichever lane is asked first; one that has ended is not waited for."""
    one, other = lanes
    comparison = Comparison(DeviceHold(), other)
    one.give(comparison.work)
    wait_until(lambda: comparison.is_running, "the comparison")
    other.end()
    assert comparison.ended.wait(LONG_S)
    assert other.join(LONG_S)
    later = Comparison(DeviceHold(), other)
    one.give(later.work)
    assert later.ended.wait(LONG_S)
    assert later.got == [False]
    one.end()
    assert one.join(LONG_S)
