"""
Run a job for a command: catalog, signals, progress, report, exit code.

The records and findings of shared trees are the hub's. Commands on files of such a tree use the catalog of the part of
it that has them; lists lead to the hub.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from copy import copy
from typing import TYPE_CHECKING

from integrity import program
from integrity.cli.exitcodes import ExitCode
from integrity.cli.session import Session
from integrity.errors import ConfigError, show_path

if TYPE_CHECKING:
    from integrity.catalog.connection import Catalog
    from integrity.cli.console import ConsoleReport
    from integrity.config import ConfiguredRoot
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
    from integrity.cli.console import ConsoleReport, NoProgress
    from integrity.jobs.report import Stop
    from integrity.jobs.runner import make_context

    report = ConsoleReport(session.output, NoProgress())
    return make_context(catalog, session.config, report, jobs=None, stop=Stop(), shard=session.shard)


def do_request(session: Session, request: JobRequest, *, waits: bool) -> ExitCode:
    """
    Have a scan or scrub done: by the daemon, where one serves this catalog, else here.

    Args:
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
    """Run a job to its end and print what it tells."""
    with job_context(session, opened, threads=threads) as (context, report):
        return report.finish(job(context))


@contextmanager
def job_context(
    session: Session, opened: AbstractContextManager[Catalog], *, threads: int | None = None
) -> Iterator[tuple[Context, ConsoleReport]]:
    """Give the surroundings of a job that signals stop, and the report that prints what it tells."""
    from integrity.cli.console import ConsoleReport, reporting, stop_on_signals
    from integrity.jobs.runner import make_context

    with stop_on_signals() as stop, opened as catalog, reporting(session.output, ConsoleReport) as report:
        yield make_context(catalog, session.config, report, jobs=threads, stop=stop, shard=session.shard), report


@contextmanager
def at_files(session: Session, files: Sequence[bytes], *, writes: bool) -> Iterator[Session]:
    """
    Yield the session for a command on some files: for those of a shared tree, one with the catalog of their shard.

    Args:
        writes: the command changes the catalog.

    Raises:
        ConfigError: the files lie in several trees, or in several shards of one.
        AppError: the shard can't be had.
    """
    paths = [own_path(file) for file in files]
    root = _find_shared_root(session, paths)
    if root is None:
        yield session
        return
    from integrity.jobs.shards.checkout import check_out
    from integrity.words.findings import finding_object

    checked_out = check_out(session.config, root, paths, finding_object, session.output.say, writes=writes)
    with checked_out as shard:
        there = copy(session)
        there.catalog_option, there.shard = shard.config.catalog, shard.scope
        there.config = shard.config
        yield there


def lead_to_hub(session: Session, places: Sequence[bytes]) -> None:
    """
    Say where the state and the findings of shared trees are: not in this machine's catalog.

    Raises:
        ConfigError: one of the places, of which the command was to tell, lies in such a tree.
    """
    shared = session.config.shared_roots
    if not shared:
        return
    from integrity.jobs.targets import find_shared_root

    page = f"{session.config.hub.url.rstrip('/')}/trees"
    for place in places:
        root = find_shared_root(session.config, place)
        if root is not None:
            raise ConfigError(
                f"{show_path(place)}: lies in the shared tree {root.shared}, whose state and findings are on the hub:"
                f" {page}; about one file: {program.command('explain FILE')}"
            )
    for root in shared:
        session.output.say(
            f"{show_path(root.path)}: the shared tree {root.shared}; its state and findings are on the hub: {page}"
        )


def _find_shared_root(session: Session, paths: Sequence[bytes]) -> ConfiguredRoot | None:
    if not session.config.shared_roots:
        return None
    from integrity.jobs.targets import find_shared_root

    homes = [find_shared_root(session.config, path) for path in paths]
    if any(home != homes[0] for home in homes):
        raise ConfigError(
            f"{show_path(paths[0])}: only some of the files lie in this tree: name them in separate calls"
        )
    return homes[0] if homes else None
