"""
Make a configuration of the answers to the questions of ``integrity setup``.

I1  What the configuration so far says of other things, such as a certificate or a proxy of the owner's, stays.
I2  No root lies in another one: the outer one then includes the inner disk, and leaves backup copies out.
I3  No password is ever written, only the name of a file, or a command. The service has nothing of the environment of
    the setup, so what that names is written down.
"""

from __future__ import annotations

import ipaddress
import os
import re
import socket
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from enum import StrEnum
from typing import NamedTuple

from integrity import program
from integrity.config import Config, ConfiguredCopy, ConfiguredRoot, Mail, RootSettings, Web
from integrity.copies.snapshots import cut_at_versions
from integrity.errors import ConfigError, show_path
from integrity.jobs.targets import is_inside
from integrity.model import Policy


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


_SOME_ADDRESS = ("192.0.2.1", 9)
"""Of TEST-NET-1 (RFC 5737): the kernel chooses a route to it, and no packet is sent."""


class PageReach(StrEnum):
    """From where the page can be reached."""

    NONE = "none"  # there is no page
    LOCAL = "local"  # from this machine, and from others through SSH
    LAN = "lan"  # from the network, encrypted


class PagePowers(StrEnum):
    """What a visitor with the password may do; each has what those before it have."""

    LOOK = "look"
    DECIDE = "decide"  # acknowledge, pause, scrub, accept
    REPAIR = "repair"


@dataclass(frozen=True, slots=True)
class PageChoice:
    """What was decided about the page."""

    reach: PageReach = PageReach.NONE
    powers: PagePowers = PagePowers.LOOK

    @property
    def is_wanted(self) -> bool:
        return self.reach is not PageReach.NONE

    @property
    def repairs(self) -> bool:
        return self.is_wanted and self.powers is PagePowers.REPAIR


def find_lan_address() -> str:
    """Return the IPv4 address by which other machines reach this one; empty if it has no network."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(_SOME_ADDRESS)
        except OSError:
            return ""
        address = str(probe.getsockname()[0])
    return "" if ipaddress.ip_address(address).is_loopback else address


def require_free_port(settings: Web) -> None:
    """Refuse a port that another program has."""
    port = settings.listen.rpartition(":")[2]
    with socket.socket() as tried:
        tried.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # connections that just ended are no obstacle
        try:
            tried.bind(("127.0.0.1", int(port)))
        except OSError as error:
            raise ConfigError(
                f"port {port} can't be used: {error.strerror}; stop the program that has it, or choose none, and set"
                " another port in [web] listen later"
            ) from error


def find_reach(settings: Web, *, is_installed: bool) -> PageReach:
    if not is_installed:
        return PageReach.NONE
    return PageReach.LOCAL if _is_local(settings) else PageReach.LAN


def make_page_settings(before: Web, choice: PageChoice, address: str) -> Web:
    """
    Return the settings of the page.

    Args:
        address: of this machine in the network.
    """
    if not choice.is_wanted:
        return before
    settings = replace(before, actions=choice.powers is not PagePowers.LOOK)
    port = before.listen.rpartition(":")[2]
    is_local = _is_local(before)
    if is_local == (choice.reach is PageReach.LOCAL):
        return settings
    if not is_local:
        return replace(settings, listen=f"127.0.0.1:{port}", self_signed=False, public_url="")
    return replace(
        settings,
        listen=f"0.0.0.0:{port}",
        self_signed=not before.tls_certificate,
        public_url=before.public_url or f"https://{address}:{port}",
    )


def _is_local(settings: Web) -> bool:
    return ipaddress.ip_address(settings.listen.rpartition(":")[0].strip("[]")).is_loopback


_UNSUITABLE = (b"/", b"/proc", b"/sys", b"/dev", b"/run")
_GLOB = re.compile(r"([\\*?\[\]!#])")


_BEHIND_S = 2 * 86_400
"""How old a backup may be: most are made every night, and one may fail."""


class BackupAnswer(NamedTuple):
    """A backup to compare: of which folder, its place, and where the password of a repository is found."""

    of: bytes
    url: str
    password: PasswordSource = PasswordSource()


@dataclass(frozen=True, slots=True)
class Answers:
    """
    What was decided.

    Args:
        roots: absolute paths of the folders to watch.
        archives: those of them whose files never change.
        copies: of folders to watch, or of folders in them.
        push: URLs of the services that reach phones, in apprise's syntax.
        home: the user's home folder, whose caches are left out.
    """

    roots: tuple[bytes, ...]
    archives: tuple[bytes, ...]
    copies: tuple[BackupAnswer, ...]
    windows: str
    verify_every_s: int
    mail: Mail
    push: tuple[str, ...]
    web: Web
    home: bytes = b""
    mount_points: tuple[bytes, ...] = ()


def make_config(base: Config, answers: Answers) -> Config:
    """Return the configuration so far, with the answers in their places."""
    outer = drop_nested(answers.roots)
    # Of a new owner's files nobody knows yet which were damaged before they were recorded.
    inspects = base.defaults.inspect or not base.roots
    defaults = replace(base.defaults, verify_every_s=answers.verify_every_s, inspect=inspects)
    with_defaults = replace(base, defaults=defaults)
    copies = tuple(_make_copies(base, answers.copies))
    return replace(
        with_defaults,
        roots=tuple(_make_root(with_defaults, base, path, answers) for path in outer),
        copies=copies,
        schedule=replace(base.schedule, scrub=answers.windows),
        mail=answers.mail,
        alerts=replace(base.alerts, apprise=answers.push),
        web=answers.web,
    )


def require_usable_root(path: bytes) -> None:
    """Refuse a folder that the configuration can't name, or that holds more than data."""
    if path in _UNSUITABLE:
        raise ConfigError(f"{show_path(path)}: holds the system's own files; name the folders with your data")
    if (problem := find_name_problem(path)) is not None:
        raise ConfigError(f"{show_path(path)}: {problem}")
    if not os.path.isdir(path):
        what = "is a file; name the folder that it lies in" if os.path.exists(path) else "there is no such folder"
        raise ConfigError(f"{show_path(path)}: {what}")


