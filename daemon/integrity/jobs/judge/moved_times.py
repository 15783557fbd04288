"""
Find changed files whose time moved together with the times of files whose content did not change.

A moved time explains other content only if it moved by itself. Asked when everything was read and before changes are
applied: until then files keep their recorded times (``staged_times``). A run that reads only some files asks
for those beside a changed one first, and leaves the recorded times of files beside which others moved, unread: a later
run needs them. ``same_time`` decides.

A folder with few files is too little company, so the folders above it are asked, too. In a folder whose times move
again and again (``rsync`` without ``-t``) a time shows nothing: there other content is an edit, as size and ctime say.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, NamedTuple

from integrity.catalog import files, staged_times
from integrity.files.open_beneath import stat_beneath
from integrity.files.stamps import witness_of
from integrity.model import FileId
from integrity.same_time import Beside, TimeMove, is_same_time, lost_times, moved_alike, moved_by_shift, moved_into_span

if TYPE_CHECKING:
    from integrity.catalog.connection import Connection
    from integrity.catalog.root_meta import RootMove
    from integrity.catalog.rows import FileRecord
    from integrity.catalog.staged_times import MovedTime
    from integrity.jobs.context import RootRun

_LOOKED_AT = 500
_READ = 8
"""Files beside a changed one that are looked at, and read, if the run did not read them anyway."""

_FEW = 8
"""With fewer files than this in a folder, the folder above it is asked, too."""

_WEIGHED = 300
"""More files of a folder say nothing more."""


class _Level(NamedTuple):
    """A folder, alone or with all folders below it."""

    folder: bytes
    is_deep: bool


def _find_levels(folder: bytes) -> Iterator[_Level]:
    """Yield a folder, and then all with what is below them, up to the root."""
    yield _Level(folder, False)
    while folder:
        yield _Level(folder, True)
        folder = folder.rpartition(b"/")[0]
    yield _Level(b"", True)


class _Moves:
    """The moves of a folder's files: how many, some of them, and with them the first and the last new time."""

    def __init__(self) -> None:
        self.count = 0
        self._some: list[TimeMove] = []
        self._first: TimeMove | None = None
        self._last: TimeMove | None = None

    def add(self, move: TimeMove) -> None:
        self.count += 1
        if self._first is None or move.after_ns < self._first.after_ns:
            self._first = move
        if self._last is None or move.after_ns > self._last.after_ns:
            self._last = move
        if len(self._some) < _WEIGHED:
            self._some.append(move)

    @property
    def kept(self) -> list[TimeMove]:
        ends = [move for move in (self._first, self._last) if move is not None]
        return self._some if self.count <= len(self._some) else self._some + ends


