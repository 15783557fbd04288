"""
Collect what a run concludes about recorded files, write it to the catalog, and count it.

Judging yields conclusions, which are values; only this module writes and counts them.

I1  Each file is counted once, whatever happens to it afterwards (R8).
I2  A conclusion about a record that was replaced meanwhile is discarded, and the file is read again: a person's
    decision takes no lock. Files to be read again are reloaded from the catalog first.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, NamedTuple

from integrity.catalog import baselines, files, findings, staged_times, versions
from integrity.catalog.baselines import Verified
from integrity.catalog.rows import FileRecord, get_last_check, is_current, require_current
from integrity.catalog.versions import VersionState
from integrity.errors import DeviceStalled, ReadError, RecordSuperseded, Unreadable, Unstable
from integrity.jobs import messages
from integrity.jobs.batching import IdSet
from integrity.jobs.presence import describe_instead
from integrity.jobs.repair_advice import renew_copy_advice
from integrity.jobs.report import NoteKind
from integrity.kinds import ENDED_BY_GOOD_READING
from integrity.model import (
    BaselineReason,
    ByteRange,
    Certainty,
    FileId,
    FindingKind,
    Policy,
    ReadHow,
    Reading,
    Tally,
    Witness,
)
from integrity.paths import absolute
from integrity.same_time import is_same_time
from integrity.verdict import Verdict

if TYPE_CHECKING:
    from integrity.catalog.connection import Connection
    from integrity.jobs.context import RootRun


class Staged(NamedTuple):
    """Content that becomes the candidate of a file, frozen if the file has an open finding."""

    reading: Reading
    verdict: Verdict
    because: BaselineReason | None


class Conclusion(NamedTuple):
    """
    What a run concludes about a recorded file.

    Attributes:
        record: as it was judged; for damage of newer content, the candidate as a record.
        tally: how the file is counted; a changed file with an open finding counts as damaged.
        kind: of the finding to open; the fields below describe it. None: no finding.
        staged: the new content; None: the recorded content is the latest, and a candidate is discarded with ``ends``.
        ends: kinds of findings about the file that end, with the reason ``resolution``.
    """

    record: FileRecord
    tally: Tally
    kind: FindingKind | None = None
    text: str = ""
    certainty: Certainty | None = None
    blocks: tuple[int, ...] = ()
    block_size_bytes: int | None = None
    ranges: tuple[ByteRange, ...] = ()
    confirmed_reads: int = 0
    step: str | None = None
    staged: Staged | None = None
    ends: frozenset[FindingKind] = frozenset()
    resolution: str = "replaced by a newer finding about the file"


class Account:
    """
    Write the conclusions of one run about one root.

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
        self.from_disk = self._reports_open = from_disk
        self._reported = IdSet()  # files whose open findings were reported again
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

    def write(self, one: Conclusion, *, is_synced: bool = True) -> FileRecord | None:
        """Write and count a conclusion; return the present record, or None if the file is read again instead (I2)."""
        run, record = self._run, one.record
        try:
            with run.writing(is_synced=is_synced and one.kind is not None) as connection:  # the end syncs staged rows
                require_current(connection, record)
                if one.ends:
                    record = self._end_findings(connection, one)
                if one.staged is not None:
                    is_in_question = one.kind is not None or record.is_frozen
                    state = VersionState.FROZEN if is_in_question else VersionState.STAGED
                    reading, verdict, because = one.staged
                    versions.stage_change(connection, record, reading, verdict.value, run.run_id, state, because)
                if one.kind is not None:
                    run.open_finding(
                        connection,
                        one.kind,
                        one.text,
                        record=record,
                        certainty=one.certainty,
                        blocks=one.blocks,
                        block_size_bytes=one.block_size_bytes,
                        ranges=one.ranges,
                        confirmed_reads=one.confirmed_reads,
                        step=one.step,
                    )
        except RecordSuperseded:
            self.queue_reread(record)
            return None
        if one.kind not in (None, FindingKind.CATALOG_DAMAGED):
            self.open_paths.add(record.path)
        self.count(record.id, Tally.DAMAGED if one.tally is Tally.CHANGED and record.is_frozen else one.tally)
        return record

    def _end_findings(self, connection: Connection, one: Conclusion) -> FileRecord:
        """End the findings that a conclusion replaces; return the present record."""
        record = one.record
        if one.staged is None and not record.is_candidate:  # the baseline is back
            versions.discard(connection, [record.id])
        ended = findings.resolve_findings(
            connection, file_id=record.id, kinds=one.ends, copy="", resolution=one.resolution, now=self._run.now()
        )
        if one.staged is None or not ended:
            return record
        self._run.note_resolved(ended)
        return files.get_file(connection, record.id)

    def resolve(self, record: FileRecord, resolution: str) -> None:
        """
        Resolve the findings that good content ends.

        Raises:
            RecordSuperseded: the record was replaced meanwhile.
        """
        with self._run.writing() as connection:
            require_current(connection, record)
            ended = findings.resolve_findings(
                connection,
                file_id=record.id,
                kinds=ENDED_BY_GOOD_READING,
                copy="",
                resolution=resolution,
                now=self._run.now(),
            )
            versions.discard(connection, [record.id])
            renew_copy_advice(connection, self._run.root.path, record.path, record.id)
        self.open_paths.discard(record.path)
        self._run.note_resolved(ended)

    def count(self, file_id: FileId, tally: Tally) -> None:
        """Count a file unless it was counted before (I1)."""
        if self.counted.add(file_id):
            self._run.counts.add(tally)
            if tally is Tally.DAMAGED:
                self._run.damaged.append(file_id)
            if tally in self._counted_as:
                self._counted_as[tally].add(file_id)

    def count_open(self, record: FileRecord, otherwise: Tally) -> None:
        """
        Count a file whose open finding is unchanged. A scrub also reports the finding again, a scan does not.

        ``otherwise`` is the count to use if the finding is not about the content.
        """
        run = self._run
        self.count(record.id, Tally.DAMAGED if record.is_frozen else otherwise)
        if self._reports_open and self._reported.add(record.id):
            if record.is_frozen and otherwise is Tally.CHANGED and run.settings.policy is Policy.MUTABLE:
                run.note(NoteKind.CHANGED, record.path, messages.newer_waits(absolute(run.root.path, record.path)))
            with run.catalog.read() as connection:
                run.report_open_findings(connection, record.path)

    def count_missing(self, connection: Connection, record: FileRecord) -> bool:
        """
        Count a missing recorded file. In archives, or if a finding is open already, open or repeat the finding.

        Returns:
            Whether there is a finding. If not, a scan may remove the file from the catalog.
        """
        run = self._run
        self.count(record.id, Tally.MISSING)
        if run.settings.policy is Policy.ARCHIVE:
            text = messages.missing(describe_instead(run.root_fd, record.path))
            run.open_finding(connection, FindingKind.MISSING, text, record=record)
            return True
        if record.path in self.missing_paths:
            run.report_open_findings(connection, record.path)
            return True
        return False

    def count_unstable(self, record: FileRecord, error: Unstable | None = None) -> None:
        """Count a file that kept changing, neither good nor bad (R1); open a finding if its verification is overdue."""
        run, text = self._run, messages.unstable(error)
        run.is_incomplete = True
        run.note(NoteKind.UNSTABLE, record.path, text)
        self.count(record.id, Tally.UNSTABLE)
        if run.now() - get_last_check(record.verified_at, record.recorded_at, run.now()) > run.settings.verify_every_s:
            with run.writing() as connection:
                if is_current(connection, record):
                    run.open_finding(connection, FindingKind.UNSTABLE, text, record=record)

    def report_damaged_record(self, record: FileRecord) -> None:
        """Report a record that contradicts itself or lacks blocks; its file is not judged."""
        self.write(Conclusion(record, Tally.SKIPPED, FindingKind.CATALOG_DAMAGED, messages.CATALOG_DAMAGED))

    def report_unreadable(self, path: bytes, error: ReadError) -> None:
        """Open the finding about an unreadable file that is not recorded."""
        ranges = error.ranges if isinstance(error, Unreadable) else ()
        text = messages.unreadable(str(error), ranges, is_recorded=False)
        with self._run.writing() as connection:
            self._run.open_finding(connection, FindingKind.UNREADABLE, text, path=path, ranges=ranges)
        self.open_paths.add(path)

    def report_device(self, error: ReadError) -> None:
        """Open the finding about a device that fails or hangs."""
        kind = FindingKind.DEVICE_STALLED if isinstance(error, DeviceStalled) else FindingKind.DEVICE_FAILING
        with self._run.writing() as connection:
            self._run.note_device(connection, kind)

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