def find_name_problem(path: bytes) -> str | None:
    """Return why the configuration can't name a folder; None if it can."""
    try:
        path.decode("utf-8")
    except UnicodeDecodeError:
        advice = program.command("scan FOLDER")
        return f"its name is not UTF-8, and the configuration is; rename it, or record it with: {advice}"
    return None


def find_copy_problem(path: bytes) -> str | None:
    """Return why the configuration can't name the place of a backup; None if it can."""
    text = os.fsdecode(path)
    return None if text.isprintable() else "its name has characters that the place of a backup can't have; rename it"


def drop_nested(paths: Iterable[bytes]) -> list[bytes]:
    """Return the folders that lie in none of the others, in the order given."""
    unique = list(dict.fromkeys(paths))
    return [path for path in unique if not any(_is_below(path, other) for other in unique)]


def make_copy_name(path: bytes, taken: Collection[str]) -> str:
    """Return a name for a backup, from the last part of its place; commands use it."""
    words = re.findall(r"\w[\w.-]*", os.fsdecode(os.path.basename(path.rstrip(b"/"))).lower(), re.ASCII)
    name = "-".join(words) or "backup"
    number, unique = 1, name
    while unique in taken:
        number += 1
        unique = f"{name}-{number}"
    return unique


def _make_root(defaults: Config, base: Config, path: bytes, answers: Answers) -> ConfiguredRoot:
    """Return a root: as configured so far, else with the defaults, and what was answered."""
    known = next((root for root in base.roots if root.path == path), None)
    if known is None:
        common = {each.name: getattr(defaults.defaults, each.name) for each in fields(RootSettings)}
        known = ConfiguredRoot(path=path, **common)
    inner = [other for other in answers.roots if _is_below(other, path)]
    crosses = known.cross_mounts or any(_lies_on_mount(other, path, answers.mount_points) for other in inner)
    wanted = Policy.ARCHIVE if path in answers.archives else known.policy
    if path not in answers.archives and known.policy is Policy.ARCHIVE:
        wanted = Policy.MUTABLE
    return replace(
        known,
        policy=wanted,
        verify_every_s=answers.verify_every_s,
        cross_mounts=crosses,
        exclude=tuple(dict.fromkeys((*known.exclude, *_find_excludes(path, answers, crosses=crosses)))),
    )


def _find_excludes(root: bytes, answers: Answers, *, crosses: bool) -> list[str]:
    """Return patterns for what must not be watched in a root: backups in it, and caches of a home folder."""
    inside = [os.fsencode(one.url) for one in answers.copies if one.url.startswith("/")]
    unwatched = [
        path
        for path in inside
        if _is_below(path, root) and (crosses or not _lies_on_mount(path, root, answers.mount_points))
    ]
    top = os.fsdecode(root).rstrip("/") + "/"
    patterns = [(_GLOB.sub(r"\\\1", os.fsdecode(path[len(root.rstrip(b"/")) :])) + "/") for path in unwatched]
    urls = [one.url for one in answers.copies if one.url.startswith("snapshots:")]
    series = [cut_at_versions(url.removeprefix("snapshots:")) for url in urls]
    patterns += [f"{pattern[len(top) - 1 :]}/" for pattern in series if pattern.startswith(top)]
    return [*patterns, "/.cache/"] if root == answers.home else patterns


def _make_copies(base: Config, wanted: Sequence[BackupAnswer]) -> Iterable[ConfiguredCopy]:
    """Yield the copies: those configured so far as they are, the others with a name of their own."""
    taken = {copy.name for copy in base.copies}
    yield from base.copies
    for of, url, password in wanted:
        if any((copy.of, copy.url) == (of, url) for copy in base.copies):
            continue
        name = make_copy_name(os.fsencode(url.rpartition(":")[2]), taken)
        taken.add(name)
        yield ConfiguredCopy(name=name, of=of, url=url, behind_s=_BEHIND_S, **password._asdict())


def _lies_on_mount(path: bytes, root: bytes, mount_points: Sequence[bytes]) -> bool:
    """Return whether a path lies on a mount inside of a root."""
    return any(_is_below(point, root) and is_inside(path, point) for point in mount_points)


def _is_below(path: bytes, folder: bytes) -> bool:
    return path != folder and path.startswith(folder.rstrip(b"/") + b"/")
