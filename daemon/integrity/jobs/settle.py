"""
Take over what a run staged, or hold it back (R5).

A run stages removals and changes of content while it works. Only when all of it is known are they weighed against the
mass-change limits, together with those of the day before: below, each change becomes a baseline and each removal history;
beyond, all of them are held until a person has looked.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from integrity.catalog import candidates, files, findings
from integrity.catalog.candidates import CandidateKind, CandidateState
from integrity.jobs import messages
from integrity.jobs.guard import Wave
from integrity.jobs.report import NoteKind
from integrity.model import BaselineReason, FindingKind

if TYPE_CHECKING:
    from integrity.catalog.candidates import CandidateRecord
    from integrity.catalog.connect import Connection
    from integrity.jobs.context import RootRun

DAY_S = 86_400
_PAGE = 500


def settle(run: RootRun, looked_at: int) -> None:
    """
    Decide over all that the run staged.

    Args:
        run: the run; all its readings are in.
        looked_at: how many recorded files it met or missed.
    """
    with run.catalog.read() as connection:
        changed, removed = candidates.count_staged(connection, run.root.id)
        if not changed + removed:
            return
        before_changed, before_removed = candidates.count_recent_changes(
            connection, run.root.id, run.started_at - DAY_S
        )
        is_held = _is_held(connection, run)
    wave = Wave(changed + before_changed, removed + before_removed, looked_at)
    if is_held or wave.is_mass_change(run.settings):
        _hold(run, changed, removed, looked_at)
    else:
        promote_all(run, CandidateState.STAGED)


def _is_held(connection: Connection, run: RootRun) -> bool:
    """Say whether an earlier mass change still waits for a person."""
    found = findings.find_findings(connection, root_id=run.root.id)
    return any(finding.kind is FindingKind.MASS_CHANGE for finding in found)


def _hold(run: RootRun, changed: int, removed: int, looked_at: int) -> None:
    with run.writing() as connection:
        candidates.hold(connection, run.root.id)
        text = messages.mass_change(changed, removed, looked_at)
        run.open_finding(connection, FindingKind.MASS_CHANGE, text)


def promote_all(run: RootRun, state: CandidateState) -> None:
    """Take over every candidate in a state, a page at a time; each leaves the state, taken over or not."""
    while True:
        with run.catalog.read() as connection:
            page = candidates.find_candidates(connection, run.root.id, state=state, limit=_PAGE)
        if not page:
            return
        with run.writing() as connection:
            for candidate in page:
                _promote(connection, run, candidate)


def _promote(connection: Connection, run: RootRun, candidate: CandidateRecord) -> None:
    because = candidate.because or BaselineReason.DELETED
    is_taken_over = candidates.promote(
        connection, run.catalog.sealer, run.root, candidate.file_id, because, run.now(), run.boot_id
    )
    if is_taken_over and candidate.kind is CandidateKind.REMOVAL:
        run.note(NoteKind.DELETED, candidate.path, "is gone; its record is kept for 90 days")


def forget_unsettled(run: RootRun) -> None:
    """Drop what a run that was killed had staged: this run looks at everything itself."""
    with run.writing() as connection:
        candidates.discard_staged(connection, run.root.id)
        files.purge_deleted(connection, run.now())
