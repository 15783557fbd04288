"""The control socket with real jobs behind it: who is heard, who is not, and that nobody holds up anybody."""

from __future__ import annotations

import json
import os
import queue
import socket
import stat
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

import pytest

from integrity.catalog.own_files import compile_own_names
from integrity.errors import AppError, CatalogError, CatalogLocked, ConfigError
from integrity.jobs.report import Note, Progress, Report, Summary
from integrity.model import Finding, FindingId, FindingKind, FindingState, Job, Outcome
from integrity.service.control.client import DaemonClient
from integrity.service.control.requests import JobRequest, covers
from integrity.service.control.server import ControlServer
from integrity.service.control.socket import connect, default_socket_path, find_linked_socket, listen
from integrity.service.control.users import TRUSTED
from integrity.service.control.wire import (
    BUFFER_LIMIT,
    REQUEST_LIMIT,
    Answer,
    AskAhead,
    AskCovered,
    AskState,
    DaemonState,
    Failure,
    JobAccepted,
    JobsAhead,
    LendRoots,
    RootsLent,
    RootsReturned,
    StopJob,
    Submit,
    encode,
)
from support.cli import Box
from support.daemons import SmallDaemon
from support.planted import plant
from support.privileges import NOBODY, as_nobody, let_in
from support.waiting import wait_until

pytestmark = pytest.mark.files(20)

_TIMEOUT_S = 120.0


@contextmanager
def asking(daemon: SmallDaemon) -> Iterator[DaemonClient]:
    """Connect to a daemon and be greeted."""
    connected = connect(daemon.path)
    assert connected is not None
    with DaemonClient(connected) as client:
        yield client


def receive(client: DaemonClient) -> Answer:
    """Wait for the next answer."""
    answer = client.receive(_TIMEOUT_S)
    assert answer is not None
    return answer


def follow(client: DaemonClient, request: JobRequest) -> list[Answer]:
    """Ask for a job and return all that is told of it, progress aside."""
    client.send(Submit(request, waits=True))
    return rest(client)


def rest(client: DaemonClient) -> list[Answer]:
    """Return what is told until the end of a job, progress aside."""
    answers: list[Answer] = []
    while not (answers and isinstance(answers[-1], Summary | Failure)):
        answer = receive(client)
        if not isinstance(answer, Progress):
            answers.append(answer)
    return answers


def scan_of(*roots: Path) -> JobRequest:
    """Ask for a scan."""
    return JobRequest(Job.SCAN, tuple(bytes(one) for one in roots))


def make_finding(number: int, *, size: int = 0) -> Finding:
    """Make a finding whose message has about ``size`` bytes."""
    message = f"finding {number} " + "x" * size
    return Finding(FindingId(number), FindingKind.ROT, FindingState.OPEN, b"/srv", b"odd\xff", message, 1, 2)


class Unheard:
    """A report that nobody hears."""

    def progress(self, progress: Progress) -> None:
        """Let it go."""

    def finding(self, finding: Finding) -> None:
        """Let it go."""

    def note(self, note: Note) -> None:
        """Let it go."""


def flood(count: int, size: int) -> Callable[[Report], None]:
    """Return what tells many findings, and progress with each of them."""

    def tell(report: Report) -> None:
        for number in range(count):
            report.finding(make_finding(number, size=size))
            report.progress(Progress(Job.SCAN, b"/srv", "record", number, None, 0, None))

    return tell


def test_job_is_told_from_greeting_to_summary(integrity: Box, root: Path) -> None:
    """The greeting names the catalog; the job is the real one; then the connection ends."""
    with SmallDaemon(integrity) as daemon, asking(daemon) as client:
        assert bytes(integrity.catalog) == client.catalog
        *_, summary = follow(client, scan_of(root))
        assert isinstance(summary, Summary)
        assert (Outcome.CLEAN, 20) == (summary.outcome, summary.counts.new)
        with pytest.raises(CatalogError, match="ended the connection"):
            receive(client)
    assert [scan_of(root)] == daemon.asked


