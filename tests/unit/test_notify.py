"""Messages to systemd, over real datagram sockets, and log lines for its journal."""

from __future__ import annotations

import logging
import os
import secrets
import socket
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from integrity.service.process import JournalFormatter, Notifier, is_journal, watchdog_interval_s


@pytest.fixture
def manager() -> Iterator[socket.socket]:
    """Listen as systemd does."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as listener:
        listener.settimeout(10)
        yield listener


def receive(manager: socket.socket) -> str:
    """Return the next message."""
    return manager.recv(4096).decode()


def test_messages_reach_a_socket_with_a_path(manager: socket.socket, tmp_path: Path) -> None:
    """Each call is one datagram, in the words of sd_notify(3)."""
    manager.bind(str(tmp_path / "notify"))
    notifier = Notifier({"NOTIFY_SOCKET": str(tmp_path / "notify")})

    notifier.ready()
    notifier.status("verifying /srv/photos")
    notifier.watchdog()
    notifier.stopping()

    assert ["READY=1", "STATUS=verifying /srv/photos", "WATCHDOG=1", "STOPPING=1"] == [
        receive(manager) for _ in range(4)
    ]


def test_messages_reach_an_abstract_socket(manager: socket.socket) -> None:
    """A name behind @ is no path."""
    name = f"integrity-test-{secrets.token_hex(8)}"
    manager.bind(f"\0{name}")

    Notifier({"NOTIFY_SOCKET": f"@{name}"}).ready()

    assert "READY=1" == receive(manager)


def test_reload_carries_the_monotonic_clock(manager: socket.socket, tmp_path: Path) -> None:
    """Without it systemd can't tell an old READY=1 from that of the reload; it is CLOCK_MONOTONIC in microseconds."""
    manager.bind(str(tmp_path / "notify"))
    environment = {"NOTIFY_SOCKET": str(tmp_path / "notify")}

    Notifier(environment, monotonic_ns=lambda: 12_345_678_901).reloading()
    Notifier(environment).reloading()

    assert "RELOADING=1\nMONOTONIC_USEC=12345678" == receive(manager)
    now = time.clock_gettime_ns(time.CLOCK_MONOTONIC) // 1000
    sent = int(receive(manager).rpartition("=")[2])
    assert now - 60_000_000 < sent <= now


def test_status_stays_one_line(manager: socket.socket, tmp_path: Path) -> None:
    """A line break in a status, which may hold names of files, starts no message of its own."""
    manager.bind(str(tmp_path / "notify"))

    Notifier({"NOTIFY_SOCKET": str(tmp_path / "notify")}).status("reading a\nSTOPPING=1\udcff")

    assert "STATUS=reading a STOPPING=1\\udcff" == receive(manager)


def test_without_a_socket_nothing_is_said(caplog: pytest.LogCaptureFixture) -> None:
    """A daemon that was started by hand is not told that nobody listens."""
    notifier = Notifier({})
    for send in (notifier.ready, notifier.reloading, notifier.stopping, notifier.watchdog):
        send()
    notifier.status("well")

    assert [] == caplog.records


@pytest.mark.parametrize("address", ["", "vsock:2:9999"])
def test_message_that_can_not_be_sent_is_a_warning(
    address: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """A manager that went away, or an address of a kind that is not known, ends nothing and is not kept silent."""
    Notifier({"NOTIFY_SOCKET": address or str(tmp_path / "gone")}).ready()

    (record,) = caplog.records
    assert "WARNING" == record.levelname
    assert "READY=1" in record.getMessage()


def test_manager_that_does_not_read_holds_up_nobody(
    manager: socket.socket, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """When its queue is full, a message is given up after a second."""
    manager.bind(str(tmp_path / "notify"))
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as filler:
        filler.setblocking(False)
        with suppress(BlockingIOError):
            while True:
                filler.sendto(b"x", str(tmp_path / "notify"))
    began = time.monotonic()
    Notifier({"NOTIFY_SOCKET": str(tmp_path / "notify")}).watchdog()

    assert time.monotonic() - began < 10
    assert "timed out" in caplog.text


def test_children_do_not_inherit_the_socket(manager: socket.socket, tmp_path: Path) -> None:
    """Nothing stays open after a message."""
    manager.bind(str(tmp_path / "notify"))
    before = os.listdir("/proc/self/fd")
    Notifier({"NOTIFY_SOCKET": str(tmp_path / "notify")}).ready()

    assert len(before) == len(os.listdir("/proc/self/fd"))


@pytest.mark.parametrize(
    ("environment", "expected"),
    [
        ({}, None),
        ({"WATCHDOG_USEC": "300000000"}, 300.0),
        ({"WATCHDOG_USEC": "1500000", "WATCHDOG_PID": "77"}, 1.5),
        ({"WATCHDOG_USEC": "1500000", "WATCHDOG_PID": "78"}, None),
        ({"WATCHDOG_PID": "77"}, None),
        ({"WATCHDOG_USEC": "0"}, None),
        ({"WATCHDOG_USEC": "-5"}, None),
        ({"WATCHDOG_USEC": "often"}, None),
    ],
)
def test_interval_of_the_watchdog(environment: dict[str, str], expected: float | None) -> None:
    """It is that of the environment if this process is meant, and none otherwise."""
    assert expected == watchdog_interval_s(environment, pid=77)


def test_interval_is_for_this_process() -> None:
    """A child that inherited the variables does not take them for its own."""
    assert 2.0 == watchdog_interval_s({"WATCHDOG_USEC": "2000000", "WATCHDOG_PID": str(os.getpid())})
    assert watchdog_interval_s({"WATCHDOG_USEC": "2000000", "WATCHDOG_PID": str(os.getppid())}) is None


@pytest.mark.parametrize(
    ("level", "expected"),
    [
        (logging.CRITICAL, "<2>"),
        (logging.ERROR, "<3>"),
        (logging.WARNING, "<4>"),
        (logging.INFO, "<6>"),
        (logging.DEBUG, "<7>"),
        (5, "<7>"),
    ],
)
def test_log_line_carries_its_priority(level: int, expected: str) -> None:
    """The numbers are those of syslog(3)."""
    record = logging.LogRecord("integrity.jobs", level, "file", 1, "run_ended files=%d", (3,), None)

    assert f"{expected}integrity.jobs: run_ended files=3" == JournalFormatter().format(record)


def test_each_line_of_a_traceback_carries_the_priority() -> None:
    """The journal makes an entry of each line, and those without a number would not be errors."""
    try:
        int("no\nnumber")
    except ValueError:
        record = logging.LogRecord("integrity", logging.ERROR, "file", 1, "failed", (), sys.exc_info())
    lines = JournalFormatter().format(record).splitlines()

    assert len(lines) > 3
    assert all(line.startswith("<3>") for line in lines)


def test_journal_is_told_from_a_terminal_or_a_file(tmp_path: Path) -> None:
    """Only the file that JOURNAL_STREAM names is the journal: standard error may have been redirected since."""
    with open(tmp_path / "log", "w") as log:
        status = os.fstat(log.fileno())
        named = {"JOURNAL_STREAM": f"{status.st_dev}:{status.st_ino}"}
        assert is_journal(log.fileno(), named)
        assert not is_journal(log.fileno(), {})
        assert not is_journal(log.fileno(), {"JOURNAL_STREAM": f"{status.st_dev}:1"})
        fd = log.fileno()
    assert not is_journal(fd, named)
