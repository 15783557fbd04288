"""
The daemon's ear: a unix socket through which commands hand their jobs over and ask what is going on.

One thread serves all clients and waits for none of them: a client that sends nothing, garbage, or does not read what it
is told, disturbs neither the others nor a job. A job goes on when the client that waits for it has gone: only ``stop``
cancels it. What is lent to a client comes back when it has gone.

Who may: whoever can open the socket, which its mode and its group decide. All that comes is the names of roots and of
parts of them, as the service may read more than who asks: only root and the service's own user make a new root.
"""

from __future__ import annotations

import errno
import logging
import os
import selectors
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace

from integrity import __version__
from integrity.errors import AppError, CatalogError, ConfigError
from integrity.jobs.report import Note, Progress, Summary
from integrity.jobs.targets import refuse_new
from integrity.model import Finding, Job
from integrity.service.connection import Connection
from integrity.service.requests import Cancel, Done, Handler, Request, covers, interrupted, run_request
from integrity.service.sockets import Peer, default_socket_path, leave, listen
from integrity.service.states import BusyRoot, DaemonState, NextRun, QueuedJob, WatchState
from integrity.service.wire import (
    Accepted,
    AskState,
    Hello,
    Question,
    Stop,
    Submit,
    WireError,
    decode_question,
)

MOST_CONNECTIONS = 200
_DRAIN_S = 2.0
_OUT_OF_DESCRIPTORS_S = 0.1
_log = logging.getLogger(__name__)


