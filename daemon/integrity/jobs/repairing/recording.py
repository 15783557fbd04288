"""Write down that a file is what was recorded again: witness, history, findings, all in one transaction."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from integrity.catalog import candidates, files, findings
from integrity.catalog.baselines import Verified, mark_verified
from integrity.catalog.history import add_history
from integrity.catalog.repair_journal import drop_repair
from integrity.files.open_beneath import stat_beneath
from integrity.files.stamps import witness_of
from integrity.jobs.judge.repair_advice import renew_copy_advice
from integrity.jobs.repair.inspect import describe_move
from integrity.model import CONTENT_FINDINGS, BaselineReason, Finding, FindingKind
from integrity.verdict import compare_witness

if TYPE_CHECKING:
    from collections.abc import Sequence

    from integrity.catalog.repair_journal import Place, Repair
    from integrity.catalog.rows import FileRecord
    from integrity.jobs.context import RootRun
    from integrity.model import ReadHow, Witness

_ENDED = CONTENT_FINDINGS | {FindingKind.TRANSIENT, FindingKind.UNSTABLE, FindingKind.MISSING}

MEDDLED = "after it had been verified: somebody writes to it, so the next run looks at it again"
"""What follows on what of a file moved."""


class Recorded(NamedTuple):
    """
    What was written down.

    Args:
        ended: the findings that it ended.
        moved: what of the file moved after it had been verified; empty if nothing did.
    """

    ended: list[Finding]
    moved: str


def record_repaired(
    run: RootRun, repair: Repair, verified: Witness, how: ReadHow, planned: Sequence[FileRecord] = ()
) -> Recorded:
    """
    Record all names of a file as whole, and end the findings on them.

    The baseline stays the one that it was; history has an entry that says when its bytes were put back, and from where.
    If somebody wrote to the new file already, the record is of what was verified, so that the next run sees a change.

    Args:
        run: of the root.
        repair: which is done.
        verified: the new file as it was when its bytes were verified, but for what renaming it moved.
        how: the new file was verified.
        planned: the records that it was made by: one that was replaced since stays as it is, for the next run to judge.
            Without them: what is recorded now.

    Raises:
        OSError: a name is not there.
    """
    is_cut_short = run.let_clock_tick()  # else the witness is racy
    ended: list[Finding] = []
    moved = ""
    with run.writing() as connection:
        now = run.now()
        for place in repair.places:
            record = files.find_file(connection, run.catalog.sealer, run.root.id, place.path)
            if record is None or any(one.id == record.id and one.seal != record.seal for one in planned):
                continue  # forgotten or accepted meanwhile
            witness = witness_of(stat_beneath(run.root_fd, place.path))._replace(is_racy=is_cut_short)
            is_same = compare_witness(run.capability, verified, witness).is_nothing
            if not is_same:
                moved = describe_move(verified, witness)
            rows = [Verified(record, witness if is_same else verified, how)]
            mark_verified(connection, run.catalog.sealer, run.root, rows, now=now, boot_id=run.boot_id)
            add_history(connection, [record], because=BaselineReason.REPAIRED, now=now, note=repair.resolution)
            ended += findings.resolve_findings(
                connection, file_id=record.id, kinds=_ENDED, copy="", resolution=repair.resolution, now=now
            )
            candidates.discard(connection, record.id)
            renew_copy_advice(connection, run.root.path, record.path, record.id)
        drop_repair(connection, run.root.id, repair.id)
    return Recorded(ended, moved)


def after_renaming(run: RootRun, place: Place, verified: Witness, *, was_written: bool = False) -> Witness:
    """
    Take the witness of a verified file anew where it stands now, for renaming has moved its ctime.

    A write with its time put back moves no more than that, so it has to be noticed in another way.

    Returns:
        The given one, if more than that moved: the file is not what was verified any more.

    Raises:
        OSError: it is not there.
    """
    seen = witness_of(stat_beneath(run.root_fd, place.path))
    renamed = verified._replace(ctime_ns=seen.ctime_ns, is_racy=False)
    is_same = not was_written and compare_witness(run.capability, renamed, seen).is_nothing
    return seen if is_same else verified._replace(is_racy=False)
