"""The jobs of the hub: the same votes and duties run in the same way, whichever database says what is due."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

import pytest
import sqlalchemy as sa

from integrity.errors import HubDatabaseAway
from integrity.hub import schema
from integrity.hub.check import check_hub
from integrity.hub.database import HubDatabase
from integrity.hub.members import find_changed_sets, find_due_sets, mark_changed
from integrity.hub.votes import VoteResult, record_vote, vote
from integrity.hub.work import HubDuty, HubWork
from support.clock import Clock
from support.hub_reports import NOW
from support.postgres import PostgresServer
from support.waiting import wait_until


class Votes:
    """Counts votes, and can hold or fail them."""

    def __init__(self) -> None:
        self.began: list[int] = []
        self.ended: list[int] = []
        self.may_end = threading.Event()
        self.may_end.set()
        self.errors: list[Exception] = []
        self.failing: set[int] = set()

    def run(self, database: HubDatabase, set_id: int, now: int) -> None:
        with database.read() as c:
            result = vote(c, set_id)
        self.began.append(set_id)
        assert self.may_end.wait(60)
        if self.errors:
            raise self.errors.pop()
        if set_id in self.failing:
            raise ZeroDivisionError("division by zero")
        with database.transaction() as c:
            record_vote(c, set_id, result, now, 0.0)
        self.ended.append(set_id)


@pytest.fixture
def votes() -> Votes:
    return Votes()


@contextmanager
def running(work: HubWork) -> Iterator[None]:
    """Run the worker in a thread with a loop of its own."""
    tasks: list[tuple[asyncio.AbstractEventLoop, asyncio.Task[Any]]] = []

    async def main() -> None:
        task = asyncio.current_task()
        assert task is not None
        tasks.append((asyncio.get_running_loop(), task))
        await work.run()

    def run() -> None:
        with suppress(asyncio.CancelledError):
            asyncio.run(main())

    thread = threading.Thread(target=run)
    thread.start()
    wait_until(lambda: bool(tasks), "the loop")
    try:
        yield
    finally:
        (loop, task), *_ = tasks
        loop.call_soon_threadsafe(task.cancel)
        thread.join(60)
        assert not thread.is_alive()


def add_set(database: HubDatabase, name: str = "photos", *, is_changed: bool = True) -> int:
    """Add a set."""
    with database.transaction() as c:
        set_id = int(c.execute(sa.insert(schema.replica_set).values(name=name, created_at=0)).inserted_primary_key[0])
        mark_changed(c, [set_id] if is_changed else [], NOW)
        return set_id


def queue(database: HubDatabase, work: HubWork, set_id: int) -> None:
    with database.transaction() as c:
        work.queue_votes(c, [set_id])


def make_work(
    database: HubDatabase, votes: Votes, *duties: HubDuty, clock: Callable[[], float] = lambda: NOW
) -> HubWork:
    return HubWork(database, votes.run, duties, clock)


def test_queued_vote_is_run(hub_database: HubDatabase, votes: Votes) -> None:
    """A vote that a transaction queued runs after it."""
    work, set_id = make_work(hub_database, votes), add_set(hub_database, is_changed=False)
    with running(work):
        wait_until(lambda: work.is_running, "the worker")
        votes.ended.clear()
        queue(hub_database, work, set_id)
        wait_until(lambda: set_id in votes.ended, "the vote")


def test_rolled_back_vote_is_not_run(hub_database: HubDatabase, votes: Votes) -> None:
    """A vote goes with the transaction that queued it."""
    work, lost, kept = (
        make_work(hub_database, votes),
        add_set(hub_database, "a", is_changed=False),
        add_set(hub_database, "b", is_changed=False),
    )
    with pytest.raises(ZeroDivisionError), hub_database.transaction() as c:
        raise_after(work.queue_votes(c, [lost]))
    queue(hub_database, work, kept)
    with running(work):
        wait_until(lambda: kept in votes.ended, "the vote")

    assert {kept} == set(votes.ended)  # until it is recorded it is missing: a full minute may queue it again


def raise_after(_: None) -> None:
    raise ZeroDivisionError


def test_many_requests_for_a_vote_are_few_votes(hub_database: HubDatabase, votes: Votes) -> None:
    """However often a vote is queued while one runs, never two of a set run at the same time."""
    work, set_id = make_work(hub_database, votes), add_set(hub_database)
    votes.may_end.clear()
    with running(work):
        wait_until(lambda: len(votes.began) == 1, "the first vote")
        queued = [threading.Thread(target=queue, args=(hub_database, work, set_id)) for _ in range(10)]
        for thread in queued:
            thread.start()
        for thread in queued:
            thread.join()
        began = len(votes.began)
        votes.may_end.set()
        wait_until(lambda: len(votes.ended) >= 2, "the second vote")

    assert 1 == began
    assert len(votes.ended) <= 3  # the second vote is missing until it is recorded: a full minute may queue it again


def test_vote_that_lost_its_database_is_missing_and_no_failure(hub_database: HubDatabase, votes: Votes) -> None:
    """A report that led to it is not forgotten: the set is among those that need a vote."""
    work, set_id = make_work(hub_database, votes), add_set(hub_database, is_changed=False)
    queue(hub_database, work, set_id)
    votes.errors = [HubDatabaseAway("restarted")] * 100  # at a full minute missing votes are queued again
    with running(work):
        wait_until(lambda: len(votes.errors) < 100, "the vote")

    with hub_database.read() as c:
        assert [set_id] == find_changed_sets(c)
    assert [] == check_hub(hub_database, NOW).problems


def test_missing_votes_are_queued_at_the_start(hub_database: HubDatabase, votes: Votes) -> None:
    """Whatever became of the jobs: a set that was reported since its last vote gets one."""
    work, set_id = make_work(hub_database, votes), add_set(hub_database)
    with running(work):
        wait_until(lambda: set_id in votes.ended, "the vote")
    with hub_database.read() as c:
        assert [] == find_changed_sets(c)


def test_vote_begins_when_others_see_the_change(hub_database: HubDatabase, votes: Votes) -> None:
    """A transaction that queues a vote may take its time: the vote sees what it wrote."""
    work, set_id = make_work(hub_database, votes), add_set(hub_database, is_changed=False)
    with running(work):
        wait_until(lambda: work.is_running, "the worker")
        votes.ended.clear()
        with hub_database.transaction() as c:
            work.queue_votes(c, [set_id])
            assert not threading.Event().wait(0.5)
        wait_until(lambda: set_id in votes.ended, "the vote")

    with hub_database.read() as c:
        assert [] == find_changed_sets(c)


def test_change_that_a_running_vote_does_not_see_is_missing(hub_database: HubDatabase, votes: Votes) -> None:
    """Whichever of vote and change is written first, and however the seconds of their clocks fall."""
    work, set_id = make_work(hub_database, votes), add_set(hub_database)
    for is_vote_first in (False, True):
        with hub_database.read() as c:
            result = vote(c, set_id)
        if is_vote_first:
            record(hub_database, set_id, result)
        queue(hub_database, work, set_id)
        if not is_vote_first:
            record(hub_database, set_id, result)
        with hub_database.read() as c:
            assert [set_id] == find_changed_sets(c)


def test_vote_that_saw_less_changes_nothing(hub_database: HubDatabase) -> None:
    """I3: of two votes in the same second, the one that saw more stays."""
    set_id = add_set(hub_database)
    with hub_database.read() as c:
        early = vote(c, set_id)
    with hub_database.transaction() as c:
        mark_changed(c, [set_id], NOW)
    with hub_database.read() as c:
        late = vote(c, set_id)
    record(hub_database, set_id, late)
    record(hub_database, set_id, early._replace(is_waiting=True))

    with hub_database.read() as c:
        assert [] == find_due_sets(c, NOW + 86_400)


def test_set_with_files_left_open_is_due_from_time_to_time(hub_database: HubDatabase) -> None:
    """Nobody notes a change when a box has reported everything, so the vote is repeated."""
    set_id = add_set(hub_database)
    with hub_database.read() as c:
        result = vote(c, set_id)
    record(hub_database, set_id, result._replace(is_waiting=True))
    with hub_database.read() as c:
        assert ([], [set_id]) == (find_due_sets(c, NOW + 100), find_due_sets(c, NOW + 700))


def record(database: HubDatabase, set_id: int, result: VoteResult) -> None:
    with database.transaction() as c:
        record_vote(c, set_id, result, NOW + 100, 0.0)


def test_failed_vote_is_run_again(hub_database: HubDatabase, votes: Votes) -> None:
    """A vote that fails blocks nothing, and is run again at the next change."""
    work, set_id = make_work(hub_database, votes), add_set(hub_database)
    votes.errors = [ZeroDivisionError()]
    with running(work):
        wait_until(lambda: votes.began and not votes.errors, "the failure")
        queue(hub_database, work, set_id)
        wait_until(lambda: set_id in votes.ended, "the next vote")


def test_votes_on_a_full_disk_are_told_and_run_again(hub_url: str, hub_database: HubDatabase, votes: Votes) -> None:
    """W4: when there is room, they are told no more."""
    if not hub_database.is_postgres:
        pytest.skip("disks are filled in PostgreSQL only")
    clock = Clock()
    work, set_id = HubWork(hub_database, votes.run, clock=lambda: NOW, monotonic=clock), add_set(hub_database)
    PostgresServer.fill_disk(hub_url)
    with running(work):
        wait_until(lambda: has_failed(work, clock), "the failure")
        (failing,) = work.parts.find_failing()
        PostgresServer.free_disk(hub_url)
        queue(hub_database, work, set_id)
        wait_until(lambda: not work.parts.find_failing(), "the end of the trouble", timeout_s=60)

    assert "vote" == failing.name
    assert "could not extend file: No space left on device" in failing.text


def has_failed(work: HubWork, clock: Clock) -> bool:
    """Let time pass; return whether something does not work by then."""
    clock.now += 100
    return bool(work.parts.find_failing())


def test_worker_survives_errors_that_nobody_foresaw(hub_database: HubDatabase, votes: Votes) -> None:
    """W4: it is told as long as they last, and ends by itself."""
    clock = Clock()
    work = HubWork(hub_database, votes.run, clock=lambda: NOW, monotonic=clock)
    rename = "ALTER TABLE replica_set RENAME COLUMN {} TO {}"
    set_id = add_set(hub_database)
    with hub_database.transaction() as c:
        c.exec_driver_sql(rename.format("voted_changes", "other"))
    with running(work):
        wait_until(lambda: has_failed(work, clock), "the failure")
        names = [one.name for one in work.parts.find_failing()]
        with hub_database.transaction() as c:
            c.exec_driver_sql(rename.format("other", "voted_changes"))
        wait_until(lambda: set_id in votes.ended, "the vote", timeout_s=60)
        wait_until(lambda: not work.parts.find_failing(), "the end of the trouble")

    assert ["worker"] == names


def test_votes_that_fail_are_told_until_each_set_has_one(hub_database: HubDatabase, votes: Votes) -> None:
    """The vote of another set is no proof that all is well."""
    clock = Clock()
    work = HubWork(hub_database, votes.run, clock=lambda: NOW, monotonic=clock)
    first, second = add_set(hub_database, "a", is_changed=False), add_set(hub_database, "b", is_changed=False)
    with running(work):
        wait_until(lambda: work.is_running, "the worker")
        votes.failing = {first}
        queue(hub_database, work, first)
        wait_until(lambda: first in votes.began, "the failure")
        queue(hub_database, work, second)
        wait_until(lambda: second in votes.ended, "the vote of the other")
        wait_until(lambda: has_failed(work, clock), "the failure to be told")
        failing = work.parts.find_failing()
        votes.failing = set()
        queue(hub_database, work, first)
        wait_until(lambda: not work.parts.find_failing(), "the end of the trouble", timeout_s=60)

    assert [("vote", "division by zero")] == [(one.name, one.reason) for one in failing]


def test_duties_follow_votes(hub_database: HubDatabase, votes: Votes) -> None:
    """Alerts go out after the vote that gives a reason for them, not a minute later."""
    done: list[int] = []
    work = make_work(hub_database, votes, HubDuty("alerts", 86_400, lambda _, now: done.append(len(votes.ended)), True))
    add_set(hub_database)
    with running(work):
        wait_until(lambda: done[-1:] == [1], "the duty")

    assert [1] == done[-1:]
