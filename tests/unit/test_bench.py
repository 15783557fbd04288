"""Measuring: what counts as whose cost, which run is the median, what becomes of files."""

from __future__ import annotations

import hashlib
import os
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from integrity.jobs.bench.measure import (
    Contender,
    Cost,
    ProgramResult,
    Row,
    Table,
    Turn,
    hash_file,
    measure,
    measure_in_turn,
    pick_median,
    repeat_short,
    run_program,
)
from integrity.jobs.bench.programs import HASHLIB, OURS, measure_allocation
from integrity.jobs.bench.workspace import describe_file, is_cacheable

BURN = "import time\nwhile time.process_time() < 0.2: pass"


def make_row(what: str, cost: Cost | None, group: str = "a") -> Row:
    return Row(table=Table.LARGE, group=group, what=what, size_bytes=1 << 29, cost=cost)


def test_median_is_one_of_the_runs() -> None:
    """The three parts of a figure belong to one run; of an even number it is the lower of the middle two."""
    runs = [Cost(5, 1, 0), Cost(1, 9, 9), Cost(3, 2, 1), Cost(4, 0, 0)]

    assert Cost(3, 2, 1) == pick_median(runs)
    assert Cost(4, 0, 0) == pick_median([*runs, Cost(9, 9, 9)])


def test_contenders_take_turns() -> None:
    """All have their first run before any has its second; who can't run, or failed, stands aside."""
    calls: list[str] = []

    def enter(what: str, *turns: Turn) -> Contender:
        coming = iter(turns)

        def run() -> Turn:
            calls.append(what)
            return next(coming)

        return Contender(make_row(what, None), run)

    contenders = [
        enter("a", Turn(Cost(3, 1, 0)), Turn(Cost(9, 0, 0)), Turn(Cost(4, 2, 0), note="loud")),
        Contender(replace(make_row("missing", None), note="not installed"), None),
        enter("broken", Turn(Cost(1, 0, 0)), Turn(None, note="failed")),
        enter("b", *(Turn(Cost(wall_s, 0, 0), create=Cost(9 - wall_s, 0, 0)) for wall_s in (1, 3, 2))),
    ]
    rows = measure_in_turn(contenders, 3)

    assert ["a", "broken", "b", "a", "broken", "b", "a", "b"] == calls
    assert [
        ("a", Cost(4, 2, 0), None, "loud"),
        ("missing", None, None, "not installed"),
        ("broken", None, None, "failed"),
        ("b", Cost(2, 0, 0), Cost(7, 0, 0), ""),
    ] == [(row.what, row.cost, row.create, row.note) for row in rows]


def test_cost_of_a_program_is_its_own() -> None:
    """CPU time of a child counts for the child, and not for this process."""
    ends: list[ProgramResult] = []

    own = measure(lambda: ends.append(run_program([sys.executable, "-I", "-S", "-c", BURN])))

    assert ends[0].cost.cpu_s >= 0.2
    assert ends[0].cost.wall_s >= 0.2
    assert own.wall_s >= ends[0].cost.wall_s
    assert own.cpu_s < 0.2


def test_grandchildren_count() -> None:
    """What a program's children cost is its cost, when it waited for them: find runs md5sum."""
    program = f"import subprocess, sys; subprocess.run([sys.executable, '-I', '-S', '-c', {BURN!r}])"

    assert run_program([sys.executable, "-I", "-S", "-c", program]).cost.cpu_s >= 0.2


def test_short_work_is_measured_by_repeating() -> None:
    """The figure is that of one execution, however often it was done."""
    calls: list[None] = []

    once = repeat_short(lambda: calls.append(None))
    before = len(calls)
    cost = once()

    assert len(calls) - before > 1000
    assert 0 < cost.wall_s < 0.01 / 1000


def test_memory_of_openssl_is_seen() -> None:
    """The figure of hashlib holds what Python knows of, and the state that OpenSSL keeps besides."""
    visible = sys.getsizeof(hashlib.md5()) + sys.getsizeof(bytes(16))
    figure = measure_allocation(HASHLIB, 64)
    if figure is None:
        pytest.skip("the C library has no mallinfo2")

    assert figure >= visible + 92  # MD5_CTX: 4 words, a count of 2, a block of 64 bytes, a number


def test_memory_of_an_object_does_not_depend_on_the_message() -> None:
    """A message of more than two pages is not kept itself."""
    figures = [measure_allocation(OURS, size) for size in (10_000, 100_000)]
    if None in figures:
        pytest.skip("the C library has no mallinfo2")

    assert figures[0] == pytest.approx(figures[1], abs=8)


def test_file_is_hashed_whole(tmp_path: Path) -> None:
    """All of the file goes through the hasher, in order."""
    content = os.urandom((2 << 20) + 77)
    (tmp_path / "x").write_bytes(content)
    made = []

    def make() -> object:
        made.append(hashlib.sha256())
        return made[-1]

    turn = hash_file(os.fsencode(tmp_path / "x"), make)

    assert [hashlib.sha256(content).digest()] == [each.digest() for each in made]
    assert turn.cost is not None
    assert turn.cost.wall_s > 0


def test_memory_decides_what_can_be_cached() -> None:
    """A file that is larger than all memory is not measured as if it came from there."""
    assert is_cacheable(1)
    assert not is_cacheable(1 << 60)
    assert describe_file(1 << 60).endswith(", more than fits into memory: the disk is measured as well")
