"""
Decide, for each file on which catalog, file and copy disagree, which of them is right, and record the findings.

The file is re-read from its disk first, unless a finding about it is open already. So are files that the copy lacks, up
to a limit: a damaged file must not be backed up. Then the table in ``arbitration`` decides, once the habit of the copy
is known: until then, disagreements wait.

I1  A finding about the copy is opened or updated for one file and one copy. Earlier findings of other kinds about the
    same two are resolved.
I2  Beyond ``FINDINGS_AT_MOST`` findings of one kind in one run, one finding about the whole copy counts the rest: a
    copy that lacks half a million files is one incident.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from integrity.arbitration import (
    COMPARE,
    DECIDE_ABOUT_LIST,
    READ_FIRST,
    REPAIR_FROM_COPY,
    Arbitration,
    ArbitrationOutcome,
    CopyCircumstances,
    CopyVote,
    CopyWitness,
    FileState,
    arbitrate,
    find_stand,
)
from integrity.catalog import copies, findings, versions
from integrity.catalog.copies import CopyFound, CopyState
from integrity.catalog.copy_listing import mark_renamed
from integrity.catalog.rows import FileRecord
from integrity.catalog.versions import FileVersion
from integrity.copies.protocol import Kind
from integrity.jobs import messages
from integrity.jobs.batching import IdSet
from integrity.jobs.compare.circumstances import (
    TIMES_OF_ONE_VERSION,
    WrittenFile,
    find_circumstances,
    has_beginning,
    is_within_lag,
    remember_content,
)
from integrity.jobs.compare.copy_answer import CopyAnswer
from integrity.jobs.compare.copy_habit import CopyHabit
from integrity.jobs.compare.disagreement import (
    NOT_INTACT,
    OTHER_CONTENT,
    Disagreement,
    find_equal,
    find_mtime,
    find_others,
    has_good_blocks,
    is_still_open,
    protect,
    stands_in,
)
from integrity.jobs.compare.evidence import EvidenceCount
from integrity.jobs.compare.own_witness import OwnWitness
from integrity.jobs.compare.recheck import FileCheck, FileRecheck, look_up
from integrity.jobs.judge.content_diff import block_ranges
from integrity.jobs.repair_advice import advise_repair
from integrity.jobs.report import Compared, NoteKind
from integrity.kinds import ENDED_BY_COMPARE, KINDS, REPAIRABLE, headline
from integrity.model import CopyId, FileId, FindingKind, Tally
from integrity.paths import absolute, shell_path, shell_word
from integrity.verdict import Judgement, Verdict

if TYPE_CHECKING:
    from integrity.catalog.connection import Connection
    from integrity.jobs.context import RootRun

FINDINGS_AT_MOST = 1000

_DECIDED_AT_ONCE = 500  # disagreements per transaction: one commit for each would take longer than reading the file
_DIFFERING = frozenset(
    {ArbitrationOutcome.COPY_DIFFERS, ArbitrationOutcome.COPY_INCOMPLETE, ArbitrationOutcome.COPIED_DAMAGE}
)
_CONFLICTING = frozenset({ArbitrationOutcome.COPY_CONFLICT, ArbitrationOutcome.FILE_DIFFERS})

_TALLIES = {
    ArbitrationOutcome.IN_ORDER: Tally.VERIFIED,
    ArbitrationOutcome.RENAMED: Tally.VERIFIED,
    ArbitrationOutcome.REPAIRABLE: Tally.DAMAGED,
    ArbitrationOutcome.COPY_DIFFERS: Tally.DAMAGED,
    ArbitrationOutcome.COPY_INCOMPLETE: Tally.DAMAGED,
    ArbitrationOutcome.COPIED_DAMAGE: Tally.DAMAGED,
    ArbitrationOutcome.COPY_CONFLICT: Tally.CHANGED,
    ArbitrationOutcome.FILE_DIFFERS: Tally.CHANGED,
    ArbitrationOutcome.COPY_NEWER: Tally.CHANGED,
    ArbitrationOutcome.COPY_STALE: Tally.CHANGED,
    ArbitrationOutcome.MISSED_CHANGE: Tally.CHANGED,
    ArbitrationOutcome.COPY_MISSING: Tally.MISSING,
    ArbitrationOutcome.COPY_UNREADABLE: Tally.UNREADABLE,
    ArbitrationOutcome.NOT_COMPARABLE: Tally.SKIPPED,
}
_EXAMINED = frozenset({Tally.VERIFIED, Tally.DAMAGED, Tally.CHANGED})
"""Of these the copy was examined; the others are no evidence."""

_FROM_OTHER = " --from OTHER"
_RECORDED = frozenset({Kind.MD5, Kind.XXH3_128, Kind.BLAKE3})
"""Checksums that history keeps of content that a person rejected."""

_NOT_RECORDED = OTHER_CONTENT | {CopyVote.MISSING}
_GOOD_COPIES = frozenset(
    {
        ArbitrationOutcome.IN_ORDER,
        ArbitrationOutcome.RENAMED,
        ArbitrationOutcome.REPAIRABLE,
    }
)
_MISSING_BYTES_READ = 4 << 30
"""Most bytes read of files that the copy lacks. A folder that is left out of a backup on purpose may be large."""

_BEHIND = frozenset({ArbitrationOutcome.COPY_MISSING, ArbitrationOutcome.COPY_STALE, ArbitrationOutcome.COPY_NEWER})
_BEGINNING_BYTES_READ = 4 << 30
"""Most bytes read here to see whether shorter copies are how their files begin."""

_REASONS_AT_MOST = 1000


class CopyArbiter:
    """
    Decide disagreements between file and copy, and record the findings.

    Args:
        has_bytes: whether a file can be repaired from the copy.
        keeps_versions: whether the copy has older versions, too.
        behind_s: how far the backup may lag behind the files.
        check: reads files here.
        evidence: counts what each decision rests on.
        habit: how the copy keeps times.
        has_ctime: whether the copy's ctimes show writes.
        show_bytes: returns what the bytes of a file and its copy show beside each other, for people; may be empty.
        find_reading: returns when the program that made a backup read what it has of a file, if it can be found out.
        find_own_witness: returns the side that fails the checksum inside it, while the other passes.
        find_spelling: returns the path in the root under whose name the copy has a file.
        find_elsewhere: looks for the recorded content of a file under other names that the copy has.
    """

    def __init__(
        self,
        run: RootRun,
        copy_id: CopyId,
        compared: Compared,
        check: FileCheck,
        evidence: EvidenceCount,
        habit: CopyHabit,
        *,
        has_bytes: bool,
        keeps_versions: bool,
        has_ctime: bool = False,
        show_bytes: Callable[[FileRecord, CopyAnswer], str],
        find_reading: Callable[[FileRecord, CopyAnswer], int | None],
        find_own_witness: Callable[[FileRecord], OwnWitness | None],
        find_spelling: Callable[[bytes], bytes],
        find_elsewhere: Callable[[FileRecord, Sequence[bytes]], CopyAnswer | None],
        behind_s: int = 0,
    ) -> None:
        self._run = run
        self._check = check
        self._evidence = evidence
        self._habit, self._has_ctime, self._show_bytes = habit, has_ctime, show_bytes
        self._find_reading, self._find_spelling, self._find_elsewhere = find_reading, find_spelling, find_elsewhere
        self._find_own_witness = find_own_witness
        self._missing_files_left, self._missing_bytes_left = FINDINGS_AT_MOST, _MISSING_BYTES_READ
        self._beginning_bytes_left = _BEGINNING_BYTES_READ
        self._behind_at = run.started_at - behind_s if behind_s else None
        self._has_bytes, self._keeps_versions = has_bytes, keeps_versions
        self._copy_id = copy_id
        self._compared = compared
        self._opened: Counter[FindingKind] = Counter()
        self.reasons: Counter[str] = Counter()  # why files were not comparable
        self._wants_read = False  # reading the copy would make some of them comparable
        with run.catalog.read() as connection:
            about_files = findings.find_findings(connection, root_id=run.root.id, copy="")
            about_copy = findings.find_findings(connection, root_id=run.root.id, copy=compared.copy)
            held = versions.find_held_paths(connection, run.root.id)
        self.open_about_file = {*held, *(one.path for one in about_files if one.path and one.kind in REPAIRABLE)}
        self.open_about_copy = {one.path for one in about_copy if one.path is not None}

    def is_open(self, path: bytes) -> bool:
        """Return whether a finding about the copy of this file is open."""
        return path in self.open_about_copy

    def end(self, connection: Connection, record: FileRecord, resolution: str = messages.COPY_MATCHES) -> None:
        """Resolve the findings about a file's copy: the copy is what was recorded, or for another reason."""
        self.open_about_copy.discard(record.path)
        self._run.note_resolved(
            findings.resolve_findings(
                connection,
                file_id=record.id,
                kinds=ENDED_BY_COMPARE,
                copy=self._compared.copy,
                resolution=resolution,
                now=self._run.now(),
            )
        )

    def read_files(self, disagreements: Sequence[Disagreement]) -> None:
        """Re-read the files whose own state matters for some disagreements; each is read once."""
        unread = [one.record for one in disagreements if self._must_read(one)]
        if unread:
            self._check.check(unread)

    def decide(self, disagreements: Sequence[Disagreement]) -> None:
        """Decide disagreements whose files were read, and record the outcome."""
        others = find_others(self._run, disagreements)
        for start in range(0, len(disagreements), _DECIDED_AT_ONCE):
            some = disagreements[start : start + _DECIDED_AT_ONCE]
            equal, beginnings = find_equal(self._run, self._compared.copy, some), self._find_beginnings(some)
            differing = [one for one in some if one.answer.vote is CopyVote.DIFFERS]
            seen = {one.record.id: self._show_bytes(one.record, one.answer) for one in differing}
            read_at = {one.record.id: self._find_reading(one.record, one.answer) for one in differing}
            own_witnesses = {  # may say which is right, but not which of two versions is newer
                one.record.id: self._find_own_witness(one.record)
                for one in differing
                if self._habit.find_time(one.record.witness.mtime_ns, one.times.mtime_ns) in TIMES_OF_ONE_VERSION
            }
            elsewhere = self._find_renamed(some)
            places = {one.record.id: self._find_spelling(one.record.path) for one in some}
            if self._run.context.stop.is_set():
                return
            with self._run.writing() as connection:
                ids = [one.record.id for one in some]
                rechecks = look_up(connection, ids, self._compared.copy)
                found = copies.find_found(connection, self._copy_id, places)
                decided = []
                for one in some:
                    file_id = one.record.id
                    known = elsewhere.get(file_id, one)._replace(
                        known=found[file_id],
                        is_equal=file_id in equal,
                        is_beginning=file_id in beginnings,
                        seen=seen.get(file_id, ""),
                        read_at=read_at.get(file_id),
                        own_witness=own_witnesses.get(file_id),
                    )
                    decided += self._decide(connection, known, rechecks[file_id], others)
                copies.save_states(connection, self._copy_id, decided)

    def _must_read(self, disagreement: Disagreement) -> bool:
        """Return whether the decision needs a reading of the file here; count those of files that the copy lacks."""
        record, answer = disagreement.record, disagreement.answer
        if record.path in self.open_about_file or record.id in self._evidence.read_here:
            return False
        if answer.is_file_suspect or answer.vote in OTHER_CONTENT or record.is_suspect:
            return True
        size = record.witness.size_bytes
        if answer.vote is not CopyVote.MISSING or not self._missing_files_left or size > self._missing_bytes_left:
            return False
        self._missing_files_left -= 1
        self._missing_bytes_left -= size
        return True

    def _decide(
        self,
        connection: Connection,
        disagreement: Disagreement,
        recheck: FileRecheck,
        others: Mapping[FileId, Sequence[FileRecord]],
    ) -> list[CopyState]:
        """Decide one disagreement and return the state to save; none if the file changed."""
        run, record = self._run, disagreement.record
        if record.id in self._check.moved or not recheck.is_still(record):
            run.counts.add(Tally.UNSTABLE)
            run.note(NoteKind.UNSTABLE, record.path, messages.MOVED_MEANWHILE)
            return []
        judgement = recheck.judge()
        if judgement is None:
            answer = CopyAnswer(CopyVote.NOT_COMPARABLE, reason=messages.RECORD_CONTRADICTS)
            disagreement = disagreement._replace(answer=answer)
        judgement = judgement or Judgement(Verdict.INTACT)
        stand = find_stand(judgement)
        if record.id in others and stand is FileState.GOOD:
            disagreement = protect(connection, disagreement, others[record.id])
        vote = disagreement.answer.vote
        former = versions.former_of(connection, run.root.id, record.path) if vote in OTHER_CONTENT else []
        written = WrittenFile(record, find_mtime(recheck, stand))
        circumstances = find_circumstances(
            *(written, disagreement.answer, disagreement.times, disagreement.known, former, self._habit),
            has_ctime=self._has_ctime,
            rewrites_in_place=run.rewrites.covers(record.path),
            is_beginning=disagreement.is_beginning,
            read_at=disagreement.read_at,
            own_witness=disagreement.own_witness,
            bad_since=min((one.opened_at for one in recheck.own if one.kind in REPAIRABLE), default=None),
        )
        arbitration = arbitrate(
            judgement,
            vote,
            circumstances,
            are_equal=disagreement.is_equal,
            has_good_blocks=has_good_blocks(recheck, disagreement),
            was_read=record.id in self._evidence.read_here,
            has_bytes=self._has_bytes,
            keeps_versions=self._keeps_versions,
        )
        if arbitration.witness is CopyWitness.TIME and is_still_open(disagreement, recheck, stand):
            arbitration = arbitrate(judgement, vote, CopyCircumstances(), has_bytes=self._has_bytes)
        is_about_list = (arbitration.words, arbitration.command) == DECIDE_ABOUT_LIST
        if is_about_list and _RECORDED.isdisjoint(one.kind for one in disagreement.answer.stated):
            arbitration = arbitration._replace(words=messages.WRITE_LIST_AGAIN, command=COMPARE)
        if (
            arbitration.outcome in _BEHIND
            and stand in (FileState.GOOD, FileState.WRITTEN)
            and self._may_be_behind(connection, disagreement, recheck, written, circumstances, former)
        ):
            run.counts.add(Tally.NOT_DUE)
            self._compared.behind += 1
            self._resolve(connection, recheck, messages.BEHIND)
            return [] if vote is CopyVote.MISSING else self._find_states(disagreement)
        self._evidence.add_files([record])
        if _TALLIES[arbitration.outcome] in _EXAMINED:
            self._evidence.add_copies(disagreement.answer.level)
        self._count(arbitration.outcome, stand)
        self._record(connection, disagreement, recheck, stand, arbitration)
        return self._find_states(disagreement)

    def _find_states(self, disagreement: Disagreement) -> list[CopyState]:
        """Return the state to save, with what the copy has as a witness for later."""
        state = disagreement.state
        if state is None:
            return []
        if state.found is None:
            answer, times, known = disagreement.answer, disagreement.times, disagreement.known
            state = state._replace(found=remember_content(answer, times, known, self._habit, self._run.now()))
        return [state]

    def _may_be_behind(
        self,
        connection: Connection,
        disagreement: Disagreement,
        recheck: FileRecheck,
        written: WrittenFile,
        circumstances: CopyCircumstances,
        former: Sequence[FileVersion],
    ) -> bool:
        """
        Return whether a backup within its allowed lag would look like this copy: the file as of then, or no file.

        A missing file must be new since then: first recorded since, and also created or written since, because a first
        scan records all files.
        """
        since, record, answer = self._behind_at, disagreement.record, disagreement.answer
        if since is None:
            return False
        if answer.vote is CopyVote.MISSING:
            known = versions.former_of(connection, self._run.root.id, record.id)
            first_at = min((one.recorded_at for one in known), default=record.recorded_at)
            return min(first_at, max(record.witness.mtime_ns, record.witness.ctime_ns) // 10**9) >= since
        if answer.vote is CopyVote.SAME:  # the copy matches the record, and the file was written since
            return recheck.candidate is not None and recheck.candidate.recorded_at >= since
        copy_ns = disagreement.times.mtime_ns
        copy_ns = None if copy_ns is None else self._habit.take_off_shift(copy_ns)
        return is_within_lag(written, answer, circumstances, copy_ns, former, since, self._run.now())

    def _find_beginnings(self, disagreements: Sequence[Disagreement]) -> IdSet:
        """Return the files that begin with the whole content of their shorter copies."""
        found = IdSet()
        for record, answer in ((one.record, one.answer) for one in disagreements):
            length = answer.size_bytes
            if answer.vote is not CopyVote.DIFFERS or length is None or length > self._beginning_bytes_left:
                continue
            if length < record.witness.size_bytes:
                self._beginning_bytes_left -= length
                if has_beginning(self._run, record, answer):
                    found.add(record.id)
        return found

    def _find_renamed(self, disagreements: Sequence[Disagreement]) -> dict[FileId, Disagreement]:
        """Find files that are not intact, and whose recorded content the copy has under a name that they had before."""
        asked = [one for one in disagreements if one.answer.vote in _NOT_RECORDED]
        with self._run.catalog.read() as connection:
            rechecks = look_up(connection, [one.record.id for one in asked], self._compared.copy)
            asked = [one for one in asked if stands_in(NOT_INTACT, rechecks[one.record.id])]
            places = copies.find_places(connection, self._copy_id, [one.record for one in asked])
        found = {}
        for one in asked:
            answer = self._find_elsewhere(one.record, places.get(one.record.id, ()))
            if answer is not None:
                had = CopyFound(one.record.version, None, None, self._run.now(), None, None, None, answer.found_as)
                state = one.state and one.state._replace(vote=answer.vote, found=had)
                found[one.record.id] = one._replace(answer=answer, state=state)
        return found

    def _count(self, outcome: ArbitrationOutcome, stand: FileState) -> None:
        self._run.counts.add(_TALLIES[outcome])
        self._compared.differing += outcome in _DIFFERING
        is_cut_off = outcome is ArbitrationOutcome.COPY_INCOMPLETE
        self._compared.incomplete += is_cut_off
        self._compared.damaged_on_both_sides += outcome in _DIFFERING and not is_cut_off and stand in NOT_INTACT
        self._compared.conflicting += outcome in _CONFLICTING
        self._compared.newer += outcome is ArbitrationOutcome.COPY_NEWER
        self._compared.stale += outcome is ArbitrationOutcome.COPY_STALE
        self._compared.renamed += outcome is ArbitrationOutcome.RENAMED
        self._compared.repairable += outcome is ArbitrationOutcome.REPAIRABLE and self._has_bytes
        self._compared.not_comparable += outcome is ArbitrationOutcome.NOT_COMPARABLE

    def _record(
        self,
        connection: Connection,
        disagreement: Disagreement,
        recheck: FileRecheck,
        state: FileState,
        arbitration: Arbitration,
    ) -> None:
        """Open, keep or resolve findings, and attach the next step to them."""
        run, record, copy = self._run, disagreement.record, self._compared.copy
        kind = arbitration.finding
        command = None if arbitration.command is None else self._make_command(record.path, arbitration.command)
        is_mendable = arbitration.command == REPAIR_FROM_COPY
        if arbitration.witness is CopyWitness.OWN_CHECKSUM and arbitration.outcome is ArbitrationOutcome.FILE_DIFFERS:
            ids = [one.id for one in recheck.own if one.kind is FindingKind.INVALID]
            findings.set_step(connection, ids, arbitration.words, command)
        if disagreement.protects and kind is not None:
            arbitration = arbitration._replace(words=messages.REPAIR_OTHER_FIRST)
            command = self._make_command(disagreement.protects, REPAIR_FROM_COPY)
        if not is_mendable:
            self._withdraw_advice(connection, record)
        if command is not None and command.endswith(_FROM_OTHER):
            other = copies.find_good_copy(connection, record.id, self._copy_id)
            command = command if other is None else command.removesuffix("OTHER") + shell_word(other)
        if kind is FindingKind.COPY_NOT_COMPARABLE:
            answer = disagreement.answer
            is_known = answer.reason in self.reasons or len(self.reasons) < _REASONS_AT_MOST
            self.reasons[answer.reason if is_known else messages.OTHER_REASONS] += 1
            self._wants_read |= answer.wants_read
            run.is_incomplete = True
            run.note(NoteKind.NOT_COMPARABLE, record.path, answer.reason)
            return
        if disagreement.answer.found_as is not None:
            mark_renamed(connection, record.witness.size_bytes, disagreement.answer.found_as)
            run.note(
                NoteKind.MOVED,
                record.path,
                messages.renamed_in_copy(absolute(run.root.path, disagreement.answer.found_as), copy),
            )
        if kind is not None:
            text = messages.describe_arbitration(arbitration, state, self._tell(connection, disagreement))
            text += disagreement.seen
            assert recheck.record is not None  # is_still() was checked, so the record exists
            found = disagreement._replace(record=recheck.record)
            self._open(connection, kind, found, text, arbitration, command)
            resolution = f'the comparison now says: "{headline(kind, arbitration.certainty)}"'
        else:
            self.open_about_copy.discard(record.path)
            equal = "record" if arbitration.outcome in _GOOD_COPIES else "file"
            resolution = f"the copy matches the {equal}"
        if arbitration.words and (kind is None or is_mendable):
            self._advise(connection, record, recheck, arbitration, command)
        elif kind is None:
            for finding in recheck.own:
                run.queue_finding(finding)
        self._resolve(connection, recheck, resolution, kind)

    def _resolve(
        self, connection: Connection, recheck: FileRecheck, resolution: str, unless: FindingKind | None = None
    ) -> None:
        """Resolve what was found of the copy of a file before, but for a kind that was found again."""
        over = [one.id for one in recheck.about_copy if one.kind in ENDED_BY_COMPARE and one.kind is not unless]
        ended = findings.resolve_ids(connection, over, resolution=resolution, now=self._run.now())
        self._run.note_resolved(ended)

    def _withdraw_advice(self, connection: Connection, record: FileRecord) -> None:
        """Withdraw repair advice that names a copy which is no longer good; another one may be."""
        root, own = self._run.root, shell_word(self._compared.copy)
        former = self._make_command(record.path, REPAIR_FROM_COPY)
        about = findings.find_open_of_files(connection, [record.id]).get(record.id, ())
        for one in (one for one in about if one.command == former):
            if one.copy:
                name = copies.find_good_copy(connection, record.id, self._copy_id)
                place = "OTHER" if name is None else shell_word(name)
                findings.set_step(connection, [one.id], one.step, former.removesuffix(own) + place)
                continue
            other = advise_repair(
                connection, root.id, root.path, record.path, record.id, one.kind, unless=self._copy_id
            )
            findings.set_step(connection, [one.id], *(other or (None, None)))
            for finding in findings.get_findings(connection, [one.id]):
                self._run.queue_finding(finding)

    def _open(
        self,
        connection: Connection,
        kind: FindingKind,
        disagreement: Disagreement,
        text: str,
        arbitration: Arbitration,
        command: str | None,
    ) -> None:
        run, record, answer = self._run, disagreement.record, disagreement.answer
        self._opened[kind] += 1
        if self._opened[kind] > FINDINGS_AT_MOST and not self.is_open(record.path):
            run.kinds_met.add(kind)
            return
        self.open_about_copy.add(record.path)
        has_place = bool(answer.bad_blocks) and answer.size_bytes == record.witness.size_bytes
        run.open_finding(
            connection,
            kind,
            text,
            record=record,
            blocks=answer.bad_blocks,
            block_size_bytes=record.block_size_bytes,
            ranges=block_ranges(record, answer.bad_blocks) if has_place else (),
            certainty=arbitration.certainty,
            copy=self._compared.copy,
            step=arbitration.words,
            command=command,
        )

    def _advise(
        self,
        connection: Connection,
        record: FileRecord,
        recheck: FileRecheck,
        arbitration: Arbitration,
        command: str | None,
    ) -> None:
        """Attach the next step to the open findings about the file itself, and report them again."""
        run, ids = self._run, [one.id for one in recheck.own]
        findings.set_step(connection, ids, arbitration.words, command)
        for finding in findings.get_findings(connection, ids):
            run.queue_finding(finding)
        if not ids:
            run.note(NoteKind.CHANGED, record.path, arbitration.words)

    def _tell(self, connection: Connection, disagreement: Disagreement) -> messages.CopyStory:
        """Collect what people are told of a copy, besides who is right."""
        record, answer, times = disagreement.record, disagreement.answer, disagreement.times
        found = disagreement.known.here
        said = copies.states_of_file(connection, record.id) if answer.vote is CopyVote.DIFFERS else []
        beside = [(copy.name, state) for copy, state in said if copy.id != self._copy_id]
        return messages.CopyStory(
            copy=self._compared.copy,
            level=answer.level,
            reason=answer.reason,
            content_of=answer.content_of,
            size_bytes=answer.size_bytes,
            file_size_bytes=record.witness.size_bytes,
            mtime_ns=times.mtime_ns,
            file_mtime_ns=record.witness.mtime_ns,
            has_times=self._habit.has_times,
            has_ctime=self._has_ctime,
            found_at=None if found is None else found.found_at,
            had_recorded=found is not None and found.recorded_at == found.found_at,
            recorded_at=disagreement.known.recorded_at,
            read_at=disagreement.read_at,
            own_check=None if disagreement.own_witness is None else disagreement.own_witness.found,
            beside=tuple(
                (name, state.vote, state.compared_at) for name, state in beside if state.version == record.version
            ),
        )

    def _make_command(self, path: bytes, command: str) -> str:
        root = self._run.root.path
        return command.format(
            path=shell_path(absolute(root, path)), root=shell_path(root), copy=shell_word(self._compared.copy)
        )

    def finish(self, over: frozenset[FindingKind]) -> None:
        """
        Record the findings about the copy as a whole: findings beyond the limit, and files that could not be compared.

        Args:
            over: kinds whose copy-wide finding this run may replace or resolve. Open findings of other kinds stay as
                they are: this run saw only part of the copy.
        """
        run, copy = self._run, self._compared.copy
        whole = {kind: count - FINDINGS_AT_MOST for kind, count in self._opened.items() if count > FINDINGS_AT_MOST}
        texts = {kind: messages.many_more(kind, count, copy) for kind, count in whole.items()}
        if self.reasons:
            texts[FindingKind.COPY_NOT_COMPARABLE] = messages.not_comparable(self.reasons, copy)
        with run.writing() as connection:
            about = findings.find_findings(connection, root_id=run.root.id, copy=copy)
            open_by_kind = {one.kind: one for one in about if one.path is None}
            for kind, text in texts.items():
                if kind in open_by_kind and kind not in over:
                    run.queue_finding(open_by_kind[kind])
                    continue
                step, command = KINDS[kind].step_of_many, COMPARE
                if kind is FindingKind.COPY_MISSING:
                    step, command = READ_FIRST  # more than are read here
                elif kind is FindingKind.COPY_NOT_COMPARABLE and self._wants_read:
                    step, command = "have the bytes read of what states no digest", f"{COMPARE} --read"
                elif kind is FindingKind.COPY_NOT_COMPARABLE:
                    step = "once the reason is gone, compare again"
                run.open_finding(
                    connection, kind, text, copy=copy, step=step, command=self._make_command(run.prefix, command)
                )
            ids = [one.id for one in open_by_kind.values() if one.kind in over - texts.keys()]
            run.note_resolved(findings.resolve_ids(connection, ids, resolution="no longer the case", now=run.now()))
