"""Who does which part of what there is to do, and whose turn it is to read: one at a time, by numbers."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

from integrity.hashing.work_queue import ReadTurn, WorkQueue


def test_small_things_are_handed_out_in_order_one_by_one() -> None:
    """Each once, and nothing when all is done."""
    todo: WorkQueue[str] = WorkQueue(2, 4)
    for item in "abc":
        todo.put(item)
    todo.end()

    assert [["a"], ["b"], ["c"], [], []] == [todo.take() for _ in range(5)]


def test_large_files_wait_until_there_are_many() -> None:
    """Small things go first; the largest files first when their time has come."""
    todo: WorkQueue[int] = WorkQueue(1, 4)
    for size in range(15):
        todo.put_large(size, size)
    todo.put(-1)
    assert [-1] == todo.take()
    todo.mark_idle()
    todo.put(-2)
    todo.put_large(15, 15)

    assert [15, 14, 13, 12] == todo.take()
    assert [11, 10] == todo.take_more(2)


def test_few_large_files_do_not_wait_for_ever() -> None:
    """Nothing else comes, and nobody says that it won't: they are begun."""
    todo: WorkQueue[int] = WorkQueue(1, 10)
    for size in range(3):
        todo.put_large(size, size)

    assert [2, 1, 0] == todo.take()


def test_large_files_are_shared_when_nobody_gives_more() -> None:
    """Whoever waits for answers does not wait for more files to come: each idle thread gets its part."""
    todo: WorkQueue[int] = WorkQueue(2, 10)
    for size in range(8):
        todo.put_large(size, size)
    todo.set_flushing(True)

    assert [7, 5, 3, 1] == todo.take()
    assert [6, 4, 2, 0] == todo.take()
    todo.set_flushing(False)
    todo.put_large(1, 1)
    todo.end()
    assert [1] == todo.take()


def test_what_is_taken_back_is_not_handed_out() -> None:
    """Both kinds."""
    todo: WorkQueue[str] = WorkQueue(1, 4)
    todo.put("a")
    todo.put_large("b", 5)

    assert ["a", "b"] == todo.take_back()
    todo.end()
    assert [] == todo.take()


def test_waiting_threads_are_woken() -> None:
    """By something to do, by pressing, and by the end."""
    todo: WorkQueue[int] = WorkQueue(3, 4)
    taken: list[list[int]] = []
    threads = [threading.Thread(target=lambda: taken.append(todo.take() or [])) for _ in range(3)]
    for thread in threads:
        thread.start()
    todo.put(1)
    todo.put_large(2, 2)
    todo.set_flushing(True)
    todo.end()
    for thread in threads:
        thread.join(10)

    assert [[], [1], [2]] == sorted(taken)


def test_numbers_are_let_in_in_order() -> None:
    """However threads arrive, they go in by their numbers, and never two at once."""
    turn = ReadTurn()
    order: list[int] = []
    inside = threading.Semaphore(1)

    def enter(number: int) -> None:
        turn.wait(number)
        assert inside.acquire(blocking=False)
        order.append(number)
        inside.release()
        turn.pass_on(number)

    with ThreadPoolExecutor(20) as pool:
        list(pool.map(enter, reversed(range(20))))

    assert list(range(20)) == order


def test_a_number_may_be_passed_on_before_its_turn() -> None:
    """Who needs no turn holds nobody up."""
    turn = ReadTurn()
    turn.pass_on(1)
    turn.pass_on(2)
    turn.pass_on(0)

    turn.wait(3)


def test_passing_on_twice_lets_nobody_in_early() -> None:
    """A holder that was given up and comes back does not give away the turn of the next."""
    turn = ReadTurn()
    turn.pass_on(0)
    turn.pass_on(0)
    waiter = threading.Thread(target=turn.wait, args=(2,), daemon=True)
    waiter.start()
    waiter.join(0.05)

    assert waiter.is_alive()

    turn.pass_on(1)
    waiter.join(10)
    assert not waiter.is_alive()
