"""
Apply the changes that a run staged, or hold them back (R5).

A run stages removals and changes of content. Once all are known, they are checked together with those of the day
before, as the gate does before a backup: against the root's mass-change limits (``open_root.ChangeCounts``), for signs
of destruction (``gate.sample.find_reason``) and of storage that was lost together with its files. If they pass, changes
become baselines and removals go to history. Otherwise all of them are held until a person decides. Held changes that
turn out to be refuted are released.

All are held, not only those of one folder: a program that encrypts one folder is at work in others, too, and one
decision covers all, instead of parts chosen by the program.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from integrity.catalog import files, findings, roots, runs, staged_times, versions
from integrity.catalog.baselines import promote
from integrity.catalog.connection import make_timer
from integrity.catalog.root_meta import RootMeta, find_move
from integrity.catalog.versions import VersionState
from integrity.files.mounts import get_mount
from integrity.jobs import messages
from integrity.jobs.open_root import LEAST_PATTERN, ChangeCounts
from integrity.jobs.presence import describe_instead
from integrity.jobs.report import NoteKind
from integrity.model import BaselineReason, FileId, FindingKind, Job, Policy

if TYPE_CHECKING:
    from integrity.catalog.connection import Connection
    from integrity.catalog.versions import FileVersion
    from integrity.jobs.context import RootRun
    from integrity.model import Finding

DAY_S = 86_400
_PAGE = 500
_WRITTEN = (BaselineReason.EDITED, BaselineReason.ROLLED_BACK)
_UNDECIDED = (VersionState.STAGED, VersionState.HELD)
_SPACE = RootMeta("space")
_LAST = "last"

_LEAST_PERCENT = 1
"""Pools have fewer than a hundred disks; where a member's size moves with what others write, it moves by less."""

_QUOTAS = frozenset({"prjquota", "pquota"})
"""Mount options of XFS and ext4 with which the size may be the limit of a project."""


class _Space(NamedTuple):
    total_bytes: int
    used_bytes: int


def apply_changes(run: RootRun, looked_at: int) -> None:
    """
    Apply or hold everything that the run staged, once all its readings are in.

    Args:
        looked_at: number of previously recorded files that it found or missed.
    """
    with run.catalog.read() as connection:  # held changes of files that are as recorded again
        refuted = versions.find_refuted(connection, run.root.id, run.now())
    run.write_in_pages(refuted, versions.discard)
    basis = run.root.file_count if run.hints else looked_at  # hints name only what changed
    with run.catalog.read() as connection:
        changed, removed, moved = versions.count_candidates(connection, run.root.id, VersionState.STAGED)
        held = _find_mass_change(connection, run)
        is_mass = _is_mass_change(connection, run, ChangeCounts(changed, removed, basis))
        lost = _find_lost_storage(connection, run) if removed or held is not None else None
    why = lost or (_find_reason(run, held) if changed + removed or held is not None else None)
    is_held = held is not None or is_mass or why is not None
    if changed + removed and is_held:
        with run.catalog.read() as connection:
            # Removals of files that came with a pending mass change, or after it, stay staged: nothing is lost when
            # someone cleans up and restores.
            ids = versions.find_staged(connection, run.root.id, _get_last_before(connection, run, held))
        # A kill between two pages leaves the rest staged; the next run drops it and looks again.
        run.write_in_pages(ids, versions.hold)
    if changed + removed + moved:
        _promote_all(run)
    _apply_times(run)
    if is_held:
        _report_held(run, why)
    elif run.is_whole:
        with run.writing(is_synced=False) as connection:
            _remember_space(connection, run)  # all of it was looked at


def _apply_times(run: RootRun) -> None:
    """
    Record the new times of files whose content is as recorded.

    A run that was stopped leaves the recorded times, by which the next one judges changed files beside them.
    """
    with run.catalog.read() as connection:
        ids = staged_times.find_staged_times(connection, run.root.id)
    now, boot_id = run.now(), run.boot_id
    has_stable_inodes = run.capability.has_stable_inodes

    def write(connection: Connection, some: Sequence[FileId]) -> None:
        staged_times.apply_times(
            *(connection, some),
            from_disk=run.job is Job.SCRUB,
            has_stable_inodes=has_stable_inodes,
            now=now,
            boot_id=boot_id,
        )

    run.write_in_pages(ids, write)


