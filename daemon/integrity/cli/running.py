"""Run a job for a command: catalog, signals, progress, report, exit code."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING

from integrity.cli.exitcodes import ExitCode
from integrity.cli.session import Session

if TYPE_CHECKING:
    from integrity.catalog.connection import Catalog
    from integrity.jobs.context import Context
    from integrity.jobs.report import Summary
    from integrity.service.control.requests import JobRequest


def real_path(path: bytes) -> bytes:
    """Make a PATH absolute and free of symlinks, as the catalog stores it."""
    return os.path.realpath(path)


def own_path(path: bytes) -> bytes:
    """Make a PATH absolute, but don't follow its last part: a link may stand where a recorded file was."""
    if not os.path.islink(path):
        return real_path(path)
    folder, name = os.path.split(path)
    return os.path.join(real_path(folder), name)


def make_quiet_context(session: Session, catalog: Catalog) -> Context:
    """Make the surroundings of a job that is short and tells its result by what it returns."""
    from integrity.cli.console import ConsoleReport
    from integrity.cli.progress import NoProgress
    from integrity.jobs.report import Stop
    from integrity.jobs.runner import make_context

    report = ConsoleReport(session.output, NoProgress())
    return make_context(catalog, session.config, report, jobs=None, stop=Stop(), shard=session.shard)


def do_request(session: Session, request: JobRequest, *, waits: bool) -> ExitCode:
    """
    Have a scan or scrub done: by the daemon, where one serves this catalog, else here.

    Args:
        session: of this call.
        request: what is asked for.
        waits: False only puts it into the daemon's queue.
    """
    from integrity.cli.daemon_client import find_daemon, hand_over, queue
    from integrity.model import Job
    from integrity.service.control.requests import run_request

    daemon = find_daemon(session, request.paths)
    with daemon or nullcontext():
        if not waits:
            return queue(session, daemon, request)
        if daemon is not None:
            return hand_over(session, daemon, request)
    scrub = request.scrub
    # One by cron, whose catalog is gone, must not begin anew in silence.
    records = request.job is not Job.SCRUB or (scrub.scan_first and (bool(request.paths) or not scrub.due))
    opened = session.open_for_job(request.paths, records=records)
    return run_job(session, opened, lambda context: run_request(context, request), threads=request.jobs)


def run_job(
    session: Session,
    opened: AbstractContextManager[Catalog],
    job: Callable[[Context], Summary],
    *,
    threads: int | None = None,
) -> ExitCode:
    """
    Run a job to its end and print what it tells.

    Args:
        session: of this call.
        opened: the catalog, as the session opens it.
        job: does it.
        threads: of ``--jobs``.
    """
    from integrity.cli.console import ConsoleReport
    from integrity.cli.progress import open_progress
    from integrity.cli.signals import stop_on_signals
    from integrity.jobs.runner import make_context

    with stop_on_signals() as stop, opened as catalog:
        progress = open_progress(is_quiet=session.output.is_quiet)
        report = ConsoleReport(session.output, progress)
        try:
            context = make_context(catalog, session.config, report, jobs=threads, stop=stop, shard=session.shard)
            summary = job(context)
        finally:
            progress.close()
        return report.finish(summary)
