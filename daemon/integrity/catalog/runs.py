"""
Runs of jobs and of schedules, with results and coverage (R8); and the boots and mounts in which they ran (R2).

Boots and mounts show whether a file system may have crashed since a file was last intact. A row of ``boot`` without a
file system is a boot of the machine; any other is one mount of one file system in a boot. Ids are in the order in which
rows were first seen. A verified file refers to the newest row, so one id identifies the boot and the mount of each file
system.

I1  A row with a successor (the next boot, or the next mount of the same file system) and without a clean-stop mark may
    have ended in a crash.
I2  A clean shutdown sets the mark on the boot and its mounts. The mark is removed when the boot or the mount continues,
    or when another system mounted the file system before it was seen again.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import asdict, dataclass, fields
from itertools import pairwise
from typing import Any, NamedTuple, NewType

import sqlalchemy as sa

from integrity.catalog.days_run import is_outdated
from integrity.catalog.row_seals import check_seals, select_sealed
from integrity.catalog.rows import read_optional_word, read_word
from integrity.catalog.schema import boot, file, run, schedule_run
from integrity.model import Job, Outcome, RootId, RunCounts, RunId


class MountSeen(NamedTuple):
    """A mount of a file system that a run works on."""

    fs_id: str  # name of the file system
    mount: str  # which mount of it in this boot; empty: unknown
    mount_count: int | None  # number of mounts for writing, if the file system counts them


class Interruption(NamedTuple):
    """A possible crash."""

    is_of_machine: bool  # the machine was rebooted; otherwise the file system was mounted again
    seen_at: int | None  # when a run first saw the next boot or mount; None: unknown


def ensure_boot(c: sa.Connection, uuid: str, now: int) -> int:
    """
    Return the id of the running boot, recording it if it is new.

    Removes clean-stop marks of this boot: they were premature, because this program runs again.
    """
    row = c.execute(sa.select(boot).where(boot.c.uuid == uuid, boot.c.fs_id == "")).one_or_none()
    if row is None:
        return _insert(c, uuid, MountSeen("", "", None), now)
    if row.stopped_cleanly_at is not None:
        c.execute(sa.update(boot).where(boot.c.uuid == uuid).values(stopped_cleanly_at=None))
    return int(row.id)


def ensure_mounts(c: sa.Connection, uuid: str, mounts: Iterable[MountSeen], now: int) -> int:
    """
    Record the mounts that a run works on; return the id of the newest boot row.

    Args:
        c: in a transaction.
        uuid: of the running boot.
        mounts: of the run's root and of the mounts inside it.
        now: seconds UTC.
    """
    ensure_boot(c, uuid, now)
    for seen in mounts:
        _ensure_mount(c, uuid, seen, now)
    return int(c.execute(sa.select(sa.func.max(boot.c.id))).scalar_one())


def find_last_mounts(c: sa.Connection, uuid: str) -> dict[int, str]:
    """Return the last mount of each file system that was last seen in this boot: row id and mount."""
    last = sa.select(sa.func.max(boot.c.id)).where(boot.c.fs_id != "").group_by(boot.c.fs_id)
    query = sa.select(boot.c.id, boot.c.mount).where(boot.c.id.in_(last), boot.c.uuid == uuid)
    return {row.id: row.mount for row in c.execute(query)}


def mark_clean_stop(c: sa.Connection, uuid: str, now: int, mounts: Collection[int] = ()) -> None:
    """
    Record that the boot ends cleanly: all file data has reached the disk.

    ``mounts``: ids of the mounts that still exist; they end with the boot.
    """
    rows = c.execute(sa.select(boot.c.id).where(boot.c.uuid == uuid, boot.c.fs_id == "")).scalars()
    _set_mark(c, [*rows, *mounts], now)


def rename_file_system(c: sa.Connection, old: str, new: str) -> None:
    """Rename a file system in all rows, when a more reliable id of it is known."""
    c.execute(sa.update(boot).where(boot.c.fs_id == old).values(fs_id=new))


def find_interruption(c: sa.Connection, boot_id: int | None, fs_id: str) -> Interruption | None:
    """
    Return a possible crash of a file system since a file on it was last intact; None if there was none.

    Args:
        c: a connection; the running boot and the present mount must be recorded.
        boot_id: the row that the file refers to; None: unknown, so a crash is possible.
        fs_id: name of the file system.
    """
    if boot_id is None:
        return Interruption(is_of_machine=True, seen_at=None)
    rows = c.execute(sa.select(boot).where(boot.c.fs_id.in_(("", fs_id))).order_by(boot.c.id)).all()
    for chain in ("", fs_id):
        own = [row for row in rows if row.fs_id == chain]
        begin = max((row.id for row in own if row.id <= boot_id), default=0)
        for ended, following in pairwise(row for row in own if row.id >= begin):
            if ended.stopped_cleanly_at is None:
                return Interruption(chain == "", following.first_seen_at)
    return None


def _ensure_mount(c: sa.Connection, uuid: str, seen: MountSeen, now: int) -> None:
    known = c.execute(sa.select(boot).where(boot.c.fs_id == seen.fs_id).order_by(boot.c.id.desc())).all()
    last = known[0] if known else None
    for row in known:  # usually the last row, except when programs see different boots, as in containers
        is_same = row.mount == seen.mount or (row is last and "" in (row.mount, seen.mount))
        if row.uuid == uuid and is_same:
            if seen.mount_count not in (None, row.mount_count):
                c.execute(sa.update(boot).where(boot.c.id == row.id).values(mount_count=seen.mount_count))
            return
    if last is not None and _was_mounted_between(last.mount_count, seen.mount_count):
        _set_mark(c, [last.id], None)
    _insert(c, uuid, seen, now)


def _was_mounted_between(before: int | None, count: int | None) -> bool:
    """Return whether another system mounted a file system, or a full fsck, which has a cause, reset its mount count."""
    return (
        before is not None and count is not None and count not in (before, before + 1)
    )  # unchanged: mounted read-only


def _insert(c: sa.Connection, uuid: str, seen: MountSeen, now: int) -> int:
    key = c.execute(sa.insert(boot).values(uuid=uuid, **seen._asdict(), first_seen_at=now)).inserted_primary_key
    assert key is not None
    return int(key[0])


def _set_mark(c: sa.Connection, ids: Collection[int], at: int | None) -> None:
    c.execute(sa.update(boot).where(boot.c.id.in_(ids)).values(stopped_cleanly_at=at))


_COUNTS = tuple(field.name for field in fields(RunCounts))


@dataclass(frozen=True, slots=True)
class RunRecord:
    """One run of a job."""

    id: RunId
    root_id: RootId
    job: Job
    started_at: int
    finished_at: int | None  # None: it is running, or its process died
    outcome: Outcome | None
    boot_id: int
    pid: int
    counts: RunCounts
    duration_s: float | None
    error: str | None


def start_run(
    c: sa.Connection, root_id: RootId, job: Job, *, now: int, boot_id: int, pid: int, copy: str | None = None
) -> RunId:
    """Record the start of a run; ``copy``: name of the copy that it compares."""
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
    """Record the result of a run, and the highest file id at its end: files with higher ids came later."""
    values = {"finished_at": now, "outcome": outcome.value, "duration_s": float(duration_s), "error": error}
    last_file_id = sa.select(sa.func.coalesce(sa.func.max(file.c.id), 0)).scalar_subquery()
    c.execute(sa.update(run).where(run.c.id == run_id).values(**values, **asdict(counts), last_file_id=last_file_id))


def find_runs(c: sa.Connection, root_id: RootId | None, limit: int) -> list[RunRecord]:
    """Return the last runs of a root (None: of all roots), newest first."""
    return page_runs(c, before=None, limit=limit, root_id=root_id)


def page_runs(
    c: sa.Connection, *, before: RunId | None, limit: int, root_id: RootId | None = None, job: Job | None = None
) -> list[RunRecord]:
    """
    Return runs, the newest first.

    Args:
        c: a connection.
        before: only runs with a smaller id: where the page before ended; None: from the newest on.
        limit: at most this many.
        root_id: only runs on this root.
        job: only runs of this job.
    """
    query = select_sealed(run).order_by(run.c.id.desc()).limit(limit)
    if before is not None:
        query = query.where(run.c.id < before)
    if root_id is not None:
        query = query.where(run.c.root_id == root_id)
    if job is not None:
        query = query.where(run.c.job == job.value)
    return [_to_record(row) for row in check_seals(c, run, c.execute(query))]


def get_run(c: sa.Connection, run_id: RunId) -> RunRecord | None:
    """Return a run; None if there is none with this number."""
    row = check_seals(c, run, c.execute(select_sealed(run).where(run.c.id == run_id)))
    return next((_to_record(one) for one in row), None)


class ReadAt(NamedTuple):
    """What a finished run read, and when it ended: seconds UTC."""

    finished_at: int
    bytes_read: int


def find_reads(c: sa.Connection, job: Job, since: int, root_id: RootId | None = None) -> list[ReadAt]:
    """Return what the finished runs of a job read since a time, oldest first."""
    query = sa.select(run.c.finished_at, run.c.bytes_read).where(run.c.job == job.value, run.c.finished_at >= since)
    if root_id is not None:
        query = query.where(run.c.root_id == root_id)
    return [ReadAt(*row) for row in c.execute(query.order_by(run.c.finished_at))]


class LastRun(NamedTuple):
    """The last run of a job on a root that ended with one outcome."""

    root_id: RootId
    job: str
    outcome: str
    finished_at: int


def find_last_runs(c: sa.Connection) -> list[LastRun]:
    """Return the last run of each root, job, and outcome."""
    kind = (run.c.root_id, run.c.job, run.c.outcome)
    query = sa.select(*kind, sa.func.max(run.c.finished_at)).where(run.c.outcome.is_not(None)).group_by(*kind)
    return [LastRun(*row) for row in c.execute(query.order_by(*kind))]


def sum_read(c: sa.Connection) -> dict[tuple[RootId, str], int]:
    """Return the bytes that all runs of a job read, by root and job."""
    query = sa.select(run.c.root_id, run.c.job, sa.func.sum(run.c.bytes_read)).group_by(run.c.root_id, run.c.job)
    return {(row[0], row[1]): int(row[2]) for row in c.execute(query)}


def get_start(c: sa.Connection, run_id: RunId) -> int:
    """Return when a run started."""
    return int(c.execute(sa.select(run.c.started_at).where(run.c.id == run_id)).scalar_one())


def get_last_file_before(c: sa.Connection, root_id: RootId, run_id: RunId) -> int:
    """Return the highest file id at the end of the root's runs that started before this one; 0: there are none."""
    query = sa.select(sa.func.max(run.c.last_file_id)).where(run.c.root_id == root_id, run.c.id < run_id)
    return c.execute(query).scalar() or 0