def test_state_is_told_while_a_job_runs(integrity: Box, root: Path) -> None:
    """Any number of questions is answered on one connection, and a job holds up no answer."""
    with SmallDaemon(integrity) as daemon, asking(daemon) as worker, asking(daemon) as client:
        client.send(AskState())
        assert isinstance(idle := receive(client), DaemonState)
        daemon.gate.clear()
        worker.send(Submit(scan_of(root), waits=True))
        wait_until(lambda: bool(daemon.state().busy), "the job to begin")
        client.send(AskState())
        assert daemon.state() == receive(client)
        daemon.gate.set()
        rest(worker)
    assert () == idle.busy


def test_stop_ends_a_job_that_waits(integrity: Box, root: Path) -> None:
    """A job that is asked to stop before its turn ends with its summary, as one that has begun."""
    with SmallDaemon(integrity) as daemon, asking(daemon) as first, asking(daemon) as client:
        daemon.gate.clear()
        first.send(Submit(scan_of(root), waits=True))
        wait_until(lambda: len(daemon.asked) == 1, "the first job")
        client.send(Submit(scan_of(root), waits=True))
        client.send(StopJob())
        wait_until(lambda: len(daemon.asked) == 2, "the job to be queued")
        client.send(AskState())
        while not isinstance(receive(client), DaemonState):
            pass
        daemon.gate.set()
        *_, summary = rest(client)
    assert isinstance(summary, Summary)
    assert Outcome.INTERRUPTED is summary.outcome


def test_what_was_lent_comes_back_with_the_end_of_the_client(integrity: Box, root: Path) -> None:
    """Told to stop, or gone: nobody else would give it back. All other jobs are no way to be lent a root."""
    request = JobRequest(Job.COMPARE, (bytes(root),))
    with SmallDaemon(integrity) as daemon:
        for number, leaves in enumerate((True, False)):
            with asking(daemon) as client:
                client.send(LendRoots((bytes(root),)))
                assert {RootsLent(), JobAccepted(())} == {receive(client), receive(client)}
                assert not daemon.is_stopped(number)
                if not leaves:
                    client.send(StopJob())
                    assert RootsReturned() == receive(client)
                    with pytest.raises(CatalogError, match="ended the connection"):
                        client.receive(_TIMEOUT_S)
            wait_until(lambda number=number: daemon.ended == number + 1, "the end of it")  # type: ignore[misc]
        for waits in (True, False):
            with asking(daemon) as client:
                client.send(Submit(request, waits=waits))
                assert isinstance(receive(client), Failure)
    assert [bytes(root)] * 2 == daemon.lent
    assert [] == daemon.asked


def test_root_is_lent_in_its_turn(integrity: Box, root: Path) -> None:
    """Behind a job that was asked for before; whoever waits can ask for what, and a withdrawn request is never lent."""
    with SmallDaemon(integrity) as daemon, asking(daemon) as worker, asking(daemon) as borrower:
        daemon.gate.clear()
        worker.send(Submit(scan_of(root), waits=True))
        wait_until(lambda: bool(daemon.state().busy), "the job to begin")
        borrower.send(LendRoots((bytes(root),)))
        accepted = receive(borrower)
        assert isinstance(accepted, JobAccepted)
        assert ["scan"] == [one.job for one in accepted.ahead]
        borrower.send(AskAhead())
        assert JobsAhead(accepted.ahead) == receive(borrower)
        borrower.send(LendRoots((bytes(root),)))
        failure = receive(borrower)
        assert isinstance(failure, Failure)
        assert "one job at a time" in failure.message
        daemon.gate.set()
        wait_until(lambda: daemon.ended == 2, "both to end", timeout_s=_TIMEOUT_S)
    assert daemon.is_stopped(1)


