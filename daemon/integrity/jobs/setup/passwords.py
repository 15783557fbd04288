"""
Where the service finds the password of a repository of backups: what the environment of the setup names, written down.

The service has none of that environment. I1: no password is ever written, only the name of a file, or a command.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import NamedTuple

from integrity.errors import ConfigError


class PasswordSource(NamedTuple):
    """The settings of a copy that give the password; both empty: there is none."""

    password_file: bytes = b""
    password_command: str = ""


class _Variables(NamedTuple):
    file: str
    command: str
    password: str


_OF_SCHEME = {
    "restic": _Variables("RESTIC_PASSWORD_FILE", "RESTIC_PASSWORD_COMMAND", "RESTIC_PASSWORD"),
    "borg": _Variables("", "BORG_PASSCOMMAND", "BORG_PASSPHRASE"),
}


def has_password(url: str) -> bool:
    """Return whether a copy may need a password."""
    return url.partition(":")[0] in _OF_SCHEME


def find_password_source(url: str, environment: Mapping[str, str] = os.environ) -> PasswordSource:
    """
    Return what is to be written of the password of a copy.

    Raises:
        ConfigError: the service would have none: it is in the environment only, or restic, which needs one, has none.
    """
    scheme = url.partition(":")[0]
    names = _OF_SCHEME.get(scheme)
    if names is None:
        return PasswordSource()
    file, command = environment.get(names.file, ""), environment.get(names.command, "")
    if file or command:
        return PasswordSource(os.path.abspath(os.fsencode(file)) if file else b"", "" if file else command)
    if scheme == "restic" or environment.get(names.password):
        way = f"{names.file}=FILE" if names.file else f"{names.command}='cat FILE'"
        raise ConfigError(
            f"the service would not have its password; put that into a file, and run this again with {way}"
        )
    return PasswordSource()
