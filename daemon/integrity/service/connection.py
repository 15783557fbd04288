"""
One client of the control socket: what it sends, cut into lines, and what waits to be sent to it.

I1  Telling a client never waits: the job's disk would wait with it.
I2  Findings, notes and the end are never left out. Of progress only the newest is kept.
I3  A client that does not read while ``BACKLOG_LIMIT`` bytes wait for it is given up: it sees the connection end before
    the summary, so it can't take what it got for all there was.
"""

from __future__ import annotations

import logging
import socket
import threading
from collections import deque
from collections.abc import Callable, Iterator

from integrity.errors import AppError
from integrity.jobs.report import Note, Progress, Summary
from integrity.model import Finding
from integrity.service.requests import Cancel
from integrity.service.sockets import Peer, peer_of
from integrity.service.wire import ANSWER_LIMIT, REQUEST_LIMIT, Answer, WireError, encode, to_failure

BACKLOG_LIMIT = ANSWER_LIMIT

_CHUNK_BYTES = 1 << 16
_log = logging.getLogger(__name__)


class Connection:
    """
    One client. It is a ``jobs.report.Report``.

    ``progress``, ``finding``, ``note``, ``done`` and ``give`` may be called from any thread and at any time, also when
    the client has gone; everything else belongs to the server's thread.

    Args:
        connected: from ``accept``; closed with this.
        wake: has the server's thread look at ``wants_to_write`` again; called from any thread.

    Attributes:
        peer: who it is.
        cancel: stops the job that it waits for; None while there is none.
        is_borrower: its job is only that something is left to it, and ends with it.
    """

    def __init__(self, connected: socket.socket, wake: Callable[[], None]) -> None:
        connected.setblocking(False)
        self._socket = connected
        self._wake = wake
        self.peer: Peer = peer_of(connected)
        self.cancel: Cancel | None = None
        self.is_borrower = False
        self._received = bytearray()
        self._sending = memoryview(b"")
        self._lock = threading.Lock()  # of what follows
        self._waiting: deque[bytes] = deque()
        self._waiting_bytes = 0
        self._progress: Progress | None = None
        self._is_ending = False
        self._is_closed = False

    def fileno(self) -> int:
        """Return the descriptor, for a selector."""
        return self._socket.fileno()

    def progress(self, progress: Progress) -> None:
        """Tell how far the job is, unless something newer comes before the client reads it."""
        with self._lock:
            if not (self._is_ending or self._is_closed):
                self._progress = progress
                self._wake()

    def finding(self, finding: Finding) -> None:
        """Tell a finding."""
        self.give(finding)

    def note(self, note: Note) -> None:
        """Tell a note."""
        self.give(note)

    def done(self, result: Summary | AppError) -> None:
        """Tell how the job ended; then the connection ends as well."""
        self.give(result if isinstance(result, Summary) else to_failure(result), is_last=True)

    def give(self, answer: Answer, *, is_last: bool = False) -> None:
        """Tell anything. Behind the last answer nothing is told any more."""
        line = encode(answer)
        with self._lock:
            if self._is_ending or self._is_closed:
                return
            self._waiting.append(line)
            self._waiting_bytes += len(line)
            self._is_ending = is_last
            if self._waiting_bytes > BACKLOG_LIMIT:
                _log.warning("control.given_up pid=%d waiting_bytes=%d", self.peer.pid, self._waiting_bytes)
                self._give_up()
            self._wake()

    @property
    def wants_to_write(self) -> bool:
        """Say whether anything waits to be sent, or the end."""
        with self._lock:
            return bool(self._sending or self._waiting or self._progress or self._is_ending)

    @property
    def is_ending(self) -> bool:
        """Say whether the last answer was given: what the client sends now is not looked at."""
        with self._lock:
            return self._is_ending

    @property
    def is_given_up(self) -> bool:
        """Say whether there is no way to tell the client the rest."""
        with self._lock:
            return self._is_closed

    @property
    def has_job(self) -> bool:
        """Say whether the client waits for a job."""
        return self.cancel is not None

    def read_lines(self) -> Iterator[bytes]:
        """
        Read what has come, and give each whole line.

        Raises:
            EOFError: the client has gone.
            WireError: a line is too long.
        """
        try:
            data = self._socket.recv(_CHUNK_BYTES)
        except BlockingIOError:
            return
        except ConnectionError as error:
            raise EOFError from error
        if not data:
            raise EOFError
        self._received += data
        *lines, rest = self._received.split(b"\n")
        self._received = rest
        if max(map(len, (*lines, rest))) > REQUEST_LIMIT:
            raise WireError(f"a line of more than {REQUEST_LIMIT} bytes")
        yield from map(bytes, lines)

    def write(self) -> None:
        """
        Send as much as the client takes.

        Raises:
            EOFError: the client has gone, or was given up, or all of it is sent and it was the end.
        """
        try:
            while self._take_next():
                self._sending = self._sending[self._socket.send(self._sending) :]
        except BlockingIOError:
            return
        except ConnectionError as error:
            raise EOFError from error

    def close(self) -> None:
        """End the connection; its job goes on, unless it is a borrower's. May be called twice."""
        if self.is_borrower and self.cancel is not None:
            self.cancel()
        with self._lock:
            self._give_up()
        self._socket.close()

    def _give_up(self) -> None:
        """Let go of what waits, and of what is still to come."""
        self._is_closed = True
        self._waiting.clear()
        self._progress = None

    def _take_next(self) -> bool:
        """Make sure that there is something to send; False if nothing waits."""
        with self._lock:
            if self._sending:
                return True
            progress = None
            if self._waiting:
                line = self._waiting.popleft()
                self._waiting_bytes -= len(line)
                self._sending = memoryview(line)
                return True
            if self._is_ending:
                raise EOFError
            progress, self._progress = self._progress, None
        if progress is not None:
            self._sending = memoryview(encode(progress))
        return progress is not None
