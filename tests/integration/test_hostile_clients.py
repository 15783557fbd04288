"""The control socket while one user of its group means harm: everybody else is answered, and nothing grows."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import replace
from pathlib import Path

import pytest

from integrity.errors import CatalogError, CatalogLocked
from integrity.jobs.report import Progress, Summary
from integrity.model import Job
from integrity.service.control.client import DaemonClient
from integrity.service.control.requests import JobRequest
from integrity.service.control.socket import connect
from integrity.service.control.users import OTHERS, Role, User
from integrity.service.control.wire import (
    REQUEST_LIMIT,
    Answer,
    AskState,
    Failure,
    JobAccepted,
    Submit,
    encode,
)
from support import hostile
from support.cli import Box
from support.daemons import SmallDaemon
from support.faultfs import FaultFS, Rule
from support.planted import plant
from support.privileges import NOBODY, as_nobody, let_in
from support.service import Service
from support.waiting import wait_until

SOMEBODY = NOBODY - 1
"""Another user of the socket's group than the hostile one."""

NEVER = '[schedule]\nscrub = "0 0 29 feb *"\n'
ANSWER_S = 10.0
"""Within so long everybody else is answered."""

GROWTH_BYTES = 64 << 20
MOST_LINES = 5 + OTHERS.requests
"""Of the log: refusals once, and each request that was admitted."""

_TIMEOUT_S = 120.0


def scan_of(*paths: Path, times: int = 1) -> JobRequest:
    """Ask for a scan."""
    return JobRequest(Job.SCAN, tuple(bytes(one) for one in paths) * times)


