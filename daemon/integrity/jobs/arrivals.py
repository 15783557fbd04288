"""
Names that the catalog does not know: new files, other names of known ones, and files that moved here.

A moved file keeps its record and its history. It is recognised by inode, size and mtime inside its root at once, if the
inode is as old as the record; by content (digest and size) when the walk is over and a recorded file is gone, and only
if there is no doubt which (R5).
Hard links are hashed once and recorded under each name.
"""

from __future__ import annotations

import errno
from collections import OrderedDict
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NamedTuple

from integrity.catalog import files, folders, history
from integrity.catalog.files import FileRecord, NewFile
from integrity.errors import show_path
from integrity.files.opening import stat_beneath
from integrity.files.stamps import witness_of
from integrity.files.statx import find_birth_ns
from integrity.files.walk import Seen
from integrity.hashing.digests import recording
from integrity.hashing.engine import Task
from integrity.jobs.idset import IdSet
from integrity.jobs.report import NoteKind
from integrity.model import FileId, Reading, Tally, Witness

if TYPE_CHECKING:
    from integrity.catalog.connect import Connection
    from integrity.jobs.context import RootRun

_LINKS_KEPT = 10_000
"""Hashed files with several names that are remembered for the names to come."""

_NEW_KEPT = 200_000
"""New files remembered by content, to recognise moves; beyond it a move is recorded as new and deleted."""

_SECOND_NS = 1_000_000_000


class Place(NamedTuple):
    """Where a file stands: its folder's path and its name."""

    folder: bytes
    name: bytes

    @property
    def path(self) -> bytes:
        """Join both."""
        return self.folder + b"/" + self.name if self.folder else self.name


@dataclass(slots=True)
class Arrival:
    """A new file with hard links that is being read, with all names of it that were met meanwhile."""

    paths: list[bytes]
    witness: Witness


@dataclass(slots=True)
class _Move:
    record: FileRecord
    place: Place


