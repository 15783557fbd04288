"""
Read both sides of a finding as pictures, so that its owner sees which one is right.

I1  Only the file of an open finding and its copy are read, chosen by the catalog: nobody names a path.
I2  Only what is a picture by its first bytes is read (``picture_type``).
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from typing import TYPE_CHECKING

from integrity.arbitration import CopyVote
from integrity.catalog import findings
from integrity.errors import AppError, ConfigError, Unstable, show_path
from integrity.files.buffers import Buffers
from integrity.files.capability import find_capability
from integrity.files.random_access import RandomAccessFile
from integrity.files.read import Reader
from integrity.files.span import ReadMode
from integrity.jobs.byte_pattern import Side
from integrity.jobs.compare.source import find_known_sources, find_record, place_in_copy, require_disk
from integrity.jobs.explain import FileCopy, FileStory, explain
from integrity.jobs.open_root import open_guarded
from integrity.jobs.picture_type import HEAD_BYTES, Picture, find_content_type
from integrity.jobs.targets import find_target
from integrity.kinds import REPAIRABLE
from integrity.model import Finding, FindingId, FindingState
from integrity.paths import absolute

if TYPE_CHECKING:
    from integrity.catalog.connection import Catalog
    from integrity.config import Config
    from integrity.copies.protocol import CopyFile

MOST_PICTURE_BYTES = 16 << 20
_BUFFER_BYTES = 1 << 20


def choose_copy(finding: Finding, story: FileStory) -> FileCopy | None:
    """Return the copy that is the other side of an open finding about a file; None if there is none to be shown."""
    if finding.state is FindingState.RESOLVED or not finding.path:
        return None
    copies = [one for one in story.copies if one.has_bytes and not _lacks_it(one)]
    if finding.copy is not None:
        return next((one for one in copies if one.name == finding.copy), None)
    if finding.kind not in REPAIRABLE:
        return None
    return next((one for one in copies if one.state is not None and one.state.vote is CopyVote.SAME), None)


def _lacks_it(copy: FileCopy) -> bool:
    return copy.state is not None and copy.state.vote is CopyVote.MISSING


def load_picture(
    catalog: Catalog,
    config: Config,
    number: int,
    side: Side,
    *,
    has_data: bool,
    must_stop: Callable[[], bool],
) -> Picture:
    """
    Read one side of a finding.

    Args:
        number: of the finding.
        has_data: read all of it, not only what it is.
        must_stop: ends waiting for a copy.

    Raises:
        ConfigError: there is no such finding, it is resolved, or has no such side.
        AppError: the side can't be read, or is too large.
    """
    with catalog.read() as connection:
        finding = findings.get_finding(connection, FindingId(number))
    path = absolute(finding.root, finding.path)
    copy = choose_copy(finding, explain(catalog, config, path)) if finding.path else None
    if copy is None:
        raise ConfigError(f"finding {number} has no two sides to be shown")
    opened = _open_file(catalog, path) if side is Side.FILE else _open_copy(catalog, config, path, copy.name, must_stop)
    with opened as file:
        content_type = find_content_type(file.read(0, min(HEAD_BYTES, file.size_bytes)))
        if not content_type or not has_data:
            return Picture(content_type, file.size_bytes, b"")
        if file.size_bytes > MOST_PICTURE_BYTES:
            raise AppError(f"{show_path(path)}: is larger than {MOST_PICTURE_BYTES >> 20} MiB, so it is not shown")
        data = file.read(0, file.size_bytes)
        if find_content_type(data[:HEAD_BYTES]) != content_type:
            raise Unstable(f"{show_path(path)} changed while it was read; try again")
        return Picture(content_type, len(data), data)


@contextmanager
def _open_file(catalog: Catalog, path: bytes) -> Iterator[RandomAccessFile]:
    with catalog.read() as connection:
        target = find_target(connection, path)
    root_fd = open_guarded(target.root).fd
    try:
        reader = Reader(root_fd, find_capability(root_fd, target.root.path), mode=ReadMode.DISK)
        with Buffers(_BUFFER_BYTES, 1) as buffers, closing(RandomAccessFile(reader, target.prefix, buffers)) as file:
            yield file
    finally:
        os.close(root_fd)


@contextmanager
def _open_copy(
    catalog: Catalog, config: Config, path: bytes, name: str, must_stop: Callable[[], bool]
) -> Iterator[CopyFile]:
    record = find_record(catalog, name, path)
    base_name = name if record is None else record.base_name
    source = next((one for one in find_known_sources(catalog, config, path) if one.name == base_name), None)
    if source is None:
        raise ConfigError(f"the copy {name} is not known any more")
    with source.open(must_stop=must_stop) as copy:
        if record is not None:
            require_disk(record, copy)
        with closing(copy.open(place_in_copy(source, path))) as file:
            yield file
