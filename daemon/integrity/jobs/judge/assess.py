"""
Turn a reading of a recorded file into its consequences: intact, changed, damaged, or queued for confirmation.

``verdict.py`` decides the verdict, on the evidence collected by ``evidence.py``; ``account.py`` writes what is
concluded. This module never replaces a baseline: it stages changes, which are applied once the whole run is known (R5)
or kept as candidates while a finding is open (R6).

I1  Rot and silent rewrites are reported only after the confirming re-reads (R3), in which all queued files share the
    seconds between two readings.
I2  A judgement is discarded and the file judged again if its record was replaced or deleted since: a person's decision
    takes no lock.
"""

from __future__ import annotations

from collections.abc import Container, Hashable, Iterable, Sequence
from contextlib import suppress
from itertools import repeat
from typing import TYPE_CHECKING, cast

from integrity import program
from integrity.catalog import baselines, files, versions
from integrity.catalog.rows import FileContent, FileRecord, require_current
from integrity.catalog.versions import FileVersion, VersionState
from integrity.errors import (
    DeviceFailing,
    DeviceStalled,
    ReadError,
    ReadInterrupted,
    RecordSuperseded,
    Unreadable,
    Unstable,
    Vanished,
)
from integrity.files.span import can_prove_disk_read
from integrity.hashing.tasks import Done, DoneBatch
from integrity.jobs import messages
from integrity.jobs.batching import IdSet
from integrity.jobs.judge.account import Account, Conclusion, Staged
from integrity.jobs.judge.confirm import (
    Answer,
    Mismatch,
    confirm_all,
    describe_mismatch,
    find_doubtful_blocks,
    identify,
)
from integrity.jobs.judge.content_diff import Difference, as_record, compare_content, is_candidate, is_complete
from integrity.jobs.judge.evidence import Evidence
from integrity.jobs.judge.inherited import KnownDamage, find_copies, replace_by_baseline
from integrity.jobs.judge.inodes import ReplacedInodes, as_last_seen, is_same_inode
from integrity.jobs.judge.moved_times import MovedTimes
from integrity.jobs.report import NoteKind
from integrity.model import BaselineReason, FileId, FindingKind, Policy, ReadHow, Reading, Tally, Witness
from integrity.verdict import DAMAGE, FINDINGS_OF_ARCHIVES, VERDICTS, Confirmation, Judgement, Verdict, finding_of

if TYPE_CHECKING:
    from integrity.jobs.context import RootRun

