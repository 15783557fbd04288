"""One job that waits for its turn or is being done: what, for whom, how urgent."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from enum import IntEnum
from typing import TYPE_CHECKING

from integrity.errors import AppError
from integrity.jobs.report import Note, Progress, Report, Summary
from integrity.jobs.stop import Stop
from integrity.model import Finding, Job

if TYPE_CHECKING:
    from integrity.jobs.context import Context


class Urgency(IntEnum):
    """Who goes first. What is less urgent than something new makes room for it, if it can be done in parts."""

    REQUEST = 0  # a person waits
    HINTS = 1  # something happened
    SCAN = 2  # by the schedule, or because the watcher missed something
    SCRUB = 3  # in its window


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
        stop: ends it.
        rest: has a scrub end as at a limit, to go on later.

    Attributes:
        progress: how far it is.
    """

    job: Job
    root: bytes
    urgency: Urgency
    reason: str
    run: Callable[[Context, Work], Summary]
    ended: Callable[[Summary | AppError], None]
    listener: Report | None = None
    jobs: int | None = None
    stop: Stop = field(default_factory=Stop)
    rest: Stop = field(default_factory=Stop)
    progress: Progress | None = None

    def is_same(self, other: Work) -> bool:
        """Say whether doing one of them does the other; what persons ask for is never the same."""
        mine, theirs = (self.job, self.root, self.urgency), (other.job, other.root, other.urgency)
        return mine == theirs and self.urgency is not Urgency.REQUEST


class WorkReport:
    """What a job tells, for the state of the service, for who waits for it, and for the log."""

    def __init__(self, work: Work, log: Callable[[Finding | Note], None]) -> None:
        self._work = work
        self._log = log

    def progress(self, progress: Progress) -> None:
        """Keep it for whoever asks."""
        self._work.progress = progress
        if self._work.listener is not None:
            self._work.listener.progress(progress)

    def finding(self, finding: Finding) -> None:
        """Log a finding."""
        self._log(finding)
        if self._work.listener is not None:
            self._work.listener.finding(finding)

    def note(self, note: Note) -> None:
        """Log a note."""
        self._log(note)
        if self._work.listener is not None:
            self._work.listener.note(note)
