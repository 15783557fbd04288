"""
Collect what a run concludes about recorded files until it is written to the catalog.

I1  Each file is counted once, whatever happens to it afterwards (R8).
I2  Files that must be read again are reloaded from the catalog first: a person's decision, which takes no lock, may
    have replaced their records.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from integrity.catalog import baselines, files, findings, staged_times
from integrity.catalog.baselines import Verified
from integrity.catalog.rows import FileRecord
from integrity.jobs.batching import IdSet
from integrity.model import FileId, FindingKind, ReadHow, Reading, Tally, Witness
from integrity.same_time import is_same_time

if TYPE_CHECKING:
    from integrity.catalog.connection import Connection
    from integrity.jobs.context import RootRun


class Account:
    """
    Collect the conclusions of one run about one root.

    Args:
        from_disk: readings come from the disk and verify files; otherwise they only refresh the recorded stat.

    Attributes:
        counted: files counted so far.
        open_paths: paths with an open finding.
        missing_paths: paths with an open ``missing`` finding.
        known_bad: unreadable byte ranges by path, from open ``unreadable`` findings.
    """

    def __init__(self, run: RootRun, *, from_disk: bool) -> None:
        self._run = run
        self.from_disk = from_disk
        self.counted = IdSet()
        self._counted_as = {Tally.VERIFIED: IdSet(), Tally.CHANGED: IdSet()}  # counts that ``revert`` may undo
        self._verified: list[Verified] = []
        self._refreshed: list[Verified] = []  # readings that may come from the cache
        self._uncertain: list[Verified] = []  # their moved times are evidence all the same
        self._rereads: list[FileId] = []
        self._racy: dict[bytes, FileId] = {}
        with run.catalog.read() as connection:
            found = findings.find_findings(connection, root_id=run.root.id, copy="")
        self.open_paths = {finding.path for finding in found if finding.path is not None}
        self.missing_paths = {one.path for one in found if one.path is not None and one.kind is FindingKind.MISSING}
        self.known_bad = {one.path: one.ranges for one in found if one.kind is FindingKind.UNREADABLE}

    def count(self, file_id: FileId, tally: Tally) -> None:
        """Count a file unless it was counted before (I1)."""
        if self.counted.add(file_id):
            self._run.counts.add(tally)
            if tally is Tally.DAMAGED:
                self._run.damaged.append(file_id)
            if tally in self._counted_as:
                self._counted_as[tally].add(file_id)

    def revert(self, file_ids: Iterable[FileId]) -> None:
        """Revert the conclusion that files are intact or changed: uncount them and drop their pending rows."""
        reverted = set(file_ids)
        for tally, ids in self._counted_as.items():
            for file_id in reverted:
                if file_id in ids:
                    ids.discard(file_id)
                    self._run.counts.add(tally, -1)
                    self.counted.discard(file_id)
        self._verified = [one for one in self._verified if one.record.id not in reverted]
        self._refreshed = [one for one in self._refreshed if one.record.id not in reverted]

    def mark_counted(self, file_id: FileId) -> bool:
        """Mark a file as counted elsewhere (I1). Return True if it had not been counted before."""
        return self.counted.add(file_id)

    def verify(self, record: FileRecord, reading: Reading, witness: Witness | None, *, is_certain: bool = True) -> None:
        """
        Queue the verification of a file for the next flush.

        Args:
            witness: the new one; None keeps the recorded one.
            is_certain: the name leads to the file of the record; if not, the recorded witness is kept as well.
        """
        if witness is not None and not is_certain:
            self._uncertain.append(Verified(record, witness, reading.how))
            witness = None
        if self.from_disk:
            self._verified.append(Verified(record, witness, reading.how))
        elif witness is not None:
            self._refreshed.append(Verified(record, witness, reading.how))

    def verify_all(self, records: Sequence[FileRecord], how: ReadHow) -> None:
        """Count files with an unchanged stat as verified and queue them for the next flush."""
        new = [record.id for record in records if self.counted.add(record.id)]
        self._run.counts.add(Tally.VERIFIED, len(new))
        self._counted_as[Tally.VERIFIED].update(new)
        if self.from_disk:
            self._verified += [Verified(record, None, how) for record in records]

    @property
    def waiting(self) -> int:
        """The number of rows queued for ``flush``."""
        return len(self._verified) + len(self._refreshed)

    def flush(self, connection: Connection) -> None:
        """Write the queued verifications; witnesses with another time are staged until the run ends."""
        run, now = self._run, self._run.now()
        moved = [one for one in (*self._verified, *self._refreshed) if _has_moved_time(one)]
        staged = staged_times.stage_times(connection, moved, run.run_id) if moved else set()
        uncertain, self._uncertain = list(filter(_has_moved_time, self._uncertain)), []
        if uncertain:
            staged_times.stage_times(connection, uncertain, run.run_id, is_evidence=True)
        if self._verified:
            verified = [one._replace(witness=None) if one.record.id in staged else one for one in self._verified]
            baselines.mark_verified(connection, verified, now=now, boot_id=run.boot_id)
        refreshed = [one for one in self._refreshed if one.record.id not in staged]
        if refreshed:
            has_stable_inodes = run.capability.has_stable_inodes
            baselines.refresh_witnesses(
                *(connection, refreshed),
                has_stable_inodes=has_stable_inodes,
                now=now,
                boot_id=run.boot_id,
            )
        self._verified, self._refreshed = [], []

    def queue_reread(self, record: FileRecord) -> None:
        """
        Queue a file to be reloaded, read completely with all digests, and judged again.

        Reasons: only part of the file was read, which is not enough for a new baseline; the file changed while a
        mismatch was being confirmed; or its record was replaced meanwhile.
        """
        self._rereads.append(record.id)

    def queue_racy(self, record: FileRecord) -> None:
        """
        Queue a file to be read again after the clock has ticked.

        A write since the reading may have left the stat unchanged.
        """
        self._racy[record.path] = record.id

    def take_rereads(self) -> list[FileRecord]:
        """Return and clear the files queued by ``queue_reread``, without those deleted from the catalog."""
        ids, self._rereads = self._rereads, []
        return self._load(ids)

    def take_racy(self) -> list[FileRecord]:
        """
        Return and clear the files queued by ``queue_racy``, without those deleted from the catalog.

        Files that a program may still be writing are left to the next run, because the end of the write is unknown.
        """
        racy, self._racy = self._racy, {}
        return self._load(racy[path] for path in self._run.leave_out_written(racy))

    def _load(self, ids: Iterable[FileId]) -> list[FileRecord]:
        wanted = list(ids)
        with self._run.catalog.read() as connection:
            return files.find_files(connection, wanted) if wanted else []


def _has_moved_time(one: Verified) -> bool:
    return one.witness is not None and not is_same_time(one.record.witness.mtime_ns, one.witness.mtime_ns)