def _is_mass_change(connection: Connection, run: RootRun, own: ChangeCounts) -> bool:
    """
    Return whether the run's changes, alone or with those of the day before, exceed the limits.

    The run's own changes are compared with the files it looked at, those of the day with the whole root.
    """
    if not own.changed + own.removed:
        return False
    changed, removed = _count_earlier(connection, run, run.started_at)
    looked_at = max(own.looked_at, run.root.file_count)
    of_the_day = ChangeCounts(own.changed + changed, own.removed + removed, looked_at)
    return own.is_mass_change(run.settings) or of_the_day.is_mass_change(run.settings)


def _find_reason(run: RootRun, held: Finding | None) -> str | None:
    """
    Return signs of a destructive program, or of a group of files that was mostly hit; None if there are none.

    Checks the changes of the last day, or since the day before the pending mass change. Fewer changes than a pattern
    needs are not checked, so nearly every run ends here.
    """
    at = run.started_at if held is None else min(held.opened_at, run.started_at)
    with run.catalog.read() as connection:
        waiting = sum(sum(versions.count_candidates(connection, run.root.id, state)) for state in _UNDECIDED)
        if waiting + sum(_count_earlier(connection, run, at)) < LEAST_PATTERN:
            return None
    from integrity.jobs.gate.sample import find_reason  # slow to import, and most runs do not need it

    return find_reason(run, at - DAY_S)


def _count_earlier(connection: Connection, run: RootRun, at: int) -> tuple[int, int]:
    """Count the changes and removals applied in the day before ``at``; times ahead of the clock do not count."""
    return versions.count_replaced(connection, run.root.id, at - DAY_S, run.now())


def _find_mass_change(connection: Connection, run: RootRun) -> Finding | None:
    """Return the pending mass-change finding."""
    found = findings.find_findings(connection, root_id=run.root.id)
    return next((one for one in found if one.kind is FindingKind.MASS_CHANGE), None)


def _get_last_before(connection: Connection, run: RootRun, finding: Finding | None) -> int | None:
    """Return the highest file id before the pending mass change; None if none is pending or the id is unknown."""
    if finding is None or finding.opened_by is None:
        return None
    return runs.get_last_file_before(connection, run.root.id, finding.opened_by)


def _report_held(run: RootRun, why: str | None) -> None:
    """
    Report the pending mass change if it affects the run's part of the root; resolve it if nothing is held.

    ``why`` is the reason besides the number of changes, or None.
    """
    with run.writing() as connection:
        held = versions.count_candidates(connection, run.root.id, VersionState.HELD)
        changed, removed = held.changed + held.moved, held.removed
        if not changed + removed:
            resolution, kinds = "all that was held back is as it was recorded", {FindingKind.MASS_CHANGE}
            run.note_resolved(
                findings.resolve_findings(
                    connection, root_id=run.root.id, kinds=kinds, resolution=resolution, now=run.now()
                )
            )
        elif any(versions.has_held(connection, run.root.id, part) for part in run.parts):
            # The files first compared with the mass change stay its basis while it is pending. Files recorded since are
            # excluded: files with a new name and new content would be counted twice.
            finding = _find_mass_change(connection, run)
            last_file_id = _get_last_before(connection, run, finding)
            began_at, recorded = run.started_at, run.root.file_count
            if finding is not None and finding.opened_by is not None:
                began_at = runs.get_start(connection, finding.opened_by)
            if last_file_id is not None:
                recorded = roots.count_files_until(connection, run.root.id, last_file_id)
            earlier = sum(_count_earlier(connection, run, began_at))
            text = messages.mass_change(changed, removed, max(recorded, changed + removed), earlier, why)
            run.open_finding(connection, FindingKind.MASS_CHANGE, text)


