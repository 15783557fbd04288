"""
Serve the control socket, through which commands submit jobs and query the service.

Each connection has a thread that reads its questions and answers them, and one that sends, so a client that sends
nothing, sends garbage, or names a path whose disk hangs disturbs neither the other clients nor a job. A job or a lease
ends with the client that waits for it; a job that was only queued goes on. ``users`` decides who may ask what, and how
much. The service may read more than its clients, so requests name roots and parts of them; only root and the service's
own user may add a root.

I1  Reporting to a client never blocks: a job would block with it.
I2  Findings, notes and the result are never dropped. Of progress, only the newest is kept.
I3  A client whose user leaves ``BUFFER_LIMIT`` bytes unread is disconnected. The connection ends before the summary, so
    the client can't mistake what it got for the whole result.
I4  Nothing more is read from a client while it leaves answers unread: the kernel's buffer fills and the client waits.
I5  A client without a job that neither asks nor reads for ``patience_s`` is disconnected.
"""

from __future__ import annotations

import errno
import logging
import os
import socket
import socket as sockets
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress

from integrity import __version__
from integrity.errors import AppError, CatalogError, CatalogLocked, ConfigError, printable
from integrity.jobs.picture_type import Picture
from integrity.jobs.report import Note, Progress, Summary
from integrity.jobs.targets import refuse_new
from integrity.model import Finding
from integrity.service.control.requests import Act, ActDone, AskPicture, Handler, RepairPlanned, Ticket, covers
from integrity.service.control.socket import Peer, leave, listen, peer_of, set_patience
from integrity.service.control.users import User, find_role, require_right
from integrity.service.control.wire import (
    REQUEST_LIMIT,
    Answer,
    AskAhead,
    AskCovered,
    AskState,
    Covered,
    Hello,
    JobAccepted,
    JobsAhead,
    LendRoots,
    Question,
    RootsLent,
    RootsReturned,
    StopJob,
    Submit,
    WireError,
    decode_question,
    encode,
    to_failure,
)
from integrity.service.log_backoff import RefusalLog
from integrity.threads import DaemonThread

_CHUNK_BYTES = 1 << 16
IDLE = "a connection: neither asks nor reads"
_UNREAD_BYTES = 1 << 18
"""With this much unread, no more questions are read until the client reads."""


