"""The hub as systemd runs it: with a user of its own, beside the service of the same machine, which reports to it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.loopfs import LoopFS
from support.postgres import find_programs
from support.systemdbox import PROGRAM, SystemdBox
from support.waiting import wait_until

pytestmark = [pytest.mark.root, pytest.mark.timeout(300)]

UNIT = "integrity-hub.service"
CONFIG = """
[[root]]
path = "/srv/data"
replica_set = "photos"
[hub]
report_every = "1s"
[hub_server]
listen = "127.0.0.1:8433"
certificate = "/etc/integrity/hub.pem"
key = "/etc/integrity/hub.key"
public_url = "https://nas.home:8433"
"""
# The program under test may lie in somebody's home, or below /tmp.
SETTINGS = "[Service]\nProtectHome=read-only\nPrivateTmp=no\n"
DOCS = Path(__file__).parents[2] / "docs/hub.md"


def find_lines(section: str, program: str = "") -> str:
    """Return the lines of a program, or of all, in a section of the documents, as a shell takes them."""
    text = DOCS.read_text().partition(f"## {section}")[2].partition("\n## ")[0].replace("\\\n", " ")
    return "\n".join(line.removeprefix("# ") for line in text.splitlines() if line.startswith(f"# {program}"))


@pytest.fixture
def box(ext4: LoopFS) -> Iterator[SystemdBox]:
    """Boot a systemd, with the service and the hub installed and started as the documents say."""
    (ext4.folder / "photo.jpg").write_bytes(b"x" * 9_000)
    with SystemdBox({ext4.folder: "/srv/data"}) as box:
        box.let_program_in()
        box.put("/etc/hosts", "127.0.0.1 localhost nas.home\n")
        box.put("/etc/integrity/integrity.toml", CONFIG)
        box.put(f"/etc/systemd/system/{UNIT}.d/test.conf", SETTINGS)
        box.run("sh", "-euc", find_lines("At home", "openssl"))
        box.run(PROGRAM, "service", "install", "--hub")
        box.run("sh", "-euc", find_lines("At home", "chown"))
        add(box, "early")  # while nothing runs: root makes the database
        installed = box.run(PROGRAM, "service", "install", "--hub", "--now", expect=None)
        assert "started" in installed, installed + box.log(UNIT)
        assert "journalctl -u integrity-hub" in installed
        yield box


def add(box: SystemdBox, name: str) -> str:
    """Let a box report, and return its token."""
    return box.run(PROGRAM, "--quiet", "hub", "add", name, "--set", "photos").strip()


def join(box: SystemdBox) -> None:
    """Have the service of the machine report to the hub of the machine, and wait until it has."""
    options = "--certificate /etc/integrity/hub.pem https://nas.home:8433"
    said = box.run("sh", "-c", f"echo {add(box, 'nas')} | {PROGRAM} hub join {options}")
    assert "The service reports from now on" in said
    wait_until(lambda: "; had everything" in box.run(PROGRAM, "status"), "the reports", every_s=0.5)


@pytest.mark.long
def test_box_reports_to_the_hub_of_its_own_machine(box: SystemdBox) -> None:
    """Root's commands work beside the running hub, whose files are its user's alone, and a restart loses nothing."""
    assert "active" == box.show(UNIT, "ActiveState")
    assert re.search(r"https://nas.home:8433/welcome\?token=\S+", box.log(UNIT))
    join(box)
    assert "; reported " in box.run(PROGRAM, "hub", "list")
    checked = "Checked 2 boxes, 1 folders, 1 files."
    wait_until(lambda: checked in box.run(PROGRAM, "hub", "check", expect=None), "the first scan", every_s=0.5)
    files = box.run("sh", "-c", "stat --format='%U:%G %a %n' /var/lib/integrity-hub /var/lib/integrity-hub/*")
    assert "integrity-hub:integrity-hub 700 /var/lib/integrity-hub\n" in files
    assert "integrity-hub:integrity-hub 600 /var/lib/integrity-hub/hub.db\n" in files
    assert {"integrity-hub:integrity-hub"} == {line.split()[0] for line in files.splitlines()}

    before = box.show(UNIT, "MainPID")
    box.run("systemctl", "restart", UNIT)
    assert before != box.show(UNIT, "MainPID")
    box.run("sh", "-c", "echo more > /srv/data/more && sync")
    box.run(PROGRAM, "scan", "/srv/data")
    wait_until(lambda: "2 files" in box.run(PROGRAM, "hub", "check", expect=None), "the new file", every_s=0.5)
    assert "traceback" not in box.log(UNIT).lower()


@pytest.mark.long
def test_hub_of_the_unit_sees_nothing_of_the_machine(box: SystemdBox) -> None:
    """It runs as its own user without capabilities, and reaches neither the data, nor the catalog, nor the service."""
    pid = box.show(UNIT, "MainPID")
    status = dict(line.split(":\t") for line in box.run("cat", f"/proc/{pid}/status").splitlines() if ":\t" in line)
    assert ["0" * 16] * 2 == [status["CapEff"], status["CapBnd"]]
    assert "integrity-hub" == box.run("stat", "--format=%U", f"/proc/{pid}").strip()
    seen = ("nsenter", f"--target={pid}", "--mount", "--setuid", status["Uid"].split()[0], "ls")
    for place in ("/srv/data", "/var/lib/integrity", "/run/integrity"):
        assert "Permission denied" in box.run(*seen, place, expect=2)
    level = box.run("systemd-analyze", "security", "--no-pager", UNIT, expect=None)
    found = re.search(rf"Overall exposure level for {UNIT}: ([\d.]+)", level)
    assert found is not None, level
    assert float(found[1]) <= 1.5

    box.run("chown", "root", "/etc/integrity/hub.key")
    box.run("systemctl", "restart", UNIT, expect=1)
    assert "Permission denied; let the user integrity-hub read them" in box.log(UNIT)


@pytest.mark.long
def test_hub_is_removed_with_the_service(box: SystemdBox) -> None:
    """Its unit and its user's file go; its database stays, and a new installation goes on with it."""
    box.run(PROGRAM, "service", "uninstall")

    assert "inactive" == box.show(UNIT, "ActiveState")
    assert not list((box.root / "etc/systemd/system").glob("integrity*.service"))
    assert not list((box.root / "etc/sysusers.d").glob("integrity*"))
    assert "early: has not reported yet" in box.run(PROGRAM, "hub", "list")
    box.run(PROGRAM, "service", "install", "--hub", "--now")
    assert "Checked 1 boxes" in box.run(PROGRAM, "hub", "check")