def close_dead_runs(c: sa.Connection, root_id: RootId, now: int) -> list[RunId]:
    """
    Mark the unfinished runs of a root as interrupted; return their ids.

    The caller holds the root's lock and has not started its own run yet, so the processes of these runs are gone.
    Looking up their pids is less reliable: pids are reused, and those of another container mean nothing here.
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


ScheduleRunId = NewType("ScheduleRunId", int)

_KEPT_DAYS = 400


class Unfinished(NamedTuple):
    """A schedule's run without a recorded end: it is running, or was interrupted and must be resumed."""

    id: ScheduleRunId
    started_at: int


def note_started(
    c: sa.Connection, schedule: str, root_id: RootId | None, *, due_at: int | None, now: int
) -> ScheduleRunId:
    """
    Record the start of a scheduled run, and delete entries of this schedule and root older than 400 days.

    Args:
        c: in a transaction.
        schedule: its name in the configuration: scan, scrub, compare.
        root_id: the root; None: all roots.
        due_at: when it should have started; None: started on request.
        now: seconds UTC.
    """
    is_old = is_outdated(c, schedule_run.c.started_at, _KEPT_DAYS, now)
    c.execute(sa.delete(schedule_run).where(*_of(schedule, root_id), is_old))
    values = {"schedule": schedule, "root_id": root_id, "due_at": due_at, "started_at": now}
    key = c.execute(sa.insert(schedule_run).values(**values)).inserted_primary_key
    assert key is not None
    return ScheduleRunId(key[0])


