"""
Boots of the machine and mounts of file systems: whether one may have crashed since a file was last intact (R2).

A row without a file system stands for a boot as a whole, any other for one mount of one file system in a boot. Rows are
numbered in the order they were seen. A file refers to the newest row of any kind when it was verified, so one number
for a whole run says in which boot, and in which mount of each file system, that was.

I1  A row that has a successor (the next boot, the next mount of the same file system) and no mark of a clean end may
    have ended in a crash.
I2  A mark is set when the machine goes down in order, on what was mounted then. It is taken back when the boot or the
    mount goes on, and when the file system was mounted by somebody else before it was seen again.

Runs: what was done when, what it covered and how it ended (R8).

When schedules were begun: what must outlast the daemon, so that it can tell what it missed (R8).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import asdict, dataclass, fields
from itertools import pairwise
from typing import Any, NamedTuple, NewType

import sqlalchemy as sa

from integrity.catalog.row_seals import check_seals, select_sealed
from integrity.catalog.rows import read_optional_word, read_word
from integrity.catalog.schema import boot, file, run, schedule_run
from integrity.model import Job, Outcome, RootId, RunCounts, RunId


class MountSeen(NamedTuple):
    """A mount of a file system that a run works on."""

    fs_id: str  # name of the file system
    mount: str  # which mount of it in this boot; empty if that can't be told
    mount_count: int | None  # how often it was mounted for writing, if it says so


class Interruption(NamedTuple):
    """What may have been a crash."""

    is_of_machine: bool  # the machine was started again; else the file system alone was mounted again
    seen_at: int | None  # when a run first met what came after it; None: nothing is known


def ensure_boot(c: sa.Connection, uuid: str, now: int) -> int:
    """
    Get the number of the boot that the machine is in, writing it down if it is new.

    Clean-stop marks in it are taken back: whoever set them was wrong about the end, since a program of ours runs again.
    """
    row = c.execute(sa.select(boot).where(boot.c.uuid == uuid, boot.c.fs_id == "")).one_or_none()
    if row is None:
        return _insert(c, uuid, MountSeen("", "", None), now)
    if row.stopped_cleanly_at is not None:
        c.execute(sa.update(boot).where(boot.c.uuid == uuid).values(stopped_cleanly_at=None))
    return int(row.id)


def ensure_mounts(c: sa.Connection, uuid: str, mounts: Iterable[MountSeen], now: int) -> int:
    """
    Write down which mounts a run works on, where they are new; return the number of the newest row.

    Args:
        c: in a transaction.
        uuid: of the running boot.
        mounts: of the run's root, and of what is mounted inside it.
        now: the time.
    """
    ensure_boot(c, uuid, now)
    for seen in mounts:
        _ensure_mount(c, uuid, seen, now)
    return int(c.execute(sa.select(sa.func.max(boot.c.id))).scalar_one())


def find_last_mounts(c: sa.Connection, uuid: str) -> dict[int, str]:
    """List the numbers of the mounts that were last seen of each file system, if that was in this boot."""
    last = sa.select(sa.func.max(boot.c.id)).where(boot.c.fs_id != "").group_by(boot.c.fs_id)
    query = sa.select(boot.c.id, boot.c.mount).where(boot.c.id.in_(last), boot.c.uuid == uuid)
    return {row.id: row.mount for row in c.execute(query)}


def mark_clean_stop(c: sa.Connection, uuid: str, now: int, mounts: Collection[int] = ()) -> None:
    """
    Write down that the boot ends in order: all that was written to files has reached the disk.

    ``mounts``: numbers of those that are still there: the end of the boot ends them, too.
    """
    rows = c.execute(sa.select(boot.c.id).where(boot.c.uuid == uuid, boot.c.fs_id == "")).scalars()
    _set_mark(c, [*rows, *mounts], now)


def rename_file_system(c: sa.Connection, old: str, new: str) -> None:
    """Follow a file system of which a surer name is known."""
    c.execute(sa.update(boot).where(boot.c.fs_id == old).values(fs_id=new))


def find_interruption(c: sa.Connection, boot_id: int | None, fs_id: str) -> Interruption | None:
    """
    Find what may have been a crash of a file system since a file on it was last found intact; None if nothing was.

    Args:
        c: a connection; the running boot and the present mount have been written down.
        boot_id: what the file refers to; without it nothing is known, so anything may have happened.
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
    for row in known:  # mostly the last; not if two programs see different boots, as in containers
        is_same = row.mount == seen.mount or (row is last and "" in (row.mount, seen.mount))
        if row.uuid == uuid and is_same:
            if seen.mount_count not in (None, row.mount_count):
                c.execute(sa.update(boot).where(boot.c.id == row.id).values(mount_count=seen.mount_count))
            return
    if last is not None and _was_mounted_between(last.mount_count, seen.mount_count):
        _set_mark(c, [last.id], None)
    _insert(c, uuid, seen, now)


