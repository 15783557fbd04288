"""The geometry of the page's drawings: everything has its place, nothing lies upon something else."""

from __future__ import annotations

from datetime import date, timedelta
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from integrity.web.drawings import (
    BlockState,
    DayRecord,
    layout_bar,
    layout_bars,
    layout_blocks,
    layout_timeline,
    layout_tree_map,
)

CLASSES = ("problem", "overdue", "never")
SIZES = st.lists(st.integers(1, 1 << 50), min_size=1, max_size=60).map(lambda sizes: sorted(sizes, reverse=True))


@given(st.lists(st.integers(0, 1 << 60), max_size=8))
def test_bar_is_full_and_shows_every_part(amounts: list[int]) -> None:
    """Its parts touch, fill it, and none is too thin to be seen; what is nothing is left out."""
    parts = layout_bar([("day", str(amount), amount) for amount in amounts])

    assert [str(amount) for amount in amounts if amount] == [part.label for part in parts]
    if parts:
        assert 1000 == pytest.approx(sum(part.width for part in parts), abs=0.1)
        assert all(part.width >= 3.8 for part in parts)
    for before, after in pairwise(parts):
        assert after.x == pytest.approx(before.x + before.width, abs=0.02)


@given(st.integers(1, 1 << 40), st.dictionaries(st.integers(0, 1 << 40), st.sampled_from(BlockState), max_size=20))
def test_map_of_blocks_shows_the_worst_of_each_cell(count: int, states: dict[int, BlockState]) -> None:
    """Every block lies in one cell; there are never too many cells; no damage is hidden by intact neighbours."""
    found = layout_blocks(count, states)

    assert 1 <= len(found.cells) <= 2048
    assert [0, *(cell.last + 1 for cell in found.cells)] == [*(cell.first for cell in found.cells), count]
    assert len({(cell.x, cell.y) for cell in found.cells}) == len(found.cells)
    assert all(cell.x < found.columns and cell.y < found.rows for cell in found.cells)
    order = list(BlockState)
    for block, state in states.items():
        if block < count:
            assert order.index(found.cells[block // found.blocks_per_cell].state) >= order.index(state)
    if not {block for block in states if block < count}:
        assert {BlockState.INTACT} == {cell.state for cell in found.cells}


@given(SIZES)
def test_tree_map_fills_its_rectangle(sizes: list[int]) -> None:
    """Each tile has its share of the area, lies inside, and upon no other."""
    tiles = layout_tree_map([float(size) for size in sizes], 1000, 360)
    total = sum(sizes)

    assert list(range(len(sizes))) == [tile.number for tile in tiles]
    for tile in tiles:
        assert tile.width * tile.height == pytest.approx(360_000 * sizes[tile.number] / total, rel=1e-6, abs=1e-6)
        assert -1e-3 <= tile.x <= tile.x + tile.width <= 1000 + 1e-3
        assert -1e-3 <= tile.y <= tile.y + tile.height <= 360 + 1e-3
    for one in tiles:
        for other in tiles[one.number + 1 :]:
            across = min(one.x + one.width, other.x + other.width) - max(one.x, other.x)
            down = min(one.y + one.height, other.y + other.height) - max(one.y, other.y)
            assert across < 1e-3 or down < 1e-3


@given(st.lists(st.tuples(st.integers(0, 1 << 50), st.integers(0, 3), st.integers(0, 3), st.booleans()), max_size=90))
def test_timeline_shows_each_day_in_its_lanes(values: list[tuple[int, int, int, bool]]) -> None:
    """A bar for what was verified, higher for more; a mark for findings, and one for a disk that was away."""
    days = [
        DayRecord(date(2026, 1, 1) + timedelta(days=number), verified, problems, gaps, 0, is_away)
        for number, (verified, problems, gaps, is_away) in enumerate(values)
    ]
    drawing = layout_timeline(days)
    verified = [one for one in drawing.bars if one.css_class in ("day", "nothing")]
    of_days = {css_class: [one.day for one in drawing.bars if one.css_class == css_class] for css_class in CLASSES}

    assert days == [one.day for one in verified]
    assert [one for one in days if one.problems] == of_days["problem"]
    assert [one for one in days if one.gaps and not one.problems] == of_days["overdue"]
    assert [one for one in days if one.is_away] == of_days["never"]
    assert all(one.x + 10 <= drawing.width and 0 <= one.y <= drawing.height - one.height for one in drawing.bars)
    ordered = sorted(verified, key=lambda one: one.day.verified_bytes)
    assert all(one.height <= other.height for one, other in pairwise(ordered))


@given(st.lists(st.tuples(st.integers(), st.floats(0, 1e12)), max_size=60))
def test_bars_stand_side_by_side(values: list[tuple[int, float]]) -> None:
    """In their order, none higher than the drawing."""
    bars = layout_bars([(at, value + 1) for at, value in values])

    assert [value for value, _ in values] == [one.at for one in bars]
    assert all(1 <= one.height <= 100 and one.x + one.width <= 1000.01 for one in bars)
    assert all(one.x + one.width <= other.x for one, other in pairwise(bars))
