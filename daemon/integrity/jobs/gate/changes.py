"""
What is different below a path from what it was when the gate was last passed, or a day ago.

What came and went in between, and what was restored, is no difference. What a person agreed to is none either: it must
not make the next honest change look like part of a wave.

Did most files of one group change or go, though they are few beside all others of the root?

A tree is not even: a maildir of 20,000 files hides what happens to 1,500 photos beside it. So the limits of a mass
change hold for groups, too: all that lies below a folder, and all files of one type. Only documents count there, see
``is_document``, for in a folder of sources, objects or mails it is usual that most of them are others tomorrow; and
more than half of them must be hit, for a fifth is what is culled of an evening's photos. What is smaller, an album that
is deleted or tagged anew, is a person's ordinary work; its encryption is for the signs to find.

A scan weighs in this way what it found and what the day before brought; a gate what a backup would copy.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from itertools import chain, islice
from typing import TYPE_CHECKING, NamedTuple

from integrity.catalog import candidates, gate_passes
from integrity.catalog.candidates import CandidateKind, CandidateState
from integrity.catalog.gate_passes import Passed, StandingChanges
from integrity.config import RootSettings
from integrity.errors import show_path
from integrity.jobs.gate.file_types import is_document
from integrity.jobs.targets import Target, is_inside
from integrity.model import FileId, RootId

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
    new: list[StandingChanges]
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
    gone: dict[bytes, gate_passes.PassedContent] = {}
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
            gone[path] = gate_passes.PassedContent(0, None, None)
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


def _add_new(found: Changes, standing: StandingChanges) -> None:
    found.new_count += 1
    if len(found.new) < KEPT:
        found.new.append(standing)


def _add_rewritten(found: Changes, path: bytes) -> None:
    found.rewritten_count += 1
    if len(found.rewritten) < KEPT:
        found.rewritten.append(path)


GROUP_PERCENT = 50
"""At least so much of a group; the configured percentage holds where it is more."""


class FileGroup(NamedTuple):
    """The documents below a folder, empty for the root; or those of one type in all of the root."""

    folder: bytes
    suffix: bytes = b""

    @property
    def name(self) -> str:
        """Name it for people."""
        if self.suffix:
            return f".{self.suffix.decode()} files"
        documents = "pictures, films, music, documents and archives"
        return f"{documents} below {show_path(self.folder)}" if self.folder else documents


def find_hit_group(connection: Connection, root_id: RootId, changes: Changes, settings: RootSettings) -> str | None:
    """
    Find a group of which more changed or went than is to be believed; None: there is none.

    Memory grows with what changed, of which a hundred thousand paths of each sort are kept; the names of the root are
    gone through only if so many documents were hit.

    Returns:
        What it is and how much of it, for people.
    """
    hit = Counter(group for path in chain(changes.rewritten, changes.removed) for group in _groups_of(path))
    large = {group: count for group, count in hit.items() if count > settings.mass_change_files}
    if not large:
        return None
    known = _count_known(connection, root_id, changes, large.keys())
    percent = max(GROUP_PERCENT, settings.mass_change_percent)
    beyond = [group for group, count in large.items() if count * 100 > percent * known[group]]
    if not beyond:
        return None
    group = max(beyond, key=lambda one: (large[one], one.folder, one.suffix))  # of equal ones, the innermost folder
    return f"{large[group]} of {max(known[group], large[group])} {group.name} changed or are gone"


def _groups_of(path: bytes) -> Iterator[FileGroup]:
    if not is_document(path):
        return
    yield FileGroup(b"", path.rpartition(b".")[2].lower())
    folder = path
    while folder:
        folder = folder.rpartition(b"/")[0]
        yield FileGroup(folder)


def _count_known(
    connection: Connection, root_id: RootId, changes: Changes, groups: Collection[FileGroup]
) -> Counter[FileGroup]:
    """Count the files of groups as they were before: without new ones, with those that are gone from the catalog."""
    new = {standing.path for standing in changes.new}
    gone = set(changes.removed)
    known: Counter[FileGroup] = Counter()
    for path in gate_passes.find_paths(connection, root_id):
        gone.discard(path)
        if path not in new:
            known.update(group for group in _groups_of(path) if group in groups)
    known.update(group for path in gone for group in _groups_of(path) if group in groups)
    return known