class ClientConnection(DaemonThread):
    """
    One client, and the thread that sends to it. It is a ``jobs.report.Report``.

    ``read_line`` and ``close`` belong to the thread that answers; any thread may call everything else at any time, also
    when the client has gone.

    Args:
        connected: from ``accept``; closed with this object.

    Attributes:
        ticket: of the job or lease, once it is accepted.
        is_awaited: it ends with the connection.
        is_stopped: the client asked to stop it.
        refusal: why the connection was given up; empty: it was not.
    """

    def __init__(self, connected: socket.socket, peer: Peer, user: User, patience_s: float) -> None:
        super().__init__("control-send")
        set_patience(connected, patience_s)
        self.peer, self.user = peer, user
        self.ticket: Ticket | None = None
        self.is_awaited = False
        self.is_stopped = False
        self.refusal = ""
        self._socket = connected
        self._patience_s = patience_s
        self._received = bytearray()
        self._changed = threading.Condition()  # guards the fields below
        self._waiting: deque[bytes] = deque()
        self._unread_bytes = 0
        self._progress: Progress | None = None
        self._is_ending = False

    def progress(self, progress: Progress) -> None:
        """Send progress, unless newer progress arrives before the client reads it."""
        with self._changed:
            self._progress = progress
            self._changed.notify_all()

    def finding(self, finding: Finding) -> None:
        self.give(finding)

    def note(self, note: Note) -> None:
        self.give(note)

    def done(self, result: Summary | ActDone | RepairPlanned | Picture | AppError) -> None:
        """Send the result of a request, then end the connection."""
        self.give(to_failure(result) if isinstance(result, AppError) else result, is_last=True)

    def lent(self) -> None:
        self.give(RootsLent())

    def returned(self, error: AppError | None) -> None:
        """Tell that the roots are not lent any more, or why they can't be; then end the connection."""
        self.give(RootsReturned() if error is None else to_failure(error), is_last=True)

    def give(self, answer: Answer, *, is_last: bool = False) -> None:
        """Queue an answer. Nothing is queued after the last answer."""
        line = encode(answer)
        with self._changed:
            if self._is_ending:
                return
            self._is_ending = is_last
            self._waiting.append(line)
            self._count(len(line))
            self._changed.notify_all()

    def finish(self) -> None:
        """End the connection when all answers were sent."""
        with self._changed:
            self._is_ending = True
            self._changed.notify_all()

    def give_up(self, reason: str = "") -> None:
        """End the connection now, without the answers that were not sent. ``reason``: for the log."""
        with self._changed:
            self._give_up(reason)

    @property
    def is_ending(self) -> bool:
        """Return whether the last answer was queued. Later input is ignored."""
        with self._changed:
            return self._is_ending

    def read_line(self) -> bytes:
        """
        Wait for the next question.

        Raises:
            EOFError: the connection has ended.
            WireError: the line is too long.
        """
        with self._changed:
            self._changed.wait_for(lambda: self._is_ending or self._unread_bytes <= _UNREAD_BYTES)
        searched, until = 0, time.monotonic() + self._patience_s
        while (end := self._received.find(b"\n", searched)) < 0:
            searched = len(self._received)
            if searched > REQUEST_LIMIT:
                raise WireError(f"a line of more than {REQUEST_LIMIT} bytes")
            self._receive()
            if self.ticket is None and time.monotonic() >= until:
                self.give_up(IDLE)
        line = bytes(self._received[:end])
        del self._received[: end + 1]
        return line

    def close(self) -> None:
        """Send the last answer if there is one, close the connection, and cancel the job that the client waited for."""
        if not self.is_ending:
            self.give_up()
        self.join()
        if self.ticket is not None and self.is_awaited:
            self.ticket.cancel()
        self._socket.close()

    def _receive(self) -> None:
        """Read available data, up to one chunk; nothing if none comes in time."""
        began = time.thread_time()
        try:
            data = self._socket.recv(_CHUNK_BYTES)
        except BlockingIOError:
            return
        except ConnectionError as error:
            raise EOFError from error
        if not data:
            raise EOFError
        self._received += data
        self.user.pause(time.thread_time() - began)

    def _give_up(self, reason: str = "") -> None:
        self.refusal = self.refusal or reason
        self._is_ending = True
        self._waiting.clear()
        self._progress = None
        with suppress(OSError):  # it is not connected any more
            self._socket.shutdown(socket.SHUT_RDWR)  # ends calls that wait for the client
        self._changed.notify_all()

    def _run(self) -> None:
        """Send what is queued, until the last answer; then both threads end."""
        while (line := self._take_next()) and self._send_line(line):
            pass
        with self._changed:
            self._give_up()
            self.user.hold(-self._unread_bytes)
            self._unread_bytes = 0

    def _take_next(self) -> bytes:
        """Wait for what is to be sent next; empty: nothing any more."""
        with self._changed:
            self._changed.wait_for(lambda: self._waiting or self._progress or self._is_ending)
            if self._waiting:
                return self._waiting.popleft()
            if self._is_ending or self._progress is None:
                return b""
            line, self._progress = encode(self._progress), None
            self._count(len(line))
            return line

    def _send_line(self, line: bytes) -> bool:
        """Send a line. Return False if the client has gone, or does not read."""
        left = memoryview(line)
        while left:
            try:
                left = left[self._socket.send(left) :]
            except BlockingIOError:  # for ``patience_s``
                if self.ticket is None:
                    self.give_up(IDLE)
                    return False
            except OSError:
                return False
        with self._changed:
            self._count(-len(line))
            self._changed.notify_all()
        return True

    def _count(self, size_bytes: int) -> None:
        self._unread_bytes += size_bytes
        if not self.user.hold(size_bytes) and size_bytes > 0:
            self._give_up("its answers: too many unread")


_DRAIN_S = 2.0
_PATIENCE_S = 30.0
"""For a client without a job that neither asks nor reads; commands ask at once."""

_CONNECTION_S = 0.001
"""CPU time that a connection costs besides its questions; a user who connects in a loop waits for it as well."""

_OUT_OF_DESCRIPTORS_S = 0.1
_log = logging.getLogger(__name__)


