"""Content about which a finding is open, of files of all roots: it is recognised wherever it is moved or copied."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from integrity.catalog import candidates, files
from integrity.jobs.judge.content_diff import is_candidate

if TYPE_CHECKING:
    from integrity.catalog.candidates import CandidateRecord
    from integrity.catalog.connection import Connection
    from integrity.catalog.rows import FileRecord
    from integrity.jobs.context import RootRun
    from integrity.model import Reading


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