def test_second_job_on_a_busy_connection_is_refused(integrity: Box, root: Path) -> None:
    """One connection waits for one job."""
    with SmallDaemon(integrity) as daemon, asking(daemon) as client:
        daemon.gate.clear()
        client.send(Submit(scan_of(root), waits=True))
        client.send(Submit(scan_of(root), waits=True))
        answers = rest(client)
    assert [JobAccepted(()), Failure("ConfigError", "one job at a time on one connection")] == answers


@pytest.mark.parametrize(
    "garbage",
    [b"\n", b"GET / HTTP/1.1\r\n\r\n", b"[" * 100_000 + b"\n", b"x" * (REQUEST_LIMIT + 2), os.urandom(5000) + b"\n"],
    ids=["empty", "http", "nested", "endless", "random"],
)
def test_garbage_ends_one_connection(integrity: Box, root: Path, garbage: bytes) -> None:
    """What is no request is answered with an error and the end; others are served on."""
    with SmallDaemon(integrity) as daemon, asking(daemon) as other:
        connected = connect(daemon.path)
        assert connected is not None
        with DaemonClient(connected) as client:
            assert isinstance(_send(connected, garbage) or receive(client), Failure)
            with pytest.raises(CatalogError, match="ended the connection"):
                receive(client)
        assert isinstance(follow(other, scan_of(root))[-1], Summary)


def _send(connected: socket.socket, data: bytes) -> None:
    connected.settimeout(_TIMEOUT_S)
    with suppress(ConnectionError):  # it may be refused before it is all sent
        connected.sendall(data)


@pytest.mark.root
def test_silent_clients_hold_up_nobody(integrity: Box, root: Path) -> None:
    """As many as one user may have connect and say nothing: others are served, the user is told why, and later also."""
    with SmallDaemon(integrity, patience_s=5.0) as daemon, ExitStack() as stack:
        for _ in range(TRUSTED.connections):
            connected = connect(daemon.path)
            assert connected is not None
            stack.enter_context(connected)
        with pytest.raises(CatalogLocked, match="as many commands wait for the service as it takes"):
            stack.enter_context(asking(daemon))
        let_in(Path(os.fsdecode(daemon.path)).parent)
        os.chmod(daemon.path, 0o666)
        with as_nobody():
            other = connect(daemon.path)
        assert other is not None
        with DaemonClient(other) as client:
            assert frozenset() == client.find_covered((bytes(root),))
        wait_until(lambda: is_served(daemon), "silent clients to be given up", timeout_s=_TIMEOUT_S)


def is_served(daemon: SmallDaemon) -> bool:
    """Say whether one more connection is greeted."""
    with suppress(CatalogLocked), asking(daemon):
        return True
    return False


def test_request_in_pieces_is_understood(integrity: Box, root: Path) -> None:
    """Lines are what counts, not how they were cut on the way."""
    with SmallDaemon(integrity) as daemon:
        connected = connect(daemon.path)
        assert connected is not None
        with DaemonClient(connected) as client:
            for byte in encode(AskState()) + encode(Submit(scan_of(root), waits=True)):
                connected.sendall(bytes([byte]))
            assert isinstance(receive(client), DaemonState)
            assert isinstance(rest(client)[-1], Summary)


def test_slow_reader_holds_up_no_job_and_misses_no_finding(integrity: Box, root: Path) -> None:
    """I1, I2: the job ends while its client reads nothing; then all findings are there, and little of the progress."""
    count = 5000
    with SmallDaemon(integrity, before=flood(count, 500)) as daemon, asking(daemon) as client:
        client.send(Submit(scan_of(root), waits=True))
        wait_until(lambda: daemon.ended == 1, "the job to end", timeout_s=_TIMEOUT_S)
        answers: list[Answer] = []
        while not (answers and isinstance(answers[-1], Summary)):
            answers.append(receive(client))
    assert [make_finding(number, size=500) for number in range(count)] == [
        one for one in answers if isinstance(one, Finding)
    ]
    assert sum(isinstance(one, Progress) for one in answers) < count / 10


