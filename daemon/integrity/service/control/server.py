"""
Serve the control socket, through which commands submit jobs and query the service.

One thread serves all clients and blocks on none of them: a client that sends nothing, sends garbage, or does not read
disturbs neither the other clients nor a job. Anything that may wait for a disk runs in a thread per request. A job
or a lease ends with the client that waits for it; a job that was only queued goes on. ``users`` decides how much one
user may use; in each round, every user gets at most one answer.

Access control: the mode and group of the socket, and ``rights``. The service may read more than its clients, so
requests name roots and parts of them; only root and the service's own user may add a root.
"""

from __future__ import annotations

import errno
import logging
import math
import os
import selectors
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from itertools import count

from integrity import __version__
from integrity.errors import AppError, CatalogError, CatalogLocked, ConfigError, printable
from integrity.jobs.report import Note, Progress, Report, Summary
from integrity.jobs.targets import refuse_new
from integrity.model import Finding, Outcome, RunCounts
from integrity.service.control.client_connection import ClientConnection
from integrity.service.control.requests import (
    Act,
    ActDone,
    AskPicture,
    Done,
    Handler,
    JobRequest,
    RepairPlanned,
    Ticket,
    covers,
    interrupted,
    run_request,
)
from integrity.service.control.rights import require_right
from integrity.service.control.socket import Peer, default_socket_path, leave, listen
from integrity.service.control.users import User, Users
from integrity.service.control.wire import (
    AskAhead,
    AskCovered,
    AskState,
    Covered,
    Hello,
    JobAccepted,
    JobsAhead,
    LendRoots,
    Question,
    StopJob,
    Submit,
    WireError,
)
from integrity.service.log_backoff import RefusalLog
from integrity.service.states import BusyRoot, DaemonState, JobAhead, NextRun, QueuedJob, WatchState
from integrity.threads import DaemonThread

_DRAIN_S = 2.0
_ACCEPTS = 64
"""Connections accepted in a row before existing clients get their turn."""

_OUT_OF_DESCRIPTORS_S = 0.1
_log = logging.getLogger(__name__)


