"""
Queue mismatches that look like damage, and confirm them (R3).

They are confirmed together, so that all share the seconds between two readings. Mismatches whose content is recorded of
another file are no damage; the others are read again (``confirm.py``), and those that persist become findings.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import TYPE_CHECKING

from integrity.catalog import files, findings, versions
from integrity.catalog.baselines import promote
from integrity.catalog.rows import require_current
from integrity.catalog.versions import VersionState
from integrity.errors import ReadError, RecordSuperseded, Unstable, Vanished
from integrity.jobs import messages
from integrity.jobs.byte_pattern import describe_end, describe_fills
from integrity.jobs.judge.confirm import ConfirmationResult, Mismatch, Rereader
from integrity.jobs.judge.content_diff import Difference, block_ranges, is_complete
from integrity.jobs.judge.elsewhere import find_elsewhere
from integrity.model import BaselineReason, Certainty, FileId, FindingKind, Tally
from integrity.verdict import DAMAGE, FINDINGS_OF_ARCHIVES, Confirmation, Elsewhere, Judgement, finding_of

if TYPE_CHECKING:
    from integrity.catalog.connection import Connection
    from integrity.catalog.rows import FileRecord
    from integrity.hashing.tasks import Done
    from integrity.jobs.context import RootRun
    from integrity.jobs.judge.account import Account
    from integrity.jobs.judge.copied_damage import CopiedDamage
    from integrity.jobs.judge.evidence import Evidence
    from integrity.jobs.judge.failures import Failures

MOST_AT_ONCE = 500
"""Maximum number of files in one confirmation round; a larger round would delay the first ones for long."""


class Mismatches:
    """
    Queue the mismatches of one run and confirm them.

    Args:
        account: counts the files.
        failures: handles files that can't be read again.
        evidence: judges mismatches whose content is recorded of another file.
        copies: stores the confirmed damage.
    """

    def __init__(
        self, run: RootRun, account: Account, failures: Failures, evidence: Evidence, copies: CopiedDamage
    ) -> None:
        self._run = run
        self._account = account
        self._failures = failures
        self._evidence = evidence
        self._copies = copies
        self._rereader = Rereader(run)
        self._waiting: list[Mismatch] = []
        self._files_waiting: set[Hashable] = set()  # one file may be queued under many names
        self._confirmed_blocks: dict[
            tuple[FileId, int], tuple[int, ...]
        ] = {}  # of versions that were read only in part

    def add(self, record: FileRecord, done: Done, judgement: Judgement, difference: Difference) -> None:
        """Queue a mismatch, or store the damage if an earlier reading of a part confirmed the same blocks."""
        if is_complete(done) and self._confirmed_blocks.pop((record.id, record.version), None) == difference.bad_blocks:
            self._copies.store(record, done.reading, judgement.verdict)
        else:
            now = self._run.context.monotonic()
            mismatch = Mismatch(record, done, judgement, difference.bad_blocks, now)
            self._waiting.append(mismatch)
            self._files_waiting.add(self._rereader.identify(mismatch))

    def forget(self, record: FileRecord) -> None:
        """Drop what was confirmed from a part of a file, because the file is intact."""
        self._confirmed_blocks.pop((record.id, record.version), None)

    def is_confirmed(self, record: FileRecord) -> bool:
        """Return whether damage was confirmed from a part of the file: the next reading completes it."""
        return (record.id, record.version) in self._confirmed_blocks

    @property
    def has_confirmed(self) -> bool:
        """Whether ``forget`` may have something to drop."""
        return bool(self._confirmed_blocks)

    @property
    def has_pending(self) -> bool:
        """Whether mismatches are queued."""
        return bool(self._waiting)

    @property
    def is_full(self) -> bool:
        """Whether enough files are queued to confirm them now."""
        return len(self._files_waiting) >= MOST_AT_ONCE

    def confirm(self) -> list[tuple[Mismatch, Judgement]]:
        """
        Re-read all queued mismatches and report the results. After a stop request they stay unreported.

        Returns:
            Mismatches that are no damage, because their content is recorded of another file, with the new judgement.
        """
        waiting, self._waiting = self._waiting, []
        self._files_waiting.clear()
        mismatches, moved = self._sort_out_moved(waiting)
        answers = self._rereader.confirm_all(mismatches) if mismatches else []
        if answers is None:
            for mismatch in mismatches:
                self._account.count(mismatch.record.id, Tally.NOT_DUE)
            return moved
        for number, (mismatch, answer) in enumerate(answers, 1):
            if isinstance(answer, Unstable | Vanished | RecordSuperseded):
                self._account.queue_reread(mismatch.record)  # replaced meanwhile: judge it again
            elif isinstance(answer, ReadError):
                self._failures.count_failed(mismatch.record, answer)
            else:
                # One sync for the whole batch: a file may be damaged under thousands of names.
                self._apply_result(mismatch, answer, is_synced=number == len(answers))
        return moved

    def _sort_out_moved(self, mismatches: list[Mismatch]) -> tuple[list[Mismatch], list[tuple[Mismatch, Judgement]]]:
        """Separate mismatches that are no damage because another file is recorded with their content."""
        possible: list[Mismatch] = []
        left: list[Mismatch] = []
        moved: list[tuple[Mismatch, Judgement]] = []
        with self._run.catalog.read() as connection:
            for one in mismatches:
                is_excused = (
                    self._evidence.judge(connection, one.record, one.done, elsewhere).verdict not in DAMAGE
                    for elsewhere in (Elsewhere.LEFT, Elsewhere.COPIED)
                )
                (possible if any(is_excused) else left).append(one)
        for one, elsewhere in zip(possible, find_elsewhere(self._run, possible), strict=True):
            if elsewhere is None:
                self._account.queue_reread(one.record)
                continue
            with self._run.catalog.read() as connection:
                judgement = self._evidence.judge(connection, one.record, one.done, elsewhere)
            if judgement.verdict in DAMAGE:
                left.append(one)
            else:
                moved.append((one, judgement))
        return left, moved

    def _apply_result(self, mismatch: Mismatch, outcome: ConfirmationResult, *, is_synced: bool) -> None:
        record, judgement = mismatch.record, mismatch.judgement
        if outcome.confirmation is Confirmation.CATALOG_DAMAGED:
            self._failures.report_damaged_record(record)
            return
        if outcome.confirmation is Confirmation.UNSTABLE:
            self._failures.count_unstable(record)
            return
        kind = finding_of(judgement.verdict, self._run.settings.policy)
        assert kind is not None
        with self._run.catalog.read() as connection:
            interruption = self._evidence.find_interruption(connection, record)
        text, certainty = messages.describe(judgement, kind, interruption), judgement.certainty
        if record.reason is BaselineReason.RESTORED and record.verified_at is None:
            text = messages.restored(record.recorded_at)
        is_one_copy = outcome.confirmation is Confirmation.ONE_COPY
        if self._run.mirror is not None and (is_one_copy or outcome.confirmation is Confirmation.PERSISTENT):
            text += messages.on_mirror(self._run.mirror, outcome.bad_devices, is_one_copy=is_one_copy)
        elif outcome.confirmation is not Confirmation.PERSISTENT:
            kind, certainty = FindingKind.TRANSIENT, None
            text = messages.transient(is_unsteady=outcome.confirmation is Confirmation.UNSTEADY)
        if outcome.confirmation is Confirmation.PERSISTENT:
            end = describe_end(mismatch.reading.witness.size_bytes, record.witness.size_bytes)
            text += messages.seen_in_data(end, describe_fills(outcome.fills))
        try:
            record = self._open(record, kind, text, certainty, outcome, is_synced=is_synced)
        except RecordSuperseded:
            self._account.queue_reread(record)
            return
        self._account.count(record.id, Tally.DAMAGED)
        if outcome.confirmation is not Confirmation.PERSISTENT:
            return
        if not is_complete(mismatch.done):
            self._confirmed_blocks[record.id, record.version] = outcome.bad_blocks
            self._account.queue_reread(record)
        elif outcome.bad_blocks == mismatch.bad_blocks:
            self._copies.store(record, mismatch.reading, judgement.verdict)

    def _open(
        self,
        record: FileRecord,
        kind: FindingKind,
        text: str,
        certainty: Certainty | None,
        outcome: ConfirmationResult,
        *,
        is_synced: bool,
    ) -> FileRecord:
        """Open the finding about a mismatch and return the record it was opened for."""
        is_whole = record.block_size_bytes is None
        with self._run.writing(is_synced=is_synced) as connection:
            require_current(connection, record)
            record = self._adopt_moved_baseline(connection, record)
            is_newer = record.is_candidate
            if not is_newer:  # the baseline is back, so a candidate is no longer the latest content
                versions.discard(connection, [record.id])
            resolution = "replaced by a newer finding about the file"
            findings.resolve_findings(
                connection,
                file_id=record.id,
                kinds=FINDINGS_OF_ARCHIVES,
                copy="",
                resolution=resolution,
                now=self._run.now(),
            )
            self._run.open_finding(
                connection,
                kind,
                messages.of_newer_content(text) if is_newer else text,
                record=record,
                certainty=certainty,
                blocks=(0,) if is_whole else outcome.bad_blocks,
                block_size_bytes=record.block_size_bytes or self._run.settings.block_size_bytes,
                ranges=block_ranges(record, outcome.bad_blocks),
                confirmed_reads=outcome.rereads,
                step=messages.MEND_NEWER_CONTENT if is_newer else None,
            )
        self._account.open_paths.add(record.path)
        return record

    def _adopt_moved_baseline(self, connection: Connection, record: FileRecord) -> FileRecord:
        """
        Give a name the baseline of the damaged file that was renamed over it; other newer content waits for a decision.

        The damage then belongs to this name and is tracked under it.
        """
        known = versions.get_candidate(connection, record.id) if record.is_candidate else None
        if known is None or known.state is not VersionState.STAGED or known.reason is not BaselineReason.MOVED:
            return record
        run = self._run
        is_taken_over = promote(connection, run.root, known, BaselineReason.MOVED, run.now(), record.boot_id)
        return files.get_file(connection, record.id) if is_taken_over else record
