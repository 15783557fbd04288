"""The contents that one file had in the versions of a copy."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
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


def find_spans(copy: Copy, paths: Sequence[bytes], most: int | None = None) -> Iterator[VersionSpan]:
    """
    Yield the contents of one file in an entered copy, the newest first; each is found when it is asked for.

    Args:
        paths: of the file in the copy, first its own; others count where it is missing: it may have been renamed.
        most: look only at so many versions; None: at all.

    Raises:
        CopyUnreachable: a version can't be looked at.
    """
    versions: list[CopyVersion] = []
    entry: CopyEntry | None = None
    for version in islice(copy.versions(), most):
        copy.choose(version)
        found = next(filter(None, map(copy.look_at, paths)), None)
        if versions and (found != entry or _has_changed(copy, version, versions[0], entry)):
            yield VersionSpan(tuple(versions), entry)
            versions = []
        versions.insert(0, version)
        entry = found
    if versions:
        yield VersionSpan(tuple(versions), entry)


def _has_changed(copy: Copy, older: CopyVersion, newer: CopyVersion, entry: CopyEntry | None) -> bool:
    """Return whether content may have changed where size and time did not: a backup may have read it anew."""
    return entry is not None and entry.path in copy.find_changes(older, newer, entry.path)
