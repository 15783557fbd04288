"""
A real sshd on the loopback, with keys and a home folder of its own.

Nothing of the machine's own ssh is used or changed: the client finds config, key and known hosts below ``home``.
"""

from __future__ import annotations

import getpass
import os
import shutil
import signal
import subprocess
from contextlib import suppress
from pathlib import Path
from urllib.parse import quote

import pytest

from support.machine import need_programs
from support.programs import sh
from support.servers import free_port
from support.waiting import wait_until

_SSHD = "/usr/sbin/sshd"  # it must be called by its whole path
_PORTS_TRIED = 5

SFTP_ONLY = "ForceCommand internal-sftp"
"""The line of sshd_config by which there is no shell."""


class SshBox:
    """
    sshd in the foreground: ``with SshBox(folder) as box: ... box.url(tree)``.

    Args:
        folder: for its keys, its log and the client's ``home``.
        options: lines of sshd_config that go first: ``ForceCommand internal-sftp``, say.
    """

    def __init__(self, folder: Path, *options: str) -> None:
        self.folder = folder
        self.home = folder / "home"
        self.options = list(options)
        self.user = getpass.getuser()
        self.port = free_port()
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> SshBox:
        # sshd drops its rights into this folder; without it, it does not start.
        if os.geteuid() == 0:
            Path("/run/sshd").mkdir(mode=0o755, exist_ok=True)
        (self.home / ".ssh").mkdir(parents=True, mode=0o700)
        key = self.home / ".ssh" / "id_ed25519"
        sh("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", key)
        (self.folder / "authorized_keys").write_bytes(key.with_suffix(".pub").read_bytes())
        self.make_host_key()
        self.know()
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def url(self, path: Path | bytes, *, port: int | None = None) -> str:
        """Write the URL of a folder on it, or through another port."""
        return f"ssh://{self.user}@127.0.0.1:{port or self.port}{quote(os.fsencode(path))}"

    def make_host_key(self) -> None:
        """Make another host key, as if another machine stood there."""
        for name in ("host", "host.pub"):
            (self.folder / name).unlink(missing_ok=True)
        sh("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", self.folder / "host")

    def know(self) -> None:
        """Have the client know the host key, whatever the port."""
        words = (self.folder / "host.pub").read_text(encoding="ascii").split()[:2]
        (self.home / ".ssh" / "known_hosts").write_text(f"127.0.0.1 {' '.join(words)}\n", encoding="ascii")

    def start(self) -> None:
        """Start sshd and wait until it listens; on another port if somebody else took the one that was free."""
        for _ in range(_PORTS_TRIED):
            if self._try_to_start():
                return
            self.port = free_port()
        raise AssertionError((self.folder / "log").read_text(encoding="utf-8"))

    def _try_to_start(self) -> bool:
        config = self.folder / "sshd_config"
        lines = [
            *self.options,
            f"Port {self.port}",
            "ListenAddress 127.0.0.1",
            f"HostKey {self.folder / 'host'}",
            f"AuthorizedKeysFile {self.folder / 'authorized_keys'}",
            "PidFile none",
            "PermitRootLogin prohibit-password",
            "PasswordAuthentication no",
            "KbdInteractiveAuthentication no",
            "UsePAM no",
            "StrictModes no",
        ]
        if not any(line.startswith("Subsystem") for line in lines):  # may be said once only
            lines.append("Subsystem sftp internal-sftp")
        config.write_text("\n".join(lines) + "\n", encoding="utf-8")
        log = self.folder / "log"
        log.unlink(missing_ok=True)
        self._process = process = subprocess.Popen([_SSHD, "-D", "-f", config, "-E", log], stdin=subprocess.DEVNULL)
        # What answers on the port may be somebody else's server: sshd itself says that it has it.
        said = f"Server listening on 127.0.0.1 port {self.port}.".encode()
        wait_until(lambda: process.poll() is not None or said in _read_if_any(log), "sshd listens")
        return process.poll() is None

    def restart(self, *options: str) -> None:
        """Start it again with other options."""
        self.stop()
        self.options = list(options)
        self.start()

    def stop(self) -> None:
        """End sshd and all its connections."""
        process, self._process = self._process, None
        if process is not None:
            self._kill_below(process.pid)
            process.kill()
            process.wait()

    def kill_connections(self) -> None:
        """Kill all that serves connections, in mid-sentence; sshd itself goes on."""
        assert self._process is not None
        self._kill_below(self._process.pid)

    def find_connections(self) -> list[int]:
        """Find the processes that serve connections now."""
        return _find_children(self._process.pid) if self._process else []

    def _kill_below(self, pid: int) -> None:
        """Kill from the top, so that no program above has the time to say how one below ended."""
        family = _find_children(pid)
        for each in family:
            family += _find_children(each)  # those are come to, too
        for each in family:
            with suppress(ProcessLookupError):
                os.kill(each, signal.SIGKILL)


def make_sshbox(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *options: str) -> SshBox:
    """Make an sshd whose client is this process from now on; skip the test where there is none."""
    need_programs("sshd", "ssh-keygen")
    box = SshBox(tmp_path / "box", *options)
    monkeypatch.setenv("HOME", str(box.home))
    monkeypatch.delenv("SSH_AUTH_SOCK", raising=False)
    return box


def make_programs(folder: Path, *names: str, **scripts: str) -> str:
    """Make a folder of programs and scripts; return the option that has sshd look for them there and nowhere else."""
    folder.mkdir()
    for name in ("sh", "cat", *names):
        found = shutil.which(name)
        assert found is not None
        (folder / name).symlink_to(found)
    for name, text in scripts.items():
        (folder / name).write_text(f"#!/bin/sh\n{text}\n", encoding="utf-8")
        (folder / name).chmod(0o755)
    return f"SetEnv PATH={folder}"


def replace_programs(folder: Path, *, find: str = "", md5sum: str = "") -> str:
    """
    Put programs of our own before the machine's; what they are asked for as a test, the machine's answer.

    Args:
        folder: for them.
        find: a script; the machine's where it is empty.
        md5sum: likewise.

    Returns:
        The option that has sshd find them.
    """
    tests = {"find": ('[ "$2" = -maxdepth ]', find), "md5sum": ("[ $# -lt 2 ]", md5sum)}
    scripts = {
        name: f'{test} && exec {shutil.which(name)} "$@"\n{script}' for name, (test, script) in tests.items() if script
    }
    return make_programs(folder, *{"xargs", *tests} - {*scripts}, **scripts)


def _read_if_any(path: Path) -> bytes:
    return path.read_bytes() if path.exists() else b""


def _find_children(pid: int) -> list[int]:
    try:
        tasks = os.listdir(f"/proc/{pid}/task")
        found = []
        for task in tasks:
            with open(f"/proc/{pid}/task/{task}/children", encoding="ascii") as file:
                found += [int(word) for word in file.read().split()]
    except (FileNotFoundError, ProcessLookupError):
        return []  # it has ended meanwhile
    return found
