"""
Find files of a backup whose content changed from one version to the next, while their size and time did not.

Nobody wrote to such a file, as far as times tell: it rotted, or a program put the time back. The content that stands in
the older version was read when that one was made, so this is a witness from before anything was recorded here.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from enum import StrEnum
from threading import Event
from typing import TYPE_CHECKING, NamedTuple

from integrity.catalog import files
from integrity.copies.filenames import is_below
from integrity.copies.opening import open_copy
from integrity.copies.protocol import CopyEntry, Trouble
from integrity.errors import CopyUnreachable, ReadError, ReadInterrupted
from integrity.jobs.compare.read_back import digest_in_copy
from integrity.jobs.compare.source import place_in_copy
from integrity.jobs.targets import find_target

if TYPE_CHECKING:
    from collections.abc import Callable

    from integrity.catalog.connection import Catalog
    from integrity.copies.protocol import Copy
    from integrity.copies.versions import CopyVersion
    from integrity.jobs.compare.source import CopySource
    from integrity.jobs.report import Stop

_FAILURES_IN_A_ROW = 3  # after so many it is the copy that can't be read


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
    """A file or folder that could not be read in a version, and why."""

    path: bytes
    version: CopyVersion
    reason: str


def find_silent_changes(
    source: CopySource,
    base: bytes,
    find_digest: Callable[[bytes], bytes | None],
    *,
    stop: Stop,
    tell: Callable[[CopyVersion, int, int], None],
) -> Iterator[SilentChange | UnreadVersion]:
    """
    Compare each version of a copy with the one before it, from the oldest on; yield what changed silently.

    Args:
        source: a copy that keeps versions.
        base: absolute path of the part of its folder that is meant.
        find_digest: returns the XXH3 digest that a file has here, by its absolute path; None: it has none.
        tell: receives each version with its number and how many there are.

    Raises:
        CopyUnreachable: the copy can't be read.
        ReadInterrupted: ``stop`` was set.
    """
    above = source.base.rstrip(b"/") + b"/"
    with source.open(must_stop=stop.is_set) as opened:
        known = [*opened.versions()][::-1]
        place = place_in_copy(source, base)
        older, failures = next(iter(known), None), 0
        for number, newer in enumerate(known[1:], start=2):
            assert older is not None
            tell(newer, number, len(known))
            try:
                for one in _find_between(opened, older, newer, place, stop):
                    if isinstance(one, UnreadVersion):
                        yield one._replace(path=above + one.path)
                        continue
                    entry, digests = one
                    assert entry.mtime_ns is not None
                    assert entry.size_bytes is not None
                    whole = above + entry.path
                    here = _find_here(find_digest(whole), digests)
                    yield SilentChange(whole, older, newer, entry.size_bytes, entry.mtime_ns, here)
            except CopyUnreachable as error:
                failures += 1
                if failures == _FAILURES_IN_A_ROW:
                    raise
                is_newer_whole = _is_whole(opened, newer, place)
                yield UnreadVersion(base, older if is_newer_whole else newer, str(error))
                older = newer if is_newer_whole else older
            else:
                older, failures = newer, 0


def look_up_digests(catalog: Catalog, base: bytes) -> Callable[[bytes], bytes | None]:
    """
    Return what finds the recorded digest of a file by its absolute path; None for files that are not recorded.

    Raises:
        ConfigError: ``base`` lies in no recorded folder.
    """
    with catalog.read() as connection:
        root = find_target(connection, base).root
    top = len(root.path.rstrip(b"/")) + 1

    def find(path: bytes) -> bytes | None:
        with catalog.read() as connection:
            record = files.find_file(connection, root.id, path[top:])
        return None if record is None else record.digests.xxh3_128

    return find


def digest_file(path: bytes) -> bytes | None:
    """Read a file, and return its XXH3 digest; None if it can't be read."""
    folder, name = os.path.split(path)
    try:
        with open_copy(os.fsdecode(folder)) as copy:
            return digest_in_copy(copy, name, Event())
    except (ReadError, CopyUnreachable):
        return None


def _is_whole(copy: Copy, version: CopyVersion, place: bytes) -> bool:
    """Return whether all of a version can be listed."""
    try:
        copy.choose(version)
        return all(True for _ in copy.list(place))
    except CopyUnreachable:
        return False


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
                digests.append(digest_in_copy(copy, path, stop))
            except ReadInterrupted:
                raise
            except ReadError as error:
                yield UnreadVersion(path, version, str(error))
                break
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


def _find_here(digest: bytes | None, digests: tuple[bytes, bytes]) -> Here:
    """Say which of two digests a file has here."""
    if digest is None:
        return Here.NOT_RECORDED
    return Here.OLDER if digest == digests[0] else Here.NEWER if digest == digests[1] else Here.OTHER
