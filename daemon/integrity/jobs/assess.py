"""
From a reading of a recorded file to what follows: intact, changed, damaged, or first to be confirmed.

The verdict is the table's (``verdict.py``), on the evidence that ``evidence.py`` finds; here it gets its consequences.
Nothing replaces a baseline here: changes are staged, and settled when the whole run is known (R5), or kept as
candidates while a finding is open (R6).

I1  Each file is counted once, whatever is done with it (R8).
I2  Rot and silent rewrites are told only after the confirming re-reads (R3).
I3  Nothing is concluded of a file whose record was replaced or forgotten since it was judged, for a person's word
    takes no lock: the file is judged anew.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import TYPE_CHECKING

from integrity.catalog import candidates, files, findings, recording
from integrity.catalog.ahead import when_looked_at
from integrity.catalog.blocks import CANDIDATE_VERSION
from integrity.catalog.candidates import CandidateRecord, CandidateState
from integrity.catalog.files import FileRecord, Verified
from integrity.catalog.rows import FileContent, is_current, require_current
from integrity.catalog.seal import Sealer
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
from integrity.files.opening import stat_beneath
from integrity.files.span import can_vouch
from integrity.files.stamps import witness_of
from integrity.hashing.engine import Done
from integrity.jobs import inheritance, messages
from integrity.jobs.absence import describe_instead
from integrity.jobs.arrivals import is_same_inode
from integrity.jobs.confirm import Outcome, Rereader, Suspicion
from integrity.jobs.contents import Difference, as_record, block_ranges, compare_content, is_candidate
from integrity.jobs.elsewhere import find_elsewhere
from integrity.jobs.evidence import Evidence
from integrity.jobs.idset import IdSet
from integrity.jobs.knowndamage import KnownDamage
from integrity.jobs.mirrored import find_doubtful_blocks
from integrity.jobs.replaced import Replaced
from integrity.jobs.report import NoteKind
from integrity.model import (
    BaselineReason,
    Certainty,
    FileId,
    FindingKind,
    Policy,
    ReadHow,
    Reading,
    Tally,
    Witness,
)
from integrity.verdict import (
    Confirmation,
    Elsewhere,
    Judgement,
    Verdict,
    compare_witness,
    finding_of,
)

if TYPE_CHECKING:
    from integrity.catalog.connect import Connection
    from integrity.jobs.context import RootRun

CONFIRM_AT_ONCE = 500
"""So many mismatches share one round of waiting; more would keep the first ones waiting for long."""

_DAMAGE = frozenset({Verdict.ROT, Verdict.SILENT_REWRITE})

_ENDED_BY_GOOD_CONTENT = frozenset(
    {
        FindingKind.ROT,
        FindingKind.SILENT_REWRITE,
        FindingKind.TRANSIENT,
        FindingKind.CATALOG_DAMAGED,
        FindingKind.CHANGED,
        FindingKind.ROLLED_BACK,
        FindingKind.SHRUNK,
        FindingKind.UNREADABLE,
        FindingKind.UNSTABLE,
        FindingKind.MISSING,
    }
)


class Assessor:
    """
    Take readings of recorded files and draw the consequences.

    Args:
        run: the run they belong to.
        from_disk: the readings are from the disk: they verify (scrub), and can end findings. Else they only compare.
        replaced: the names under which the run met another file than was recorded.
        follows_names: a walk came before, and records have followed the files that were renamed. Else a name may show
            the file of another record, of which nothing is concluded before one came.
    """

    def __init__(self, run: RootRun, *, from_disk: bool, replaced: Replaced, follows_names: bool = True) -> None:
        self._run = run
        self._from_disk = from_disk
        self.follows_names = follows_names
        self._evidence = Evidence(run, replaced)
        self._rereader = Rereader(run)
        self._suspicions: list[Suspicion] = []
        self._verified: list[Verified] = []
        self._refreshed: list[Verified] = []  # by readings that are not from the disk
        self.answered = IdSet()
        self._incomplete: list[FileRecord] = []
        self._racy: list[FileRecord] = []
        self._displaced: list[FileRecord] = []
        self._intact_ids = IdSet()  # counted as verified
        self._confirmed_blocks: dict[FileId, tuple[int, ...]] = {}  # of files of which only a part was read
        self._damaged: list[tuple[FileRecord, FileContent]] = []  # and what is in them now
        self._known_damage = KnownDamage(run)
        with run.catalog.read() as connection:
            found = findings.find_findings(connection, root_id=run.root.id, copy="")
        self.open_paths = {finding.path for finding in found if finding.path is not None}
        self.missing_paths = {one.path for one in found if one.path is not None and one.kind is FindingKind.MISSING}
        self.known_bad = {one.path: one.ranges for one in found if one.kind is FindingKind.UNREADABLE}

    def count(self, file_id: FileId, tally: Tally) -> None:
        """Count a file, unless it was counted before (I1)."""
        if self.answered.add(file_id):
            self._run.counts.add(tally)

    def take(self, record: FileRecord, done: Done, bad_before: tuple[int, ...] = ()) -> None:
        """
        Take a reading of a recorded file, and judge it against its baseline and its candidate (R6).

        The same as its baseline is intact, the same as its candidate is nothing new.

        Args:
            record: as it was when the reading was ordered.
            done: the reading.
            bad_before: blocks before ``done.first_block`` that were found to differ.
        """
        with self._run.catalog.read() as connection:
            difference = self._compare(connection, record, done, bad_before)
        try:
            if difference.is_catalog_damaged:
                self.catalog_damaged(record)
            elif difference.is_same:
                self._intact(record, done.reading)
            else:
                self._take_other(record, done, difference)
        except RecordSuperseded:
            self._incomplete.append(record)

    def _take_other(self, record: FileRecord, done: Done, difference: Difference) -> None:
        """Take a reading that is not the baseline's content."""
        with self._run.catalog.read() as connection:
            known = self._find_candidate(connection, record)
            if done.first_block and (known is not None or self._run.settings.policy is Policy.GROWING):
                self._incomplete.append(record)  # what was compared before tells nothing of the other content
                return
            is_over = known is not None and self._has_left(record, known, done.reading)
            is_known = known is not None and is_candidate(
                connection, self._sealer, known, done.reading, done.first_block
            )
            judged = None if is_known or is_over else self._judge(connection, record, known, done, difference)
        if is_over:
            self._resolve(record, "the file that it was about, renamed to here, stands here no more")
            self._incomplete.append(record)  # to be judged anew, as the record is free now
        elif judged is not None:
            self._differs(judged[0], done, *judged[1:])
        elif known is not None:
            self._is_candidate(record, known, done.reading)

    def _has_left(self, record: FileRecord, known: CandidateRecord, reading: Reading) -> bool:
        """Say whether a damaged file that had been renamed over a recorded one went on to another name, or is gone."""
        if not record.is_frozen or known.because is not BaselineReason.MOVED or known.witness is None:
            return False
        return self._run.capability.has_stable_inodes and known.witness.inode != reading.witness.inode

    def _judge(
        self,
        connection: Connection,
        record: FileRecord,
        known: CandidateRecord | None,
        done: Done,
        difference: Difference,
    ) -> tuple[FileRecord, Judgement, Difference]:
        """
        Judge other content against the candidate, which was last there, and against the baseline, which may be back.

        Damage of either is damage; else it is a change of the baseline, which is what it may come to replace. Where the
        candidate is damage that is known, it is judged by what moved since, and differs from the baseline as a whole.

        Returns:
            What it was judged against (a candidate as if it were the record), the judgement and the difference.
        """
        against = [(record, difference)]
        latest = record if known is None else as_record(record, known)
        if known is not None and known.is_damage:
            return record, self._evidence.judge(connection, latest, done), difference
        if latest is not record:
            newer = self._compare(connection, latest, done, ())
            if not newer.is_catalog_damaged:  # else it judges nobody, and this reading takes its place
                against.insert(0, (latest, newer))
        judged = [(one, self._evidence.judge(connection, one, done), found) for one, found in against]
        return next((one for one in judged if one[1].verdict in _DAMAGE), judged[-1])

    def _is_candidate(self, record: FileRecord, known: CandidateRecord, reading: Reading) -> None:
        """Count a file with the content of its candidate, whose witness is kept up to date like a baseline's."""
        if known.witness is not None and _is_news(known.witness, reading.witness):
            with self._run.writing() as connection:
                candidates.set_witness(connection, known, reading.witness)
        self._still_open(record, Tally.DAMAGED if known.is_damage else Tally.CHANGED)

    @property
    def _sealer(self) -> Sealer:
        return self._run.catalog.sealer

    def _compare(
        self, connection: Connection, record: FileRecord, done: Done, bad_before: tuple[int, ...]
    ) -> Difference:
        difference = compare_content(connection, self._sealer, record, done.reading, done.first_block)
        if not bad_before:
            return difference
        return replace(difference, is_same=False, bad_blocks=bad_before + difference.bad_blocks)

    def _find_candidate(self, connection: Connection, record: FileRecord) -> CandidateRecord | None:
        """Find the newer content of a file, unless the finding that it waited for ended in another way."""
        known = candidates.get_candidate(connection, record.id)
        is_left = known is not None and known.state is CandidateState.FROZEN and not record.is_frozen
        return None if is_left else known

    def _intact(self, record: FileRecord, reading: Reading) -> None:
        moved = _is_news(record.witness, reading.witness)
        if self._from_disk:
            self._verified.append(Verified(record.id, record.seal, reading.witness if moved else None, reading.how))
        elif moved:
            self._refreshed.append(Verified(record.id, record.seal, reading.witness, reading.how))
        if moved and reading.witness.is_racy:
            self._racy.append(record)
        self._confirmed_blocks.pop(record.id, None)
        if record.path not in self.open_paths:
            self._intact_ids.add(record.id)
            self.count(record.id, Tally.VERIFIED)
            return
        is_sure = reading.how is not ReadHow.CACHE_POSSIBLE or moved or not can_vouch(self._run.capability)
        if not (self._from_disk and is_sure):
            self._still_open(record, Tally.VERIFIED)
            return
        if self._run.mirror is not None and find_doubtful_blocks(self._run, record, reading.witness):
            self._run.note(NoteKind.WARNING, record.path, messages.one_good_copy(self._run.mirror))
            self._still_open(record, Tally.VERIFIED)
            return
        self._resolve(record, "its content is what was recorded, read from the disk")
        self.count(record.id, Tally.VERIFIED)

    def _resolve(self, record: FileRecord, resolution: str) -> None:
        with self._run.writing() as connection:
            require_current(connection, record)
            ended = findings.resolve_findings(
                connection,
                file_id=record.id,
                kinds=_ENDED_BY_GOOD_CONTENT,
                copy="",
                resolution=resolution,
                now=self._run.now(),
            )
            candidates.discard(connection, record.id)
        self.open_paths.discard(record.path)
        self._run.note_over(ended)

    def _still_open(self, record: FileRecord, otherwise: Tally) -> None:
        """
        Count a file with an open finding that nothing new is known of; a scrub answers for it, a scan does not.

        Args:
            record: of the file.
            otherwise: how it counts if the finding is not about its content.
        """
        self.count(record.id, Tally.DAMAGED if record.is_frozen else otherwise)
        if self._from_disk:
            if record.is_frozen and otherwise is Tally.CHANGED and self._run.settings.policy is Policy.MUTABLE:
                self._run.note(NoteKind.CHANGED, record.path, messages.newer_waits())
            with self._run.catalog.read() as connection:
                self._run.meet_open_findings(connection, record.path)

    def _differs(self, record: FileRecord, done: Done, judgement: Judgement, difference: Difference) -> None:
        reading = done.reading
        if judgement.verdict in _DAMAGE:
            is_complete = _is_complete(reading, done.first_block)
            if is_complete and self._confirmed_blocks.pop(record.id, None) == difference.bad_blocks:
                self._keep_damage(record, reading, judgement.verdict)
                return
            suspicion = Suspicion(record, done, judgement, difference.bad_blocks, self._run.context.monotonic())
            self._suspicions.append(suspicion)
            if len(self._suspicions) >= CONFIRM_AT_ONCE:
                self.confirm()
            return
        with self._run.catalog.read() as connection:
            another = self._evidence.find_another(connection, record, reading.witness)
        if another is not None and not self.follows_names:
            self._displaced.append(record)
            return
        if not _is_complete(reading, done.first_block):
            self._incomplete.append(record)
            return
        if another is not None and self._take_damaged_elsewhere(record, another, done, judgement):
            return
        if reading.witness.is_racy:
            self._racy.append(record)
        kind = finding_of(judgement.verdict, self._run.settings.policy)
        if kind is None and self._take_known_damage(record, reading):
            return
        with self._run.writing() as connection:
            is_in_question = kind is not None or record.is_frozen
            state = CandidateState.FROZEN if is_in_question else CandidateState.STAGED
            candidates.stage_change(
                connection, record, reading, judgement.verdict.value, self._run.run_id, state, judgement.because
            )
            if kind is not None:
                self._run.open_finding(connection, kind, messages.describe(judgement, kind), record=record)
                self.open_paths.add(record.path)
        if kind is not None:
            self.count(record.id, Tally.DAMAGED)
        elif record.is_frozen:
            self._still_open(record, Tally.CHANGED)
        else:
            self._changed(record, judgement)

    def _take_damaged_elsewhere(
        self, record: FileRecord, another: FileRecord, done: Done, judgement: Judgement
    ) -> bool:
        """
        Hold a file that was renamed over a recorded one against its own record, under which it may be damaged.

        Then what it should have becomes the candidate of the name, and waits to be confirmed as damaged.

        Args:
            record: of the name.
            another: of the file that stands there now.
            done: its reading, complete.
            judgement: of the name's content, which is another file's now.

        Returns:
            Whether it is damaged. If not, it is a change of the name like any other.
        """
        run = self._run
        if not is_same_inode(run.root_fd, record.path, another) or record.version == CANDIDATE_VERSION:
            return False
        with run.catalog.read() as connection:
            difference = self._compare(connection, another, done, ())
            if not another.is_sealed or difference.is_same or difference.is_catalog_damaged:
                return False
            moved = self._evidence.judge(connection, another, done)
            right = recording.load_content(connection, self._sealer, another, another.witness)
        if moved.verdict not in _DAMAGE or right is None:
            return False
        is_in_question = record.is_frozen or finding_of(judgement.verdict, run.settings.policy) is not None
        state = CandidateState.FROZEN if is_in_question else CandidateState.STAGED
        because = judgement.because if is_in_question else BaselineReason.MOVED
        with run.writing() as connection:
            candidates.stage_change(connection, record, right, judgement.verdict.value, run.run_id, state, because)
            known = candidates.get_candidate(connection, record.id)
        assert known is not None
        latest = replace(as_record(record, known), boot_id=another.boot_id)
        self._suspicions.append(Suspicion(latest, done, moved, difference.bad_blocks, run.context.monotonic()))
        return True

    def _take_known_damage(self, record: FileRecord, reading: Reading) -> bool:
        """Say whether what a file has now is the known damage of another one, which was copied here, and take it so."""
        with self._run.catalog.read() as connection:
            found = self._known_damage.find(connection, reading)
        return found is not None and found.content.is_damage and self._copied(record, found.original, reading)

    def _changed(self, record: FileRecord, judgement: Judgement) -> None:
        self.count(record.id, Tally.CHANGED)
        if judgement.because is BaselineReason.ROLLED_BACK:
            self._run.note(NoteKind.ROLLED_BACK, record.path, "an older version was put here")
        elif judgement.because is BaselineReason.MOVED:
            self._run.note(NoteKind.MOVED, record.path, "another recorded file was moved or copied here")

    def confirm(self) -> None:
        """Read the mismatches that wait again, and say what they were (R3). A stop request leaves them unsaid."""
        suspicions, self._suspicions = self._suspicions, []
        suspicions = self._leave_out_moved(suspicions)
        if not suspicions:
            self._find_copies()
            return
        answers = self._rereader.confirm_all(suspicions)
        if answers is None:
            for suspicion in suspicions:
                self.count(suspicion.record.id, Tally.NOT_DUE)
            return
        for suspicion, answer in answers:
            if isinstance(answer, Unstable | Vanished | RecordSuperseded):
                self._incomplete.append(suspicion.record)  # it is another file by now: to be judged anew
            elif isinstance(answer, ReadError):
                self.failed(suspicion.record, answer)
            else:
                self._confirmed(suspicion, answer)
        self._find_copies()

    def _leave_out_moved(self, suspicions: list[Suspicion]) -> list[Suspicion]:
        """Take files whose content another one is recorded with for what the table says then; return the others."""
        possible: list[Suspicion] = []
        left: list[Suspicion] = []
        with self._run.catalog.read() as connection:
            for one in suspicions:
                judgement = self._evidence.judge(connection, one.record, one.done, Elsewhere.LEFT)
                (left if judgement.verdict in _DAMAGE else possible).append(one)
        for one, elsewhere in zip(possible, find_elsewhere(self._run, possible), strict=True):
            if elsewhere is None:
                self._incomplete.append(one.record)
                continue
            with self._run.catalog.read() as connection:
                judgement = self._evidence.judge(connection, one.record, one.done, elsewhere)
            if judgement.verdict in _DAMAGE:
                left.append(one)
                continue
            try:
                self._differs(one.record, one.done, judgement, Difference(False, one.bad_blocks))
            except RecordSuperseded:
                self._incomplete.append(one.record)
        return left

    def _confirmed(self, suspicion: Suspicion, outcome: Outcome) -> None:
        record, judgement = suspicion.record, suspicion.judgement
        if outcome.confirmation is Confirmation.CATALOG_DAMAGED:
            self.catalog_damaged(record)
            return
        if outcome.confirmation is Confirmation.UNSTABLE:
            self.unstable(record)
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
        try:
            self._open(record, kind, text, certainty, outcome)
        except RecordSuperseded:
            self._incomplete.append(record)
            return
        self.count(record.id, Tally.DAMAGED)
        if outcome.confirmation is not Confirmation.PERSISTENT:
            return
        if not _is_complete(suspicion.reading, suspicion.done.first_block):
            self._confirmed_blocks[record.id] = outcome.bad_blocks
            self._incomplete.append(record)
        elif outcome.bad_blocks == suspicion.bad_blocks:
            self._keep_damage(record, suspicion.reading, judgement.verdict)

    def _keep_damage(self, record: FileRecord, reading: Reading, verdict: Verdict) -> None:
        """
        Keep the content of a file whose damage is confirmed as its candidate (R6).

        So a later reading of the same tells nothing new, and the damage is recognised wherever it is moved or copied.
        Newer content that waits for a decision stays the candidate if it is damaged itself.
        """
        if record.version == CANDIDATE_VERSION:
            return
        try:
            with self._run.writing() as connection:
                candidates.stage_change(
                    connection, record, reading, verdict.value, self._run.run_id, CandidateState.FROZEN
                )
        except RecordSuperseded:
            return  # a person decided meanwhile: the next scrub judges the file by what is recorded now
        self._damaged.append((record, FileContent(reading.witness.size_bytes, reading.digests, reading.blocks)))

    def _find_copies(self) -> None:
        """Look for files that were recorded with content which has just turned out to be damaged: copied too late."""
        damaged, self._damaged = self._damaged, []
        if not damaged:
            return
        with self._run.catalog.read() as connection:
            found = files.find_by_content(connection, self._sealer, None, [content for _, content in damaged])
        for (original, _), copies in zip(damaged, found, strict=True):
            for copy in copies:
                # Who had this content while the original was still right is its owner, whose block was written here.
                is_later = copy.recorded_at > (original.verified_at or original.recorded_at)
                if copy.id != original.id and is_later and not copy.is_frozen and not self._was_written(copy):
                    self._copied(copy, original)

    def _was_written(self, record: FileRecord) -> bool:
        """Say whether a file of this root is not what is recorded any more; whoever reads it says what it is."""
        if record.root_id != self._run.root.id:
            return False
        try:
            seen = witness_of(stat_beneath(self._run.root_fd, record.path))
        except OSError:
            return True
        return compare_witness(self._run.capability, record.witness, seen).touches_content

    def _copied(self, copy: FileRecord, original: FileRecord, reading: Reading | None = None) -> bool:
        """
        Take a recorded file for what it is: a copy of damage. It gets the baseline that it should have.

        Args:
            copy: the file.
            original: of which it has the damage.
            reading: its content by now; None: as it is recorded.

        Returns:
            Whether that could be done.
        """
        with self._run.writing() as connection:
            if not inheritance.replace_by_baseline(self._run, connection, copy, original, reading):
                return False
        self._verified = [one for one in self._verified if one.file_id != copy.id]
        self._refreshed = [one for one in self._refreshed if one.file_id != copy.id]
        self.open_paths.add(copy.path)
        if copy.root_id != self._run.root.id:
            return True
        if copy.id in self._intact_ids:  # it counts by its last verdict
            self._intact_ids.discard(copy.id)
            self._run.counts.add(Tally.VERIFIED, -1)
            self.answered.discard(copy.id)
        self.count(copy.id, Tally.DAMAGED)
        return True

    def _open(
        self, record: FileRecord, kind: FindingKind, text: str, certainty: Certainty | None, outcome: Outcome
    ) -> None:
        is_whole = record.block_size_bytes is None
        is_newer = record.version == CANDIDATE_VERSION
        with self._run.writing() as connection:
            require_current(connection, record)
            if not is_newer:  # the baseline is back: a candidate is not what was last there any more
                candidates.discard(connection, record.id)
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
                step=messages.mend_newer_content() if is_newer else None,
            )
        self.open_paths.add(record.path)

    def catalog_damaged(self, record: FileRecord) -> None:
        """Say that a record can't be relied on; nothing is said of its file."""
        try:
            with self._run.writing() as connection:
                text = messages.catalog_damaged()
                self._run.open_finding(connection, FindingKind.CATALOG_DAMAGED, text, record=record)
        except RecordSuperseded:
            self._incomplete.append(record)
        else:
            self.count(record.id, Tally.SKIPPED)

    def missing(self, connection: Connection, record: FileRecord) -> bool:
        """
        Count a recorded file that is gone. If it may not go without a person's word, open or repeat its finding.

        Returns:
            Whether there is a finding. If not, a scan may take the file out of the catalog.
        """
        run = self._run
        self.count(record.id, Tally.MISSING)
        if run.settings.policy is Policy.ARCHIVE:
            text = messages.missing(describe_instead(run.root_fd, record.path))
            run.open_finding(connection, FindingKind.MISSING, text, record=record)
            return True
        if record.path in self.missing_paths:
            run.meet_open_findings(connection, record.path)
            return True
        return False

    def judge_anew(self, record: FileRecord) -> None:
        """Have a file read again, and judged as it is recorded then."""
        self._incomplete.append(record)

    def failed(self, record: FileRecord, error: ReadError) -> None:
        """Count a recorded file that could not be read, and say so; its baseline stays."""
        if isinstance(error, ReadInterrupted):
            self.count(record.id, Tally.NOT_DUE)
        elif isinstance(error, DeviceFailing | DeviceStalled):
            self.device(error)
            self.count(record.id, Tally.SKIPPED)
        else:
            try:
                self.unreadable(record.path, error, record)
            except RecordSuperseded:
                self._incomplete.append(record)
            else:
                self.count(record.id, Tally.UNREADABLE)

    def unreadable(self, path: bytes, error: ReadError, record: FileRecord | None) -> None:
        """
        Open the finding about a file that can't be read; ``record``: None if it has none.

        Raises:
            RecordSuperseded: it is not recorded like that any more.
        """
        ranges = error.ranges if isinstance(error, Unreadable) else ()
        with self._run.writing() as connection:
            self._run.open_finding(
                connection,
                FindingKind.UNREADABLE,
                messages.unreadable(str(error), ranges),
                path=path,
                record=record,
                ranges=ranges,
            )
        self.open_paths.add(path)

    def device(self, error: ReadError) -> None:
        """Open the finding about a device that is left alone or hangs."""
        kind = FindingKind.DEVICE_STALLED if isinstance(error, DeviceStalled) else FindingKind.DEVICE_FAILING
        with self._run.writing() as connection:
            self._run.note_device(connection, kind)

    def unstable(self, record: FileRecord) -> None:
        """Count a file that never held still: neither good nor bad (R1); a finding once the promise is broken."""
        run = self._run
        run.is_incomplete = True
        run.note(NoteKind.UNSTABLE, record.path, messages.unstable())
        self.count(record.id, Tally.UNSTABLE)
        if run.now() - when_looked_at(record.verified_at, record.recorded_at, run.now()) > run.settings.verify_every_s:
            with run.writing() as connection:
                if is_current(connection, record):
                    run.open_finding(connection, FindingKind.UNSTABLE, messages.unstable(), record=record)

    def was_counted(self, file_id: FileId) -> bool:
        """Note that a file is counted elsewhere (I1); say whether that is news."""
        return self.answered.add(file_id)

    def take_incomplete(self) -> list[FileRecord]:
        """
        Hand over the files that are to be read again, with all digests, as they are recorded now.

        Of these either only a part was read that is not enough for a new baseline, or they changed while a mismatch was
        being confirmed, or somebody replaced their records meanwhile. Those that were forgotten are left out.
        """
        ids = [record.id for record in self._incomplete]
        self._incomplete = []
        return self._load(ids)

    def _load(self, ids: Iterable[FileId]) -> list[FileRecord]:
        wanted = list(ids)
        with self._run.catalog.read() as connection:
            return files.find_files(connection, self._sealer, wanted) if wanted else []

    def take_displaced(self) -> list[FileRecord]:
        """Hand over the records of names under which the files of others stand: a walk has theirs follow them there."""
        displaced, self._displaced = self._displaced, []
        return displaced

    def take_racy(self) -> list[FileRecord]:
        """
        Hand over, as they are recorded now, files that may have been written to without a trace since they were read.

        Those that a program may still be writing are left to the next run: nobody knows how long that takes.
        """
        paths = {record.path: record.id for record in self._racy}
        self._racy = []
        return self._load(paths[path] for path in self._run.leave_out_written(paths))

    @property
    def waiting(self) -> int:
        """Count the rows that wait for ``flush``."""
        return len(self._verified) + len(self._refreshed)

    def flush(self, connection: Connection) -> None:
        """Write what was verified."""
        run = self._run
        if self._verified:
            files.mark_verified(
                connection, run.catalog.sealer, run.root, self._verified, now=run.now(), boot_id=run.boot_id
            )
        if self._refreshed:
            recording.refresh_witnesses(
                connection,
                run.catalog.sealer,
                run.root,
                self._refreshed,
                has_stable_inodes=run.capability.has_stable_inodes,
                now=run.now(),
                boot_id=run.boot_id,
            )
        self._verified, self._refreshed = [], []


def _is_news(recorded: Witness, seen: Witness) -> bool:
    """
    Say whether a witness of unchanged content is to replace the recorded one.

    One that was not racy stays so while the stamps stand still: who has the file open by now has not written to it.
    """
    return seen[:4] != recorded[:4] or (bool(recorded.is_racy) and not seen.is_racy)


def _is_complete(reading: Reading, first_block: int) -> bool:
    """Say whether a reading has all that a baseline needs."""
    if reading.blocks is not None:
        return first_block == 0 and len(reading.blocks.md5) == len(reading.blocks.xxh3_128)
    return reading.digests.md5 is not None and reading.digests.xxh3_128 is not None
