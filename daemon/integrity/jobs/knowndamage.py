"""Content about which a finding is open, of files of all roots: it is recognised wherever it is moved or copied."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from integrity.catalog import candidates, files
from integrity.jobs.contents import is_candidate
from integrity.model import BaselineReason

if TYPE_CHECKING:
    from collections.abc import Iterable

    from integrity.catalog.candidates import CandidateRecord
    from integrity.catalog.connect import Connection
    from integrity.catalog.files import FileRecord
    from integrity.jobs.context import RootRun
    from integrity.model import FileId, Reading


class InQuestion(NamedTuple):
    """Content in question, and the record of the file that has it."""

    content: CandidateRecord
    original: FileRecord


class LastSeen(NamedTuple):
    """A record, and the same with the witness that its file was last seen with."""

    record: FileRecord
    last: FileRecord


class KnownDamage:
    """Remember what is in question when it is first asked for."""

    def __init__(self, run: RootRun) -> None:
        self._sealer = run.catalog.sealer
        self._candidates: list[CandidateRecord] | None = None
        self._by_size: dict[int, list[CandidateRecord]] = {}
        self._by_inode: dict[int, list[FileId]] = {}

    def find(self, connection: Connection, reading: Reading) -> InQuestion | None:
        """Find the content of a reading, if it is in question still."""
        self._load(connection)
        for candidate in self._by_size.get(reading.witness.size_bytes, ()):
            if is_candidate(connection, self._sealer, candidate, reading, 0):
                found = files.find_files(connection, self._sealer, [candidate.file_id])
                if found and found[0].is_frozen and found[0].is_sealed:
                    return InQuestion(candidate, found[0])
        return None

    def find_last_seen(self, connection: Connection, recorded: Iterable[FileRecord], inode: int) -> list[LastSeen]:
        """
        Find the sealed records whose files were last seen with an inode.

        Args:
            connection: to read with.
            recorded: those that are recorded with it.
            inode: its number.
        """
        self._load(connection)
        records = {record.id: record for record in recorded}
        others = [file_id for file_id in self._by_inode.get(inode, ()) if file_id not in records]
        if others:
            records |= {record.id: record for record in files.find_files(connection, self._sealer, others)}
        seen = [LastSeen(record, _as_last_seen(connection, record)) for record in records.values() if record.is_sealed]
        return [one for one in seen if one.last.witness.inode == inode]

    def _load(self, connection: Connection) -> None:
        if self._candidates is not None:
            return
        self._candidates = candidates.find_in_question(connection)
        for candidate in self._candidates:
            assert candidate.witness is not None
            self._by_size.setdefault(candidate.witness.size_bytes, []).append(candidate)
            self._by_inode.setdefault(candidate.witness.inode, []).append(candidate.file_id)


def _as_last_seen(connection: Connection, record: FileRecord) -> FileRecord:
    """Write a record as its file was last seen: not what was saved over it since, but what was renamed over it."""
    known = candidates.get_candidate(connection, record.id) if record.is_frozen else None
    if known is None or known.witness is None:
        return record
    is_its_file = known.because is BaselineReason.MOVED or known.witness.inode == record.witness.inode
    return replace(record, witness=known.witness) if is_its_file else record
