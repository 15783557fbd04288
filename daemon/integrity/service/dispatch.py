"""
Keep a second device's thread from working while one job uses both devices.

A job waits for the second one only while it holds the first, so two that wait for each other's would wait for ever:
only one job waits at any time. While it waits, and afterwards, it makes room as its work would.

From what is wanted to work on lanes: scans, looks at hints, scrubs, comparisons, and what persons ask for.

Decides which thread does what. When something is wanted is the daemon's to know.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from integrity.alerts.heartbeat import Heartbeat
from integrity.errors import AppError
from integrity.jobs import runner
from integrity.jobs.context import Context
from integrity.jobs.options import ScanOptions
from integrity.jobs.report import Progress, Report, Summary
from integrity.model import Job, Outcome
from integrity.service.control.requests import (
    LENT_PHASE,
    Done,
    JobRequest,
    Returned,
    Ticket,
    interrupted,
    nothing_done,
    run_request,
)
from integrity.service.control.server import Gathered
from integrity.service.device_queue import DeviceQueue, Urgency, Work, WorkReport
from integrity.service.inventory import KeptRoot, lane_of
from integrity.service.log_backoff import LogBackoff
from integrity.service.states import BusyRoot, JobAhead, QueuedJob

if TYPE_CHECKING:
    from integrity.catalog.connection import Catalog
    from integrity.config import Config
    from integrity.files.span import Pace
    from integrity.jobs.options import CompareOptions, ScrubOptions
    from integrity.service.inventory import KeptCopy


_GLANCE_S = 0.2


class DeviceHold:
    """Has lanes held, for one work after the other. Any thread may use it."""

    def __init__(self) -> None:
        self._waiting = threading.Lock()

    @contextmanager
    def hold(self, lane: DeviceQueue, whose: Work, monotonic: Callable[[], float]) -> Iterator[bool]:
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
    def __init__(self, lane: DeviceQueue, whose: Work) -> None:
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


@dataclass(frozen=True, slots=True)
class ServiceContext:
    """
    What all work stands on.

    Args:
        open_catalog: opens the catalog for the calling thread.
        config: gives the present configuration.
        pace_of: gives the pace of a lane.
        socket: where the service takes requests.
        clock: seconds UTC.
        monotonic: seconds.
    """

    open_catalog: Callable[[], Catalog]
    config: Callable[[], Config]
    pace_of: Callable[[str], Pace]
    socket: str
    clock: Callable[[], float] = time.time
    monotonic: Callable[[], float] = time.monotonic


@dataclass(frozen=True, slots=True)
class ComparePlan:
    """How to compare; ``steady_s``: for so long it makes room only for what a person asks for."""

    options: CompareOptions
    steady_s: float


Ended = Callable[[Summary | AppError], None]
"""Takes how work ended, in its lane's thread."""


