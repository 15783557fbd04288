"""The gate beside the service: its scan goes first, its verdict is its own, and what closes it is mailed."""

from __future__ import annotations

import os
from pathlib import Path

from support.cli import Box
from support.documents import encrypt, make_documents
from support.planted import age, plant, plant_path
from support.running import Running
from support.service import Service
from support.smtpsink import SmtpSink, mail_toml
from support.stored import query
from support.waiting import wait_until

NEVER = 'scrub = "0 0 29 feb *"'
ALWAYS = 'scrub = "00:00-24:00"'
MIB = 1 << 20
"""A Python that starts on busy cores, a scan that is handed over, and a verdict."""


def test_scrub_of_the_service_makes_room_for_the_gate(integrity: Box, tmp_path: Path) -> None:
    """A hook at night meets the nightly scrub: it need not wait for the large file that is being read."""
    root = plant(tmp_path / "root", 30)
    (root / "large.bin").write_bytes(os.urandom(96 * MIB))
    age(root / "large.bin")
    integrity.configure(f'[[root]]\npath = "{root}"\n[schedule]\n{ALWAYS}\n[pace]\nrate = "4MiB"\n')
    integrity.run("scan", expect=0)
    with Service(integrity) as service:
        service.wait_status("scrub of")
        plant_path(root, 1).write_text("edited")

        [verdict] = integrity.run("--json", "gate", root, expect=0).of_type("gate")

        assert ("open", True) == (verdict["verdict"], verdict["is_first"])
        assert "control.submit" in service.log
        assert not query(integrity, "SELECT 1 FROM file WHERE name = 'large.bin' AND verified_at IS NOT NULL")
        plant_path(root, 2).write_text("edited")
        [verdict] = integrity.run("--json", "gate", root, expect=0).of_type("gate")
        assert 1 == verdict["files_rewritten"]
        service.stop()


def test_gate_does_not_wait_for_ever_for_what_somebody_asked_for(integrity: Box, tmp_path: Path) -> None:
    """Exit 4 that says what is being done; what it asked for is taken back."""
    root = plant(tmp_path / "root", 5)
    (root / "large.bin").write_bytes(os.urandom(64 * MIB))
    integrity.configure(f'[[root]]\npath = "{root}"\n[schedule]\n{NEVER}\n')
    with Service(integrity) as service:
        service.wait_begun()
        with Running(integrity, "scrub", "--rate", "2M", root):
            service.wait_status("scrub of")

            done = integrity.run("gate", root, "--wait", "1s", expect=4)

            assert f"is still at a scrub of {root}" in done.stderr
            wait_until(lambda: "waiting" not in service.status, "an empty queue")


def test_closed_gate_is_mailed_and_so_is_its_release(integrity: Box, tmp_path: Path) -> None:
    """The service tells what the command noticed: within a minute, or as here when it has done something else."""
    files = make_documents(tmp_path / "home", 200)
    with SmtpSink() as sink:
        mail = mail_toml(sink.port)
        integrity.configure(
            f'[[root]]\npath = "{tmp_path / "home"}"\n[schedule]\n{NEVER}\n{mail}[alerts]\ngroup = "0s"\n'
        )
        with Service(integrity) as service:
            service.wait_begun()
            integrity.run("-q", "gate", tmp_path / "home", expect=0)
            encrypt(files[:60], suffix=".locked", keeps_times=True)  # which a scan by itself takes for moved files
            integrity.run("gate", tmp_path / "home", expect=1)
            integrity.run("scan", expect=0)
            wait_until(lambda: bool(sink.received), "a mail")
            [told] = sink.received
            assert "1 backup blocked by suspicious changes in home" in str(told.mail["Subject"])
            assert "This looks like ransomware" in " ".join(told.text.split())
            assert f"{integrity.program} gate {tmp_path / 'home'}" in told.text

            integrity.run("gate", tmp_path / "home", "--release", "--reason", "it was me", expect=0)

            integrity.run("scan", expect=0)
            wait_until(lambda: len(sink.received) == 2, "the all-clear")
            service.stop()
