"""The real service under a real systemd that has booted: started, watched over, stopped, gone down with the machine."""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import closing

import pytest

from integrity.catalog.db import Connection
from support.bitrot import flip_bit
from support.cli import JsonObject
from support.loopfs import LoopFS
from support.machine import need_programs
from support.planted import age
from support.systemdbox import BOOT_ID, PROGRAM, SystemdBox
from support.waiting import wait_until

UNIT = "integrity.service"
DROP_IN = f"/etc/systemd/system/{UNIT}.d/test.conf"
# What a service with a procfs of its own takes for the boot of the machine is else that of the machine below the box.
SEES_BOOTS = f"[Service]\nBindReadOnlyPaths={BOOT_ID}:/proc/sys/kernel/random/boot_id\n"
CONFIG = '[[root]]\npath = "/srv/data"\nsettle = "1s"\n'
FILES = 3
STOP_S = 5.0
DAY_S = 86_400
CATALOG = "/var/lib/integrity/catalog.db"

pytestmark = pytest.mark.root


@pytest.fixture
def disk(ext4: LoopFS) -> LoopFS:
    """A disk with files that only root may read, not written just now."""
    folder = ext4.folder / "private"
    folder.mkdir(mode=0o700)
    paths = [folder / f"file{number}" for number in range(FILES)]
    for path in paths:
        path.write_bytes(os.urandom(100_000))
        path.chmod(0o600)
    os.sync()
    age(*paths)
    return ext4


@pytest.fixture
def box(disk: LoopFS) -> Iterator[SystemdBox]:
    """Boot a systemd with the service installed and running, and a disk at /srv/data that it watches."""
    with SystemdBox({disk.folder: "/srv/data"}) as box:
        box.let_program_in()
        box.put("/etc/integrity/integrity.toml", CONFIG)
        box.put(DROP_IN, SEES_BOOTS)
        box.run(PROGRAM, "service", "install", "--now")
        yield box


def ask(box: SystemdBox, *arguments: str) -> list[JsonObject]:
    """Run a command of root's in the box and return what it told."""
    told = box.run(PROGRAM, "--json", *arguments, expect=None)
    return [json.loads(line) for line in told.splitlines() if line.startswith("{")]


def scan(box: SystemdBox) -> JsonObject:
    """Have the data scanned by whoever does it, and return the summary."""
    (summary,) = [one for one in ask(box, "scan", "/srv/data") if one["type"] == "summary"]
    return summary


def query(box: SystemdBox, sql: str) -> list[list[object]]:
    """Ask the catalog's file; from inside, because the service has it open there."""
    script = "import json, sys; from integrity.catalog.db import Connection"
    ask = f"c = Connection(b'{CATALOG}', 'mode=ro'); print(json.dumps([*c.rows(sys.argv[1])]))"
    rows: list[list[object]] = json.loads(box.run(sys.executable, "-c", f"{script}; {ask}", sql))
    return rows


def knows(box: SystemdBox, path: str) -> bool:
    """Tell whether a file is recorded."""
    return any(one["type"] == "file" for one in ask(box, "explain", path))


def get_status(box: SystemdBox) -> str:
    """Return what the service says of itself, as systemctl shows it."""
    lines = box.run("systemctl", "status", UNIT, expect=None).splitlines()
    return next((line.strip() for line in lines if line.strip().startswith("Status:")), "")


def wait(box: SystemdBox, is_so: Callable[[], bool], what: str, timeout_s: float = 30.0) -> None:
    """Wait, and show the log if it was in vain."""
    try:
        wait_until(is_so, what, timeout_s=timeout_s, every_s=0.1)
    except AssertionError as error:
        raise AssertionError(f"{error}; the log: {box.log(UNIT)}") from error


def boot(box: SystemdBox) -> None:
    """Boot again, with all that starts with the machine, and wait for the service."""
    box.boot()
    box.run("systemctl", "start", "multi-user.target")
    wait(box, lambda: box.show(UNIT, "ActiveState") == "active", "the service after the boot")


