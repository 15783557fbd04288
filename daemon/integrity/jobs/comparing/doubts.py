"""
Files of which catalog, file and copy do not all say the same: who is right, and what is told of it.

The file gets its vote first: it is re-read from its disk, unless a finding about it is open already. Then the table in
``verdict`` decides.

I1  A finding about the copy is opened or kept up to date for one file and one copy; what it said before of the same two
    is resolved.
I2  Past ``FINDINGS_AT_MOST`` of a kind in one run one finding about the whole copy counts the others: a copy that
    lacks half a million files is one incident.
"""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from integrity.catalog import candidates, copies, files, findings
from integrity.catalog.candidates import CandidateKind, CandidateState
from integrity.catalog.copies import CopyState
from integrity.catalog.rows import FileRecord
from integrity.jobs.comparing import messages
from integrity.jobs.comparing.filecheck import FileCheck
from integrity.jobs.comparing.localdigests import FileMatch, LocalPass
from integrity.jobs.comparing.voices import Voice
from integrity.jobs.contents import block_ranges
from integrity.jobs.idset import IdSet
from integrity.jobs.report import Compared, NoteKind
from integrity.model import CONTENT_FINDINGS, CopyId, Finding, FindingKind, FindingState, Tally
from integrity.paths import absolute, shell_path
from integrity.verdict import Arbitration, CopyVote, Judgement, Outcome, Stand, Verdict, arbitrate, find_stand

if TYPE_CHECKING:
    from integrity.catalog.connect import Connection
    from integrity.jobs.context import RootRun

FINDINGS_AT_MOST = 1000

_AT_ONCE = 500  # doubts that are decided in one transaction: a commit for each would take longer than reading the file

COPY_KINDS = frozenset(
    {
        FindingKind.COPY_MISSING,
        FindingKind.COPY_DIFFERS,
        FindingKind.COPY_STALE,
        FindingKind.COPY_UNREADABLE,
        FindingKind.TRANSIENT,
    }
)
"""What can be open about one file of a copy."""

VOTES = {
    CopyVote.MISSING: FindingKind.COPY_MISSING,
    CopyVote.DIFFERS: FindingKind.COPY_DIFFERS,
    CopyVote.OLDER: FindingKind.COPY_STALE,
    CopyVote.UNREADABLE: FindingKind.COPY_UNREADABLE,
    CopyVote.NOT_COMPARABLE: FindingKind.COPY_NOT_COMPARABLE,
}
"""What a copy must have said of some file for a finding about many files to hold."""

_TALLIES = {
    Outcome.IN_ORDER: Tally.VERIFIED,
    Outcome.REPAIRABLE: Tally.DAMAGED,
    Outcome.COPY_DIFFERS: Tally.DAMAGED,
    Outcome.COPIED_DAMAGE: Tally.DAMAGED,
    Outcome.ALL_DIFFER: Tally.DAMAGED,
    Outcome.COPY_STALE: Tally.CHANGED,
    Outcome.MISSED_CHANGE: Tally.CHANGED,
    Outcome.COPY_MISSING: Tally.MISSING,
    Outcome.COPY_UNREADABLE: Tally.UNREADABLE,
    Outcome.NOT_COMPARABLE: Tally.SKIPPED,
}
_VERDICTS = {
    FindingKind.ROT: Verdict.ROT,
    FindingKind.SILENT_REWRITE: Verdict.SILENT_REWRITE,
    FindingKind.UNREADABLE: Verdict.UNREADABLE,
    FindingKind.SHRUNK: Verdict.SHRUNK,
    FindingKind.CHANGED: Verdict.CHANGED,
    FindingKind.ROLLED_BACK: Verdict.ROLLED_BACK,
    FindingKind.MISSING: Verdict.MISSING,
}
_OTHER_CONTENT = frozenset({CopyVote.DIFFERS, CopyVote.OLDER})
_HAS_OTHER_CONTENT = frozenset({Stand.WRITTEN, Stand.DAMAGED, Stand.CONTESTED})


class Doubt(NamedTuple):
    """A file and what its copy says, which is not all in order; ``state`` is kept once that is decided."""

    record: FileRecord
    voice: Voice
    state: CopyState


