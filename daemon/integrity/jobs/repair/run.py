"""
Plan repairs of files and, on request, carry them out.

Nothing is written before the plan of a file is complete: each needed block was fetched and verified.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from integrity.catalog import files, findings
from integrity.catalog.copies import find_other_names
from integrity.catalog.runs import Action, record_action
from integrity.errors import ReadError, ReadInterrupted, RepairFailed
from integrity.files.buffers import Buffers
from integrity.jobs.repair.apply import Application, RepairedFile
from integrity.jobs.repair.copy_choice import CopyChoice
from integrity.jobs.repair.good_blocks import BlockSource, GoodBlocks
from integrity.jobs.repair.plan import FilePlan, PlanOutcome, RepairPlanner
from integrity.kinds import REPAIRABLE
from integrity.model import ActionVerb, Tally
from integrity.paths import absolute

if TYPE_CHECKING:
    from integrity.jobs.context import RootRun
    from integrity.jobs.repair.targets import Wanted
    from integrity.jobs.report import Summary

HOLD_BYTES = 64 << 20
"""Bytes of fetched blocks kept in memory for the repair of a file; the rest is fetched and verified again."""


@dataclass(frozen=True, slots=True)
class RepairOptions:
    """
    How to repair.

    Args:
        applies: carry the plans out; else only plan.
        token: of the only plan that is carried out; empty: any.
        discards: remove the damaged file in the end.
        hold_bytes: see ``HOLD_BYTES``.
        is_copy_right: a person says that what the only copy has is right, whatever was recorded.
    """

    applies: bool = False
    token: str = ""
    discards: bool = False
    hold_bytes: int = HOLD_BYTES
    is_copy_right: bool = False


OnPlan = Callable[[FilePlan], None]
OnDone = Callable[[RepairedFile], None]


@dataclass(slots=True)
class RepairSummary:
    """
    Counts of a repair.

    Attributes:
        is_suspended: the files of a root were not inspected because its run was refused.
        runs: summaries of its runs, one for each root.
    """

    plans: int = 0
    repaired: int = 0
    whole: int = 0
    failed: int = 0
    not_repairable: int = 0
    refused: int = 0  # may not be touched, or only if the file itself is named
    incomplete: int = 0
    is_suspended: bool = False
    is_interrupted: bool = False
    runs: list[Summary] = field(default_factory=list)


class Repairer:
    """
    Repair files of one root.

    Args:
        run: on the root, under its lock.
        good_blocks: of all copies that may be used.
        buffers: to read the files here.
        summary: gets the counts.
        on_plan: receives each plan.
        on_done: receives the result for each file whose repair was attempted.
    """

    def __init__(
        self,
        run: RootRun,
        good_blocks: GoodBlocks,
        options: RepairOptions,
        buffers: Buffers,
        summary: RepairSummary,
        on_plan: OnPlan,
        on_done: OnDone,
    ) -> None:
        self._run = run
        self._good_blocks = good_blocks
        self._options = options
        self._buffers = buffers
        self._summary = summary
        self._on_plan = on_plan
        self._on_done = on_done
        self._seen: set[bytes] = set()
        self._bytes_done = 0

    def run(self, wanted: Sequence[Wanted]) -> None:
        """
        Plan the repair of each file and, with the option, carry it out, until the job is asked to stop.

        Each file is counted once (R8), also those that are not reached.
        """
        for one in wanted:
            for path in list(self._find_paths(one)):
                if path in self._seen:
                    continue
                self._seen.add(path)
                if self._run.context.stop.is_set():
                    self._run.counts.add(Tally.NOT_DUE)
                else:
                    self._repair(path, one)

    def _find_paths(self, wanted: Wanted) -> Iterator[bytes]:
        target = wanted.target
        if not wanted.is_folder:
            yield target.prefix
            return
        with self._run.catalog.read() as connection:
            found = findings.find_findings(connection, root_id=target.root.id, prefix=target.prefix)
        own = (one for one in found if one.copy is None and one.kind in REPAIRABLE)
        yield from dict.fromkeys(one.path for one in own if one.path is not None)

    def _repair(self, path: bytes, wanted: Wanted) -> None:
        run, options = self._run, self._options
        hold_bytes = options.hold_bytes if options.applies else 0
        planner = RepairPlanner(run, self._buffers, hold_bytes=hold_bytes, tick=self._tick)
        tally = Tally.NOT_DUE  # as long as it is not inspected
        with run.catalog.read() as connection:
            record = files.find_file(connection, run.root.id, path)
            others = set() if record is None else find_other_names(connection, record.id)
        others = {absolute(run.root.path, other) for other in others}
        with self._good_blocks.for_file(absolute(run.root.path, path), wanted.sources, others) as source:
            try:
                choice = CopyChoice(run, path, source, planner) if options.is_copy_right else None
                plan = choice.plan() if choice else planner.plan(path, source, is_named=not wanted.is_folder)
                tally = plan.tally
                self._seen.update(plan.names)
                self._on_plan(plan)
                is_chosen = options.token in ("", plan.token)
                is_applied = options.applies and is_chosen and plan.outcome is PlanOutcome.REPAIRABLE
                if is_applied and choice:
                    plan = choice.decide(plan)
                done = self._apply(plan, source) if is_applied else None
            except ReadInterrupted:
                run.counts.add(tally)
                return
        plan.held.clear()  # callers keep the plans of many files
        self._count(plan, done)
        if done is not None:
            self._record_failed(done)
            self._on_done(done)

    def _apply(self, plan: FilePlan, source: BlockSource) -> RepairedFile:
        options = self._options
        if plan.outcome is not PlanOutcome.REPAIRABLE:  # any more, since a person decided
            return RepairedFile(plan, message=plan.reason)
        try:
            return Application(self._run, self._buffers, plan, source, self._tick, discards=options.discards).run()
        except ReadInterrupted:
            raise
        except (RepairFailed, ReadError) as error:
            return RepairedFile(plan, message=str(error))

    def _record_failed(self, done: RepairedFile) -> None:
        """Record an attempt that failed; a repair that succeeded is recorded together with its result."""
        if done.is_repaired:
            return
        run, plan = self._run, done.plan
        outcome = f"not repaired: {done.message}"
        failed = Action(run.context.find_actor(), ActionVerb.REPAIR, outcome, run.root.path, plan.path)
        with run.writing() as connection:
            record_action(connection, failed, run.now())

    def _count(self, plan: FilePlan, done: RepairedFile | None) -> None:
        """Count a file once for the caller and once for the record of the run (R8)."""
        summary, run = self._summary, self._run
        summary.plans += 1
        is_repaired = done is not None and done.is_repaired
        run.counts.add(Tally.VERIFIED if is_repaired else plan.tally)
        if plan.outcome is PlanOutcome.WHOLE:
            summary.whole += 1
        elif is_repaired:
            summary.repaired += 1
        elif done is not None:
            summary.failed += 1
        elif plan.outcome in (PlanOutcome.UNREACHABLE, PlanOutcome.UNREADABLE):
            summary.incomplete += 1
        elif plan.outcome is PlanOutcome.REFUSED:
            summary.refused += 1
        elif plan.outcome is not PlanOutcome.REPAIRABLE:
            summary.not_repairable += 1

    def _tick(self, size_bytes: int) -> bool:
        self._bytes_done += size_bytes
        self._run.progress("repair", self._summary.plans, self._bytes_done, files=None, size=None)
        return not self._run.context.stop.is_set()
