"""
From a reading of a recorded file to what follows: intact, changed, damaged, or first to be confirmed.

The verdict is the table's (``verdict.py``), on the evidence that ``evidence.py`` finds; here it gets its consequences.
Nothing replaces a baseline here: changes are staged, and settled when the whole run is known (R5), or kept as
candidates while a finding is open (R6).

I1  Each file is counted once, whatever is done with it (R8).
I2  Rot and silent rewrites are told only after the confirming re-reads (R3).
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from integrity.catalog import candidates, files, findings, recording
from integrity.catalog.ahead import when_looked_at
from integrity.catalog.candidates import CandidateState
from integrity.catalog.files import FileRecord, Verified
from integrity.catalog.seal import Sealer
from integrity.errors import DeviceFailing, DeviceStalled, ReadError, ReadInterrupted, Unreadable, Unstable, Vanished
from integrity.files.span import can_vouch
from integrity.hashing.engine import Done
from integrity.jobs import messages
from integrity.jobs.confirm import Outcome, Rereader, Suspicion
from integrity.jobs.contents import Difference, as_record, block_ranges, compare_content, is_candidate
from integrity.jobs.evidence import Evidence
from integrity.jobs.idset import IdSet
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
    Judgement,
    Verdict,
    finding_of,
)

if TYPE_CHECKING:
    from integrity.catalog.connect import Connection
    from integrity.jobs.context import RootRun

CONFIRM_AT_ONCE = 500
"""So many mismatches share one round of waiting; more would keep the first ones waiting for long."""

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
    """

    def __init__(self, run: RootRun, *, from_disk: bool, replaced: Replaced) -> None:
        self._run = run
        self._from_disk = from_disk
        self._evidence = Evidence(run, replaced)
        self._rereader = Rereader(run)
        self._suspicions: list[Suspicion] = []
        self._verified: list[Verified] = []
        self._refreshed: dict[FileId, Witness] = {}
        self.answered = IdSet()
        self._incomplete: list[FileRecord] = []
        with run.catalog.read() as connection:
            found = findings.find_findings(connection, root_id=run.root.id, copy="")
        self.open_paths = {finding.path for finding in found if finding.path is not None}
        self.missing_paths = {one.path for one in found if one.path is not None and one.kind is FindingKind.MISSING}

    def count(self, file_id: FileId, tally: Tally) -> None:
        """Count a file, unless it was counted before (I1)."""
        if self.answered.add(file_id):
            self._run.counts.add(tally)

    def take(self, record: FileRecord, done: Done, bad_before: tuple[int, ...] = ()) -> None:
        """
        Take a reading of a recorded file.

        A file with a candidate is held against both: the same as its baseline is intact, the same as its candidate is
        nothing new, and anything else is judged as what became of the candidate, for that is what was last there (R6).

        Args:
            record: as it was when the reading was ordered.
            done: the reading.
            bad_before: blocks before ``done.first_block`` that were found to differ.
        """
        with self._run.catalog.read() as connection:
            difference = self._compare(connection, record, done, bad_before)
            latest = record
            if not difference.is_same and not difference.is_catalog_damaged:
                known = candidates.get_candidate(connection, record.id)
                if done.first_block and (known is not None or self._run.settings.policy is Policy.GROWING):
                    self._incomplete.append(record)  # what was compared before tells nothing of the other content
                    return
                if known is not None and is_candidate(connection, self._sealer, known, done.reading, done.first_block):
                    self._still_open(record, Tally.CHANGED)
                    return
                if known is not None and record.is_frozen:
                    latest = as_record(record, known)
                    if latest is not record:
                        difference = self._compare(connection, latest, done, ())
                judgement = self._evidence.judge(connection, latest, done)
        if difference.is_catalog_damaged:
            self.catalog_damaged(record)
        elif difference.is_same:
            self._intact(record, done.reading)
        else:
            self._differs(latest, done, judgement, difference)

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

    def _intact(self, record: FileRecord, reading: Reading) -> None:
        moved = reading.witness != record.witness
        if self._from_disk:
            self._verified.append(Verified(record.id, reading.witness if moved else None, reading.how))
        elif moved:
            self._refreshed[record.id] = reading.witness
        if record.path not in self.open_paths:
            self.count(record.id, Tally.VERIFIED)
            return
        is_sure = reading.how is not ReadHow.CACHE_POSSIBLE or moved or not can_vouch(self._run.capability)
        if not (self._from_disk and is_sure):
            self._still_open(record, Tally.VERIFIED)
            return
        self._resolve(record, "its content is what was recorded, read from the disk")
        self.count(record.id, Tally.VERIFIED)

    def _resolve(self, record: FileRecord, resolution: str) -> None:
        with self._run.writing() as connection:
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
        if judgement.verdict in (Verdict.ROT, Verdict.SILENT_REWRITE):
            suspicion = Suspicion(record, reading, judgement, difference.bad_blocks, self._run.context.monotonic())
            self._suspicions.append(suspicion)
            if len(self._suspicions) >= CONFIRM_AT_ONCE:
                self.confirm()
            return
        if not _is_complete(reading, done.first_block):
            self._incomplete.append(record)
            return
        kind = finding_of(judgement.verdict, self._run.settings.policy)
        with self._run.writing() as connection:
            is_in_question = kind is not None or record.is_frozen
            state = CandidateState.FROZEN if is_in_question else CandidateState.STAGED
            candidates.stage_change(
                connection, record.id, reading, judgement.verdict.value, self._run.run_id, state, judgement.because
            )
            if kind is not None:
                self._run.open_finding(
                    connection, kind, messages.describe(judgement, kind), path=record.path, file_id=record.id
                )
                self.open_paths.add(record.path)
        if kind is not None:
            self.count(record.id, Tally.DAMAGED)
        elif record.is_frozen:
            self._still_open(record, Tally.CHANGED)
        else:
            self._changed(record, judgement)

    def _changed(self, record: FileRecord, judgement: Judgement) -> None:
        self.count(record.id, Tally.CHANGED)
        if judgement.because is BaselineReason.ROLLED_BACK:
            self._run.note(NoteKind.ROLLED_BACK, record.path, "an older version was put here")

    def confirm(self) -> None:
        """Read the mismatches that wait again, and say what they were (R3). A stop request leaves them unsaid."""
        suspicions, self._suspicions = self._suspicions, []
        if not suspicions:
            return
        answers = self._rereader.confirm_all(suspicions)
        if answers is None:
            for suspicion in suspicions:
                self.count(suspicion.record.id, Tally.NOT_DUE)
            return
        for suspicion, answer in answers:
            if isinstance(answer, Unstable | Vanished):
                self._incomplete.append(suspicion.record)  # it is another file by now: to be judged anew
            elif isinstance(answer, ReadError):
                self.failed(suspicion.record, answer)
            else:
                self._confirmed(suspicion, answer)

    def _confirmed(self, suspicion: Suspicion, outcome: Outcome) -> None:
        record, judgement = suspicion.record, suspicion.judgement
        if outcome.confirmation is Confirmation.CATALOG_DAMAGED:
            self.catalog_damaged(record)
            return
        kind = finding_of(judgement.verdict, self._run.settings.policy)
        assert kind is not None
        text, certainty = messages.describe(judgement, kind), judgement.certainty
        if outcome.confirmation is not Confirmation.PERSISTENT:
            kind, certainty = FindingKind.TRANSIENT, None
            text = messages.transient(is_unsteady=outcome.confirmation is Confirmation.UNSTEADY)
        self._open(record, kind, text, certainty, outcome)
        self.count(record.id, Tally.DAMAGED)

    def _open(
        self, record: FileRecord, kind: FindingKind, text: str, certainty: Certainty | None, outcome: Outcome
    ) -> None:
        is_whole = record.block_size_bytes is None
        with self._run.writing() as connection:
            self._run.open_finding(
                connection,
                kind,
                text,
                path=record.path,
                file_id=record.id,
                certainty=certainty,
                blocks=(0,) if is_whole else outcome.bad_blocks,
                block_size_bytes=record.block_size_bytes or self._run.settings.block_size_bytes,
                ranges=block_ranges(record, outcome.bad_blocks),
                confirmed_reads=outcome.rereads,
            )
        self.open_paths.add(record.path)

    def catalog_damaged(self, record: FileRecord) -> None:
        """Say that a record can't be relied on; nothing is said of its file."""
        with self._run.writing() as connection:
            self._run.open_finding(
                connection, FindingKind.CATALOG_DAMAGED, messages.catalog_damaged(), path=record.path, file_id=record.id
            )
        self.count(record.id, Tally.SKIPPED)

    def failed(self, record: FileRecord, error: ReadError) -> None:
        """Count a recorded file that could not be read, and say so; its baseline stays."""
        if isinstance(error, ReadInterrupted):
            self.count(record.id, Tally.NOT_DUE)
        elif isinstance(error, DeviceFailing | DeviceStalled):
            self.device(error)
            self.count(record.id, Tally.SKIPPED)
        else:
            self.unreadable(record.path, error, record.id)
            self.count(record.id, Tally.UNREADABLE)

    def unreadable(self, path: bytes, error: ReadError, file_id: FileId | None) -> None:
        """Open the finding about a file that can't be read."""
        ranges = error.ranges if isinstance(error, Unreadable) else ()
        with self._run.writing() as connection:
            self._run.open_finding(
                connection,
                FindingKind.UNREADABLE,
                messages.unreadable(str(error), ranges),
                path=path,
                file_id=file_id,
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
                run.open_finding(
                    connection, FindingKind.UNSTABLE, messages.unstable(), path=record.path, file_id=record.id
                )

    def was_counted(self, file_id: FileId) -> bool:
        """Note that a file is counted elsewhere (I1); say whether that is news."""
        return self.answered.add(file_id)

    def take_incomplete(self) -> list[FileRecord]:
        """
        Hand over the files that are to be read again, with all digests.

        Of these either only a part was read that is not enough for a new baseline, or they changed while a mismatch was
        being confirmed.
        """
        records, self._incomplete = self._incomplete, []
        return records

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
            recording.set_witnesses(connection, run.catalog.sealer, run.root, self._refreshed)
        self._verified, self._refreshed = [], {}


def _is_complete(reading: Reading, first_block: int) -> bool:
    """Say whether a reading has all that a baseline needs."""
    if reading.blocks is not None:
        return first_block == 0 and len(reading.blocks.md5) == len(reading.blocks.xxh3_128)
    return reading.digests.md5 is not None and reading.digests.xxh3_128 is not None
