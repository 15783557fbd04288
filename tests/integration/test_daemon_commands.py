"""Commands beside a service that is busy: jobs are handed over, everything else is answered at once."""

from __future__ import annotations

import json
import os
import time
from datetime import datetime
from pathlib import Path

import pytest

from integrity.service.control.client import DaemonClient
from integrity.service.control.socket import connect
from integrity.service.control.wire import LendRoots, StopJob
from support.bitrot import flip_bit
from support.cli import Box
from support.faultfs import FaultFS, Rule
from support.loopfs import LoopFS
from support.planted import age, plant
from support.results import tallies
from support.running import Running
from support.service import Service
from support.smtpsink import SmtpSink, mail_toml
from support.stored import count_rows, query
from support.waiting import wait_until

NEVER = 'scrub = "0 0 29 feb *"'
ALWAYS = 'scrub = "00:00-24:00"'
MIB = 1 << 20
"""A Python that starts on busy cores, and answers."""


@pytest.mark.root
def test_flipped_bit_is_found_in_the_next_window_and_mailed(integrity: Box, ext4: LoopFS) -> None:
    """The mail names the file and the block; the service found it by itself."""
    victim = ext4.folder / "photos/img 1.raw"
    victim.parent.mkdir()
    victim.write_bytes(os.urandom(8 * MIB))
    plant(victim.parent, 20)
    os.sync()
    age(victim)
    roots = f'[[root]]\npath = "{victim.parent}"\nsettle = "1s"\n[schedule]\n'
    with SmtpSink() as sink:
        mail = mail_toml(sink.port)
        more = f'{mail}[alerts]\ngroup = "0s"\n'
        integrity.configure(f"{roots}{NEVER}\n{more}")
        with Service(integrity) as service:
            service.wait_begun()
            flip_bit(bytes(victim), 5 * MIB + 1234)
            integrity.configure(f"{roots}{ALWAYS}\n{more}")
            service.reload()
            wait_until(lambda: bool(sink.received), "a mail")
            service.stop()
    [finding] = integrity.findings("findings")
    assert ("rot", "proven", [5]) == (finding["kind"], finding["certainty"], finding["blocks"])
    assert os.fsencode(str(finding["path"])) == bytes(victim)
    [mail_received] = [each for each in sink.received if "img 1.raw" in each.text]
    assert os.fsdecode(bytes(victim)) in mail_received.text
    assert "block 5" in mail_received.text


def test_configured_root_that_is_not_there_is_mailed(integrity: Box, tmp_path: Path) -> None:
    """The service tells it once, works on the other roots, and takes the folder up when it is there."""
    root, absent = plant(tmp_path / "root", 10), tmp_path / "photos"
    roots = "".join(f'[[root]]\npath = "{path}"\nsettle = "1s"\n' for path in (root, absent))
    with SmtpSink() as sink:
        mail = mail_toml(sink.port)
        integrity.configure(f'{roots}[schedule]\n{NEVER}\n{mail}[alerts]\ngroup = "0s"\n')
        with Service(integrity) as service:
            service.wait_begun()
            wait_until(lambda: bool(sink.received), "a mail")
            integrity.run("status", expect=3)
            plant(absent, 5)
            assert 15 == integrity.summary("scan", expect=0)["files_known"]  # the service may have recorded them before
            integrity.run("status", expect=0)
            service.stop()
    assert str(absent) in sink.received[0].text
    assert "Nothing of it is recorded" in sink.received[0].text


def test_file_that_was_touched_is_verified_while_the_window_is_open(integrity: Box, tmp_path: Path) -> None:
    """All was verified already; the watcher says nothing of a chmod, but a scan does."""
    root = plant(tmp_path / "root", 30)
    age(*(one for one in root.rglob("*") if one.is_file()))
    integrity.configure(f'[[root]]\npath = "{root}"\n[schedule]\n{ALWAYS}\n')
    with Service(integrity) as service:
        service.wait_begun()
        wait_until(lambda: integrity.get_object("root", "status")["files_never_verified"] == 0, "all to be verified")
        touched = next(one for one in root.rglob("*") if one.is_file())
        touched.chmod(0o600)
        integrity.run("scan", expect=0)
        wait_until(lambda: integrity.get_object("root", "status")["files_suspect"] == 0, "it to be verified")
        last = integrity.get_object("root", "status")["last_scrub"]
        service.stop()
    assert isinstance(last, dict)
    assert last["bytes_read"] == touched.stat().st_size


