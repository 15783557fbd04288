"""What systemd is told about the unit: read it anew, start it with the machine, start it now, let go of it."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
from collections.abc import Sequence
from typing import NamedTuple

from integrity.errors import AppError
from integrity.service.systemd.units import UNIT, Scope, UnitFile


class SystemdStep(NamedTuple):
    """A command of systemd's; ``is_optional`` if it does not matter when it fails."""

    command: tuple[str, ...]
    is_optional: bool = False

    def __str__(self) -> str:
        return shlex.join(self.command)


def is_running(scope: Scope) -> bool:
    """Tell whether the manager that the unit is for runs on this machine (sd_booted(3)), and listens."""
    if scope is Scope.SYSTEM:
        return os.path.isdir("/run/systemd/system")
    folder = os.environ.get("XDG_RUNTIME_DIR", "")
    return bool(folder) and os.path.exists(f"{folder}/systemd/private")


def steps_to_install(scope: Scope, units: Sequence[UnitFile]) -> list[SystemdStep]:
    """List what must follow when the files are written: the user, the folders, the unit itself."""
    if scope is Scope.USER:
        return [SystemdStep(("systemctl", "--user", "daemon-reload"))]
    _, sysusers, tmpfiles = (os.fsdecode(unit.path) for unit in units)
    return [
        SystemdStep(("systemd-sysusers", sysusers)),
        SystemdStep(("systemd-tmpfiles", "--create", tmpfiles)),
        SystemdStep(("systemctl", "daemon-reload")),
    ]


def steps_to_start(scope: Scope) -> list[SystemdStep]:
    """List what has the service started now, in the version that was just installed, and whenever it should run."""
    return [SystemdStep((*_systemctl(scope), "enable", UNIT)), SystemdStep((*_systemctl(scope), "restart", UNIT))]


def steps_to_stop(scope: Scope) -> list[SystemdStep]:
    """List what ends the service, before its files are removed."""
    return [SystemdStep((*_systemctl(scope), "disable", "--now", UNIT))]


def steps_to_forget(scope: Scope) -> list[SystemdStep]:
    """List what must follow when the files are gone."""
    return [
        SystemdStep((*_systemctl(scope), "daemon-reload")),
        SystemdStep(
            (*_systemctl(scope), "reset-failed", UNIT), is_optional=True
        ),  # it fails when nothing is left to be reset
    ]


def take(steps: Sequence[SystemdStep]) -> None:
    """
    Run commands, one after the other.

    Raises:
        AppError: one failed; with its words, and what is left to be done.
    """
    for number, step in enumerate(steps):
        if shutil.which(step.command[0]) is None:
            complaint = "there is no such program"
        else:
            done = subprocess.run(step.command, stdin=subprocess.DEVNULL, capture_output=True, check=False)
            if done.returncode == 0 or step.is_optional:
                continue
            complaint = done.stderr.decode(errors="replace").strip() or f"exit code {done.returncode}"
        left = "; ".join(str(one) for one in steps[number:])
        raise AppError(f"{step}: {complaint}; mend that, then run: {left}")


def _systemctl(scope: Scope) -> tuple[str, ...]:
    return ("systemctl", "--user") if scope is Scope.USER else ("systemctl",)