MOST_AT_ONCE = 500
"""Maximum number of files in one confirmation round; a larger round would delay the first ones for long."""


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
    """

    def __init__(self, run: RootRun, *, from_disk: bool, replaced: ReplacedInodes | None) -> None:
        self._run = run
        self._follows_names = replaced is not None
        self.account = Account(run, from_disk=from_disk)
        self._evidence = Evidence(run, replaced or ReplacedInodes())
        self._moved_times = MovedTimes(run, self._evidence.move)
        self._known_damage = KnownDamage()
        self._mismatches: list[Mismatch] = []
        self._files_waiting: set[Hashable] = set()  # of the mismatches; one file may be queued under many names
        self._confirmed: dict[tuple[FileId, int], tuple[int, ...]] = {}  # damage of versions read only in part
        self._damaged: list[tuple[FileRecord, FileContent]] = []  # files whose damage was confirmed
        self._displaced: list[tuple[FileRecord, ReadError | None]] = []  # with the read error, if any
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
            difference = compare_content(connection, record, done.reading, done.first_block)
        if bad_before:
            difference = difference._replace(is_same=False, bad_blocks=bad_before + difference.bad_blocks)
        try:
            if difference.is_catalog_damaged:
                self.account.report_damaged_record(record)
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
        if not computed or any(None in column for column in computed.values()) or self._confirmed:
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
        Count and report a recorded file that could not be read; its baseline stays.

        Before a walk, a name that now leads to another recorded file is queued for ``take_displaced``.
        """
        account = self.account
        if isinstance(error, ReadInterrupted):
            account.count(record.id, Tally.NOT_DUE)
        elif isinstance(error, DeviceFailing | DeviceStalled):
            account.report_device(error)
            account.count(record.id, Tally.SKIPPED)
        elif not isinstance(error, Unreadable) or error.witness is None:
            self._report_unreadable(record, error)
        elif not self._follows_names and self._find_another(record, error.witness) is not None:
            self._displaced.append((record, error))
        elif self._leaves_finding(record, self._find_candidate(record), error.witness) or self._evidence.is_replaced(
            record, error
        ):
            account.queue_reread(record)
        else:
            with suppress(RecordSuperseded):
                record = self._adopt_renamed_baseline(record, error.witness)
            self._report_unreadable(record, error)

    def _report_unreadable(self, record: FileRecord, error: ReadError) -> None:
        ranges = error.ranges if isinstance(error, Unreadable) else ()
        text = messages.unreadable(str(error), ranges, is_recorded=True)
        self.account.write(Conclusion(record, Tally.UNREADABLE, FindingKind.UNREADABLE, text, ranges=ranges))

    def _find_another(self, record: FileRecord, seen: Witness) -> FileRecord | None:
        with self._run.catalog.read() as connection:
            return self._evidence.find_another(connection, record, seen)

    def _adopt_renamed_baseline(self, record: FileRecord, seen: Witness) -> FileRecord:
        """
        Give a name the baseline of the recorded but unreadable file that was renamed over it.

        Returns the record to report: the new one, or ``record`` if the baseline can't be replaced.
        """
        run, renamed = self._run, self._find_another(record, seen)
        keeps_baseline = record.is_frozen or run.settings.policy is Policy.ARCHIVE  # R6
        if renamed is None or keeps_baseline:
            return record
        with run.writing() as connection:
            require_current(connection, record)
            right = versions.load_version(connection, renamed, renamed.witness)
            if right is None:
                return record
            baselines.replace_baseline(
                *(connection, run.root, record.id, right),
                because=BaselineReason.MOVED,
                now=run.now(),
                boot_id=renamed.boot_id,
            )
            return files.get_file(connection, record.id)

    def _assess_difference(self, record: FileRecord, done: Done, difference: Difference) -> None:
        """Handle a reading that differs from the baseline."""
        known, seen = self._find_candidate(record), done.reading.witness
        with self._run.catalog.read() as connection:
            if done.first_block and (known is not None or self._run.settings.policy is Policy.GROWING):
                # The blocks compared earlier were not compared with the other content.
                self.account.queue_reread(record)
                return
            is_known = known is not None and is_candidate(connection, known, done.reading, done.first_block)
            is_judged = is_known or self._follows_names or (record.id, record.version) in self._confirmed
            if not is_judged and self._evidence.may_be_elsewhere(connection, record, known, seen):
                self._displaced.append((record, None))
                return
        if self._leaves_finding(record, known, seen):
            self.account.queue_reread(record)
        elif is_known and known is not None:
            self._count_candidate(record, known, done.reading)
        else:
            with self._run.catalog.read() as connection:
                judged = self._evidence.judge_latest(connection, record, known, done, difference)
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
            is_over = self._evidence.has_moved_on(connection, record, new_name)
        if is_over:
            with suppress(RecordSuperseded):  # judged again all the same
                self.account.resolve(record, "the file has another name now")
        return is_over

    def _count_candidate(self, record: FileRecord, known: FileVersion, reading: Reading) -> None:
        """Count a file whose content equals its candidate, and keep the candidate's witness current."""
        if _is_new_witness(known.witness, reading.witness):
            with self._run.writing(is_synced=False) as connection:
                versions.set_witness(connection, known, reading.witness)
            if reading.witness.is_racy:
                self.account.queue_racy(record)
        self.account.count_open(record, Tally.DAMAGED if known.is_damage else Tally.CHANGED)

    def _find_candidate(self, record: FileRecord) -> FileVersion | None:
        """Return the candidate of a file, or None if the finding that froze it was resolved in another way."""
        with self._run.catalog.read() as connection:
            known = versions.get_candidate(connection, record.id)
        is_left = known is not None and known.state is VersionState.FROZEN and not record.is_frozen
        return None if is_left else known

    def _handle_intact(self, record: FileRecord, reading: Reading) -> None:
        run, seen = self._run, reading.witness
        moved = _is_new_witness(record.witness, seen)
        # Before a walk, which may find the recorded inode under another name, it is not certain whose content this is.
        is_other = run.capability.has_stable_inodes and record.last_inode != seen.inode and not self._follows_names
        self.account.verify(record, reading, seen if moved else None, is_certain=not is_other)
        if moved and seen.is_racy:
            self.account.queue_racy(record)
        self._confirmed.pop((record.id, record.version), None)
        if record.path in self.account.open_paths:
            is_sure = reading.how is not ReadHow.CACHE_POSSIBLE or moved or not can_prove_disk_read(run.capability)
            is_proof = self.account.from_disk and is_sure
            if is_proof and run.mirror is not None and find_doubtful_blocks(run, record, seen):
                run.note(NoteKind.WARNING, record.path, messages.one_good_copy(run.mirror))
                is_proof = False
            if not is_proof:
                self.account.count_open(record, Tally.VERIFIED)
                return
            self.account.resolve(record, "verified: the content read from the disk matches the record")
        self.account.count(record.id, Tally.VERIFIED)

    def _handle_difference(self, record: FileRecord, done: Done, judgement: Judgement, difference: Difference) -> None:
        reading, verdict = done.reading, judgement.verdict
        if verdict in DAMAGE:
            self._add_mismatch(record, done, judgement, difference)
            if len(self._files_waiting) >= MOST_AT_ONCE:
                self.confirm()
            return
        another = self._find_another(record, reading.witness)
        if not is_complete(done):
            self.account.queue_reread(record)
            return
        if another is not None and self._take_damaged_elsewhere(record, another, done, judgement):
            return
        if reading.witness.is_racy:
            self.account.queue_racy(record)
        kind = finding_of(verdict, self._run.settings.policy)
        if kind is None and self._is_known_damage(record, done, judgement):
            return
        written = self.account.write(_conclude_change(record, reading, judgement, kind))
        if written is None or kind is not None:
            return
        if written.is_frozen:
            self.account.count_open(written, Tally.CHANGED)
        elif judgement.because is BaselineReason.MOVED:
            self._run.note(NoteKind.MOVED, record.path, "another recorded file was moved or copied here")

    def _is_known_damage(self, record: FileRecord, done: Done, judgement: Judgement) -> bool:
        """
        Return whether a changed name now has content that is known to be damaged.

        Either a damaged file was renamed over it and written to without repairing the damage, or it is a copy of the
        damage. In both cases the name has been given its correct baseline.
        """
        reading = done.reading
        with self._run.catalog.read() as connection:
            moved = self._evidence.find_damaged(connection, record, reading.witness)
            is_damaged = moved is not None and not compare_content(connection, moved, reading, done.first_block).is_same
            found = self._known_damage.find(connection, reading)
        if moved is not None and is_damaged and self._correct_copy(record, moved, reading, judgement):
            return True
        return found is not None and found.content.is_damage and self._correct_copy(record, found.original, reading)

    def _correct_copy(
        self, copy: FileRecord, original: FileRecord, reading: Reading | None = None, written: Judgement | None = None
    ) -> bool:
        """Give a copy of damage its correct baseline (see ``replace_by_baseline``); return whether it was replaced."""
        with self._run.writing() as connection:
            if not replace_by_baseline(self._run, connection, copy, original, reading, written):
                return False
        self.account.revert([copy.id])
        self.account.open_paths.add(copy.path)
        if copy.root_id == self._run.root.id:
            self.account.count(copy.id, Tally.DAMAGED)
        return True

    def _take_damaged_elsewhere(
        self, record: FileRecord, another: FileRecord, done: Done, judgement: Judgement
    ) -> bool:
        """
        Compare a file that was renamed over a recorded one with its own record, which may show it damaged.

        If it is damaged, its correct content is staged as the candidate of the name, and the mismatch is queued for
        confirmation. If not, it is an ordinary change of the name, and False is returned.
        """
        run = self._run
        with run.catalog.read() as connection:
            last = as_last_seen(connection, another)
        if not is_same_inode(run.root_fd, record.path, last) or record.is_candidate:
            return False
        with run.catalog.read() as connection:
            difference = compare_content(connection, another, done.reading, done.first_block)
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
        self._add_mismatch(as_record(record, known)._replace(boot_id=another.boot_id), done, moved, difference)
        return True

    def _add_mismatch(self, record: FileRecord, done: Done, judgement: Judgement, difference: Difference) -> None:
        """Queue a mismatch, or store the damage if an earlier reading of a part confirmed the same blocks."""
        mismatch = Mismatch(record, done, judgement, difference.bad_blocks)
        if is_complete(done) and self._confirmed.pop((record.id, record.version), None) == difference.bad_blocks:
            self._store_damage(mismatch)
        else:
            self._mismatches.append(mismatch)
            self._files_waiting.add(identify(self._run, mismatch))

    def _store_damage(self, mismatch: Mismatch) -> None:
        """
        Store confirmed damage as the candidate of its file (R6).

        A later reading of the same content is then already known, and copies of it are recognized anywhere. If newer
        content that waits for a decision is damaged itself, it stays the candidate.
        """
        record, reading, verdict = mismatch.record, mismatch.reading, mismatch.judgement.verdict
        if record.is_candidate:
            return
        run = self._run
        with suppress(RecordSuperseded):  # a person decided meanwhile: the next scrub judges it by its new record
            with run.writing(is_synced=False) as connection:  # not synced: the next scrub would store it again
                versions.stage_change(connection, record, reading, verdict.value, run.run_id, VersionState.FROZEN)
            self._damaged.append((record, FileContent(reading.witness.size_bytes, reading.digests, reading.blocks)))

    def confirm(self) -> None:
        """
        Re-read the queued mismatches, report the confirmed ones (R3), and search for copies of the damage.

        After a stop request they stay unreported. Mismatches whose content is recorded of another file are no damage.
        """
        while self._mismatches:
            waiting, self._mismatches = self._mismatches, []
            self._files_waiting.clear()
            left, moved, undecided = self._evidence.sort_out_moved(waiting)
            answers = confirm_all(self._run, left)
            for one in left if answers is None else ():
                self.account.count(one.record.id, Tally.NOT_DUE)
            for number, (mismatch, answer) in enumerate(answers or (), 1):
                # One sync for the whole batch: a file may be damaged under thousands of names.
                self._apply_answer(mismatch, answer, is_synced=number == len(answers or ()))
            for one in undecided:
                self.account.queue_reread(one.record)
            for mismatch, judgement in moved:
                difference = Difference(is_same=False, bad_blocks=mismatch.bad_blocks)
                try:
                    self._handle_difference(mismatch.record, mismatch.done, judgement, difference)
                except RecordSuperseded:
                    self.account.queue_reread(mismatch.record)
        damaged, self._damaged = self._damaged, []
        for copy, original in find_copies(self._run, damaged) if damaged else ():
            self._correct_copy(copy, original)

    def _apply_answer(self, mismatch: Mismatch, answer: Answer, *, is_synced: bool) -> None:
        record = mismatch.record
        if isinstance(answer, Unstable | Vanished | RecordSuperseded):
            self.account.queue_reread(record)  # replaced meanwhile: judge it again
        elif isinstance(answer, ReadError):
            self.count_failed(record, answer)
        elif answer.confirmation is Confirmation.CATALOG_DAMAGED:
            self.account.report_damaged_record(record)
        elif answer.confirmation is Confirmation.UNSTABLE:
            self.account.count_unstable(record)
        else:
            with self._run.catalog.read() as connection:
                interruption = self._evidence.find_interruption(connection, record)
            try:
                mismatch = mismatch._replace(record=self._adopt_moved_baseline(record))
            except RecordSuperseded:
                self.account.queue_reread(record)
                return
            found = describe_mismatch(self._run, mismatch, answer, interruption)
            written = self.account.write(found, is_synced=is_synced)
            if written is None or answer.confirmation is not Confirmation.PERSISTENT:
                return
            if not is_complete(mismatch.done):
                self._confirmed[written.id, written.version] = answer.bad_blocks
                self.account.queue_reread(written)
            elif answer.bad_blocks == mismatch.bad_blocks:
                self._store_damage(mismatch)

    def _adopt_moved_baseline(self, record: FileRecord) -> FileRecord:
        """
        Give a name the baseline of the damaged file that was renamed over it; other newer content waits for a decision.

        The damage then belongs to this name and is tracked under it.
        """
        run = self._run
        if not record.is_candidate:
            return record
        with run.writing() as connection:
            require_current(connection, record)
            known = versions.get_candidate(connection, record.id)
            if known is None or known.state is not VersionState.STAGED or known.reason is not BaselineReason.MOVED:
                return record
            is_taken_over = baselines.promote(
                connection, run.root, known, BaselineReason.MOVED, run.now(), record.boot_id
            )
            return files.get_file(connection, record.id) if is_taken_over else record

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
            self.account.count_open(record, Tally.MISSING)
            run.is_incomplete = True
            run.note(NoteKind.MISSING, record.path, messages.displaced(command, error))


