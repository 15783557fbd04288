"""
Runs of jobs and of schedules, with results and coverage (R8); the boots and mounts they ran in (R2); people's actions.

Boots and mounts show whether a file system may have crashed since a file was last intact. A row of ``boot`` without a
file system is a boot of the machine; any other is one mount of one file system in a boot. Ids are in the order in which
rows were first seen. A verified file refers to the newest row, so one id identifies the boot and the mount of each file
system. An action is recorded in the transaction of the change that it describes, and outlives roots and findings.

I1  A row with a successor (the next boot, or the next mount of the same file system) and without a clean-stop mark may
    have ended in a crash.
I2  A clean shutdown sets the mark on the boot and its mounts. The mark is removed when the boot or the mount continues,
    or when another system mounted the file system before it was seen again.
"""

from collections.abc import Collection, Iterable
from dataclasses import astuple, fields
from itertools import pairwise
from typing import Any, NamedTuple, NewType

from integrity.catalog.db import Connection, numbers
from integrity.catalog.rows import given, is_outdated, read_numbers, read_optional_word, read_word
from integrity.model import ActionVerb, Actor, FindingId, Job, Outcome, RootId, RunCounts, RunId


class MountSeen(NamedTuple):
    """A mount of a file system that a run works on."""

    fs_id: str  # name of the file system
    mount: str  # which mount of it in this boot; empty: unknown
    mount_count: int | None  # number of mounts for writing, if the file system counts them


class Interruption(NamedTuple):
    """A possible crash."""

    is_of_machine: bool  # the machine was rebooted; otherwise the file system was mounted again
    seen_at: int | None  # when a run first saw the next boot or mount; None: unknown


class _Boot(NamedTuple):
    id: int
    uuid: str
    fs_id: str
    mount: str
    mount_count: int | None
    first_seen_at: int
    stopped_cleanly_at: int | None


_BOOTS = f"SELECT {', '.join(_Boot._fields)} FROM boot"


def ensure_boot(c: Connection, uuid: str, now: int) -> int:
    """Return the id of the running boot, recording it if it is new; its clean-stop marks were premature."""
    known = c.one(_Boot, f"{_BOOTS} WHERE uuid = ? AND fs_id = ''", uuid)
    if known is None:
        return _insert(c, uuid, MountSeen("", "", None), now)
    if known.stopped_cleanly_at is not None:
        c.run("UPDATE boot SET stopped_cleanly_at = NULL WHERE uuid = ?", uuid)
    return known.id


def ensure_mounts(c: Connection, uuid: str, mounts: Iterable[MountSeen], now: int) -> int:
    """Record the mounts that a run in this boot works on; return the id of the newest boot row."""
    ensure_boot(c, uuid, now)
    for seen in mounts:
        _ensure_mount(c, uuid, seen, now)
    return c.value("SELECT max(id) FROM boot")


def find_last_mounts(c: Connection, uuid: str) -> dict[int, str]:
    """Return the last mount of each file system that was last seen in this boot: row id and mount."""
    last = "SELECT max(id) FROM boot WHERE fs_id != '' GROUP BY fs_id"
    return {one.id: one.mount for one in c.all(_Boot, f"{_BOOTS} WHERE uuid = ? AND id IN ({last})", uuid)}


def mark_clean_stop(c: Connection, uuid: str, now: int, mounts: Collection[int] = ()) -> None:
    """Record that the boot ends, and its ``mounts`` with it: all file data has reached the disk."""
    query = """
        UPDATE boot SET stopped_cleanly_at = ?
        WHERE (uuid = ? AND fs_id = '') OR id IN (SELECT value FROM json_each(?))"""
    c.run(query, now, uuid, numbers(mounts))


def rename_file_system(c: Connection, old: str, new: str) -> None:
    """Rename a file system in all rows, when a more reliable id of it is known."""
    c.run("UPDATE boot SET fs_id = ? WHERE fs_id = ?", new, old)


def find_interruption(c: Connection, boot_id: int | None, fs_id: str) -> Interruption | None:
    """Return a possible crash of a file system since the boot or mount ``boot_id``; None there: unknown, possible."""
    if boot_id is None:
        return Interruption(is_of_machine=True, seen_at=None)
    for chain in ("", fs_id):
        own = c.all(_Boot, f"{_BOOTS} WHERE fs_id = ? ORDER BY id", chain)
        begin = max((one.id for one in own if one.id <= boot_id), default=0)
        for ended, following in pairwise(one for one in own if one.id >= begin):
            if ended.stopped_cleanly_at is None:
                return Interruption(chain == "", following.first_seen_at)
    return None