@pytest.mark.long
def test_hub_on_postgresql(tmp_path: Path) -> None:
    """Unit and commands of root share a role that is known by the name of its user, with the lines of the documents."""
    with SystemdBox() as box:
        box.let_program_in()
        box.put("/etc/integrity/integrity.toml", '[hub_server]\ndatabase = "postgresql:///integrity-hub"\n')
        box.put(f"/etc/systemd/system/{UNIT}.d/test.conf", SETTINGS)
        box.run("install", "-d", "-o", "postgres", "/run/postgresql", "/var/pg")
        programs = find_programs()
        box.run("runuser", "-u", "postgres", f"{programs}/initdb", "--", "--auth=peer", "--no-sync", "/var/pg")
        serve = ("systemd-run", "--uid=postgres", "--property=Type=notify", f"{programs}/postgres", "-D", "/var/pg")
        box.run(*serve, "-k", "/run/postgresql", "-c", "listen_addresses=")
        box.run("ln", "-s", PROGRAM, "/usr/local/bin/integrity")
        lines = find_lines("In a company").replace("sudo -u postgres", "runuser -u postgres --")
        said = box.run("sh", "-euc", lines, expect=None)

        assert "active" == box.show(UNIT, "ActiveState"), said + box.log(UNIT)
        add(box, "nas")
        assert "nas: has not reported yet" in box.run(PROGRAM, "hub", "list")
        assert "postgresql+psycopg:///integrity-hub: all is well. Checked 1 boxes" in box.run(PROGRAM, "hub", "check")
