"""The program that a unit starts: where it is, whether its user can start it, who could put another in its place."""

from __future__ import annotations

import os
import stat
import sys
import sysconfig
from collections.abc import Iterator

from integrity.errors import ConfigError, show_path

_UNQUOTABLE = frozenset("'\"\\")  # systemd takes no program with one of these in its path


def find_program() -> bytes:
    """
    Return the absolute path of the ``integrity`` that belongs to the running interpreter.

    Raises:
        ConfigError: there is none, as when the package was not installed.
    """
    places = [
        os.path.dirname(sys.executable),
        sysconfig.get_path("scripts"),
        sysconfig.get_path("scripts", "posix_user"),
    ]
    for place in places:
        program = os.path.join(os.path.abspath(place), "integrity")
        if os.access(program, os.X_OK):
            return os.fsencode(program)
    raise ConfigError(f"no program `integrity` beside {sys.executable}: install the package there, with pip, say")


def quote(program: bytes) -> bytes:
    """Write a path as ExecStart= takes it (systemd.service(5), "Command lines")."""
    try:
        text = program.decode("utf-8")
    except UnicodeDecodeError:
        text = "\n"
    if not text.isprintable() or _UNQUOTABLE & set(text):
        raise ConfigError(
            f"{show_path(program)}: systemd starts no program with quotes, backslashes or unprintable characters in its"
            " path; install integrity elsewhere"
        )
    quoted = program.replace(b"%", b"%%")
    return quoted if text.replace("/", "").replace("-", "").replace(".", "").isalnum() else b'"' + quoted + b'"'


def find_dangers(program: bytes) -> list[str]:
    """Say who, besides root, could have a service that reads every file run something else; for people."""
    dangers = []
    for place in _walk_up(program):
        status = os.stat(place)
        if status.st_uid == 0 and (not status.st_mode & stat.S_IWOTH or status.st_mode & stat.S_ISVTX):
            continue
        who = f"user {status.st_uid}" if status.st_uid else "everybody"
        dangers.append(
            f"{show_path(place)}: {who} can change what the service runs, and the service can read every file of this"
            " machine; install integrity where only root can write"
        )
    return dangers


def require_reachable(program: bytes) -> None:
    """
    Refuse a program that the service's user can't start: below a closed home, say.

    CAP_DAC_READ_SEARCH does not help: the unit's user has it only once the program runs.

    Raises:
        ConfigError: a folder on the way is closed to others.
    """
    for place in _walk_up(program):
        if not os.stat(place).st_mode & stat.S_IXOTH:
            raise ConfigError(
                f"{show_path(place)}: closed to others, so the service's user can't start {show_path(program)};"
                " install integrity elsewhere, below /opt, say, and run `service install` of that one"
            )


def _walk_up(program: bytes) -> Iterator[bytes]:
    """Yield a program, where its links lead, and every folder above these, once each."""
    seen = set()
    for place in (program, os.path.realpath(program), os.path.realpath(os.fsencode(sys.executable))):
        while place not in seen:
            seen.add(place)
            yield place
            place = os.path.dirname(place)
