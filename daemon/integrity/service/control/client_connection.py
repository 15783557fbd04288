"""
Buffer the lines from and to one client of the control socket.

I1  Sending to a client never blocks: a job would block with it.
I2  Findings, notes and the result are never dropped. Of progress, only the newest is kept.
I3  A client that leaves ``BUFFER_LIMIT`` bytes unread is disconnected. The connection ends before the summary, so the
    client can't mistake what it got for the whole result.
I4  While a client's line awaits its answer, nothing more is read from it: the kernel's buffer fills and the client
    waits.
"""

from __future__ import annotations

import math
import socket
import threading
from collections import deque
from collections.abc import Callable

from integrity.errors import AppError
from integrity.jobs.picture_type import Picture
from integrity.jobs.report import Note, Progress, Summary
from integrity.model import Finding
from integrity.service.control.requests import ActDone, RepairPlanned, Ticket
from integrity.service.control.socket import Peer, peer_of
from integrity.service.control.wire import (
    BUFFER_LIMIT,
    REQUEST_LIMIT,
    Answer,
    Question,
    RootsLent,
    RootsReturned,
    StopJob,
    WireError,
    decode_question,
    encode,
    to_failure,
)
from integrity.service.states import JobAhead

_CHUNK_BYTES = 1 << 16
_UNREAD_BYTES = 1 << 18
"""With this much unread, only ``stop`` is accepted until the client reads."""

_SENDS = 16
"""Chunks sent to one client before others get their turn."""

_IDLE_S = 30.0
"""A client without a job that neither asks nor reads for this long is disconnected; commands ask at once."""


