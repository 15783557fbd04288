"""
One job that waits for its turn or is being done: what, for whom, how urgent.

One thread for each device: its roots are worked on one after the other, those of different devices side by side.

Decides whose turn it is. What the jobs are is in the work that is given.

I1  Work that was taken ends exactly once: ``ended`` is called with a summary or an error.
I2  An error in one job ends that job alone.
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
    """Who goes first. What is less urgent than something new makes room for it, if it can be done in parts."""

    REQUEST = 0  # a person waits
    HINTS = 1  # something happened
    SCAN = 2  # by the schedule, or because the watcher missed something
    SCRUB = 3  # in its window
    COMPARE = 4  # with a copy, by the schedule: nothing waits for it


@dataclass(slots=True, eq=False)
class Work:
    """
    A job on the roots of one device.

    Args:
        job: which.
        root: the root it works on, for people and to tell equal work; empty if it works on several.
        urgency: of it.
        reason: who or what wants it, for people.
        run: does it, in the device's thread.
        ended: takes how it ended, in that thread.
        listener: is told what the job tells; the log is as well.
        jobs: reading threads; None for what suits the disk.
        copy: that it compares; empty for other jobs.
        is_hold: it does nothing but keep its lane from working, for the sake of another lane's work.
        stop: ends it.
        rest: has a scrub or a comparison end as at a limit, to go on later.

    Attributes:
        progress: how far it is.
        began_at, told_at: when it began and last told anything, on the monotonic clock; None before.
        steady_s: for so long after its beginning it makes room only for what a person asks for.
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
    told_at: float | None = None
    steady_s: float = 0.0

    def is_same(self, other: Work) -> bool:
        """Say whether doing one of them does the other; what persons ask for is never the same."""
        mine, theirs = ((one.job, one.root, one.urgency, one.copy, one.is_hold) for one in (self, other))
        return mine == theirs and self.urgency is not Urgency.REQUEST

    def must_make_room(self, urgency: Urgency, now: float) -> bool:
        """Say whether it is to rest because something of this urgency waits; ``now``: on the monotonic clock."""
        if urgency >= self.urgency:
            return False
        is_steady = self.steady_s > 0 and (self.began_at is None or now - self.began_at < self.steady_s)
        return urgency is Urgency.REQUEST or not is_steady


class LogReport:
    """What a job tells, for the log."""

    def progress(self, progress: Progress) -> None:
        """Leave it out."""

    def finding(self, finding: Finding) -> None:
        """Log a finding."""
        place = _join(finding.root, finding.path)
        _log.warning("finding kind=%s id=%d path=%s: %s", finding.kind.value, finding.id, place, finding.message)

    def note(self, note: Note) -> None:
        """Log a note; what everybody does all day is told at the lowest level."""
        level = logging.WARNING if note.kind is NoteKind.WARNING else logging.DEBUG
        _log.log(level, "note kind=%s path=%s: %s", note.kind.value, _join(note.root, note.path), note.message)


class WorkReport:
    """What a job tells, for the state of the service, for who waits for it, and for the log."""

    def __init__(self, work: Work, monotonic: Callable[[], float]) -> None:
        self._work = work
        self._monotonic = monotonic
        self._logged = LogReport()
        work.told_at = work.began_at = monotonic()

    def progress(self, progress: Progress) -> None:
        """Keep it for whoever asks."""
        self._work.progress, self._work.told_at = progress, self._monotonic()
        if self._work.listener is not None:
            self._work.listener.progress(progress)

    def finding(self, finding: Finding) -> None:
        """Hand a finding on."""
        self._logged.finding(finding)
        if self._work.listener is not None:
            self._work.listener.finding(finding)

    def note(self, note: Note) -> None:
        """Hand a note on."""
        self._logged.note(note)
        if self._work.listener is not None:
            self._work.listener.note(note)


def _join(root: bytes, path: bytes | None) -> str:
    return show_path(root if path is None else root.rstrip(b"/") + b"/" + path)


class DeviceQueue(DaemonThread):
    """
    The thread of one device. A daemon thread: one that hangs in the kernel must not keep the service alive.

    Args:
        name: of the device, for people.
        surroundings: opens the catalog for one job, in this thread, and closes it afterwards.
        clock: seconds UTC.
        monotonic: seconds.
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
        """What is being done."""
        return self._current

    def waiting(self) -> list[Work]:
        """List what waits, the most urgent first."""
        with self._changed:
            return [work for _, _, work in sorted(self._waiting)]

    def find_ahead(self, work: Work) -> list[Work] | None:
        """List what goes before work that waits, what is being done first; None: it does not wait any more."""
        with self._changed:
            order = sorted(self._waiting)
            place = next((place for place, entry in enumerate(order) if entry[2] is work), None)
            if place is None:
                return None
            current = [] if self._current is None else [self._current]
            return current + [other for _, _, other in order[:place]]

    def give(self, work: Work) -> bool:
        """
        Take work on; what is less urgent makes room for it.

        Returns:
            False if the same already waits; it is not taken then.
        """
        with self._changed:
            if any(work.is_same(other) for _, _, other in self._waiting):
                return False
            heappush(self._waiting, (work.urgency, next(self._numbers), work))
            self._make_room()
            self._changed.notify()
        return True

    def make_room(self) -> None:
        """Have what is being done rest if it has had its time, and something more urgent waits."""
        with self._changed:
            self._make_room()

    def cancel(self, work: Work) -> None:
        """End work as an interrupt would, begun or not."""
        work.stop.set()
        with self._changed:
            is_waiting = any(other is work for _, _, other in self._waiting)
            self._waiting = [entry for entry in self._waiting if entry[2] is not work]
            heapify(self._waiting)
        if is_waiting:
            work.ended(interrupted(work.job, int(self._clock())))

    def end(self) -> None:
        """Have the current job stop, and take nothing more; ``join`` waits for it."""
        with self._changed:
            self._is_over = True
            left, self._waiting = [work for _, _, work in self._waiting], []
            if self._current is not None:
                self._current.stop.set()
            self._changed.notify()
        for work in left:
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
        """Log why a job failed; what is tried again and fails as before is told once, and then at the lowest level."""
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
