"""Run the systemd commands that install, start, stop and remove the unit."""

from __future__ import annotations

import os
import pwd
import shlex
import shutil
import subprocess
from collections.abc import Sequence
from typing import NamedTuple

from integrity.errors import AppError
from integrity.service.systemd.installed import Scope, systemctl
from integrity.service.systemd.units import UnitFile, find_names


class SystemdStep(NamedTuple):
    """A systemd command; ``is_optional``: its failure does not matter."""

    command: tuple[str, ...]
    is_optional: bool = False

    def __str__(self) -> str:
        return shlex.join(self.command)


def is_running(scope: Scope) -> bool:
    """Return whether the manager for this scope runs on this machine (sd_booted(3))."""
    if scope is Scope.SYSTEM:
        return os.path.isdir("/run/systemd/system")
    folder = os.environ.get("XDG_RUNTIME_DIR", "")
    return bool(folder) and os.path.exists(f"{folder}/systemd/private")


def steps_to_install(scope: Scope, units: Sequence[UnitFile]) -> list[SystemdStep]:
    """Return the commands to run after the files are written: for the user, the folders, and the unit."""
    if scope is Scope.USER:
        return [SystemdStep(("systemctl", "--user", "daemon-reload"))]
    places = {os.fsdecode(unit.path): os.path.basename(os.path.dirname(unit.path)) for unit in units}
    return [
        *(SystemdStep(("systemd-sysusers", place)) for place, folder in places.items() if folder == b"sysusers.d"),
        *(
            SystemdStep(("systemd-tmpfiles", "--create", place))
            for place, folder in places.items()
            if folder == b"tmpfiles.d"
        ),
        SystemdStep(("systemctl", "daemon-reload")),
    ]


def find_unwritable(folders: Sequence[bytes]) -> bytes | None:
    """Return the first folder that is missing, or that belongs to another user than the service's; None if all fit."""
    try:
        uid = pwd.getpwnam("integrity").pw_uid
    except KeyError:  # where its user was not made yet, nothing can be said
        return None
    return next((one for one in folders if not os.path.isdir(one) or os.stat(one).st_uid != uid), None)


def steps_to_start(scope: Scope, units: Sequence[UnitFile]) -> list[SystemdStep]:
    """Return the commands that enable the units and start the version just installed."""
    names = find_names(units)
    return [SystemdStep((*systemctl(scope), do, *names)) for do in ("enable", "restart")]


def steps_to_stop(scope: Scope, units: Sequence[UnitFile]) -> list[SystemdStep]:
    """Return the commands that stop the units before their files are removed."""
    return [SystemdStep((*systemctl(scope), "disable", "--now", *find_names(units)))]


def steps_to_forget(scope: Scope, units: Sequence[UnitFile]) -> list[SystemdStep]:
    """Return the commands to run after the files are removed."""
    forget = (*systemctl(scope), "reset-failed", *find_names(units))
    return [
        SystemdStep((*systemctl(scope), "daemon-reload")),
        SystemdStep(forget, is_optional=True),  # it fails if there is nothing to reset
    ]


def take(steps: Sequence[SystemdStep]) -> None:
    """
    Run commands in order.

    Raises:
        AppError: a command failed; the message has its output and the remaining commands.
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