def _ensure_mount(c: Connection, uuid: str, seen: MountSeen, now: int) -> None:
    known = c.all(_Boot, f"{_BOOTS} WHERE fs_id = ? ORDER BY id DESC", seen.fs_id)
    for one in known:  # usually the last row, except when programs see different boots, as in containers
        is_same = one.mount == seen.mount or (one is known[0] and "" in (one.mount, seen.mount))
        if one.uuid == uuid and is_same:
            if seen.mount_count not in (None, one.mount_count):
                c.run("UPDATE boot SET mount_count = ? WHERE id = ?", seen.mount_count, one.id)
            return
    before, count = known[0].mount_count if known else None, seen.mount_count
    # Unchanged: mounted read-only. Another system mounted it, or a full fsck, which has a cause, reset its count.
    if before is not None and count is not None and count not in (before, before + 1):
        c.run("UPDATE boot SET stopped_cleanly_at = NULL WHERE id = ?", known[0].id)
    _insert(c, uuid, seen, now)


def _insert(c: Connection, uuid: str, seen: MountSeen, now: int) -> int:
    return c.insert(
        "INSERT INTO boot (uuid, fs_id, mount, mount_count, first_seen_at) VALUES (?, ?, ?, ?, ?)", uuid, *seen, now
    )


class RunRecord(NamedTuple):
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


_COUNTS = tuple(field.name for field in fields(RunCounts))
_RUNS = f"""
SELECT id, root_id, job, started_at, finished_at, outcome, boot_id, pid, duration_s, error, {", ".join(_COUNTS)}
FROM run"""


def start_run(
    c: Connection, root_id: RootId, job: Job, *, now: int, boot_id: int, pid: int, copy: str | None = None
) -> RunId:
    """Record the start of a run; ``copy``: name of the copy that it compares."""
    query = f"""
        INSERT INTO run (root_id, job, started_at, boot_id, pid, copy, {", ".join(_COUNTS)})
        VALUES (?, ?, ?, ?, ?, ?{", 0" * len(_COUNTS)})"""
    return RunId(c.insert(query, root_id, job, now, boot_id, pid, copy))


def finish_run(
    c: Connection,
    run_id: RunId,
    outcome: Outcome,
    counts: RunCounts,
    *,
    now: int,
    duration_s: float,
    error: str | None = None,
) -> None:
    """Record the result of a run, and the highest file id at its end: files with higher ids came later."""
    query = f"""
        UPDATE run SET {", ".join(f"{name} = ?" for name in _COUNTS)}, finished_at = ?, outcome = ?, duration_s = ?,
            error = ?, last_file_id = (SELECT coalesce(max(id), 0) FROM file)
        WHERE id = ?"""
    c.run(query, *astuple(counts), now, outcome, duration_s, error, run_id)


def find_runs(
    c: Connection, root_id: RootId | None, limit: int, *, before: RunId | None = None, job: Job | None = None
) -> list[RunRecord]:
    """Return runs, the newest first; ``before``: the id where the page before ended; None: from the newest on."""
    matching, values = given({"id < ?": before, "root_id = ?": root_id, "job = ?": job})
    return c.all(_to_record, f"{_RUNS} WHERE {matching} ORDER BY id DESC LIMIT ?", *values, limit)


def get_run(c: Connection, run_id: RunId) -> RunRecord | None:
    """Return a run; None if there is none with this number."""
    return c.one(_to_record, f"{_RUNS} WHERE id = ?", run_id)


class ReadAt(NamedTuple):
    """What a finished run read, and when it ended: seconds UTC."""

    finished_at: int
    bytes_read: int


def find_reads(c: Connection, job: Job, since: int, root_id: RootId | None = None) -> list[ReadAt]:
    """Return what the finished runs of a job read since a time, oldest first."""
    matching, values = given({"job = ?": job, "finished_at >= ?": since, "root_id = ?": root_id})
    return c.all(ReadAt, f"SELECT finished_at, bytes_read FROM run WHERE {matching} ORDER BY finished_at", *values)


def find_last_runs(c: Connection) -> dict[tuple[RootId, str, str], int]:
    """Return when the last run of each root, job, and outcome ended."""
    query = """
        SELECT root_id, job, outcome, max(finished_at) FROM run WHERE outcome IS NOT NULL
        GROUP BY root_id, job, outcome ORDER BY root_id, job, outcome"""
    return {tuple(key): finished_at for *key, finished_at in c.rows(query)}


def sum_read(c: Connection) -> dict[tuple[RootId, str], int]:
    """Return the bytes that all runs of a job read, by root and job."""
    rows = c.rows("SELECT root_id, job, sum(bytes_read) FROM run GROUP BY root_id, job")
    return {(root_id, job): size for root_id, job, size in rows}


def get_start(c: Connection, run_id: RunId) -> int:
    """Return when a run started."""
    return c.value("SELECT started_at FROM run WHERE id = ?", run_id)


def get_last_file_before(c: Connection, root_id: RootId, run_id: RunId) -> int:
    """Return the highest file id at the end of the root's runs that started before this one; 0: there are none."""
    return int(c.value("SELECT max(last_file_id) FROM run WHERE root_id = ? AND id < ?", root_id, run_id) or 0)


