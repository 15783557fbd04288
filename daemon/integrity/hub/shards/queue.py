"""
The jobs of shared trees: Procrastinate's, in a queue for each tree, taken and kept on behalf of the boxes.

A box never reaches the database. The hub registers each of its workers with Procrastinate, fetches jobs for it and
renews its heartbeat when it calls; a job whose worker is silent for too long is retried. That is the lease.

Every call runs in a transaction of the hub's own (``JobsInTransaction``), so a job changes together with the rows that
it is about, or not at all.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Coroutine, Iterable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple, TypeVar

import sqlalchemy as sa
from procrastinate.jobs import Job, Status
from procrastinate.manager import JobManager
from procrastinate.sync_psycopg_connector import SyncPsycopgConnector

from integrity.hub.database import driver_connection

_TASK = "shard"
_SURVEY = "survey"
_FROM_AT = 1_577_836_800
"""2020-01-01: priorities are numbers of 32 bits, which count seconds from here until 2088."""

_FIRST = 0
"""Priority of new shards, and of those whose worker fell silent."""

T = TypeVar("T")


class ShardJob(NamedTuple):
    """
    A job of a tree.

    Attributes:
        shard_id: None for the survey.
        not_before: when it may be given out at the earliest; of one that is given out: since when, or who waits for it.
    """

    id: int
    shard_id: int | None
    not_before: dt.datetime | None = None

    @property
    def is_wanted(self) -> bool:
        """Whether a command waits for a job that is given out."""
        return self.not_before is not None and self.not_before > dt.datetime.now(dt.UTC)


class JobsInTransaction:
    """
    The jobs of one tree, within a transaction.

    Args:
        c: an open transaction on PostgreSQL.
    """

    def __init__(self, c: sa.Connection, tree_id: int) -> None:
        self._c = c
        self._manager = JobManager(_TransactionConnector(driver_connection(c)))
        self._queue = f"shards:{tree_id}"

    def add_worker(self) -> int:
        """Register a worker; return its number."""
        return _run(self._manager.register_worker())

    def renew(self, worker: int) -> None:
        """Renew the heartbeat of a worker."""
        _run(self._manager.update_heartbeat(worker))

    def add_survey(self) -> None:
        """Add the survey, at once."""
        self._manager.batch_defer_jobs([self._make(_SURVEY, {})])

    def add_shards(self, shard_ids: Iterable[int]) -> dict[int, int]:
        """Add the jobs of new shards, at once; return the number of each shard's job."""
        ids = list(shard_ids)
        made = self._manager.batch_defer_jobs([self._make(f"{_TASK}:{one}", {_TASK: one}) for one in ids])
        return {shard_id: job.id or 0 for shard_id, job in zip(ids, made, strict=True)}

    def take(self, worker: int) -> ShardJob | None:
        """Return the job that a worker has, or else give it the most urgent one; None if there is none now."""
        has = list(_run(self._manager.list_jobs_async(worker_id=worker, status=Status.DOING.value)))
        job = has[0] if has else _run(self._manager.fetch_job([self._queue], worker))
        return None if job is None else _describe(job)

    def take_this(self, worker: int, job_id: int) -> ShardJob | None:
        """Give a worker, which has none, a certain job before its time; None if another worker has it."""
        bumped = self._c.execute(
            sa.text(
                "UPDATE procrastinate_jobs SET priority = 2147483647, scheduled_at = NULL"
                " WHERE id = :id AND status = 'todo'"
            ),
            {"id": job_id},
        )
        return self.take(worker) if bumped.rowcount else None

    def find_held(self, worker: int, job_id: int) -> ShardJob | None:
        """Return a job if the worker has it."""
        has = _run(self._manager.list_jobs_async(id=job_id, worker_id=worker, status=Status.DOING.value))
        return next((_describe(one) for one in has), None)

    def want(self, job_id: int, seconds: float) -> None:
        """Have a job that is given out wait for so long, when it comes back, for who asks for it with ``take_this``."""
        query = "UPDATE procrastinate_jobs SET scheduled_at = now() + make_interval(secs => :s) WHERE id = :id"
        self._c.execute(sa.text(f"{query} AND status = 'doing'"), {"id": job_id, "s": seconds})

    def give_back(self, job: ShardJob, due_at: int) -> None:
        """Let a job that a worker has wait until its next time."""
        at = dt.datetime.fromtimestamp(due_at, dt.UTC)
        if job.not_before is not None and job.is_wanted:
            at = max(at, job.not_before)
        _run(self._manager.retry_job_by_id_async(job.id, at, priority=_priority(due_at)))

    def end(self, job_id: int) -> None:
        """End a job that a worker has: the survey."""
        _run(self._manager.finish_job_by_id_async(job_id, Status.SUCCEEDED, delete_job=True))

    def retry_stalled(self, silent_s: float) -> list[ShardJob]:
        """Take the jobs from workers that were silent for so long; return them."""
        stalled = list(_run(self._manager.get_stalled_jobs(queue=self._queue, seconds_since_heartbeat=silent_s)))
        for job in stalled:
            _run(self._manager.retry_job(job, priority=_FIRST))
        return [_describe(job) for job in stalled]

    def remove_all(self) -> None:
        """Remove the tree's jobs, whoever has them: the tree is forgotten."""
        self._c.execute(sa.text("DELETE FROM procrastinate_jobs WHERE queue_name = :queue"), {"queue": self._queue})

    def _make(self, queueing_lock: str, kwargs: dict[str, Any]) -> Job:
        lock = f"{self._queue}:{queueing_lock}"
        return Job(
            queue=self._queue,
            lock=lock,
            queueing_lock=lock,
            task_name=f"integrity.{_TASK}",
            task_kwargs=kwargs,
        )


def _priority(due_at: int) -> int:
    """Return a priority by which the job that is due first comes first; see ``_FIRST``."""
    return -max(0, due_at - _FROM_AT)


def _describe(job: Job) -> ShardJob:
    shard_id = job.task_kwargs.get(_TASK)
    return ShardJob(job.id or 0, shard_id if isinstance(shard_id, int) else None, job.scheduled_at)


class _TransactionConnector(SyncPsycopgConnector):
    """Run Procrastinate's statements on a connection of the hub, whose transaction is the hub's."""

    def __init__(self, connection: Any) -> None:
        super().__init__()
        self.open(_Borrowed(connection))  # type: ignore[arg-type]  # all of a pool that is used here

    async def execute_query_async(self, query: Any, **arguments: Any) -> None:
        self.execute_query(query, **arguments)

    async def execute_query_one_async(self, query: Any, **arguments: Any) -> dict[str, Any]:
        return self.execute_query_one(query, **arguments)

    async def execute_query_all_async(self, query: Any, **arguments: Any) -> list[dict[str, Any]]:
        return self.execute_query_all(query, **arguments)


class _Borrowed:
    """A pool with one connection, which is somebody else's."""

    def __init__(self, connection: Any) -> None:
        self._connection = connection

    @contextmanager
    def connection(self) -> Iterator[Any]:
        yield self._connection


def _run(call: Coroutine[Any, Any, T]) -> T:
    """Return the result of a coroutine that never waits: all its statements are synchronous."""
    try:
        call.send(None)
    except StopIteration as end:
        return end.value  # type: ignore[no-any-return]  # StopIteration has no type for it
    raise AssertionError("a statement waited")
