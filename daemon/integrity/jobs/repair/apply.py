"""
Carry out the plan for one file: build the good file beside it, put it in its place, record the repair.

I1  The damaged file is exchanged only if nothing about it changed since it was inspected, which is after it was judged.
I2  At every moment the file's name leads to the damaged file or to the good one (``exchange``, ``recover``).
I3  The damaged file is removed only on request, and only after the good one was verified in its place.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

from integrity import program
from integrity.catalog.root_meta import REPAIRS, Repair, save_repair
from integrity.catalog.rows import is_current
from integrity.errors import AppError, ReadError, ReadInterrupted, RepairFailed, show_path
from integrity.files.open_beneath import open_noatime, stat_beneath
from integrity.files.replace_file import detecting_writers, is_open_for_writing, is_there
from integrity.files.stamps import witness_of
from integrity.jobs.repair.build import BuiltFile, FileBuilder, explain_errors, require_same
from integrity.jobs.repair.exchange import ParentFolders, Placer, explain_swap_errors, making_folders
from integrity.jobs.repair.inspect import describe_move, require_unmoved
from integrity.jobs.repair.recover import MEDDLED, record_repaired, stat_after_rename
from integrity.jobs.repair.targets import make_id, make_place
from integrity.paths import absolute
from integrity.verdict import compare_witness

if TYPE_CHECKING:
    from integrity.catalog.root_meta import JournalPlace
    from integrity.files.buffers import Buffers
    from integrity.jobs.context import RootRun
    from integrity.jobs.repair.good_blocks import BlockSource
    from integrity.jobs.repair.plan import FilePlan
    from integrity.model import ReadHow, Witness


@dataclass(frozen=True, slots=True)
class RepairedFile:
    """
    Result of repairing one file.

    Args:
        is_repaired: its content is what was recorded.
        kept: absolute path of the damaged file; None if there was none or it was removed.
        message: why the repair failed, or a remark on its success.
    """

    plan: FilePlan
    is_repaired: bool = False
    kept: bytes | None = None
    message: str = ""


class Application:
    """
    Carry out one plan.

    Args:
        plan: a repairable one.
        source: the copies of the file.
        tick: called with the number of bytes processed; returns whether to continue.
        discards: remove the damaged file in the end.
    """

    def __init__(
        self,
        run: RootRun,
        buffers: Buffers,
        plan: FilePlan,
        source: BlockSource,
        tick: Callable[[int], bool],
        *,
        discards: bool,
    ) -> None:
        self._run = run
        self._discards = discards
        self._plan = plan
        self._source = source
        self._builder = FileBuilder(run, buffers, tick)
        self._id = make_id()

    def run(self) -> RepairedFile:
        """
        Repair the file.

        Raises:
            RepairFailed: the repair failed; the file is unchanged, unless the message says otherwise.
            ReadError: as before; ReadInterrupted if the repair was stopped.
        """
        with ExitStack() as staying_open:
            with ExitStack() as undoing:
                with explain_errors(self._plan.path, "begun"):
                    undoing.enter_context(making_folders(self._run.root_fd, self._plan.folders))
                    repair = self._describe()
                    folders = staying_open.enter_context(ParentFolders(self._run.root_fd, repair.places))
                    folders.require_unlocked()
                made, verified = self._make(repair, folders)
            return self._end(repair, folders, verified, made.reading.how)

    def _end(self, repair: Repair, folders: ParentFolders, verified: Witness, how: ReadHow) -> RepairedFile:
        try:
            return self._finish(repair, folders, verified, how)
        except OSError as error:
            raise RepairFailed(
                f"{show_path(self._plan.path)}: the good file is in place, but the repair could not be completed:"
                f" {error.strerror}; the next run on this root completes it"
            ) from error

    def _make(self, repair: Repair, folders: ParentFolders) -> tuple[BuiltFile, Witness]:
        """Build the new file and put it in its place; return it, and the witness of its verified bytes there."""
        with self._run.writing() as connection:
            save_repair(connection, self._run.root, repair)
        try:
            made = self._builder.make(self._plan, repair.places[0], folders[repair.places[0]], self._source)
            self._require_current()
            return made, self._place(repair.places, made, folders)
        except AppError:
            # The next run removes what remains. On a disk that became read-only nothing can be removed.
            with suppress(OSError):
                self._remove_files(folders, repair.places)
            with suppress(OSError):
                self._forget(repair, folders)
            raise

    def _require_current(self) -> None:
        """Raise RepairFailed if a person accepted or forgot one of the files while the repair was prepared."""
        with self._run.catalog.read() as connection:
            if not all(is_current(connection, one) for one in self._plan.records):
                raise RepairFailed(
                    f"{show_path(self._plan.path)}: was accepted or forgotten during the repair; nothing was changed"
                )

    def _describe(self) -> Repair:
        plan = self._plan
        places = tuple(make_place(self._run.root_fd, path, self._id) for path in plan.names)
        judged = None
        if plan.inspection is not None:
            witness = plan.inspection.witness
            judged = (witness.size_bytes, witness.mtime_ns, witness.inode)
        resolution = _describe_resolution(plan)
        if plan.inspection is not None and not self._discards:
            what = "file that was here" if plan.is_decided else "damaged file"
            resolution += f"; the {what} was kept as {show_path(places[0].kept)}"
        return Repair(self._id, places, resolution, judged)

    def _place(self, places: Sequence[JournalPlace], made: BuiltFile, folders: ParentFolders) -> Witness:
        """Put the new file in its place if nothing changed meanwhile; return the witness that it has there."""
        with explain_swap_errors(self._plan.path), self._watch_for_writers(places[0], made) as was_written:
            self._rename(folders, Placer(folders, self._run.capability), places)
            try:
                return stat_after_rename(self._run, places[0], made.reading.witness, was_written=was_written())
            except OSError:
                return made.reading.witness  # the name is gone again

    @contextmanager
    def _watch_for_writers(self, place: JournalPlace, made: BuiltFile) -> Iterator[Callable[[], bool]]:
        """Open the new file, check that it is unchanged since its verification, and detect writers from now on."""
        fd = open_noatime(self._run.root_fd, place.beside(place.made), os.O_RDONLY)
        try:
            with detecting_writers(fd) as was_written:
                if not compare_witness(self._run.capability, made.reading.witness, witness_of(os.fstat(fd))).is_nothing:
                    raise RepairFailed(
                        f"{show_path(place.path)}: another program changed the new file; nothing was changed, try again"
                    )
                yield was_written
        finally:
            os.close(fd)

    def _rename(self, folders: ParentFolders, placer: Placer, places: Sequence[JournalPlace]) -> None:
        if self._plan.inspection is None:
            folders.require_same()
            placer.take_free_name(places[0])
            return
        placer.link_others(places)
        folders.require_same()
        self._require_still(places)
        placer.swap(places)

    def _require_still(self, places: Sequence[JournalPlace]) -> None:
        """
        Check a last time that every name leads to the damaged file that was judged (I1).

        Raises:
            RepairFailed: something changed, or a program has the file open for writing.
        """
        plan, root_fd = self._plan, self._run.root_fd
        assert plan.inspection is not None
        try:
            for place in places:
                require_unmoved(root_fd, place.path, plan.inspection)
        except ReadError as error:
            raise RepairFailed(
                f"{error}; it was left as it is. Check it again: {program.command('scrub FILE')}"
            ) from error
        there = stat_beneath(root_fd, plan.path)
        require_same(plan, witness_of(there))
        if there.st_nlink != len(places):
            raise RepairFailed(
                f"{show_path(plan.path)}: got another name during the repair; it was left as it is, try again"
            )
        if self._is_being_written(plan.path):
            raise RepairFailed(
                f"{show_path(plan.path)}: a program has it open for writing, so it was left as it is. Find it with:"
                " fuser -v FILE; stop it, then try again"
            )

    def _verify_in_place(self) -> str:
        """Verify the new file again; return why the damaged one is kept, or an empty string."""
        try:
            self._builder.verify(self._plan.path, self._plan)
        except ReadInterrupted:
            return "the damaged file is kept, because this was interrupted before the new one was verified again"
        except RepairFailed as error:
            return f"the damaged file is kept, because the new one could not be verified in place: {error}"
        return ""

    def _describe_written(self, kept: bytes) -> str:
        """
        Return how the damaged file was written to before it was moved away; empty if it is what was judged.

        No name leads to it any more, so nobody opens it anew. Programs that have it open are checked before its stat.
        """
        inspection = self._plan.inspection
        assert inspection is not None
        is_open = self._is_being_written(kept)
        seen, judged = witness_of(stat_beneath(self._run.root_fd, kept)), inspection.witness
        renamed = judged._replace(ctime_ns=seen.ctime_ns)
        if seen.stamps == renamed.stamps and not is_open:
            return ""
        what = "a program has it open for writing" if is_open else f"{describe_move(renamed, seen)} since the finding"
        return f"the damaged file was not deleted: {what}, so look at what was written to it"

    def _is_being_written(self, path: bytes) -> bool:
        try:
            fd = open_noatime(self._run.root_fd, path, os.O_RDONLY)
        except OSError:
            return False  # the disk fails even on open
        try:
            return is_open_for_writing(fd) is True
        finally:
            os.close(fd)

    def _remove_files(self, folders: ParentFolders, places: Sequence[JournalPlace]) -> None:
        """
        Remove the new file and its extra names, but no name that may be the only one of the damaged file.

        Works on the open folders: their paths may lead elsewhere by now.
        """
        plan, placer = self._plan, Placer(folders, self._run.capability)
        placer.remove(places, "made")
        if plan.inspection is None:
            return
        for place in places:
            try:
                inode = witness_of(stat_beneath(folders[place], place.name)).inode
            except OSError:
                continue
            if inode == plan.inspection.witness.inode:
                placer.remove((place,), "kept")

    def _forget(self, repair: Repair, folders: ParentFolders) -> None:
        """
        Drop the journal entry of a repair that was undone. If files remain, keep the entry for the next run.

        Raises:
            OSError: the folders can't be examined.
        """
        if any(is_there(folders[place], name) for place in repair.places for name in (place.made, place.kept)):
            return
        with self._run.writing() as connection:
            REPAIRS.drop(connection, self._run.root.id, repair.id)

    def _finish(self, repair: Repair, folders: ParentFolders, verified: Witness, how: ReadHow) -> RepairedFile:
        """Verify the new file if the damaged one is to be removed, and record the repair; not interruptible."""
        run, plan, first = self._run, self._plan, repair.places[0]
        kept = None if plan.inspection is None else absolute(run.root.path, first.beside(first.kept))
        message = ""
        placer = Placer(folders, run.capability)
        if len(repair.places) > 1:
            placer.remove(repair.places[1:], "kept")  # one name is enough to keep the file
        if kept is not None:
            problem = self._verify_in_place() if self._discards else ""
            message = problem or self._describe_written(first.beside(first.kept))
            if self._discards and not message:
                placer.remove((first,), "kept")
                kept = None
        recorded = record_repaired(run, repair, verified, how, plan.records, run.context.find_actor())
        run.note_resolved(recorded.ended)
        if recorded.moved:
            message += f"{'; ' if message else ''}{recorded.moved} {MEDDLED}"
        return RepairedFile(plan, is_repaired=True, kept=kept, message=message)


def _describe_resolution(plan: FilePlan) -> str:
    """Describe the repair of a file for its findings and its history."""
    if plan.inspection is None:
        what = "the file was missing and was restored"
    elif plan.expected is not None and len(plan.damaged) == plan.expected.count:
        what = "the whole file was restored"
    else:
        what = ""
    parts = []
    for supply in plan.supplies:
        shown = ", ".join(map(str, supply.blocks[:20])) + (", ..." if len(supply.blocks) > 20 else "")
        noun = "block" if len(supply.blocks) == 1 else "blocks"
        parts.append(supply.copy if what else f"{supply.copy} ({noun} {shown})")
    source = " and ".join(parts)
    if not source:
        return "repaired: it was cut to its recorded size; all blocks were intact"
    return f"repaired: {what} from {source}" if what else f"repaired from {source}"
