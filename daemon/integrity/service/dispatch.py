"""
Assign work to device queues: scans, scrubs, comparisons, and user requests.

Decides which thread runs what; ``daemon`` and ``schedule`` decide when.

A comparison takes its own device first, then holds the queue of the copy's, so that only one job reads from a disk.
Two jobs that wait for each other's device would deadlock: one waiter at a time. A waiter yields to more urgent work.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from integrity.alerts.heartbeat import Heartbeat
from integrity.errors import AppError
from integrity.jobs import runner
from integrity.jobs.context import Context
from integrity.jobs.options import ScanOptions
from integrity.jobs.parity.protect import RESTED_S, ProtectOptions, ProtectReport
from integrity.jobs.report import Note, Progress, Report, Summary
from integrity.model import Finding, Job, Outcome, RunCounts
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
from integrity.service.control.wire import BusyRoot, JobAhead, QueuedJob
from integrity.service.device_queue import DeviceQueue, Urgency, Work, WorkReport
from integrity.service.inventory import MonitoredRoot, lane_of
from integrity.service.log_backoff import LogBackoff

if TYPE_CHECKING:
    from integrity.catalog.connection import Catalog
    from integrity.config import Config
    from integrity.files.span import Pace
    from integrity.jobs.options import CompareOptions, ScrubOptions
    from integrity.service.inventory import MonitoredCopy


_POLL_S = 0.2
_WORST_FIRST = (Outcome.FAILED, Outcome.INTERRUPTED, Outcome.FINDINGS, Outcome.INCOMPLETE, Outcome.CLEAN)
_STEADY_S = 4 * 3600.0
"""For so long only user requests interrupt the making of parity: an unfinished set is lost."""


class DeviceHold:
    """Hold a second device's queue, for one waiting job at a time. Any thread may use it."""

    def __init__(self) -> None:
        self._waiting = threading.Lock()

    @contextmanager
    def hold(self, lane: DeviceQueue, holder: Work, monotonic: Callable[[], float]) -> Iterator[bool]:
        """
        Hold a queue for the duration of the context.

        Args:
            holder: the work that needs it; it is asked to pause when more urgent work is queued on ``lane``.

        Returns:
            Whether the queue is held. If not, retry the work later, unless it was asked to pause or stop.
        """
        if not self._waiting.acquire(blocking=False):
            yield False
            return
        hold = _Hold(lane, holder)
        try:
            is_held = hold.wait(monotonic)
        finally:
            self._waiting.release()
        try:
            yield is_held
        finally:
            hold.release()


class _Hold:
    def __init__(self, lane: DeviceQueue, holder: Work) -> None:
        self._lane = lane
        self._holder = holder
        self._held = threading.Event()
        self._over = threading.Event()
        self._work = Work(
            holder.job,
            holder.root,
            holder.urgency,
            holder.reason,
            self._run,
            self._ended,
            copy=holder.copy,
            is_hold=True,
        )
        if not lane.give(self._work):
            self._over.set()

    def wait(self, monotonic: Callable[[], float]) -> bool:
        """Wait until the queue is held. Return whether it is."""
        holder = self._holder
        while not self._held.wait(_POLL_S):
            holder.progress_at = monotonic()
            if self._over.is_set() or holder.stop.is_set() or holder.rest.is_set():
                return False
        return not self._over.is_set()

    def release(self) -> None:
        self._over.set()
        self._lane.cancel(self._work)

    def _run(self, context: Context, work: Work) -> Summary:
        work.steady_s = self._holder.steady_s
        self._held.set()
        while not self._over.wait(_POLL_S):
            work.steady_s = self._holder.steady_s
            if work.rest.is_set() or work.stop.is_set():
                self._holder.rest.set()
        return nothing_done(work.job, context.now())

    def _ended(self, _: Summary | AppError) -> None:
        self._over.set()
        self._held.set()


class _Lease:
    """
    Leave device queues to a command, all of them at once.

    Args:
        lent: called when all are idle.
        returned: called when none is left to the command any more.
    """

    def __init__(self, lent: Callable[[], None], returned: Returned) -> None:
        self.works: list[tuple[DeviceQueue, Work]] = []
        self._lent, self._returned = lent, returned
        self._lock = threading.Lock()
        self._begun = self._ended = 0
        self._error: AppError | None = None

    def run(self, context: Context, work: Work) -> Summary:
        context.report.progress(Progress(Job.COMPARE, work.root, LENT_PHASE, 0, None, 0, None))
        with self._lock:
            self._begun += 1
            are_all_idle = self._begun == len(self.works)
        if are_all_idle:
            self._lent()
        context.stop.wait()
        return interrupted(Job.COMPARE, context.now())

    def take(self, result: Summary | AppError) -> None:
        """Record the end of one queue's part, which ends the others."""
        with self._lock:
            self._ended += 1
            is_first, is_last = self._ended == 1, self._ended == len(self.works)
            if isinstance(result, AppError):
                self._error = self._error or result
        if is_first:
            self.cancel()
        if is_last:
            self._returned(self._error)

    def cancel(self) -> None:
        _cancel(self.works)