class Dispatcher:
    """
    Put work on lanes. Any thread may use it.

    Args:
        grounds: of all work.
        ended: is told how each work has ended, after whoever wanted it.
    """

    def __init__(self, grounds: ServiceContext, ended: Ended) -> None:
        self._grounds = grounds
        self._ended = ended
        self._lock = threading.Lock()
        self._lanes: dict[str, DeviceQueue] = {}
        self._roots: Sequence[KeptRoot] = ()
        self._is_over = False
        self._holder = DeviceHold()
        self._backoff = LogBackoff(grounds.monotonic)

    def set_roots(self, roots: Sequence[KeptRoot]) -> None:
        """Know these roots from now on; lanes stay, for work may be under way on them."""
        self._roots = roots

    def scan(self, root: KeptRoot, reason: str, ended: Ended | None = None) -> None:
        """Have all of a root scanned."""

        def run(context: Context, _: Work) -> Summary:
            with _telling_heartbeat(context, self._backoff) as tell:
                return tell(runner.scan(context, [root.path], ScanOptions()))

        self._give(root.lane, Work(Job.SCAN, root.path, Urgency.SCAN, reason, run, self._then(ended)))

    def look(self, root: KeptRoot, names: tuple[bytes, ...], ended: Ended) -> None:
        """Have names of a root looked at."""

        def run(context: Context, _: Work) -> Summary:
            return runner.scan_hints(context, root.path, names)

        work = Work(Job.SCAN, root.path, Urgency.HINTS, f"{len(names)} names changed", run, self._then(ended))
        if not self._give(root.lane, work):
            ended(AppError("the same waits already"))

    def scrub(
        self,
        root: KeptRoot,
        reason: str,
        plan: Callable[[Context], ScrubOptions | None],
        ended: Callable[[Summary | AppError, bool], None],
    ) -> None:
        """
        Have a root scrubbed; it makes room for more urgent work.

        Args:
            root: which.
            reason: for people.
            plan: says how far when its turn has come; None: nothing is to be done.
            ended: takes how it ended, and whether it only made room and wants to go on.
        """

        def run(context: Context, _: Work) -> Summary:
            options = plan(context)
            if options is None:
                return nothing_done(Job.SCRUB, context.now())
            with _telling_heartbeat(context, self._backoff) as tell:
                return tell(runner.scrub(context, [root.path], options))

        def then(result: Summary | AppError) -> None:
            ended(result, work.rest.is_set() and not work.stop.is_set())

        work = Work(Job.SCRUB, root.path, Urgency.SCRUB, reason, run, self._then(then))
        self._give(root.lane, work)

    def compare(
        self,
        copy: KeptCopy,
        reason: str,
        plan: Callable[[Context], ComparePlan | None],
        ended: Callable[[Summary | AppError, bool], None],
    ) -> None:
        """
        Have a root held against a copy; it makes room for more urgent work, on the disks of the copy, too.

        Args:
            copy: which.
            reason: for people.
            plan: says how when its turn has come; None: it is not to begin now.
            ended: takes how it ended, and whether it only made room and wants to go on.
        """

        def run(context: Context, work: Work) -> Summary:
            planned = plan(context)
            if planned is None:
                return nothing_done(Job.COMPARE, context.now())
            with self._hold_disks_of(copy, work) as are_held:
                if not are_held:
                    return nothing_done(Job.COMPARE, context.now())
                work.began_at, work.steady_s = self._grounds.monotonic(), planned.steady_s
                with _telling_heartbeat(context, self._backoff) as tell:
                    return tell(runner.compare(context, (copy.settings.of,), planned.options))

        def then(result: Summary | AppError) -> None:
            ended(result, work.rest.is_set() and not work.stop.is_set())

        work = Work(Job.COMPARE, copy.root.path, Urgency.COMPARE, reason, run, self._then(then), copy=copy.name)
        self._give(copy.root.lane, work)

    @contextmanager
    def _hold_disks_of(self, copy: KeptCopy, work: Work) -> Iterator[bool]:
        """Keep the thread of a mounted copy's disks from working, if that is not the one that compares."""
        name = copy.root.lane if copy.path is None else lane_of(self._roots, copy.path)
        if name == copy.root.lane:
            yield True
            return
        with self._holder.hold(self._find_lane(name), work, self._grounds.monotonic) as is_held:
            yield is_held

    def submit(self, request: JobRequest, report: Report, done: Done) -> Ticket:
        """Put what a person asks for in front of all else; see ``Handler``."""
        parts = self._split(request)
        gathered = Gathered(len(parts), report, done)
        works = []
        for name, part in parts.items():

            def run(context: Context, _: Work, part: JobRequest = part) -> Summary:
                return run_request(context, part)

            root = part.paths[0] if len(part.paths) == 1 else b""
            work = Work(
                request.job, root, Urgency.REQUEST, "asked for", run, self._then(gathered.take), gathered, request.jobs
            )
            works.append((self._find_lane(name), work))
        for lane, work in works:
            lane.give(work)

        def cancel() -> None:
            for lane, work in works:
                lane.cancel(work)

        return Ticket(cancel, lambda: self._find_ahead(works))

    def lend(self, path: bytes, lent: Callable[[], None], returned: Returned) -> Ticket:
        """Leave what lies at a path to a command, before all else; see ``Handler``."""

        def run(context: Context, _: Work) -> Summary:
            context.report.progress(Progress(Job.COMPARE, path, LENT_PHASE, 0, None, 0, None))
            lent()
            context.stop.wait()
            return interrupted(Job.COMPARE, context.now())

        def ended(result: Summary | AppError) -> None:
            returned(result if isinstance(result, AppError) else None)

        lane = self._find_lane(lane_of(self._roots, path))
        work = Work(Job.COMPARE, path, Urgency.REQUEST, "asked for", run, self._then(ended))
        lane.give(work)
        return Ticket(lambda: lane.cancel(work), lambda: self._find_ahead([(lane, work)]))

    def busy(self) -> tuple[BusyRoot, ...]:
        """List what is being done."""
        return tuple(_describe_busy(work) for work in self._current())

    def queued(self) -> tuple[QueuedJob, ...]:
        """List what waits."""
        return tuple(
            QueuedJob(work.root, work.job.value, work.reason, work.copy)
            for lane in self._all_lanes()
            for work in lane.waiting()
            if not work.is_hold
        )

    def stuck(self, silent_s: float) -> list[Work]:
        """
        List the work that has told nothing for so long: whatever it waits for in the kernel does not come.

        Comparisons are not among them: another machine may compute for hours, and copies know how long to wait.
        """
        now = self._grounds.monotonic()
        works = [work for work in self._current() if work.job is not Job.COMPARE]
        return [work for work in works if work.told_at is not None and now - work.told_at > silent_s]

    def make_room(self) -> None:
        """Have what has had its time rest where something more urgent waits."""
        for lane in self._all_lanes():
            lane.make_room()

    def rest(self, job: Job) -> None:
        """Have what is under way of a job end as at a limit."""
        for lane in self._all_lanes():
            work = lane.current
            if work is not None and work.job is job and work.urgency is not Urgency.REQUEST:
                work.rest.set()

    def end(self) -> None:
        """Stop all work, and begin none."""
        self._is_over = True
        for lane in self._all_lanes():
            lane.end()

    def join(self, deadline: float) -> list[str]:
        """Wait for the lanes until a moment of the monotonic clock; name those that hang."""
        monotonic = self._grounds.monotonic
        return [lane.name for lane in self._all_lanes() if not lane.join(max(0.0, deadline - monotonic()))]

    def _find_ahead(self, works: Sequence[tuple[DeviceQueue, Work]]) -> tuple[JobAhead, ...]:
        """List what goes before all of these works, those under way first; nothing once one of them has begun."""
        found = [lane.find_ahead(work) for lane, work in works]
        if None in found:
            return ()
        ahead = [self._describe_ahead(work) for works_ahead in found for work in works_ahead or ()]
        return tuple(sorted(ahead, key=lambda one: one.began_at is None))

    def _describe_ahead(self, work: Work) -> JobAhead:
        grounds, began_at = self._grounds, None
        if work.began_at is not None:
            began_at = int(grounds.clock() - (grounds.monotonic() - work.began_at))
        return JobAhead(work.root, work.job.value, began_at, work.copy)

    def _current(self) -> list[Work]:
        works = (lane.current for lane in self._all_lanes())
        return [work for work in works if work is not None and not work.is_hold]

    def _all_lanes(self) -> list[DeviceQueue]:
        with self._lock:
            return list(self._lanes.values())

    def _find_lane(self, name: str) -> DeviceQueue:
        with self._lock:
            lane = self._lanes.get(name)
            if lane is None:
                grounds = self._grounds
                lane = DeviceQueue(name, self._surround(name), clock=grounds.clock, monotonic=grounds.monotonic)
                self._lanes[name] = lane
                if self._is_over:
                    lane.end()
            return lane

    def _give(self, name: str, work: Work) -> bool:
        return self._find_lane(name).give(work)

    def _then(self, ended: Ended | None) -> Ended:
        def call(result: Summary | AppError) -> None:
            if ended is not None:
                ended(result)
            self._ended(result)

        return call

    def _surround(self, name: str) -> Callable[[Work], AbstractContextManager[Context]]:
        grounds = self._grounds

        @contextmanager
        def surround(work: Work) -> Iterator[Context]:
            with grounds.open_catalog() as catalog:
                yield Context(
                    catalog,
                    grounds.config(),
                    WorkReport(work, grounds.monotonic),
                    jobs=work.jobs,
                    stop=work.stop,
                    clock=grounds.clock,
                    monotonic=grounds.monotonic,
                    pace=grounds.pace_of(name),
                    rest=work.rest,
                    socket=grounds.socket,
                )

        return surround

    def _split(self, request: JobRequest) -> dict[str, JobRequest]:
        """Give each lane its part of a request; without paths it is about all roots."""
        paths = request.paths or tuple(root.path for root in self._roots)
        parts: dict[str, list[bytes]] = {}
        for path in paths:
            parts.setdefault(lane_of(self._roots, path), []).append(path)
        if len(parts) <= 1:
            return {next(iter(parts), "none"): request}
        return {name: replace(request, paths=tuple(part)) for name, part in parts.items()}


