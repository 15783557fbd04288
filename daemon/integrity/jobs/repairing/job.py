"""
Repair files: plan, and if it is asked for, do it.

I1  Nothing is written unless the plan is whole: each needed block was fetched and verified before.
I2  The damaged file is exchanged only if nothing about it moved since it was looked at, which is after it was judged.
I3  At each moment the file's name leads to the damaged file or to the good one (``placing``, ``recovery``).
I4  The damaged file is removed only if that was asked for, and after the good one was verified in its place.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from integrity.catalog import findings
from integrity.catalog.repairs import Repair, drop_repair, save_repair
from integrity.errors import AppError, ReadError, ReadInterrupted, RepairFailed, show_path
from integrity.files.buffers import Buffers
from integrity.files.cloning import is_open_for_writing
from integrity.files.opening import open_noatime, stat_beneath
from integrity.files.stamps import witness_of
from integrity.jobs import runner
from integrity.jobs.repairing.lenders import BlockSource, Lenders
from integrity.jobs.repairing.looking import require_unmoved
from integrity.jobs.repairing.making import Made, Maker, explaining, require_same
from integrity.jobs.repairing.names import make_id, make_place
from integrity.jobs.repairing.placing import Folders, Placer, explaining_swap
from integrity.jobs.repairing.plan import FilePlan, Planner, Standing
from integrity.jobs.repairing.recording import record_repaired
from integrity.jobs.report import Note, NoteKind
from integrity.model import CONTENT_FINDINGS, FindingKind, Job, Tally
from integrity.paths import absolute

if TYPE_CHECKING:
    from integrity.catalog.repairs import Place
    from integrity.jobs.context import Context, RootRun
    from integrity.jobs.repairing.wanted import Wanted

HOLD_BYTES = 64 << 20
"""So much of what a plan fetched is kept in memory for doing it; what is more is fetched, and verified, once more."""


@dataclass(frozen=True, slots=True)
class RepairOptions:
    """
    How to repair.

    Args:
        applies: do it; else only plan.
        discards: remove the damaged file in the end.
        hold_bytes: see ``HOLD_BYTES``.
    """

    applies: bool = False
    discards: bool = False
    hold_bytes: int = HOLD_BYTES


@dataclass(frozen=True, slots=True)
class Done:
    """
    What became of one file.

    Args:
        plan: for it.
        is_repaired: it is what was recorded now.
        kept: absolute path of the damaged file; None if there is none (any more).
        message: why it failed; or what else is to be known.
    """

    plan: FilePlan
    is_repaired: bool = False
    kept: bytes | None = None
    message: str = ""


Tell = Callable[[FilePlan], None]
TellDone = Callable[[Done], None]


@dataclass(slots=True)
class RepairSummary:
    """What a repair came to. ``is_suspended``: a root is not itself, so its files were not looked at."""

    plans: int = 0
    repaired: int = 0
    whole: int = 0
    failed: int = 0
    not_repairable: int = 0
    incomplete: int = 0
    is_suspended: bool = False
    is_interrupted: bool = False


def repair(
    context: Context, wanted: Sequence[Wanted], options: RepairOptions, tell: Tell, tell_done: TellDone
) -> RepairSummary:
    """
    Plan the repair of files, and do it if that is asked for.

    Args:
        context: the surroundings.
        wanted: what, and from where.
        options: how.
        tell: is told of each plan.
        tell_done: is told of each file that was repaired, or was to be.

    Raises:
        CatalogLocked: another job works on one of the roots.
    """
    summary = RepairSummary()
    warn = _Warner(context)
    sources = dict.fromkeys(source for one in wanted for source in one.sources)
    with Lenders(list(sources), warn, context.stop.is_set) as lenders:
        for root_path in dict.fromkeys(one.target.root.path for one in wanted):
            mine = [one for one in wanted if one.target.root.path == root_path]
            was_run = False

            def work(run: RootRun, mine: Sequence[Wanted] = mine) -> None:
                nonlocal was_run
                was_run = True
                with Buffers() as buffers:
                    _Repairer(run, lenders, options, buffers, summary, tell, tell_done).run(mine)

            runner.run_on(context, root_path, Job.REPAIR, work)
            summary.is_suspended |= not was_run
    summary.is_interrupted = context.stop.is_set()
    return summary


class _Warner:
    """Tell of copies that can't be reached."""

    def __init__(self, context: Context) -> None:
        self._context = context

    def __call__(self, text: str) -> None:
        self._context.report.note(Note(NoteKind.WARNING, b"", None, text))