def test_client_that_never_reads_is_given_up(integrity: Box, root: Path) -> None:
    """I3: the daemon's memory is not filled by what nobody reads; the client does not see a summary."""
    with SmallDaemon(integrity, before=flood(12, BUFFER_LIMIT // 8)) as daemon, asking(daemon) as client:
        client.send(Submit(scan_of(root), waits=True))
        wait_until(lambda: daemon.ended == 1, "the job to end", timeout_s=_TIMEOUT_S)
        with pytest.raises(CatalogError, match="ended the connection"):
            rest(client)


def test_finding_of_a_large_file_arrives(integrity: Box, root: Path) -> None:
    """A finding that names 300,000 blocks is longer than a request may be, and arrives."""
    blocks = tuple(range(100_000, 400_000))
    large = make_finding(1)._replace(blocks=blocks, block_size_bytes=1 << 20)
    with SmallDaemon(integrity, before=lambda report: report.finding(large)) as daemon, asking(daemon) as client:
        assert large in follow(client, scan_of(root))


def test_socket_is_for_the_group(integrity: Box) -> None:
    """Owner and group may ask, others may not; what is left after the end is nothing."""
    with SmallDaemon(integrity) as daemon:
        assert 0o660 == stat.S_IMODE(os.stat(daemon.path).st_mode)
        assert daemon.path == find_linked_socket(bytes(integrity.catalog))
        with asking(daemon) as client:
            assert os.getpid() == client.pid
    assert not os.path.lexists(daemon.path)
    assert find_linked_socket(bytes(integrity.catalog)) is None
    assert connect(daemon.path) is None


def test_second_daemon_is_refused(integrity: Box, tmp_path: Path) -> None:
    """Neither the same socket nor, by another socket, the same catalog is taken from a daemon that lives."""
    words = rf"another daemon runs already \(process {os.getpid()}\)"
    with SmallDaemon(integrity) as daemon:
        other = tmp_path / "other"
        for path, catalog in ((daemon.path, bytes(other)), (bytes(other / "sock"), bytes(integrity.catalog))):
            with pytest.raises(CatalogLocked, match=words):
                ControlServer(path, daemon, catalog=catalog).start()
        with asking(daemon) as client:
            assert bytes(integrity.catalog) == client.catalog


def test_file_in_the_place_of_the_socket_is_left_alone(integrity: Box, tmp_path: Path) -> None:
    """Only a socket is ever removed."""
    path = tmp_path / "control.sock"
    path.write_bytes(b"precious")
    with pytest.raises(ConfigError, match="is not a socket; move it away"):
        listen(bytes(path), bytes(integrity.catalog))
    assert b"precious" == path.read_bytes()


def test_socket_may_lie_deep(integrity: Box, tmp_path: Path, root: Path) -> None:
    """The 107 bytes that the kernel takes for a socket's name do not limit where it lies."""
    folder = tmp_path.joinpath(*["d" * 100] * 3)
    with SmallDaemon(integrity, folder=folder) as daemon, asking(daemon) as client:
        assert isinstance(follow(client, scan_of(root))[-1], Summary)


def test_socket_lies_where_systemd_says(monkeypatch: pytest.MonkeyPatch) -> None:
    """RuntimeDirectory= of the unit goes before where this user's things are."""
    monkeypatch.setenv("RUNTIME_DIRECTORY", "/run/integrity:/run/other")
    assert b"/run/integrity/control.sock" == default_socket_path()


def test_bug_of_the_daemon_is_told_and_disturbs_nobody(integrity: Box, root: Path) -> None:
    """An error that nobody thought of ends one connection, not the server."""

    class Faulty(SmallDaemon):
        def state(self) -> DaemonState:
            raise ZeroDivisionError("no such luck")

    with Faulty(integrity) as daemon, asking(daemon) as client, asking(daemon) as other:
        client.send(AskState())
        assert Failure("AppError", "this is a bug in the service: ZeroDivisionError; see its log") == receive(client)
        assert isinstance(follow(other, scan_of(root))[-1], Summary)


def test_end_of_the_daemon_is_told(integrity: Box, root: Path) -> None:
    """Jobs that are stopped with the daemon are told to their clients before the socket closes."""
    with ExitStack() as stack:
        with SmallDaemon(integrity) as daemon:
            client = stack.enter_context(asking(daemon))
            daemon.gate.clear()
            client.send(Submit(scan_of(root), waits=True))
            wait_until(lambda: bool(daemon.state().busy), "the job to begin")
        *_, summary = rest(client)
    assert isinstance(summary, Summary)
    assert Outcome.INTERRUPTED is summary.outcome


@pytest.mark.root
def test_stranger_may_name_roots_only(integrity: Box, root: Path, tmp_path: Path) -> None:
    """Who is neither root nor the service's user can't have another folder read, not even by a link in a root."""
    secret = plant(tmp_path / "secret", 3)
    (root / "d0" / "way").symlink_to(secret)
    with SmallDaemon(integrity) as daemon:
        with asking(daemon) as client:
            follow(client, scan_of(root))
        let_in(Path(os.fsdecode(daemon.path)).parent)
        os.chown(daemon.path, NOBODY, -1)
        for path in (secret, root / "d0" / "way", root / "d0" / "way" / "d0", tmp_path):
            with as_nobody():
                connected = connect(daemon.path)
            assert connected is not None
            with DaemonClient(connected) as client:
                (failure,) = follow(client, scan_of(path))
            assert isinstance(failure, Failure)
            assert "only root or the service's own user adds it" in failure.message
        with as_nobody():
            connected = connect(daemon.path)
        assert connected is not None
        with DaemonClient(connected) as client:
            assert isinstance(follow(client, scan_of(root / "d1"))[-1], Summary)
    assert [True, False] == [one.may_add_roots for one in daemon.asked]


def test_path_that_lies_in_no_root_when_the_job_begins_makes_none(integrity: Box, root: Path, tmp_path: Path) -> None:
    """What led into a root when it was admitted, and elsewhere when its turn came, is refused by the job itself."""
    secret = plant(tmp_path / "secret", 3)
    result: queue.SimpleQueue[Summary | AppError] = queue.SimpleQueue()
    with SmallDaemon(integrity) as daemon:
        daemon.submit(scan_of(root), Unheard(), result.put)
        assert isinstance(result.get(timeout=_TIMEOUT_S), Summary)
        daemon.submit(scan_of(secret)._replace(may_add_roots=False), Unheard(), result.put)
        error = result.get(timeout=_TIMEOUT_S)
        assert (bytes(root),) == daemon.roots()
    assert isinstance(error, ConfigError)
    assert "is not watched yet" in str(error)


def test_link_is_one_of_the_catalogs_own_files() -> None:
    """Where the catalog lies inside a root, the link to its daemon is left out with its other files."""
    assert compile_own_names(b"/srv/catalog.db").fullmatch(b"catalog.db.control")


def test_roots_are_told_to_who_names_them(integrity: Box, root: Path, tmp_path: Path) -> None:
    """Whether a path lies in a root is answered; the greeting, and an answer about other paths, name no root."""
    beside = os.fsencode(f"{root}-beside")
    paths = (bytes(root), bytes(root / "d1"), bytes(tmp_path), beside, b"/", b"//")
    integrity.run("scan", root, expect=0)
    with SmallDaemon(integrity) as daemon:
        connected = connect(daemon.path)
        assert connected is not None
        connected.settimeout(_TIMEOUT_S)
        greeting = connected.recv(1 << 16, socket.MSG_PEEK)
        with DaemonClient(connected) as client:
            assert frozenset(paths[:2]) == client.find_covered(paths)
            client.send(AskCovered((b"relative",)))
            assert isinstance(receive(client), Failure)
    assert {"v", "type", "version", "pid", "catalog"} == set(json.loads(greeting))


def test_root_that_is_everything_covers_all_paths() -> None:
    """The root directory has no name that a path could begin with."""
    assert covers({b"/"}, b"/srv/photos")
    assert not covers({b"/srv"}, b"/")
    assert not covers((), b"/")
