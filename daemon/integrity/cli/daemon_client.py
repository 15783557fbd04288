"""
Hand a scan or scrub to the daemon that serves the catalog, and show what it tells as if it were our own.

Which daemon that is follows from the catalog that the command would use: the link beside it, the runtime folder of this
user, or the system's service tells, whose greeting names its catalog. A user who neither has nor names a catalog is
served by the system's service in whatever lies in its roots; with a catalog of his own he works without it.

Have the service leave roots alone while a command works on them itself, with what only its user has: keys, an agent.
What the service does there makes room at once, and goes on when the command has ended, however it ends.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, nullcontext
from typing import TYPE_CHECKING

from integrity import program
from integrity.cli.exitcodes import ExitCode
from integrity.cli.output import Output
from integrity.cli.session import Session
from integrity.errors import CatalogError, ConfigError, printable, show_path
from integrity.model import Job
from integrity.paths import path_fields
from integrity.service.control.socket import GREETING_S, SYSTEM_SOCKET, find_daemon_of, find_linked_socket, greet
from integrity.views.service import ServiceView, ask_service
from integrity.words.text import JsonObject, iso_time

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from integrity.catalog.root_meta import PastService
    from integrity.cli.console import ConsoleReport
    from integrity.jobs.context import Context
    from integrity.jobs.report import Stop, Summary
    from integrity.model import Job
    from integrity.service.control.client import DaemonClient
    from integrity.service.control.requests import JobRequest
    from integrity.service.control.wire import AskAhead, JobAhead

_STATUS_PATIENCE_S = 2.0
"""A service answers in a few milliseconds; on a machine that swaps it takes longer, and status is wanted then."""

_GLANCE_S = 0.1  # between two looks at whether the user wants to stop


def find_daemon(session: Session, paths: Sequence[bytes], *, patience_s: float = GREETING_S) -> DaemonClient | None:
    """
    Find the daemon that a command's job is to be handed to.

    Args:
        paths: real ones, of the command line.

    Returns:
        It, to be closed; None if the command does the work itself.

    Raises:
        CatalogError: there is one, and this user may not reach it, or it does not answer.
    """
    catalog = os.path.realpath(session.catalog_path)
    daemon = find_daemon_of(catalog, patience_s=patience_s)
    if daemon is not None:
        return daemon
    if find_linked_socket(catalog) == SYSTEM_SOCKET:
        return None
    return _find_system_daemon(session, catalog, paths, patience_s)


def _find_system_daemon(
    session: Session, catalog: bytes, paths: Sequence[bytes], patience_s: float
) -> DaemonClient | None:
    """Find the system's service, if it serves this catalog, or the roots of a user who has no catalog."""
    has_none = not (session.is_catalog_named or os.path.lexists(catalog))
    try:
        daemon = greet(SYSTEM_SOCKET, None, patience_s)
    except CatalogError:
        if has_none:
            raise
        return None
    if daemon is None or daemon.catalog == catalog:
        return daemon
    with ExitStack() as unless_used:
        unless_used.enter_context(daemon)
        if not has_none:
            _remark_covered(session, daemon, paths, patience_s)
            return None
        covered = daemon.find_covered(paths, patience_s)
        if covered and not covered.issuperset(paths):
            raise ConfigError(_say_mixed(paths, covered))
        if covered or not paths:
            unless_used.pop_all()
            return daemon
    return None


def _remark_covered(session: Session, daemon: DaemonClient, paths: Sequence[bytes], patience_s: float) -> None:
    """Say that the system's service watches as well what a user works on with a catalog of his own."""
    with contextlib.suppress(CatalogError):  # the user's own work needs no service
        for path in sorted(daemon.find_covered(paths, patience_s)):
            session.output.note(
                f"{show_path(path)}: the system's service watches this folder, too. This command uses the catalog"
                f" {show_path(session.catalog_path)} and not the service; to have the service do it, put this before"
                f" the command: --catalog {show_path(daemon.catalog)}"
            )