def close_dead_runs(c: Connection, root_id: RootId, now: int) -> list[RunId]:
    """
    Mark the unfinished runs of a root as interrupted; return their ids.

    The caller holds the root's lock and has not started its own run yet, so the processes of these runs are gone.
    Looking up their pids is less reliable: pids are reused, and those of another container mean nothing here.
    """
    query = """
        UPDATE run SET finished_at = ?, outcome = 'interrupted'
        WHERE root_id = ? AND finished_at IS NULL RETURNING id"""
    return sorted(c.column(query, now, root_id))


def _to_record(*columns: Any) -> RunRecord:
    number, root_id, job, started_at, finished_at, outcome, boot_id, pid, duration_s, error, *counts = columns
    return RunRecord(
        *(number, root_id, read_word(Job, job), started_at, finished_at, read_optional_word(Outcome, outcome)),
        *(boot_id, pid, RunCounts(*counts), duration_s, error),
    )


ScheduleRunId = NewType("ScheduleRunId", int)

_KEPT_DAYS = 400


class Unfinished(NamedTuple):
    """A schedule's run without a recorded end: it is running, or was interrupted and must be resumed."""

    id: ScheduleRunId
    started_at: int


def note_started(
    c: Connection, schedule: str, root_id: RootId | None, *, due_at: int | None, now: int
) -> ScheduleRunId:
    """Record the start of a scheduled run; delete entries of this schedule and root older than 400 days."""
    is_old = is_outdated(c, "started_at", _KEPT_DAYS, now)
    c.run(f"DELETE FROM schedule_run WHERE schedule = ? AND root_id IS ? AND {is_old}", schedule, root_id)
    query = "INSERT INTO schedule_run (schedule, root_id, due_at, started_at) VALUES (?, ?, ?, ?)"
    return ScheduleRunId(c.insert(query, schedule, root_id, due_at, now))


def note_finished(c: Connection, run_id: ScheduleRunId, outcome: str, *, now: int) -> None:
    """Record how a scheduled run ended."""
    c.run("UPDATE schedule_run SET finished_at = ?, outcome = ? WHERE id = ?", now, outcome, run_id)


def last_started(c: Connection, schedule: str, root_id: RootId | None = None) -> int | None:
    """Return when a schedule last started for a root (None: for all roots); None: never."""
    return c.value("SELECT max(started_at) FROM schedule_run WHERE schedule = ? AND root_id IS ?", schedule, root_id)


def find_unfinished(c: Connection, schedule: str, root_id: RootId | None = None) -> Unfinished | None:
    """Return the newest run of a schedule, if its end is not recorded."""
    query = """
        SELECT id, started_at, finished_at FROM schedule_run WHERE schedule = ? AND root_id IS ?
        ORDER BY started_at DESC, id DESC LIMIT 1"""
    row = c.row(query, schedule, root_id)
    return None if row is None or row[2] is not None else Unfinished(ScheduleRunId(row[0]), row[1])


class Action(NamedTuple):
    """An action to record."""

    actor: Actor
    verb: ActionVerb
    outcome: str  # what was done, for people
    root: bytes | None = None  # absolute path of its root; None if it concerned none
    path: bytes | None = None  # relative to the root; None if it concerned the whole root, or none
    findings: tuple[FindingId, ...] = ()  # that it concerned
    reason: str = ""  # as the person gave it; empty if none was asked for


class ActionRecord(NamedTuple):
    """A recorded action. ``at``: seconds UTC."""

    id: int
    at: int
    action: Action


_ACTIONS = "SELECT id, at, who, address, verb, outcome, root, path, findings, reason FROM action"


def record_action(c: Connection, done: Action, now: int) -> None:
    """Record an action."""
    c.run(
        "INSERT INTO action (at, who, address, verb, root, path, findings, reason, outcome) VALUES (?,?,?,?,?,?,?,?,?)",
        *(now, _encode(done.actor.who), _encode(done.actor.address), done.verb, done.root, done.path or None),
        *(numbers(done.findings), _encode(done.reason), _encode(done.outcome)),
    )


def find_actions(c: Connection, *, before: int | None = None, limit: int = 100) -> list[ActionRecord]:
    """Return the newest actions, newest first; ``before``: number of the last action of the page before."""
    is_before, values = given({"id < ?": before})
    return c.all(_to_action, f"{_ACTIONS} WHERE {is_before} ORDER BY id DESC LIMIT ?", *values, limit)


def get_actions(c: Connection, ids: Collection[int]) -> list[ActionRecord]:
    """Return actions by their numbers, without those that do not exist."""
    return c.all(_to_action, f"{_ACTIONS} WHERE id IN (SELECT value FROM json_each(?)) ORDER BY id", numbers(ids))


def _encode(text: str) -> str:
    """Return text that SQLite can store: undecodable bytes of a command line are escaped."""
    return text.encode("utf-8", "backslashreplace").decode()


def _to_action(number: int, at: int, who: str, address: str, verb: str, *rest: Any) -> ActionRecord:
    outcome, root, path, findings, reason = rest
    known = tuple(map(FindingId, read_numbers(findings)))
    return ActionRecord(
        *(number, at, Action(Actor(who, address), read_word(ActionVerb, verb), outcome, root, path, known, reason))
    )
