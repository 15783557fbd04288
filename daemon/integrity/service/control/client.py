"""Talk to the daemon that serves a catalog, as commands and pages do."""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Sequence
from types import TracebackType
from typing import TypeVar

from integrity import program
from integrity.errors import CatalogError, ConfigError
from integrity.jobs.picture_type import Picture
from integrity.service.control.requests import Act, ActDone, AskPicture, JobRequest, RepairPlanned
from integrity.service.control.socket import GREETING_S, peer_of
from integrity.service.control.wire import (
    ANSWER_LIMIT,
    REQUEST_LIMIT,
    Answer,
    AskCovered,
    AskState,
    Covered,
    DaemonState,
    Failure,
    Hello,
    JobAccepted,
    Question,
    Submit,
    WireError,
    check,
    check_act,
    decode_answer,
    encode,
    to_error,
)

Expected = TypeVar("Expected")
ACT_S = 600.0

_CHUNK_BYTES = 1 << 18


class DaemonClient:
    """
    A connection to a daemon that has greeted; to be closed, or used as a context manager.

    Args:
        connection: connected; belongs to this from now on.
        patience_s: how long its greeting may take.

    Raises:
        CatalogError: it does not greet, or not in words that are understood here.
    """

    def __init__(self, connection: socket.socket, *, patience_s: float = GREETING_S) -> None:
        self._connection = connection
        self._received = bytearray()
        self.pid = peer_of(connection).pid
        try:
            hello = self._receive(Hello, patience_s)
        except BaseException:  # whatever it is, the descriptor must not stay open
            connection.close()
            raise
        self.catalog = hello.catalog

    def __enter__(self) -> DaemonClient:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._connection.close()

    def submit(self, request: JobRequest, *, waits: bool) -> None:
        """
        Ask for a job.

        Raises:
            ConfigError: it can't be handed over.
        """
        try:
            check(request)
        except WireError as error:
            raise ConfigError(f"the service, which serves this catalog, can't be asked for that: {error}") from error
        self.send(Submit(request, waits))

    def queue(self, request: JobRequest) -> JobAccepted:
        """
        Ask for a job, and do not wait for its end.

        Raises:
            AppError: it is refused, or there is no answer.
        """
        self.submit(request, waits=False)
        return self._receive(JobAccepted, GREETING_S)

    def act(self, act: Act, patience_s: float = ACT_S) -> ActDone | RepairPlanned:
        """
        Have something done that a person decided, and wait for the answer, which ends the connection.

        Args:
            patience_s: how long it may take; a repair waits for its disk, and reads and writes the file.

        Raises:
            ConfigError: it is refused, or its arguments are invalid.
            AppError: it failed, or there was no answer in that time; it may still be done then.
        """
        try:
            check_act(act)
        except WireError as error:
            raise ConfigError(f"the service can't be asked for that: {error}") from error
        self.send(act)
        answer = self.receive(patience_s)
        if isinstance(answer, Failure):
            raise to_error(answer)
        if isinstance(answer, ActDone | RepairPlanned):
            return answer
        raise self._silence()

    def ask_picture(self, question: AskPicture, patience_s: float) -> Picture:
        """
        Ask for one side of a finding, which ends the connection.

        Raises:
            AppError: it can't be shown, or did not come in that time.
        """
        self.send(question)
        return self._receive(Picture, patience_s)

    def send(self, question: Question) -> None:
        """Send a question; if the daemon has gone, ``receive`` says so, after what it said last."""
        line = encode(question)
        if len(line) > REQUEST_LIMIT:
            raise ConfigError("too many PATHs to be handed to the service at once; name fewer")
        self._connection.settimeout(GREETING_S)
        with contextlib.suppress(ConnectionError):
            self._connection.sendall(line)

    def receive(self, timeout_s: float) -> Answer | None:
        """
        Take the next answer; None if none came in that time.

        Raises:
            CatalogError: the daemon has gone, or speaks otherwise.
        """
        self._connection.settimeout(timeout_s)
        begin = 0
        while (end := self._received.find(b"\n", begin)) < 0:
            begin = len(self._received)
            try:
                data = self._connection.recv(_CHUNK_BYTES)
            except TimeoutError:
                return None
            except ConnectionError:
                data = b""
            if not data or begin > ANSWER_LIMIT:
                raise CatalogError(
                    f"{self._name()} ended the connection before the job had ended; what was done is kept. See why"
                    f" (journalctl -u integrity), and what is open with: {program.command('status')}"
                )
            self._received += data
        line = bytes(self._received[:end])
        del self._received[: end + 1]
        try:
            return decode_answer(line)
        except WireError as error:
            raise CatalogError(
                f"{self._name()} is of another version than this command ({error}); restart it: systemctl restart"
                " integrity"
            ) from error

    def ask_state(self, patience_s: float) -> DaemonState:
        """
        Ask what it is doing.

        Raises:
            CatalogError: it does not say so in that time.
        """
        self.send(AskState())
        return self._receive(DaemonState, patience_s)

    def find_covered(self, paths: Sequence[bytes], patience_s: float = GREETING_S) -> frozenset[bytes]:
        """
        Ask which of these real paths lie in its roots.

        Raises:
            CatalogError: it does not say so in that time.
        """
        self.send(AskCovered(tuple(paths)))
        return frozenset(self._receive(Covered, patience_s).paths)

    def _receive(self, kind: type[Expected], patience_s: float) -> Expected:
        """Take the next answer, which must be of this kind."""
        answer = self.receive(patience_s)
        if isinstance(answer, Failure):
            raise to_error(answer)
        if not isinstance(answer, kind):
            raise self._silence()
        return answer

    def _silence(self) -> CatalogError:
        return CatalogError(f"{self._name()} does not answer; see whether it is well, or stop it")

    def _name(self) -> str:
        return f"the service (process {self.pid})"
