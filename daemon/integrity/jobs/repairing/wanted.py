"""From the FILEs and copies of a command to what is to be repaired, and from where."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from integrity.catalog import files
from integrity.catalog.roots import find_roots
from integrity.errors import ConfigError, show_path
from integrity.jobs.compare.source import Source, find_known_sources, find_source
from integrity.jobs.targets import Target, find_target, is_inside
from integrity.paths import absolute

if TYPE_CHECKING:
    from integrity.catalog.connection import Catalog, Connection
    from integrity.config import Config


@dataclass(frozen=True, slots=True)
class Wanted:
    """
    What is to be repaired.

    Args:
        target: a file; or a folder, of which all files are meant that a finding is open on.
        sources: the copies, in the order in which they are asked.
        is_folder: which of the two.
    """

    target: Target
    sources: tuple[Source, ...]
    is_folder: bool


def find_wanted(
    catalog: Catalog, config: Config, paths: Sequence[bytes], names: Sequence[str], endpoint: str | None
) -> list[Wanted]:
    """
    Find out what is meant.

    Args:
        catalog: open.
        config: the whole of it.
        paths: of files and folders, as given.
        names: what stands behind each ``--from``; none: all copies that are known.
        endpoint: the address of an S3 server that is not Amazon's.

    Raises:
        ConfigError: something of it can't be used; nothing was done for any.
    """
    found = []
    for path in paths:
        with catalog.read() as connection:
            target, is_folder = _find_target(catalog, connection, path)
        real = absolute(target.root.path, target.prefix)
        if names:
            sources = [find_source(catalog, config, name, (real,), endpoint) for name in names]
        else:
            sources = _find_known(catalog, config, real, is_folder=is_folder)
        found.append(Wanted(target, tuple(dict.fromkeys(sources)), is_folder))
    return found


def _find_target(catalog: Catalog, connection: Connection, path: bytes) -> tuple[Target, bool]:
    """
    Find a file or folder in its root; the path of a file is not followed if it is a symbolic link.

    A link that was put in the place of a recorded file must not have another one repaired.
    """
    place = _place(connection, path)
    if place is not None and _is_recorded(catalog, connection, place):
        return place, False
    target = find_target(connection, path)
    if _is_recorded(catalog, connection, target):
        return target, False
    if not files.page_files(connection, target.root.id, prefix=target.prefix, limit=1):
        raise ConfigError(
            f"{show_path(path)}: is not recorded, so it is not known what it should be; only what a scan has recorded"
            " while it was good can be repaired"
        )
    return target, True


def _is_recorded(catalog: Catalog, connection: Connection, target: Target) -> bool:
    return files.find_file(connection, catalog.sealer, target.root.id, target.prefix) is not None


def _place(connection: Connection, path: bytes) -> Target | None:
    folder, name = os.path.split(os.path.abspath(path))
    real = os.path.join(os.path.realpath(folder), name)
    for root in find_roots(connection):
        if is_inside(real, root.path.rstrip(b"/")):
            return Target(root, real[len(root.path.rstrip(b"/")) + 1 :])
    return None


def _find_known(catalog: Catalog, config: Config, path: bytes, *, is_folder: bool) -> list[Source]:
    """List the copies of a path; of a folder, those of parts of it, too."""
    found = find_known_sources(catalog, config, path)
    if is_folder:
        inner = [copy for copy in config.copies if copy.of != path and is_inside(copy.of, path.rstrip(b"/"))]
        found += [Source(copy.name, copy.url, copy.of, copy.verify_every_s) for copy in inner]
    return found
