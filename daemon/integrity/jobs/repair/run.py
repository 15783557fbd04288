"""
Plan repairs of files and, on request, carry them out.

Nothing is written before the plan of a file is complete: each needed block was fetched and verified.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from integrity.catalog import findings
from integrity.errors import ReadError, ReadInterrupted, RepairFailed
from integrity.files.buffers import Buffers
from integrity.jobs import runner
from integrity.jobs.repair.apply import Application, RepairedFile
from integrity.jobs.repair.good_blocks import BlockSource, GoodBlocks
from integrity.jobs.repair.plan import FilePlan, FindingCheck, RepairPlanner
from integrity.jobs.report import Note, NoteKind
from integrity.kinds import REPAIRABLE
from integrity.model import Job, Tally
from integrity.paths import absolute

if TYPE_CHECKING:
    from integrity.jobs.context import Context, RootRun
    from integrity.jobs.repair.targets import Wanted

HOLD_BYTES = 64 << 20
"""Bytes of fetched blocks kept in memory for the repair of a file; the rest is fetched and verified again."""


@dataclass(frozen=True, slots=True)
class RepairOptions:
    """
    How to repair.

    Args:
        applies: carry the plans out; else only plan.
        discards: remove the damaged file in the end.
        hold_bytes: see ``HOLD_BYTES``.
    """

    applies: bool = False
    discards: bool = False
    hold_bytes: int = HOLD_BYTES


Tell = Callable[[FilePlan], None]
TellDone = Callable[[RepairedFile], None]


@dataclass(slots=True)
class RepairSummary:
    """Counts of a repair. ``is_suspended``: the files of a root were not inspected because its run was refused."""

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
    Plan the repair of files and, on request, carry it out.

    Args:
        context: of the job.
        wanted: what to repair, and from which copies.
        options: how.
        tell: receives each plan.
        tell_done: receives the result for each file whose repair was attempted.

    Raises:
        CatalogLocked: another job is running on one of the roots.
    """
    summary = RepairSummary()
    warn = _Warner(context)
    sources = dict.fromkeys(source for one in wanted for source in one.sources)
    with GoodBlocks(list(sources), warn, context.stop.is_set) as lenders:
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
    """Report copies that can't be reached."""

    def __init__(self, context: Context) -> None:
        self._context = context

    def __call__(self, text: str) -> None:
        self._context.report.note(Note(NoteKind.WARNING, b"", None, text))


class _Repairer:
    """Repair files of one root."""

    def __init__(
        self,
        run: RootRun,
        lenders: GoodBlocks,
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
        kinds = REPAIRABLE
        yield from dict.fromkeys(
            one.path for one in found if one.path is not None and one.copy is None and one.kind in kinds
        )

    def _repair(self, path: bytes, wanted: Wanted) -> None:
        run, options = self._run, self._options
        hold_bytes = options.hold_bytes if options.applies else 0
        planner = RepairPlanner(run, self._buffers, hold_bytes=hold_bytes, tick=self._tick)
        with self._lenders.for_file(absolute(run.root.path, path), wanted.sources) as lenders:
            try:
                plan = planner.plan(path, lenders, is_named=not wanted.is_folder)
                self._seen.update(plan.names)
                self._tell(plan)
                done = (
                    self._apply(plan, lenders) if options.applies and plan.standing is FindingCheck.REPAIRABLE else None
                )
            except ReadInterrupted:
                return
        plan.held.clear()  # callers keep the plans of many files
        self._count(plan, done)
        if done is not None:
            self._tell_done(done)

    def _apply(self, plan: FilePlan, lenders: BlockSource) -> RepairedFile:
        options = self._options
        try:
            return Application(self._run, self._buffers, plan, lenders, self._tick, discards=options.discards).run()
        except ReadInterrupted:
            raise
        except (RepairFailed, ReadError) as error:
            return RepairedFile(plan, message=str(error))

    def _count(self, plan: FilePlan, done: RepairedFile | None) -> None:
        """Count a file once for the caller and once for the record of the run (R8)."""
        summary, run = self._summary, self._run
        summary.plans += 1
        if plan.standing is FindingCheck.WHOLE:
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
        elif plan.standing in (FindingCheck.UNREACHABLE, FindingCheck.UNREADABLE):
            summary.incomplete += 1
        elif plan.standing is not FindingCheck.REPAIRABLE:
            summary.not_repairable += 1

    def _tick(self, size_bytes: int) -> bool:
        self._bytes_done += size_bytes
        self._run.progress("repair", self._summary.plans, self._bytes_done, files=None, size=None)
        return not self._run.context.stop.is_set()
