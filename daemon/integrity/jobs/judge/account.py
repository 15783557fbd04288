"""
What a run has concluded about recorded files and not written yet.

I1  Each file is counted once, whatever is done with it (R8).
I2  Files that must be read again are loaded as they are recorded by then: a person's decision takes no lock.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from integrity.catalog import baselines, files, findings
from integrity.catalog.baselines import Verified
from integrity.catalog.rows import FileRecord
from integrity.jobs.batching import IdSet
from integrity.model import FileId, FindingKind, ReadHow, Reading, Tally, Witness

if TYPE_CHECKING:
    from integrity.catalog.connection import Connection
    from integrity.jobs.context import RootRun


class Account:
    """
    Collect the conclusions of one run about one root.

    Args:
        run: the run.
        from_disk: its readings come from the disk and verify; else they only refresh the recorded stat.

    Attributes:
        answered: the files that were counted.
        open_paths: the names with an open finding.
        missing_paths: those of them whose file was missing.
        known_bad: the unreadable byte ranges of names with such a finding.
    """

    def __init__(self, run: RootRun, *, from_disk: bool) -> None:
        self._run = run
        self.from_disk = from_disk
        self.answered = IdSet()
        self._counted_as = {Tally.VERIFIED: IdSet(), Tally.CHANGED: IdSet()}  # which may turn out to be wrong
        self._verified: list[Verified] = []
        self._refreshed: list[Verified] = []  # by readings that are not from the disk
        self._incomplete: list[FileId] = []
        self._racy: dict[bytes, FileId] = {}
        with run.catalog.read() as connection:
            found = findings.find_findings(connection, root_id=run.root.id, copy="")
        self.open_paths = {finding.path for finding in found if finding.path is not None}
        self.missing_paths = {one.path for one in found if one.path is not None and one.kind is FindingKind.MISSING}
        self.known_bad = {one.path: one.ranges for one in found if one.kind is FindingKind.UNREADABLE}

    def count(self, file_id: FileId, tally: Tally) -> None:
        """Count a file, unless it was counted before (I1)."""
        if self.answered.add(file_id):
            self._run.counts.add(tally)
            if tally in self._counted_as:
                self._counted_as[tally].add(file_id)

    def take_back(self, file_ids: Iterable[FileId]) -> None:
        """Take back that files are what was recorded, or changed: neither counted nor written."""
        taken_back = set(file_ids)
        for tally, ids in self._counted_as.items():
            for file_id in taken_back:
                if file_id in ids:
                    ids.discard(file_id)
                    self._run.counts.add(tally, -1)
                    self.answered.discard(file_id)
        self._verified = [one for one in self._verified if one.record.id not in taken_back]
        self._refreshed = [one for one in self._refreshed if one.record.id not in taken_back]

    def was_counted(self, file_id: FileId) -> bool:
        """Note that a file is counted elsewhere (I1); say whether that is news."""
        return self.answered.add(file_id)

    def verify(self, record: FileRecord, reading: Reading, witness: Witness | None) -> None:
        """
        Write with the next flush that a file is what was recorded.

        Args:
            record: of the file.
            reading: of it.
            witness: replaces the recorded one; None: that stays.
        """
        if self.from_disk:
            self._verified.append(Verified(record, witness, reading.how))
        elif witness is not None:
            self._refreshed.append(Verified(record, witness, reading.how))

    def verify_all(self, records: Sequence[FileRecord], how: ReadHow) -> None:
        """Count files of which nothing has moved as verified, and write with the next flush that they are."""
        new = [record.id for record in records if self.answered.add(record.id)]
        self._run.counts.add(Tally.VERIFIED, len(new))
        self._counted_as[Tally.VERIFIED].update(new)
        if self.from_disk:
            self._verified += [Verified(record, None, how) for record in records]

    @property
    def waiting(self) -> int:
        """Count the rows that wait for ``flush``."""
        return len(self._verified) + len(self._refreshed)

    def flush(self, connection: Connection) -> None:
        """Write what was verified."""
        run, sealer, now = self._run, self._run.catalog.sealer, self._run.now()
        if self._verified:
            baselines.mark_verified(connection, sealer, run.root, self._verified, now=now, boot_id=run.boot_id)
        if self._refreshed:
            has_stable_inodes = run.capability.has_stable_inodes
            baselines.refresh_witnesses(
                *(connection, sealer, run.root, self._refreshed),
                has_stable_inodes=has_stable_inodes,
                now=now,
                boot_id=run.boot_id,
            )
        self._verified, self._refreshed = [], []

    def read_again(self, record: FileRecord) -> None:
        """
        Have a file read again, with all digests, and judged as it is recorded then.

        Either only a part of it was read, which is not enough for a new baseline, or it changed while a mismatch was
        being confirmed, or its record was replaced meanwhile.
        """
        self._incomplete.append(record.id)

    def read_again_later(self, record: FileRecord) -> None:
        """Have a file read again when the clock has ticked: it may have been written to without a trace since."""
        self._racy[record.path] = record.id

    def take_incomplete(self) -> list[FileRecord]:
        """Hand over the files of ``read_again``, without those that were forgotten."""
        ids, self._incomplete = self._incomplete, []
        return self._load(ids)

    def take_racy(self) -> list[FileRecord]:
        """
        Hand over the files of ``read_again_later``, without those that were forgotten.

        Those that a program may still be writing are left to the next run: nobody knows how long that takes.
        """
        racy, self._racy = self._racy, {}
        return self._load(racy[path] for path in self._run.leave_out_written(racy))

    def _load(self, ids: Iterable[FileId]) -> list[FileRecord]:
        wanted = list(ids)
        with self._run.catalog.read() as connection:
            return files.find_files(connection, self._run.catalog.sealer, wanted) if wanted else []
