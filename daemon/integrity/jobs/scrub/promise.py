"""
Check the promise that every byte is verified within ``verify_every``, and report when it is broken.

``plan`` decides what the promise requires.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice
from typing import TYPE_CHECKING

from integrity.catalog import findings
from integrity.catalog.coverage import coverage, find_due_days
from integrity.catalog.findings import NewFinding
from integrity.catalog.roots import RootRecord, find_roots, has_root
from integrity.catalog.rows import NEVER_AT
from integrity.catalog.runs import RunRecord, find_runs
from integrity.jobs.scrub.plan import NOTHING, Facts, OpenTimes, Overdue, Plan, make_plan
from integrity.model import Finding, FindingKind, Job, Outcome, RootState
from integrity.units import format_duration, format_size

if TYPE_CHECKING:
    from integrity.catalog.connection import Connection
    from integrity.jobs.context import Context

_DAY_S = 86_400
_RUNS_SEARCHED = 200
_RUNS_MEASURED = 10
_WORKED = frozenset({Outcome.CLEAN, Outcome.FINDINGS, Outcome.INCOMPLETE, Outcome.INTERRUPTED})


def find_facts(c: Connection, root: RootRecord, *, verify_every_s: int, now: int) -> Facts:
    """Read the facts that a plan needs; for a root that is not active, all bytes count as ``bytes_apart``."""
    known = coverage(c, root.id, now=now, verify_every_s=verify_every_s)
    scrubs = [run for run in find_runs(c, root.id, _RUNS_SEARCHED) if run.job is Job.SCRUB]
    rate, last_scrub_at = measure_rate(scrubs), scrubs[0].started_at if scrubs else None
    if root.state is not RootState.ACTIVE:
        return Facts((), NOTHING, known.bytes, rate, last_scrub_at)
    overdue = Overdue(known.overdue_files, known.overdue_bytes)
    return Facts(tuple(find_due_days(c, root.id, now=now)), overdue, known.uncovered_bytes, rate, last_scrub_at)


def measure_rate(runs: Sequence[RunRecord]) -> float | None:
    """
    Return the best rate of the recent scrubs that read much; the others may have been throttled.

    Args:
        runs: newest first.
    """
    worked = (run for run in runs if run.outcome in _WORKED and run.duration_s and run.counts.bytes_read)
    last = [(run.counts.bytes_read, run.duration_s or 0.0) for run in islice(worked, _RUNS_MEASURED)]
    most = max((size for size, _ in last), default=0)
    return max((size / duration for size, duration in last if size >= most / 10), default=None)


def check(context: Context, windows: OpenTimes) -> list[Finding]:
    """
    Open or resolve the ``overdue`` finding of each root.

    Called at start, daily and after scrubs. A paused root can't be overdue; a suspended one has its own finding. Writes
    shortly and without a lock (R9).

    Returns:
        The open findings, each already reported.
    """
    with context.catalog.read() as connection:
        roots = find_roots(connection)
    found = (_check_root(context, windows, root) for root in roots if root.state is not RootState.SUSPENDED)
    return [finding for finding in found if finding is not None]


def describe_overdue(facts: Facts, plan: Plan, *, verify_every_s: int, now: int) -> str:
    """Return what is overdue and what would help."""
    noun = "file" if facts.overdue.files == 1 else "files"
    text = f"{facts.overdue.files:,} {noun} ({format_size(facts.overdue.bytes)})"
    delay = _describe_delay(facts, verify_every_s, now)
    text += f" not verified within {format_duration(verify_every_s)}, the oldest {delay}"
    return text + (f"; {plan.advice}" if plan.advice else "")


def _describe_delay(facts: Facts, verify_every_s: int, now: int) -> str:
    oldest_at = facts.days[0].oldest_at
    if oldest_at == NEVER_AT:
        return "at a time that lies ahead of the clock, which was wrong then or is now"
    late_s = now - oldest_at - verify_every_s
    return f"{late_s // _DAY_S} days late" if late_s >= 2 * _DAY_S else f"{max(1, late_s // 3600)} h late"


def _check_root(context: Context, windows: OpenTimes, root: RootRecord) -> Finding | None:
    now, verify_every_s = context.now(), context.config.settings_for(root.path).verify_every_s
    with context.catalog.read() as connection:
        facts = find_facts(connection, root, verify_every_s=verify_every_s, now=now)
    if not facts.overdue.files:
        _end_overdue(context, root, now)
        return None
    plan = make_plan(facts, windows, verify_every_s=verify_every_s, now=now)
    message = describe_overdue(facts, plan, verify_every_s=verify_every_s, now=now)
    with context.catalog.transaction() as connection:
        if not has_root(connection, root.id):
            return None  # deleted meanwhile
        new = NewFinding(FindingKind.OVERDUE, root.id, None, None, message)
        finding, _ = findings.open_finding(connection, new, now=now, run_id=None)
    context.report.finding(finding)
    return finding


def _end_overdue(context: Context, root: RootRecord, now: int) -> None:
    """Resolve the finding if it is open; otherwise write nothing."""
    from integrity.jobs import messages  # here, for `status` only reads
    from integrity.jobs.report import Note, NoteKind

    with context.catalog.read() as connection:
        if not findings.has_open(connection, root.id, FindingKind.OVERDUE):
            return
    resolution = "the root is paused" if root.state is RootState.PAUSED else messages.VERIFIED_IN_TIME
    with context.catalog.transaction() as connection:
        ended = findings.resolve_findings(
            connection, root_id=root.id, kinds={FindingKind.OVERDUE}, copy="", resolution=resolution, now=now
        )
    for one in ended:
        text = f"{one.kind.value} {one.id} is over: {resolution}"
        context.report.note(Note(NoteKind.RESOLVED, root.path, None, text))
