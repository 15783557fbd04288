"""A device's thread does one thing after the other, the most urgent first, and answers for each once."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import cast

import pytest

from integrity.errors import AppError, CatalogError
from integrity.jobs.context import Context
from integrity.jobs.report import Summary
from integrity.model import Job, Outcome, RunCounts
from integrity.service.device_queue import DeviceQueue, Urgency, Work
from support.waiting import wait_until

SUMMARY = Summary(Job.SCAN, 0, 0, Outcome.CLEAN, RunCounts(), 0.0, has_integrity_problem=False, is_incomplete=False)


@contextmanager
def nothing(_: Work) -> Iterator[Context]:
    """Give surroundings that the work here does not look at."""
    yield cast(Context, None)


@pytest.fixture
def lane() -> Iterator[DeviceQueue]:
    """Run a thread that ends with the test."""
    lane = DeviceQueue("sda", nothing, clock=lambda: 0.0)
    yield lane
    lane.end()
    assert lane.join(10)


class Box:
    """Makes work, and keeps what became of it."""

    def __init__(self) -> None:
        self.done: list[str] = []
        self.results: dict[str, Summary | AppError] = {}

    def make(
        self, name: str, urgency: Urgency, do: Callable[[Work], None] = lambda _: None, *, job: Job = Job.SCAN
    ) -> Work:
        def run(_: Context, work: Work) -> Summary:
            do(work)
            self.done.append(name)
            return SUMMARY

        def ended(result: Summary | AppError) -> None:
            assert name not in self.results
            self.results[name] = result

        return Work(job, name.rpartition(" ")[2].encode(), urgency, "a test", run, ended)


def hold(lane: DeviceQueue, box: Box, urgency: Urgency = Urgency.REQUEST) -> threading.Event:
    """Keep a lane busy until the event is set."""
    let_go = threading.Event()
    lane.give(box.make("held", urgency, lambda _: let_go.wait(10) and None))
    wait_until(lambda: lane.current is not None, "work under way")
    return let_go


def test_work_that_waits_names_what_goes_before_it(lane: DeviceQueue) -> None:
    """What is being done first, then what is more urgent or came before; nothing is named of work that has begun."""
    box = Box()
    let_go = hold(lane, box)
    works = [box.make(name, urgency) for name, urgency in (("a", Urgency.SCAN), ("b", Urgency.REQUEST))]
    for work in works:
        lane.give(work)
    ahead = [lane.find_ahead(work) for work in works]
    assert [[b"held", b"b"], [b"held"]] == [[one.root for one in found or ()] for found in ahead]
    assert lane.current is not None
    assert lane.find_ahead(lane.current) is None
    let_go.set()
    wait_until(lambda: len(box.done) == 3, "all work")


def test_most_urgent_goes_first(lane: DeviceQueue) -> None:
    """Equally urgent work goes in the order in which it came."""
    box = Box()
    let_go = hold(lane, box)
    for name, urgency in (
        ("scrub", Urgency.SCRUB),
        ("scan", Urgency.SCAN),
        ("request", Urgency.REQUEST),
        ("other", Urgency.SCAN),
    ):
        assert lane.give(box.make(name, urgency))
    assert [b"request", b"scan", b"other", b"scrub"] == [work.root for work in lane.waiting()]
    let_go.set()
    wait_until(lambda: len(box.results) == 5, "the end of all work")
    assert ["held", "request", "scan", "other", "scrub"] == box.done


def test_same_work_waits_once(lane: DeviceQueue) -> None:
    """But what persons ask for is done for each of them; comparisons with two copies, and holds, are not the same."""
    box = Box()
    let_go = hold(lane, box)
    assert lane.give(box.make("scan", Urgency.SCAN))
    assert not lane.give(box.make("scan", Urgency.SCAN))
    assert lane.give(box.make("scrub of scan", Urgency.SCAN, job=Job.SCRUB))
    assert lane.give(box.make("r1", Urgency.REQUEST))
    assert lane.give(box.make("r2", Urgency.REQUEST))
    works = [box.make(f"{number} root", Urgency.COMPARE, job=Job.COMPARE) for number in range(4)]
    works[1].copy, works[2].is_hold = "other", True
    assert [True, True, True, False] == [lane.give(work) for work in works]
    let_go.set()
    wait_until(lambda: len(box.done) == 8, "the end of all work")


def test_less_urgent_work_makes_room(lane: DeviceQueue) -> None:
    """It is asked to rest when something more urgent comes, and only then."""
    box = Box()
    lane.give(box.make("scrub", Urgency.SCRUB, lambda work: work.rest.wait(10) and None))
    wait_until(lambda: lane.current is not None, "the scrub")
    scrub = lane.current
    assert scrub is not None
    lane.give(box.make("another", Urgency.SCRUB))
    assert not scrub.rest.is_set()
    lane.give(box.make("hint", Urgency.HINTS))
    wait_until(lambda: len(box.done) == 3, "the end of all work")
    assert ["scrub", "hint", "another"] == box.done
    assert not scrub.stop.is_set()


def test_steady_work_makes_room_for_persons_at_once_and_for_others_in_the_end() -> None:
    """A comparison that begins anew with each new file would list its copy for ever."""
    clock = [0.0]
    lane, box = DeviceQueue("sda", nothing, clock=lambda: 0.0, monotonic=lambda: clock[0]), Box()

    def compare(work: Work) -> None:
        work.began_at, work.steady_s = clock[0], 600.0
        started.set()
        work.rest.wait(10)

    for urgency, later_s in ((Urgency.HINTS, 600.0), (Urgency.REQUEST, 0.0)):
        started = threading.Event()
        lane.give(box.make(f"compare {urgency}", Urgency.COMPARE, compare, job=Job.COMPARE))
        assert started.wait(10)
        current = lane.current
        assert current is not None
        lane.give(box.make(f"other {urgency}", urgency))
        assert current.rest.is_set() == (later_s == 0)
        clock[0] += later_s
        lane.make_room()
        assert current.rest.is_set()
        wait_until(lambda: lane.current is None and not lane.waiting(), "the end of both")
    lane.end()
    assert lane.join(10)


def test_cancelled_work_is_answered_for(lane: DeviceQueue) -> None:
    """What waits at once, what is under way when it has stopped."""
    box = Box()
    waiting = box.make("waiting", Urgency.SCAN)
    current = box.make("current", Urgency.REQUEST, lambda work: work.stop.wait(10) and None)
    lane.give(current)
    wait_until(lambda: lane.current is current, "the first one")
    lane.give(waiting)
    lane.cancel(waiting)
    result = box.results["waiting"]
    assert isinstance(result, Summary)
    assert Outcome.INTERRUPTED is result.outcome
    lane.cancel(current)
    wait_until(lambda: "current" in box.results, "the end of the first one")
    assert ["current"] == box.done


def test_error_ends_one_job_alone(lane: DeviceQueue) -> None:
    """A known one is handed on, an unknown one calls itself a bug."""
    box = Box()

    def fail(error: Exception) -> Callable[[Work], None]:
        def do(_: Work) -> None:
            raise error

        return do

    lane.give(box.make("known", Urgency.SCAN, fail(CatalogError("the disk is full"))))
    lane.give(box.make("bug", Urgency.SCAN, fail(ZeroDivisionError("x"))))
    lane.give(box.make("good", Urgency.SCAN))
    wait_until(lambda: len(box.results) == 3, "the end of all work")
    assert "the disk is full" == str(box.results["known"])
    assert "this is a bug" in str(box.results["bug"])
    assert box.results["good"] is SUMMARY


def test_end_stops_what_is_done_and_answers_for_the_rest() -> None:
    """Nothing more is begun; what waits, and what comes later, was stopped and not paused, so no schedule goes on."""
    box = Box()
    lane = DeviceQueue("sda", nothing, clock=lambda: 0.0)
    lane.give(box.make("current", Urgency.SCAN, lambda work: work.stop.wait(10) and None))
    wait_until(lambda: lane.current is not None, "the first one")
    waiting, late = box.make("waiting", Urgency.SCRUB), box.make("late", Urgency.REQUEST)
    lane.give(waiting)
    lane.end()
    assert lane.join(10)

    assert lane.give(late)
    assert [] == lane.waiting()
    assert ["current"] == box.done
    assert {"current", "waiting", "late"} == set(box.results)
    assert waiting.stop.is_set()
    assert late.stop.is_set()
    result = box.results["late"]
    assert isinstance(result, Summary)
    assert Outcome.INTERRUPTED is result.outcome
