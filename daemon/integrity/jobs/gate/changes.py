"""
What is different below a path from what it was when the gate was last passed, or a day ago.

What came and went in between, and what was restored, is no difference. What a person agreed to is none either: it must
not make the next honest change look like part of a wave.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING

from integrity.catalog import candidates, gate_passes
from integrity.catalog.candidates import CandidateKind, CandidateState
from integrity.catalog.gate_passes import Passed, Standing
from integrity.jobs.targets import Target, is_inside
from integrity.model import FileId

if TYPE_CHECKING:
    from integrity.catalog.candidates import CandidateRecord
    from integrity.catalog.connection import Connection
    from integrity.catalog.roots import RootRecord

KEPT = 100_000
"""Files of each sort that are kept by name: enough to see what they have in common; all of them are counted."""

_PAGE = 1000


@dataclass(slots=True)
class Changes:
    """
    What changed below a path. Paths are relative to the root; lists hold the first ``KEPT``.

    Args:
        rewritten: files with other content than before.
        removed: files that are gone.
        new: files that were not there.
        touched: files that somebody did something to that left size and mtime as they were; most often it was nothing.
        known_before: how many files there were.
    """

    rewritten: list[bytes]
    removed: list[bytes]
    new: list[Standing]
    touched: list[bytes]
    rewritten_count: int = 0
    removed_count: int = 0
    new_count: int = 0
    known_before: int = 0


def find_changes(connection: Connection, target: Target, since: Passed | None) -> Changes:
    """
    Find what changed since the gate was passed.

    Args:
        connection: to the catalog, in which a scan has just written what it saw.
        target: what is asked about.
        since: where the gate was last passed; None: never, so that all files are new and nothing else is known.
    """
    touched = islice(gate_passes.find_touched(connection, target.root.id, target.prefix), KEPT)
    return _find(connection, target, since, since, Changes([], [], [], list(touched)))


def find_changes_after(connection: Connection, root: RootRecord, at: int) -> Changes:
    """
    Find what changed in a root after a time, what waits for a decision included; but not what was only touched.

    Args:
        connection: to the catalog, in which a scan has just written what it saw.
        root: the root.
        at: seconds UTC.
    """
    since = gate_passes.get_past(connection, root.id, at)
    # A file that came after that time can be a victim as well as those that were there.
    lost_since = since._replace(last_file_id=gate_passes.ABOVE_ALL)
    return _find(connection, Target(root, b""), since, lost_since, Changes([], [], [], []))


def _find(
    connection: Connection, target: Target, since: Passed | None, lost_since: Passed | None, found: Changes
) -> Changes:
    """Find what is new since one point, and what was rewritten or went since another."""
    root_id, prefix = target.root.id, target.prefix
    gone: dict[bytes, gate_passes.Content] = {}
    if lost_since is not None:
        for one in gate_passes.find_removed(connection, root_id, prefix, lost_since):
            if len(gone) < KEPT:
                gone[one.path] = one.content
            else:
                found.removed_count += 1
    waiting = {one.path: one.kind for one in _find_waiting(connection, target)}
    for standing in gate_passes.find_new(connection, root_id, prefix, since):
        if standing.path in waiting:
            continue
        before = gone.pop(standing.path, None)
        if before is None:
            _add_new(found, standing)
            if since is None and found.new_count == KEPT:
                break
        elif not before.is_same(standing.content):
            _add_rewritten(found, standing.path)
    if lost_since is not None:
        _find_rewritten(connection, target, lost_since, found)
    rewritten = set(found.rewritten)  # a file that is edited again counts once
    for path, kind in waiting.items():
        if kind is CandidateKind.REMOVAL:
            gone[path] = gate_passes.Content(0, None, None)
        elif path not in rewritten:
            _add_rewritten(found, path)
    found.removed = list(gone)
    found.removed_count += len(gone)
    if since is not None:
        recorded = gate_passes.count_files(connection, root_id, prefix)
        still_recorded = sum(kind is CandidateKind.REMOVAL for kind in waiting.values())
        found.known_before = max(recorded - found.new_count + found.removed_count - still_recorded, 0)
    return found


def _find_rewritten(connection: Connection, target: Target, since: Passed, found: Changes) -> None:
    for one in gate_passes.find_rewritten(connection, target.root.id, target.prefix, since):
        if not one.before.is_same(one.now):
            _add_rewritten(found, one.path)


def _find_waiting(connection: Connection, target: Target) -> Iterator[CandidateRecord]:
    """Go through what waits for its run's end, or a mass change holds: a backup would copy it."""
    for state in (CandidateState.STAGED, CandidateState.HELD):
        after = FileId(0)
        while page := candidates.find_candidates(connection, target.root.id, state=state, after=after, limit=_PAGE):
            yield from (one for one in page if is_inside(one.path, target.prefix))
            after = page[-1].file_id


def _add_new(found: Changes, standing: Standing) -> None:
    found.new_count += 1
    if len(found.new) < KEPT:
        found.new.append(standing)


def _add_rewritten(found: Changes, path: bytes) -> None:
    found.rewritten_count += 1
    if len(found.rewritten) < KEPT:
        found.rewritten.append(path)