class Arrivals:
    """
    Take unknown names; record them in batches.

    Args:
        run: the run they belong to.
        seen: ids of the recorded files that were met; moved ones are added.
        is_prelude: a scrub follows and counts them.
    """

    def __init__(self, run: RootRun, seen: IdSet, *, is_prelude: bool) -> None:
        self._run = run
        self._is_prelude = is_prelude
        self._seen = seen
        self._staying = IdSet()
        self._can_move = run.root.file_count > 0
        self._want = recording(blake3="blake3" in run.settings.digests)
        self._links: OrderedDict[Witness, Arrival | Reading] = OrderedDict()
        self._ready: list[NewFile] = []
        self._moves: list[_Move] = []
        with run.catalog.read() as connection:
            self._has_deleted = history.has_deleted(connection, run.root.id)
        self._new_by_content: dict[tuple[int, bytes], FileId | None] = {}
        self.racy: list[bytes] = []

    def meet(self, connection: Connection, folder: bytes, names: Iterable[Seen]) -> list[Task]:
        """Take unknown names of a folder; give the tasks of reading those whose content is not known already."""
        prefix = folder + b"/" if folder else b""
        want, block_size = self._want, self._run.settings.block_size_bytes
        knows_inodes = self._run.capability.has_stable_inodes
        tasks = []
        for seen in names:
            name, size, mtime_ns, ctime_ns, inode, links = seen
            path = prefix + name
            arrival = None
            if knows_inodes and (self._can_move or links > 1):
                witness = Witness(size, mtime_ns, ctime_ns, inode)
                if self._can_move and self._recognise_move(connection, Place(folder, name), witness):
                    continue
                if links > 1:
                    arrival = self._meet_link(path, witness)
                    if arrival is None:
                        continue
            tasks.append(Task(path, size, want, block_size, arrival))
        return tasks

    def _meet_link(self, path: bytes, witness: Witness) -> Arrival | None:
        """Take one of several names of a file; give what is to be read, unless it was or will be under another name."""
        known = self._links.get(witness)
        if isinstance(known, Arrival):
            known.paths.append(path)
            return None
        if known is not None:
            self._ready.append(NewFile(path, replace(known, bytes_read=0)))
            return None
        arrival = self._links[witness] = Arrival([path], witness)
        return arrival

    def _recognise_move(self, connection: Connection, place: Place, witness: Witness) -> bool:
        """
        Recognise a recorded file under another name: same inode, size and mtime, and gone from its old one.

        What may be another file that got the inode of a deleted one is read, and its content decides.
        """
        found = files.find_by_inode(connection, self._run.catalog.sealer, self._run.root.id, witness.inode)
        moving = {move.record.id for move in self._moves}
        gone = [
            record
            for record in found
            if (record.witness.size_bytes, record.witness.mtime_ns) == witness[:2]
            and record.is_sealed
            and record.id not in moving
            and record.id not in self._staying
            and not self._stands(record)
        ]
        if len(gone) != 1 or not is_same_inode(self._run.root_fd, place.path, gone[0]):
            return False
        self._moves.append(_Move(gone[0], place))
        self._seen.add(gone[0].id)
        return True

    def stays(self, file_id: FileId) -> None:
        """Let a record stay where it is: its name is being judged, so it can't be somewhere else."""
        self._staying.add(file_id)

    def _stands(self, record: FileRecord) -> bool:
        """Say whether a recorded file is still found under its name."""
        try:
            return witness_of(stat_beneath(self._run.root_fd, record.path)).inode == record.witness.inode
        except OSError as error:
            return error.errno not in (errno.ENOENT, errno.ENOTDIR)

    def done(self, task: Task, reading: Reading) -> None:
        """Take the reading of a new file, for all names of it."""
        self._ready.append(NewFile(task.path, reading))
        arrival = task.tag
        if not isinstance(arrival, Arrival):
            return
        if arrival.witness in self._links:
            self._links[arrival.witness] = reading
            self._links.move_to_end(arrival.witness)
            while len(self._links) > _LINKS_KEPT and not isinstance(next(iter(self._links.values())), Arrival):
                self._links.popitem(last=False)
        self._ready += [NewFile(path, replace(reading, bytes_read=0)) for path in arrival.paths[1:]]

    def dropped(self, task: Task) -> list[bytes]:
        """Forget a new file that could not be read; tell the names that it was met under."""
        if not isinstance(task.tag, Arrival):
            return [task.path]
        self._links.pop(task.tag.witness, None)
        return task.tag.paths

    @property
    def waiting(self) -> int:
        """Count the rows that wait for ``flush``."""
        return len(self._ready) + len(self._moves)

    def flush(self, connection: Connection) -> None:
        """Write what arrived: moves first, as a new file may stand where a moved one stood."""
        for move in self._moves:
            self._write_move(connection, move)
        rows = self._ready
        if rows:
            run = self._run
            ids = files.record_files(connection, run.catalog.sealer, run.root, rows, now=run.now(), boot_id=run.boot_id)
            self._note_new(rows, ids)
            self._adopt_histories(connection, rows, ids)
        self._ready, self._moves = [], []

    def _note_new(self, rows: list[NewFile], ids: list[FileId]) -> None:
        self._count(Tally.NEW, len(rows))
        self._seen.update(ids)
        self.racy += [path for path, reading in rows if reading.witness.is_racy]
        for (_, reading), file_id in zip(rows, ids, strict=True) if self._can_move else ():
            if reading.digests.md5 is not None and len(self._new_by_content) < _NEW_KEPT:
                key = (reading.witness.size_bytes, reading.digests.md5)
                self._new_by_content[key] = None if key in self._new_by_content else file_id

    def _adopt_histories(self, connection: Connection, rows: list[NewFile], ids: list[FileId]) -> None:
        """Let new files that an earlier run saw deleted elsewhere go on with that history: moved or restored since."""
        if not self._has_deleted:
            return
        for (path, reading), file_id in zip(rows, ids, strict=True):
            size, md5 = reading.witness.size_bytes, reading.digests.md5
            gone = history.find_deleted(connection, self._run.root.id, size, md5) if size and md5 else []
            if len({one.file_id for one in gone}) == 1 and gone[0].file_id is not None:
                history.adopt_history(connection, gone[0].file_id, file_id)
                self._run.note(
                    NoteKind.MOVED, path, f"was deleted as {show_path(gone[0].path)}; its history goes on here"
                )

    def _write_move(self, connection: Connection, move: _Move) -> None:
        run = self._run
        folder_id = folders.ensure_folder(connection, run.root.id, move.place.folder)
        files.move_file(connection, run.catalog.sealer, run.root, move.record.id, folder_id, *move.place, now=run.now())
        files.mark_suspects(connection, [move.record.id])
        run.resolve_missing(connection, move.record.id, move.place.path)
        run.counts.moved += 1
        self._count(Tally.DAMAGED if move.record.is_frozen else Tally.NOT_DUE, 1)
        run.note(NoteKind.MOVED, move.place.path, f"moved here from {show_path(move.record.path)}")

    def _count(self, tally: Tally, count: int) -> None:
        if not self._is_prelude:
            self._run.counts.add(tally, count)

    def find_twin(self, record: FileRecord) -> FileId | None:
        """Find the one new file of this run with the content of a file that is gone; None if none or several."""
        if not record.digests.md5 or not record.witness.size_bytes:
            return None
        return self._new_by_content.get((record.witness.size_bytes, record.digests.md5))

    def merge(self, connection: Connection, record: FileRecord, twin: FileId, path: bytes) -> None:
        """Let a file that is gone go on as the new file with its content."""
        run = self._run
        files.merge_moved(connection, run.catalog.sealer, run.root, record.id, twin, run.now())
        run.resolve_missing(connection, record.id, path)
        run.counts.moved += 1
        run.note(NoteKind.MOVED, path, f"moved here from {show_path(record.path)}")


def is_same_inode(root_fd: int, path: bytes, record: FileRecord) -> bool:
    """
    Say whether the inode under a name is a recorded one of the same number, size and mtime, not another that got them.

    An inode that was made after the recorded change of the recorded one is another. Where no time of birth is kept, a
    file is told by its mtime, unless that is a whole second: archives are unpacked with such, and the files of a
    reproducible build share one. A record with an open finding then goes along: its content would not tell (R6).
    """
    try:
        birth_ns = find_birth_ns(root_fd, path)
    except OSError:
        return False  # it can't be looked at any more: the one who reads it says why
    witness = record.witness
    if birth_ns is None:
        return record.is_frozen or witness.mtime_ns % _SECOND_NS != 0
    return birth_ns < witness.ctime_ns or (birth_ns == witness.ctime_ns and not witness.is_racy)
