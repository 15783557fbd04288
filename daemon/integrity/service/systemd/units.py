"""
Write and remove the unit files, check the program that they start, and run systemd's commands.

Each file contains a checksum of itself in its header, so a file from another version differs from one that was edited
or masked. Edited files are neither replaced without ``--force`` nor deleted.
"""

from __future__ import annotations

import hashlib
import os
import pwd
import shlex
import shutil
import stat
import subprocess
import sys
import sysconfig
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from enum import StrEnum
from importlib import resources
from typing import NamedTuple

from integrity import program
from integrity.config.places import find_user_folder
from integrity.errors import AppError, ConfigError, show_path
from integrity.files.replace_file import make_partial_name
from integrity.service.systemd.installed import PACKAGED, Scope, systemctl

_UNQUOTABLE = frozenset("'\"\\")  # systemd accepts none of these in a path


def find_program() -> bytes:
    """
    Return the absolute path of the ``integrity`` that belongs to the running interpreter.

    Raises:
        ConfigError: there is none, for example because the package is not installed.
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
    """Return a path in the syntax of ExecStart= (systemd.service(5), "Command lines")."""
    text = _decode(program)
    if text is None:
        raise ConfigError(
            f"{show_path(program)}: systemd starts no program with quotes, backslashes or unprintable characters in its"
            " path; install integrity elsewhere"
        )
    is_plain = text.replace("/", "").replace("-", "").replace(".", "").isalnum()
    return program.replace(b"%", b"%%") if is_plain else _in_quotes(program)


def _decode(path: bytes) -> str | None:
    """Return a path as text; None if no unit can have it."""
    try:
        text = path.decode("utf-8")
    except UnicodeDecodeError:
        return None
    return text if text.isprintable() and not _UNQUOTABLE & set(text) else None


def _in_quotes(path: bytes) -> bytes:
    return b'"' + path.replace(b"%", b"%%") + b'"'


def find_dangers(program: bytes) -> list[str]:
    """Return warnings about users other than root who could replace the program of a service that reads every file."""
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
    Refuse a program that the service's user can't start, for example in a closed home folder.

    CAP_DAC_READ_SEARCH does not help: the user has it only once the program runs.

    Raises:
        ConfigError: a folder on the path is closed to others.
    """
    for place in _walk_up(program):
        if not os.stat(place).st_mode & stat.S_IXOTH:
            raise ConfigError(
                f"{show_path(place)}: closed to others, so the service's user can't start {show_path(program)};"
                " install integrity elsewhere, below /opt, say, and run `service install` of that one"
            )


def _walk_up(program: bytes) -> Iterator[bytes]:
    """Yield the program, its link target, the interpreter, and every folder above them, once each."""
    seen = set()
    for place in (program, os.path.realpath(program), os.path.realpath(os.fsencode(sys.executable))):
        while place not in seen:
            seen.add(place)
            yield place
            place = os.path.dirname(place)


_PACKAGE = "integrity.systemd"
_REPAIR = "integrity-repair.conf"
_PLACES = "integrity-web-places.conf"
_CATALOG = "integrity-catalog.conf"
_WRITABLE = (b"/var/lib/integrity", b"/var/cache/integrity", b"/run/integrity")
"""What the unit of the service may write without being told."""

_HIDDEN = (b"/srv", b"/mnt", b"/media", b"/boot")
"""What the unit of the page hides by InaccessiblePaths=."""

_HOMES = (b"/home", b"/root", b"/run/user")
"""What it hides by ProtectHome=."""
_CHECKSUM = b"# Checksum of what follows: "
_HEAD = b"# Written by `integrity service install`, which neither replaces nor removes what was edited here.%s\n"
_DROP_IN = b"\n# Rather add a drop-in: systemctl edit %s"


class UnitState(StrEnum):
    """The state of an installed file."""

    ABSENT = "absent"
    CURRENT = "current"  # exactly what would be written
    OLDER = "older"  # written by another version, or for another program path
    EDITED = "edited"  # or masked, or not ours


