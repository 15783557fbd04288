"""
The jobs of the hub: votes that are due, and duties: what is done every minute or day. Which of its parts do not work.

W1  At most one vote of a set runs at a time in a process. Two processes that vote on one set harm nobody: what the
    earlier one saw never replaces what the later one did (``votes.py``).
W2  Nothing is queued. A change that a vote depends on is noted in the transaction that makes it (``members.py``), and
    that row says that a vote is due, whatever became of this process. A vote that failed is tried again after a minute,
    or at the next change.
W3  A database that does not answer is no failure of a job: what was to be done is done at the next occasion.
W4  Whatever fails, jobs go on. What does not work is noted in ``parts``: jobs that fail or hang, or can't be found.
P1  A part that fails is named once it has failed for longer than its patience: a database that is restarted is no
    trouble, for the jobs run again every minute.
P2  A part that neither fails nor succeeds is named as well, once it is late by far: a job that hangs raises nothing.
"""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from functools import partial
from typing import NamedTuple

import sqlalchemy as sa

from integrity.errors import AppError, HubDatabaseAway, printable
from integrity.hub import members
from integrity.hub.database import HubDatabase, after_commit
from integrity.units import format_duration

_LONGEST_REASON = 300


class FailingPart(NamedTuple):
    """A part that does not work, for how long, and why, if known; ``words``: a clause such as "alerts are not sent"."""

    name: str
    words: str
    lasts_s: int
    reason: str

    @property
    def text(self) -> str:
        reason = f" ({self.reason})" if self.reason else ""
        return f"The hub does not work as it should: {self.words} for {format_duration(self.lasts_s)}{reason}."


@dataclass(frozen=True, slots=True)
class _PartState:
    """``good_at``: when it last worked, or began; ``failed_at``: when it failed first since; None: it has not."""

    words: str
    patience_s: int
    late_s: int | None
    good_at: float
    failed_at: float | None = None
    reason: str = ""