class MovedTimes:
    """Answer for one run. ``move``: the last move of the root."""

    def __init__(self, run: RootRun, move: RootMove | None) -> None:
        self._run = run
        self._move = move
        self._asked = set[bytes]()
        self._unread: defaultdict[bytes, int] = defaultdict(int)  # files of folders whose content was not looked at

    def find_company(self) -> list[FileRecord]:
        """Return unread files that must be read before the changed files beside them are understood."""
        with self._run.catalog.read() as connection:
            changed = self._find_changed(connection)
            new = [folder for folder in changed if folder not in self._asked]
            self._asked.update(new)
            known = self._find_read(connection) if new else set()
            chosen = [self._choose(connection, folder, changed[folder], known) for folder in new]
        return list({one.id: one for some in chosen for one in some}.values())

    def find_unfinished(self) -> list[FileId]:
        """Return the unchanged files beside which others moved that nobody has read."""
        with self._run.catalog.read() as connection:
            by_folder: defaultdict[bytes, list[FileId]] = defaultdict(list)
            for one in self._find(connection, is_same=True):
                by_folder[one.folder].append(one.file_id)
            known = self._find_read(connection) if by_folder else set()
            unfinished = [
                some for folder, some in by_folder.items() if any(self._find_unread(connection, folder, known))
            ]
        return [file_id for some in unfinished for file_id in some]

    def _find_read(self, connection: Connection) -> set[FileId]:
        """Return the files whose times moved that the run has read."""
        return {one.file_id for is_same in (False, True) for one in self._find(connection, is_same=is_same)}

    def find_together(self) -> dict[FileId, int]:
        """Return the changed files that moved together with others, with their new times."""
        with self._run.catalog.read() as connection:
            company = self._gather(connection)
            changed = [one for some in company.changed.values() for one in some]
            return {one.file_id: one.move.after_ns for one in changed if company.has(one)}

    def learn(self) -> list[bytes]:
        """Learn which folders keep no times from a run that read everything; return those that this makes known."""
        with self._run.catalog.read() as connection:
            moved = self._gather(connection).find_lost()
        if not moved:
            return []
        with self._run.writing() as connection:
            return staged_times.count_moved(connection, self._run.root, moved, self._run.now())

    def _gather(self, connection: Connection) -> _Company:
        same: defaultdict[bytes, _Moves] = defaultdict(_Moves)
        for one in self._find(connection, is_same=True):
            same[one.folder].add(one.move)
        return _Company(self._run, connection, same, self._find_changed(connection), self._unread, self._move)

    def _find(self, connection: Connection, *, is_same: bool) -> Iterator[MovedTime]:
        return staged_times.find_moved_times(connection, self._run.root.id, self._run.run_id, is_same=is_same)

    def _find_changed(self, connection: Connection) -> dict[bytes, list[MovedTime]]:
        changed: defaultdict[bytes, list[MovedTime]] = defaultdict(list)
        for one in self._find(connection, is_same=False):
            changed[one.folder].append(one)
        return changed

    def _choose(
        self, connection: Connection, folder: bytes, changed: list[MovedTime], known: set[FileId]
    ) -> list[FileRecord]:
        """Choose some unread files whose times moved, those that moved as a changed one did first."""
        moved = [
            (not any(moved_alike(one.move, move) for one in changed), record.witness.size_bytes, record)
            for record, move in self._find_unread(connection, folder, known)
        ]
        moved.sort(key=lambda one: one[:2])
        self._unread[folder] += max(len(moved) - _READ, 0)
        return [record for _, _, record in moved[:_READ]]

    def _find_unread(
        self, connection: Connection, folder: bytes, known: set[FileId]
    ) -> Iterator[tuple[FileRecord, TimeMove]]:
        for record in self._find_beside(connection, folder):
            if record.id in known or record.is_frozen:
                continue
            try:
                move = TimeMove(
                    record.witness.mtime_ns, witness_of(stat_beneath(self._run.root_fd, record.path)).mtime_ns
                )
            except OSError:
                continue  # gone or unreadable: the job that reads it finds out
            if not is_same_time(*move):
                yield record, move

    def _find_beside(self, connection: Connection, folder: bytes) -> list[FileRecord]:
        """Return the records of some files of a folder, and of the folders above it if it has few."""
        root_id = self._run.root.id
        known = files.find_known(connection, root_id, folder)
        ids = [one.id for one in islice(known.values(), _LOOKED_AT)]
        while len(ids) < _FEW and folder:
            folder = folder.rpartition(b"/")[0]
            ids = [row[0] for row in files.page_files(connection, root_id, prefix=folder, limit=_LOOKED_AT)]
        return files.find_files(connection, ids)


@dataclass
class _Company:
    """The files whose times moved, by folder; ``unread``, ``move``: see ``MovedTimes``."""

    run: RootRun
    connection: Connection
    same: dict[bytes, _Moves]
    changed: dict[bytes, list[MovedTime]]
    unread: dict[bytes, int]
    move: RootMove | None

    def __post_init__(self) -> None:
        self._folders = sorted(self.same.keys() | self.changed.keys())
        self._timeless = staged_times.find_timeless(self.connection, self.run.root)
        self._levels: dict[_Level, Beside] = {}

    def has(self, one: MovedTime) -> bool:
        """Return whether a changed file moved together with others."""
        if not self.same:
            return False
        since_ns = one.checked_at * 10**9
        if self.move is not None and self.move.covers(one.checked_at):
            since_ns = one.move.after_ns + 1  # no program saved anything through the recorded place
        is_timeless = one.folder in self._timeless
        for level in _find_levels(one.folder):
            beside = self._get_beside(level)
            if moved_by_shift(one.move, beside, of_most=is_timeless):
                return True
            if not is_timeless and moved_into_span(
                one.move, beside, size_bytes=one.size_bytes, written_since_ns=since_ns
            ):
                return True
            if beside.files >= _FEW:
                return False
        return False

    def find_lost(self) -> list[bytes]:
        """Return the folders in which most files got other times while their content stayed."""
        return [folder for folder in self.same if lost_times(self._get_beside(_Level(folder, False)))]

    def _get_beside(self, level: _Level) -> Beside:
        if level not in self._levels:
            folders = list(self._find_folders(level))
            same = [self.same[folder] for folder in folders if folder in self.same]
            kept = list(islice((move for moves in same for move in moves.kept), _WEIGHED + 2))
            moved = (one.move for folder in folders for one in self.changed.get(folder, ()))
            changed = list(islice(moved, _WEIGHED))
            unread = sum(moves.count for moves in same) - len(kept) + sum(self.unread.get(one, 0) for one in folders)
            root_id = self.run.root.id
            count = files.count_files_below(self.connection, root_id, level.folder, is_deep=level.is_deep)
            self._levels[level] = Beside(kept, changed, max(unread, 0), count)
        return self._levels[level]

    def _find_folders(self, level: _Level) -> Iterator[bytes]:
        """Yield the folders of a level that have files whose times moved."""
        if level == (b"", True):
            yield from self._folders
            return
        yield level.folder
        if level.is_deep:
            first = bisect_left(self._folders, level.folder + b"/")
            last = bisect_left(self._folders, level.folder + b"0")  # "0" follows "/"
            yield from self._folders[first:last]