class FileAction(StrEnum):
    """What was done to a file."""

    WRITTEN = "written"
    UNCHANGED = "unchanged"
    REMOVED = "removed"
    KEPT_ASIDE = "kept_aside"  # an edited file, renamed


class UnitFile(NamedTuple):
    """A file to install: absolute path and content."""

    path: bytes
    content: bytes


class UnitChange(NamedTuple):
    """What was done to the file at ``path``; ``aside``: new path of the edited file."""

    path: bytes
    action: FileAction
    aside: bytes = b""


def make_units(
    scope: Scope,
    program: bytes,
    root: bytes = b"/",
    *,
    has_page: bool = False,
    has_hub: bool = False,
    page_reads: Sequence[bytes] = (),
    repair_in: Sequence[bytes] = (),
    writes: Sequence[bytes] = (),
) -> tuple[UnitFile, ...]:
    """
    Return the files of a service, its unit first.

    Args:
        root: folder in which to install; the contents assume that it is ``/``.
        has_page: also those of the page; only the system's service has one.
        has_hub: also those of the hub, likewise.
        page_reads: absolute paths of folders and files that the page reads; with a drop-in if its unit hides one.
        repair_in: absolute paths of folders in which the system's service may repair files; with a drop-in of its unit.
        writes: absolute paths of folders that it writes to; with a drop-in if its unit forbids that.

    Raises:
        ConfigError: systemd can't start a program, or open a folder, with such a path.
    """
    sources = {
        Scope.SYSTEM: {
            "integrity.service": b"/etc/systemd/system/integrity.service",
            "integrity.sysusers.conf": b"/etc/sysusers.d/integrity.conf",
            "integrity.tmpfiles.conf": b"/etc/tmpfiles.d/integrity.conf",
            "integrity-smart.socket": b"/etc/systemd/system/integrity-smart.socket",
            "integrity-smart@.service": b"/etc/systemd/system/integrity-smart@.service",
        },
        Scope.USER: {
            "integrity-user.service": find_user_folder("XDG_CONFIG_HOME", b".config")
            + b"/systemd/user/integrity.service"
        },
    }
    page = {
        "integrity-web.service": b"/etc/systemd/system/integrity-web.service",
        "integrity-web.sysusers.conf": b"/etc/sysusers.d/integrity-web.conf",
    }
    hub = {
        "integrity-hub.service": b"/etc/systemd/system/integrity-hub.service",
        "integrity-hub.sysusers.conf": b"/etc/sysusers.d/integrity-hub.conf",
    }
    repair = {_REPAIR: b"/etc/systemd/system/integrity.service.d/repair.conf"}
    catalog = {_CATALOG: b"/etc/systemd/system/integrity.service.d/catalog.conf"}
    closed = find_closed(writes) if scope is Scope.SYSTEM else []
    lines = {
        _REPAIR: _list_writable(repair_in, _say_how_to_repair()),
        _CATALOG: _list_writable(closed, "so the service could not write there; choose another"),
        _PLACES: _list_readable(page_reads),
    }
    places = {_PLACES: b"/etc/systemd/system/integrity-web.service.d/places.conf"} if lines[_PLACES] else {}
    chosen = sources[scope] | (catalog if closed else {})
    chosen |= (page | places if has_page else {}) | (hub if has_hub else {}) | (repair if repair_in else {})
    return tuple(
        _place(root, place, _render(name, scope, program, lines.get(name, b""))) for name, place in chosen.items()
    )


def _place(root: bytes, place: bytes, content: bytes) -> UnitFile:
    """Return a file where it is to be installed, or where a package of the distribution has installed it."""
    unit = UnitFile(os.path.join(os.path.abspath(root), place.lstrip(b"/")), content)
    packaged = UnitFile(unit.path.replace(b"/etc/", PACKAGED, 1), content)
    is_packaged = find_state(packaged) is UnitState.CURRENT and find_state(unit) is UnitState.ABSENT
    return packaged if is_packaged else unit


class PageUnits(NamedTuple):
    """What of the system's page is there: it is started at boot; the service may repair files at its request."""

    has_page: bool = False
    may_repair: bool = False


