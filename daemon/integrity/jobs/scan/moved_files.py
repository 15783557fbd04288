"""
Let the records of moved files follow them, and write the moves in an order that keeps each name unique.

If names swapped their files, the records follow the files, provided that each inode is proved to be the recorded one.
Nothing is read, and history and findings move along.

I1  A move is written only if its record is unchanged since it was queued; its name is otherwise judged again.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from integrity.catalog import baselines, files, findings, roots, versions
from integrity.catalog.connection import write_page
from integrity.catalog.rows import FileRecord, Sighting, find_current
from integrity.errors import show_path
from integrity.jobs.batching import IdSet
from integrity.jobs.judge.inodes import ReplacedName, TreePlace, as_last_seen, is_same_inode, was_born_before
from integrity.jobs.report import NoteKind
from integrity.model import FileId, Tally, Witness
from integrity.same_time import is_unwritten

if TYPE_CHECKING:
    from integrity.catalog.connection import Connection
    from integrity.jobs.context import RootRun
    from integrity.jobs.scan.missing_files import MetFiles

_ROWS_AT_ONCE = 100


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


class MovedFiles:
    """
    Queue the moves of recorded files and write them in batches.

    Args:
        seen: the recorded files that were met.
        counts_known_files: no scrub follows that counts them.

    Attributes:
        displaced: files whose name leads to another inode; the files themselves may be found elsewhere.
        occupied: names that keep their records, so that no other record can get them.
        judge_again: files whose verdict was about another file that had taken their former name.
    """

    def __init__(self, run: RootRun, seen: MetFiles, *, counts_known_files: bool) -> None:
        self._run = run
        self._seen = seen
        self._counts_known_files = counts_known_files
        self._moves: deque[list[Move]] = deque()  # each list is written together, a long cycle in parts
        self._moving: set[FileId] = set()  # files with a queued move
        self._superseded: list[Move] = []
        self._vacated: list[TreePlace] = []
        self.displaced = IdSet()
        self.occupied: set[bytes] = set()
        self.judge_again: list[FileId] = []

    @property
    def waiting(self) -> int:
        """The number of queued moves."""
        return len(self._moving)

    def queue(self, moves: list[Move]) -> None:
        """
        Queue moves behind all queued ones, which may have to free their names first.

        In a cycle of files that swapped names, each comes before the one that moves to its old name.
        """
        if self._moves and len(self._moves[-1]) + len(moves) <= _ROWS_AT_ONCE:
            self._moves[-1] += moves
        else:
            self._moves.append(moves)
        self._moving.update(move.record.id for move in moves)
        for move in moves:
            self._note_vacated(move.record)

    def _note_vacated(self, record: FileRecord) -> None:
        if record.id in self.displaced:
            self._vacated.append(TreePlace.of(record.path))

    def take_vacated(self) -> list[TreePlace]:
        """Return and clear names that lead to other inodes and whose records left, or leave with the next page."""
        vacated, self._vacated = self._vacated, []
        return vacated

    def is_moving(self, file_id: FileId) -> bool:
        """Return whether a record leaves its name with the next page."""
        return file_id in self._moving

    def write(self, connection: Connection, is_over: Callable[[], bool]) -> bool:
        """Write queued moves until the time is over; return whether none is left."""
        return write_page(self._moves, 1, partial(self._write_moves, connection), is_over)

    def _write_moves(self, connection: Connection, units: list[list[Move]]) -> None:
        for moves in units:
            if len(moves) <= _ROWS_AT_ONCE:
                self._write_together(connection, moves)
            else:
                self._write_part(connection, moves)

    def _write_part(self, connection: Connection, cycle: list[Move]) -> None:
        """
        Write the first moves of a cycle and queue the rest as a shorter cycle.

        The record that blocks the first move goes to the name that the last move left. So after a kill in between, each
        record has a name of the cycle, and the next run finds the rest of the cycle.
        """
        part, left, last = cycle[:_ROWS_AT_ONCE], cycle[_ROWS_AT_ONCE:-1], cycle[-1]
        between = Move(last.record, TreePlace.of(part[-1].record.path), last.seen)
        self._write_together(connection, [*part, between], between)
        now = files.find_files(connection, [last.record.id])
        record = now[0] if now else last.record
        self._moves.append([*left, Move(record, last.place, last.seen, last.former or last.record.path)])
        self._moving.add(record.id)

    def _write_together(self, connection: Connection, waiting: list[Move], between: Move | None = None) -> None:
        """Write moves; ``between``, which only makes room, is not counted."""
        run = self._run
        self._moving.difference_update(move.record.id for move in waiting)
        moves = self._find_current(connection, waiting)
        ids = [move.record.id for move in moves]
        move_records(run, connection, [(move.record, move.place) for move in moves])
        baselines.mark_suspects(connection, {move.record.id: move.seen for move in moves})
        # Under the old names this run read other files before it met these here.
        self.judge_again += versions.discard_staged(connection, ids)
        with_findings = set(findings.find_with_findings(connection, ids))
        for move in moves:
            if move is between:
                continue
            if move.record.id in with_findings:
                run.resolve_missing(connection, move.record.id, move.place.path)
            note_moved(run, move.former or move.record.path, move.place.path)
            if self._counts_known_files:
                run.counts.add(Tally.DAMAGED if move.record.is_frozen else Tally.NOT_DUE)
                run.damaged += [move.record.id] if move.record.is_frozen else []

    def _find_current(self, connection: Connection, waiting: list[Move]) -> list[Move]:
        """Return the moves whose records are unchanged and whose targets are free; put the others aside."""
        current = find_current(connection, [move.record for move in waiting])
        by_target = {move.place.path: move for move in waiting}
        left = [move for move in waiting if move.record.id not in current or move.place.path in self.occupied]
        dropped: set[FileId] = set()
        while left:
            move = left.pop()
            if move.record.id in dropped:
                continue
            dropped.add(move.record.id)
            self._superseded.append(move)
            self.occupied.add(move.record.path)
            if move.record.path in by_target:
                left.append(by_target[move.record.path])
        return [move for move in waiting if move.record.id not in dropped]

    def take_superseded(self) -> list[bytes]:
        """Return and clear target names of moves whose records were replaced or deleted before they were written."""
        moves, self._superseded = self._superseded, []
        self.occupied.clear()
        for move in moves:
            self._seen.discard(move.record.id)
        return list(dict.fromkeys(move.place.path for move in moves))  # a record that makes room has the same target

    def report_moved(self, connection: Connection, record: FileRecord, path: bytes) -> None:
        """Count and report a file that was found under a new name by its content."""
        self._run.resolve_missing(connection, record.id, path)
        note_moved(self._run, record.path, path)
        self._note_vacated(record)


def move_records(run: RootRun, connection: Connection, moves: Sequence[tuple[FileRecord, TreePlace]]) -> None:
    """Move records to other names, among which they may be swapped."""
    folder_ids = roots.ensure_folders(connection, run.root.id, dict.fromkeys(place.folder for _, place in moves))
    moved = [baselines.MovedFile(record.id, folder_ids[place.folder], place.path) for record, place in moves]
    baselines.move_files(connection, run.root, moved, now=run.now())


def note_moved(run: RootRun, former: bytes, path: bytes) -> None:
    """Count and report a file that has another name now."""
    run.counts.moved += 1
    run.note(NoteKind.MOVED, path, f"moved here from {show_path(former)}")


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
