"""
Read a file and its copy beside each other, to say how their bytes differ.

Records and decides nothing: what differs is told (``jobs.byte_pattern``).
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import TYPE_CHECKING

from integrity.copies.protocol import CopyEntry
from integrity.errors import ConfigError, ReadInterrupted, Unstable, Vanished, show_path
from integrity.files.buffers import Buffers
from integrity.files.capability import find_capability
from integrity.files.open_beneath import stat_beneath
from integrity.files.random_access import RandomAccessFile
from integrity.files.read import Reader
from integrity.files.span import UNLIMITED, Pace, ReadMode
from integrity.jobs.byte_pattern import CHUNK_BYTES, ByteDifference, DifferenceFinder
from integrity.jobs.compare.source import find_source, narrow, place_in_copy, require_disk
from integrity.jobs.open_root import open_guarded
from integrity.jobs.targets import find_target
from integrity.model import ByteRange

if TYPE_CHECKING:
    from integrity.catalog.connection import Catalog
    from integrity.config import Config
    from integrity.copies.protocol import Copy, CopyFile
    from integrity.files.read import Reader
    from integrity.hashing.tasks import StopSignal
    from integrity.jobs.report import Stop

MOST_COMPARED_BYTES = 16 << 20
"""What a finding's sentence may cost, on each side."""

_PIECE_BYTES = 1 << 20


def find_byte_difference(
    reader: Reader,
    path: bytes,
    copy: Copy,
    place: bytes,
    ranges: Sequence[ByteRange] | None = None,
    *,
    stop: StopSignal,
    pace: Pace = UNLIMITED,
    most_bytes: int | None = MOST_COMPARED_BYTES,
) -> ByteDifference:
    """
    Compare the bytes of a file with those of its copy; either side may be the damaged one.

    Args:
        reader: of the root, from the disk.
        path: of the file, relative to the root.
        copy: entered.
        place: of the file in the copy.
        ranges: all that may differ in the part that both have, such as the blocks that either side has damaged, in any
            order; None: everything.
        stop: ends the reading.
        pace: of the copy; the reader has its own.
        most_bytes: ends the comparison after so many bytes of either side; None: never.

    Raises:
        ReadError: a side can't be read, or changed meanwhile; ReadInterrupted if ``stop`` is set.
        CopyUnreachable: the copy as a whole can't be reached.
    """
    finder, left, is_complete = DifferenceFinder(), most_bytes, False
    with (
        Buffers(_PIECE_BYTES, 1) as buffers,
        closing(RandomAccessFile(reader, path, buffers)) as file,
        closing(copy.open(place)) as other,
    ):
        common = min(file.size_bytes, other.size_bytes)
        for offset, length in _find_pieces([(0, common)] if ranges is None else ranges, common):
            if (left is not None and length > left) or finder.differing_bytes >= MOST_COMPARED_BYTES:
                break
            if stop.is_set():
                raise ReadInterrupted(f"reading {show_path(path)} was interrupted")
            pace.take(length)
            theirs = _read(other, place, offset, length)
            pace.took(length, 0.0)
            finder.add(offset, _read(file, path, offset, length), theirs)
            left = None if left is None else left - length
        else:
            is_complete = True
        file.finish()
        return finder.finish(file.size_bytes, other.size_bytes, is_complete=is_complete)


def _read(file: RandomAccessFile | CopyFile, path: bytes, offset: int, length: int) -> bytes:
    data = file.read(offset, length)
    if len(data) != length:
        raise Unstable(f"{show_path(path)} ended before its size; compare again when nobody writes to it")
    return data


def _find_pieces(ranges: Iterable[ByteRange], end: int) -> Iterator[ByteRange]:
    """Yield pieces that cover the ranges up to ``end``, in order, each once; they begin at whole chunks."""
    position = 0
    for first, length in sorted(ranges):
        position = max(position, first // CHUNK_BYTES * CHUNK_BYTES)
        stop = min(-(-(first + length) // CHUNK_BYTES) * CHUNK_BYTES, end)
        while position < stop:
            step = min(_PIECE_BYTES, stop - position)
            yield position, step
            position += step


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
        listed = (one for one in opened.list(place) if isinstance(one, CopyEntry) and one.path == place)
        entry = next(listed, None)
        if entry is None:
            raise Vanished(
                f"{opened.shown}: {show_path(place)} is not there, or can't be examined; back it up, then try again"
            )
        copy_ns = entry.mtime_ns if opened.keeps_times else None
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
