"""Files whose copies may not be in order, and what else is known of these: the file here, and other files."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from integrity.arbitration import CopyVote, FileState, find_stand
from integrity.catalog import files, findings
from integrity.catalog.copies import CopyState, KnownFound
from integrity.catalog.rows import FileContent, FileRecord
from integrity.copies.protocol import Kind
from integrity.hashing.digests import is_blank
from integrity.jobs.batching import IdSet
from integrity.jobs.compare.circumstances import CopyTimes, find_digest
from integrity.jobs.compare.copy_answer import CopyAnswer
from integrity.jobs.compare.local_digests import FileMatch, LocalPass, MatchRequest
from integrity.jobs.compare.own_witness import OwnWitness
from integrity.jobs.compare.recheck import FileRecheck, look_up
from integrity.jobs.judge.content_diff import block_ranges
from integrity.kinds import REPAIRABLE
from integrity.model import Digests, FileId, FindingKind

if TYPE_CHECKING:
    from integrity.catalog.connection import Connection
    from integrity.jobs.context import RootRun

OTHER_CONTENT = frozenset({CopyVote.DIFFERS, CopyVote.OLDER})
NOT_INTACT = frozenset({FileState.DAMAGED, FileState.CONTESTED, FileState.LOST})
_HAS_OTHER_CONTENT = frozenset({FileState.WRITTEN, FileState.DAMAGED, FileState.CONTESTED})


class Disagreement(NamedTuple):
    """
    A file whose copy may not be in order, and the copy's answer.

    Attributes:
        state: saved after the decision; None: not.
        times: of the copy.
        known: what the copy had at the file's place, and of the file under another name.
        is_equal: the file has the copy's content, and that is not what was recorded.
        is_beginning: the copy is how the file begins.
        seen: what the bytes of both show beside each other, for people.
        read_at: when the program that made a backup read it from the file; None if that is not known.
        own_witness: the side that fails the checksum inside it.
        protects: path in the root of a file that is not intact, and whose recorded content the copy has under this
            name, since files were renamed; empty: there is none.
    """

    record: FileRecord
    answer: CopyAnswer
    state: CopyState | None
    times: CopyTimes
    known: KnownFound = KnownFound()
    is_equal: bool = False
    is_beginning: bool = False
    seen: str = ""
    read_at: int | None = None
    own_witness: OwnWitness | None = None
    protects: bytes = b""


def find_equal(run: RootRun, copy: str, disagreements: Sequence[Disagreement]) -> IdSet:
    """Return the files whose content equals their copy's, where neither is what was recorded."""
    others = [one for one in disagreements if one.answer.stated and one.answer.vote in OTHER_CONTENT]
    with run.catalog.read() as connection:
        rechecks = look_up(connection, [one.record.id for one in others], copy)
    asked = [one for one in others if stands_in(_HAS_OTHER_CONTENT, rechecks[one.record.id])]
    equal = IdSet()
    matching = LocalPass(run)
    for disagreement, found in matching.match(MatchRequest(one, one.record, one.answer.stated) for one in asked):
        # An unreadable file equals nothing; it has its own finding.
        if isinstance(found, FileMatch) and found.is_match:
            equal.add(disagreement.record.id)
    return equal


def find_others(run: RootRun, disagreements: Sequence[Disagreement]) -> dict[FileId, Sequence[FileRecord]]:
    """
    Find copies that have the recorded content of other files of the root, and return these.

    Names that were swapped since the backup are not damage: no flipped bit produces the content of another file.
    Blank content is ignored: it is what a disk returns for data that it lost.
    """
    asked = [(one.record, content) for one in disagreements if (content := _find_content(one.answer)) is not None]
    if not asked:
        return {}
    with run.catalog.read() as connection:
        found = files.find_by_content(connection, run.root.id, [content for _, content in asked])
    # Test the record's digests: those that a copy states may lack the one that identifies blank content.
    return {
        record.id: others
        for (record, content), others in zip(asked, found, strict=True)
        if others and not is_blank(content.size_bytes, others[0].digests, None)
    }


def protect(connection: Connection, disagreement: Disagreement, others: Sequence[FileRecord]) -> Disagreement:
    """
    Say what else it means that a copy has the content of other files, which may be its last good one.

    Content that is recorded of other names only was there before a rename: then the copy is older.
    """
    opened = findings.find_open_of_files(connection, [one.id for one in others])
    is_bad = [any(not one.copy and one.kind in REPAIRABLE for one in opened.get(other.id, ())) for other in others]
    disagreement = disagreement._replace(protects=others[0].path if all(is_bad) else b"")
    if disagreement.answer.vote is CopyVote.OLDER:
        return disagreement
    answer = disagreement.answer._replace(vote=CopyVote.OLDER, bad_blocks=(), content_of=others[0].path)
    state = disagreement.state and disagreement.state._replace(vote=CopyVote.OLDER)
    return disagreement._replace(answer=answer, state=state)


def has_good_blocks(recheck: FileRecheck, disagreement: Disagreement) -> bool:
    """Return whether every range that is damaged in the file is good in the copy."""
    record, answer = disagreement.record, disagreement.answer
    here = [place for finding in recheck.own for place in finding.ranges]
    if not here or not answer.bad_blocks or answer.size_bytes != record.witness.size_bytes:
        return False
    there = block_ranges(record, answer.bad_blocks)
    return not any(a < d + m and d < a + n for a, n in here for d, m in there)


def _find_content(answer: CopyAnswer) -> FileContent | None:
    """Return the content that the copy has instead, as a key for looking up files; None if unknown."""
    if answer.vote not in OTHER_CONTENT or not answer.size_bytes:
        return None
    stated = {one.kind: one.value for one in answer.stated}
    content = FileContent(answer.size_bytes, Digests(stated.get(Kind.MD5), stated.get(Kind.XXH3_128)), None)
    return content if content.whole_digests else None


def is_still_open(disagreement: Disagreement, recheck: FileRecheck, stand: FileState) -> bool:
    """Return whether file and copy have the contents of which nobody knows which is right, and only times moved."""
    known = disagreement.known
    was_conflict = any(one.kind is FindingKind.COPY_CONFLICT for one in recheck.about_copy)
    is_same_file = stand is FileState.GOOD and known.version == disagreement.record.version
    digest = None if known.here is None else known.here.digest
    return was_conflict and is_same_file and digest is not None and digest == find_digest(disagreement.answer)


def find_mtime(recheck: FileRecheck, stand: FileState) -> int:
    """Return the time of the content that the copy is held against: of newer content, where that was written."""
    held = recheck.candidate
    assert recheck.record is not None  # is_still() was checked, so the record exists
    if stand in (FileState.WRITTEN, FileState.CONTESTED) and held is not None and held.witness is not None:
        return held.witness.mtime_ns
    return recheck.record.witness.mtime_ns


def stands_in(states: frozenset[FileState], recheck: FileRecheck) -> bool:
    """Return whether the file is in one of these states."""
    judgement = recheck.judge()
    return judgement is not None and find_stand(judgement) in states
