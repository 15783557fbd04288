"""
Run jobs with one thread per device: one job at a time on a device, different devices in parallel.

Decides which job runs next. The jobs themselves are in ``Work.run``.

I1  Accepted work ends exactly once: ``ended`` is called with a summary or an error.
I2  An error in a job ends only that job.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import IntEnum
from heapq import heapify, heappop, heappush
from itertools import count
from typing import TYPE_CHECKING

from integrity.errors import AppError, show_path
from integrity.jobs.report import Note, NoteKind, Progress, Report, Stop, Summary
from integrity.model import Finding, Job
from integrity.service.control.requests import interrupted
from integrity.threads import DaemonThread

if TYPE_CHECKING:
    from collections.abc import Iterator
    from contextlib import AbstractContextManager

    from integrity.jobs.context import Context


_log = logging.getLogger(__name__)


class Urgency(IntEnum):
    """Priority of work, highest first. A running scrub or comparison pauses when more urgent work is queued."""

    REQUEST = 0  # a user waits
    HINTS = 1  # the watcher reported changes
    SCAN = 2  # by schedule, or because the watcher missed events
    SCRUB = 3  # in its window
    COMPARE = 4  # with a copy, by schedule: nothing waits for it
    PROTECT = 5  # in the window, when the scrub is done


@dataclass(slots=True, eq=False)
class Work:
    """
    A job on the roots of one device.

    Args:
        root: for display, and to recognize duplicates; empty if the job covers several roots.
        reason: who or what requested it, for people.
        run: runs the job, in the device's thread.
        ended: called with the result, normally in that thread; in the caller's if the work is cancelled before it
            starts.
        listener: gets the job's reports, in addition to the log.
        jobs: number of reading threads; None chooses by disk.
        copy: name of the copy to compare with; empty for other jobs.
        is_hold: the work only keeps its device idle while a job of another device uses it.
        stop: cancels the work.
        rest: makes a scrub or comparison pause as at a limit, to be resumed later.

    Attributes:
        began_at, progress_at: start and last progress, on the monotonic clock; None before the start.
        steady_s: for this long after the start, only user requests interrupt the work.
    """

    job: Job
    root: bytes
    urgency: Urgency
    reason: str
    run: Callable[[Context, Work], Summary]
    ended: Callable[[Summary | AppError], None]
    listener: Report | None = None
    jobs: int | None = None
    copy: str = ""
    is_hold: bool = False
    stop: Stop = field(default_factory=Stop)
    rest: Stop = field(default_factory=Stop)
    progress: Progress | None = None
    began_at: float | None = None
    progress_at: float | None = None
    steady_s: float = 0.0

    def is_same(self, other: Work) -> bool:
        """Return whether one of them makes the other redundant. User requests never are."""
        mine, theirs = ((one.job, one.root, one.urgency, one.copy, one.is_hold) for one in (self, other))
        return mine == theirs and self.urgency is not Urgency.REQUEST

    def must_make_room(self, urgency: Urgency, now: float) -> bool:
        """Return whether the work must pause for work of this urgency; ``now`` is on the monotonic clock."""
        if urgency >= self.urgency:
            return False
        is_steady = self.steady_s > 0 and (self.began_at is None or now - self.began_at < self.steady_s)
        return urgency is Urgency.REQUEST or not is_steady


class LogReport:
    """Log the findings and notes of a job."""

    def progress(self, progress: Progress) -> None:
        """Ignore progress."""

    def finding(self, finding: Finding) -> None:
        place = _join(finding.root, finding.path)
        _log.warning("finding kind=%s id=%d path=%s: %s", finding.kind.value, finding.id, place, finding.message)

    def note(self, note: Note) -> None:
        """Log a note: warnings as such, routine notes at debug level."""
        level = logging.WARNING if note.kind is NoteKind.WARNING else logging.DEBUG
        _log.log(level, "note kind=%s path=%s: %s", note.kind.value, _join(note.root, note.path), note.message)


class WorkReport:
    """Pass a job's reports to the service's state, to the waiting client, and to the log."""

    def __init__(self, work: Work, monotonic: Callable[[], float]) -> None:
        self._work = work
        self._monotonic = monotonic
        self._logged = LogReport()
        work.progress_at = work.began_at = monotonic()

    def progress(self, progress: Progress) -> None:
        self._work.progress, self._work.progress_at = progress, self._monotonic()
        if self._work.listener is not None:
            self._work.listener.progress(progress)

    def finding(self, finding: Finding) -> None:
        self._logged.finding(finding)
        if self._work.listener is not None:
            self._work.listener.finding(finding)

    def note(self, note: Note) -> None:
        self._logged.note(note)
        if self._work.listener is not None:
            self._work.listener.note(note)


def _join(root: bytes, path: bytes | None) -> str:
    return show_path(root if path is None else root.rstrip(b"/") + b"/" + path)


class DeviceQueue(DaemonThread):
    """
    The queue and thread of one device. A daemon thread, so that a hang in the kernel does not keep the process alive.

    Args:
        surroundings: opens the catalog for one job, in this thread, and closes it afterwards.
        clock: seconds UTC.
    """

    def __init__(
        self,
        name: str,
        surroundings: Callable[[Work], AbstractContextManager[Context]],
        *,
        clock: Callable[[], float],
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        super().__init__(f"lane-{name}")
        self.name = name
        self._surroundings = surroundings
        self._clock = clock
        self._monotonic = monotonic
        self._changed = threading.Condition()
        self._waiting: list[tuple[Urgency, int, Work]] = []  # a heap
        self._numbers = count()
        self._current: Work | None = None
        self._is_over = False
        self._last_failure = ""
        self.start()

    @property
    def current(self) -> Work | None:
        return self._current

    def waiting(self) -> list[Work]:
        """Return the queued work, most urgent first."""
        with self._changed:
            return [work for _, _, work in sorted(self._waiting)]

    def find_ahead(self, work: Work) -> list[Work] | None:
        """Return the work before this one, the running one first; None if it is no longer queued."""
        with self._changed:
            order = sorted(self._waiting)
            place = next((place for place, entry in enumerate(order) if entry[2] is work), None)
            if place is None:
                return None
            current = [] if self._current is None else [self._current]
            return current + [other for _, _, other in order[:place]]

    def give(self, work: Work) -> bool:
        """
        Queue work. Less urgent running work is asked to pause. After ``end``, the work is cancelled at once.

        Returns:
            False if the same work is already queued; it is not queued twice, and ``ended`` is not called.
        """
        with self._changed:
            if any(work.is_same(other) for _, _, other in self._waiting):
                return False
            is_over = self._is_over
            if not is_over:
                heappush(self._waiting, (work.urgency, next(self._numbers), work))
                self._make_room()
                self._changed.notify()
        if is_over:
            self._end_unstarted(work)
        return True

    def make_room(self) -> None:
        """Ask the running work to pause if more urgent work is queued and its steady time is over."""
        with self._changed:
            self._make_room()

    def cancel(self, work: Work) -> None:
        """Cancel work, queued or running, as an interrupt would."""
        work.stop.set()
        with self._changed:
            is_waiting = any(other is work for _, _, other in self._waiting)
            self._waiting = [entry for entry in self._waiting if entry[2] is not work]
            heapify(self._waiting)
        if is_waiting:
            self._end_unstarted(work)

    def end(self) -> None:
        """Cancel all work, and end the thread; ``join`` waits for it."""
        with self._changed:
            self._is_over = True
            left, self._waiting = [work for _, _, work in self._waiting], []
            if self._current is not None:
                self._current.stop.set()
            self._changed.notify()
        for work in left:
            self._end_unstarted(work)

    def _end_unstarted(self, work: Work) -> None:
        """Report work as interrupted that will not start. Call it without the lock: ``ended`` may queue other work."""
        work.stop.set()
        work.ended(interrupted(work.job, int(self._clock())))

    def _make_room(self) -> None:
        current = self._current
        if self._waiting and current is not None and current.must_make_room(self._waiting[0][0], self._monotonic()):
            current.rest.set()

    def _run(self) -> None:
        for work in self._take():
            result = self._do(work)
            with self._changed:
                self._current = None
            work.ended(result)

    def _take(self) -> Iterator[Work]:
        while True:
            with self._changed:
                while not self._waiting and not self._is_over:
                    self._changed.wait()
                if self._is_over:
                    return
                _, _, work = heappop(self._waiting)
                self._current = work
            yield work

    def _log_failure(self, work: Work, error: AppError) -> None:
        """Log why a job failed. A retry that fails with the same error is logged at debug level."""
        text = f"job_failed job={work.job.value} root={show_path(work.root)}: {error}"
        _log.log(logging.DEBUG if text == self._last_failure else logging.ERROR, "%s", text)
        self._last_failure = text

    def _do(self, work: Work) -> Summary | AppError:
        try:
            with self._surroundings(work) as context:
                result = work.run(context, work)
        except AppError as error:
            self._log_failure(work, error)
            return error
        except Exception as error:  # noqa: BLE001 - the top of this thread: a bug in one job must not end all others
            _log.exception("job_bug job=%s root=%s", work.job.value, show_path(work.root))
            return AppError(f"this is a bug in the service: {type(error).__name__}; see its log")
        self._last_failure = ""
        return result
