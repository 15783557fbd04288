"""Define what commands request from the daemon, and the protocol that handles it."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

from integrity.errors import AppError
from integrity.jobs.options import ScanOptions, ScrubOptions
from integrity.jobs.report import Progress, Report, Summary
from integrity.model import Job, Outcome, RunCounts

if TYPE_CHECKING:
    from integrity.jobs.context import Context
    from integrity.service.states import DaemonState, JobAhead

Cancel = Callable[[], None]
"""Requests the end of a job."""


@dataclass(frozen=True, slots=True)
class Ticket:
    """
    A handle for an accepted request. Any thread may call both functions, at any time and repeatedly.

    Args:
        cancel: asks the job to stop; a job that has not started ends with ``interrupted``.
        find_ahead: returns the jobs before it, running ones first; empty once any part of it has started.
    """

    cancel: Cancel
    find_ahead: Callable[[], tuple[JobAhead, ...]]


Done = Callable[[Summary | AppError], None]
"""Called with the result of a job, or the error that prevented it."""

LEASED = "left to a command"
"""The phase in which a root is leased to a command."""


@dataclass(frozen=True, slots=True)
class JobRequest:
    """
    A request for a scan or a scrub, or for a lease of roots to a command that compares them itself.

    A comparison needs the user's own keys and agent, so the service can't run it. The service reports when the lease
    begins (``LEASED``), and does nothing else on those disks until it is told to stop or the client disconnects.

    Args:
        job: SCAN, SCRUB, or COMPARE (a lease).
        paths: real and absolute; empty means all roots.
        scan: ignored by a scrub.
        scrub: ignored by a scan.
        jobs: threads, from ``--jobs``; None chooses by disk.
        may_add_roots: whether a folder outside all roots becomes a root. The server sets it according to the user, and
            ignores the client's value.
    """

    job: Job
    paths: tuple[bytes, ...] = ()
    scan: ScanOptions = field(default_factory=ScanOptions)
    scrub: ScrubOptions = field(default_factory=ScrubOptions)
    jobs: int | None = None
    may_add_roots: bool = True


class Handler(Protocol):
    """
    The daemon, as the control socket sees it.

    ``state`` and ``roots`` are called from the server's only thread, so neither may wait for a job or a disk.
    ``submit`` is called from any thread.
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
    if request.job is Job.COMPARE:
        return _lend(context, request)
    if request.job is Job.SCAN:
        return runner.scan(context, request.paths, request.scan)
    return runner.scrub(context, request.paths, request.scrub)


def _lend(context: Context, request: JobRequest) -> Summary:
    root = request.paths[0] if request.paths else b""
    context.report.progress(Progress(Job.COMPARE, root, LEASED, 0, None, 0, None))
    context.stop.wait()
    return interrupted(Job.COMPARE, context.now())


def nothing_done(job: Job, now: int) -> Summary:
    """Return the summary of a job that had nothing to do."""
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
