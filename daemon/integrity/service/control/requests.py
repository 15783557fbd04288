"""Define what commands request from the daemon, and the protocol that handles it."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Sequence
from enum import StrEnum
from typing import TYPE_CHECKING, NamedTuple, Protocol

from integrity.errors import AppError
from integrity.jobs.byte_pattern import Side
from integrity.jobs.options import ScanOptions, ScrubOptions
from integrity.jobs.report import Report, Summary
from integrity.model import Actor, Job, Outcome, RunCounts
from integrity.words.card import Row

if TYPE_CHECKING:
    from integrity.jobs.context import Context
    from integrity.jobs.picture_type import Picture
    from integrity.service.control.wire import DaemonState, JobAhead

Cancel = Callable[[], None]
"""Requests the end of a job."""


class Ticket(NamedTuple):
    """
    A handle for an accepted request. Any thread may call both functions, at any time and repeatedly.

    Args:
        cancel: asks the job to stop; a job that has not started ends with ``interrupted``.
        find_ahead: returns the jobs before what has not started of it, running ones first.
    """

    cancel: Cancel
    find_ahead: Callable[[], tuple[JobAhead, ...]]


Done = Callable[[Summary | AppError], None]
"""Called with the result of a job, or the error that prevented it."""

Returned = Callable[[AppError | None], None]
"""Is called when roots are not lent any more, with what made lending them impossible."""

LENT_PHASE = "left to a command"
"""The phase that the state shows of a root while it is lent to a command."""


class JobRequest(NamedTuple):
    """
    A scan or a scrub that somebody asks for.

    Args:
        job: SCAN or SCRUB. A comparison needs its user's own keys and agent: ``Handler.lend`` is for that.
        paths: real, absolute ones; empty: all roots.
        scan: how to scan; of no use to a scrub.
        scrub: how to scrub; of no use to a scan.
        jobs: threads of ``--jobs``; None for what suits the disk.
        may_add_roots: whether a folder that lies in no root becomes one. The server sets it by who asks: what a client
            says of it counts for nothing.
    """

    job: Job
    paths: tuple[bytes, ...] = ()
    scan: ScanOptions = ScanOptions()
    scrub: ScrubOptions = ScrubOptions()
    jobs: int | None = None
    may_add_roots: bool = True


class ActVerb(StrEnum):
    """What a person can have done through the control socket, beside scans and scrubs."""

    ACK = "ack"
    MUTE = "mute"
    PAUSE = "pause"
    RESUME = "resume"
    ACCEPT = "accept"
    PLAN_REPAIR = "plan_repair"
    REPAIR = "repair"
    TEST_ALERT = "test_alert"


class Act(NamedTuple):
    """
    Request something that a person decided. Answered with ActDone, RepairPlanned or Failure, the last answer.

    Args:
        actor: recorded in the history of actions; the daemon believes the peer.
        ids: findings to acknowledge or mute.
        path: absolute path of the root to pause or resume, of the file or folder to accept, of the file to repair.
        until: end of muting, seconds UTC.
        changes, deletions: accept the folder's changes or deletions that await a decision.
        seen: what the person saw and decided about: the token of the plan of a repair, or of a file to accept. If it is
            something else by now, nothing is done; a repair is answered with its new plan. Empty: whatever it is.
    """

    verb: ActVerb
    actor: Actor
    ids: tuple[int, ...] = ()
    path: bytes | None = None
    until: int | None = None
    reason: str = ""
    changes: bool = False
    deletions: bool = False
    seen: str = ""


class ActDone(NamedTuple):
    """It was done. ``message``: what came of it, for people."""

    message: str


class RepairPlanned(NamedTuple):
    """
    What a repair would do.

    Args:
        plan: the object that `integrity repair --json` prints, as JSON.
        title: with the path of the file.
        token: of the plan: a repair with it does this and nothing else.
    """

    plan: str
    title: str
    rows: tuple[Row, ...]
    token: str


class AskPicture(NamedTuple):
    """
    Ask for one side of a finding, to be looked at; answered with Picture or Failure, the last answer.

    Args:
        finding: its number: nobody names a path.
        has_data: the whole of it; False: only what it is.
    """

    finding: int
    side: Side
    has_data: bool


Answered = Callable[[ActDone | RepairPlanned | AppError], None]
"""Called with the answer to an Act."""


class Handler(Protocol):
    """
    The daemon, as the control socket sees it.

    Any thread may call it, several at once. Of ``state``, ``roots`` and ``allows_actions`` none may wait for a job or a
    disk.
    """

    def submit(self, request: JobRequest, report: Report, done: Done) -> Ticket:
        """
        Queue a request ahead of all other work.

        Args:
            request: checked, with real paths.
            report: its methods are called from the job's thread, and never block.
            done: called once, from any thread, after the last call to ``report``.

        Raises:
            AppError: the request is impossible; ``done`` is not called.
        """

    def lend(self, paths: Sequence[bytes], lent: Callable[[], None], returned: Returned) -> Ticket:
        """
        Leave what lies at paths to a command, which works there by itself, as soon as it is its turn on all disks.

        Nothing else is worked on there until the ticket is cancelled.

        Args:
            paths: real ones; at least one.
            lent: called once from any thread when all are lent; never blocks.
            returned: called once, from any thread, when they are not lent any more, or can't be.
        """

    def act(self, act: Act, answered: Answered) -> Ticket | None:
        """
        Do something that a person decided, or queue it if it reads or writes files.

        Args:
            act: checked.
            answered: called once, from any thread; never blocks.

        Returns:
            A handle for queued work; None if the answer was given.

        Raises:
            AppError: it is impossible, or failed; ``answered`` is not called.
        """

    def find_picture(self, question: AskPicture) -> Picture:
        """
        Read one side of a finding in the caller's thread, which may wait for a disk or a copy.

        Raises:
            AppError: it can't be read, or is not to be shown.
        """

    def allows_actions(self) -> bool:
        """Return whether the page may have anything done."""

    def state(self) -> DaemonState:
        """Return what the daemon is doing."""

    def roots(self) -> tuple[bytes, ...]:
        """Return the real, absolute paths of all roots, recorded or configured."""


def run_request(context: Context, request: JobRequest) -> Summary:
    """
    Run a request in this thread.

    Raises:
        AppError: as ``runner.scan`` and ``runner.scrub`` do.
    """
    from integrity.jobs import runner

    context.may_add_roots = request.may_add_roots
    if request.job is Job.SCAN:
        return runner.scan(context, request.paths, request.scan)
    return runner.scrub(context, request.paths, request.scrub)


def nothing_done(job: Job, now: int) -> Summary:
    return Summary(job, now, now, Outcome.CLEAN, RunCounts(), 0.0, has_integrity_problem=False, is_incomplete=False)


def interrupted(job: Job, now: int) -> Summary:
    """Return the summary of a job that was cancelled before it started or while it held a lease."""
    return Summary(
        job=job,
        started_at=now,
        finished_at=now,
        outcome=Outcome.INTERRUPTED,
        counts=RunCounts(),
        duration_s=0.0,
        has_integrity_problem=False,
        is_incomplete=True,
    )


def covers(roots: Collection[bytes], path: bytes) -> bool:
    """Return whether a real path is one of these roots or inside one. For many roots, pass a set."""
    while path not in roots:
        path, former = os.path.dirname(path), path
        if path == former:
            return False
    return True


def has_run(summary: Summary) -> bool:
    """Return whether a job was run and recorded; one that had nothing to do, or never started, has no duration."""
    return summary.duration_s > 0
