"""
Turn a reading of a recorded file into its consequences: intact, changed, damaged, or queued for confirmation.

``verdict.py`` decides the verdict, on the evidence collected by ``evidence.py``. This module never replaces a baseline:
it stages changes, which are applied once the whole run is known (R5) or kept as candidates while a finding is open
(R6).

I1  Rot and silent rewrites are reported only after the confirming re-reads (R3).
I2  A judgement is discarded and the file judged again if its record was replaced or deleted since: a person's decision
    takes no lock.
"""

from __future__ import annotations

from contextlib import suppress
from itertools import repeat
from typing import TYPE_CHECKING, cast

from integrity import program
from integrity.catalog import files, findings, versions
from integrity.catalog.rows import FileRecord, require_current
from integrity.catalog.versions import FileVersion, VersionState
from integrity.errors import ReadError, RecordSuperseded, Unreadable
from integrity.files.span import can_prove_disk_read
from integrity.hashing.tasks import Done, DoneBatch
from integrity.jobs import messages
from integrity.jobs.batching import IdSet
from integrity.jobs.judge.account import Account
from integrity.jobs.judge.confirm import find_doubtful_blocks
from integrity.jobs.judge.content_diff import Difference, as_record, compare_content, is_candidate, is_complete
from integrity.jobs.judge.copied_damage import CopiedDamage
from integrity.jobs.judge.evidence import Evidence
from integrity.jobs.judge.failures import Failures
from integrity.jobs.judge.inodes import as_last_seen, is_same_inode
from integrity.jobs.judge.mismatches import Mismatches
from integrity.jobs.judge.moved_times import MovedTimes
from integrity.jobs.judge.replaced_inodes import ReplacedInodes
from integrity.jobs.repair_advice import renew_copy_advice
from integrity.jobs.report import NoteKind
from integrity.kinds import ENDED_BY_GOOD_READING
from integrity.model import BaselineReason, FileId, Policy, ReadHow, Reading, Tally, Witness
from integrity.paths import absolute
from integrity.verdict import DAMAGE, FINDINGS_OF_ARCHIVES, VERDICTS, Judgement, Verdict, finding_of

if TYPE_CHECKING:
    from collections.abc import Container, Iterable, Sequence

    from integrity.catalog.connection import Connection
    from integrity.jobs.context import RootRun


