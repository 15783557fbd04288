"""
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
from itertools import chain
from typing import TYPE_CHECKING, NamedTuple

from integrity.catalog import gate_passes
from integrity.config import RootSettings
from integrity.errors import show_path
from integrity.jobs.gate.changes import Changes
from integrity.jobs.gate.file_types import is_document
from integrity.model import RootId

if TYPE_CHECKING:
    from integrity.catalog.connection import Connection

GROUP_PERCENT = 50
"""At least so much of a group; the configured percentage holds where it is more."""


class Group(NamedTuple):
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


def _groups_of(path: bytes) -> Iterator[Group]:
    if not is_document(path):
        return
    yield Group(b"", path.rpartition(b".")[2].lower())
    folder = path
    while folder:
        folder = folder.rpartition(b"/")[0]
        yield Group(folder)


def _count_known(
    connection: Connection, root_id: RootId, changes: Changes, groups: Collection[Group]
) -> Counter[Group]:
    """Count the files of groups as they were before: without new ones, with those that are gone from the catalog."""
    new = {standing.path for standing in changes.new}
    gone = set(changes.removed)
    known: Counter[Group] = Counter()
    for path in gate_passes.find_paths(connection, root_id):
        gone.discard(path)
        if path not in new:
            known.update(group for group in _groups_of(path) if group in groups)
    known.update(group for path in gone for group in _groups_of(path) if group in groups)
    return known