def find_page_units() -> PageUnits:
    folder = b"/etc/systemd/system/"
    return PageUnits(
        os.path.islink(folder + b"multi-user.target.wants/integrity-web.service"),
        os.path.lexists(folder + b"integrity.service.d/repair.conf"),
    )


def _say_how_to_repair() -> str:
    return f"so the service can't be allowed to repair there; repair as root, with: {program.command('repair FILE')}"


def find_closed(folders: Sequence[bytes]) -> list[bytes]:
    """Return the folders that the system's service can't write without a drop-in."""
    return [folder for folder in folders if not any(_is_in(folder, one) for one in _WRITABLE)]


def _list_writable(folders: Sequence[bytes], remedy: str) -> bytes:
    """Return the settings that let a service write to folders; one that is not there is left out at its start."""
    for folder in folders:
        if _decode(folder) is None:
            raise ConfigError(
                f"{show_path(folder)}: a unit can't name a folder with quotes, backslashes or unprintable characters in"
                f" its path, {remedy}"
            )
    return b"\n".join(b"ReadWritePaths=" + _in_quotes(b"-" + folder) for folder in folders)


def _list_readable(places: Sequence[bytes]) -> bytes:
    """Return the settings that show places below hidden folders; empty if nothing is hidden."""
    shown = [place for place in places if any(_is_in(place, folder) for folder in (*_HIDDEN, *_HOMES))]
    if not shown:
        return b""
    for place in shown:
        if _decode(place) is None:
            raise ConfigError(
                f"{show_path(place)}: a unit can't name a place with quotes, backslashes or unprintable characters in"
                " its path, so the page could not read it; move it"
            )
    opened = [folder for folder in _HIDDEN if any(_is_in(place, folder) for place in shown)]
    lines = [b"InaccessiblePaths=", *(b"InaccessiblePaths=-" + one for one in _HIDDEN if one not in opened)]
    lines += [b"TemporaryFileSystem=" + folder + b":ro" for folder in opened if folder not in shown]
    if any(_is_in(place, folder) for place in shown for folder in _HOMES):
        lines.append(b"ProtectHome=tmpfs")
    lines += [b"BindReadOnlyPaths=" + _in_quotes(b"-" + place) for place in shown if place not in (*_HIDDEN, *_HOMES)]
    return b"\n".join(lines)


def _is_in(place: bytes, folder: bytes) -> bool:
    return place == folder or place.startswith(folder + b"/")


def find_state(unit: UnitFile) -> UnitState:
    """
    Return the state of an installed file.

    Raises:
        ConfigError: the file can't be read.
    """
    try:
        if not os.path.lexists(unit.path):
            return UnitState.ABSENT
        with open(unit.path, "rb") as file:
            content = file.read()
    except OSError as error:
        raise ConfigError(f"{show_path(unit.path)}: can't be read: {error.strerror}; look what stands there") from error
    if content == unit.content:
        return UnitState.CURRENT
    head, found, rest = content.partition(_CHECKSUM)
    checksum, _, body = rest.partition(b"\n")
    return UnitState.OLDER if found and head.startswith(b"#") and checksum == _checksum(body) else UnitState.EDITED


def install(units: Sequence[UnitFile], *, replaces_edited: bool = False) -> list[UnitChange]:
    """
    Write the files. Files that are up to date are left alone.

    Args:
        replaces_edited: replace edited files too, and keep each under another name.

    Raises:
        ConfigError: a file was edited; nothing was written.
        AppError: a file can't be written.
    """
    states = [find_state(unit) for unit in units]
    edited = [show_path(unit.path) for unit, state in zip(units, states, strict=True) if state is UnitState.EDITED]
    if edited and not replaces_edited:
        raise ConfigError(
            f"{', '.join(edited)}: edited, or not written by integrity, so nothing was done; put your changes into a"
            f" drop-in (systemctl edit {' or '.join(find_names(units))}) and give --force, which keeps the edited file"
            " beside the new one"
        )
    changes = []
    for unit, state in zip(units, states, strict=True):
        if state is UnitState.CURRENT:
            changes.append(UnitChange(unit.path, FileAction.UNCHANGED))
            continue
        with _explaining(unit.path, "written"):
            aside = _put_aside(unit.path) if state is UnitState.EDITED else b""
            _write(unit)
        changes.append(UnitChange(unit.path, FileAction.WRITTEN, aside))
    return changes


