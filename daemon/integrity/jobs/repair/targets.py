"""
Resolve a repair command: which files, from which copies, and under which names old and new content are stored.

A file with several hard links must keep them all: a link that was left out would still lead to the damaged bytes, and
be a separate file from then on. So a repair is refused unless all names are known.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

from integrity import program
from integrity.catalog import files, versions
from integrity.catalog.root_meta import JournalPlace
from integrity.catalog.roots import RootRecord, find_roots
from integrity.config.copy_urls import PARITY
from integrity.errors import ConfigError, show_path
from integrity.files.excludes import KEPT_ID_DIGITS
from integrity.files.mounts import mount_of
from integrity.files.open_beneath import open_beneath, stat_beneath
from integrity.files.stamps import fold_inode
from integrity.jobs.compare.source import CopySource, find_known_sources, find_source
from integrity.jobs.parity.source import find_parity
from integrity.jobs.repair.inspect import Expected, load_expected
from integrity.jobs.targets import Target, find_target, is_inside
from integrity.model import BaselineReason
from integrity.paths import absolute, shell_path
from integrity.words.text import local_time

if TYPE_CHECKING:
    from integrity.catalog.connection import Catalog, Connection
    from integrity.catalog.rows import FileRecord
    from integrity.config import Config
    from integrity.jobs.context import RootRun


MADE_SUFFIX = b".new"
_USUAL_NAME_MAX = 255


def find_names(
    run: RootRun, connection: Connection, record: FileRecord, stat: os.stat_result, expected: Expected
) -> tuple[list[FileRecord], str | None]:
    """
    Find the records of all names of a file; the given one is the first.

    Returns:
        The records, and the reason if the file can't be repaired.
    """
    if stat.st_nlink <= 1:
        return [record], None
    same = files.find_by_inode(connection, run.root.id, fold_inode(stat.st_ino))
    others = [one for one in same if one.id != record.id and _leads_to(run.root_fd, one.path, stat)]
    found = [record, *others]
    if len(found) != stat.st_nlink:
        return found, _explain_names(run, connection, found, stat)
    for other in others:
        theirs = load_expected(connection, other)
        if theirs is None or not theirs.is_same_as(expected):
            return found, (
                f"its other name {show_path(other.path)} was recorded with other content:"
                f" compare both with: {program.command('explain')}"
            )
    return found, None


def _explain_names(run: RootRun, connection: Connection, found: list[FileRecord], stat: os.stat_result) -> str:
    """Say which names keep a file from being repaired: some in other roots, or some that are not recorded."""
    path = absolute(run.root.path, found[0].path)
    elsewhere = []
    for root in find_roots(connection):
        for one in files.find_by_inode(connection, root.id, fold_inode(stat.st_ino)) if root.id != run.root.id else ():
            name = absolute(root.path, one.path)
            with suppress(OSError):
                if os.path.samestat(os.lstat(name), stat):
                    elsewhere.append(shell_path(name))
    if elsewhere and len(found) + len(elsewhere) == stat.st_nlink:
        again = "; ".join(f"ln {shell_path(path)} {name}" for name in elsewhere)
        return (
            f"it has {stat.st_nlink} names, and a repair replaces those of one watched folder only. Take the others"
            f" away: rm {' '.join(elsewhere)}; check it again: {program.command('scrub', path)}; repair it; and make"
            f" them again: {again}"
        )
    known = ", ".join(show_path(one.path) for one in found)
    top = shell_path(mount_of(path).mount_point)
    return (
        f"it has {stat.st_nlink} names, but of them only {len(found)} {'is' if len(found) == 1 else 'are'} recorded"
        f" ({known}); all must be replaced together. Find the others with: find {top} -xdev -inum {stat.st_ino}; record"
        f" them with: {program.command('scan')}, or remove them"
    )


def _leads_to(root_fd: int, path: bytes, stat: os.stat_result) -> bool:
    try:
        there = stat_beneath(root_fd, path)
    except OSError:
        return False
    return (there.st_dev, there.st_ino) == (stat.st_dev, stat.st_ino)


def make_place(root_fd: int, path: bytes, repair_id: str) -> JournalPlace:
    """
    Choose the temporary names for one name of a file.

    Raises:
        OSError: its folder can't be opened.
    """
    folder, _, name = path.rpartition(b"/")
    fd = open_beneath(root_fd, folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        most = os.fpathconf(fd, "PC_NAME_MAX")
    except OSError:
        most = _USUAL_NAME_MAX
    finally:
        os.close(fd)
    kept = name_backup(name, repair_id, most)
    return JournalPlace(folder, name, kept + MADE_SUFFIX, kept)


def name_backup(name: bytes, repair_id: str, most: int = _USUAL_NAME_MAX) -> bytes:
    """
    Return the name under which a damaged file is kept; a long name is cut between two UTF-8 characters.

    In other encodings all bytes may look like continuation bytes: then the name is cut anywhere, because a UTF-8
    character has at most three of them.
    """
    ending = b".integrity-" + repair_id.encode()
    room = most - len(ending) - len(MADE_SUFFIX) - 1
    ends = [end for end in range(room, room - 4, -1) if end >= len(name) or name[end] & 0xC0 != 0x80]
    return b"." + name[: ends[0] if ends else room] + ending


def make_id() -> str:
    """Return the random part of the names of one repair."""
    return os.urandom(KEPT_ID_DIGITS // 2).hex()


@dataclass(frozen=True, slots=True)
class Wanted:
    """
    What to repair.

    Args:
        target: a file, or a folder: all files below it with an open finding.
        sources: the copies, in order of preference.
    """

    target: Target
    sources: tuple[CopySource, ...]
    is_folder: bool


def find_wanted(
    catalog: Catalog, config: Config, paths: Sequence[bytes], names: Sequence[str], endpoint: str | None
) -> list[Wanted]:
    """
    Resolve the paths and copies of a command.

    ``names`` has the value of each ``--from``; if empty, all known copies are used.

    Raises:
        ConfigError: one of them can't be used; nothing was done for any.
    """
    found = []
    for path in paths:
        with catalog.read() as connection:
            target, is_folder = _find_target(connection, path)
        real = absolute(target.root.path, target.prefix)
        if names:
            sources = [_find_named(catalog, config, name, target.root, real, endpoint) for name in names]
        else:
            sources = [*_find_known(catalog, config, real, is_folder=is_folder), *find_parity(catalog, target.root)]
        found.append(Wanted(target, tuple(dict.fromkeys(sources)), is_folder))
    return found


def _find_named(
    catalog: Catalog, config: Config, name: str, root: RootRecord, real: bytes, endpoint: str | None
) -> CopySource:
    """Return the copy that a name means: parity, unless a copy of the configuration is called so."""
    if name != PARITY or any(copy.name == name for copy in config.copies):
        return find_source(catalog, config, name, (real,), endpoint)
    found = find_parity(catalog, root)
    if not found:
        raise ConfigError(
            f"{show_path(root.path)}: has no parity; to make some: {program.command('protect', root.path)}"
        )
    return found[0]


def _find_target(connection: Connection, path: bytes) -> tuple[Target, bool]:
    """
    Find a file or folder in its root; a symbolic link in the place of a file is not followed.

    A link that replaced a recorded file must not cause the repair of another file.
    """
    place = _place(connection, path)
    if place is not None and _is_recorded(connection, place):
        return place, False
    target = find_target(connection, path)
    if _is_recorded(connection, target):
        return target, False
    if not files.page_files(connection, target.root.id, prefix=target.prefix, limit=1):
        former = next(iter(versions.former_of(connection, target.root.id, (place or target).prefix)), None)
        if former is not None and former.replaced_because is BaselineReason.DELETED:
            raise ConfigError(
                f"{show_path(path)}: was deleted (seen {local_time(former.replaced_at)}), which is no damage; to have"
                f" it back, copy it from a backup, and compare that with the record: {program.command('scan', path)}"
            )
        raise ConfigError(
            f"{show_path(path)}: is not recorded, so its right content is unknown; only files that were recorded"
            " before the damage can be repaired"
        )
    return target, True


def _is_recorded(connection: Connection, target: Target) -> bool:
    return files.find_file(connection, target.root.id, target.prefix) is not None


def _place(connection: Connection, path: bytes) -> Target | None:
    folder, name = os.path.split(os.path.abspath(path))
    real = os.path.join(os.path.realpath(folder), name)
    for root in find_roots(connection):
        if is_inside(real, root.path.rstrip(b"/")):
            return Target(root, real[len(root.path.rstrip(b"/")) + 1 :])
    return None


def _find_known(catalog: Catalog, config: Config, path: bytes, *, is_folder: bool) -> list[CopySource]:
    """Return the known copies of a path; for a folder also those of its parts."""
    found = find_known_sources(catalog, config, path)
    if is_folder:
        inner = [copy for copy in config.copies if copy.of != path and is_inside(copy.of, path.rstrip(b"/"))]
        found += [CopySource(copy.name, copy.url, copy.of, copy.verify_every_s) for copy in inner]
    return found
