"""
Recognize copies of damaged content, of files of all roots.

Content with an open finding is recognized wherever it is moved or copied. A file that was recorded with a copy of the
damage gets the original's correct baseline, and the original's open findings are repeated for the copy.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from integrity.catalog import files, versions
from integrity.catalog.rows import FileContent
from integrity.catalog.versions import VersionState
from integrity.errors import RecordSuperseded
from integrity.files.open_beneath import stat_beneath
from integrity.files.stamps import witness_of
from integrity.jobs.judge import inherited
from integrity.jobs.judge.content_diff import is_candidate
from integrity.jobs.judge.elsewhere import is_recorded_later
from integrity.model import Tally
from integrity.verdict import compare_witness

if TYPE_CHECKING:
    from integrity.catalog.connection import Connection
    from integrity.catalog.rows import FileRecord
    from integrity.catalog.versions import FileVersion
    from integrity.jobs.context import RootRun
    from integrity.jobs.judge.account import Account
    from integrity.model import Reading
    from integrity.verdict import Judgement, Verdict


class InQuestion(NamedTuple):
    """Content with an open finding, and the record of its file."""

    content: FileVersion
    original: FileRecord


class KnownDamage:
    """Cache the content with open findings, loaded on first use."""

    def __init__(self) -> None:
        self._by_size: dict[int, list[FileVersion]] | None = None

    def has_any(self, connection: Connection) -> bool:
        """Return whether any content has an open finding."""
        return bool(self._load(connection))

    def _load(self, connection: Connection) -> dict[int, list[FileVersion]]:
        if self._by_size is None:
            self._by_size = _load(connection)
        return self._by_size

    def find(self, connection: Connection, reading: Reading) -> InQuestion | None:
        """Return the content that equals a reading, if its finding is still open."""
        for candidate in self._load(connection).get(reading.witness.size_bytes, ()):
            if is_candidate(connection, candidate, reading, 0):
                found = files.find_files(connection, [candidate.file_id])
                if found and found[0].is_frozen:
                    return InQuestion(candidate, found[0])
        return None


def _load(connection: Connection) -> dict[int, list[FileVersion]]:
    by_size: dict[int, list[FileVersion]] = {}
    for candidate in versions.find_in_question(connection):
        if candidate.witness is not None:
            by_size.setdefault(candidate.witness.size_bytes, []).append(candidate)
    return by_size


class CopiedDamage:
    """Record confirmed damage and find its copies."""

    def __init__(self, run: RootRun, account: Account) -> None:
        self._run = run
        self._account = account
        self._known = KnownDamage()
        self._damaged: list[tuple[FileRecord, FileContent]] = []  # with their current content

    def store(self, record: FileRecord, reading: Reading, verdict: Verdict) -> None:
        """
        Store confirmed damage as the candidate of its file (R6).

        A later reading of the same content is then already known, and copies of it are recognized anywhere. If newer
        content that waits for a decision is damaged itself, it stays the candidate.
        """
        if record.is_candidate:
            return
        try:
            with self._run.writing(is_synced=False) as connection:  # not synced: the next scrub would store it again
                versions.stage_change(connection, record, reading, verdict.value, self._run.run_id, VersionState.FROZEN)
        except RecordSuperseded:
            return  # a person decided meanwhile: the next scrub judges the file by its new record
        self._damaged.append((record, FileContent(reading.witness.size_bytes, reading.digests, reading.blocks)))

    def handle_known(self, record: FileRecord, reading: Reading) -> bool:
        """Handle a file as a copy of another file's damage, if its content equals that; return whether it does."""
        with self._run.catalog.read() as connection:
            found = self._known.find(connection, reading)
        return found is not None and found.content.is_damage and self.correct_copy(record, found.original, reading)

    def correct_copy(
        self, copy: FileRecord, original: FileRecord, reading: Reading | None = None, written: Judgement | None = None
    ) -> bool:
        """
        Give a copy of damage its correct baseline.

        Args:
            reading: the copy's current content; None: as recorded.
            written: the judgement of that content, if the copy is the original itself, renamed and written to.

        Returns:
            Whether the baseline was replaced.
        """
        with self._run.writing() as connection:
            if not inherited.replace_by_baseline(self._run, connection, copy, original, reading, written):
                return False
        self._account.revert([copy.id])
        self._account.open_paths.add(copy.path)
        if copy.root_id == self._run.root.id:
            self._account.count(copy.id, Tally.DAMAGED)
        return True

    def find_copies(self) -> None:
        """Find files that were recorded with newly confirmed damage: they were copied after the damage."""
        damaged, self._damaged = self._damaged, []
        if not damaged:
            return
        with self._run.catalog.read() as connection:
            contents = [content for _, content in damaged]
            found = files.find_by_content(connection, None, contents)
        for (original, _), copies in zip(damaged, found, strict=True):
            for copy in copies:
                # A file recorded while the original was still intact owns this content: its block was misdirected.
                is_later = is_recorded_later(copy, original)
                if copy.id != original.id and is_later and not copy.is_frozen and not self._was_written(copy):
                    self.correct_copy(copy, original)

    def _was_written(self, record: FileRecord) -> bool:
        """Return whether a file of this root changed since it was recorded; the job that reads it judges it."""
        if record.root_id != self._run.root.id:
            return False
        try:
            seen = witness_of(stat_beneath(self._run.root_fd, record.path))
        except OSError:
            return True
        return compare_witness(self._run.capability, record.witness, seen).touches_content