class _Gathered:
    """
    Merge the reports and results of several works that answer one request.

    Args:
        done: called once, with the combined result.
    """

    def __init__(self, count: int, report: Report, done: Done) -> None:
        self._left = count
        self._report = report
        self._done = done
        self._lock = threading.RLock()
        self._results: list[Summary | AppError] = []

    def progress(self, progress: Progress) -> None:
        with self._lock:
            self._report.progress(progress)

    def finding(self, finding: Finding) -> None:
        with self._lock:
            self._report.finding(finding)

    def note(self, note: Note) -> None:
        with self._lock:
            self._report.note(note)

    def take(self, result: Summary | AppError) -> None:
        """Record the result of one work. The last one ends the request."""
        with self._lock:
            self._results.append(result)
            self._left -= 1
            if self._left:
                return
        errors = [one for one in self._results if isinstance(one, AppError)]
        self._done(errors[0] if errors else _add_up([one for one in self._results if isinstance(one, Summary)]))


def _add_up(summaries: Sequence[Summary]) -> Summary:
    counts = RunCounts()
    for summary in summaries:
        counts += summary.counts
    outcomes = {summary.outcome for summary in summaries}
    return summaries[0]._replace(
        counts=counts,
        started_at=min(summary.started_at for summary in summaries),
        finished_at=max(summary.finished_at for summary in summaries),
        outcome=next(outcome for outcome in _WORST_FIRST if outcome in outcomes),
        duration_s=max(summary.duration_s for summary in summaries),
        has_integrity_problem=any(summary.has_integrity_problem for summary in summaries),
        is_incomplete=any(summary.is_incomplete for summary in summaries),
    )


def _cancel(works: Sequence[tuple[DeviceQueue, Work]]) -> None:
    for lane, work in works:
        lane.cancel(work)


@dataclass(frozen=True, slots=True)
class ServiceContext:
    """
    The services that all work needs.

    Args:
        clock: seconds UTC.
    """

    open_catalog: Callable[[], Catalog]
    config: Callable[[], Config]
    pace_of: Callable[[str], Pace]
    socket: str
    clock: Callable[[], float] = time.time
    monotonic: Callable[[], float] = time.monotonic


@dataclass(frozen=True, slots=True)
class ComparePlan:
    """Options of a comparison. ``steady_s``: seconds during which only user requests interrupt it."""

    options: CompareOptions
    steady_s: float


Ended = Callable[[Summary | AppError], None]
"""Called with the result of work, normally in its device's thread."""