def _say_mixed(paths: Sequence[bytes], covered: frozenset[bytes]) -> str:
    other = next(path for path in paths if path not in covered)
    return (
        f"the system's service watches {show_path(min(covered))}, but not {show_path(other)}, which needs a catalog of"
        " your own: name them in two commands"
    )


def hand_over(session: Session, daemon: DaemonClient, request: JobRequest) -> ExitCode:
    """Have the daemon do it, show what it tells, and return what the job's own process would exit with."""
    from integrity.cli.console import ConsoleReport, reporting, stop_on_signals

    with stop_on_signals() as stop, reporting(session.output, ConsoleReport) as report:
        return report.finish(follow(daemon, request, report, stop, output=session.output))


def follow(
    daemon: DaemonClient,
    request: JobRequest,
    report: ConsoleReport,
    stop: Stop,
    *,
    output: Output,
    find_delay: Callable[[], CatalogError | None] = lambda: None,
) -> Summary:
    """
    Ask for the job and pass on what is told, until its summary.

    Args:
        output: of the command; it is told what the job waits for.
        find_delay: asked again and again until something is told; gives what is to be raised, the job being taken back,
            if it has waited too long for its turn.
    """
    from integrity.jobs.report import Note, Progress, Summary
    from integrity.model import Finding
    from integrity.service.control import wire

    daemon.submit(request, waits=True)
    has_asked = has_begun = False
    notice: WaitingNotice | None = None
    while True:
        if stop.is_set() and not has_asked:
            has_asked = True
            daemon.send(wire.StopJob())
        if not (has_begun or has_asked) and (error := find_delay()) is not None:
            daemon.send(wire.StopJob())
            raise error
        if notice is not None and not (has_begun or has_asked):
            notice.ask()
        try:
            answer = daemon.receive(_GLANCE_S)
        except CatalogError:
            report.show()  # what the job found before is true all the same
            raise
        has_begun |= isinstance(answer, Progress | Finding | Note)
        if isinstance(answer, Summary):
            return answer
        if isinstance(answer, wire.Failure):
            raise wire.to_error(answer)
        if isinstance(answer, Progress):
            report.progress(answer)
        elif isinstance(answer, Finding):
            report.finding(answer)
        elif isinstance(answer, Note):
            report.note(answer)
        elif isinstance(answer, wire.JobsAhead) and notice is not None and not has_begun:
            notice.show(answer.jobs)
        elif isinstance(answer, wire.JobAccepted):
            notice = WaitingNotice(output, daemon.send, request.job)
            place = request.paths[0] if request.paths else b"all roots"
            report.progress(Progress(request.job, place, "queued", 0, None, 0, None))


def queue(session: Session, daemon: DaemonClient | None, request: JobRequest) -> ExitCode:
    """Have the daemon do it, and do not wait for it."""
    if daemon is None:
        raise ConfigError("--no-wait: no service runs for this catalog that could do it later; leave the option away")
    answer = daemon.queue(request)
    output, job = session.output, request.job.value
    places = ", ".join(map(show_path, request.paths)) or "all roots"
    behind = f"; {describe_ahead(answer.ahead)}" if answer.ahead else ""
    output.say(f"queued: {job} of {printable(places)}{behind}; see how it goes with: {program.command('status')}")
    paths = [path_fields("path", path) for path in request.paths]
    output.give("queued", {"job": job, "paths": paths, "ahead": ahead_objects(answer.ahead)})
    return ExitCode.OK


def find_service(session: Session, past: PastService | None = None) -> ServiceView:
    """Ask the service of this catalog what it is doing, if there is one; it is not waited for long."""
    try:
        daemon = find_daemon(session, (), patience_s=_STATUS_PATIENCE_S)
        return ask_service(daemon, os.path.realpath(session.catalog_path), _STATUS_PATIENCE_S, lambda: past)
    except CatalogError as error:
        return ServiceView(None, str(error))