def test_jobs_are_handed_over_and_answered(integrity: Box, tmp_path: Path) -> None:
    """
    A scan and a scrub by command are done by the service, with the summary and the exit code of their own.

    One that waits for a root that another one borrows says that a comparison goes before it, and since when.
    """
    root = plant(tmp_path / "root", 30)
    integrity.configure(f'[[root]]\npath = "{root}"\n[schedule]\n{NEVER}\n')
    with Service(integrity) as service:
        service.wait_begun()
        plant(root / "more", 12)
        scan = integrity.run("--json", "scan", expect=0)
        scrub = integrity.run("--json", "scrub", root / "more", expect=0)
        assert {"new": 12, "not_due": 30} == tallies(scan)
        assert {"verified": 12} == tallies(scrub)
        assert 2 == service.log.count("control.submit")

        began = int(time.time())
        connected = connect(bytes(integrity.home / "run" / "control.sock"))
        assert connected is not None
        with DaemonClient(connected) as borrower:
            borrower.send(LendRoots((bytes(root),)))
            service.wait_status("compare of")
            with Running(integrity, "--json", "scan", root) as running:
                waiting = json.loads(running.read_output())
                borrower.send(StopJob())
                assert 0 == running.finish().code
        service.stop()
    (ahead,) = waiting["ahead"]
    assert ("waiting", "compare", str(root)) == (waiting["type"], ahead["job"], ahead["root"])
    assert began - 1 <= datetime.fromisoformat(ahead["started_at"]).timestamp() <= time.time()


def test_questions_and_decisions_need_not_wait(integrity: Box, tmp_path: Path) -> None:
    """Status, findings, ack and accept are at once while a large file is being scrubbed, which goes on."""
    root = plant(tmp_path / "root", 5)
    (root / "large.bin").write_bytes(os.urandom(96 * MIB))
    integrity.configure(f'[[root]]\npath = "{root}"\npolicy = "archive"\n[schedule]\n{ALWAYS}\n[pace]\nrate = "8MiB"\n')
    age(root / "large.bin")
    integrity.run("scan", expect=0)
    for name in ("d1/1.txt", "d2/2.txt"):
        (root / name).unlink()
    first, second = integrity.findings("scan", expect=1)
    with Service(integrity) as service:
        service.wait_status("scrub of")
        for args, code in (
            (("status",), 1),
            (("findings",), 1),
            (("ack", str(first["id"])), 0),
            (("accept", str(second["path"]), "--reason", "sold"), 0),
        ):
            integrity.run(*args, expect=code)
        assert "scrub of" in service.status
        assert not query(integrity, "SELECT 1 FROM file WHERE name = 'large.bin' AND verified_at IS NOT NULL")
        service.stop()
    assert ["acknowledged"] == [one["state"] for one in integrity.findings("findings")]


@pytest.mark.root
def test_hanging_disk_leaves_the_others_working(integrity: Box, faulty: FaultFS, tmp_path: Path) -> None:
    """While reads of one disk hang the root on another is watched, scanned and scrubbed, and commands are answered."""
    root = plant(tmp_path / "root", 5)
    plant(faulty.folder, 5)
    roots = "".join(f'[[root]]\npath = "{path}"\nsettle = "1s"\n' for path in (faulty.folder, root))
    integrity.configure(f"{roots}[schedule]\n{ALWAYS}\n")
    rule = faulty.add(Rule("read", is_hung=True))
    try:
        with Service(integrity) as service:
            wait_until(lambda: bool(faulty.get_fired()), "a read that hangs")
            unverified = "SELECT 1 FROM file WHERE verified_at IS NULL"
            wait_until(lambda: count_rows(integrity) == 5 and not query(integrity, unverified), "a scrub")
            (root / "new.txt").write_text("new")
            wait_until(lambda: count_rows(integrity) == 6, "a record", every_s=0.05)
            assert 6 == tallies(integrity.run("--json", "scrub", root, expect=0))["verified"]
            assert os.fsdecode(faulty.folder) in integrity.run("status").stdout
            faulty.clear(rule)
            wait_until(lambda: count_rows(integrity) == 11, "what hung", every_s=0.05)
            service.stop()
    finally:
        faulty.clear()
