"""
Let contenders take turns: the first run of each, then the second of each, and so on.

Load from elsewhere comes in bursts. When the runs of one contender follow each other, a burst slows all of them, and no
median helps; when they take turns it slows one run of each, which the median leaves out.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import NamedTuple

from integrity.jobs.bench.measure import Cost, pick_median, repeat_short
from integrity.jobs.bench.rows import Row


class Turn(NamedTuple):
    """
    What one run of a contender gave.

    Args:
        cost: None if it failed: it gets no other turn, and its row no figures.
        create: what creating 1,000 objects took (table ``python``).
        note: what must be known of it; takes the place of the row's.
    """

    cost: Cost | None
    create: Cost | None = None
    note: str = ""


class Contender(NamedTuple):
    """A row that has no figures yet, and what runs it once; None if that can't be done, and the row says why."""

    row: Row
    run: Callable[[], Turn] | None


def enter_short(row: Row, work: Callable[[], object]) -> Contender:
    """Let short work compete: each of its turns is as many executions as can be measured."""
    once = repeat_short(work)
    return Contender(row, lambda: Turn(once()))


def measure_in_turn(contenders: Sequence[Contender], runs: int) -> list[Row]:
    """Measure what is to be held against each other, ``runs`` times each, and make their rows, in the same order."""
    turns: list[list[Turn]] = [[] for _ in contenders]
    for _ in range(runs):
        for (_, run), taken in zip(contenders, turns, strict=True):
            if run is not None and (not taken or taken[-1].cost is not None):
                taken.append(run())
    return [_finish(row, taken) for (row, _), taken in zip(contenders, turns, strict=True)]


def _finish(row: Row, taken: Sequence[Turn]) -> Row:
    if not taken:
        return row
    row = replace(row, note=taken[-1].note or row.note)
    costs = [turn.cost for turn in taken if turn.cost is not None]
    if len(costs) < len(taken):
        return row
    creates = [turn.create for turn in taken if turn.create is not None]
    return replace(row, cost=pick_median(costs), create=pick_median(creates) if creates else None)