@contextmanager
def borrowing(session: Session, paths: Sequence[bytes], context: Context) -> Iterator[None]:
    """
    Borrow the roots of paths from the service of this catalog, if there is one, as long as the context lasts.

    Args:
        paths: real ones.
        context: of the job; once it is asked to stop nothing is waited for.

    Raises:
        CatalogError: there is a service, and it can't be asked.
    """
    with find_daemon(session, paths) or nullcontext() as daemon:
        covered = daemon.find_covered(paths) if daemon is not None else frozenset()
        if daemon is not None and covered:
            _borrow(session.output, daemon, tuple(sorted(covered)), context)
        yield


def _borrow(output: Output, daemon: DaemonClient, paths: tuple[bytes, ...], context: Context) -> None:
    """Wait until the service has made room; it works there again when the connection ends."""
    from integrity.jobs.report import Progress
    from integrity.service.control import wire

    daemon.send(wire.LendRoots(paths))
    context.report.progress(Progress(Job.COMPARE, paths[0], "waits for the service", 0, None, 0, None))
    notice = WaitingNotice(output, daemon.send, Job.COMPARE)
    while not context.stop.is_set():
        notice.ask()
        answer = daemon.receive(_GLANCE_S)
        if isinstance(answer, wire.Failure):
            raise wire.to_error(answer)
        if isinstance(answer, wire.RootsReturned):
            raise CatalogError(f"the service (process {daemon.pid}) is about to end; try again in a moment")
        if isinstance(answer, wire.JobsAhead):
            notice.show(answer.jobs)
        if isinstance(answer, wire.RootsLent):
            return


_FIRST_S = 1.0
"""Most jobs begin sooner, because what the service does by itself makes room for them."""

_BETWEEN_S = 5.0
_NAMED = 3

_DOING = {"scan": "scanning", "scrub": "scrubbing", "compare": "comparing"}


class WaitingNotice:
    """
    Say what a job waits for, once it has waited for a second, and again when that changes.

    Args:
        send: to the daemon, which has accepted the job.
    """

    def __init__(
        self,
        output: Output,
        send: Callable[[AskAhead], None],
        job: Job,
        *,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._output, self._send, self._job, self._monotonic = output, send, job, monotonic
        self._ask_at = monotonic() + _FIRST_S
        self._shown = ""

    def ask(self) -> None:
        """Ask the service what the job waits for, if it is time to; ``show`` takes the answer."""
        from integrity.service.control.wire import AskAhead

        if self._monotonic() >= self._ask_at:
            self._ask_at = self._monotonic() + _BETWEEN_S
            self._send(AskAhead())

    def show(self, ahead: Sequence[JobAhead]) -> None:
        """Say what goes before the job, unless that was said already."""
        text = describe_ahead(ahead)
        if ahead and text != self._shown:
            self._output.note(f"waiting: {text}")
            self._output.give("waiting", {"job": self._job.value, "ahead": ahead_objects(ahead)})
        self._shown = text


def describe_ahead(ahead: Sequence[JobAhead]) -> str:
    from integrity.words.text import local_time

    running = [
        f"{_DOING.get(one.job, one.job)} {_place(one)} (since {local_time(one.began_at)})"
        for one in ahead
        if one.began_at is not None
    ]
    waiting = [f"a {printable(one.job)} of {_place(one)}" for one in ahead if one.began_at is None]
    parts = [f"the service is {_list(running)}"] if running else []
    parts += [f"before this job comes {_list(waiting)}"] if waiting else []
    return "; ".join(parts)


def ahead_objects(ahead: Sequence[JobAhead]) -> list[JsonObject]:
    """Write what goes before a job; ``started_at`` is null for what waits as well."""
    return [
        {
            **path_fields("root", one.root),
            "job": one.job,
            "copy": one.copy or None,
            "started_at": None if one.began_at is None else iso_time(one.began_at),
        }
        for one in ahead
    ]


def _place(one: JobAhead) -> str:
    place = show_path(one.root) if one.root else "several folders"
    return f"{place} with {printable(one.copy)}" if one.copy else place


def _list(parts: Sequence[str]) -> str:
    more = len(parts) - _NAMED
    return ", ".join(parts[:_NAMED]) + (f" and {more:,} more" if more > 0 else "")