class _Repairer:
    """Repair files of one root."""

    def __init__(
        self,
        run: RootRun,
        lenders: Lenders,
        options: RepairOptions,
        buffers: Buffers,
        summary: RepairSummary,
        tell: Tell,
        tell_done: TellDone,
    ) -> None:
        self._run = run
        self._lenders = lenders
        self._options = options
        self._buffers = buffers
        self._summary = summary
        self._tell = tell
        self._tell_done = tell_done
        self._seen: set[bytes] = set()
        self._bytes_done = 0

    def run(self, wanted: Sequence[Wanted]) -> None:
        for one in wanted:
            for path in list(self._find_paths(one)):
                if self._run.context.stop.is_set():
                    return
                if path not in self._seen:
                    self._repair(path, one)

    def _find_paths(self, wanted: Wanted) -> Iterator[bytes]:
        target = wanted.target
        if not wanted.is_folder:
            yield target.prefix
            return
        with self._run.catalog.read() as connection:
            found = findings.find_findings(connection, root_id=target.root.id, prefix=target.prefix)
        kinds = CONTENT_FINDINGS | {FindingKind.MISSING}
        yield from dict.fromkeys(
            one.path for one in found if one.path is not None and one.copy is None and one.kind in kinds
        )

    def _repair(self, path: bytes, wanted: Wanted) -> None:
        run, options = self._run, self._options
        hold_bytes = options.hold_bytes if options.applies else 0
        planner = Planner(run, self._buffers, hold_bytes=hold_bytes, tick=self._tick)
        with self._lenders.for_file(absolute(run.root.path, path), wanted.sources) as lenders:
            try:
                plan = planner.plan(path, lenders, is_named=not wanted.is_folder)
                self._seen.update(plan.names)
                self._tell(plan)
                done = self._apply(plan, lenders) if options.applies and plan.standing is Standing.REPAIRABLE else None
            except ReadInterrupted:
                return
        plan.held.clear()  # the plans of many files are kept until they are told
        self._count(plan, done)
        if done is not None:
            self._tell_done(done)

    def _apply(self, plan: FilePlan, lenders: BlockSource) -> Done:
        try:
            return _Application(self._run, self._buffers, self._options, self._tick, plan, lenders).run()
        except ReadInterrupted:
            raise
        except (RepairFailed, ReadError) as error:
            return Done(plan, message=str(error))

    def _count(self, plan: FilePlan, done: Done | None) -> None:
        """Count a file once for the caller, and once for the record of the run (R8)."""
        summary, run = self._summary, self._run
        summary.plans += 1
        if plan.standing is Standing.WHOLE:
            summary.whole += 1
            run.counts.add(Tally.VERIFIED)
            return
        if done is not None and done.is_repaired:
            summary.repaired += 1
            run.counts.add(Tally.VERIFIED)
            return
        run.counts.add(Tally.MISSING if plan.is_gone else Tally.DAMAGED)
        if done is not None:
            summary.failed += 1
        elif plan.standing in (Standing.UNREACHABLE, Standing.UNREADABLE):
            summary.incomplete += 1
        elif plan.standing is not Standing.REPAIRABLE:
            summary.not_repairable += 1

    def _tick(self, size_bytes: int) -> bool:
        self._bytes_done += size_bytes
        self._run.progress("repair", self._summary.plans, self._bytes_done, files=None, size=None)
        return not self._run.context.stop.is_set()


