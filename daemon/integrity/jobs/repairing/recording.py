"""Write down that a file is what was recorded again: witness, history, findings, all in one transaction."""

from __future__ import annotations

from typing import TYPE_CHECKING

from integrity.catalog import candidates, files, findings
from integrity.catalog.history import add_history
from integrity.catalog.recording import Verified, mark_verified
from integrity.catalog.repairs import drop_repair
from integrity.files.opening import stat_beneath
from integrity.files.stamps import witness_of
from integrity.model import CONTENT_FINDINGS, BaselineReason, Finding, FindingKind

if TYPE_CHECKING:
    from integrity.catalog.repairs import Repair
    from integrity.jobs.context import RootRun
    from integrity.model import ReadHow

_ENDED = CONTENT_FINDINGS | {FindingKind.TRANSIENT, FindingKind.UNSTABLE, FindingKind.MISSING}


def record_repaired(run: RootRun, repair: Repair, how: ReadHow) -> list[Finding]:
    """
    Record all names of a file as whole, and end the findings on them.

    The baseline stays the one that it was; history has an entry that says when its bytes were put back, and from where.

    Args:
        run: of the root.
        repair: which is done.
        how: the new file was verified.

    Returns:
        The findings that it ended.

    Raises:
        OSError: a name is not there.
    """
    run.context.pause(run.capability.granularity_ns / 1e9 + 0.02)  # a witness that is not racy (R1)
    ended: list[Finding] = []
    with run.writing() as connection:
        now = run.now()
        for place in repair.places:
            record = files.find_file(connection, run.catalog.sealer, run.root.id, place.path)
            if record is None:
                continue  # forgotten meanwhile
            witness = witness_of(stat_beneath(run.root_fd, place.path))
            verified = [Verified(record.id, witness, how)]
            mark_verified(connection, run.catalog.sealer, run.root, verified, now=now, boot_id=run.boot_id)
            add_history(connection, [record], because=BaselineReason.REPAIRED, now=now, note=repair.resolution)
            ended += findings.resolve_findings(
                connection, file_id=record.id, kinds=_ENDED, copy="", resolution=repair.resolution, now=now
            )
            candidates.discard(connection, record.id)
        drop_repair(connection, run.root.id, repair.id)
    return ended