class Arbiter:
    """
    Decide over doubts, and tell them.

    Args:
        run: the run.
        copy_id: of the copy.
        compared: counts.
    """

    def __init__(self, run: RootRun, copy_id: CopyId, compared: Compared) -> None:
        self._run = run
        self._copy_id = copy_id
        self._compared = compared
        self._check = FileCheck(run)
        self._opened: Counter[FindingKind] = Counter()
        self.reasons: Counter[str] = Counter()  # why files were not comparable
        with run.catalog.read() as connection:
            about_files = findings.find_findings(connection, root_id=run.root.id, copy="")
            about_copy = findings.find_findings(connection, root_id=run.root.id, copy=compared.copy)
            held = candidates.find_held_paths(connection, run.root.id)
        kinds = CONTENT_FINDINGS | {FindingKind.MISSING}
        self.doubted = {one.path for one in about_files if one.path is not None and one.kind in kinds} | set(held)
        self._open_about_copy = {one.path for one in about_copy if one.path is not None}

    def is_open(self, path: bytes) -> bool:
        """Say whether a finding about the copy of a file is open."""
        return path in self._open_about_copy

    def end(self, connection: Connection, record: FileRecord) -> None:
        """End what was said of a file's copy: it is as it should be."""
        self._open_about_copy.discard(record.path)
        self._run.note_over(
            findings.resolve_findings(
                connection,
                file_id=record.id,
                kinds=COPY_KINDS,
                copy=self._compared.copy,
                resolution="the copy is what was recorded",
                now=self._run.now(),
            )
        )

    def settle(self, doubts: Sequence[Doubt]) -> None:
        """Have the files re-read where that can tell more, decide, and write it down."""
        asked = [one for one in doubts if one.voice.doubts_file or one.voice.vote in _OTHER_CONTENT]
        unread = [one.record for one in asked if one.record.path not in self.doubted]
        if unread:
            self._check.check(unread)
        for start in range(0, len(doubts), _AT_ONCE):
            some = doubts[start : start + _AT_ONCE]
            equal = self._find_equal(some)
            if self._run.context.stop.is_set():
                return
            with self._run.writing() as connection:
                settled = [doubt.state for doubt in some if self._settle(connection, doubt, equal)]
                copies.save_states(connection, self._copy_id, settled)

    def _settle(self, connection: Connection, doubt: Doubt, equal: IdSet) -> bool:
        """Decide over one file, unless it is another one by now."""
        run, record = self._run, doubt.record
        fresh = files.find_file(connection, run.catalog.sealer, run.root.id, record.path)
        if record.id in self._check.moved or fresh is None or fresh.version != record.version:
            run.counts.add(Tally.UNSTABLE)
            run.note(NoteKind.UNSTABLE, record.path, messages.moved())
            return False
        judgement = self._judge(connection, record)
        if judgement is None:
            voice = Voice(CopyVote.NOT_COMPARABLE, reason=messages.record_contradicts())
            doubt = doubt._replace(voice=voice)
        judgement = judgement or Judgement(Verdict.INTACT)
        arbitration = arbitrate(judgement, doubt.voice.vote, are_equal=record.id in equal)
        run.counts.add(_TALLIES[arbitration.outcome])
        self._count(arbitration.outcome)
        self._tell(connection, doubt, find_stand(judgement), arbitration)
        return True

    def _judge(self, connection: Connection, record: FileRecord) -> Judgement | None:
        """
        Take the file's verdict from what is open about it; nothing open means that it is what was recorded.

        Returns:
            None if the record is what can't be relied on.
        """
        about = self._find_own(connection, record)
        for finding in about:
            if finding.kind in _VERDICTS:
                return Judgement(_VERDICTS[finding.kind], finding.certainty)
        if any(finding.kind is FindingKind.CATALOG_DAMAGED for finding in about):
            return None
        candidate = candidates.get_candidate(connection, record.id)
        if candidate is not None and candidate.state is CandidateState.HELD:
            is_removal = candidate.kind is CandidateKind.REMOVAL
            return Judgement(Verdict.MISSING) if is_removal else Judgement(Verdict.CHANGED, because=candidate.because)
        return Judgement(Verdict.INTACT)

    def _find_own(self, connection: Connection, record: FileRecord) -> list[Finding]:
        """List what is open about the file itself."""
        about = findings.find_file_findings(connection, record.id)
        return [one for one in about if one.copy is None and one.state is not FindingState.RESOLVED]

    def _find_equal(self, doubts: Sequence[Doubt]) -> IdSet:
        """Find the files whose content is their copy's, among those of which neither is what was recorded."""
        asked = []
        with self._run.catalog.read() as connection:
            for doubt in doubts:
                if doubt.voice.stated and doubt.voice.vote in _OTHER_CONTENT:
                    judgement = self._judge(connection, doubt.record)
                    if judgement is not None and find_stand(judgement) in _HAS_OTHER_CONTENT:
                        asked.append(doubt)
        equal = IdSet()
        with LocalPass[Doubt](self._run) as matching:
            for doubt, found in matching.match((one, one.record, one.voice.stated) for one in asked):
                # A file that can't be read is equal to nothing; its finding says so.
                if isinstance(found, FileMatch) and found.is_match:
                    equal.add(doubt.record.id)
        return equal

    def _count(self, outcome: Outcome) -> None:
        self._compared.differing += outcome in (Outcome.COPY_DIFFERS, Outcome.COPIED_DAMAGE, Outcome.ALL_DIFFER)
        self._compared.stale += outcome is Outcome.COPY_STALE
        self._compared.repairable += outcome is Outcome.REPAIRABLE
        self._compared.not_comparable += outcome is Outcome.NOT_COMPARABLE

    def _tell(self, connection: Connection, doubt: Doubt, stand: Stand, arbitration: Arbitration) -> None:
        """Open, keep or end findings, and leave the next step where it is looked for."""
        run, record, copy = self._run, doubt.record, self._compared.copy
        kind, command = arbitration.finding, self._command(record.path, arbitration)
        if kind is FindingKind.COPY_NOT_COMPARABLE:
            self.reasons[doubt.voice.reason] += 1
            run.is_incomplete = True
            run.note(NoteKind.NOT_COMPARABLE, record.path, doubt.voice.reason)
            kind = None
        elif kind is not None:
            text = messages.describe(arbitration.outcome, stand, doubt.voice, copy)
            self._open(connection, kind, doubt, text, arbitration.words, command)
        elif arbitration.words:
            self._advise(connection, record, arbitration, command)
        if kind is None and arbitration.outcome is not Outcome.NOT_COMPARABLE:
            self.end(connection, record)
        elif kind is not None:
            over = COPY_KINDS - {kind}
            findings.resolve_findings(
                connection,
                file_id=record.id,
                kinds=over,
                copy=copy,
                resolution="it is something else now",
                now=run.now(),
            )

    def _open(
        self, connection: Connection, kind: FindingKind, doubt: Doubt, text: str, step: str, command: str | None
    ) -> None:
        run, record, voice = self._run, doubt.record, doubt.voice
        self._opened[kind] += 1
        if self._opened[kind] > FINDINGS_AT_MOST and not self.is_open(record.path):
            run.kinds_met.add(kind)
            return
        self._open_about_copy.add(record.path)
        has_place = bool(voice.bad_blocks) and voice.size_bytes == record.witness.size_bytes
        run.open_finding(
            connection,
            kind,
            text,
            path=record.path,
            file_id=record.id,
            blocks=voice.bad_blocks,
            block_size_bytes=record.block_size_bytes,
            ranges=block_ranges(record, voice.bad_blocks) if has_place else (),
            copy=self._compared.copy,
            step=step,
            command=command,
        )

    def _advise(
        self, connection: Connection, record: FileRecord, arbitration: Arbitration, command: str | None
    ) -> None:
        """Write the next step to what is open about the file itself, and tell that again."""
        run = self._run
        own = [one.id for one in self._find_own(connection, record)]
        findings.set_step(connection, own, arbitration.words, command)
        for finding in findings.get_findings(connection, own):
            run.meet(finding)
        if not own:
            run.note(NoteKind.CHANGED, record.path, arbitration.words)

    def _command(self, path: bytes, arbitration: Arbitration) -> str | None:
        if arbitration.command is None:
            return None
        root = self._run.root.path
        return arbitration.command.format(
            path=shell_path(absolute(root, path)), root=shell_path(root), copy=shlex.quote(self._compared.copy)
        )

    def finish(self, over: frozenset[FindingKind]) -> None:
        """
        Tell what has no finding for each file: what was too much, and what could not be compared.

        Args:
            over: kinds of which nothing is open about the copy as a whole but what this run tells.
        """
        run, copy = self._run, self._compared.copy
        whole = {kind: count - FINDINGS_AT_MOST for kind, count in self._opened.items() if count > FINDINGS_AT_MOST}
        texts = {kind: messages.many_more(kind, count, copy) for kind, count in whole.items()}
        if self.reasons:
            texts[FindingKind.COPY_NOT_COMPARABLE] = messages.not_comparable(self.reasons, copy)
        with run.writing() as connection:
            for kind, text in texts.items():
                run.open_finding(connection, kind, text, copy=copy)
            self._end_of_copy(connection, over - texts.keys())

    def _end_of_copy(self, connection: Connection, kinds: frozenset[FindingKind]) -> None:
        """End what was said of the copy as a whole, and of files that the catalog does not have any more."""
        run = self._run
        about = findings.find_findings(connection, root_id=run.root.id, copy=self._compared.copy)
        ids = [one.id for one in about if one.path is None and one.kind in kinds]
        run.note_over(findings.resolve_ids(connection, ids, resolution="is not so any more", now=run.now()))
