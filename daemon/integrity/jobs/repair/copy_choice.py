"""
Repair a file from a copy whose content a person says is right, whatever was recorded.

I1  The decision comes first: the copy's content becomes the record, in one transaction with a finding about the file.
    From then on the repair is one like any other, which may be interrupted, and never takes the old file for the good
    one.
I2  Only a file is replaced that nothing wrote to since it was recorded, or since the comparison found newer content.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from integrity import program
from integrity.catalog import findings
from integrity.catalog.baselines import replace_baseline
from integrity.catalog.findings import NewFinding
from integrity.errors import CopyUnreachable, ReadError, ReadInterrupted
from integrity.jobs.repair.plan import FilePlan, PlanOutcome
from integrity.jobs.repair_advice import renew_copy_advice
from integrity.kinds import ENDED_BY_COMPARE
from integrity.model import BaselineReason, Certainty, FindingKind, Reading, Witness
from integrity.paths import absolute, shell_word

if TYPE_CHECKING:
    from integrity.jobs.context import RootRun
    from integrity.jobs.repair.good_blocks import BlockSource
    from integrity.jobs.repair.plan import RepairPlanner


class CopyChoice:
    """
    The choice of one copy for one file.

    Args:
        path: of the file, relative to the root.
        source: of one copy.
    """

    def __init__(self, run: RootRun, path: bytes, source: BlockSource, planner: RepairPlanner) -> None:
        self._run = run
        self._path = path
        self._source = source
        self._planner = planner
        self._reading: Reading | None = None

    def plan(self) -> FilePlan:
        """
        Read the copy, and plan to give the file its content; nothing is changed.

        Raises:
            ReadInterrupted: stopped.
        """
        run, (name,) = self._run, self._source.names
        with run.catalog.read() as connection:
            about = findings.find_findings_at(connection, run.root.id, self._path, copy=name)
        if any(one.kind is FindingKind.COPY_DIFFERS for one in about):
            reason = (
                "a finding says that this copy is not right; look at it first:"
                f" {program.command('explain', absolute(run.root.path, self._path))};"
                " what you trust all the same, copy over the file yourself"
            )
            return FilePlan(run.root.path, self._path, PlanOutcome.REFUSED, reason)
        try:
            self._reading = self._source.read(self._run)
        except ReadInterrupted:
            raise
        except (ReadError, CopyUnreachable) as error:
            plan = self._planner.plan(self._path, self._source, is_named=True)
            return replace(plan, outcome=PlanOutcome.UNREACHABLE, reason=f"the copy can't be read: {error}")
        return self._planner.plan(self._path, self._source, is_named=True, right=self._reading)

    def decide(self, plan: FilePlan) -> FilePlan:
        """Record the decision, and return the plan of the repair that follows from it."""
        assert self._reading is not None
        assert plan.inspection is not None
        run, (name,) = self._run, self._source.names
        chosen = self._reading._replace(witness=self._find_witness(plan.inspection.witness, self._reading.witness))
        command = program.stored_command("repair", absolute(run.root.path, self._path), "--from", shell_word(name))
        with run.writing() as connection:
            now = run.now()
            for record in plan.records:
                replace_baseline(
                    *(connection, run.root, record.id, chosen),
                    because=BaselineReason.ACCEPTED,
                    now=now,
                    boot_id=run.boot_id,
                    note=f"what {name} has is right",
                )
                renew_copy_advice(connection, run.root.path, record.path, record.id, is_other_content=True)
                ended = findings.resolve_findings(
                    connection,
                    file_id=record.id,
                    kinds=ENDED_BY_COMPARE,
                    copy=name,
                    resolution="you decided that the copy is right",
                    now=now,
                )
                run.note_resolved(ended)
                about = NewFinding(
                    FindingKind.SILENT_REWRITE,
                    run.root.id,
                    record.id,
                    record.path,
                    f"You decided that what {name} has is right; this file does not have it yet.",
                    certainty=Certainty.CTIME_MOVED,
                    step="repair it from there",
                    command=command,
                )
                findings.open_finding(connection, about, now=now, run_id=None)
        decided = self._planner.plan(self._path, self._source, is_named=True, decided=plan.inspection.witness)
        return replace(decided, is_decided=True)

    def _find_witness(self, here: Witness, there: Witness) -> Witness:
        """Return the witness to record: that of the file here, with the size and, if known, the time of the copy."""
        knows_time = there.inode != 0 and self._run.capability.has_ctime
        return here._replace(
            size_bytes=there.size_bytes, mtime_ns=there.mtime_ns if knows_time else here.mtime_ns, is_racy=False
        )
