"""
Have the service leave a root alone while a command works on it itself, with what only its user has: keys, an agent.

What the service does there makes room at once, and goes on when the command has ended, however it ends.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING

from integrity.cli.daemon_client import Daemon, find_daemon
from integrity.cli.output import Output
from integrity.cli.session import Session
from integrity.cli.waiting import WaitingNotice
from integrity.errors import CatalogError
from integrity.jobs.report import Progress, Summary
from integrity.model import Job
from integrity.service.control.requests import LEASED, Request

if TYPE_CHECKING:
    from integrity.jobs.context import Context

_GLANCE_S = 0.1


@contextmanager
def borrowing(session: Session, paths: Sequence[bytes], context: Context) -> Iterator[None]:
    """
    Borrow what lies at paths from the service of this catalog, if there is one, as long as the context lasts.

    Args:
        session: of this call.
        paths: real ones.
        context: of the job; once it is asked to stop nothing is waited for.

    Raises:
        CatalogError: there is a service, and it can't be asked.
    """
    with ExitStack() as stack:
        for path in dict.fromkeys(paths):
            daemon = find_daemon(session, (path,))
            if daemon is not None:
                with ExitStack() as until_known:
                    until_known.enter_context(daemon)
                    if daemon.find_covered((path,)):
                        _borrow(session.output, daemon, path, context)
                        stack.push(until_known.pop_all())
        yield


def _borrow(output: Output, daemon: Daemon, path: bytes, context: Context) -> None:
    """Wait until the service has made room; it works there again when the connection ends."""
    from integrity.service.control import wire

    daemon.submit(Request(Job.COMPARE, (path,)), waits=True)
    context.report.progress(Progress(Job.COMPARE, path, "waits for the service", 0, None, 0, None))
    notice = WaitingNotice(output, daemon, Job.COMPARE)
    while not context.stop.is_set():
        notice.ask()
        answer = daemon.receive(_GLANCE_S)
        if isinstance(answer, wire.Failure):
            raise wire.to_error(answer)
        if isinstance(answer, Summary):
            raise CatalogError(f"the service (process {daemon.pid}) is about to end; try again in a moment")
        if isinstance(answer, wire.Ahead):
            notice.show(answer.jobs)
        if isinstance(answer, Progress) and answer.phase == LEASED:
            return
