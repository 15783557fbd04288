"""
What speaks for and against a file whose content differs from what was recorded: the evidence for the verdict.

Decides what is looked up and how far it reaches (R2): how the witness moved, whether the machine went down hard since,
whether a growing file keeps its old content, or was rotated. The verdict is the table's (``verdict.py``), what follows
from it the assessor's.

I1  Looking changes nothing, neither in the catalog nor in the run.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from integrity.catalog import boots, files
from integrity.catalog.files import FileRecord
from integrity.hashing.engine import Done
from integrity.jobs.contents import keeps_prefix
from integrity.jobs.replaced import Replaced
from integrity.model import Policy, Witness
from integrity.verdict import Circumstances, Content, Judgement, compare_witness, judge

if TYPE_CHECKING:
    from integrity.catalog.connect import Connection
    from integrity.jobs.context import RootRun


class Evidence:
    """
    Judge files by what is known of them and around them.

    Args:
        run: the run that read them.
        replaced: the names under which the run met another file than was recorded.
    """

    def __init__(self, run: RootRun, replaced: Replaced) -> None:
        self._run = run
        self._replaced = replaced
        self._unclean: dict[int | None, bool] = {}

    def judge(self, connection: Connection, record: FileRecord, done: Done) -> Judgement:
        """Judge a reading whose content is not the recorded one."""
        run, reading = self._run, done.reading
        shift = compare_witness(run.capability, record.witness, reading.witness)
        circumstances = Circumstances(
            policy=run.settings.policy,
            is_baseline_racy=bool(record.witness.is_racy),
            rewrites_in_place=run.rewrites.covers(record.path),
            was_unclean=self._was_unclean(connection, record.boot_id),
        )
        if run.settings.policy is Policy.GROWING:
            kept = keeps_prefix(connection, run.catalog.sealer, record, reading, done.probe)
            rotated = not kept and not shift.is_inode_equal and self._was_rotated(connection, record, reading.witness)
            circumstances = replace(circumstances, keeps_prefix=kept, was_rotated=rotated)
        return judge(run.capability, Content.DIFFERS, shift, circumstances)

    def _was_unclean(self, connection: Connection, boot_id: int | None) -> bool:
        if boot_id not in self._unclean:
            self._unclean[boot_id] = boots.was_unclean_since(connection, boot_id, self._run.boot_id)
        return self._unclean[boot_id]

    def _was_rotated(self, connection: Connection, record: FileRecord, seen: Witness) -> bool:
        """
        Say whether the file that stood here before has another name now, or the one that stands here had another.

        The latter says that names were passed on (log.1 to log.2), which pushed out the oldest.
        """
        if self._replaced.holds(record.path, record.witness):
            return True
        run = self._run
        others = files.find_by_inode(connection, run.catalog.sealer, run.root.id, record.witness.inode)
        if any(other.id != record.id and other.digests.md5 == record.digests.md5 for other in others):
            return True
        here = files.find_by_inode(connection, run.catalog.sealer, run.root.id, seen.inode)
        return any(other.id != record.id and other.witness[:2] == seen[:2] for other in here)
