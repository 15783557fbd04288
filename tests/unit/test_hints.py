"""Names that events told of are handed out once they are quiet, and never lost."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from integrity.service.watch_thread import DirtyPaths
from support.clock import Clock

ROOT = b"/root"
SETTLE_S = 10.0


def make(most_names: int = 100) -> tuple[DirtyPaths, Clock]:
    clock = Clock(100.0)
    return DirtyPaths(lambda _: SETTLE_S, monotonic=clock, most_names=most_names), clock


def test_names_are_handed_out_once_and_when_their_root_is_quiet():
    """Each new event puts all of them off: files that are written together are looked at together."""
    hints, clock = make()
    assert hints.take(ROOT) is None
    hints.add(ROOT, b"a")
    clock.now += 9
    hints.add(ROOT, b"a")
    hints.add(ROOT, b"b")
    clock.now += 9
    assert hints.take(ROOT) is None
    hints.add(ROOT, b"b")
    clock.now += 9
    assert hints.take(ROOT) is None
    clock.now += 1
    assert hints.take(ROOT) == (b"a", b"b")
    assert hints.take(ROOT) is None


def test_quiet_name_in_a_restless_root():
    """Its turn comes although something else is written all the time."""
    hints, clock = make()
    hints.add(ROOT, b"a")
    taken = []
    for _ in range(110):
        clock.now += 1
        hints.add(ROOT, b"log")
        taken += hints.take(ROOT) or ()
    assert [b"a"] == taken


def test_too_many_names_stand_for_the_root():
    """So does the root's own name, and what the watcher missed."""
    for fill in (
        lambda hints: [hints.add(ROOT, b"%d" % number) for number in range(101)],
        lambda hints: hints.add(ROOT, b""),
        lambda hints: hints.add_whole(ROOT),
    ):
        hints, clock = make()
        fill(hints)
        hints.add(ROOT, b"more")
        assert hints.take(ROOT) is None
        clock.now += SETTLE_S
        assert hints.take(ROOT) == ()
        assert hints.take(ROOT) is None


def test_restless_root_is_looked_at_all_the_same():
    """Something happens every second, and yet the root's turn comes."""
    hints, clock = make()
    hints.add_whole(ROOT)
    taken = []
    for _ in range(250):
        clock.now += 1
        hints.add(ROOT, b"log")
        if hints.take(ROOT) == ():
            taken.append(clock.now)
            hints.add_whole(ROOT)
    assert 2 == len(taken)


def test_what_was_given_back_is_handed_out_again():
    """Names as names, the whole as the whole."""
    hints, clock = make()
    hints.give_back(ROOT, (b"a", b"b"))
    clock.now += SETTLE_S
    assert hints.take(ROOT) == (b"a", b"b")
    hints.give_back(ROOT, ())
    clock.now += SETTLE_S
    assert hints.take(ROOT) == ()


def test_roots_that_are_gone_are_forgotten():
    """Nothing is handed out for them, also not later."""
    hints, clock = make()
    hints.add(ROOT, b"a")
    hints.add(b"/other", b"a")
    hints.keep_only(frozenset({b"/other"}))
    clock.now += SETTLE_S
    assert hints.take(ROOT) is None
    assert hints.take(b"/other") == (b"a",)


@given(st.lists(st.tuples(st.integers(0, 8), st.floats(0, 30)), max_size=60))
def test_nothing_is_lost(events: list[tuple[int, float]]):
    """Whatever came is handed out, as a name or with the root, after its last event."""
    hints, clock = make(most_names=6)
    due: dict[bytes, float] = {}
    for number, wait_s in [*events, (0, 3 * SETTLE_S)]:
        clock.now += wait_s
        taken = hints.take(ROOT)
        if taken is not None:
            for name in taken or tuple(due):
                due.pop(name)
        name = b"%d" % number
        hints.add(ROOT, name)
        due[name] = clock.now
    clock.now += SETTLE_S + 0.001  # sums of such waits are rounded
    taken = hints.take(ROOT)
    assert taken == () or set(taken or ()) == set(due)
