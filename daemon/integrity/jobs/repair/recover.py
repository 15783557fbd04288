"""
Record finished repairs, and finish or undo interrupted ones.

A repair is recorded in one transaction: witness, history, findings. After a kill at any moment a file's name leads to
the good file or to the damaged one, whole; leftovers are removed or named.

Recovery runs at the beginning of each run on a root, under its lock: a scan must not see a root in which the damaged
file is out of its place and the good one not yet in it. It is idempotent.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, NamedTuple

from integrity.catalog import files, findings, versions
from integrity.catalog.baselines import Verified, mark_verified
from integrity.catalog.root_meta import REPAIRS, JournalPlace, KeptFile, Repair, save_kept
from integrity.catalog.runs import Action, record_action
from integrity.catalog.versions import keep
from integrity.errors import ReadError, RepairFailed, show_path
from integrity.files.buffers import Buffers
from integrity.files.open_beneath import stat_beneath
from integrity.files.replace_file import is_there, may_exchange, rename_to_free
from integrity.files.span import ReadMode
from integrity.files.stamps import witness_of
from integrity.jobs.repair.exchange import ParentFolders, Placer
from integrity.jobs.repair.inspect import describe_move, inspect_file, load_expected
from integrity.jobs.repair_advice import renew_copy_advice
from integrity.jobs.report import NoteKind
from integrity.kinds import ENDED_BY_REPAIR
from integrity.model import ActionVerb, BaselineReason, Finding, ReadHow
from integrity.paths import absolute
from integrity.verdict import compare_witness

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from integrity.catalog.connection import Connection
    from integrity.catalog.rows import FileRecord
    from integrity.jobs.context import RootRun
    from integrity.model import Actor, Witness


MEDDLED = "after it was verified: a program writes to it, so the next run checks it again"
"""Text that follows what of a file changed."""


class Recorded(NamedTuple):
    """
    What was recorded.

    Args:
        ended: the findings that were resolved.
        moved: what of the file changed after its verification; empty if nothing did.
    """

    ended: list[Finding]
    moved: str


def record_repaired(
    run: RootRun,
    repair: Repair,
    verified: Witness,
    how: ReadHow,
    planned: Sequence[FileRecord] = (),
    actor: Actor | None = None,
) -> Recorded:
    """
    Record all names of a file as good, and resolve the findings about them.

    The baseline stays; history gets an entry with the time and source of the restored bytes. If somebody wrote to the
    new file already, the verified witness is recorded, so that the next run sees a change.

    Args:
        run: on the root.
        repair: the finished one.
        verified: witness of the new file at its verification, with the changes that renaming caused.
        how: how the new file was read for its verification.
        planned: the records that it was built from. One that was replaced since is left for the next run to judge.
            Without them the current records are used.
        actor: the person who asked for the repair, for the history of actions; None while it is finished later.

    Raises:
        OSError: a name is gone.
    """
    is_cut_short = run.wait_for_clock_tick()  # otherwise the witness would be racy
    ended: list[Finding] = []
    moved = ""
    with run.writing() as connection:
        now = run.now()
        for place in repair.places:
            record = files.find_file(connection, run.root.id, place.path)
            if record is None or any(one.id == record.id and not one.is_same_baseline(record) for one in planned):
                continue  # forgotten, or its baseline was replaced meanwhile
            witness = witness_of(stat_beneath(run.root_fd, place.path))._replace(is_racy=is_cut_short)
            is_same = compare_witness(run.capability, verified, witness).is_nothing
            if not is_same:
                moved = describe_move(verified, witness)
            rows = [Verified(record, witness if is_same else verified, how)]
            mark_verified(connection, rows, now=now, boot_id=run.boot_id)
            keep(connection, [record], because=BaselineReason.REPAIRED, now=now, note=repair.resolution)
            ended += findings.resolve_findings(
                connection, file_id=record.id, kinds=ENDED_BY_REPAIR, copy="", resolution=repair.resolution, now=now
            )
            versions.discard(connection, [record.id])
            renew_copy_advice(connection, run.root.path, record.path, record.id)
        REPAIRS.drop(connection, run.root.id, repair.id)
        _remember_kept(run, connection, repair, now)
        if actor is not None:
            ids = tuple(sorted({one.incident_id for one in ended}))
            path = repair.places[0].path
            done = Action(actor, ActionVerb.REPAIR, repair.resolution, run.root.path, path, ids)
            record_action(connection, done, now)
    return Recorded(ended, moved)


def _remember_kept(run: RootRun, connection: Connection, repair: Repair, now: int) -> None:
    """Record the damaged file if it is still there, so that it can be listed and removed later."""
    place = repair.places[0]
    try:
        stat = stat_beneath(run.root_fd, place.beside(place.kept))
    except OSError:
        return
    save_kept(connection, run.root, KeptFile(repair.id, place, (stat.st_size, stat.st_mtime_ns, stat.st_ino), now))


def stat_after_rename(run: RootRun, place: JournalPlace, verified: Witness, *, was_written: bool = False) -> Witness:
    """
    Return the current witness of a verified file, whose ctime the renaming changed.

    A write that restores the mtime changes no more than that, so writes must be detected separately (``was_written``).

    Returns:
        The given witness if more than the ctime changed: the file is no longer the verified one.

    Raises:
        OSError: the file is gone.
    """
    seen = witness_of(stat_beneath(run.root_fd, place.path))
    renamed = verified._replace(ctime_ns=seen.ctime_ns, is_racy=False)
    is_same = not was_written and compare_witness(run.capability, renamed, seen).is_nothing
    return seen if is_same else verified._replace(is_racy=False)


def end_repairs(run: RootRun, repairs: Iterable[Repair]) -> None:
    """
    Finish or undo the unfinished repairs of a root, and report them.

    Raises:
        RepairFailed: a file is out of its place and can't be brought back. No run may take it for deleted.
    """
    with Buffers() as buffers:
        for repair in repairs:
            _Recovery(run, repair, buffers).run()


class _Recovery:
    """Finish or undo one repair."""

    def __init__(self, run: RootRun, repair: Repair, buffers: Buffers) -> None:
        self._run = run
        self._repair = repair
        self._buffers = buffers
        self._reader = run.reader(ReadMode.DISK)
        self._how: ReadHow = ReadHow.CACHE_POSSIBLE
        self._verified: Witness | None = None

    def run(self) -> None:
        try:
            with ParentFolders(self._run.root_fd, self._repair.places) as folders:
                self._end(folders)
        except FileNotFoundError:
            self._forget("its folder is missing")
        except OSError as error:
            self._report_failure(error)

    def _end(self, folders: ParentFolders) -> None:
        places = self._repair.places
        placer = Placer(folders, self._run.capability)
        for place in places:
            self._bring_back(folders[place], place)
        good = [place for place in places if self._is_whole(place.path)]
        others = [place for place in places if place not in good]
        end = self._go_forward if good else self._go_back
        are_ended = [end(folders[place], placer, place) for place in others]
        placer.remove(places, "made")
        if not all(are_ended):
            kept = ", ".join(show_path(absolute(self._run.root.path, place.beside(place.kept))) for place in others)
            self._forget(f"it was written to since; the files that the repair made are left as {kept}")
        elif not good:
            self._forget("it is as it was before, and nothing is left of the attempt; repair it again")
        else:
            self._complete(folders, placer)

    def _bring_back(self, fd: int, place: JournalPlace) -> None:
        """Give a missing name a file again: the good one if it is whole, else the damaged one."""
        if is_there(fd, place.name) or not is_there(fd, place.kept):
            return
        is_good = is_there(fd, place.made) and self._is_whole(place.beside(place.made))
        has_flags = may_exchange(self._run.capability)
        rename_to_free(fd, place.made if is_good else place.kept, place.name, has_flags=has_flags)

    def _go_forward(self, fd: int, placer: Placer, place: JournalPlace) -> bool:
        """Exchange one more name, as others were before; return False if the file there has changed."""
        if is_there(fd, place.made) and not is_there(fd, place.kept):
            rename_to_free(fd, place.made, place.kept, has_flags=may_exchange(self._run.capability))
        if not (is_there(fd, place.kept) and self._is_judged(place) and self._is_whole(place.beside(place.kept))):
            return False
        placer.exchange(place)
        return True

    def _go_back(self, fd: int, placer: Placer, place: JournalPlace) -> bool:
        """Remove the good file that is not in its place; return False if ``kept`` is something else."""
        if not is_there(fd, place.kept):
            return True
        if not self._is_whole(place.beside(place.kept)):
            return False
        placer.remove((place,), "kept")
        return True

    def _complete(self, folders: ParentFolders, placer: Placer) -> None:
        """Record the repair; the damaged file is kept under one name only."""
        places = self._repair.places
        first = places[0]
        is_kept = is_there(folders[first], first.kept)
        if is_kept:
            placer.remove(places[1:], "kept")
        folders.sync()
        assert self._verified is not None
        # A single name is not renamed after its verification: a later change of ctime was made by somebody else.
        verified = self._verified if len(places) == 1 else stat_after_rename(self._run, first, self._verified)
        recorded = record_repaired(self._run, self._repair, verified, self._how)
        text = f"an interrupted repair was completed: {self._repair.resolution}"
        if is_kept:
            text += f"; {show_path(absolute(self._run.root.path, first.beside(first.kept)))} is the damaged file"
        if recorded.moved:
            text += f"; {recorded.moved} {MEDDLED}"
        self._run.note(NoteKind.RESOLVED, first.path, text)

    def _is_judged(self, place: JournalPlace) -> bool:
        """Return whether the damaged file is still in its place; renaming may have changed its ctime."""
        try:
            witness = witness_of(stat_beneath(self._run.root_fd, place.path))
        except OSError:
            return False
        return (witness.size_bytes, witness.mtime_ns, witness.inode) == self._repair.judged

    def _is_whole(self, path: bytes) -> bool:
        """Return whether a file has the recorded content of the file under repair."""
        run = self._run
        with run.catalog.read() as connection:
            record = files.find_file(connection, run.root.id, self._repair.places[0].path)
            expected = None if record is None else load_expected(connection, record)
        if expected is None:
            return False
        try:
            inspection = inspect_file(self._reader, path, run.root_fd, expected, self._buffers, lambda _: True)
        except ReadError:
            return False
        if not inspection.is_whole(expected):
            return False
        self._how, self._verified = inspection.how, inspection.witness
        return True

    def _forget(self, text: str) -> None:
        with self._run.writing() as connection:
            REPAIRS.drop(connection, self._run.root.id, self._repair.id)
        self._run.note(NoteKind.WARNING, self._repair.places[0].path, f"a repair of it was interrupted: {text}")

    def _report_failure(self, error: OSError) -> None:
        """Report that recovery must wait; raise if a file is out of its place."""
        for place in self._repair.places:
            path = show_path(absolute(self._run.root.path, place.path))
            said = error.strerror or os.strerror(error.errno or 0)
            reason = f"a repair of {path} was interrupted and can't be completed: {said}"
            try:
                stat_beneath(self._run.root_fd, place.path)
            except FileNotFoundError:
                kept = show_path(absolute(self._run.root.path, place.beside(place.kept)))
                raise RepairFailed(
                    f"{reason}; the file is not in its place: make the folder writable and start again, or rename"
                    f" {kept} to {path}"
                ) from error
            except OSError:
                pass  # the run itself will report it
            self._run.note(NoteKind.WARNING, place.path, f"{reason}; the next run tries again")
