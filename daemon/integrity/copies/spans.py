"""The contents that one file had in the versions of a copy."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
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


def find_spans(copy: Copy, path: bytes, most: int | None = None) -> Iterator[VersionSpan]:
    """
    Yield the contents of one file in an entered copy, the newest first; each is found when it is asked for.

    ``most``: look only at so many versions; None: at all.

    Raises:
        CopyUnreachable: a version can't be looked at.
    """
    versions: list[CopyVersion] = []
    entry: CopyEntry | None = None
    for version in islice(copy.versions(), most):
        copy.choose(version)
        found = copy.look_at(path)
        if versions and (found != entry or _has_changed(copy, path, version, versions[0], entry)):
            yield VersionSpan(tuple(versions), entry)
            versions = []
        versions.insert(0, version)
        entry = found
    if versions:
        yield VersionSpan(tuple(versions), entry)


def _has_changed(copy: Copy, path: bytes, older: CopyVersion, newer: CopyVersion, entry: CopyEntry | None) -> bool:
    """Return whether content may have changed where size and time did not: a backup may have read it anew."""
    return entry is not None and path in copy.find_changes(older, newer, path)