class Assessor:
    """
    Judge readings of recorded files and act on the verdicts.

    Args:
        from_disk: readings come from the disk: they verify files (scrub) and can resolve findings. Otherwise they only
            compare.
        replaced: names under which a completed walk found a different inode than recorded, after records followed
            renamed files. None: no walk was made, so a name may lead to the file of another record; such names are not
            judged until a walk was made.

    Attributes:
        account: the conclusions so far.
        failures: handles files that get no verdict.
    """

    def __init__(self, run: RootRun, *, from_disk: bool, replaced: ReplacedInodes | None) -> None:
        self._run = run
        self._follows_names = replaced is not None
        self.account = Account(run, from_disk=from_disk)
        self._tells_open = from_disk
        self._evidence = Evidence(run, replaced or ReplacedInodes())
        self.failures = Failures(run, self.account, self._evidence)
        self._copies = CopiedDamage(run, self.account)
        self._moved_times = MovedTimes(run, self._evidence.move)
        self._mismatches = Mismatches(run, self.account, self.failures, self._evidence, self._copies)
        self._displaced: list[tuple[FileRecord, ReadError | None]] = []  # with the read error, if any
        self._reported = IdSet()  # files whose open findings were reported again
        self._requeued = IdSet()  # files already queued once behind the file that now has their finding

    def assess(self, record: FileRecord, done: Done, bad_before: tuple[int, ...] = ()) -> None:
        """
        Judge a reading of a recorded file against its baseline and its candidate (R6).

        Content equal to the baseline is intact. Content equal to the candidate is already known.

        Args:
            record: the record when the reading was queued.
            bad_before: mismatched blocks before ``done.first_block``.
        """
        with self._run.catalog.read() as connection:
            difference = self._compare(connection, record, done, bad_before)
        try:
            if difference.is_catalog_damaged:
                self.failures.report_damaged_record(record)
            elif difference.is_same:
                self._handle_intact(record, done.reading)
            else:
                self._assess_difference(record, done, difference)
        except RecordSuperseded:
            self.account.queue_reread(record)

    def count_intact(self, done: DoneBatch, apart: Container[FileId]) -> list[int]:
        """
        Count the readings whose content and stat equal their records; leave all others to ``assess``.

        Args:
            done: the readings; the tags of their tasks are the records.
            apart: files to leave to ``assess``.

        Returns:
            The indexes of all other readings.
        """
        records, readings = cast("Sequence[FileRecord]", done.tasks.tags), done.readings
        computed = {place: column for place, column in enumerate(readings.digests) if any(column)}
        if not computed or any(None in column for column in computed.values()) or self._mismatches.has_confirmed:
            return list(range(len(records)))
        known = zip(*([record.digests[place] for record in records] for place in computed), strict=True)
        seen = zip(*readings.witnesses[:4], repeat(False), strict=False)
        rows = zip(records, known, zip(*computed.values(), strict=True), seen, strict=False)
        open_paths = self.account.open_paths
        intact: list[FileRecord] = []
        others: list[int] = []
        for index, (record, recorded, digests, witness) in enumerate(rows):
            is_intact = recorded == digests and record.witness == witness
            if is_intact and record.path not in open_paths and record.id not in apart:
                intact.append(record)
            else:
                others.append(index)
        self.account.verify_all(intact, readings.hows[0])
        return others

    def count_failed(self, record: FileRecord, error: ReadError) -> None:
        """
        Handle a recorded file that could not be read.

        Before a walk, a name that now leads to another recorded file is queued for ``take_displaced``.
        """
        if not self._follows_names and self.failures.find_renamed(record, error) is not None:
            self._displaced.append((record, error))
        elif self._is_of_another_file(record, error):
            self.account.queue_reread(record)
        else:
            self.failures.count_failed(record, error)

    def _is_of_another_file(self, record: FileRecord, error: ReadError) -> bool:
        """Return whether the read error is about a file that replaced the one of the open finding, to be read again."""
        if not isinstance(error, Unreadable) or error.witness is None:
            return False
        with self._run.catalog.read() as connection:
            known = self._find_candidate(connection, record)
        return self._leaves_finding(record, known, error.witness)

    def _assess_difference(self, record: FileRecord, done: Done, difference: Difference) -> None:
        """Handle a reading that differs from the baseline."""
        with self._run.catalog.read() as connection:
            known = self._find_candidate(connection, record)
            if done.first_block and (known is not None or self._run.settings.policy is Policy.GROWING):
                self.account.queue_reread(
                    record
                )  # the blocks compared earlier were not compared with the other content
                return
            is_known = known is not None and is_candidate(connection, known, done.reading, done.first_block)
            is_judged = is_known or self._follows_names or self._mismatches.is_confirmed(record)
            if not is_judged and self._may_be_elsewhere(connection, record, known, done):
                self._displaced.append((record, None))
                return
        if self._leaves_finding(record, known, done.reading.witness):
            self.account.queue_reread(record)
        elif is_known and known is not None:
            self._count_candidate(record, known, done.reading)
        else:
            with self._run.catalog.read() as connection:
                judged = self._judge(connection, record, known, done, difference)
            self._handle_difference(judged[0], done, *judged[1:])

    def _leaves_finding(self, record: FileRecord, known: FileVersion | None, seen: Witness) -> bool:
        """
        Resolve the finding of a file that has another name now, once that name has taken the finding.

        Returns:
            Whether to judge the file with this name again: the other name is judged first, or the finding has ended.
        """
        with self._run.catalog.read() as connection:
            new_name = self._evidence.find_new_name(connection, record, known, seen)
            if new_name is None or self._requeued.add(record.id):
                return new_name is not None
            is_over = self._has_moved_on(connection, record, new_name)
        if is_over:
            with suppress(RecordSuperseded):  # judged again all the same
                self._resolve(record, "the file has another name now")
        return is_over

    def _may_be_elsewhere(
        self, connection: Connection, record: FileRecord, known: FileVersion | None, done: Done
    ) -> bool:
        """Return whether the name leads to another record's file, or its own damaged file may have another name now."""
        seen = done.reading.witness
        others = (find(connection, record, seen) for find in (self._evidence.find_another, self._evidence.find_damaged))
        if any(other is not None for other in others):
            return True
        witnesses = (record.witness, None if known is None else known.witness)
        inodes = {one.inode for one in witnesses if one is not None}
        return record.is_frozen and self._run.capability.has_stable_inodes and seen.inode not in inodes

    def _has_moved_on(self, connection: Connection, record: FileRecord, new_name: bytes) -> bool:
        """
        Return whether a damaged file that now has another recorded name took its finding there.

        Either the other name already has an open finding, or it is about to take over the content that this file had
        before it was damaged: someone restored it. A file that was merely replaced by newer content keeps its finding
        (R6).
        """
        there = files.find_file(connection, self._run.root.id, new_name)
        if there is None or there.is_frozen:
            return there is not None
        taken_over = versions.get_candidate(connection, there.id)
        return taken_over is not None and record.digests.md5 in {taken_over.digests.md5} - {None}

    def _judge(
        self,
        connection: Connection,
        record: FileRecord,
        known: FileVersion | None,
        done: Done,
        difference: Difference,
    ) -> tuple[FileRecord, Judgement, Difference]:
        """
        Judge a reading against the candidate (the content last seen) and against the baseline, which may be back.

        Damage of either is damage. Otherwise the reading is a change of the baseline, which it may replace. If the
        candidate is known damage, the witness is compared with the candidate's and the content with the baseline.

        Returns:
            The record that was compared (a candidate is converted to a record), the judgement and the difference.
        """
        against = [(record, difference)]
        latest = record if known is None else as_record(record, known)
        if known is not None and known.is_damage:
            return record, self._evidence.judge(connection, latest, done), difference
        if latest is not record:
            newer = self._compare(connection, latest, done, ())
            if not newer.is_catalog_damaged:  # else it proves nothing; this reading replaces it
                against.insert(0, (latest, newer))
        judged = [(one, self._evidence.judge(connection, one, done), found) for one, found in against]
        return next((one for one in judged if one[1].verdict in DAMAGE), judged[-1])

    def _count_candidate(self, record: FileRecord, known: FileVersion, reading: Reading) -> None:
        """Count a file whose content equals its candidate, and keep the candidate's witness current."""
        if _is_new_witness(known.witness, reading.witness):
            with self._run.writing(is_synced=False) as connection:
                versions.set_witness(connection, known, reading.witness)
            if reading.witness.is_racy:
                self.account.queue_racy(record)
        self._count_open(record, Tally.DAMAGED if known.is_damage else Tally.CHANGED)

    def _compare(
        self, connection: Connection, record: FileRecord, done: Done, bad_before: tuple[int, ...]
    ) -> Difference:
        difference = compare_content(connection, record, done.reading, done.first_block)
        if not bad_before:
            return difference
        return difference._replace(is_same=False, bad_blocks=bad_before + difference.bad_blocks)

    def _find_candidate(self, connection: Connection, record: FileRecord) -> FileVersion | None:
        """Return the candidate of a file, or None if the finding that froze it was resolved in another way."""
        known = versions.get_candidate(connection, record.id)
        is_left = known is not None and known.state is VersionState.FROZEN and not record.is_frozen
        return None if is_left else known

    def _handle_intact(self, record: FileRecord, reading: Reading) -> None:
        moved = _is_new_witness(record.witness, reading.witness)
        is_certain = not self._is_other_inode_before_walk(record, reading.witness)
        self.account.verify(record, reading, reading.witness if moved else None, is_certain=is_certain)
        if moved and reading.witness.is_racy:
            self.account.queue_racy(record)
        self._mismatches.forget(record)
        if record.path not in self.account.open_paths:
            self.account.count(record.id, Tally.VERIFIED)
            return
        is_sure = reading.how is not ReadHow.CACHE_POSSIBLE or moved or not can_prove_disk_read(self._run.capability)
        if not (self.account.from_disk and is_sure):
            self._count_open(record, Tally.VERIFIED)
            return
        if self._run.mirror is not None and find_doubtful_blocks(self._run, record, reading.witness):
            self._run.note(NoteKind.WARNING, record.path, messages.one_good_copy(self._run.mirror))
            self._count_open(record, Tally.VERIFIED)
            return
        self._resolve(record, "verified: the content read from the disk matches the record")
        self.account.count(record.id, Tally.VERIFIED)

    def _is_other_inode_before_walk(self, record: FileRecord, seen: Witness) -> bool:
        """Return whether an intact file has a new inode before a walk, which may find that inode under another name."""
        is_other = self._run.capability.has_stable_inodes and record.last_inode != seen.inode
        return is_other and not self._follows_names

    def _resolve(self, record: FileRecord, resolution: str) -> None:
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
        self.account.open_paths.discard(record.path)
        self._run.note_resolved(ended)

    def _count_open(self, record: FileRecord, otherwise: Tally) -> None:
        """
        Count a file whose open finding is unchanged. A scrub also reports the finding again, a scan does not.

        ``otherwise`` is the count to use if the finding is not about the content.
        """
        self.account.count(record.id, Tally.DAMAGED if record.is_frozen else otherwise)
        if self._tells_open and self._reported.add(record.id):
            if record.is_frozen and otherwise is Tally.CHANGED and self._run.settings.policy is Policy.MUTABLE:
                note = messages.newer_waits(absolute(self._run.root.path, record.path))
                self._run.note(NoteKind.CHANGED, record.path, note)
            with self._run.catalog.read() as connection:
                self._run.report_open_findings(connection, record.path)

    def _handle_difference(self, record: FileRecord, done: Done, judgement: Judgement, difference: Difference) -> None:
        reading = done.reading
        if judgement.verdict in DAMAGE:
            self._mismatches.add(record, done, judgement, difference)
            if self._mismatches.is_full:
                self.confirm()
            return
        with self._run.catalog.read() as connection:
            another = self._evidence.find_another(connection, record, reading.witness)
        if not is_complete(done):
            self.account.queue_reread(record)
            return
        if another is not None and self._take_damaged_elsewhere(record, another, done, judgement):
            return
        if reading.witness.is_racy:
            self.account.queue_racy(record)
        kind = finding_of(judgement.verdict, self._run.settings.policy)
        if kind is None and self._is_known_damage(record, done, judgement):
            return
        with self._run.writing(is_synced=kind is not None) as connection:  # the run's end syncs staged rows
            if kind in FINDINGS_OF_ARCHIVES or judgement.verdict is Verdict.COMPLETED:
                record = self._resolve_former(connection, record, judgement.verdict)
            is_in_question = kind is not None or record.is_frozen
            state = VersionState.FROZEN if is_in_question else VersionState.STAGED
            versions.stage_change(
                connection, record, reading, judgement.verdict.value, self._run.run_id, state, judgement.because
            )
            if kind is not None:
                step = messages.COMPLETE_COPY if judgement.is_continued else None
                self._run.open_finding(connection, kind, messages.describe(judgement, kind), record=record, step=step)
                self.account.open_paths.add(record.path)
        if kind is not None:
            self.account.count(record.id, Tally.DAMAGED)
        elif record.is_frozen:
            self._count_open(record, Tally.CHANGED)
        else:
            self._count_changed(record, judgement)

    def _resolve_former(self, connection: Connection, record: FileRecord, verdict: Verdict) -> FileRecord:
        """Resolve what was said of an archived file that changed before; return its present record."""
        require_current(connection, record)
        is_over = verdict is Verdict.COMPLETED
        kinds = {kind for kind in FINDINGS_OF_ARCHIVES if is_over or VERDICTS[kind] is not verdict}
        resolution = "the copy was completed" if is_over else "replaced by a newer finding about the file"
        ended = findings.resolve_findings(
            connection, file_id=record.id, kinds=kinds, copy="", resolution=resolution, now=self._run.now()
        )
        self._run.note_resolved(ended)
        return files.get_file(connection, record.id) if ended else record

    def _is_known_damage(self, record: FileRecord, done: Done, judgement: Judgement) -> bool:
        """
        Return whether a changed name now has content that is known to be damaged.

        Either a damaged file was renamed over it and written to without repairing the damage, or it is a copy of the
        damage. In both cases the name has been given its correct baseline.
        """
        reading = done.reading
        with self._run.catalog.read() as connection:
            moved = self._evidence.find_damaged(connection, record, reading.witness)
            is_right = moved is not None and self._compare(connection, moved, done, ()).is_same
        if moved is not None and not is_right and self._copies.correct_copy(record, moved, reading, judgement):
            return True
        return self._copies.handle_known(record, reading)

    def _take_damaged_elsewhere(
        self, record: FileRecord, another: FileRecord, done: Done, judgement: Judgement
    ) -> bool:
        """
        Compare a file that was renamed over a recorded one with its own record, which may show it damaged.

        If it is damaged, its correct content is staged as the candidate of the name, and the mismatch is queued for
        confirmation.

        Args:
            another: the record of the file that now has the name.
            done: the complete reading of that file.
            judgement: the judgement of the name's changed content.

        Returns:
            Whether the file is damaged. If not, it is an ordinary change of the name.
        """
        run = self._run
        with run.catalog.read() as connection:
            last = as_last_seen(connection, another)
        if not is_same_inode(run.root_fd, record.path, last) or record.is_candidate:
            return False
        with run.catalog.read() as connection:
            difference = self._compare(connection, another, done, ())
            if difference.is_same or difference.is_catalog_damaged:
                return False
            moved = self._evidence.judge(connection, another, done)
            right = versions.load_version(connection, another, another.witness)
        if moved.verdict not in DAMAGE or right is None:
            return False
        is_in_question = record.is_frozen or finding_of(judgement.verdict, run.settings.policy) is not None
        state = VersionState.FROZEN if is_in_question else VersionState.STAGED
        because = judgement.because if is_in_question else BaselineReason.MOVED
        with run.writing(is_synced=False) as connection:
            versions.stage_change(connection, record, right, judgement.verdict.value, run.run_id, state, because)
            known = versions.get_candidate(connection, record.id)
        assert known is not None
        latest = as_record(record, known)._replace(boot_id=another.boot_id)
        self._mismatches.add(latest, done, moved, difference)
        return True

    def _count_changed(self, record: FileRecord, judgement: Judgement) -> None:
        self.account.count(record.id, Tally.CHANGED)
        if judgement.because is BaselineReason.MOVED:
            self._run.note(NoteKind.MOVED, record.path, "another recorded file was moved or copied here")

    def confirm(self) -> None:
        """Re-read the queued mismatches, report the confirmed ones (R3), and search for copies of the damage."""
        while self._mismatches.has_pending:
            for mismatch, judgement in self._mismatches.confirm():
                try:
                    self._handle_difference(
                        mismatch.record, mismatch.done, judgement, Difference(False, mismatch.bad_blocks)
                    )
                except RecordSuperseded:
                    self.account.queue_reread(mismatch.record)
        self._copies.find_copies()

    def queue_moved_together(self, *, has_read_all: bool) -> bool:
        """
        Queue changed files to be judged again whose time moved together with the times of unchanged files.

        Files that must be read before that is known are queued first; then ask again.

        Args:
            has_read_all: every file of the root whose time moved was read.

        Returns:
            Whether files were queued (``account.take_rereads``).
        """
        company = [] if has_read_all else self._moved_times.find_company()
        for record in company:
            self.account.queue_reread(record)
        if company:
            return True
        found = self._moved_times.find_together()
        if not has_read_all and not found:
            self._run.write_in_pages(self._moved_times.find_unfinished(), versions.discard)
        elif not found:
            for folder in self._moved_times.learn():
                self._run.note(NoteKind.WARNING, folder, messages.KEEPS_NO_TIMES)
        self._evidence.moved_together |= found
        with self._run.catalog.read() as connection:
            records = files.find_files(connection, found)
        self.account.revert(found)
        self._run.write_in_pages(list(found), versions.discard)
        for record in records:
            self.account.queue_reread(record)
        return bool(found)

    def take_displaced(self) -> list[tuple[FileRecord, ReadError | None]]:
        """
        Return and clear the records of names that now lead to other records' files, each with its read error if any.

        A walk lets these records follow their files.
        """
        displaced, self._displaced = self._displaced, []
        return displaced

    def follow_walk(self, replaced: ReplacedInodes) -> None:
        """Continue after a walk; ``replaced`` are the names under which it found a different inode than recorded."""
        self._follows_names, self._evidence.replaced = True, replaced

    def count_displaced(self, displaced: Iterable[tuple[FileRecord, ReadError | None]]) -> None:
        """Count displaced files as missing when no walk follows: their new location is unknown."""
        run = self._run
        command = program.command("scan", run.root.path)
        for record, error in displaced:
            self._count_open(record, Tally.MISSING)
            run.is_incomplete = True
            run.note(NoteKind.MISSING, record.path, messages.displaced(command, error))


def _is_new_witness(recorded: Witness, seen: Witness) -> bool:
    """
    Return whether the witness of unchanged content should replace the recorded one.

    A recorded witness that was not racy is kept while the stamps are equal: a program that has the file open now has
    not written to it since.
    """
    return seen.stamps != recorded.stamps or (bool(recorded.is_racy) and not seen.is_racy)
