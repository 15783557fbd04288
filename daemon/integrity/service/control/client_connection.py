"""
Exchange lines with one client of the control socket: its thread reads, another one sends.

I1  Reporting to a client never blocks: a job would block with it.
I2  Findings, notes and the result are never dropped. Of progress, only the newest is kept.
I3  A client whose user leaves ``BUFFER_LIMIT`` bytes unread is disconnected. The connection ends before the summary, so
    the client can't mistake what it got for the whole result.
I4  Nothing more is read from a client while it leaves answers unread: the kernel's buffer fills and the client waits.
I5  A client without a job that neither asks nor reads for ``patience_s`` is disconnected.
"""

from __future__ import annotations

import socket
import threading
import time
from collections import deque
from contextlib import suppress

from integrity.errors import AppError
from integrity.jobs.picture_type import Picture
from integrity.jobs.report import Note, Progress, Summary
from integrity.model import Finding
from integrity.service.control.requests import ActDone, RepairPlanned, Ticket
from integrity.service.control.socket import Peer, set_patience
from integrity.service.control.users import User
from integrity.service.control.wire import (
    REQUEST_LIMIT,
    Answer,
    RootsLent,
    RootsReturned,
    WireError,
    encode,
    to_failure,
)
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
        peer: who it is.
        user: whose limits hold.
        patience_s: how long a client without a job may neither ask nor read.

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
        """Send a finding."""
        self.give(finding)

    def note(self, note: Note) -> None:
        """Send a note."""
        self.give(note)

    def done(self, result: Summary | ActDone | RepairPlanned | Picture | AppError) -> None:
        """Send the result of a request, then end the connection."""
        self.give(to_failure(result) if isinstance(result, AppError) else result, is_last=True)

    def lent(self) -> None:
        """Tell that the roots are lent."""
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
        """Count bytes that the client has yet to read; negative when they were sent."""
        self._unread_bytes += size_bytes
        if not self.user.hold(size_bytes) and size_bytes > 0:
            self._give_up("its answers: too many unread")