@contextmanager
def _telling_heartbeat(context: Context, backoff: LogBackoff) -> Iterator[Callable[[Summary], Summary]]:
    """
    Ping the heartbeat when a run begins, and again when it has ended, well or badly.

    What fails before it could look at anything is tried again at once; its pings are not.
    """
    heart = Heartbeat(context.config.alerts.heartbeat_url, context.catalog, clock=context.clock)
    is_good, has_ended, is_silent = False, False, backoff.is_silent()

    def tell(summary: Summary) -> Summary:
        nonlocal is_good, has_ended
        is_good, has_ended = summary.outcome is Outcome.CLEAN, True
        backoff.reset()
        return summary

    if not is_silent:
        heart.started()
    try:
        yield tell
    finally:
        if has_ended or not is_silent:
            (heart.good if is_good else heart.bad)()
        if not has_ended:
            backoff.record_failure()


def _describe_busy(work: Work) -> BusyRoot:
    progress, began_at, told_at = work.progress, work.began_at, work.told_at
    if progress is None or began_at is None or told_at is None:
        return BusyRoot(work.root, work.job.value, "begins", 0, 0, None, None, work.copy)
    rate = progress.bytes_done / (told_at - began_at) if told_at > began_at else None
    done, total = progress.bytes_done, progress.bytes_total
    return BusyRoot(progress.root, work.job.value, progress.phase, progress.files_done, done, total, rate, work.copy)
