"""
Content about which a finding is open, of files of all roots: it is recognised wherever it is moved or copied.

Damage that was confirmed, and recorded files that turn out to be copies of it.

A copy of damage that was recorded as it was found gets the baseline that it should have, and what is open about the
original is open about the copy.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from integrity.catalog import candidates, files
from integrity.catalog.blocks import CANDIDATE_VERSION
from integrity.catalog.candidates import CandidateState
from integrity.catalog.rows import FileContent
from integrity.errors import RecordSuperseded
from integrity.files.open_beneath import stat_beneath
from integrity.files.stamps import witness_of
from integrity.jobs.judge.content_diff import is_candidate
from integrity.jobs.scan import inherited
from integrity.model import Tally
from integrity.verdict import compare_witness

if TYPE_CHECKING:
    from integrity.catalog.candidates import CandidateRecord
    from integrity.catalog.connection import Connection
    from integrity.catalog.rows import FileRecord
    from integrity.jobs.context import RootRun
    from integrity.jobs.judge.account import Account
    from integrity.model import Reading
    from integrity.verdict import Judgement, Verdict


class InQuestion(NamedTuple):
    """Content in question, and the record of the file that has it."""

    content: CandidateRecord
    original: FileRecord


class KnownDamage:
    """Remember what is in question when it is first asked for."""

    def __init__(self, run: RootRun) -> None:
        self._sealer = run.catalog.sealer
        self._by_size: dict[int, list[CandidateRecord]] | None = None

    def has_any(self, connection: Connection) -> bool:
        """Say whether any content is in question."""
        return bool(self._load(connection))

    def _load(self, connection: Connection) -> dict[int, list[CandidateRecord]]:
        if self._by_size is None:
            self._by_size = _load(connection)
        return self._by_size

    def find(self, connection: Connection, reading: Reading) -> InQuestion | None:
        """Find the content of a reading, if it is in question still."""
        for candidate in self._load(connection).get(reading.witness.size_bytes, ()):
            if is_candidate(connection, self._sealer, candidate, reading, 0):
                found = files.find_files(connection, self._sealer, [candidate.file_id])
                if found and found[0].is_frozen and found[0].is_sealed:
                    return InQuestion(candidate, found[0])
        return None


def _load(connection: Connection) -> dict[int, list[CandidateRecord]]:
    by_size: dict[int, list[CandidateRecord]] = {}
    for candidate in candidates.find_in_question(connection):
        if candidate.witness is None:
            continue  # its row is damaged, as `catalog check` says: nothing is known by it
        by_size.setdefault(candidate.witness.size_bytes, []).append(candidate)
    return by_size


class CopiedDamage:
    """
    Keep confirmed damage, and find its copies.

    Args:
        run: the run.
        account: counts.
    """

    def __init__(self, run: RootRun, account: Account) -> None:
        self._run = run
        self._account = account
        self._known = KnownDamage(run)
        self._damaged: list[tuple[FileRecord, FileContent]] = []  # and what is in them now

    def keep(self, record: FileRecord, reading: Reading, verdict: Verdict) -> None:
        """
        Keep the content of a file whose damage is confirmed as its candidate (R6).

        So a later reading of the same tells nothing new, and the damage is recognised wherever it is moved or copied.
        Newer content that waits for a decision stays the candidate if it is damaged itself.
        """
        if record.version == CANDIDATE_VERSION:
            return
        try:
            with self._run.writing(is_synced=False) as connection:  # the next scrub would keep it as well
                candidates.stage_change(
                    connection, record, reading, verdict.value, self._run.run_id, CandidateState.FROZEN
                )
        except RecordSuperseded:
            return  # a person decided meanwhile: the next scrub judges the file by what is recorded now
        self._damaged.append((record, FileContent(reading.witness.size_bytes, reading.digests, reading.blocks)))

    def take_known(self, record: FileRecord, reading: Reading) -> bool:
        """Take what a file has now for a copy of another one's damage, if it is that; say whether."""
        with self._run.catalog.read() as connection:
            found = self._known.find(connection, reading)
        return found is not None and found.content.is_damage and self.take_copy(record, found.original, reading)

    def take_copy(
        self, copy: FileRecord, original: FileRecord, reading: Reading | None = None, written: Judgement | None = None
    ) -> bool:
        """
        Give a copy of damage the baseline that it should have.

        Args:
            copy: the file.
            original: of which it has the damage.
            reading: its content by now; None: as it is recorded.
            written: what judging says of it, if it is the original, written to.

        Returns:
            Whether that could be done.
        """
        with self._run.writing() as connection:
            if not inherited.replace_by_baseline(self._run, connection, copy, original, reading, written):
                return False
        self._account.take_back([copy.id])
        self._account.open_paths.add(copy.path)
        if copy.root_id == self._run.root.id:
            self._account.count(copy.id, Tally.DAMAGED)
        return True

    def find_copies(self) -> None:
        """Look for files that were recorded with content which has just turned out to be damaged: copied too late."""
        damaged, self._damaged = self._damaged, []
        if not damaged:
            return
        with self._run.catalog.read() as connection:
            sealer, contents = self._run.catalog.sealer, [content for _, content in damaged]
            found = files.find_by_content(connection, sealer, None, contents)
        for (original, _), copies in zip(damaged, found, strict=True):
            for copy in copies:
                # Who had this content while the original was still right is its owner, whose block was written here.
                is_later = copy.recorded_at > (original.verified_at or original.recorded_at)
                if copy.id != original.id and is_later and not copy.is_frozen and not self._was_written(copy):
                    self.take_copy(copy, original)

    def _was_written(self, record: FileRecord) -> bool:
        """Say whether a file of this root is not what is recorded any more; whoever reads it says what it is."""
        if record.root_id != self._run.root.id:
            return False
        try:
            seen = witness_of(stat_beneath(self._run.root_fd, record.path))
        except OSError:
            return True
        return compare_witness(self._run.capability, record.witness, seen).touches_content
