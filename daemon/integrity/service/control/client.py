"""Talk to the daemon that serves a catalog, as commands and pages do."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Sequence
from types import TracebackType
from typing import TYPE_CHECKING, TypeVar

from integrity import program
from integrity.config.places import default_catalog_path, default_runtime_folder
from integrity.errors import CatalogError, ConfigError, show_path
from integrity.paths import shell_path
from integrity.service.control.socket import SOCKET_NAME, SYSTEM_SOCKET, connect, find_linked_socket, peer_of

if TYPE_CHECKING:
    import socket

    from integrity.jobs.picture_type import Picture
    from integrity.model import Actor
    from integrity.service.control.requests import Act, ActDone, AskPicture, JobRequest, RepairPlanned
    from integrity.service.control.wire import Answer, JobAccepted, Question
    from integrity.service.states import DaemonState


Expected = TypeVar("Expected")
GREETING_S = 10.0
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
        from integrity.service.control.wire import Hello

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
        from integrity.service.control.wire import Submit, WireError, check

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
        from integrity.service.control.wire import JobAccepted

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
        from integrity.service.control.requests import ActDone, RepairPlanned
        from integrity.service.control.wire import Failure, WireError, check_act, to_error

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
        from integrity.jobs.picture_type import Picture

        self.send(question)
        return self._receive(Picture, patience_s)

    def plan_repair(self, actor: Actor, path: bytes, patience_s: float = ACT_S) -> RepairPlanned:
        """Ask what a repair of a file would do; as ``act``."""
        from integrity.service.control.requests import Act, ActVerb, RepairPlanned

        planned = self.act(Act(ActVerb.PLAN_REPAIR, actor, path=path), patience_s)
        if not isinstance(planned, RepairPlanned):
            raise self._silence()
        return planned

    def send(self, question: Question) -> None:
        """Send a question; if the daemon has gone, ``receive`` says so, after what it said last."""
        from integrity.service.control.wire import REQUEST_LIMIT, encode

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
        from integrity.service.control.wire import ANSWER_LIMIT, WireError, decode_answer

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
        from integrity.service.control.wire import AskState
        from integrity.service.states import DaemonState

        self.send(AskState())
        return self._receive(DaemonState, patience_s)

    def find_covered(self, paths: Sequence[bytes], patience_s: float = GREETING_S) -> frozenset[bytes]:
        """
        Ask which of these real paths lie in its roots.

        Raises:
            CatalogError: it does not say so in that time.
        """
        from integrity.service.control.wire import AskCovered, Covered

        self.send(AskCovered(tuple(paths)))
        return frozenset(self._receive(Covered, patience_s).paths)

    def _receive(self, kind: type[Expected], patience_s: float) -> Expected:
        """Take the next answer, which must be of this kind."""
        from integrity.service.control.wire import Failure, to_error

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


def greet(path: bytes, catalog: bytes | None, patience_s: float) -> DaemonClient | None:
    """
    Connect to a daemon; None if there is none, or it is not to be believed, or serves another catalog.

    Args:
        path: of its socket.
        catalog: that it must serve; None for any.
        patience_s: how long it may take to answer.
    """
    try:
        connection = connect(path, timeout_s=max(1, int(patience_s / 2)))
    except PermissionError as error:
        raise CatalogError(_say_denied(path)) from error
    except OSError as error:
        raise CatalogError(f"{show_path(path)}: the service can't be asked: {error.strerror or error}") from error
    if connection is None:
        return None
    if not _is_believed(connection, path, catalog):
        connection.close()
        return None
    daemon = DaemonClient(connection, patience_s=patience_s)
    if catalog in (None, daemon.catalog):
        return daemon
    with daemon:
        return None


def _is_believed(connection: socket.socket, path: bytes, catalog: bytes | None) -> bool:
    """Say whether who listens may speak for the catalog: anybody can lay a socket into a folder that is open to all."""
    believed = {0, os.geteuid()}
    if catalog is not None and os.path.exists(catalog):
        believed.add(os.stat(catalog).st_uid)
    return path == SYSTEM_SOCKET or peer_of(connection).uid in believed


def _say_denied(path: bytes) -> str:
    try:
        group = _name_group(os.stat(path).st_gid)
    except OSError:
        group = "integrity"
    return (
        f"{show_path(path)}: a service watches here, and this user may not ask it; join its group"
        f" (sudo usermod -aG {group} $USER, then log in again), or use sudo. To have a catalog"
        " of your own, name it once, for folders that the service does not watch:"
        f" {program.find_program()} --catalog {shell_path(default_catalog_path())} scan FOLDER"
    )


def _name_group(gid: int) -> str:
    import grp

    try:
        return grp.getgrgid(gid).gr_name
    except KeyError:
        return str(gid)


def find_daemon_of(catalog: bytes, *, patience_s: float = GREETING_S) -> DaemonClient | None:
    """
    Find the daemon of a catalog: the link beside the catalog tells, or it is this user's own.

    Args:
        catalog: real path.
        patience_s: how long each that may be it is waited for.

    Returns:
        It, to be closed; None if there is none.

    Raises:
        CatalogError: there is one, and this user may not reach it, or it does not answer.
    """
    linked = find_linked_socket(catalog)
    if linked is not None:
        daemon = greet(linked, catalog, patience_s)
        if daemon is not None:
            return daemon
    own = default_runtime_folder() + b"/" + SOCKET_NAME
    if own not in (linked, SYSTEM_SOCKET):
        with contextlib.suppress(CatalogError):  # what does not let its own user in serves another catalog
            return greet(own, catalog, patience_s)
    return None
