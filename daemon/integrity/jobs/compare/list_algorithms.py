"""
Find the algorithms that a list does not name, before it is compared: by records, or by reading some of its files.

What was read for this is not read again: the comparison takes it from the result.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from integrity.catalog import files, versions
from integrity.catalog.copy_listing import find_names
from integrity.catalog.rows import FileRecord
from integrity.copies.protocol import KINDS, Copy, Published
from integrity.hashing.algorithms import name_digests
from integrity.jobs.compare.local_digests import EarlyMatches, FileMatch, LocalPass, MatchRequest
from integrity.lists.entries import Digests
from integrity.lists.unnamed import ListAlgorithms
from integrity.same_name import SamePaths

if TYPE_CHECKING:
    from integrity.catalog.connection import Connection
    from integrity.jobs.context import RootRun


def find_algorithms(run: RootRun, copy: Copy, base: bytes) -> EarlyMatches:
    """
    Find the algorithms of a list's digests; for copies that name theirs, do nothing.

    Args:
        copy: entered.
        base: the folder in the root that the copy's top stands for.

    Returns:
        What the files that were read turned out to be.
    """
    algorithms = copy.algorithms
    if algorithms is None:
        return {}
    sample: list[tuple[FileRecord, Digests]] = []
    with run.catalog.read() as connection:
        paths = SamePaths(partial(find_names, connection, run.root.id), ignores_case=True, has_backslashes=True)
        for place, digests in copy.sample_unnamed():
            path = base + b"/" + place if base else place
            find_file = partial(files.find_file, connection, run.root.id)
            record = find_file(path)
            if record is None and (found := paths.find(path)) is not None:
                record = find_file(found)
            if record is not None:
                _ask_records(connection, run, algorithms, record, digests)
                sample.append((record, digests))
    early: EarlyMatches = {}
    for record, digests in sorted(sample, key=lambda one: one[0].witness.size_bytes):
        if algorithms.is_open(digests) and not run.context.stop.is_set():
            _read(run, algorithms, record, digests, early)
    algorithms.conclude()
    return early


def _ask_records(
    connection: Connection, run: RootRun, algorithms: ListAlgorithms, record: FileRecord, digests: Digests
) -> None:
    """Learn from what is recorded of a file, and from its former versions: the list may be an old one."""
    algorithms.take(digests, name_digests(record.digests))
    if algorithms.is_open(digests):
        for former in versions.former_of(connection, run.root.id, record.path):
            algorithms.take(digests, name_digests(former.digests))


def _read(run: RootRun, algorithms: ListAlgorithms, record: FileRecord, digests: Digests, early: EarlyMatches) -> None:
    """Read a file with all candidates, and learn which of them match."""
    stated = {one: digest for key, digest in digests.items() for one in algorithms.expand((key,))}
    published = tuple(Published(KINDS[one], digest) for one, digest in stated.items())
    for _, found in LocalPass(run, has_etags=False, jobs=1).match([MatchRequest(None, record, published)]):
        if isinstance(found, FileMatch):
            matches = zip(stated.items(), found.matches, strict=True)
            # Of a candidate that does not match, any other digest does.
            algorithms.take(digests, {one: digest if is_match else b"" for (one, digest), is_match in matches})
            early[record.id] = published, found
