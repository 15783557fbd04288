"""
End the repairs that were cut short.

After a kill at any moment a file's name leads to the good file or to the damaged one, whole, and what is left over is
taken away or named.

Called at the beginning of each run on a root, under its lock: a scan must not meet a root in which the damaged file is
out of the way and the good one not yet in its place. Doing it twice does no more than doing it once.
"""

from __future__ import annotations

import os
from enum import StrEnum
from typing import TYPE_CHECKING

from integrity.catalog import files
from integrity.catalog.repairs import Place, Repair, drop_repair, find_repairs
from integrity.errors import ReadError, RepairFailed, show_path
from integrity.files.buffers import Buffers
from integrity.files.opening import stat_beneath
from integrity.files.read import ReadMode
from integrity.files.renaming import is_there, may_exchange, rename_to_free
from integrity.files.stamps import witness_of
from integrity.jobs.repairing.expected import load_expected
from integrity.jobs.repairing.looking import look_at
from integrity.jobs.repairing.placing import Folders, Placer
from integrity.jobs.repairing.recording import record_repaired
from integrity.jobs.report import NoteKind
from integrity.model import ReadHow
from integrity.paths import absolute

if TYPE_CHECKING:
    from integrity.jobs.context import RootRun


class _End(StrEnum):
    """How one name of a repair ended."""

    GOOD = "good"  # it leads to the good file
    OLD = "old"  # to the one that was there before
    OPEN = "open"  # to another one; what stands under ``kept`` is left for a person


def end_repairs(run: RootRun) -> None:
    """
    End what is under way in a root, and tell of it.

    Raises:
        RepairFailed: a file is out of its place and can't be brought back: no run may take it for deleted.
    """
    with run.catalog.read() as connection:
        repairs = find_repairs(connection, run.root)
    if not repairs:
        return
    with Buffers() as buffers:
        for repair in repairs:
            _Recovery(run, repair, buffers).run()


class _Recovery:
    """End one repair."""

    def __init__(self, run: RootRun, repair: Repair, buffers: Buffers) -> None:
        self._run = run
        self._repair = repair
        self._buffers = buffers
        self._reader = run.reader(ReadMode.DISK)
        self._how: ReadHow = ReadHow.CACHE_POSSIBLE

    def run(self) -> None:
        try:
            with Folders(self._run.root_fd, self._repair.places) as folders:
                self._end(folders)
        except FileNotFoundError:
            self._forget("its folder is gone")
        except OSError as error:
            self._could_not(error)

    def _end(self, folders: Folders) -> None:
        places = self._repair.places
        placer = Placer(folders, self._run.capability)
        ends = [self._end_one(folders, placer, place) for place in places]
        folders.sync()
        first = places[0]
        if all(end is _End.GOOD for end in ends):
            self._drop_extra_names(folders, placer)
            record_repaired(self._run, self._repair, self._how)
            text = f"a repair that had been interrupted is complete: {self._repair.resolution}"
            if is_there(folders[first], first.kept):
                text += f"; the damaged file is kept as {show_path(self._absolute(first.kept))}"
            self._run.note(NoteKind.RESOLVED, first.path, text)
        elif _End.OPEN in ends:
            kept = ", ".join(show_path(absolute(self._run.root.path, one.beside(one.kept))) for one in places)
            self._forget(f"something was written to it since; what the repair made or kept is left as {kept}")
        else:
            self._forget("it is as it was before, and nothing is left of the attempt; repair it again")

    def _end_one(self, folders: Folders, placer: Placer, place: Place) -> _End:
        fd = folders[place]
        has_made, has_kept, has_name = (is_there(fd, name) for name in (place.made, place.kept, place.name))
        if has_made and has_name:
            placer.take_away((place,), "made")
            has_made = False
        if not has_name:
            return self._bring_back(fd, placer, place, has_made=has_made, has_kept=has_kept)
        if self._is_whole(place.path):
            return _End.GOOD
        if not has_kept:
            return _End.OLD
        if self._is_judged(place) and self._is_whole(place.beside(place.kept)):
            placer.exchange(place)
            return _End.GOOD
        return _End.OPEN

    def _bring_back(self, fd: int, placer: Placer, place: Place, *, has_made: bool, has_kept: bool) -> _End:
        """Let the name lead to a file again: the good one if it is whole, else the damaged one."""
        has_flags = may_exchange(self._run.capability)
        if has_made and has_kept and self._is_whole(place.beside(place.made)):
            rename_to_free(fd, place.made, place.name, has_flags=has_flags)
            return _End.GOOD
        if has_kept:
            rename_to_free(fd, place.kept, place.name, has_flags=has_flags)
        placer.take_away((place,), "made")
        return _End.GOOD if has_kept and self._is_whole(place.path) else _End.OLD

    def _is_judged(self, place: Place) -> bool:
        """Say whether the damaged file stands there as it was; renaming may have moved its ctime."""
        try:
            witness = witness_of(stat_beneath(self._run.root_fd, place.path))
        except OSError:
            return False
        return (witness.size_bytes, witness.mtime_ns, witness.inode) == self._repair.judged

    def _is_whole(self, path: bytes) -> bool:
        """Say whether a file is what is recorded of the one that is repaired."""
        run = self._run
        with run.catalog.read() as connection:
            record = files.find_file(connection, run.catalog.sealer, run.root.id, self._repair.places[0].path)
            expected = None if record is None else load_expected(connection, run.catalog.sealer, record)
        if expected is None:
            return False
        try:
            look = look_at(self._reader, path, run.root_fd, expected, self._buffers, lambda _: True)
        except ReadError:
            return False
        self._how = look.how
        return look.is_whole(expected)

    def _drop_extra_names(self, folders: Folders, placer: Placer) -> None:
        """Keep the damaged file under one name only."""
        places = self._repair.places
        if len(places) > 1 and is_there(folders[places[0]], places[0].kept):
            placer.take_away(places[1:], "kept")

    def _absolute(self, name: bytes) -> bytes:
        return absolute(self._run.root.path, self._repair.places[0].beside(name))

    def _forget(self, text: str) -> None:
        with self._run.writing() as connection:
            drop_repair(connection, self._run.root.id, self._repair.id)
        self._run.note(NoteKind.WARNING, self._repair.places[0].path, f"a repair of it was interrupted: {text}")

    def _could_not(self, error: OSError) -> None:
        """Tell that the end has to wait; no run may go on while a file is out of its place."""
        for place in self._repair.places:
            path = show_path(absolute(self._run.root.path, place.path))
            said = error.strerror or os.strerror(error.errno or 0)
            reason = f"a repair of {path} was interrupted and can't be ended: {said}"
            try:
                stat_beneath(self._run.root_fd, place.path)
            except FileNotFoundError:
                kept = show_path(absolute(self._run.root.path, place.beside(place.kept)))
                raise RepairFailed(
                    f"{reason}; the file is out of its place: let it be written there and start again, or rename"
                    f" {kept} to {path}"
                ) from error
            except OSError:
                pass  # it will be met by the run itself
            self._run.note(NoteKind.WARNING, place.path, f"{reason}; it is tried again by the next run")