def note_finished(c: sa.Connection, run_id: ScheduleRunId, outcome: str, *, now: int) -> None:
    """Record how a scheduled run ended."""
    values = {"finished_at": now, "outcome": outcome}
    c.execute(sa.update(schedule_run).where(schedule_run.c.id == run_id).values(**values))


def last_started(c: sa.Connection, schedule: str, root_id: RootId | None = None) -> int | None:
    """Return when a schedule last started for a root (None: for all roots); None: never."""
    started_at: int | None = c.execute(
        sa.select(sa.func.max(schedule_run.c.started_at)).where(*_of(schedule, root_id))
    ).scalar_one()
    return started_at


def find_unfinished(c: sa.Connection, schedule: str, root_id: RootId | None = None) -> Unfinished | None:
    """Return the newest run of a schedule, if its end is not recorded."""
    newest = sa.select(schedule_run).where(*_of(schedule, root_id))
    row = c.execute(newest.order_by(schedule_run.c.started_at.desc(), schedule_run.c.id.desc()).limit(1)).one_or_none()
    return None if row is None or row.finished_at is not None else Unfinished(row.id, row.started_at)


def _of(schedule: str, root_id: RootId | None) -> tuple[sa.ColumnElement[bool], ...]:
    return schedule_run.c.schedule == schedule, schedule_run.c.root_id.is_not_distinct_from(root_id)
