"""The contents that one file had in the versions of a copy."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from integrity.copies.protocol import Copy, CopyEntry
    from integrity.copies.versions import CopyVersion


class VersionSpan(NamedTuple):
    """
    Consecutive versions of a copy in which a file has one content, as far as the copy tells without its bytes.

    Attributes:
        versions: the oldest first.
        entry: None: they do not have the file.
    """

    versions: tuple[CopyVersion, ...]
    entry: CopyEntry | None


def find_spans(copy: Copy, path: bytes) -> Iterator[VersionSpan]:
    """
    Yield the contents of one file in an entered copy, the newest first; each is found when it is asked for.

    Raises:
        CopyUnreachable: a version can't be looked at.
    """
    versions: list[CopyVersion] = []
    entry: CopyEntry | None = None
    for version in reversed(copy.versions()):
        copy.choose(version)
        found = copy.look_at(path)
        if versions and found != entry:
            yield from _split(copy, path, versions[::-1], entry)
            versions = []
        versions.append(version)
        entry = found
    if versions:
        yield from _split(copy, path, versions[::-1], entry)


def _split(copy: Copy, path: bytes, versions: Sequence[CopyVersion], entry: CopyEntry | None) -> Iterator[VersionSpan]:
    """Yield the contents in versions where size and time of a file are the same: a backup may have read it anew."""
    if len(versions) > 1 and entry is not None and path in copy.find_changes(versions[0], versions[-1], path):
        middle = len(versions) // 2
        for half in (versions[middle:], versions[:middle]):
            yield from _split(copy, path, half, entry)
    else:
        yield VersionSpan(tuple(versions), entry)
