"""
Track names under which a walk found a different inode than recorded.

Most were saved by a program that writes a new file and renames it. But ``mv a b`` and a new ``a`` look the same until
``b`` is found: then the record of ``a`` belongs to ``b``, and ``a`` is a new file. So these names are queued until the
walk has seen all others.

If names swapped their files, the records follow the files, provided that each inode is proved to be the recorded one.
Nothing is read, and history and findings move along.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from integrity.catalog import files
from integrity.catalog.rows import FileRecord, Sighting
from integrity.jobs.judge.inodes import as_last_seen, is_same_inode, was_born_before
from integrity.model import Witness
from integrity.same_time import is_unwritten

if TYPE_CHECKING:
    from integrity.catalog.connection import Connection
    from integrity.files.listing import Seen
    from integrity.jobs.context import RootRun
    from integrity.model import FileId


class TreePlace(NamedTuple):
    """The location of a file: the path of its folder, and its name."""

    folder: bytes
    name: bytes

    @property
    def path(self) -> bytes:
        """The path of the file."""
        return self.folder + b"/" + self.name if self.folder else self.name

    @classmethod
    def of(cls, path: bytes) -> TreePlace:
        """Split a path."""
        folder, _, name = path.rpartition(b"/")
        return cls(folder, name)


@dataclass(slots=True)
class Move:
    """
    A recorded file that has a new name, or an additional one.

    Args:
        place: its new location.
        seen: its stat there.
        former: its path before the run, if its record had to make room for another one since.
    """

    record: FileRecord
    place: TreePlace
    seen: Sighting
    former: bytes | None = None


_BACKUP = re.compile(rb"~|\.~\d+~")
_KEPT = 200_000
"""Maximum number of queued names; only a whole tree on a new disk has more, and there nothing was moved."""


class ReplacedName(NamedTuple):
    """A name and the stat of the file it leads to now."""

    place: TreePlace
    seen: Seen


class ReplacedInodes:
    """Queue such names and find files by their inode."""

    def __init__(self) -> None:
        self._names: list[ReplacedName] = []
        self._found: dict[int, ReplacedName] = {}

    def add(self, place: TreePlace, seen: Seen) -> bool:
        """Queue a name; return False if too many are queued."""
        if len(self._names) >= _KEPT:
            return False
        name = ReplacedName(place, seen)
        self._names.append(name)
        self._found[seen.inode] = name
        return True

    def take(self) -> list[ReplacedName]:
        """Return and clear the queued names."""
        names, self._names = self._names, []
        return names

    def find(self, path: bytes, witness: Witness) -> bytes | None:
        """Return the other name that the file with this witness has now, unwritten."""
        found = self._found.get(witness.inode)
        is_it = found is not None and found.place.path != path and is_unwritten(witness, Witness(*found.seen.stamps))
        return found.place.path if found is not None and is_it else None

    def find_written(self, root_fd: int, last: FileRecord) -> bytes | None:
        """Return the other name that the file ``last`` has now, by inode and birth time; its content may differ."""
        found = self._found.get(last.witness.inode)
        if found is None or found.place.path == last.path:
            return None
        return found.place.path if was_born_before(root_fd, found.place.path, last) else None


def is_backup_name(path: bytes, original: bytes) -> bool:
    """
    Return whether a path is what ``cp``, ``mv``, ``rsync`` and editors call the file that they replaced: a~ or a.~1~.

    Such a file was put aside, not renamed: the name, and what is recorded of it, is that of the file that came.
    """
    return path.startswith(original) and _BACKUP.fullmatch(path[len(original) :]) is not None


def find_cycles(run: RootRun, names: Sequence[ReplacedName]) -> list[list[Move]]:
    """Return the groups of names that swapped their files; within a group each name gets exactly one record."""
    with run.catalog.read() as connection:
        moves = {move.place.path: move for move in _match_inodes(connection, run, names)}
    vacated = {move.record.path: path for path, move in moves.items()}
    blocked = [path for path in moves if path not in vacated]
    while blocked:  # the record of this name stays, so no record can move here
        move = moves.pop(blocked.pop())
        del vacated[move.record.path]
        if move.record.path in moves:
            blocked.append(move.record.path)
    cycles: list[list[Move]] = []
    while moves:
        path, first = moves.popitem()
        cycle = [first]
        while cycle[-1].record.path != path:
            cycle.append(moves.pop(cycle[-1].record.path))
        cycles.append(cycle)
    return cycles


def _match_inodes(connection: Connection, run: RootRun, names: Sequence[ReplacedName]) -> Iterable[Move]:
    """
    Match names with the records of their current inodes, if those records are among these names, too.

    A file that was written to since is matched if its birth time proves that it is the same inode.
    """
    paths = {name.place.path for name in names}
    matched: set[FileId] = set()
    for place, seen in names:
        fitting: list[tuple[FileRecord, FileRecord]] = []
        for record in files.find_by_inode(connection, run.root.id, seen.inode):
            if record.path in paths and record.id not in matched:
                last = as_last_seen(connection, record)
                if is_unwritten(last.witness, Witness(*seen.stamps)) or was_born_before(run.root_fd, place.path, last):
                    fitting.append((record, last))
        # Of several links prefer the one with the same base name: folders are swapped more often than files.
        fitting.sort(key=lambda one: one[0].path.rpartition(b"/")[2] != place.name)
        if fitting and is_same_inode(run.root_fd, place.path, fitting[0][1]):
            record = fitting[0][0]
            matched.add(record.id)
            yield Move(record, place, Sighting(seen.inode, seen.ctime_ns))
