"""
Where recorded files stand: their records as they are now, what is open about them and about one copy of them.

Looked up for many files at a time; a question for each would take longer than reading the files.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, NamedTuple

from integrity.catalog import candidates, files, findings
from integrity.catalog.candidates import CandidateKind, CandidateRecord, CandidateState
from integrity.catalog.rows import FileRecord
from integrity.jobs.judge.repair_advice import VERDICTS
from integrity.model import FileId, Finding, FindingKind
from integrity.verdict import Judgement, Verdict

if TYPE_CHECKING:
    from integrity.catalog.connection import Connection
    from integrity.jobs.context import RootRun


class Standing(NamedTuple):
    """
    Where one file stands.

    Attributes:
        record: as it is now; None if it is gone from the catalog.
        own: what is open about the file itself.
        about_copy: what is open about its copy.
        candidate: newer content, or its absence.
    """

    record: FileRecord | None
    own: tuple[Finding, ...]
    about_copy: tuple[Finding, ...]
    candidate: CandidateRecord | None

    def is_still(self, record: FileRecord) -> bool:
        """Say whether the file is recorded as it was."""
        now = self.record
        return now is not None and (now.version, now.path) == (record.version, record.path)

    def judge(self) -> Judgement | None:
        """
        Take the file's verdict from what is open about it; nothing open means that it is what was recorded.

        Returns:
            None if the record is what can't be relied on.
        """
        for finding in self.own:
            if finding.kind in VERDICTS:
                return Judgement(VERDICTS[finding.kind], finding.certainty)
        if any(finding.kind is FindingKind.CATALOG_DAMAGED for finding in self.own):
            return None
        held = self.candidate
        if held is not None and held.state is CandidateState.HELD:
            if held.kind is CandidateKind.REMOVAL:
                return Judgement(Verdict.MISSING)
            return Judgement(Verdict.CHANGED, because=held.because)
        return Judgement(Verdict.INTACT)


def look_up(run: RootRun, connection: Connection, ids: Sequence[FileId], copy: str) -> dict[FileId, Standing]:
    """Look up where files stand, each of ``ids``; ``copy``: the name of the copy."""
    records = {one.id: one for one in files.find_files(connection, run.catalog.sealer, ids)}
    opened = findings.find_open_of_files(connection, ids)
    newer = candidates.get_candidates(connection, ids)
    return {
        one: Standing(
            records.get(one),
            tuple(_about(opened.get(one, ()), None)),
            tuple(_about(opened.get(one, ()), copy)),
            newer.get(one),
        )
        for one in ids
    }


def _about(found: Iterable[Finding], copy: str | None) -> Iterable[Finding]:
    return (finding for finding in found if finding.copy == copy)
