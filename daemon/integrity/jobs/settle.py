"""
Take over what a run staged, or hold it back (R5).

A run stages removals and changes of content while it works. Only when all of it is known are they weighed against the
mass-change limits, together with those of the day before: below, each change becomes a baseline and each removal
history; beyond, all of them are held until a person has looked. What proves to be as it was recorded is held no more.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from integrity.catalog import candidates, files, findings
from integrity.catalog.candidates import CandidateKind, CandidateState
from integrity.jobs import messages
from integrity.jobs.absence import describe_instead
from integrity.jobs.guard import Wave
from integrity.jobs.report import NoteKind
from integrity.model import BaselineReason, FindingKind

if TYPE_CHECKING:
    from integrity.catalog.candidates import CandidateRecord
    from integrity.catalog.connect import Connection
    from integrity.jobs.context import RootRun
    from integrity.model import Finding

DAY_S = 86_400
_PAGE = 500


def settle(run: RootRun, looked_at: int) -> None:
    """
    Decide over all that the run staged.

    Args:
        run: the run; all its readings are in.
        looked_at: how many recorded files it met or missed; what its walk says counts if that is more.
    """
    _drop_refuted(run)
    with run.catalog.read() as connection:
        changed, removed = candidates.count_staged(connection, run.root.id)
        is_held = _is_held(connection, run)
        is_wave = _is_wave(connection, run, Wave(changed, removed, _weigh_against(run, looked_at)))
    if changed + removed and (is_held or is_wave):
        with run.writing() as connection:
            candidates.hold(connection, run.root.id)
    elif changed + removed:
        promote_all(run, CandidateState.STAGED)
    if is_held or is_wave:
        _tell_held(run)


def _weigh_against(run: RootRun, looked_at: int) -> int:
    """Count the files that the run's changes are a part of; who was told where to look saw hardly anything else."""
    return run.root.file_count if run.hints else max(looked_at, run.looked_at)


def _drop_refuted(run: RootRun) -> None:
    """Forget held changes of files that are again, by now, what was recorded."""
    with run.writing() as connection:
        candidates.discard_refuted(connection, run.root.id, run.now())


def _is_wave(connection: Connection, run: RootRun, own: Wave) -> bool:
    """
    Say whether a run's changes, or those of the day with them, are too many.

    Its own are held against what it looked at, those of the day against the whole root: they may come from all of it.
    """
    if not own.changed + own.removed:
        return False
    changed, removed = _count_earlier(connection, run, run.started_at)
    looked_at = max(own.looked_at, run.root.file_count)
    of_the_day = Wave(own.changed + changed, own.removed + removed, looked_at)
    return own.is_mass_change(run.settings) or of_the_day.is_mass_change(run.settings)


def _count_earlier(connection: Connection, run: RootRun, at: int) -> tuple[int, int]:
    """Count what changed and went in the day before, and was taken over; a time ahead of the clock is of no day."""
    return candidates.count_recent_changes(connection, run.root.id, at - DAY_S, run.now())


def _is_held(connection: Connection, run: RootRun) -> bool:
    """Say whether an earlier mass change still waits for a person."""
    return _find_wave(connection, run) is not None


def _find_wave(connection: Connection, run: RootRun) -> Finding | None:
    found = findings.find_findings(connection, root_id=run.root.id)
    return next((finding for finding in found if finding.kind is FindingKind.MASS_CHANGE), None)


def _tell_held(run: RootRun) -> None:
    """Tell the mass change as it stands now, if any of it lies in the run's part of the root; or that it is over."""
    with run.writing() as connection:
        changed, removed = candidates.count_candidates(connection, run.root.id, CandidateState.HELD)
        if not changed + removed:
            _end_wave(run, connection)
        elif any(candidates.has_held(connection, run.root.id, part) for part in run.parts):
            looked_at = max(run.looked_at, run.root.file_count)
            wave = _find_wave(connection, run)
            # What was weighed with the first of it stays a part of it, however many days it waits for a person.
            began_at = run.started_at if wave is None else min(wave.opened_at, run.started_at)
            earlier = sum(_count_earlier(connection, run, began_at))
            text = messages.mass_change(changed, removed, looked_at, earlier)
            run.open_finding(connection, FindingKind.MASS_CHANGE, text)


def _end_wave(run: RootRun, connection: Connection) -> None:
    resolution, kinds = "all that was held back is as it was recorded", {FindingKind.MASS_CHANGE}
    run.note_over(
        findings.resolve_findings(connection, root_id=run.root.id, kinds=kinds, resolution=resolution, now=run.now())
    )


def promote_all(run: RootRun, state: CandidateState) -> None:
    """Take over every candidate in a state, a page at a time; each leaves the state, taken over or not."""
    while True:
        with run.writing() as connection:  # the page, too: nobody may take a decision in between
            page = candidates.find_candidates(connection, run.root.id, state=state, limit=_PAGE)
            for candidate in page:
                _promote(connection, run, candidate)
        if not page:
            return


def _promote(connection: Connection, run: RootRun, candidate: CandidateRecord) -> None:
    because = candidate.because or BaselineReason.DELETED
    is_taken_over = candidates.promote(
        connection, run.catalog.sealer, run.root, candidate.file_id, because, run.now(), run.boot_id
    )
    if is_taken_over and candidate.kind is CandidateKind.REMOVAL:
        instead = describe_instead(run.root_fd, candidate.path)
        run.note(NoteKind.DELETED, candidate.path, f"is gone{instead}; its record is kept for 90 days")


def forget_unsettled(run: RootRun) -> None:
    """Drop what a run that was killed had staged: this run looks at everything itself."""
    with run.writing() as connection:
        candidates.discard_staged(connection, run.root.id)
        files.purge_deleted(connection, run.now())
