"""The real service is asked to stop: it has ended within five seconds, whatever it is doing, and goes on later."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from support.cli import Box
from support.faultfs import FaultFS, Rule
from support.planted import age, plant, plant_path
from support.results import tallies
from support.servers import SilentServer
from support.service import Service
from support.smtpsink import mail_toml
from support.stored import count_rows, query
from support.waiting import wait_until

ALWAYS = 'scrub = "00:00-24:00"'
NEVER = 'scrub = "0 0 29 feb *"'
MIB = 1 << 20


def configure(box: Box, *roots: Path, schedule: str = NEVER, more: str = "") -> None:
    """Have roots that settle soon."""
    text = "".join(f'[[root]]\npath = "{root}"\nsettle = "1s"\n' for root in roots)
    box.configure(f"{text}[schedule]\n{schedule}\n{more}\n")


def write_large(path: Path, size_bytes: int) -> None:
    """Write a file of random bytes to the disk."""
    with open(path, "wb") as file:
        for _ in range(size_bytes // MIB):
            file.write(os.urandom(MIB))
        os.fsync(file.fileno())


def find_states(box: Box) -> list[str]:
    """Return how each run ended, in order."""
    return [str(row[0]) for row in query(box, "SELECT outcome FROM run ORDER BY id")]


def test_idle_service_stops_at_once(integrity: Box, root: Path) -> None:
    """Nothing is left behind: neither its socket nor the link to it; the next one starts as the first did."""
    configure(integrity, root)
    for _ in range(2):
        with Service(integrity) as service:
            service.wait_idle()
            service.stop()
            assert "STOPPING=1" in service.messages
        assert not os.path.lexists(integrity.home / "catalog.db.control")
        assert not list((integrity.home / "run").rglob("*.sock"))


@pytest.mark.root
def test_stopped_scan_keeps_what_it_has(integrity: Box, faulty: FaultFS) -> None:
    """What was recorded stays, and the next service records the rest."""
    plant(faulty.folder, 300)
    configure(integrity, faulty.folder)
    rule = faulty.add(Rule("read", delay_s=0.02))
    with Service(integrity) as service:
        wait_until(lambda: count_rows(integrity) > 20, "some records", every_s=0.05)
        service.stop()
    had = count_rows(integrity)
    assert 20 < had < 300
    assert ["interrupted"] == find_states(integrity)

    faulty.clear(rule)
    with Service(integrity) as service:
        wait_until(lambda: count_rows(integrity) == 300, "all records", every_s=0.05)
        service.wait_idle()
        service.stop()
    assert 300 == tallies(integrity.run("--json", "scrub", expect=0))["verified"]


def test_stopped_scrub_of_a_large_file_goes_on_where_it_was(integrity: Box, root: Path) -> None:
    """Both parts together read no more than 10 % beyond one undisturbed scrub."""
    size = 160 * MIB
    write_large(root / "large.bin", size)
    configure(integrity, root, schedule=ALWAYS, more='[pace]\nrate = "32MiB"')
    age(root / "large.bin")
    integrity.run("scan", expect=0)
    with Service(integrity) as service:
        before = service.bytes_read
        wait_until(lambda: service.bytes_read > before + 40 * MIB, "a quarter of it")
        read = service.bytes_read - before
        service.stop()
        assert service.log.count("hang") == 0
    assert [] == query(integrity, "SELECT 1 FROM file WHERE verified_at IS NOT NULL")
    with Service(integrity) as service:
        wait_until(lambda: bool(query(integrity, "SELECT 1 FROM file WHERE verified_at > 0")), "the rest", every_s=0.05)
        service.wait_idle()
        service.stop()
    [(rest,)] = query(integrity, "SELECT bytes_read FROM run WHERE job = 'scrub' AND outcome = 'clean' AND bytes_read")
    assert read + int(str(rest)) <= 1.1 * size


def test_silent_mail_server_does_not_hold_up_the_end(integrity: Box, root: Path) -> None:
    """What could not be mailed waits in the catalog."""
    plant(root, 5)
    with SilentServer() as server:
        mail = mail_toml(server.port)
        configure(integrity, root, more=f'{mail}[alerts]\ngroup = "0s"\n[defaults]\npolicy = "archive"')
        integrity.run("scan", expect=0)
        os.unlink(plant_path(root, 3))
        with Service(integrity) as service:
            server.wait_for_client()
            service.stop()
    assert ["missing"] == [one["kind"] for one in integrity.findings("findings")]


@contextmanager
def hanging(faulty: FaultFS, op: str) -> Iterator[None]:
    """Have calls hang that nothing can end, also in those who clean up after a test that failed."""
    rule = faulty.add(Rule(op, is_hung=True))
    try:
        yield
    finally:
        faulty.clear(rule)


@contextmanager
def released(faulty: FaultFS) -> Iterator[None]:
    """Let all hanging calls go on at the end, that a service in which they hang can be waited for."""
    try:
        yield
    finally:
        faulty.clear()


@pytest.mark.root
@pytest.mark.parametrize("op", ["read", "*"])
def test_hanging_disk_does_not_hold_up_the_end(integrity: Box, root: Path, faulty: FaultFS, op: str) -> None:
    """The thread that hangs is left behind; meanwhile the other disk's root is looked after, then as before."""
    plant(faulty.folder, 20)
    configure(integrity, faulty.folder, root)
    with hanging(faulty, op), Service(integrity) as service, released(faulty):
        wait_until(lambda: bool(faulty.get_fired()), "a call that hangs")
        (root / "new").write_text("new")
        wait_until(lambda: count_rows(integrity) == 1, "a record", every_s=0.05)
        service.stop()
        assert "hang in the system" in service.log

        with Service(integrity) as second, released(faulty):
            (root / "newer").write_text("newer")
            wait_until(lambda: count_rows(integrity) == 2, "a record", every_s=0.05)
            second.stop()
    with Service(integrity) as service:
        wait_until(lambda: count_rows(integrity) == 22, "all records", every_s=0.05)
        service.stop()
