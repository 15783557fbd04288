"""
The jobs of the hub: votes, and what is due every minute or day. Queue, locks, retries and leases are Procrastinate's.

On PostgreSQL jobs are rows of the same database, so a vote is queued in the transaction that makes it necessary, and
survives everything. With SQLite they live in memory, and each start of the hub queues the votes that are missing.

W1  At most one vote of a set runs, and at most one waits, whatever is queued.
W2  A change that a vote depends on is noted in the transaction that makes it (``due_votes.py``), and each set with a
    change that its last vote did not see gets another one within two minutes, whatever became of its job. Failed jobs
    are not retried as such: one that waits already has the same lock.
W3  What takes the jobs of dead processes back has no lock. If it died itself, its own lock would keep it from ever
    running again, and the jobs that it is there for with it.
W4  A database that does not answer is no failure of a job: what was to be done is done at the next occasion.
W5  The worker is started again whatever ended it. What does not work is noted in ``parts``: a worker that does not run,
    and jobs that fail or hang.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any, NamedTuple

import procrastinate
import psycopg
import sqlalchemy as sa
from procrastinate import exceptions
from procrastinate.jobs import Status
from procrastinate.manager import JobManager
from procrastinate.sync_psycopg_connector import SyncPsycopgConnector
from procrastinate.testing import InMemoryConnector

from integrity.errors import AppError, HubDatabaseAway
from integrity.hub import due_votes
from integrity.hub.database import HubDatabase, after_commit, driver_connection
from integrity.hub.failing_parts import PartWatch

_log = logging.getLogger(__name__)
logging.getLogger("procrastinate").setLevel(logging.WARNING)  # it has four lines for each job

QUEUE = "hub"
"""Of all jobs here. Other modules have queues of their own, whose workers are elsewhere."""

_VOTE = "vote"
_WORKER = "worker"
_EVERY_MINUTE = "* * * * *"
_EVERY_TEN_MINUTES = "*/10 * * * *"
_DAILY = "17 4 * * *"
_KEPT_HOURS = 14 * 24
_PATIENCE_S = 150
"""Jobs run every minute, and missing votes are queued again: what failed once has a second try within this time."""

_LATE_S = 900
"""A vote of large sets may keep both threads for minutes."""

_RARE_LATE_S = 2 * 86_400
"""Of what is due daily."""

_AT_ONCE = 2
_GRACE_S = 10.0
_RESTART_S = (1.0, 30.0)
_POLL_S = 5.0
_FORGOTTEN_S = 86_400.0
"""A worker of a shared tree keeps its registration, and so its shard, while the hub is away for longer than 30 s."""


class HubDuty(NamedTuple):
    """
    Something that is done again and again.

    Attributes:
        name: of the task.
        cron: when.
        run: does it; gets the database and the time, seconds UTC.
        is_after_votes: also after each vote.
        unless: what is so while it fails, for people.
    """

    name: str
    cron: str
    run: Callable[[HubDatabase, int], object]
    is_after_votes: bool = False
    unless: str = "some of its jobs were not done"

    @property
    def is_frequent(self) -> bool:
        """Whether it is done every minute."""
        return self.cron == _EVERY_MINUTE


class HubWork:
    """
    The jobs, and the worker that runs them.

    Args:
        database: of the hub.
        vote: compares the members of a set; gets the database, its number and the time.
        duties: what is due again and again.
        clock: seconds UTC.
        monotonic: seconds, for how long something does not work.

    Attributes:
        is_running: the worker takes jobs.
        parts: which jobs do not work (W5).
    """

    def __init__(
        self,
        database: HubDatabase,
        vote: Callable[[HubDatabase, int, int], object],
        duties: Sequence[HubDuty] = (),
        clock: Callable[[], float] = time.time,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._database = database
        self._vote = vote
        self._duties = duties
        self._clock = clock
        self.is_running = False
        self._loop: asyncio.AbstractEventLoop | None = None
        self._manager = JobManager(SyncPsycopgConnector())
        self.app = procrastinate.App(connector=_make_connector(database))
        self.parts = PartWatch(monotonic)
        self._open_votes: set[int] = set()
        self._add_parts()
        self._add_tasks()

    def _add_parts(self) -> None:
        what = "no jobs were run, so boxes were neither compared nor checked, and no alerts were sent"
        self.parts.add(_WORKER, what, patience_s=_PATIENCE_S)
        self.parts.add(_VOTE, "a replica set was not compared", patience_s=_PATIENCE_S)
        for duty in self._duties:
            patience_s, late_s = (_PATIENCE_S, _LATE_S) if duty.is_frequent else (_RARE_LATE_S, _RARE_LATE_S)
            self.parts.add(duty.name, duty.unless, patience_s=patience_s, late_s=late_s)

    def queue_votes(self, c: sa.Connection, set_ids: Collection[int]) -> None:
        """Queue votes in the transaction that makes them necessary (W2)."""
        due_votes.mark_changed(c, set_ids, int(self._clock()))
        for set_id in set_ids:
            self._queue_vote(c, set_id)

    def _queue_vote(self, c: sa.Connection, set_id: int) -> None:
        """Queue a vote; one that waits already stays (W1)."""
        self._defer(c, _VOTE, f"{_VOTE}:{set_id}", {"set_id": set_id})

    async def run(self) -> None:
        """Run the worker until it is cancelled. Whatever else ends it, it is tried again and again (W5)."""
        self._loop = asyncio.get_running_loop()
        wait_s = _RESTART_S[0]
        while True:
            began_at = self._loop.time()
            try:
                async with self.app.open_async():
                    await asyncio.to_thread(self._queue_at_start)
                    self.is_running = True
                    await self.app.run_worker_async(
                        queues=[QUEUE],
                        concurrency=_AT_ONCE,
                        install_signal_handlers=False,
                        delete_jobs="successful",
                        shutdown_graceful_timeout=_GRACE_S,
                        fetch_job_polling_interval=_POLL_S,
                        stalled_worker_timeout=_FORGOTTEN_S,
                    )
            except Exception as error:  # noqa: BLE001 - W5
                is_known = isinstance(error, exceptions.ProcrastinateException | psycopg.Error | AppError | OSError)
                self.parts.note_failure(_WORKER, error.__cause__ or error)
                wait_s = (
                    _RESTART_S[0] if self._loop.time() - began_at > _RESTART_S[1] else min(2 * wait_s, _RESTART_S[1])
                )
                cause, trace = error.__cause__ or error, None if is_known else error
                _log.warning("worker_stopped: %s; again in %.0f s", cause, wait_s, exc_info=trace)
                await asyncio.sleep(wait_s)
            finally:
                self.is_running = False

    def _add_tasks(self) -> None:
        self._add(self._run_vote, _VOTE)
        for duty in self._duties:
            self._add(_DutyRun(self, duty), duty.name, cron=duty.cron)
        self._add(self._queue_missing_votes, "queue_missing_votes", cron=_EVERY_MINUTE)
        self._add(self._queue_waiting_votes, "queue_waiting_votes", cron=_EVERY_TEN_MINUTES)
        self._add(self._retry_stalled, "retry_stalled", cron=_EVERY_MINUTE, has_lock=False)  # W3
        self._add(self._forget_old, "forget_old_jobs", cron=_DAILY)

    def _add(self, function: Callable[..., Any], name: str, *, cron: str = "", has_lock: bool = True) -> None:
        queueing_lock = name if cron else None
        lock = queueing_lock if has_lock else None
        task = self.app.task(name=name, queue=QUEUE, lock=lock, queueing_lock=queueing_lock)(function)
        if cron:
            self.app.periodic(cron=cron)(task)

    def _run_vote(self, set_id: int) -> None:
        now = int(self._clock())
        self._open_votes.add(set_id)
        with self._noting(_VOTE):
            self._vote(self._database, set_id, now)
            self._open_votes.discard(set_id)
            with self._database.transaction() as c:
                for duty in self._duties:
                    if duty.is_after_votes:
                        self._defer(c, duty.name, duty.name, {"timestamp": now})

    def run_duty(self, duty: HubDuty) -> None:
        """Do something that is due."""
        with self._noting(duty.name):
            duty.run(self._database, int(self._clock()))

    def _queue_at_start(self) -> None:
        with self._database.transaction() as c:
            for set_id in due_votes.find_changed_sets(c):
                self._queue_vote(c, set_id)

    def _queue_missing_votes(self, timestamp: int) -> None:
        """Queue the votes that are missing (W2)."""
        del timestamp
        self._open_votes.intersection_update(self._queue_found(due_votes.find_changed_sets))

    def _queue_waiting_votes(self, timestamp: int) -> None:
        """Queue the votes that had to leave files open."""
        del timestamp
        self._queue_found(due_votes.find_waiting_sets)

    def _queue_found(self, find: Callable[[sa.Connection], list[int]]) -> list[int]:
        found: list[int] = []
        with self._noting(_VOTE), self._database.transaction() as c:
            found += find(c)
            for set_id in found:
                self._queue_vote(c, set_id)
        return found

    async def _retry_stalled(self, timestamp: int) -> None:
        """Take jobs back whose worker died. Its lease is the heartbeat that each worker renews."""
        del timestamp
        with self._noting(_WORKER):
            for job in await self.app.job_manager.get_stalled_jobs(queue=QUEUE):
                _log.warning("job_stalled task=%s: its worker died; it is run again", job.task_name)
                try:
                    await self.app.job_manager.retry_job(job)
                except exceptions.UniqueViolation:  # the same waits already
                    await self.app.job_manager.finish_job(job, Status.FAILED, delete_job=True)

    async def _forget_old(self, timestamp: int) -> None:
        """Delete failed jobs after two weeks."""
        del timestamp
        await self.app.job_manager.delete_old_jobs(nb_hours=_KEPT_HOURS, queue=QUEUE, include_failed=True)

    def _defer(self, c: sa.Connection, name: str, lock: str, values: dict[str, Any]) -> None:
        if not self._database.is_postgres:
            after_commit(c, lambda: self._defer_in_memory(name, lock, values))  # a vote reads beside its writer
            return
        options: Any = {"queue": QUEUE, "lock": lock, "queueing_lock": lock, "connection": driver_connection(c)}
        deferrer = procrastinate.tasks.configure_task(
            name=name, job_manager=self._manager, task_kwargs=values, **options
        )
        # What waits already may begin before this transaction ends, and not see it: then the set stays missing (W2).
        with suppress(exceptions.AlreadyEnqueued), c.begin_nested():
            deferrer.defer()

    def _defer_in_memory(self, name: str, lock: str, values: dict[str, int]) -> None:
        """Queue a job in the loop's thread."""

        async def defer() -> None:
            with suppress(exceptions.AlreadyEnqueued):
                await self.app.configure_task(name, queue=QUEUE, lock=lock, queueing_lock=lock).defer_async(**values)

        if self._loop is not None:
            asyncio.run_coroutine_threadsafe(defer(), self._loop)

    @contextmanager
    def _noting(self, part: str) -> Iterator[None]:
        """Note whether a part works, and with it the worker (W5); that the database is away is no failure (W4)."""
        try:
            yield
        except (HubDatabaseAway, exceptions.ConnectorException) as error:
            self.parts.note_failure(part, error.__cause__ or error)
            _log.warning("job_postponed part=%s: %s", part, error)
        except BaseException as error:
            self.parts.note_failure(part, error)
            raise
        else:
            # A vote that succeeds says nothing of those of other sets that failed.
            self.parts.note_success(_WORKER, *(() if part == _VOTE and self._open_votes else (part,)))


class _DutyRun:
    """A duty as Procrastinate calls it."""

    def __init__(self, work: HubWork, duty: HubDuty) -> None:
        self._work = work
        self._duty = duty

    def __call__(self, timestamp: int) -> None:
        del timestamp
        self._work.run_duty(self._duty)


class MemoryConnector(InMemoryConnector):
    """Procrastinate's queue in memory, without what it keeps for the assertions of tests: a hub runs for months."""

    async def generic_execute(self, query: str, suffix: Any, **arguments: Any) -> Any:
        """Run a query, and forget it."""
        result = await super().generic_execute(query, suffix, **arguments)
        self.queries.clear()
        return result

    async def finish_job_run(self, job_id: int, status: str, delete_job: bool) -> None:
        """End a job, and forget its history with it."""
        await super().finish_job_run(job_id, status, delete_job)
        if delete_job:
            self.events.pop(job_id, None)


def _make_connector(database: HubDatabase) -> Any:
    if not database.is_postgres:
        return MemoryConnector()
    url = database.engine.url.set(drivername="postgresql").render_as_string(hide_password=False)
    return procrastinate.PsycopgConnector(conninfo=url, min_size=1, max_size=4, timeout=10)