def uninstall(units: Sequence[UnitFile]) -> list[UnitChange]:
    """
    Remove the files and the links that enable the unit. Edited files are renamed instead.

    Returns:
        What was done, without missing files.

    Raises:
        AppError: a file can't be removed.
    """
    changes = []
    for unit in units:
        state = find_state(unit)
        with _explaining(unit.path, "removed"):
            if state is UnitState.EDITED:
                changes.append(UnitChange(unit.path, FileAction.KEPT_ASIDE, _put_aside(unit.path)))
            elif state is not UnitState.ABSENT:
                os.unlink(unit.path)
                changes.append(UnitChange(unit.path, FileAction.REMOVED))
                _remove_if_empty(os.path.dirname(unit.path))
            for link in _find_links(unit.path):
                os.unlink(link)
                changes.append(UnitChange(link, FileAction.REMOVED))
    return changes


def _remove_if_empty(folder: bytes) -> None:
    """Remove a folder of drop-ins that has none any longer."""
    if folder.endswith(b".d") and not os.listdir(folder):
        os.rmdir(folder)


def find_names(units: Sequence[UnitFile]) -> list[str]:
    """Return the names of the units to start among some files; these start sockets, which start templates."""
    names = (os.fsdecode(os.path.basename(unit.path)) for unit in units)
    return [name for name in names if name.endswith(".service") and not name.endswith("@.service")]


def find_drop_ins(units: Sequence[UnitFile]) -> list[bytes]:
    folders = (unit.path + b".d" for unit in units if unit.path.endswith(b".service"))
    return [folder for folder in folders if os.path.isdir(folder)]


def _render(name: str, scope: Scope, program: bytes, writable: bytes) -> bytes:
    template = resources.files(_PACKAGE).joinpath(name).read_bytes()
    body = template.replace(b"@PROGRAM@", quote(program)).replace(b"@FOLDERS@", writable)
    is_unit = name.endswith(".service")
    unit = b"--user integrity" if scope is Scope.USER else name.removesuffix(".service").encode()
    drop_in = _DROP_IN % unit if is_unit else b""
    return _HEAD % drop_in + _CHECKSUM + _checksum(body) + b"\n" + body


def _checksum(body: bytes) -> bytes:
    return hashlib.blake2b(body, digest_size=16).hexdigest().encode()


@contextmanager
def _explaining(path: bytes, done: str) -> Iterator[None]:
    """Add the path and a remedy to an OSError."""
    try:
        yield
    except OSError as error:
        raise AppError(f"{show_path(path)}: can't be {done}: {error.strerror}; mend that and run it again") from error


def _write(unit: UnitFile) -> None:
    folder, name = os.path.split(unit.path)
    os.makedirs(folder, exist_ok=True)
    folder_fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    partial = make_partial_name(folder_fd, name)
    try:
        fd = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o644, dir_fd=folder_fd)
        with open(fd, "wb") as file:
            file.write(unit.content)
            os.fchmod(fd, 0o644)  # whatever the umask: other users must be able to read it
            file.flush()
            os.fsync(fd)
        os.rename(partial, name, src_dir_fd=folder_fd, dst_dir_fd=folder_fd)
    finally:
        with suppress(FileNotFoundError):
            os.unlink(partial, dir_fd=folder_fd)
        os.close(folder_fd)


def _put_aside(path: bytes) -> bytes:
    """Rename an edited file to a name that systemd ignores. Return the new name."""
    aside, number = path + b".edited", 1
    while os.path.lexists(aside):
        number += 1
        aside = path + b".edited-%d" % number
    os.rename(path, aside)
    return aside


def _find_links(path: bytes) -> list[bytes]:
    """Return the links that enable a unit, which systemctl would remove if systemd ran."""
    folder, name = os.path.split(path)
    wants = (os.path.join(folder, target + b".wants", name) for target in (b"multi-user.target", b"default.target"))
    return [link for link in wants if os.path.islink(link)]


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
