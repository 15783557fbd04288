"""The service of a normal user, under his own systemd that goes on when he logs out (lingering)."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from support.bitrot import flip_bit
from support.cli import JsonObject
from support.loopfs import LoopFS
from support.planted import age
from support.systemdbox import PROGRAM, SystemdBox
from support.waiting import wait_until

UID = 4242
HOME = "/home/alice"
RUNTIME = f"/run/user/{UID}"
STATE = f"{HOME}/.local/state/integrity"

pytestmark = pytest.mark.root


@pytest.fixture
def box(ext4: LoopFS) -> Iterator[SystemdBox]:
    """Boot a machine with a user whose photos lie on a disk of its own; his systemd runs."""
    (ext4.folder / "photo.jpg").write_bytes(bytes(range(256)) * 12_000)
    age(ext4.folder / "photo.jpg")
    with SystemdBox({ext4.folder: f"{HOME}/photos"}) as box:
        box.let_program_in()
        box.run("useradd", "--uid", str(UID), "--home-dir", HOME, "--shell", "/bin/sh", "alice")
        box.run("chown", "-R", "alice:alice", HOME)
        box.run("systemctl", "unmask", "systemd-logind.service")
        box.run("systemctl", "start", "systemd-logind.service")
        box.run("loginctl", "enable-linger", "alice")
        wait_until(lambda: box.show(f"user@{UID}.service", "ActiveState") == "active", "the user's systemd")
        yield box


def run(box: SystemdBox, *command: str, expect: int | None = 0) -> str:
    """Run a command as the user, as after a login."""
    user = ["setpriv", f"--reuid={UID}", f"--regid={UID}", "--init-groups"]
    environment = [f"HOME={HOME}", f"XDG_RUNTIME_DIR={RUNTIME}", f"--chdir={HOME}"]
    return box.run(*user, "env", *environment, *command, expect=expect)


def ask(box: SystemdBox, *arguments: str) -> list[JsonObject]:
    """Run a command of the user's and return what it told."""
    told = run(box, str(PROGRAM), "--json", *arguments, expect=None)
    return [json.loads(line) for line in told.splitlines() if line.startswith("{")]


def test_setup_of_a_normal_user(box: SystemdBox, ext4: LoopFS) -> None:
    """His service runs, records and verifies his photos, and goes when it is uninstalled; his records stay."""
    said = run(box, str(PROGRAM), "setup", "--yes", "--root", f"{HOME}/photos", "--mail-to", "none")

    assert "To stop it:         systemctl --user disable --now integrity" in said
    assert "active" == run(box, "systemctl", "--user", "is-active", "integrity").strip()
    assert "No service" not in said
    everything = lambda: any(one.get("files") == 1 for one in ask(box, "status") if one["type"] == "root")  # noqa: E731
    wait_until(everything, "the first scan")
    flip_bit(ext4.folder / "photo.jpg", 2_000_000)
    found = [one for one in ask(box, "scrub", f"{HOME}/photos") if one["type"] == "finding"]
    assert [f"{HOME}/photos/photo.jpg"] == [one["path"] for one in found]

    run(box, str(PROGRAM), "service", "uninstall", "--user")
    assert "inactive" == run(box, "systemctl", "--user", "is-active", "integrity", expect=None).strip()
    assert "catalog.db" in run(box, "ls", STATE)
    assert f"{HOME}/.config/integrity/integrity.toml" in run(box, "find", f"{HOME}/.config", "-type", "f")
    assert "" == run(box, "find", f"{HOME}/.config/systemd", "!", "-type", "d")