class ClientConnection:
    """
    One client. It is a ``jobs.report.Report``.

    ``give`` and the methods that tell one thing may be called from any thread and at any time, also when
    the client has gone; everything else belongs to the server's thread.

    Args:
        connected: from ``accept``; closed with this object.
        wake: makes the server's thread check the connection again; called from any thread.
        number: of the connection, counted from the server's start.
        now: on the monotonic clock.

    Attributes:
        peer: who it is.
        is_awaited: its job, or lease, ends with it.
        is_greeted: the greeting was given.
        question_bytes: the length of the line of the question that was taken last.
        awaited: the events for which the selector waits now; 0: it is not registered there.
    """

    def __init__(self, connected: socket.socket, wake: Callable[[], None], *, number: int, now: float) -> None:
        connected.setblocking(False)
        self._socket = connected
        self._wake = wake
        self.peer: Peer = peer_of(connected)
        self.number = number
        self.is_awaited = False
        self.is_greeted = False
        self.question_bytes = 0
        self.awaited = 0
        self._received = bytearray()
        self._searched = 0  # this many received bytes contain no line end
        self._has_line = False
        self._question: Question | None = None  # decoded, but held back until the client reads
        self._active_at = now
        self._sending = memoryview(b"")
        self._lock = threading.Lock()  # guards the fields below
        self._waiting: deque[bytes] = deque()
        self._waiting_bytes = 0
        self._progress: Progress | None = None
        self._ticket: Ticket | None = None
        self._is_submitting = False
        self._is_stopped = False
        self._is_ending = False
        self._is_closed = False

    def fileno(self) -> int:
        """Return the descriptor, for a selector."""
        return self._socket.fileno()

    def progress(self, progress: Progress) -> None:
        """Send progress, unless newer progress arrives before the client reads it."""
        with self._lock:
            if not (self._is_ending or self._is_closed):
                self._progress = progress
                self._wake()

    def finding(self, finding: Finding) -> None:
        """Send a finding."""
        self.give(finding)

    def note(self, note: Note) -> None:
        """Send a note."""
        self.give(note)

    def done(self, result: Summary | AppError) -> None:
        """Send the job's result, then close the connection."""
        self.give(result if isinstance(result, Summary) else to_failure(result), is_last=True)

    def acted(self, result: ActDone | RepairPlanned | Picture | AppError) -> None:
        """Send what came of an act, or a picture, then close the connection."""
        self.give(to_failure(result) if isinstance(result, AppError) else result, is_last=True)

    def lent(self) -> None:
        """Tell that the roots are lent."""
        self.give(RootsLent())

    def returned(self, error: AppError | None) -> None:
        """Tell that the roots are not lent any more, or why they can't be; then the connection ends as well."""
        self.give(RootsReturned() if error is None else to_failure(error), is_last=True)

    def give(self, answer: Answer, *, is_last: bool = False) -> None:
        """Queue an answer. Nothing is queued after the last answer."""
        line = encode(answer)
        with self._lock:
            if self._is_ending or self._is_closed:
                return
            self._waiting.append(line)
            self._waiting_bytes += len(line)
            self._is_ending = is_last
            if self._waiting_bytes > BUFFER_LIMIT:
                self._give_up()
            self._wake()

    @property
    def wants_to_write(self) -> bool:
        """Return whether data or the end of the connection is pending."""
        with self._lock:
            return bool(self._sending or self._waiting or self._progress or self._is_ending)

    @property
    def is_ending(self) -> bool:
        """Return whether the last answer was queued. Later input is ignored."""
        with self._lock:
            return self._is_ending

    @property
    def is_given_up(self) -> bool:
        """Return whether the connection was given up, with its remaining answers."""
        with self._lock:
            return self._is_closed

    @property
    def has_job(self) -> bool:
        """Return whether the client waits for a job."""
        with self._lock:
            return self._is_submitting or self._ticket is not None

    @property
    def buffered_bytes(self) -> int:
        """Return the size of the client's buffers."""
        with self._lock:
            return len(self._received) + len(self._sending) + self._waiting_bytes

    @property
    def wants_to_read(self) -> bool:
        """Return whether to read more: not while a question awaits its answer, nor after the last answer."""
        with self._lock:
            is_open = not (self._is_ending or self._is_closed or self._is_submitting)
        return is_open and not self._has_line and self._question is None

    @property
    def has_question(self) -> bool:
        """Return whether the client waits for an answer that can be given now."""
        with self._lock:
            if self._is_ending or self._is_closed or self._is_submitting:
                return False
            is_blocked = self._question is not None and self._waiting_bytes > _UNREAD_BYTES
        return not self.is_greeted or (not is_blocked and (self._has_line or self._question is not None))

    @property
    def idle_until(self) -> float:
        """Return when an idle client is disconnected, on the monotonic clock."""
        return math.inf if self.has_job else self._active_at + _IDLE_S

    def receive(self) -> None:
        """
        Read available data, up to one chunk.

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
        self._find_line()

    def take_question(self, now: float) -> Question | None:
        """
        Return the next question; None if the client must first read earlier answers.

        Raises:
            WireError: the line is not a valid question.
        """
        if self._question is None:
            end = self._searched
            line = bytes(self._received[:end])
            del self._received[: end + 1]
            self._searched, self._has_line = 0, False
            self._find_line()
            self._active_at = now
            self.question_bytes = len(line)
            self._question = decode_question(line)
        with self._lock:
            if not isinstance(self._question, StopJob) and self._waiting_bytes > _UNREAD_BYTES:
                return None
        question, self._question = self._question, None
        return question

    def begin_job(self) -> None:
        """Record that the client has submitted a job. Nothing is read from it until ``follow_job``."""
        with self._lock:
            self._is_submitting = True

    def follow_job(self, ticket: Ticket | None) -> None:
        """Record the submitted job; None if there is none, or nobody waits for it. Any thread may call this."""
        with self._lock:
            self._is_submitting, self._ticket = False, ticket
            is_lost = self._is_closed and self.is_awaited
        if is_lost and ticket is not None:
            ticket.cancel()
        self._wake()

    def find_ahead(self) -> tuple[JobAhead, ...]:
        """Return the jobs before the client's job; nothing if it has none, or its job has started."""
        with self._lock:
            ticket = self._ticket
        return () if ticket is None else ticket.find_ahead()

    def stop_job(self) -> bool:
        """Cancel the job. Return False if there is none, or it was cancelled before."""
        with self._lock:
            ticket, is_new = self._ticket, not self._is_stopped
            self._is_stopped = ticket is not None
        if ticket is None or not is_new:
            return False
        ticket.cancel()
        return True

    def write(self, now: float) -> None:
        """
        Send what the client accepts, up to a limit that leaves time for others.

        Raises:
            EOFError: the client has gone, or the last answer was sent.
        """
        try:
            for _ in range(_SENDS):
                if not self._take_next():
                    return
                self._sending = self._sending[self._socket.send(self._sending) :]
                self._active_at = now
        except BlockingIOError:
            return
        except ConnectionError as error:
            raise EOFError from error

    def close(self) -> None:
        """Close the connection, and cancel the job or lease that the client waited for. May be called twice."""
        with self._lock:
            self._give_up()
            ticket = self._ticket if self.is_awaited else None
        if ticket is not None:
            ticket.cancel()
        self._socket.close()

    def _find_line(self) -> None:
        """Search the new data for a line end."""
        end = self._received.find(b"\n", self._searched)
        self._has_line = end >= 0
        self._searched = end if self._has_line else len(self._received)
        if self._searched > REQUEST_LIMIT:
            raise WireError(f"a line of more than {REQUEST_LIMIT} bytes")

    def _give_up(self) -> None:
        """Drop pending and future answers."""
        self._is_closed = True
        self._waiting.clear()
        self._waiting_bytes = 0
        self._progress = None

    def _take_next(self) -> bool:
        """Prepare the next data to send. Return False if nothing is pending."""
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