def wait_idle(box: SystemdBox) -> None:
    """Wait until the service has done all it wanted."""
    wait(box, lambda: get_status(box).startswith('Status: "idle; 1 roots"'), "an idle service")


def test_service_starts_records_and_stops(box: SystemdBox) -> None:
    """
    Active once it is ready, it says what it does, records what only root may read, reloads, and ends in time.

    What root asks for is done by the service; after uninstalling root does it alone.
    """
    assert ("active", "running") == (box.show(UNIT, "ActiveState"), box.show(UNIT, "SubState"))
    wait_idle(box)
    box.run("sh", "-c", "umask 077; echo new > /srv/data/private/new")
    wait(box, lambda: knows(box, "/srv/data/private/new"), "the record of a new file")
    assert "integrity" == box.run("ps", "-o", "user=", "-p", box.show(UNIT, "MainPID")).strip()[:9]
    before = box.show(UNIT, "MainPID")
    status = box.run("cat", f"/proc/{before}/status")
    fields = dict(line.split(":\t") for line in status.splitlines() if ":\t" in line)
    assert (0, "1") == (int(fields["CapAmb"], 16), fields["NoNewPrivs"])  # so its children have no capabilities
    assert 0 != int(fields["CapEff"], 16)
    box.put("/etc/integrity/integrity.toml", CONFIG + "[schedule]\nscan = 'hourly'\n")
    box.run("systemctl", "reload", UNIT)
    wait(box, lambda: "reloaded roots=1" in box.log(UNIT), "the reload")
    assert before == box.show(UNIT, "MainPID")
    wait_idle(box)
    box.run("sh", "-c", "echo more > /srv/data/more")
    assert "clean" == scan(box)["outcome"]  # through its socket; the service may have seen the file before
    assert knows(box, "/srv/data/more")
    assert [[int(before)]] == query(box, "SELECT pid FROM run ORDER BY id DESC LIMIT 1")
    box.run("test", "-S", "/run/integrity/control.sock")
    began = time.monotonic()
    box.run("systemctl", "stop", UNIT)
    assert time.monotonic() - began < STOP_S
    assert "success" == box.show(UNIT, "Result"), box.log(UNIT)
    assert "kept: /var/lib/integrity/catalog.db" in box.run(PROGRAM, "service", "uninstall")

    assert "inactive" == box.show(UNIT, "ActiveState")
    assert 0 == scan(box)["files_new"]  # which root does alone
    assert "all is well" in box.run(PROGRAM, "catalog", "check")


@pytest.mark.first
def test_service_that_hangs_or_dies_is_started_anew(box: SystemdBox) -> None:
    """It feeds the watchdog while it is well; stopped in its tracks or killed, systemd starts it again."""
    box.put(DROP_IN, SEES_BOOTS + "WatchdogSec=5s\nRestartSec=100ms\n")
    box.run("systemctl", "daemon-reload")
    box.run("systemctl", "restart", UNIT)
    first, began = box.show(UNIT, "MainPID"), time.monotonic()
    wait(box, lambda: time.monotonic() - began > 12.0, "12 seconds of feeding")
    assert (first, "0") == (box.show(UNIT, "MainPID"), box.show(UNIT, "NRestarts"))
    box.run("kill", "-STOP", first)
    wait(box, lambda: box.show(UNIT, "NRestarts") == "1" and box.show(UNIT, "ActiveState") == "active", "the first")
    assert "watchdog" in box.log(UNIT).lower()
    second = box.show(UNIT, "MainPID")
    box.run("kill", "-KILL", second)
    wait(box, lambda: box.show(UNIT, "NRestarts") == "2" and box.show(UNIT, "ActiveState") == "active", "the second")

    assert 3 == len({first, second, box.show(UNIT, "MainPID")})
    wait_idle(box)
    assert "all is well" in box.run(PROGRAM, "catalog", "check")