class ControlServer(DaemonThread):
    """
    The server of the control socket.

    Args:
        path: of the socket: ``default_socket_path()``.
        handler: handles the requests.
        catalog: the catalog that is served.
        sleep: waits, in seconds.
    """

    def __init__(
        self,
        path: bytes,
        handler: Handler,
        *,
        catalog: bytes,
        monotonic: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        super().__init__("control")
        self._path = os.path.abspath(path)
        self._handler = handler
        self._catalog = os.path.realpath(catalog)
        self._monotonic, self._sleep = monotonic, sleep
        self._users = Users()
        self._refusals = RefusalLog(monotonic)
        self._numbers = count()
        self._wake_lock = threading.Lock()  # request threads may outlive the server
        self._is_closed = False
        self._is_closing = False

    def start(self) -> None:
        """
        Open the socket and start serving.

        Raises:
            CatalogLocked: another daemon has the socket, or serves the catalog.
            ConfigError: the socket can't be made.
        """
        self._listener = listen(self._path, self._catalog)
        self._selector = selectors.DefaultSelector()
        self._wake_fd = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)
        self._selector.register(self._listener, selectors.EVENT_READ)
        self._selector.register(self._wake_fd, selectors.EVENT_READ)
        super().start()

    def close(self) -> None:
        """
        Stop serving. Clients get up to two seconds to read what is pending, and are then disconnected.

        Stop all jobs first. Must not be called from a handler's method.
        """
        self._is_closing = True
        self._wake()
        self.join()
        try:
            leave(self._path, self._catalog)  # still listening: keeps the socket of a daemon that starts now
        finally:
            self._listener.close()
            self._selector.close()
            with self._wake_lock:
                self._is_closed = True
                os.close(self._wake_fd)

    def _wake(self) -> None:
        with self._wake_lock:
            if not self._is_closed:
                os.eventfd_write(self._wake_fd, 1)

    def _run(self) -> None:
        while not self._is_closing:
            self._turn(self._wait_s())
        self._selector.unregister(self._listener)
        deadline = self._monotonic() + _DRAIN_S
        while any(one.wants_to_write for one in self._users.connections()) and self._monotonic() < deadline:
            self._turn(0.1)
        for connection in self._users.connections():
            self._drop(connection)

    def _wait_s(self) -> float | None:
        """Return the seconds until the next timed action; None if there is none."""
        moments = [user.resumes_at for user in self._users if user.next_to_answer() is not None]
        moments += [connection.idle_until for connection in self._users.connections()]
        soonest = min(moments, default=math.inf)
        return None if soonest == math.inf else max(0.0, soonest - self._monotonic())

    def _turn(self, timeout_s: float | None) -> None:
        """Wait for events, and handle them."""
        for key, events in self._selector.select(timeout_s):
            if key.fileobj is self._listener:
                self._accept_some()
            elif isinstance(key.fileobj, ClientConnection):
                self._attend(key.fileobj, events)
            else:
                os.eventfd_read(self._wake_fd)
        for user in self._users:
            if (connection := user.next_to_answer()) is not None and user.resumes_at <= self._monotonic():
                self._answer_next(user, connection)
        self._enforce_limits()
        for connection in self._users.connections():
            self._await_events(connection)

    def _accept_some(self) -> None:
        for _ in range(_ACCEPTS):
            try:
                connected, _ = self._listener.accept()
            except BlockingIOError:
                return
            except ConnectionError:
                continue  # the client disconnected
            except OSError as error:
                if error.errno not in (errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.ENOBUFS):
                    raise
                self._refusals.note(os.geteuid(), os.getpid(), f"a connection: {error.strerror}")
                spare = self._users.find_spare()
                for connection in spare:
                    self._drop(connection)
                if not spare:
                    self._sleep(_OUT_OF_DESCRIPTORS_S)  # the pending client would wake the selector at once
                return
            self._admit_client(
                ClientConnection(connected, self._wake, number=next(self._numbers), now=self._monotonic())
            )

    def _admit_client(self, connection: ClientConnection) -> None:
        """Accept a client, or send it the reason for a refusal."""
        user = self._users.get(connection.peer.uid)
        try:
            former = self._users.find_room(user)
        except CatalogLocked as error:
            self._refusals.note(user.uid, connection.peer.pid, "a connection: too many")
            connection.done(error)
            with suppress(EOFError):
                connection.write(self._monotonic())
            connection.close()
            return
        if former is not None:
            self._refuse(former, "its oldest connection: too many")
        user.connections[connection] = None

    def _await_events(self, connection: ClientConnection) -> None:
        """Register the events that a connection waits for."""
        wanted = selectors.EVENT_READ if connection.wants_to_read else 0
        wanted |= selectors.EVENT_WRITE if connection.wants_to_write else 0
        if wanted == connection.awaited:
            return
        if not connection.awaited:
            self._selector.register(connection, wanted)
        elif wanted:
            self._selector.modify(connection, wanted)
        else:
            self._selector.unregister(connection)  # or its hangup would be reported in a loop
        connection.awaited = wanted

    def _enforce_limits(self) -> None:
        """Disconnect the clients that do not read, are idle, or use too much memory together."""
        now = self._monotonic()
        for connection in self._users.connections():
            if connection.is_given_up:
                self._refuse(connection, "its answers: too many unread")
            elif connection.idle_until <= now:
                self._refuse(connection, "a connection: neither asks nor reads")
        for user in self._users:
            while (largest := user.find_over_limit()) is not None:
                self._refuse(largest, "a connection: too much memory")

    def _refuse(self, connection: ClientConnection, reason: str) -> None:
        self._refusals.note(connection.peer.uid, connection.peer.pid, reason)
        self._drop(connection)

    def _drop(self, connection: ClientConnection) -> None:
        if connection.awaited:
            self._selector.unregister(connection)
        del self._users.get(connection.peer.uid).connections[connection]
        connection.close()

    def _attend(self, connection: ClientConnection, events: int) -> None:
        """Read from one client and write to it."""
        if connection.is_given_up:
            return  # since this round began
        with self._guarding(connection):
            if events & selectors.EVENT_READ and connection.wants_to_read:
                connection.receive()
            if events & selectors.EVENT_WRITE and connection.wants_to_write:
                connection.write(self._monotonic())

    def _answer_next(self, user: User, connection: ClientConnection) -> None:
        """Greet a client, or answer its next question; then other users get their turn."""
        began, question = self._monotonic(), None
        with self._guarding(connection):
            if not connection.is_greeted:
                connection.is_greeted = True
                connection.give(Hello(__version__, os.getpid(), self._catalog))
            elif (question := connection.take_question(began)) is not None:
                self._answer(user, connection, question)
            if connection.wants_to_write:
                connection.write(began)
        user.answered(connection)
        now = self._monotonic()
        user.pause(now, now - began, is_request=isinstance(question, Submit | LendRoots | Act | AskPicture))

    @contextmanager
    def _guarding(self, connection: ClientConnection) -> Iterator[None]:
        """Confine any error to one client. Only the server's thread may raise ``EOFError``."""
        try:
            yield
        except EOFError:
            self._drop(connection)
        except WireError as error:
            self._refusals.note(connection.peer.uid, connection.peer.pid, "a line: not understood", str(error))
            connection.done(_explain(error))
        except AppError as error:
            connection.done(error)
        except Exception as error:  # noqa: BLE001 - the top of this thread: a bug must not make the daemon deaf
            _log.exception("control.bug pid=%d", connection.peer.pid)
            connection.done(AppError(f"this is a bug in the service: {type(error).__name__}; see its log"))

    def _answer(self, user: User, connection: ClientConnection, question: Question) -> None:
        self._require_right(user, connection, question)
        if isinstance(question, Submit | LendRoots | Act | AskPicture):
            self._submit(user, connection, question)
        elif isinstance(question, AskState):
            connection.give(self._handler.state())
        elif isinstance(question, AskAhead):
            connection.give(JobsAhead(connection.find_ahead()))
        elif isinstance(question, AskCovered):
            roots = frozenset(self._handler.roots())
            connection.give(Covered(tuple(path for path in question.paths if covers(roots, path))))
        else:
            assert isinstance(question, StopJob)
            self._stop(connection)

    def _require_right(self, user: User, connection: ClientConnection, question: Question) -> None:
        try:
            require_right(user.role, question, allows_actions=self._handler.allows_actions())
        except ConfigError:
            self._refusals.note(user.uid, connection.peer.pid, "a question: not allowed", type(question).__name__)
            raise

    def _stop(self, connection: ClientConnection) -> None:
        if connection.stop_job():
            _log.info("control.stop pid=%d uid=%d", connection.peer.pid, connection.peer.uid)

    def _submit(
        self, user: User, connection: ClientConnection, question: Submit | LendRoots | Act | AskPicture
    ) -> None:
        """Begin a request in a thread of its own: looking at its paths may wait for a disk, or for ever."""
        if connection.has_job:
            raise ConfigError("one job at a time on one connection")
        try:
            end = user.begin_request(connection.question_bytes)
        except CatalogLocked:
            self._refusals.note(user.uid, connection.peer.pid, "a request: too many")
            raise
        connection.is_awaited = isinstance(question, LendRoots) or (isinstance(question, Submit) and question.waits)
        connection.begin_job()
        if isinstance(question, Act):
            begin = partial(self._begin_act, connection, question, end)
        elif isinstance(question, AskPicture):
            begin = partial(self._show_picture, connection, question, end)
        else:
            begin = partial(self._begin_request, connection, question, user.is_trusted, end)
        threading.Thread(target=begin, name="request", daemon=True).start()

    def _begin_act(self, connection: ClientConnection, act: Act, end: Callable[[], None]) -> None:
        ticket, is_taken = None, False

        def answered(result: ActDone | RepairPlanned | AppError) -> None:
            end()
            connection.acted(result)

        try:
            with self._guarding(connection):
                peer, who = connection.peer, printable(act.actor.who)
                _log.info("control.act verb=%s who=%s pid=%d uid=%d", act.verb.value, who, peer.pid, peer.uid)
                ticket = self._handler.act(act, answered)
                is_taken = True
        finally:
            if not is_taken:
                end()
            connection.follow_job(ticket)

    def _show_picture(self, connection: ClientConnection, question: AskPicture, end: Callable[[], None]) -> None:
        try:
            with self._guarding(connection):
                connection.acted(self._handler.find_picture(question))
        finally:
            end()
            connection.follow_job(None)

    def _begin_request(
        self, connection: ClientConnection, question: Submit | LendRoots, may_add: bool, end: Callable[[], None]
    ) -> None:
        ticket = None
        try:
            with self._guarding(connection):
                if isinstance(question, LendRoots):
                    ticket = self._begin_lending(connection, question, may_add, end)
                else:
                    ticket = self._begin_job(connection, question, may_add, end)
                connection.give(JobAccepted(ticket.find_ahead()))
        finally:
            if ticket is None:
                end()
            connection.follow_job(ticket if connection.is_awaited else None)

    def _begin_job(
        self, connection: ClientConnection, question: Submit, may_add: bool, end: Callable[[], None]
    ) -> Ticket:
        report, done = (
            (connection, connection.done) if question.waits else (_UnattendedReport(), _UnattendedReport().done)
        )

        def ended(result: Summary | AppError) -> None:
            end()
            done(result)

        paths = self._admit(question.request.paths, may_add=may_add)
        request = question.request._replace(paths=paths, may_add_roots=may_add)
        _log_request(request, question, connection.peer)
        return self._handler.submit(request, report, ended)

    def _begin_lending(
        self, connection: ClientConnection, question: LendRoots, may_add: bool, end: Callable[[], None]
    ) -> Ticket:
        def returned(error: AppError | None) -> None:
            end()
            connection.returned(error)

        paths, peer = self._admit(question.paths, may_add=may_add), connection.peer
        _log.info("control.lend paths=%d pid=%d uid=%d gid=%d", len(paths), peer.pid, peer.uid, peer.gid)
        return self._handler.lend(paths, connection.lent, returned)

    def _admit(self, paths: Sequence[bytes], *, may_add: bool) -> tuple[bytes, ...]:
        """
        Look at paths as the service sees them, and refuse what who asks may not have it do.

        Raises:
            ConfigError: a folder would become a root, and the user is neither root nor the service's own user.
        """
        real_paths = tuple(os.path.realpath(path) for path in paths)
        roots = frozenset(self._handler.roots())
        for path in real_paths:
            if not may_add and not covers(roots, path):
                raise ConfigError(refuse_new(path))
        return real_paths