class Dispatcher:
    """
    Queue work for the devices. Any thread may use it.

    Args:
        ended: called with the result of each work, after its own callback.
    """

    def __init__(self, service: ServiceContext, ended: Ended) -> None:
        self._service = service
        self._ended = ended
        self._lock = threading.Lock()
        self._lanes: dict[str, DeviceQueue] = {}
        self._roots: Sequence[MonitoredRoot] = ()
        self._is_over = False
        self._holder = DeviceHold()
        self._lending = threading.Lock()  # two leases are in the same order in all queues, or each waits for the other
        self._backoff = LogBackoff(service.monotonic)

    def set_roots(self, roots: Sequence[MonitoredRoot]) -> None:
        """Replace the known roots. Existing queues stay, because they may have work."""
        self._roots = roots

    def scan(self, root: MonitoredRoot, reason: str, ended: Ended | None = None) -> None:
        def run(context: Context, _: Work) -> Summary:
            with _ping_heartbeat(context, self._backoff) as record:
                return record(runner.scan(context, [root.path], ScanOptions()))

        self._give(root.lane, Work(Job.SCAN, root.path, Urgency.SCAN, reason, run, self._then(ended)))

    def look(self, root: MonitoredRoot, names: tuple[bytes, ...], ended: Ended) -> None:
        """Queue a scan of some names of a root."""

        def run(context: Context, _: Work) -> Summary:
            return runner.scan_hints(context, root.path, names)

        work = Work(Job.SCAN, root.path, Urgency.HINTS, f"{len(names)} names changed", run, self._then(ended))
        if not self._give(root.lane, work):
            ended(AppError("the same waits already"))

    def scrub(
        self,
        root: MonitoredRoot,
        reason: str,
        plan: Callable[[Context], ScrubOptions | None],
        ended: Callable[[Summary | AppError, bool], None],
    ) -> None:
        """
        Queue a scrub of a root. It pauses for more urgent work.

        Args:
            reason: for people.
            plan: called when the scrub's turn comes; returns how much to read, or None for nothing.
            ended: called with the result, and whether the scrub only paused and should continue.
        """

        def run(context: Context, _: Work) -> Summary:
            options = plan(context)
            if options is None:
                return nothing_done(Job.SCRUB, context.now())
            with _ping_heartbeat(context, self._backoff) as record:
                return record(runner.scrub(context, [root.path], options))

        def then(result: Summary | AppError) -> None:
            ended(result, work.rest.is_set() and not work.stop.is_set())

        work = Work(Job.SCRUB, root.path, Urgency.SCRUB, reason, run, self._then(then))
        self._give(root.lane, work)

    def compare(
        self,
        copy: MonitoredCopy,
        reason: str,
        plan: Callable[[Context], ComparePlan | None],
        ended: Callable[[Summary | AppError, bool], None],
    ) -> None:
        """
        Queue a comparison of a root with a copy. It pauses for more urgent work, also on the copy's disks.

        Args:
            reason: for people.
            plan: called when the comparison's turn comes; returns how to compare, or None to skip this turn.
            ended: called with the result, and whether the comparison only paused and should continue.
        """

        def run(context: Context, work: Work) -> Summary:
            planned = plan(context)
            if planned is None:
                return nothing_done(Job.COMPARE, context.now())
            with self._hold_disks_of(copy, work) as are_held:
                if not are_held:
                    return nothing_done(Job.COMPARE, context.now())
                work.began_at, work.steady_s = self._service.monotonic(), planned.steady_s
                with _ping_heartbeat(context, self._backoff) as record:
                    return record(runner.compare(context, (copy.settings.of,), planned.options))

        def then(result: Summary | AppError) -> None:
            ended(result, work.rest.is_set() and not work.stop.is_set())

        work = Work(Job.COMPARE, copy.root.path, Urgency.COMPARE, reason, run, self._then(then), copy=copy.name)
        self._give(copy.root.lane, work)

    def protect(
        self, root: MonitoredRoot, reason: str, may_begin: Callable[[], bool], ended: Callable[[bool], None]
    ) -> None:
        """
        Queue the making of parity. It pauses at the end of the window; user requests interrupt it.

        Args:
            reason: for people.
            may_begin: called when its turn comes.
            ended: called with whether it only paused and should continue.
        """

        def run(context: Context, _: Work) -> Summary:
            if not may_begin():
                return nothing_done(Job.PROTECT, context.now())
            return runner.protect(context, (root.path,), ProtectOptions(rested_s=RESTED_S), ProtectReport())

        def then(_: Summary | AppError) -> None:
            ended(work.rest.is_set() and not work.stop.is_set())

        work = Work(Job.PROTECT, root.path, Urgency.PROTECT, reason, run, self._then(then), steady_s=_STEADY_S)
        self._give(root.lane, work)

    @contextmanager
    def _hold_disks_of(self, copy: MonitoredCopy, work: Work) -> Iterator[bool]:
        """Hold the queue of a mounted copy's disks, unless it is the one that runs the comparison."""
        name = copy.root.lane if copy.path is None else lane_of(self._roots, copy.path)
        if name == copy.root.lane:
            yield True
            return
        with self._holder.hold(self._find_lane(name), work, self._service.monotonic) as is_held:
            yield is_held

    def submit(self, request: JobRequest, report: Report, done: Done) -> Ticket:
        """Queue a user request ahead of all other work; see ``Handler``."""
        parts = self._split(request)
        gathered = _Gathered(len(parts), report, done)
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

        return Ticket(lambda: _cancel(works), lambda: self._find_ahead(works))

    def lend(self, paths: Sequence[bytes], lent: Callable[[], None], returned: Returned) -> Ticket:
        """Leave what lies at paths to a command, before all else; see ``Handler``."""
        first_paths = {lane_of(self._roots, path): path for path in reversed(paths)}
        lease = _Lease(lent, returned)
        for name, path in first_paths.items():
            work = Work(Job.COMPARE, path, Urgency.REQUEST, "asked for", lease.run, self._then(lease.take))
            lease.works.append((self._find_lane(name), work))
        with self._lending:
            for lane, work in lease.works:
                lane.give(work)
        return Ticket(lease.cancel, lambda: self._find_ahead(lease.works))

    def act(self, job: Job, path: bytes, do: Callable[[Context], None], ended: Ended) -> Ticket:
        """Queue what a person decided about a file or folder, ahead of all other work."""

        def run(context: Context, _: Work) -> Summary:
            do(context)
            return nothing_done(job, context.now())

        lane = self._find_lane(lane_of(self._roots, os.path.realpath(path)))
        work = Work(job, path, Urgency.REQUEST, "asked for", run, self._then(ended))
        lane.give(work)
        return Ticket(lambda: lane.cancel(work), lambda: self._find_ahead([(lane, work)]))

    def busy(self) -> tuple[BusyRoot, ...]:
        return tuple(_describe_busy(work) for work in self._current())

    def queued(self) -> tuple[QueuedJob, ...]:
        return tuple(
            QueuedJob(work.root, work.job.value, work.reason, work.copy)
            for lane in self._all_lanes()
            for work in lane.waiting()
            if not work.is_hold
        )

    def stuck(self, silent_s: float) -> list[Work]:
        """
        Return jobs without progress for ``silent_s``: they hang in the kernel.

        Comparisons are excluded: another machine may compute for hours, and copies have their own timeouts.
        """
        now = self._service.monotonic()
        works = [work for work in self._current() if work.job is not Job.COMPARE]
        return [work for work in works if work.progress_at is not None and now - work.progress_at > silent_s]

    def make_room(self) -> None:
        """Ask jobs whose steady time is over to pause if more urgent work is queued."""
        for lane in self._all_lanes():
            lane.make_room()

    def rest(self, job: Job) -> None:
        """Ask the running jobs of this kind to end as at a limit, except user requests."""
        for lane in self._all_lanes():
            work = lane.current
            if work is not None and work.job is job and work.urgency is not Urgency.REQUEST:
                work.rest.set()

    def end(self) -> None:
        """Cancel all work, and accept no more."""
        self._is_over = True
        for lane in self._all_lanes():
            lane.end()

    def join(self, deadline: float) -> list[str]:
        """Wait for the threads until ``deadline`` on the monotonic clock. Return the names of those that hang."""
        monotonic = self._service.monotonic
        return [lane.name for lane in self._all_lanes() if not lane.join(max(0.0, deadline - monotonic()))]

    def _find_ahead(self, works: Sequence[tuple[DeviceQueue, Work]]) -> tuple[JobAhead, ...]:
        """Return the jobs before those of these works that have not started, running ones first."""
        ahead = [self._describe_ahead(other) for lane, work in works for other in lane.find_ahead(work) or ()]
        return tuple(sorted(ahead, key=lambda one: one.began_at is None))

    def _describe_ahead(self, work: Work) -> JobAhead:
        service, began_at = self._service, None
        if work.began_at is not None:
            began_at = int(service.clock() - (service.monotonic() - work.began_at))
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
                service = self._service
                lane = DeviceQueue(name, self._surround(name), clock=service.clock, monotonic=service.monotonic)
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
        service = self._service

        @contextmanager
        def surround(work: Work) -> Iterator[Context]:
            with service.open_catalog() as catalog:
                yield Context(
                    catalog,
                    service.config(),
                    WorkReport(work, service.monotonic),
                    jobs=work.jobs,
                    stop=work.stop,
                    clock=service.clock,
                    monotonic=service.monotonic,
                    pace=service.pace_of(name),
                    preempted=work.rest,
                    socket=service.socket,
                )

        return surround

    def _split(self, request: JobRequest) -> dict[str, JobRequest]:
        """Split a request by device queue. A request without paths covers all roots."""
        paths = request.paths or tuple(root.path for root in self._roots)
        parts: dict[str, list[bytes]] = {}
        for path in paths:
            parts.setdefault(lane_of(self._roots, path), []).append(path)
        if len(parts) <= 1:
            return {next(iter(parts), "none"): request}
        return {name: request._replace(paths=tuple(part)) for name, part in parts.items()}