def test_rot_after_a_boot(box: SystemdBox, disk: LoopFS) -> None:
    """
    A machine that went down in order leaves no doubt; after a power cut, old times may stand over new content.

    Only the end of the machine is marked: what follows the end of the service alone nobody of us has seen.
    """
    expected = []
    for number, (ends, certainty) in enumerate(
        [("power_off", "proven"), ("cut_power", "after_crash"), ("stop", "after_crash")]
    ):
        wait_idle(box)
        if ends == "stop":
            box.run("systemctl", "stop", UNIT)
        getattr(box, "cut_power" if ends == "stop" else ends)()
        flip_bit(disk.path(f"private/file{number}"), 5000)
        boot(box)
        ask(box, "scrub", "/srv/data")
        expected.append(("rot", certainty, f"/srv/data/private/file{number}"))
        found = [one for one in ask(box, "findings") if one["type"] == "finding"]
        assert expected == sorted(
            ((one["kind"], one["certainty"], one["path"]) for one in found), key=lambda one: one[2]
        )


def count_begun(box: SystemdBox) -> dict[str, int]:
    """Tell how often each schedule was begun."""
    rows = query(box, "SELECT schedule, count(*) FROM schedule_run GROUP BY 1")
    return {str(name): int(str(count)) for name, count in rows}


def test_schedule_that_was_missed_is_caught_up_once(box: SystemdBox, disk: LoopFS) -> None:
    """After three days without the machine one scan and one scrub are made up for, not three, and not again later."""
    box.put("/etc/integrity/integrity.toml", CONFIG + "[schedule]\nscan = 'daily'\nscrub = '0 3 * * *'\n")
    box.run("systemctl", "restart", UNIT)
    wait_idle(box)
    box.power_off()
    then = int(time.time()) - 3 * DAY_S
    with closing(Connection(bytes(box.root) + CATALOG.encode())) as c:
        c.run("DELETE FROM schedule_run")
        for name in ("scan", "scrub"):
            c.run("INSERT INTO schedule_run (schedule, due_at, started_at) VALUES (?, ?, ?)", name, then, then)
    booted_at = int(time.time())
    boot(box)
    wait(box, lambda: count_begun(box) == {"scan": 2, "scrub": 2}, "a scan and a scrub")
    wait_idle(box)
    box.run("systemctl", "restart", UNIT)
    wait_idle(box)

    assert {"scan": 2, "scrub": 2} == count_begun(box)
    assert [["scan"], ["scrub"]] == query(
        box, f"SELECT DISTINCT job FROM run WHERE started_at >= {booted_at} ORDER BY job"
    )


REPOSITORIES = """
set -e
umask 077
printf 'secret\\n' >/root/password
export RESTIC_REPOSITORY=/var/backups/restic RESTIC_PASSWORD_FILE=/root/password
export BORG_REPO=/var/backups/borg BORG_PASSCOMMAND='cat /root/password' HOME=/root
mkdir -p /var/backups
restic -q init
restic -q --no-cache backup /srv/data
borg init --encryption repokey
borg create ::first /srv/data
"""
COPY = """
[[copy]]
name = "{name}"
of = "/srv/data"
url = "{name}:/var/backups/{name}"
password_file = "/root/password"
read_percent = 100
"""


def test_repositories_of_root_are_read_by_the_service(box: SystemdBox) -> None:
    """It may read all files; so may what it starts on a local repository, and the password reaches that."""
    need_programs("restic", "borg")
    names = ["borg", "restic"]
    box.run("sh", "-c", REPOSITORIES)
    box.put("/etc/integrity/integrity.toml", CONFIG + "".join(COPY.format(name=name) for name in names))
    box.run("systemctl", "reload", UNIT)
    read = "SELECT copy.name FROM copy JOIN copy_file ON copy_id = copy.id GROUP BY copy.id HAVING count(read_at) = 3"
    wait(box, lambda: names == sorted(str(name) for (name,) in query(box, read)), "comparisons by the service")
    assert [] == [one for one in ask(box, "findings") if one["type"] == "finding"]
    assert "password" not in box.log(UNIT)
    told = ask(box, "versions", "/srv/data/private/file0")
    assert names == sorted(one["copy"] for one in told if one["type"] == "version" and one["content"] == "same")
