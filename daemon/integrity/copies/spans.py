"""The contents that one file had in the versions of a copy."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice
from typing import TYPE_CHECKING, NamedTuple

from integrity.errors import CopyUnreachable

if TYPE_CHECKING:
    from integrity.copies.protocol import Copy, CopyEntry
    from integrity.copies.versions import CopyVersion


_FAILURES_IN_A_ROW = 3
"""After so many versions that can't be looked at, or as many as there are, it is the copy that can't."""


class VersionSpan(NamedTuple):
    """
    Consecutive versions of a copy in which a file has one content, as far as the copy tells without its bytes.

    Attributes:
        versions: the oldest first.
        entry: None: they do not have the file, or can't be looked at.
        trouble: why they can't be; else empty.
    """

    versions: tuple[CopyVersion, ...]
    entry: CopyEntry | None
    trouble: str = ""


def find_spans(copy: Copy, paths: Sequence[bytes], most: int | None = None) -> Iterator[VersionSpan]:
    """
    Yield the contents of one file in an entered copy, the newest first; each is found when it is asked for.

    Args:
        paths: of the file in the copy, first its own; others count where it is missing: it may have been renamed.
        most: look only at so many versions; None: at all.

    Raises:
        CopyUnreachable: no version can be looked at.
    """
    span: VersionSpan | None = None
    failures, has_any = list[CopyUnreachable](), False
    for version in islice(copy.versions(), most):
        try:
            copy.choose(version)
            found = VersionSpan((version,), next(filter(None, map(copy.look_at, paths)), None))
            failures, has_any = [], True
        except CopyUnreachable as error:
            failures.append(error)
            if len(failures) == _FAILURES_IN_A_ROW:
                raise
            found = VersionSpan((version,), None, str(error))
        if span is not None and (found[1:] != span[1:] or _has_changed(copy, version, span.versions[0], span.entry)):
            yield span
            span = None
        span = found if span is None else span._replace(versions=(version, *span.versions))
    if failures and not has_any:
        raise failures[-1]
    if span is not None:
        yield span


def _has_changed(copy: Copy, older: CopyVersion, newer: CopyVersion, entry: CopyEntry | None) -> bool:
    """Return whether content may have changed where size and time did not: a backup may have read it anew."""
    return entry is not None and entry.path in copy.find_changes(older, newer, entry.path)
