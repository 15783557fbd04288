"""One job that waits for its turn or is being done: what, for whom, how urgent."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import IntEnum
from typing import TYPE_CHECKING

from integrity.errors import AppError, show_path
from integrity.jobs.report import Note, NoteKind, Progress, Report, Summary
from integrity.jobs.stop import Stop
from integrity.model import Finding, Job

if TYPE_CHECKING:
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
