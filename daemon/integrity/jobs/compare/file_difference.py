"""Show how one file and its copy differ: opens both, reads them, records nothing."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING

from integrity.copies.protocol import CopyEntry
from integrity.errors import ConfigError, Vanished, show_path
from integrity.files.capability import find_capability
from integrity.files.open_beneath import stat_beneath
from integrity.files.read import Reader
from integrity.files.span import ReadMode
from integrity.jobs.byte_pattern import ByteDifference
from integrity.jobs.compare.byte_difference import find_byte_difference
from integrity.jobs.compare.source import find_source, narrow, place_in_copy, require_disk
from integrity.jobs.open_root import open_guarded
from integrity.jobs.targets import find_target

if TYPE_CHECKING:
    from integrity.catalog.connection import Catalog
    from integrity.config import Config
    from integrity.copies.protocol import Copy
    from integrity.jobs.report import Stop


@dataclass(frozen=True, slots=True)
class FileDifference:
    """
    A file, its copy, and how they differ.

    Args:
        path: absolute.
        copy: name of the copy; ``url``: where it is, without secrets.
        place: of the file in the copy.
        file_mtime_ns: of the file; ``copy_mtime_ns``: of the copy, None where it keeps none.
    """

    path: bytes
    copy: str
    url: str
    place: bytes
    file_mtime_ns: int
    copy_mtime_ns: int | None
    difference: ByteDifference


def find_file_difference(
    catalog: Catalog, config: Config, path: bytes, copy: str, endpoint: str | None = None, *, stop: Stop
) -> FileDifference:
    """
    Compare all bytes of a file with those of its copy, until very many differ.

    Args:
        path: absolute.
        copy: as ``find_source`` takes it; ``endpoint`` likewise.

    Raises:
        ConfigError: it is no file, or lies in no root; or the copy has no bytes.
        RootSuspended: the root is not itself.
        ReadError: a side can't be read; ReadInterrupted if ``stop`` was set.
        CopyUnreachable: the copy can't be reached.
    """
    if os.path.isdir(path):
        raise ConfigError(f"{show_path(path)}: is a folder; name one file in it")
    with catalog.read() as connection:
        target = find_target(connection, path)
    source = find_source(catalog, config, copy, [path], endpoint)
    narrow(source, [path])
    place = place_in_copy(source, path)
    with source.open(must_stop=stop.is_set) as opened:
        if not opened.has_bytes:
            raise ConfigError(f"{opened.shown}: has checksums only, there are no bytes to show; name another copy")
        if source.disk is not None:
            require_disk(source.disk, opened)
        listed_ns = _find_entry(opened, place).mtime_ns
        copy_ns = listed_ns if opened.keeps_times else None
        root_fd = open_guarded(target.root).fd
        try:
            capability = find_capability(root_fd, target.root.path)
            reader = Reader(root_fd, capability, mode=ReadMode.DISK)
            difference = find_byte_difference(reader, target.prefix, opened, place, stop=stop, most_bytes=None)
            mtime_ns = stat_beneath(root_fd, target.prefix).st_mtime_ns
        except FileNotFoundError as error:
            raise Vanished(f"{show_path(path)}: disappeared while it was compared") from error
        finally:
            os.close(root_fd)
        return FileDifference(path, source.recorded_name, opened.shown, place, mtime_ns, copy_ns, difference)


def _find_entry(copy: Copy, place: bytes) -> CopyEntry:
    """Return what the copy lists of a file."""
    for found in copy.list(place):
        if isinstance(found, CopyEntry) and found.path == place:
            return found
    raise Vanished(f"{copy.shown}: {show_path(place)} is not there, or can't be examined; back it up, then try again")
