"""One at a time, in the order of the numbers."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

from integrity.hashing.work_queue import ReadTurn


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
