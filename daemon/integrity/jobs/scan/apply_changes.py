"""
Take over what a run staged, or hold it back (R5).

A run stages removals and changes of content while it works. Only when all of it is known are they weighed, together
with those of the day before, as the gate weighs them before a backup: against the mass-change limits of the root
(``guard``), and for what speaks against their being meant (``gating.reasons``). Below, each change becomes a baseline
and each removal history; beyond, all of them are held until a person has looked. What proves to be as it was recorded
is held no more.

All are held, not those of one group alone: who encrypts one folder is at work in others, too, and a person decides once
over all of it, instead of over parts whose borders the program drew.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from integrity.catalog import candidates, findings, history, roots, runs
from integrity.catalog.candidates import CandidateKind, CandidateState
from integrity.catalog.paging import make_timer
from integrity.jobs import messages
from integrity.jobs.open_root import LEAST_PATTERN, Wave
from integrity.jobs.presence import describe_instead
from integrity.jobs.report import NoteKind
from integrity.model import BaselineReason, FileId, FindingKind

if TYPE_CHECKING:
    from integrity.catalog.candidates import CandidateRecord
    from integrity.catalog.connection import Connection
    from integrity.jobs.context import RootRun
    from integrity.model import Finding

DAY_S = 86_400
_PAGE = 500
_UNDECIDED = (CandidateState.STAGED, CandidateState.HELD)


def apply_changes(run: RootRun, looked_at: int) -> None:
    """
    Decide over all that the run staged.

    Args:
        run: the run; all its readings are in.
        looked_at: how many files that were recorded before it met or missed.
    """
    _drop_refuted(run)
    with run.catalog.read() as connection:
        changed, removed, moved = candidates.count_staged(connection, run.root.id)
        held = _find_wave(connection, run)
        is_wave = _is_wave(connection, run, Wave(changed, removed, _weigh_against(run, looked_at)))
    why = _find_reason(run, held) if changed + removed or held is not None else None
    is_held = held is not None or is_wave or why is not None
    if changed + removed and is_held:
        with run.catalog.read() as connection:
            # The removal of what came with a mass change that waits already, or later, stays staged: who cleans up and
            # restores loses nothing by it.
            ids = candidates.find_staged(connection, run.root.id, _get_last_before(connection, run, held))
        # A kill between two pages leaves the rest staged, which the next run drops, and sees again for itself.
        run.write_in_pages(ids, candidates.hold)
    if changed + removed + moved:
        promote_all(run, CandidateState.STAGED)
    if is_held:
        _tell_held(run, why)


def _weigh_against(run: RootRun, looked_at: int) -> int:
    """Count the files that the run's changes are a part of; who was told where to look saw hardly anything else."""
    return run.root.file_count if run.hints else looked_at


def _drop_refuted(run: RootRun) -> None:
    """Forget held changes of files that are again, by now, what was recorded."""
    with run.catalog.read() as connection:
        refuted = candidates.find_refuted(connection, run.root.id, run.now())
    run.write_in_pages(refuted, candidates.discard_all)


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


def _find_reason(run: RootRun, held: Finding | None) -> str | None:
    """
    Find signs of a program that destroys files, or a group of which most was hit; None: neither.

    Looked at are the changes of the day; those since the day before the mass change that waits, if one does. Fewer than
    make a pattern are not looked at, so nearly every run ends here.
    """
    at = run.started_at if held is None else min(held.opened_at, run.started_at)
    with run.catalog.read() as connection:
        waiting = sum(sum(candidates.count_candidates(connection, run.root.id, state)) for state in _UNDECIDED)
        if waiting + sum(_count_earlier(connection, run, at)) < LEAST_PATTERN:
            return None
    from integrity.jobs.gate.sample import find_reason  # what most runs do not need would slow all their starts

    return find_reason(run, at - DAY_S)


def _count_earlier(connection: Connection, run: RootRun, at: int) -> tuple[int, int]:
    """Count what changed and went in the day before, and was taken over; a time ahead of the clock is of no day."""
    return candidates.count_recent_changes(connection, run.root.id, at - DAY_S, run.now())


def _find_wave(connection: Connection, run: RootRun) -> Finding | None:
    """Find the earlier mass change that still waits for a person."""
    found = findings.find_findings(connection, root_id=run.root.id)
    return next((finding for finding in found if finding.kind is FindingKind.MASS_CHANGE), None)


def _get_last_before(connection: Connection, run: RootRun, wave: Finding | None) -> int | None:
    """Return the last number given to a file before a mass change that waits; None: none does, or nobody knows."""
    if wave is None or wave.opened_by is None:
        return None
    return runs.get_last_file_before(connection, run.root.id, wave.opened_by)


def _tell_held(run: RootRun, why: str | None) -> None:
    """
    Tell the mass change as it stands now, if any of it lies in the run's part of the root; or that it is over.

    Args:
        run: the run.
        why: what speaks against it; None: that it is so much.
    """
    with run.writing() as connection:
        changed, removed = candidates.count_candidates(connection, run.root.id, CandidateState.HELD)
        if not changed + removed:
            _end_wave(run, connection)
        elif any(candidates.has_held(connection, run.root.id, part) for part in run.parts):
            # What was weighed with the first of it stays a part of it, however many days it waits for a person; what
            # was recorded since is none of it: files that got another name and content would be counted twice.
            wave = _find_wave(connection, run)
            last_file_id = _get_last_before(connection, run, wave)
            began_at, recorded = run.started_at, run.root.file_count
            if wave is not None and wave.opened_by is not None:
                began_at = runs.get_start(connection, wave.opened_by)
            if last_file_id is not None:
                recorded = roots.count_files_until(connection, run.root.id, last_file_id)
            earlier = sum(_count_earlier(connection, run, began_at))
            text = messages.mass_change(changed, removed, max(recorded, changed + removed), earlier, why)
            run.open_finding(connection, FindingKind.MASS_CHANGE, text)


def _end_wave(run: RootRun, connection: Connection) -> None:
    resolution, kinds = "all that was held back is as it was recorded", {FindingKind.MASS_CHANGE}
    run.note_over(
        findings.resolve_findings(connection, root_id=run.root.id, kinds=kinds, resolution=resolution, now=run.now())
    )


def promote_all(run: RootRun, state: CandidateState) -> None:
    """Take over every candidate in a state, a page at a time; each leaves the state, taken over or not."""
    after = FileId(0)
    while True:
        with run.writing() as connection:  # the page, too: nobody may take a decision in between
            is_over = make_timer(run.context.monotonic)
            page = candidates.find_candidates(connection, run.root.id, state=state, after=after, limit=_PAGE)
            for candidate in page:
                _promote(connection, run, candidate)
                after = candidate.file_id
                if is_over():
                    break
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


def discard_staged(run: RootRun) -> None:
    """Drop what a run that was killed had staged: this run looks at everything itself."""
    with run.catalog.read() as connection:
        staged = candidates.find_staged(connection, run.root.id)
        outdated = history.find_outdated(connection, run.now())
    run.write_in_pages(staged, candidates.discard_staged_of)
    run.write_in_pages(outdated, history.forget_deleted)
