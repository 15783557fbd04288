"""
Find out, after a walk, which names that it met lead to recorded files that had other names before.

A walk leaves here the unknown names of known inodes, and the names under which it found another inode than recorded:
most of these were saved by a program that writes a new file and renames it. But ``mv a b`` and a new ``a`` look the
same until ``b`` is met. Renames, rows of them (log to log.1, log.1 to log.2) and circles are all matched at once.

The names lie in a temporary table, sorted by inode, so that a million of them take no memory.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import TYPE_CHECKING

from integrity.catalog import files, roots
from integrity.catalog.files import LEAST_INODE, FoundName
from integrity.files.direct_io import find_birth_ns
from integrity.files.listing import Seen
from integrity.files.open_beneath import stat_beneath
from integrity.files.stamps import witness_of
from integrity.jobs.batching import IdSet
from integrity.jobs.judge.inodes import (
    ReplacedInodes,
    TreePlace,
    WalkedName,
    as_last_seen,
    has_its_file,
    is_backup_name,
)
from integrity.jobs.presence import may_be_there
from integrity.jobs.scan.matching import InodeRecord, Matches, Move, match_names
from integrity.model import FileId, Policy, Witness
from integrity.same_time import is_unwritten

if TYPE_CHECKING:
    from integrity.catalog.connection import Connection
    from integrity.catalog.rows import FileRecord
    from integrity.jobs.context import RootRun
    from integrity.jobs.scan.missing_files import MetFiles
    from integrity.jobs.scan.moved_files import MovedFiles

_NAMES_AT_ONCE = 2000
_NAMES_LOOKED_AT = 8
"""Of files with more links, only some recorded names are checked."""


class FoundNames:
    """
    Collect such names, and let records follow their files.

    Args:
        seen: the recorded files that were met.
        moved: writes the moves.
        replaced: names under which another inode than recorded was found.

    Attributes:
        place: the root, or its file system if other roots are on it: where inode numbers mean the same.
        has_names: some wait to be matched.
        linked: new names of recorded files that keep theirs, or moved, to be recorded.
    """

    def __init__(self, run: RootRun, seen: MetFiles, moved: MovedFiles, replaced: ReplacedInodes) -> None:
        self._run = run
        self._seen = seen
        self._moved = moved
        self._replaced = replaced
        with run.catalog.read() as connection:
            fs_id = roots.get_root(connection, run.root.id).identity.fs_id
            others = [one for one in roots.find_roots(connection) if one.id != run.root.id and one.file_count]
        # Inode numbers mean the same in all roots of a file system; another "tmpfs:tmpfs" has the same name.
        has_neighbours = fs_id.startswith("uuid:") and any(one.identity.fs_id == fs_id for one in others)
        self.place = fs_id if has_neighbours else run.root.id
        self._knows_inodes = run.capability.has_stable_inodes and (run.root.file_count > 0 or has_neighbours)
        self._is_growing = run.settings.policy is Policy.GROWING
        self._being_read = IdSet()  # recorded files to be read under their own names, whatever inode these lead to
        self._names: list[FoundName] = []
        self.has_names = False
        self.linked: deque[tuple[FileRecord, TreePlace]] = deque()

    def take_known(
        self, connection: Connection, unknown: Sequence[tuple[bytes, Sequence[Seen]]]
    ) -> list[tuple[bytes, Sequence[Seen]]]:
        """Keep unknown names whose inode may be a recorded one; return the others, grouped by folder as before."""
        inodes = [one.inode for _, names in unknown for one in names] if self._knows_inodes else []
        known: dict[int, list[Witness]] = {}
        frozen = set[int]()
        for one in files.find_known_inodes(connection, self.place, inodes) if inodes else ():
            known.setdefault(one.inode, []).append(Witness(one.size_bytes, one.mtime_ns, 0, one.inode))
            frozen |= {one.inode} if one.is_frozen else set()
        if not known:
            return list(unknown)

        def is_known(seen: Seen) -> bool:
            return seen.inode in (known if self._is_growing else frozen) or any(
                is_unwritten(one, Witness(*seen.stamps)) for one in known.get(seen.inode, ())
            )

        self._names += [
            FoundName(one.inode, folder, one.name, 0) for folder, names in unknown for one in names if is_known(one)
        ]
        return [(folder, [one for one in names if not is_known(one)]) for folder, names in unknown]

    def add_replaced(self, folder: bytes, seen: Seen, file_id: FileId) -> bool:
        """Keep a recorded name that leads to another inode; return False if there are too many, so it is read."""
        if not self._replaced.add(TreePlace(folder, seen.name), seen):
            self._being_read.add(file_id)
            return False
        self._names.append(FoundName(seen.inode, folder, seen.name, 1))
        return True

    def store(self) -> None:
        """Put the names that were kept into the table."""
        if not self._names:
            return
        with self._run.catalog.snapshot() as connection:
            if not self.has_names:
                files.make_found_names(connection)
            files.add_found_names(connection, self._names)
        self._names, self.has_names = [], True

    def follow(self) -> Iterator[list[WalkedName]]:
        """Match the names; yield, in pages, those to be read or compared. Names that have records come last."""
        held: list[Move] = []
        left: list[WalkedName] = []
        least, is_over = LEAST_INODE, self._run.context.stop.is_set
        while self.has_names and not is_over():
            with self._run.catalog.read() as connection:
                page = files.page_found_names(connection, least, _NAMES_AT_ONCE)
                names, moves = self._match_page(connection, page)
            if not page:
                self.has_names = False
                break
            least = page[-1].inode + 1
            recorded = {name.place for name in names if name.is_recorded}
            held += [move for move in moves if move.place in recorded]
            left += [name for name in names if name.is_recorded]
            free = [move for move in moves if move.place not in recorded]
            done, moved = self._moved.write(free), {move.place for move in free}
            unread = [
                name._replace(is_recorded=name.place in moved)
                for name in names
                if not (name.is_recorded or name.place in done)
            ]
            if unread:
                yield unread
        if left and not is_over():
            done = self._moved.write(held)
            yield [name for name in left if name.place not in done]

    def _match_page(self, connection: Connection, page: Sequence[FoundName]) -> tuple[list[WalkedName], list[Move]]:
        """Return the names that are no new links, and the moves to some of these."""
        left: list[WalkedName] = []
        moves: list[Move] = []
        for inode, some in groupby(page, lambda one: one.inode):
            names = [name for name in map(self._look_at, some) if name is not None]
            found = self._match_inode(connection, inode, [one for one in names if one.seen.inode == inode])
            linked = {place for _, place in found.linked}
            self.linked += found.linked
            left += [name for name in names if name.place not in linked]
            moves += found.moved
        return left, moves

    def _look_at(self, name: FoundName) -> WalkedName | None:
        """Look at a name again, for hours may have passed since it was met; return None if it is gone."""
        place = TreePlace(name.folder, name.name)
        try:
            stat = stat_beneath(self._run.root_fd, place.path)
        except OSError:
            return None
        return WalkedName(place, Seen(name.name, *witness_of(stat).stamps, stat.st_nlink), bool(name.is_recorded))

    def _match_inode(self, connection: Connection, inode: int, names: Sequence[WalkedName]) -> Matches:
        if not names:
            return Matches([], [])
        try:
            birth_ns = find_birth_ns(self._run.root_fd, names[0].place.path)
        except OSError:
            return Matches([], [])  # the job that reads it reports the error
        if names[0].seen.links > _NAMES_LOOKED_AT:
            # Trees of hard links get one more name each night. Names that the walk has met with this inode are still
            # there; if the newest tree is walked last, the one with the oldest baseline is left to check.
            ids = files.find_ids_of_inode(connection, self._run.root.id, inode)
            some = ids[:1] + [one for one in ids[1:] if one not in self._seen]
            found = match_names(
                *(names, self._find_records(connection, files.find_files(connection, some), names), birth_ns),
                is_growing=self._is_growing,
            )
            if len(found.moved) + len(found.linked) == len(names):
                return found
        known = files.find_by_inode(connection, self.place, inode)
        found_records = self._find_records(connection, known, names)
        return match_names(names, found_records, birth_ns, is_growing=self._is_growing)

    def _find_records(
        self, connection: Connection, known: Sequence[FileRecord], names: Sequence[WalkedName]
    ) -> list[InodeRecord]:
        run, found = self._run, list[InodeRecord]()
        for record in known:
            last, is_here = as_last_seen(connection, record), record.root_id == run.root.id
            has_inode = is_here and has_its_file(run.root_fd, last)
            keeps_name = has_inode or not is_here or record.id in self._being_read
            is_original = any(is_backup_name(name.place.path, record.path) for name in names)
            is_there = is_original and may_be_there(run.root_fd, record.path)
            found.append(InodeRecord(record, last.witness, keeps_name, has_inode, is_there))
        return found
