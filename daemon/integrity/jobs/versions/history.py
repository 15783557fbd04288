"""
Find files of a backup whose content changed from one version to the next, while their size and time did not.

Nobody wrote to such a file, as far as times tell: it rotted, or a program put the time back. The content that stands in
the older version was read when that one was made, so this is a witness from before anything was recorded here.
"""

from __future__ import annotations

from collections.abc import Iterator
from enum import StrEnum
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

from integrity.catalog import files
from integrity.copies.filenames import is_below
from integrity.copies.protocol import CopyEntry, Trouble
from integrity.errors import ReadError, ReadInterrupted
from integrity.files.span import UNLIMITED
from integrity.hashing.digests import Want
from integrity.jobs.compare.read_back import read_from_copy
from integrity.jobs.compare.source import find_series, place_in_copy
from integrity.jobs.targets import find_target

if TYPE_CHECKING:
    from collections.abc import Callable

    from integrity.catalog.connection import Catalog
    from integrity.config import Config
    from integrity.copies.protocol import Copy
    from integrity.copies.versions import CopyVersion
    from integrity.jobs.report import Stop
    from integrity.jobs.targets import Target

_BLOCK_BYTES = 1 << 20
_WHOLE = Want(xxh3_128=True)


class Here(StrEnum):
    """Which of two contents the recorded file has."""

    OLDER = "older"
    NEWER = "newer"
    OTHER = "other"
    NOT_RECORDED = "not_recorded"


class SilentChange(NamedTuple):
    """
    A file whose content changed between two versions under the same size and time.

    Attributes:
        path: absolute.
        older: the last version that has the older content.
        newer: the first that has the newer one.
    """

    path: bytes
    older: CopyVersion
    newer: CopyVersion
    size_bytes: int
    mtime_ns: int
    here: Here


class UnreadVersion(NamedTuple):
    """A file that could not be read in a version, and why."""

    path: bytes
    version: CopyVersion
    reason: str


def find_silent_changes(
    catalog: Catalog,
    config: Config,
    copy: str,
    path: bytes | None = None,
    *,
    stop: Stop,
    tell: Callable[[CopyVersion, int, int], None],
) -> Iterator[SilentChange | UnreadVersion]:
    """
    Compare each version of a copy with the one before it, from the oldest on; yield what changed silently.

    Args:
        copy: as ``find_source`` takes it.
        path: only below this real path; None: all of the copy.
        tell: receives each version with its number and how many there are.

    Raises:
        ConfigError: the copy keeps no versions, or covers nothing of the path.
        CopyUnreachable: it can't be read.
        ReadInterrupted: ``stop`` was set.
    """
    source, base = find_series(catalog, config, copy, path)
    with catalog.read() as connection:
        target = find_target(connection, source.base)
    above = source.base.rstrip(b"/") + b"/"
    with source.open(must_stop=stop.is_set) as opened:
        known = [*opened.versions()][::-1]
        place = place_in_copy(source, base)
        for number, (older, newer) in enumerate(pairwise(known), start=2):
            tell(newer, number, len(known))
            for one in _find_between(opened, older, newer, place, stop):
                if isinstance(one, UnreadVersion):
                    yield one._replace(path=above + one.path)
                    continue
                entry, digests = one
                assert entry.mtime_ns is not None
                assert entry.size_bytes is not None
                whole, here = above + entry.path, _find_here(catalog, target, above + entry.path, digests)
                yield SilentChange(whole, older, newer, entry.size_bytes, entry.mtime_ns, here)


def _find_between(
    copy: Copy, older: CopyVersion, newer: CopyVersion, place: bytes, stop: Stop
) -> Iterator[tuple[CopyEntry, tuple[bytes, bytes]] | UnreadVersion]:
    """Yield the files of two versions that differ under the same size and time, with both digests."""
    changed = frozenset(copy.find_changes(older, newer, place))
    if not changed:
        return
    before, after = (_list(copy, version, place, changed) for version in (older, newer))
    for version, (_, troubles) in ((older, before), (newer, after)):
        yield from (UnreadVersion(one.path, version, one.message) for one in troubles)
    for path, entry in after[0].items():
        former = before[0].get(path)
        if former is None or not former.looks_like(entry.size_bytes, entry.mtime_ns):
            continue
        digests = []
        for version in (older, newer):
            copy.choose(version)
            try:
                reading = read_from_copy(copy, path, _BLOCK_BYTES, pace=UNLIMITED, stop=stop, want=_WHOLE)
            except ReadInterrupted:
                raise
            except ReadError as error:
                yield UnreadVersion(path, version, str(error))
                break
            assert reading.digests.xxh3_128 is not None
            digests.append(reading.digests.xxh3_128)
        else:
            if digests[0] != digests[1]:
                yield entry, (digests[0], digests[1])


def _list(
    copy: Copy, version: CopyVersion, place: bytes, wanted: frozenset[bytes]
) -> tuple[dict[bytes, CopyEntry], list[Trouble]]:
    """List the wanted files of a version, and what could not be looked at of them or of their folders."""
    copy.choose(version)
    entries, troubles = dict[bytes, CopyEntry](), list[Trouble]()
    for one in copy.list(place):
        if isinstance(one, CopyEntry):
            if one.path in wanted:
                entries[one.path] = one
        elif any(is_below(path, one.path) for path in wanted):
            troubles.append(one)
    return entries, troubles


def _find_here(catalog: Catalog, target: Target, path: bytes, digests: tuple[bytes, bytes]) -> Here:
    """Say which of two digests is recorded of a file."""
    with catalog.read() as connection:
        record = files.find_file(connection, target.root.id, path[len(target.root.path.rstrip(b"/")) + 1 :])
    if record is None:
        return Here.NOT_RECORDED
    recorded = record.digests.xxh3_128
    return Here.OLDER if recorded == digests[0] else Here.NEWER if recorded == digests[1] else Here.OTHER