def make_line(shape: str, root: Path) -> bytes:
    """Write what the hostile client of a shape sends."""
    submit = Submit(scan_of(root), waits=True)
    many = Submit(scan_of(root, times=REQUEST_LIMIT // (2 * len(bytes(root)))), waits=True)
    return {
        "asks": encode(AskState()),
        "half": encode(AskState()),
        "subscribes": encode(submit),
        "queues": encode(replace(submit, waits=False)),
        "garbage": b"GET / HTTP/1.1\r\n\r\n",
        "wide": encode(many),
    }.get(shape, b"")


SHAPES = {
    "silent": "silent",
    "half": "half",
    "asks": "repeats",
    "subscribes": "once",
    "queues": "repeats",
    "garbage": "repeats",
    "wide": "repeats",
    "endless": "endless",
    "trickles": "trickles",
    "storm": "storm",
}


@contextmanager
def hostile_client(shape: str, path: bytes, root: Path) -> Iterator[None]:
    """Have a user who is in the socket's group do harm for the time of the block."""
    command = ["setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups", sys.executable, hostile.__file__]
    process = subprocess.Popen([*command, SHAPES[shape], path], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    with process:
        try:
            assert process.stdin is not None
            assert process.stdout is not None
            process.stdin.write(make_line(shape, root))
            process.stdin.close()
            assert b"ready\n" == process.stdout.readline()
            yield
        finally:
            process.kill()


def ask(path: bytes, uid: int) -> float:
    """Ask the service as a user what it does, and return how long that took."""
    began = time.monotonic()
    with as_nobody(uid):
        connected = connect(path)
    assert connected is not None
    with DaemonClient(connected, patience_s=_TIMEOUT_S) as daemon:
        daemon.ask_state(_TIMEOUT_S)
    return time.monotonic() - began


def resident_bytes(pid: int) -> int:
    """Return how much memory a process has."""
    with open(f"/proc/{pid}/statm", encoding="ascii") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def count_lines(log: str) -> int:
    """Count the lines about clients; those of jobs that were admitted are the jobs' own."""
    return len(re.findall(r"control\.", log))


@pytest.mark.long
@pytest.mark.root
@pytest.mark.parametrize("shape", SHAPES)
def test_everybody_else_is_answered(integrity: Box, tmp_path: Path, shape: str) -> None:
    """Root, the command of root and another user of the group are answered; memory and log stay small."""
    root = plant(tmp_path / "root", 20)
    integrity.configure(f'[[root]]\npath = "{root}"\n{NEVER}')
    with Service(integrity) as service:
        service.wait_begun()
        path = bytes(integrity.home / "run" / "control.sock")
        let_in(integrity.home / "run")
        os.chmod(path, 0o666)  # both users in the group
        memory, lines = resident_bytes(service.pid), count_lines(service.log)
        began = time.monotonic()
        with hostile_client(shape, path, root):
            took = [ask(path, uid) for _ in range(5) for uid in (0, SOMEBODY)]
            status = integrity.run("status", expect=0)
            requested = integrity.run("scan", "--no-wait", root, expect=0)
            grown = resident_bytes(service.pid) - memory
        seconds = time.monotonic() - began
        said = count_lines(service.log) - lines
        service.stop()
    assert max(took) < ANSWER_S, took
    assert "Service: runs since" in status.stdout
    assert "queued: scan" in requested.stdout
    assert grown < GROWTH_BYTES
    assert said < MOST_LINES + 12 * seconds, service.log
    assert "Traceback" not in service.log


def greet(daemon: SmallDaemon, uid: int = 0) -> DaemonClient:
    """Connect as a user, and be greeted."""
    with as_nobody(uid):
        connected = connect(daemon.path)
    assert connected is not None
    return DaemonClient(connected, patience_s=_TIMEOUT_S)


def receive(client: DaemonClient) -> Answer:
    """Wait for the next answer, progress aside."""
    while isinstance(answer := client.receive(_TIMEOUT_S), Progress):
        pass
    assert answer is not None
    return answer


@contextmanager
def held_daemon(box: Box, root: Path) -> Iterator[SmallDaemon]:
    """Serve a root to everybody, while no job begins."""
    box.run("scan", root, expect=0)
    with SmallDaemon(box) as daemon:
        let_in(Path(os.fsdecode(daemon.path)).parent)
        os.chmod(daemon.path, 0o666)
        daemon.gate.clear()
        yield daemon


@pytest.mark.root
def test_one_users_requests_are_limited(integrity: Box, tmp_path: Path) -> None:
    """What is too much is refused with what to do; root's requests, and those of another user, are taken."""
    root = plant(tmp_path / "root", 5)
    submit = Submit(scan_of(root), waits=False)
    with held_daemon(integrity, root) as daemon, greet(daemon, NOBODY) as client:
        for _ in range(OTHERS.requests):
            client.send(submit)
            assert isinstance(receive(client), JobAccepted)
        client.send(submit)
        failure = receive(client)
        for uid in (0, SOMEBODY):
            with greet(daemon, uid) as other:
                other.send(submit)
                assert isinstance(receive(other), JobAccepted)
        daemon.gate.set()
        wait_until(lambda: daemon.ended == len(daemon.asked), "the jobs")
        with greet(daemon, NOBODY) as client:
            client.send(submit)
            assert isinstance(receive(client), JobAccepted)
    assert isinstance(failure, Failure)
    assert "CatalogLocked" == failure.kind
    assert "32 requests of yours wait for the service" in failure.message


@pytest.mark.root
def test_requests_of_many_paths_count_by_their_size(integrity: Box, tmp_path: Path) -> None:
    """A user's queued requests take no more memory than two of the longest lines."""
    root = plant(tmp_path / "root", 5)
    submit = Submit(scan_of(root, times=REQUEST_LIMIT // (2 * len(bytes(root)))), waits=False)
    with held_daemon(integrity, root) as daemon, greet(daemon, NOBODY) as client:
        answers = []
        while not (answers and isinstance(answers[-1], Failure)):
            client.send(submit)
            answers.append(receive(client))
        daemon.gate.set()
    assert 2 <= len(answers) <= 5


@pytest.mark.root
def test_one_users_waiting_commands_are_limited(integrity: Box, tmp_path: Path) -> None:
    """Connections with a job are not taken away: the next one is told why it is not served. Root's is."""
    root = plant(tmp_path / "root", 5)
    with held_daemon(integrity, root) as daemon, ExitStack() as stack:
        for _ in range(OTHERS.connections):
            client = stack.enter_context(greet(daemon, NOBODY))
            client.send(Submit(scan_of(root), waits=True))
            assert isinstance(receive(client), JobAccepted)
        with pytest.raises(CatalogLocked, match="as many commands wait for the service as it takes"):
            greet(daemon, NOBODY)
        with greet(daemon) as own:
            own.send(Submit(scan_of(root), waits=True))
            daemon.gate.set()
            assert isinstance(receive(own), JobAccepted)
            assert isinstance(receive(own), Summary)


def test_idle_client_is_given_up(integrity: Box, tmp_path: Path) -> None:
    """Who neither asks nor reads for long makes room, also in the middle of a line; who waits for a job does not."""
    root = plant(tmp_path / "root", 5)
    with SmallDaemon(integrity, patience_s=2.0) as daemon, greet(daemon) as waiting:
        daemon.gate.clear()
        waiting.send(Submit(scan_of(root), waits=True))
        assert isinstance(receive(waiting), JobAccepted)
        connected = connect(daemon.path)
        assert connected is not None
        with greet(daemon) as idle, DaemonClient(connected) as half:
            connected.sendall(b'{"v":5,')
            for client in (idle, half):
                with pytest.raises(CatalogError, match="ended the connection"):
                    receive(client)
        daemon.gate.set()
        assert isinstance(receive(waiting), Summary)


@pytest.mark.parametrize("data", [encode(AskState()) * 1000, b" "], ids=["asks and never reads", "byte by byte"])
def test_client_that_only_sends_is_given_up(integrity: Box, data: bytes) -> None:
    """I4, I5: it is answered no further than its buffers hold; the deadline is for a whole question."""
    with SmallDaemon(integrity, patience_s=0.2) as daemon:
        connected = connect(daemon.path)
        assert connected is not None
        with connected, suppress(ConnectionError):
            while True:
                connected.sendall(data)


def find_serving() -> list[threading.Thread]:
    """Return the threads that serve connections."""
    return [thread for thread in threading.enumerate() if thread.name.startswith("control-")]


def count_sockets() -> int:
    """Count the sockets of this process."""
    links = (f"/proc/self/fd/{name}" for name in os.listdir("/proc/self/fd"))
    return sum(os.path.lexists(link) and os.readlink(link).startswith("socket:") for link in links)


def test_connections_leave_nothing_behind(integrity: Box, tmp_path: Path) -> None:
    """Clients that vanish in the middle of anything take their thread and their descriptor with them."""
    root = plant(tmp_path / "root", 5)
    with SmallDaemon(integrity) as daemon:
        sockets_before = count_sockets()  # one listens; others are those of tests before, and may end
        submit = encode(Submit(scan_of(root), waits=True))
        for data in (b"", encode(AskState())[:9], encode(AskState()) * 50, b"\xff\n", submit, submit + b"half") * 5:
            connected = connect(daemon.path)
            assert connected is not None
            with connected:
                connected.sendall(data)
        with greet(daemon):  # all others were accepted before
            pass
        wait_until(lambda: not find_serving() and count_sockets() <= sockets_before, "the end of all connections")


def test_one_user_gets_a_quarter_of_the_time() -> None:
    """I2: connections pause for three times what they used, one behind the other."""
    user, began = User(Role.GROUP), time.monotonic()
    threads = [threading.Thread(target=user.pause, args=(0.01,)) for _ in range(10)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert time.monotonic() - began >= 0.3


@pytest.mark.root
def test_request_that_hangs_on_its_disk_holds_up_nobody(integrity: Box, faulty: FaultFS) -> None:
    """Looking at a path may last for ever: everybody else is answered meanwhile, and the service can be stopped."""
    plant(faulty.folder / "deep", 3)
    integrity.configure(f'[[root]]\npath = "{os.fsdecode(faulty.folder)}"\n{NEVER}')
    with Service(integrity) as service:
        service.wait_begun()
        path = bytes(integrity.home / "run" / "control.sock")
        rule = faulty.add(Rule("getattr", is_hung=True))
        try:
            connected = connect(path)
            assert connected is not None
            with DaemonClient(connected) as client:
                client.send(Submit(scan_of(Path(os.fsdecode(faulty.folder)) / "deep" / "d1"), waits=True))
                wait_until(lambda: bool(faulty.get_fired()), "a look that hangs")
                assert ask(path, 0) < ANSWER_S
        finally:
            faulty.clear(rule)
        service.stop()