@contextmanager
def _ping_heartbeat(context: Context, backoff: LogBackoff) -> Iterator[Callable[[Summary], Summary]]:
    """
    Ping the heartbeat when a run starts, and when it succeeds or fails.

    A run that ends in an error is retried soon; its pings back off.
    """
    heartbeat = Heartbeat(context.config.alerts.heartbeat_url, context.catalog, clock=context.clock)
    is_good, has_ended, is_silent = False, False, backoff.is_silent()

    def record(summary: Summary) -> Summary:
        nonlocal is_good, has_ended
        is_good, has_ended = summary.outcome is Outcome.CLEAN, True
        backoff.reset()
        return summary

    if not is_silent:
        heartbeat.started()
    try:
        yield record
    finally:
        if has_ended or not is_silent:
            (heartbeat.good if is_good else heartbeat.bad)()
        if not has_ended:
            backoff.record_failure()


def _describe_busy(work: Work) -> BusyRoot:
    progress, began_at, progress_at = work.progress, work.began_at, work.progress_at
    if progress is None or began_at is None or progress_at is None:
        return BusyRoot(work.root, work.job.value, "begins", 0, 0, None, None, work.copy)
    rate = progress.bytes_done / (progress_at - began_at) if progress_at > began_at else None
    done, total = progress.bytes_done, progress.bytes_total
    return BusyRoot(progress.root, work.job.value, progress.phase, progress.files_done, done, total, rate, work.copy)