class PartWatch:
    """Notes which parts work. Any thread may use it."""

    def __init__(self, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._monotonic = monotonic
        self._states: dict[str, _PartState] = {}
        self._lock = threading.Lock()

    def add(self, name: str, words: str, *, patience_s: int, late_s: int | None = None) -> None:
        """
        Add a part, which works until the contrary is noted.

        Args:
            patience_s: it may fail for so long (P1).
            late_s: it does not work if nothing was noted for so long (P2); None: it need not do anything.
        """
        with self._lock:
            self._states[name] = _PartState(words, patience_s, late_s, self._monotonic())

    def note_success(self, *names: str) -> None:
        with self._lock:
            for name in names:
                self._states[name] = replace(self._states[name], good_at=self._monotonic(), failed_at=None, reason="")

    def note_failure(self, name: str, error: BaseException) -> None:
        reason = printable(str(error).partition("\n")[0] or type(error).__name__)[:_LONGEST_REASON]
        with self._lock:
            state = self._states[name]
            failed_at = self._monotonic() if state.failed_at is None else state.failed_at
            self._states[name] = replace(state, failed_at=failed_at, reason=reason)

    def find_failing(self) -> list[FailingPart]:
        """Return the parts that do not work, in the order in which they were added."""
        now = self._monotonic()
        with self._lock:
            states = list(self._states.items())
        found = []
        for name, state in states:
            since = state.good_at if state.failed_at is None else state.failed_at
            patience_s = state.late_s if state.failed_at is None else state.patience_s
            if patience_s is not None and now - since > patience_s:
                found.append(FailingPart(name, state.words, int(now - since), state.reason))
        return found


_log = logging.getLogger(__name__)

MINUTE_S = 60
DAY_S = 86_400
_VOTE = "vote"
_WORKER = "worker"
_PATIENCE_S = 150
"""What failed once has a second try within this time."""

_LATE_S = 900
"""A vote of large sets may keep both threads for minutes."""

_AT_ONCE = 2
_RESTART_S = (1.0, 30.0)
_POLL_S = 5.0
"""Commands, and other processes of the hub, make votes due without a word."""


class HubDuty(NamedTuple):
    """
    Something that is done again and again, when the hub starts, and perhaps after each vote.

    Attributes:
        run: does it; gets the database and the time, seconds UTC.
        unless: what is so while it fails, for people.
    """

    name: str
    every_s: int
    run: Callable[[HubDatabase, int], object]
    is_after_votes: bool = False
    unless: str = "some of its jobs were not done"


class _Job(NamedTuple):
    """``key``: what no two jobs may have that run at the same time: the name of a duty, or the number of a set."""

    key: str | int
    run: Callable[[], object]


class HubWork:
    """
    The jobs, and the loop that runs them: votes of a set, by its number and the time, and duties.

    Attributes:
        is_running: jobs are found and run.
        parts: which jobs do not work (W4).
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
        self._duties = {duty: monotonic() for duty in duties}  # when each is due
        self._clock = clock
        self._monotonic = monotonic
        self._loop: asyncio.AbstractEventLoop | None = None
        self._woken = asyncio.Event()
        self._busy: set[str | int] = set()
        self._failed: dict[int, float] = {}  # sets whose vote failed, or runs, and when they are tried again
        self.is_running = False
        self.parts = PartWatch(monotonic)
        what = "no jobs were run, so boxes were neither compared nor checked, and no alerts were sent"
        self.parts.add(_WORKER, what, patience_s=_PATIENCE_S)
        self.parts.add(_VOTE, "a replica set was not compared", patience_s=_PATIENCE_S)
        for duty in duties:
            is_rare = duty.every_s > MINUTE_S
            patience_s, late_s = (2 * duty.every_s, 2 * duty.every_s) if is_rare else (_PATIENCE_S, _LATE_S)
            self.parts.add(duty.name, duty.unless, patience_s=patience_s, late_s=late_s)

    def queue_votes(self, c: sa.Connection, set_ids: Collection[int]) -> None:
        """Make votes due in the transaction that makes them necessary (W2)."""
        members.mark_changed(c, set_ids, int(self._clock()))
        if set_ids:
            after_commit(c, lambda: self._wake(set_ids))

    def _wake(self, set_ids: Collection[int]) -> None:
        for set_id in set_ids:
            self._failed.pop(set_id, None)
        if self._loop is not None:
            with suppress(RuntimeError):  # the loop was closed: the hub ends
                self._loop.call_soon_threadsafe(self._woken.set)

    async def run(self) -> None:
        """Run jobs until it is cancelled. Whatever else happens, it goes on (W4)."""
        self._loop, self._woken = asyncio.get_running_loop(), asyncio.Event()
        free = asyncio.Semaphore(_AT_ONCE)
        wait_s = _RESTART_S[0]
        try:
            async with asyncio.TaskGroup() as jobs:
                while True:
                    await free.acquire()
                    self._woken.clear()
                    try:
                        job = await asyncio.to_thread(self._find_job)
                    except Exception as error:  # noqa: BLE001 - W4
                        free.release()
                        self._note_stopped(error, wait_s)
                        await asyncio.sleep(wait_s)
                        wait_s = min(2 * wait_s, _RESTART_S[1])
                        continue
                    self.is_running, wait_s = True, _RESTART_S[0]
                    if job is not None:
                        self._busy.add(job.key)
                        jobs.create_task(self._do(job, free))
                        continue
                    free.release()
                    with suppress(TimeoutError):  # wait_for of Python 3.11 may lose a cancellation
                        async with asyncio.timeout(_POLL_S):
                            await self._woken.wait()
        finally:
            self.is_running = False

    def _note_stopped(self, error: Exception, wait_s: float) -> None:
        self.is_running = False
        self.parts.note_failure(_WORKER, error.__cause__ or error)
        trace = None if isinstance(error, AppError) else error
        _log.warning("worker_stopped: %s; again in %.0f s", error.__cause__ or error, wait_s, exc_info=trace)

    async def _do(self, job: _Job, free: asyncio.Semaphore) -> None:
        try:
            await asyncio.to_thread(job.run)
        except Exception:  # noqa: BLE001 - W4
            _log.exception("job_failed job=%s", job.key)
        finally:
            self._busy.discard(job.key)
            free.release()
            self._woken.set()

    def _find_job(self) -> _Job | None:
        """Return what is due: duties first, then the vote of the set that waits longest."""
        now = self._monotonic()
        for duty, due_at in self._duties.items():
            if due_at <= now and duty.name not in self._busy:
                self._duties[duty] = now + duty.every_s
                return _Job(duty.name, partial(self.run_duty, duty))
        with self._database.read() as c:
            due = members.find_due_sets(c, int(self._clock()))
        for set_id in self._failed.keys() - set(due):  # forgotten since
            self._failed.pop(set_id, None)
        self.parts.note_success(_WORKER, *(() if self._failed else (_VOTE,)))
        for set_id in due:
            if set_id not in self._busy and self._failed.get(set_id, now) <= now:
                return _Job(set_id, partial(self._run_vote, set_id))
        return None

    def _run_vote(self, set_id: int) -> None:
        self._failed[set_id] = self._monotonic() + MINUTE_S
        with self._noting(_VOTE):
            self._vote(self._database, set_id, int(self._clock()))
            self._failed.pop(set_id, None)
            self._duties.update({duty: self._monotonic() for duty in self._duties if duty.is_after_votes})

    def run_duty(self, duty: HubDuty) -> None:
        """Do something that is due; if it fails, again in a minute."""
        next_at = self._duties[duty]
        self._duties[duty] = min(next_at, self._monotonic() + MINUTE_S)
        with self._noting(duty.name):
            duty.run(self._database, int(self._clock()))
            self._duties[duty] = next_at
            self.parts.note_success(duty.name)

    @contextmanager
    def _noting(self, part: str) -> Iterator[None]:
        """Note that a part fails; that the database is away is no failure of its job (W3)."""
        try:
            yield
        except HubDatabaseAway as error:
            self.parts.note_failure(part, error.__cause__ or error)
            _log.warning("job_postponed part=%s: %s", part, error)
        except BaseException as error:
            self.parts.note_failure(part, error)
            raise