def _promote_all(run: RootRun) -> None:
    """Apply every staged candidate, a page at a time; each leaves the state, applied or not."""
    after = FileId(0)
    while True:
        with run.writing() as connection:  # includes the query: no decision may come in between
            is_over = make_timer(run.context.monotonic)
            staged = versions.find_candidates(connection, run.root.id, VersionState.STAGED, after=after, limit=_PAGE)
            page = list(staged)
            for candidate in page:
                _promote(connection, run, candidate)
                after = candidate.file_id
                if is_over():
                    break
        if not page:
            return


def _promote(connection: Connection, run: RootRun, candidate: FileVersion) -> None:
    because = candidate.reason or BaselineReason.DELETED
    is_first_look = _is_first_look(connection, run, candidate)
    is_taken_over = promote(connection, run.root, candidate, because, run.now(), run.boot_id)
    if is_taken_over and candidate.is_gone:
        instead = describe_instead(run.root_fd, candidate.path)
        run.note(NoteKind.DELETED, candidate.path, f"is gone{instead}; its record is kept for 90 days")
    elif is_taken_over and is_first_look:
        run.note(NoteKind.CHANGED, candidate.path, messages.CHANGED_SINCE_MOVE)
    elif is_taken_over and because is BaselineReason.GROWN and run.settings.policy is Policy.ARCHIVE:
        run.note(NoteKind.CHANGED, candidate.path, messages.COMPLETED)
    elif is_taken_over and because is BaselineReason.ROLLED_BACK:
        run.note(NoteKind.ROLLED_BACK, candidate.path, "an older version was put here")


def _is_first_look(connection: Connection, run: RootRun, candidate: FileVersion) -> bool:
    """Return whether a written file is seen for the first time since its root was moved."""
    move = find_move(connection, run.root) if candidate.reason in _WRITTEN else None
    if move is None:
        return False
    return any(move.covers_file(one) for one in files.find_files(connection, [candidate.file_id]))


def discard_staged(run: RootRun) -> None:
    """Discard what a killed run had staged, because this run looks at everything itself, and expired history."""
    with run.writing(is_synced=False) as connection:
        staged = versions.find_staged(connection, run.root.id)
        outdated = versions.find_outdated(connection, run.now())
    run.write_in_pages(staged, versions.discard_staged)
    run.write_in_pages(outdated, versions.forget_deleted)


def _find_lost_storage(connection: Connection, run: RootRun) -> str | None:
    """
    Return why the files that are gone may have been on lost storage, as the end of a sentence; None if not.

    mergerfs, unionfs and their like go on without a member, and its files are no longer listed: no error tells them
    from deleted ones. The size of the file system does: it fell by at least what the files used. Or it is that of other
    storage, the folder below the member's mount point, and the space that the files used was not freed.
    """
    removed, removed_bytes = versions.measure_removals(connection, run.root.id)
    if removed < LEAST_PATTERN:
        return None
    now, before = _measure_space(run), _load_space(connection, run)
    if now is None or before is None:
        return None
    lost_bytes, freed_bytes = before.total_bytes - now.total_bytes, before.used_bytes - now.used_bytes
    if abs(lost_bytes) * 100 < before.total_bytes * _LEAST_PERCENT:
        return None
    if lost_bytes >= removed_bytes or freed_bytes < removed_bytes:
        return messages.lost_storage(before.total_bytes, now.total_bytes)
    return None


def _remember_space(connection: Connection, run: RootRun) -> None:
    now = _measure_space(run)
    if now is not None:
        _SPACE.save(connection, run.root, _LAST, now._asdict())


def _measure_space(run: RootRun) -> _Space | None:
    """Return the space of the root's file system; None where its size moves with what others write."""
    if run.capability.is_remote or run.capability.fs_type == "zfs":
        return None
    try:
        if get_mount(run.root_fd).options & _QUOTAS:
            return None
        status = os.fstatvfs(run.root_fd)
    except OSError:
        return None
    return _Space(status.f_blocks * status.f_frsize, (status.f_blocks - status.f_bfree) * status.f_frsize)


def _load_space(connection: Connection, run: RootRun) -> _Space | None:
    found = _SPACE.find(connection, run.root)
    return next((_Space(value["total_bytes"], value["used_bytes"]) for _, value in found), None)
