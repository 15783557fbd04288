"""Runs: what was done when, what it covered and how it ended (R8)."""

from __future__ import annotations

from dataclasses import asdict, dataclass, fields
from typing import Any

import sqlalchemy as sa

from integrity.catalog.row_seals import check_seals, select_sealed
from integrity.catalog.schema import file, run
from integrity.catalog.words import read_optional_word, read_word
from integrity.model import Job, Outcome, RootId, RunCounts, RunId

_COUNTS = tuple(field.name for field in fields(RunCounts))


@dataclass(frozen=True, slots=True)
class RunRecord:
    """One execution of a job."""

    id: RunId
    root_id: RootId
    job: Job
    started_at: int
    finished_at: int | None  # None: it works, or its process died
    outcome: Outcome | None
    boot_id: int
    pid: int
    counts: RunCounts
    duration_s: float | None
    error: str | None


def start_run(
    c: sa.Connection, root_id: RootId, job: Job, *, now: int, boot_id: int, pid: int, copy: str | None = None
) -> RunId:
    """Write down that a run begins; ``copy``: the name of the one that is compared."""
    values = {"root_id": root_id, "job": job.value, "started_at": now, "boot_id": boot_id, "pid": pid, "copy": copy}
    key = c.execute(sa.insert(run).values(**values, **asdict(RunCounts()))).inserted_primary_key
    assert key is not None
    return RunId(key[0])


def finish_run(
    c: sa.Connection,
    run_id: RunId,
    outcome: Outcome,
    counts: RunCounts,
    *,
    now: int,
    duration_s: float,
    error: str | None = None,
) -> None:
    """Write down how a run ended, and the last number of a file by then: a file with a higher one came later."""
    values = {"finished_at": now, "outcome": outcome.value, "duration_s": float(duration_s), "error": error}
    last_file_id = sa.select(sa.func.coalesce(sa.func.max(file.c.id), 0)).scalar_subquery()
    c.execute(sa.update(run).where(run.c.id == run_id).values(**values, **asdict(counts), last_file_id=last_file_id))


def find_runs(c: sa.Connection, root_id: RootId | None, limit: int) -> list[RunRecord]:
    """List the last runs of a root (None: of all), newest first."""
    query = select_sealed(run).order_by(run.c.id.desc()).limit(limit)
    if root_id is not None:
        query = query.where(run.c.root_id == root_id)
    return [_to_record(row) for row in check_seals(c, run, c.execute(query))]


def get_start(c: sa.Connection, run_id: RunId) -> int:
    """Say when a run began."""
    return int(c.execute(sa.select(run.c.started_at).where(run.c.id == run_id)).scalar_one())


def get_last_file_before(c: sa.Connection, root_id: RootId, run_id: RunId) -> int:
    """Return the highest number of a file when the runs on a root ended that began before this one; 0: none did."""
    query = sa.select(sa.func.max(run.c.last_file_id)).where(run.c.root_id == root_id, run.c.id < run_id)
    return c.execute(query).scalar() or 0


def close_dead_runs(c: sa.Connection, root_id: RootId, now: int) -> list[RunId]:
    """
    Mark the unfinished runs of a root as interrupted, and say which.

    The caller holds the root's lock and has not started its own run yet, so whoever began these is gone. Asking for
    their process would be less sure: numbers are given again, and those of another container mean nothing here.
    """
    unfinished = run.c.root_id == root_id, run.c.finished_at.is_(None)
    ids = [RunId(row.id) for row in c.execute(sa.select(run.c.id).where(*unfinished).order_by(run.c.id))]
    c.execute(sa.update(run).where(*unfinished).values(finished_at=now, outcome=Outcome.INTERRUPTED.value))
    return ids


def _to_record(row: sa.Row[Any]) -> RunRecord:
    return RunRecord(
        id=row.id,
        root_id=row.root_id,
        job=read_word(Job, row.job),
        started_at=row.started_at,
        finished_at=row.finished_at,
        outcome=read_optional_word(Outcome, row.outcome),
        boot_id=row.boot_id,
        pid=row.pid,
        counts=RunCounts(**{name: getattr(row, name) for name in _COUNTS}),
        duration_s=row.duration_s,
        error=row.error,
    )
