"""Find the installed unit of the service, and tell whether it is stopped: what `status` needs to know of systemd."""

import os
import shlex
from enum import StrEnum
from typing import NamedTuple

from integrity.config.places import default_catalog_path, find_user_folder

PACKAGED = b"/usr/lib/"
"""Where packages put what an administrator puts below /etc."""

_SYSTEM_FOLDER = b"/var/lib/integrity"
_PATIENCE_S = 2.0


class Scope(StrEnum):
    """The kind of service."""

    SYSTEM = "system"  # its own user, started at boot
    USER = "user"  # the installing user, started with the login session


def find_packaged(root: bytes = b"/") -> bytes | None:
    """Return the path of the service's unit if a package of the distribution has installed it."""
    path = os.path.join(os.path.abspath(root), PACKAGED.lstrip(b"/") + b"systemd/system/integrity.service")
    return path if os.path.lexists(path) else None


def has_unit(scope: Scope) -> bool:
    """Return whether the unit of the service is installed, by whomever."""
    if scope is Scope.SYSTEM and find_packaged() is not None:
        return True
    folder = b"/etc" if scope is Scope.SYSTEM else find_user_folder("XDG_CONFIG_HOME", b".config")
    return os.path.lexists(folder + b"/systemd/" + scope.value.encode() + b"/integrity.service")


class StoppedUnit(NamedTuple):
    """The installed unit of a service that does not answer. ``failed``: it was not stopped, it ended by itself."""

    scope: Scope
    failed: bool

    @property
    def commands(self) -> tuple[str, ...]:
        """Return what shows why it failed, and what starts it."""
        command = shlex.join(systemctl(self.scope))
        user = " --user" if self.scope is Scope.USER else ""
        start = f"{command} {'restart' if self.failed else 'start'} integrity"
        return (f"journalctl{user} -u integrity -n 20", start) if self.failed else (start,)


def find_stopped_unit(catalog: bytes) -> StoppedUnit | None:
    """Return the unit of the service that should serve a default catalog; None if none is installed for it."""
    scope = Scope.SYSTEM if os.path.dirname(catalog) == _SYSTEM_FOLDER else Scope.USER
    if scope is Scope.USER and catalog != os.path.realpath(default_catalog_path()):
        return None
    if not has_unit(scope):
        return None
    import subprocess  # here, for every `status` asks, and few have a unit that is stopped

    try:
        asking = (*systemctl(scope), "is-failed", "--quiet", "integrity")
        done = subprocess.run(asking, stdin=subprocess.DEVNULL, capture_output=True, check=False, timeout=_PATIENCE_S)
    except (FileNotFoundError, subprocess.TimeoutExpired):
        return StoppedUnit(scope, failed=False)
    return StoppedUnit(scope, failed=done.returncode == 0)


def systemctl(scope: Scope) -> tuple[str, ...]:
    """Return the command that talks to the manager for this scope."""
    return ("systemctl", "--user") if scope is Scope.USER else ("systemctl",)
