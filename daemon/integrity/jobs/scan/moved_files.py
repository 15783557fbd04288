"""
Let the records of moved files follow them.

Nothing is read, and history and findings move along.

I1  A move is written only if its record is unchanged since it was found, and no other record keeps its new name.
I2  After each page every record has a name of its own: its own, its former one, or one that another of these left.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from integrity.catalog import baselines, files, findings, roots, versions
from integrity.catalog.rows import FileRecord, Sighting
from integrity.errors import show_path
from integrity.jobs.judge.inodes import TreePlace
from integrity.jobs.report import NoteKind
from integrity.jobs.scan.matching import Move, in_order
from integrity.model import FileId, Policy, Tally

if TYPE_CHECKING:
    from integrity.catalog.connection import Connection
    from integrity.jobs.context import RootRun
    from integrity.jobs.scan.missing_files import MetFiles


class MovedFiles:
    """
    Write the moves of recorded files in pages.

    Args:
        seen: the recorded files that were met; moved ones are added.
        counts_known_files: no scrub follows that counts them.

    Attributes:
        judge_again: files whose verdict was about another file that had taken their former name.
    """

    def __init__(self, run: RootRun, seen: MetFiles, *, counts_known_files: bool) -> None:
        self._run = run
        self._seen = seen
        self._counts_known_files = counts_known_files
        self._waiting: dict[FileId, Move] = {}
        self.judge_again: list[FileId] = []

    def write(self, moves: Sequence[Move]) -> set[TreePlace]:
        """Write moves; return the names that need no reading."""
        is_growing = self._run.settings.policy is Policy.GROWING
        ordered, done = in_order(moves, is_growing=is_growing), set[TreePlace]()
        self._waiting = {move.file_id: move for move in ordered}

        def write(connection: Connection, page: Sequence[Move]) -> None:
            done.update(self._write_page(connection, [self._waiting.pop(move.file_id) for move in page]))

        self._run.write_in_pages(ordered, write)
        return done

    def _write_page(self, connection: Connection, page: Sequence[Move]) -> list[TreePlace]:
        """Write some moves. A record in their way that moves later goes to a name that they left."""
        run, waiting = self._run, self._waiting
        holders = self._find_holders(connection, page)
        ids = {*holders.values(), *(move.file_id for move in page)}
        records = {one.id: one for one in files.find_files(connection, ids)}

        def is_current(move: Move) -> bool:
            record = records.get(move.file_id)
            return record is not None and (record.version, record.path) == (move.version, move.path)

        moves = {move.file_id: move for move in page if is_current(move)}
        while blocked := [
            move
            for move in moves.values()
            if (holder := holders.get(move.place)) is not None
            and holder not in moves
            and not (holder in waiting and is_current(waiting[holder]))
        ]:
            for move in blocked:
                del moves[move.file_id]
        in_the_way = [holders[one.place] for one in moves.values() if holders.get(one.place) in waiting]
        left = {one.path for one in moves.values()} - {one.place.path for one in moves.values()}
        aside = dict(zip(in_the_way, sorted(left), strict=False))
        for file_id, path in aside.items():
            waiting[file_id] = waiting[file_id]._replace(path=path)
        places = {one.file_id: one.place for one in moves.values()}
        places |= {file_id: TreePlace.of(path) for file_id, path in aside.items()}
        move_records(run, connection, list(places.items()))
        baselines.mark_suspects(
            connection, {one.file_id: Sighting(one.seen.inode, one.seen.ctime_ns) for one in moves.values()}
        )
        # Under the old names this run read other files before it met these here.
        self.judge_again += versions.discard_staged(connection, list(moves))
        with_findings = set(findings.find_with_findings(connection, moves))
        for move in moves.values():
            if move.file_id in with_findings:
                run.resolve_missing(connection, move.file_id, move.place.path)
            note_moved(run, move.former, move.place.path)
        return [move.place for move in moves.values() if self._count(records[move.file_id], move)]

    def _find_holders(self, connection: Connection, moves: Iterable[Move]) -> dict[TreePlace, FileId]:
        """Return the files whose records have the new names of others now."""
        by_folder: dict[bytes, list[bytes]] = {}
        for move in moves:
            by_folder.setdefault(move.place.folder, []).append(move.place.name)
        return {
            TreePlace(folder, name): one.id
            for folder, names in by_folder.items()
            for name, one in files.find_known(connection, self._run.root.id, folder, names).items()
        }

    def _count(self, record: FileRecord, move: Move) -> bool:
        """Count a moved file unless it was written to and must be read; return whether it need not be read."""
        self._seen.add(record.id)
        if record.witness.size_and_mtime != move.seen.stamps[:2]:
            return False
        if self._counts_known_files:
            self._run.counts.add(Tally.DAMAGED if record.is_frozen else Tally.NOT_DUE)
            self._run.damaged += [record.id] if record.is_frozen else []
        return True

    def report_moved(self, connection: Connection, record: FileRecord, path: bytes) -> None:
        """Count and report a file that was found under a new name by its content."""
        self._run.resolve_missing(connection, record.id, path)
        note_moved(self._run, record.path, path)


def move_records(run: RootRun, connection: Connection, moves: Sequence[tuple[FileId, TreePlace]]) -> None:
    """Move records to other names, among which they may be swapped."""
    folder_ids = roots.ensure_folders(connection, run.root.id, dict.fromkeys(place.folder for _, place in moves))
    moved = [baselines.MovedFile(file_id, folder_ids[place.folder], place.path) for file_id, place in moves]
    baselines.move_files(connection, run.root, moved, now=run.now())


def note_moved(run: RootRun, former: bytes, path: bytes) -> None:
    """Count and report a file that has another name now."""
    run.counts.moved += 1
    run.note(NoteKind.MOVED, path, f"moved here from {show_path(former)}")
