"""
Find what changed below a path since the gate was last passed, or since a time, and whether most of a group was hit.

Files that came and went in between, or were restored, are no change. Neither are changes that a person accepted: they
must not make the next ordinary change look like part of a wave.

Trees are uneven: 20,000 mails hide 1,500 photos beside them. So the limits of a mass change also hold for groups: all
documents (``is_document``) below a folder, or of one type. Sources, objects and mails change by the thousand and are
not counted. More than half of a group must be hit: culling an evening's photos removes a fifth.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from itertools import chain, islice
from typing import TYPE_CHECKING, NamedTuple

from integrity.catalog import gate_passes, roots, versions
from integrity.catalog.gate_passes import Passed, RecordedChange
from integrity.catalog.versions import VersionState
from integrity.config import RootSettings
from integrity.errors import show_path
from integrity.jobs.gate.file_types import is_document
from integrity.jobs.targets import Target
from integrity.model import RootId

if TYPE_CHECKING:
    from integrity.catalog.connection import Connection
    from integrity.catalog.roots import RootRecord
    from integrity.catalog.versions import FileVersion


KEPT = 100_000
"""Paths kept per kind of change: enough to see a pattern; all files are counted."""


@dataclass(slots=True)
class Changes:
    """
    What changed below a path. Paths are relative to the root; lists contain the first ``KEPT``.

    Args:
        rewritten: files with other content than before.
        removed: files that are gone.
        new: files that did not exist before.
        touched: files whose ctime or inode changed, but neither size nor mtime; usually the content is the same.
        known_before: number of files before.
    """

    rewritten: list[bytes]
    removed: list[bytes]
    new: list[RecordedChange]
    touched: list[bytes]
    rewritten_count: int = 0
    removed_count: int = 0
    new_count: int = 0
    known_before: int = 0


def find_changes(connection: Connection, target: Target, since: Passed | None) -> Changes:
    """
    Find what changed since the gate was passed.

    Args:
        connection: to a catalog that a scan has just updated.
        target: the part of a root.
        since: when the gate was last passed; None for never, then all files are new and nothing else is known.
    """
    touched = islice(gate_passes.find_touched(connection, target.root.id, target.prefix), KEPT)
    return _find(connection, target, since, since, Changes([], [], [], list(touched)))


def find_changes_after(connection: Connection, root: RootRecord, at: int) -> Changes:
    """
    Find what changed in a root after ``at`` (seconds UTC), including changes that await a decision.

    Files that were only touched are not included. The catalog must have just been updated by a scan.
    """
    since = gate_passes.get_past(connection, root.id, at)
    # Files that are newer than that time can be victims as well.
    lost_since = since._replace(last_file_id=gate_passes.ABOVE_ALL)
    return _find(connection, Target(root, b""), since, lost_since, Changes([], [], [], []))


def _find(
    connection: Connection, target: Target, since: Passed | None, lost_since: Passed | None, found: Changes
) -> Changes:
    """Find files that are new since one point, and files rewritten or removed since another."""
    root_id, prefix = target.root.id, target.prefix
    gone: dict[bytes, gate_passes.PassedContent] = {}
    if lost_since is not None:
        for one in gate_passes.find_removed(connection, root_id, prefix, lost_since):
            if len(gone) < KEPT:
                gone[one.path] = one.content
            else:
                found.removed_count += 1
    waiting = {one.path: one.is_gone for one in _find_waiting(connection, target)}
    for change in gate_passes.find_new(connection, root_id, prefix, since):
        if change.path in waiting:
            continue
        before = gone.pop(change.path, None)
        if before is None:
            found.new_count += 1
            if len(found.new) < KEPT:
                found.new.append(change)
            if since is None and found.new_count == KEPT:
                break
        elif not before.is_same(change.content):
            _add_rewritten(found, change.path)
    if lost_since is not None:
        _find_rewritten(connection, target, lost_since, found)
    rewritten = set(found.rewritten)  # a file that was edited twice counts once
    for path, is_gone in waiting.items():
        if is_gone:
            gone[path] = gate_passes.PassedContent(0, None, None)
        elif path not in rewritten:
            _add_rewritten(found, path)
    found.removed = list(gone)
    found.removed_count += len(gone)
    if since is not None:
        recorded = roots.count_files(connection, root_id, prefix)
        still_recorded = sum(waiting.values())
        found.known_before = max(recorded - found.new_count + found.removed_count - still_recorded, 0)
    return found


def _find_rewritten(connection: Connection, target: Target, since: Passed, found: Changes) -> None:
    for one in gate_passes.find_rewritten(connection, target.root.id, target.prefix, since):
        if not one.before.is_same(one.now):
            _add_rewritten(found, one.path)


def _find_waiting(connection: Connection, target: Target) -> Iterator[FileVersion]:
    """Yield the candidates that await the end of their run or are held by a mass change: a backup would copy them."""
    for state in (VersionState.STAGED, VersionState.HELD):
        yield from versions.find_candidates(connection, target.root.id, state, target.prefix)


def _add_rewritten(found: Changes, path: bytes) -> None:
    found.rewritten_count += 1
    if len(found.rewritten) < KEPT:
        found.rewritten.append(path)


GROUP_PERCENT = 50
"""Least share of a group that counts as hit; the configured percentage applies if it is higher."""


class FileGroup(NamedTuple):
    """The documents below a folder (empty for the root), or those of one type in the whole root."""

    folder: bytes
    suffix: bytes = b""

    @property
    def name(self) -> str:
        """Return a description for people."""
        if self.suffix:
            return f".{self.suffix.decode()} files"
        documents = "pictures, films, music, documents and archives"
        return f"{documents} below {show_path(self.folder)}" if self.folder else documents


def find_hit_group(connection: Connection, root_id: RootId, changes: Changes, settings: RootSettings) -> str | None:
    """
    Find the group of which too much changed or went; None if there is none.

    Memory grows with the changes, of which at most ``KEPT`` paths per kind are kept. The root's paths are iterated only
    if enough documents were hit.

    Returns:
        A description for people of the group and how much of it was hit.
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
    group = max(beyond, key=lambda one: (large[one], one.folder, one.suffix))  # on a tie, the innermost folder
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
    """Count the files of groups as they were before: without new files, with those gone from the catalog."""
    new = {change.path for change in changes.new}
    gone = set(changes.removed)
    known: Counter[FileGroup] = Counter()
    for path in gate_passes.find_paths(connection, root_id):
        gone.discard(path)
        if path not in new:
            known.update(group for group in _groups_of(path) if group in groups)
    known.update(group for path in gone for group in _groups_of(path) if group in groups)
    return known
