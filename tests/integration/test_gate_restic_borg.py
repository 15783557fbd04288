"""
The gate before real backup tools, as the README shows it: nothing is copied while it is closed.

Each tool runs as its user would run it, from a script or by a hook of its own.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from support.cli import Box
from support.documents import encrypt, make_documents
from support.machine import need_programs
from support.planted import age
from support.shapes import damage

COUNT = 60
_TIMEOUT_S = 60.0


class Desk:
    """
    A folder of documents, a place for backups, and a shell in which ``integrity`` is found.

    Attributes:
        source: the folder.
        place: where backups go; empty at first.
    """

    def __init__(self, folder: Path, integrity: Box) -> None:
        self.integrity = integrity
        self.source, self.place, self._programs = folder / "docs", folder / "backups", folder / "bin"
        age(*make_documents(self.source, COUNT))
        self.place.mkdir()
        self._programs.mkdir()
        program = self._programs / "integrity"
        program.write_text(f'#!/bin/sh\nexec {sys.executable} -m integrity "$@"\n')
        program.chmod(0o755)

    @property
    def environment(self) -> dict[str, str]:
        """The environment of the tools: a home and caches of their own, and passwords that are no secrets."""
        mine = self.integrity.environment
        own = {"BORG_BASE_DIR": str(self.place.parent / "borg-home"), "BORG_REPO": str(self.place / "borg")}
        restic = {"RESTIC_REPOSITORY": str(self.place / "restic"), "RESTIC_PASSWORD": "x"}
        caches = {"RESTIC_CACHE_DIR": str(self.place.parent / "restic-cache"), "INTEGRITY_QUIET": "1"}
        return {**mine, **own, **restic, **caches, "PATH": f"{self._programs}:{mine['PATH']}", "LC_ALL": "C.UTF-8"}

    def sh(self, script: str) -> subprocess.CompletedProcess[str]:
        """Run a line of a shell, with DOCS and PLACE set."""
        return subprocess.run(
            ["sh", "-c", script],
            env=self.environment | {"DOCS": str(self.source), "PLACE": str(self.place)},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=_TIMEOUT_S,
            check=False,
        )

    def ask(self, script: str) -> str:
        """Run a line that must succeed, and return what it printed."""
        done = self.sh(script)
        assert 0 == done.returncode, done.stdout + done.stderr
        return done.stdout

    def damage(self) -> None:
        """Change a byte of a document under its old time, as a failing disk or a broken program does."""
        damage(sorted(self.source.rglob("*.docx"))[0], 100)

    def hold(self) -> None:
        """Let ransomware come to the documents."""
        encrypt(sorted(self.source.rglob("*.*"))[:30], suffix=".locked")


@pytest.fixture
def desk(tmp_path: Path, integrity: Box) -> Desk:
    """Make one."""
    return Desk(tmp_path, integrity)


def check(desk: Desk, backup: str, count: Callable[[], int], *, gate: str = "integrity -q gate $DOCS && ") -> None:
    """
    Back up in order, with damage, with damage that was settled, and after ransomware: only twice something is copied.

    Args:
        desk: with a repository that is ready.
        backup: makes one backup.
        count: how many backups there are.
        gate: stands before it; empty where the tool calls the gate itself.
    """
    desk.ask(gate + backup)
    assert 1 == count()
    desk.damage()
    for _ in range(2):
        refused = desk.sh(gate + backup)
        assert 0 != refused.returncode
        assert "1 damaged file" in refused.stdout + refused.stderr
        assert 1 == count()
    path = desk.integrity.findings("findings")[0]["path"]
    desk.integrity.run("accept", str(path), "--reason", "it was me", expect=0)
    desk.ask(gate + backup)
    assert 2 == count()
    desk.hold()
    refused = desk.sh(gate + backup)
    assert 0 != refused.returncode
    assert "This looks like ransomware" in " ".join((refused.stdout + refused.stderr).split())
    assert 2 == count()


def test_restic(desk: Desk) -> None:
    """No snapshot is made of a damaged tree."""
    need_programs("restic")
    desk.ask("restic init")

    check(desk, "restic -q backup $DOCS", lambda: desk.ask("restic snapshots --json").count('"tree"'))


@pytest.mark.long
def test_borg(desk: Desk) -> None:
    """No archive is made of a damaged tree."""
    need_programs("borg")
    desk.ask("borg init -e none")

    check(desk, "borg create ::{now:%H%M%S%f} $DOCS", lambda: len(desk.ask("borg list --short").split()))


@pytest.mark.long
def test_borgmatic(desk: Desk) -> None:
    """Its own hook asks the gate; what the gate says is in its log."""
    need_programs("borg", "borgmatic")
    desk.ask("borg init -e none")
    config = desk.place.parent / "borgmatic.yaml"
    config.write_text(
        "location:\n"
        f"    source_directories:\n        - {desk.source}\n"
        f"    repositories:\n        - {desk.place / 'borg'}\n"
        "storage:\n    archive_name_format: '{now:%H%M%S%f}'\n"
        "hooks:\n"
        f"    before_backup:\n        - integrity -q gate {desk.source}\n"
    )
    command = f"borgmatic --config {config} --verbosity 1 create"

    check(desk, command, lambda: len(desk.ask("borg list --short").split()), gate="")


def test_rclone(desk: Desk) -> None:
    """The copy stays as it was: what is encrypted does not replace what is not."""
    need_programs("rclone")
    desk.ask("integrity -q gate $DOCS && rclone sync $DOCS $PLACE/copy")
    before = {path.name: path.read_bytes() for path in (desk.place / "copy").rglob("*.*")}
    desk.hold()

    refused = desk.sh("integrity -q gate $DOCS && rclone sync $DOCS $PLACE/copy")

    assert 1 == refused.returncode
    assert before == {path.name: path.read_bytes() for path in (desk.place / "copy").rglob("*.*")}
    assert COUNT == len(before)


def test_snapraid(desk: Desk) -> None:
    """Parity goes on protecting the files as they were: they can be brought back."""
    need_programs("snapraid")
    config = desk.place / "snapraid.conf"
    place = desk.place
    config.write_text(
        f"parity {place}/parity\ncontent {place}/content\ncontent {place}/content2\ndata d1 {desk.source}/\n"
    )
    tool = f"snapraid --test-skip-device -c {config}"
    desk.ask(f"integrity -q gate $DOCS && {tool} sync")
    victim = sorted(desk.source.rglob("*.docx"))[0]
    before = victim.read_bytes()
    desk.hold()

    refused = desk.sh(f"integrity -q gate $DOCS && {tool} sync")

    assert 1 == refused.returncode
    shutil.rmtree(victim.parent)
    desk.ask(f"{tool} fix")
    assert before == victim.read_bytes()