def _log_request(request: JobRequest, question: Submit, peer: Peer) -> None:
    _log.info(
        "control.submit job=%s paths=%d waits=%s pid=%d uid=%d gid=%d",
        request.job, len(request.paths), question.waits, peer.pid, peer.uid, peer.gid,
    )  # fmt: skip


def _explain(error: WireError) -> AppError:
    """Return the error for a client that is not understood; it may be ours, but newer than this daemon."""
    return CatalogError(
        f"the service does not understand the request ({error}); after an upgrade restart it: systemctl restart"
        " integrity"
    )


class _UnattendedReport:
    """Discard the reports of a job without a waiting client. The catalog keeps them, and alerts report them."""

    def progress(self, progress: Progress) -> None:
        """Ignore progress."""

    def finding(self, finding: Finding) -> None:
        """Ignore findings."""

    def note(self, note: Note) -> None:
        """Ignore notes."""

    def done(self, result: Summary | AppError) -> None:
        """Log an error, because nobody else would see it."""
        if isinstance(result, AppError):
            _log.error("control.failed: %s", result)


__all__ = [
    "BusyRoot",
    "ControlServer",
    "DaemonState",
    "Done",
    "Handler",
    "JobAhead",
    "JobRequest",
    "NextRun",
    "QueuedJob",
    "Ticket",
    "WatchState",
    "default_socket_path",
    "interrupted",
    "run_request",
]


