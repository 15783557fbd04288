"""
Make a configuration of the answers to the questions of ``integrity setup``.

I1  What the configuration so far says of other things stays.
I2  No root lies in another one: the outer one then includes the inner disk, and leaves backup copies out.
"""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, fields, replace
from typing import NamedTuple

from integrity import program
from integrity.config import Config, ConfiguredCopy, ConfiguredRoot, Mail, RootSettings, Web
from integrity.copies.snapshots import cut_at_versions
from integrity.errors import ConfigError, show_path
from integrity.jobs.setup.passwords import PasswordSource
from integrity.jobs.targets import is_inside
from integrity.model import Policy

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
        windows: when files are verified.
        verify_every_s: how often.
        mail: sender, recipients, server.
        push: URLs of the services that reach phones, in apprise's syntax.
        web: the settings of the page.
        home: the user's home folder, whose caches are left out.
        mount_points: of all mounts.
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
    """
    Refuse a folder that the configuration can't name, or that holds more than data.

    Raises:
        ConfigError: with what to do instead.
    """
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
        exclude=_add_excludes(known.exclude, _find_excludes(path, answers, crosses=crosses)),
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
    patterns = [_make_pattern(path[len(root.rstrip(b"/")) :]) for path in unwatched]
    urls = [one.url for one in answers.copies if one.url.startswith("snapshots:")]
    series = [cut_at_versions(url.removeprefix("snapshots:")) for url in urls]
    patterns += [f"{pattern[len(top) - 1 :]}/" for pattern in series if pattern.startswith(top)]
    return [*patterns, "/.cache/"] if root == answers.home else patterns


def _add_excludes(before: Sequence[str], more: Sequence[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys((*before, *more)))


def _make_pattern(path: bytes) -> str:
    return _GLOB.sub(r"\\\1", os.fsdecode(path)) + "/"


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