def _conclude_change(
    record: FileRecord, reading: Reading, judgement: Judgement, kind: FindingKind | None
) -> Conclusion:
    """Return what follows from other content that is no damage; ``kind`` is the finding about it, if any."""
    verdict, staged = judgement.verdict, Staged(reading, judgement.verdict, judgement.because)
    if verdict is Verdict.COMPLETED:
        resolution = "the copy was completed"
        return Conclusion(record, Tally.CHANGED, staged=staged, ends=FINDINGS_OF_ARCHIVES, resolution=resolution)
    if kind is None:
        return Conclusion(record, Tally.CHANGED, staged=staged)
    text, ends = messages.describe(judgement, kind), frozenset[FindingKind]()
    if kind in FINDINGS_OF_ARCHIVES:  # what was said before of an archived file ends
        ends = frozenset(one for one in FINDINGS_OF_ARCHIVES if VERDICTS[one] is not verdict)
    step = messages.COMPLETE_COPY if judgement.is_continued else None
    return Conclusion(record, Tally.DAMAGED, kind, text, step=step, staged=staged, ends=ends)


def _is_new_witness(recorded: Witness, seen: Witness) -> bool:
    """
    Return whether the witness of unchanged content should replace the recorded one.

    A recorded witness that was not racy is kept while the stamps are equal: a program that has the file open now has
    not written to it since.
    """
    return seen.stamps != recorded.stamps or (bool(recorded.is_racy) and not seen.is_racy)