class _Application:
    """Carry out one plan."""

    def __init__(
        self,
        run: RootRun,
        buffers: Buffers,
        options: RepairOptions,
        tick: Callable[[int], bool],
        plan: FilePlan,
        lenders: BlockSource,
    ) -> None:
        self._run = run
        self._options = options
        self._plan = plan
        self._lenders = lenders
        self._maker = Maker(run, buffers, tick)
        self._id = make_id()

    def run(self) -> Done:
        with explaining(self._plan.path, "begun"):
            repair = self._describe()
        with self._run.writing() as connection:
            save_repair(connection, self._run.root, repair)
        try:
            made = self._maker.make(self._plan, repair.places[0], self._lenders)
            self._place(repair.places, made)
        except AppError:
            self._forget(repair)
            raise
        try:
            return self._finish(repair, made)
        except OSError as error:
            raise RepairFailed(
                f"{show_path(self._plan.path)}: the good file is in its place, but the repair could not be ended:"
                f" {error.strerror}; the next run on this root ends it"
            ) from error

    def _describe(self) -> Repair:
        plan = self._plan
        places = tuple(make_place(self._run.root_fd, path, self._id) for path in plan.names)
        judged = None
        if plan.look is not None:
            witness = plan.look.witness
            judged = (witness.size_bytes, witness.mtime_ns, witness.inode)
        resolution = describe_resolution(plan)
        if plan.look is not None and not self._options.discards:
            resolution += f"; the damaged file was kept as {show_path(places[0].kept)}"
        return Repair(self._id, places, resolution, judged)

    def _place(self, places: Sequence[Place], made: Made) -> None:
        """Put the new file in its place, if nothing moved meanwhile; else take it away."""
        run, plan = self._run, self._plan
        with explaining(plan.path, "put in its place"), Folders(run.root_fd, places) as folders:
            placer = Placer(folders, run.capability)
            try:
                with explaining_swap(plan.path):
                    if plan.look is None:
                        folders.require_same()
                        placer.take_free_name(places[0])
                        return
                    placer.link_others(places)
                    folders.require_same()
                    self._require_made(places[0], made)
                    self._require_still(places)
                    placer.swap(places)
            except AppError:
                self._take_away(placer, places)
                raise

    def _require_still(self, places: Sequence[Place]) -> None:
        """
        See for the last time that the damaged file is the one that was judged, under all of its names (I2).

        Raises:
            RepairFailed: something moved, or a program has it open for writing.
        """
        plan, root_fd = self._plan, self._run.root_fd
        assert plan.look is not None
        try:
            for place in places:
                require_unmoved(root_fd, place.path, plan.look)
        except ReadError as error:
            raise RepairFailed(f"{error}; it was left as it is. Have it judged again: integrity scrub FILE") from error
        there = stat_beneath(root_fd, plan.path)
        require_same(plan, witness_of(there))
        if there.st_nlink != len(places):
            raise RepairFailed(f"{show_path(plan.path)}: got another name meanwhile; it was left as it is, try again")
        if self._is_being_written():
            raise RepairFailed(
                f"{show_path(plan.path)}: a program has it open for writing: it was left as it is. Find it with:"
                " fuser -v FILE; end it, then try again"
            )

    def _require_made(self, place: Place, made: Made) -> None:
        """See that the new file is still the one that was verified; further names of it have moved its ctime."""
        seen, verified = witness_of(stat_beneath(self._run.root_fd, place.beside(place.made))), made.reading.witness
        if (seen.size_bytes, seen.mtime_ns, seen.inode) != (verified.size_bytes, verified.mtime_ns, verified.inode):
            raise RepairFailed(
                f"{show_path(place.path)}: the new file was meddled with; nothing was changed, try again"
            )

    def _is_being_written(self) -> bool:
        try:
            fd = open_noatime(self._run.root_fd, self._plan.path, os.O_RDONLY)
        except OSError:
            return False  # the disk does not even let it be opened
        try:
            return is_open_for_writing(fd)
        finally:
            os.close(fd)

    def _take_away(self, placer: Placer, places: Sequence[Place]) -> None:
        """Remove the new file, which is in nobody's place; but no name that may lead to the damaged one alone."""
        plan = self._plan
        placer.take_away(places, "made")
        if plan.look is None:
            return
        for place in places:
            try:
                inode = witness_of(stat_beneath(self._run.root_fd, place.path)).inode
            except OSError:
                continue
            if inode == plan.look.witness.inode:
                placer.take_away((place,), "kept")

    def _forget(self, repair: Repair) -> None:
        """Forget a repair that was undone; one that was not is ended by the next run."""
        root_fd = self._run.root_fd
        for place in repair.places:
            for name in (place.made, place.kept):
                try:
                    stat_beneath(root_fd, place.beside(name))
                except FileNotFoundError:
                    continue
                except OSError:
                    return  # whether it is there can't be told
                return
        with self._run.writing() as connection:
            drop_repair(connection, self._run.root.id, repair.id)

    def _finish(self, repair: Repair, made: Made) -> Done:
        """Verify if the damaged file is to go, and write down what was done."""
        run, plan, first = self._run, self._plan, repair.places[0]
        kept = None if plan.look is None else absolute(run.root.path, first.beside(first.kept))
        message = ""
        with Folders(run.root_fd, repair.places) as folders:
            placer = Placer(folders, run.capability)
            if len(repair.places) > 1:
                placer.take_away(repair.places[1:], "kept")  # one name is enough to keep it
            if kept is not None and self._options.discards:
                try:
                    self._maker.verify(plan.path, plan)
                except RepairFailed as error:
                    message = f"the damaged file is kept, for the new one could not be verified in its place: {error}"
                else:
                    placer.take_away((first,), "kept")
                    kept = None
        run.note_over(record_repaired(run, repair, made.reading.how))
        return Done(plan, is_repaired=True, kept=kept, message=message)


def describe_resolution(plan: FilePlan) -> str:
    """Say what was done to a file, for its findings and its history."""
    if plan.look is None:
        what = "the file was gone and was made anew"
    elif plan.expected is not None and len(plan.damaged) == plan.expected.count:
        what = "all of it was put back"
    else:
        what = ""
    parts = []
    for mend in plan.mends:
        shown = ", ".join(map(str, mend.blocks[:20])) + (", ..." if len(mend.blocks) > 20 else "")
        noun = "block" if len(mend.blocks) == 1 else "blocks"
        parts.append(mend.copy if what else f"{mend.copy} ({noun} {shown})")
    source = " and ".join(parts)
    if not source:
        return "repaired: it was cut to its recorded size, all blocks were good"
    return f"repaired: {what} from {source}" if what else f"repaired from {source}"