_WORST_FIRST = (Outcome.FAILED, Outcome.INTERRUPTED, Outcome.FINDINGS, Outcome.INCOMPLETE, Outcome.CLEAN)


class Gathered:
    """
    Merge the reports and results of several works that answer one request.

    Args:
        count: number of works.
        report: gets the reports of all works.
        done: called once, with the combined result.
    """

    def __init__(self, count: int, report: Report, done: Done) -> None:
        self._left = count
        self._report = report
        self._done = done
        self._lock = threading.RLock()
        self._results: list[Summary | AppError] = []

    def progress(self, progress: Progress) -> None:
        """See Report."""
        with self._lock:
            self._report.progress(progress)

    def finding(self, finding: Finding) -> None:
        """See Report."""
        with self._lock:
            self._report.finding(finding)

    def note(self, note: Note) -> None:
        """See Report."""
        with self._lock:
            self._report.note(note)

    def take(self, result: Summary | AppError) -> None:
        """Record the result of one work. The last one ends the request."""
        with self._lock:
            self._results.append(result)
            self._left -= 1
            if self._left:
                return
        errors = [one for one in self._results if isinstance(one, AppError)]
        self._done(errors[0] if errors else _add_up([one for one in self._results if isinstance(one, Summary)]))


def _add_up(summaries: Sequence[Summary]) -> Summary:
    """Sum up runs that went on side by side."""
    counts = RunCounts()
    for summary in summaries:
        counts += summary.counts
    outcomes = {summary.outcome for summary in summaries}
    return summaries[0]._replace(
        counts=counts,
        started_at=min(summary.started_at for summary in summaries),
        finished_at=max(summary.finished_at for summary in summaries),
        outcome=next(outcome for outcome in _WORST_FIRST if outcome in outcomes),
        duration_s=max(summary.duration_s for summary in summaries),
        has_integrity_problem=any(summary.has_integrity_problem for summary in summaries),
        is_incomplete=any(summary.is_incomplete for summary in summaries),
    )