class ControlServer(DaemonThread):
    """The server of the control socket; its own thread accepts connections."""

    def __init__(self, path: bytes, handler: Handler, *, catalog: bytes, patience_s: float = _PATIENCE_S) -> None:
        super().__init__("control")
        self._path = os.path.abspath(path)
        self._handler = handler
        self._catalog = os.path.realpath(catalog)
        self._patience_s = patience_s
        self._uid = os.geteuid()
        self._users: dict[int, User] = {}  # as many as can open the socket
        self._refusals = RefusalLog(time.monotonic)
        self._lock = threading.Lock()  # guards the fields below
        self._threads: dict[threading.Thread, ClientConnection] = {}
        self._is_closing = False

    def start(self) -> None:
        """
        Open the socket and start serving.

        Raises:
            CatalogLocked: another daemon has the socket, or serves the catalog.
            ConfigError: the socket can't be made.
        """
        self._listener = listen(self._path, self._catalog)
        super().start()

    def close(self) -> None:
        """
        Stop serving. Clients get up to two seconds to read what is pending, and are then disconnected.

        Stop all jobs first. Must not be called from a handler's method.
        """
        with self._lock:
            self._is_closing = True
            threads = dict(self._threads)
        for connection in threads.values():
            connection.finish()
        deadline = time.monotonic() + _DRAIN_S
        for thread, connection in threads.items():
            thread.join(max(0.0, deadline - time.monotonic()))
            connection.give_up()
        try:
            leave(self._path, self._catalog)  # still listening: keeps the socket of a daemon that starts now
        finally:
            self._listener.shutdown(sockets.SHUT_RDWR)  # ends ``accept``
            self.join()
            self._listener.close()

    def _run(self) -> None:
        while True:
            try:
                connected, _ = self._listener.accept()
            except ConnectionError:
                continue  # the client disconnected
            except OSError as error:
                if self._is_closing:
                    return
                if error.errno not in (errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.ENOBUFS):
                    raise
                self._refusals.note(self._uid, os.getpid(), f"a connection: {error.strerror}")
                with self._lock:
                    spare = [one for one in self._threads.values() if one.ticket is None]
                for connection in spare:
                    connection.give_up()
                time.sleep(_OUT_OF_DESCRIPTORS_S)  # until they have ended; the pending client would be next at once
                continue
            self._admit_client(connected)

    def _admit_client(self, connected: sockets.socket) -> None:
        """Serve a client in a thread of its own, or send it the reason for a refusal."""
        peer = peer_of(connected)
        user = self._users.get(peer.uid) or self._users.setdefault(peer.uid, User(find_role(peer.uid, self._uid)))
        try:
            user.connect()
        except CatalogLocked as error:
            self._refusals.note(peer.uid, peer.pid, "a connection: too many")
            with connected, suppress(OSError):
                connected.send(encode(to_failure(error)), sockets.MSG_DONTWAIT)
            return
        connection = ClientConnection(connected, peer, user, self._patience_s)
        thread = threading.Thread(target=self._serve, args=(connection,), name="control-client", daemon=True)
        with self._lock:
            if self._is_closing:
                connection.finish()
            try:
                thread.start()
            except RuntimeError as error:  # no more threads
                self._refusals.note(self._uid, os.getpid(), f"a connection: {error}")
                connection.close()
                user.disconnect()
            else:
                self._threads[thread] = connection

    def _serve(self, connection: ClientConnection) -> None:
        """Answer the questions of a client until the connection ends."""
        peer, user = connection.peer, connection.user
        try:
            connection.start()
            connection.give(Hello(__version__, os.getpid(), self._catalog))
            while not connection.is_ending:
                began = time.thread_time()
                is_request = self._answer_next(connection)
                user.pause(time.thread_time() - began, is_request=is_request)
        except EOFError:
            pass
        finally:
            connection.close()
            user.pause(_CONNECTION_S)
            user.disconnect()
            with self._lock:
                del self._threads[threading.current_thread()]
        if connection.refusal:
            self._refusals.note(peer.uid, peer.pid, connection.refusal)

    def _answer_next(self, connection: ClientConnection) -> bool:
        """
        Answer the next question; an error is told and ends the connection. Return whether it was a request.

        Raises:
            EOFError: the connection has ended.
        """
        question: Question | None = None
        peer = connection.peer
        try:
            line = connection.read_line()
            question = decode_question(line)
            self._answer(connection, question, len(line))
        except WireError as error:
            self._refusals.note(peer.uid, peer.pid, "a line: not understood", str(error))
            connection.done(_explain(error))
        except AppError as error:
            connection.done(error)
        except EOFError:
            raise
        except Exception as error:  # noqa: BLE001 - the top of this thread: a bug is told to the client as well
            _log.exception("control.bug pid=%d", peer.pid)
            connection.done(AppError(f"this is a bug in the service: {type(error).__name__}; see its log"))
        return isinstance(question, Submit | LendRoots | Act | AskPicture)

    def _answer(self, connection: ClientConnection, question: Question, size_bytes: int) -> None:
        self._require_right(connection, question)
        if isinstance(question, AskState):
            connection.give(self._handler.state())
        elif isinstance(question, AskAhead):
            ticket = connection.ticket
            connection.give(JobsAhead(() if ticket is None else ticket.find_ahead()))
        elif isinstance(question, AskCovered):
            roots = frozenset(self._handler.roots())
            connection.give(Covered(tuple(path for path in question.paths if covers(roots, path))))
        elif isinstance(question, StopJob):
            if connection.ticket is not None and not connection.is_stopped:
                connection.is_stopped = True
                _log.info("control.stop pid=%d uid=%d", connection.peer.pid, connection.peer.uid)
                connection.ticket.cancel()
        else:
            self._begin(connection, question, size_bytes)

    def _require_right(self, connection: ClientConnection, question: Question) -> None:
        try:
            require_right(connection.user.role, question, allows_actions=self._handler.allows_actions())
        except ConfigError:
            peer = connection.peer
            self._refusals.note(peer.uid, peer.pid, "a question: not allowed", type(question).__name__)
            raise

    def _begin(
        self, connection: ClientConnection, question: Submit | LendRoots | Act | AskPicture, size_bytes: int
    ) -> None:
        """Begin a request; looking at its paths may wait for a disk, or for ever."""
        if connection.ticket is not None:
            raise ConfigError("one job at a time on one connection")
        try:
            end = connection.user.begin_request(size_bytes)
        except CatalogLocked:
            self._refusals.note(connection.peer.uid, connection.peer.pid, "a request: too many")
            raise
        try:
            ticket = self._hand_over(connection, question, end)
        except BaseException:  # it was not begun
            end()
            raise
        if ticket is not None and isinstance(question, Submit | LendRoots):
            connection.give(JobAccepted(ticket.find_ahead()))
            connection.is_awaited = isinstance(question, LendRoots) or question.waits
            connection.ticket = ticket if connection.is_awaited else None
        else:
            connection.ticket = ticket

    def _hand_over(
        self, connection: ClientConnection, question: Submit | LendRoots | Act | AskPicture, end: Callable[[], None]
    ) -> Ticket | None:
        if isinstance(question, Submit):
            return self._begin_job(connection, question, end)
        if isinstance(question, LendRoots):
            return self._begin_lending(connection, question, end)
        if isinstance(question, Act):
            return self._begin_act(connection, question, end)
        connection.done(self._handler.find_picture(question))
        end()
        return None

    def _begin_act(self, connection: ClientConnection, act: Act, end: Callable[[], None]) -> Ticket | None:
        def answered(result: ActDone | RepairPlanned | AppError) -> None:
            end()
            connection.done(result)

        peer, who = connection.peer, printable(act.actor.who)
        _log.info("control.act verb=%s who=%s pid=%d uid=%d", act.verb.value, who, peer.pid, peer.uid)
        return self._handler.act(act, answered)

    def _begin_job(self, connection: ClientConnection, question: Submit, end: Callable[[], None]) -> Ticket:
        report = connection if question.waits else _UnattendedReport()

        def ended(result: Summary | AppError) -> None:
            end()
            report.done(result)

        request, peer, may_add = question.request, connection.peer, connection.user.is_trusted
        request = request._replace(paths=self._admit(request.paths, may_add=may_add), may_add_roots=may_add)
        _log.info(
            "control.submit job=%s paths=%d waits=%s pid=%d uid=%d gid=%d",
            request.job, len(request.paths), question.waits, peer.pid, peer.uid, peer.gid,
        )  # fmt: skip
        return self._handler.submit(request, report, ended)

    def _begin_lending(self, connection: ClientConnection, question: LendRoots, end: Callable[[], None]) -> Ticket:
        def returned(error: AppError | None) -> None:
            end()
            connection.returned(error)

        paths, peer = self._admit(question.paths, may_add=connection.user.is_trusted), connection.peer
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