class ControlServer:
    """
    The server of the control socket.

    Args:
        path: of the socket: ``default_socket_path()``.
        handler: does what is asked for.
        catalog: the catalog that is served.
        monotonic: seconds, for the time that clients are given at the end.
        sleep: waits so many seconds.
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
        self._path = os.path.abspath(path)
        self._handler = handler
        self._catalog = os.path.realpath(catalog)
        self._monotonic, self._sleep = monotonic, sleep
        self._connections: dict[Connection, int] = {}  # with the events that are waited for; oldest first
        self._thread = threading.Thread(target=self._serve, name="control", daemon=True)
        self._is_closing = False

    def start(self) -> None:
        """
        Open the socket and begin to serve.

        Raises:
            CatalogLocked: another daemon has the socket, or serves the catalog.
            ConfigError: the socket can't be made.
        """
        self._listener = listen(self._path, self._catalog)
        self._selector = selectors.DefaultSelector()
        self._wake_fd = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)
        self._selector.register(self._listener, selectors.EVENT_READ)
        self._selector.register(self._wake_fd, selectors.EVENT_READ)
        self._thread.start()

    def close(self) -> None:
        """
        Stop serving. Clients whose jobs have ended are given two seconds to read how; the others see the end of it.

        Jobs are to be stopped before. May be called from any thread but the handler's calls.
        """
        self._is_closing = True
        self._wake()
        self._thread.join()
        try:
            leave(self._path, self._catalog)  # while it still listens: a daemon that starts now must not be mistaken
        finally:
            self._listener.close()
            self._selector.close()
            os.close(self._wake_fd)

    def _wake(self) -> None:
        os.eventfd_write(self._wake_fd, 1)

    def _serve(self) -> None:
        while not self._is_closing:
            self._turn(None)
        self._selector.unregister(self._listener)
        deadline = self._monotonic() + _DRAIN_S
        while any(one.wants_to_write for one in self._connections) and self._monotonic() < deadline:
            self._turn(0.1)
        for connection in list(self._connections):
            self._drop(connection)

    def _turn(self, timeout_s: float | None) -> None:
        """Wait until something happens, and see to it."""
        for key, events in self._selector.select(timeout_s):
            if key.fileobj is self._listener:
                self._accept()
            elif isinstance(key.fileobj, Connection):
                self._attend(key.fileobj, events)
            else:
                os.eventfd_read(self._wake_fd)
        for connection, events in list(self._connections.items()):
            if connection.is_given_up:
                self._drop(connection)
                continue
            reading = 0 if connection.is_ending else selectors.EVENT_READ
            wanted = reading | (selectors.EVENT_WRITE if connection.wants_to_write else 0)
            if wanted != events:
                self._selector.modify(connection, wanted)
                self._connections[connection] = wanted

    def _accept(self) -> None:
        try:
            connected, _ = self._listener.accept()
        except (BlockingIOError, ConnectionError):
            return  # it went away again
        except OSError as error:
            if error.errno not in (errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.ENOBUFS):
                raise
            _log.warning("control.accept error=%s", error.strerror)
            self._make_room(keep=0)
            self._sleep(_OUT_OF_DESCRIPTORS_S)  # who wants in is still there: do not ask again and again meanwhile
            return
        self._make_room(keep=MOST_CONNECTIONS - 1)
        if len(self._connections) >= MOST_CONNECTIONS:
            connected.close()
            return
        connection = Connection(connected, self._wake)
        self._connections[connection] = selectors.EVENT_READ
        self._selector.register(connection, selectors.EVENT_READ)
        with self._guarding(connection):
            connection.give(Hello(__version__, os.getpid(), self._catalog, self._handler.roots()))

    def _make_room(self, keep: int) -> None:
        """Give up the clients that have asked for nothing for longest, until no more than ``keep`` are left of all."""
        for connection in list(self._connections):
            if len(self._connections) <= keep:
                return
            if not connection.has_job or connection.is_ending:
                self._drop(connection)

    def _drop(self, connection: Connection) -> None:
        self._selector.unregister(connection)
        del self._connections[connection]
        connection.close()

    def _attend(self, connection: Connection, events: int) -> None:
        """Read from one client and write to it."""
        if connection not in self._connections:
            return  # given up in this very turn
        with self._guarding(connection):
            if events & selectors.EVENT_READ and not connection.is_ending:
                for line in connection.read_lines():
                    self._answer(connection, decode_question(line))
            if connection.wants_to_write:
                connection.write()

    @contextmanager
    def _guarding(self, connection: Connection) -> Iterator[None]:
        """Whatever goes wrong with one client ends it alone."""
        try:
            yield
        except EOFError:
            self._drop(connection)
        except AppError as error:
            connection.done(_explain(connection.peer, error))
        except Exception as error:  # noqa: BLE001 - the top of this thread: a bug must not make the daemon deaf
            _log.exception("control.bug pid=%d", connection.peer.pid)
            connection.done(AppError(f"this is a bug in the service: {type(error).__name__}; see its log"))

    def _answer(self, connection: Connection, question: Question) -> None:
        if isinstance(question, Submit):
            self._submit(connection, question)
        elif isinstance(question, AskState):
            connection.give(self._handler.state())
        elif connection.cancel is not None:
            assert isinstance(question, Stop)
            _log.info("control.stop pid=%d uid=%d", connection.peer.pid, connection.peer.uid)
            connection.cancel()

    def _submit(self, connection: Connection, question: Submit) -> None:
        if connection.has_job:
            raise ConfigError("one job at a time on one connection")
        peer = connection.peer
        request = self._admit(question.request, peer)
        _log.info(
            "control.submit job=%s paths=%d waits=%s pid=%d uid=%d gid=%d",
            request.job, len(request.paths), question.waits, peer.pid, peer.uid, peer.gid,
        )  # fmt: skip
        if request.job is Job.COMPARE and not (question.waits and request.paths):
            raise ConfigError("roots can be left to a command only while it waits, and by name")
        if question.waits:
            connection.is_borrower = request.job is Job.COMPARE
            connection.cancel = self._handler.submit(request, connection, connection.done)
        else:
            self._handler.submit(request, _Unheard(), _Unheard().done)
        connection.give(Accepted())

    def _admit(self, request: Request, peer: Peer) -> Request:
        """
        Look at the paths as the service sees them, and refuse what who asks may not have it do.

        Raises:
            ConfigError: a folder would become a root, and who asks is neither root nor the service's own user.
        """
        may_add = peer.uid in (0, os.geteuid())
        paths = tuple(os.path.realpath(path) for path in request.paths)
        roots = () if may_add else self._handler.roots()
        for path in paths:
            if not may_add and not covers(roots, path):
                raise ConfigError(refuse_new(path))
        return replace(request, paths=paths, may_add_roots=may_add)


def _explain(peer: Peer, error: AppError) -> AppError:
    """Say what a client that is not understood can do: it may be one of ours, and newer than this daemon."""
    if not isinstance(error, WireError):
        return error
    _log.warning("control.garbage pid=%d uid=%d: %s", peer.pid, peer.uid, error)
    return CatalogError(
        f"the service does not understand the request ({error}); after an upgrade restart it: systemctl restart"
        " integrity"
    )


class _Unheard:
    """Takes what a job tells that nobody waits for; the catalog keeps it, and alerts tell it."""

    def progress(self, progress: Progress) -> None:
        """Let it go."""

    def finding(self, finding: Finding) -> None:
        """Let it go."""

    def note(self, note: Note) -> None:
        """Let it go."""

    def done(self, result: Summary | AppError) -> None:
        """Leave what went wrong in the log: nobody else would know."""
        if isinstance(result, AppError):
            _log.error("control.failed: %s", result)


__all__ = [
    "BusyRoot",
    "Cancel",
    "ControlServer",
    "DaemonState",
    "Done",
    "Handler",
    "NextRun",
    "QueuedJob",
    "Request",
    "WatchState",
    "default_socket_path",
    "interrupted",
    "run_request",
]
