"""
Compare recorded files with chosen versions of a backup, and record nothing.

What an older version has is no finding: it may be older, and what came since is missing there. Only other content under
the recorded size and time is told file by file, and what can't be read.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from integrity.arbitration import CopyVote
from integrity.catalog import files, versions
from integrity.copies.protocol import CopyEntry, Kind, Published, Trouble
from integrity.copies.versions import CopyVersion, find_version
from integrity.errors import CopyUnreachable, ReadError, ReadInterrupted
from integrity.jobs.compare.copy_answer import is_older
from integrity.jobs.compare.read_back import digest_in_copy
from integrity.jobs.compare.source import find_series, place_in_copy
from integrity.jobs.targets import find_target

if TYPE_CHECKING:
    from collections.abc import Callable

    from integrity.catalog.connection import Catalog
    from integrity.config import Config
    from integrity.copies.protocol import Copy
    from integrity.hashing.tasks import StopSignal
    from integrity.jobs.targets import Target

LISTED, OTHER, SILENT, EXTRA = "listed", "other", "silent", "extra"
"""Counted besides the votes: unread, the recorded size and time, or others; other content under these; not recorded."""


class ToldFile(NamedTuple):
    """What is told by itself of a version: a ``reason`` why it can't be read; else a file that changed silently."""

    path: bytes  # absolute
    version: CopyVersion
    reason: str = ""


class ComparedVersion(NamedTuple):
    """How many files a version has of each kind: the words of ``CopyVote`` and those above."""

    version: CopyVersion
    counts: Counter[str]


def compare_versions(
    catalog: Catalog,
    config: Config,
    copy: str,
    path: bytes | None,
    *,
    chosen: str | None,
    reads: bool,
    stop: StopSignal,
    tell: Callable[[CopyVersion], None],
) -> Iterator[ToldFile | ComparedVersion]:
    """
    Hold versions of a copy against the record, the newest first.

    Args:
        copy: as ``find_source`` takes it.
        path: only what lies at or below this real path; None: all of the copy.
        chosen: the version, as ``find_version`` takes it; None: all.
        reads: read all data, and not only sizes and times.
        tell: receives each version before it is compared.

    Raises:
        ConfigError: the copy keeps no versions, or not this one.
        CopyUnreachable: it can't be read, or not the chosen version.
        ReadInterrupted: ``stop`` was set.
    """
    source, base = find_series(catalog, config, copy, path)
    with catalog.read() as connection:
        target = find_target(connection, base)
    above = source.base.rstrip(b"/") + b"/"
    with source.open(must_stop=stop.is_set) as opened:
        known = [*opened.versions()]
        for version in known if chosen is None else [find_version(known[::-1], chosen)]:
            tell(version)
            counts = Counter[str]()
            try:
                opened.choose(version)
                for one in _list(opened, place_in_copy(source, base), reads=reads, stop=stop):
                    kind, reason = _judge(catalog, target, above, one)
                    counts[kind] += 1
                    if kind in (SILENT, CopyVote.UNREADABLE):
                        yield ToldFile(above + one.path, version, reason)
            except CopyUnreachable as error:
                if chosen is not None:
                    raise
                yield ToldFile(base, version, str(error))
                continue
            with catalog.read() as connection:
                recorded = files.count_files_below(connection, target.root.id, target.prefix, is_deep=True)
                recorded += files.find_file(connection, target.root.id, target.prefix) is not None
            counts[CopyVote.MISSING] = max(0, recorded - (counts.total() - counts[EXTRA]))
            yield ComparedVersion(version, +counts)


def _list(copy: Copy, place: bytes, *, reads: bool, stop: StopSignal) -> Iterator[CopyEntry | Trouble]:
    """List the files at and below a place; if it is to be read, with the digest of each."""
    if not reads or copy.reads_all_at_once:
        yield from copy.read_all(place) if reads else copy.list(place)
        return
    for one in copy.list(place):
        if not isinstance(one, CopyEntry):
            yield one
            continue
        try:
            digest = digest_in_copy(copy, one.path, stop)
        except ReadInterrupted:
            raise
        except ReadError as error:
            yield Trouble(one.path, str(error))
        else:
            yield one._replace(published=(Published(Kind.XXH3_128, digest),))


def _judge(catalog: Catalog, target: Target, above: bytes, one: CopyEntry | Trouble) -> tuple[str, str]:
    """Return what a file counts as, and why it can't be read."""
    if not isinstance(one, CopyEntry):
        return CopyVote.UNREADABLE, one.message
    path = (above + one.path)[len(target.root.path.rstrip(b"/")) + 1 :]
    with catalog.read() as connection:
        record = files.find_file(connection, target.root.id, path)
        if record is None:
            return EXTRA, ""
        is_like = one.looks_like(*record.witness.size_and_mtime)
        if not one.published:
            return LISTED if is_like else OTHER, ""
        if any(digest.value == record.digests.xxh3_128 for digest in one.published):
            return CopyVote.SAME, ""
        if is_like:
            return SILENT, ""
        former = versions.former_of(connection, target.root.id, path)
    return CopyVote.OLDER if is_older(former, one.size_bytes, one.published) else CopyVote.DIFFERS, ""