def _was_mounted_between(before: int | None, count: int | None) -> bool:
    """Say whether somebody else mounted a file system. A full check (fsck) begins the count anew: it had a reason."""
    return before is not None and count is not None and count not in (before, before + 1)  # the same: read-only now


def _insert(c: sa.Connection, uuid: str, seen: MountSeen, now: int) -> int:
    key = c.execute(sa.insert(boot).values(uuid=uuid, **seen._asdict(), first_seen_at=now)).inserted_primary_key
    assert key is not None
    return int(key[0])


def _set_mark(c: sa.Connection, ids: Collection[int], at: int | None) -> None:
    c.execute(sa.update(boot).where(boot.c.id.in_(ids)).values(stopped_cleanly_at=at))


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


ScheduleRunId = NewType("ScheduleRunId", int)

_KEPT_S = 400 * 86_400


class Unfinished(NamedTuple):
    """A run of a schedule of which no end is written down: it goes on, or was interrupted and is to go on."""

    id: ScheduleRunId
    started_at: int


def note_started(
    c: sa.Connection, schedule: str, root_id: RootId | None, *, due_at: int | None, now: int
) -> ScheduleRunId:
    """
    Write down that what a schedule asks for is begun; what is older than a year is forgotten.

    Args:
        c: in a transaction.
        schedule: its name, as in the config: scan, scrub, compare.
        root_id: the root; None: all of them.
        due_at: when it should have begun; None: somebody asked for it.
        now: the time.
    """
    c.execute(sa.delete(schedule_run).where(*_of(schedule, root_id), schedule_run.c.started_at < now - _KEPT_S))
    values = {"schedule": schedule, "root_id": root_id, "due_at": due_at, "started_at": now}
    key = c.execute(sa.insert(schedule_run).values(**values)).inserted_primary_key
    assert key is not None
    return ScheduleRunId(key[0])


def note_finished(c: sa.Connection, run_id: ScheduleRunId, outcome: str, *, now: int) -> None:
    """Write down how it ended."""
    values = {"finished_at": now, "outcome": outcome}
    c.execute(sa.update(schedule_run).where(schedule_run.c.id == run_id).values(**values))


def last_started(c: sa.Connection, schedule: str, root_id: RootId | None = None) -> int | None:
    """Tell when a schedule was last begun for a root (None: for all of them); None: never."""
    started_at: int | None = c.execute(
        sa.select(sa.func.max(schedule_run.c.started_at)).where(*_of(schedule, root_id))
    ).scalar_one()
    return started_at


def find_unfinished(c: sa.Connection, schedule: str, root_id: RootId | None = None) -> Unfinished | None:
    """Find the newest run of a schedule, if its end is not written down."""
    newest = sa.select(schedule_run).where(*_of(schedule, root_id))
    row = c.execute(newest.order_by(schedule_run.c.started_at.desc(), schedule_run.c.id.desc()).limit(1)).one_or_none()
    return None if row is None or row.finished_at is not None else Unfinished(row.id, row.started_at)


def _of(schedule: str, root_id: RootId | None) -> tuple[sa.ColumnElement[bool], ...]:
    return schedule_run.c.schedule == schedule, schedule_run.c.root_id.is_not_distinct_from(root_id)
