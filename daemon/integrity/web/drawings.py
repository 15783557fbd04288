"""
Geometry of the drawings: bars of age, maps of blocks, timelines, tree maps.

Computes positions and classes; the templates write the SVG, the style sheet has the colors. A drawing has a bounded
number of shapes, whatever it shows.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from datetime import date
from enum import StrEnum
from typing import NamedTuple

_BAR_WIDTH = 1000.0
_SMALLEST_SHARE = 0.004
"""A part of a bar is at least this wide, so that 1 damaged file of 1,000,000 is seen."""

_MOST_CELLS = 2048


class BarPart(NamedTuple):
    """A part of a bar: class of the style sheet, label, and place in units of the drawing."""

    css_class: str
    label: str
    x: float
    width: float


def layout_bar(parts: Iterable[tuple[str, str, int]]) -> list[BarPart]:
    """Divide a bar of 1,000 units. ``parts``: class, label and amount of each; those of amount 0 are left out."""
    amounts = [(css_class, label, amount) for css_class, label, amount in parts if amount > 0]
    total = sum(amount for _, _, amount in amounts)
    widths = [max(amount / total, _SMALLEST_SHARE) for _, _, amount in amounts]
    scale = _BAR_WIDTH / sum(widths) if widths else 0.0
    placed, x = [], 0.0
    for (css_class, label, _), share in zip(amounts, widths, strict=True):
        placed.append(BarPart(css_class, label, round(x, 2), round(share * scale, 2)))
        x += share * scale
    return placed


class BlockState(StrEnum):
    """State of a block of a file, from harmless to worst."""

    INTACT = "intact"
    IN_COPY = "in-copy"  # damaged here, intact in a copy
    DAMAGED = "damaged"
    UNREADABLE = "unreadable"


_SEVERITY = list(BlockState)


class BlockCell(NamedTuple):
    """A cell of a map of blocks: the worst state of the blocks from ``first`` to ``last``, both included."""

    state: BlockState
    first: int
    last: int
    x: int
    y: int


class BlockMap(NamedTuple):
    """The blocks of a file as a grid, row by row; the last cell may stand for fewer blocks."""

    cells: tuple[BlockCell, ...]
    columns: int
    rows: int
    blocks_per_cell: int


def layout_blocks(count: int, states: Mapping[int, BlockState]) -> BlockMap:
    """Lay out the blocks of a file in at most 2,048 cells. ``states``: of those that are not intact, by number."""
    per_cell = _blocks_per_cell(count)
    number = -(-count // per_cell)
    columns = max(1, min(64, math.ceil(math.sqrt(number * 4))))
    worst: dict[int, BlockState] = {}
    for block, state in states.items():
        if 0 <= block < count:
            cell = block // per_cell
            worst[cell] = max(worst.get(cell, BlockState.INTACT), state, key=_SEVERITY.index)
    cells = tuple(
        BlockCell(
            worst.get(cell, BlockState.INTACT),
            cell * per_cell,
            min(count, (cell + 1) * per_cell) - 1,
            cell % columns,
            cell // columns,
        )
        for cell in range(number)
    )
    return BlockMap(cells, columns, math.ceil(number / columns), per_cell)


def map_damage(
    size_bytes: int,
    block_size_bytes: int,
    blocks: Iterable[int],
    unreadable: Iterable[tuple[int, int]],
    *,
    is_elsewhere: bool,
) -> BlockMap:
    """
    Lay out the blocks of a damaged file.

    Args:
        blocks: damaged ones, counted from 0.
        unreadable: (offset, length) of what can't be read.
        is_elsewhere: a copy has them intact.
    """
    count = max(1, -(-size_bytes // block_size_bytes))
    states = dict.fromkeys(blocks, BlockState.IN_COPY if is_elsewhere else BlockState.DAMAGED)
    step = _blocks_per_cell(count)
    for offset, length in unreadable:
        first, last = offset // block_size_bytes, min(count - 1, (offset + length - 1) // block_size_bytes)
        cells = range(first // step, last // step + 1)  # not each block: a disk may have lost a terabyte
        states |= dict.fromkeys((cell * step for cell in cells), BlockState.UNREADABLE)
    return layout_blocks(count, states)


def _blocks_per_cell(count: int) -> int:
    return max(1, -(-count // _MOST_CELLS))


class DayRecord(NamedTuple):
    """A day: bytes verified; problems and other findings that opened, findings resolved; whether a disk was away."""

    day: date
    verified_bytes: int
    problems: int
    gaps: int
    resolved: int
    is_away: bool

    @property
    def has_any(self) -> bool:
        return any(self[1:])


class TimelineBar(NamedTuple):
    """What a lane of a timeline shows of a day: class of the style sheet, and place in units of the drawing."""

    day: DayRecord
    css_class: str
    x: int
    y: float
    height: float


class Timeline(NamedTuple):
    """Days side by side, and the size of the drawing in its units."""

    bars: list[TimelineBar]
    width: int
    height: int


_DAY_WIDTH = 10
_VERIFIED_HEIGHT = 60.0
_LANE_HEIGHT = 14.0
_FOUND_Y, _AWAY_Y = 66.0, 84.0


def layout_timeline(days: Sequence[DayRecord]) -> Timeline:
    """Lay out days side by side in three lanes: bytes verified, by logarithm; what was found; when a disk was away."""
    most = max((one.verified_bytes for one in days), default=0)
    bars = []
    for number, one in enumerate(days):
        x, height = number * _DAY_WIDTH, 2.0
        if one.verified_bytes:
            height = round(max(8.0, _VERIFIED_HEIGHT * math.log2(1 + one.verified_bytes) / math.log2(1 + most)), 1)
        is_read = "day" if one.verified_bytes else "nothing"
        bars.append(TimelineBar(one, is_read, x, round(_VERIFIED_HEIGHT - height, 1), height))
        if one.problems or one.gaps:
            bars.append(TimelineBar(one, "problem" if one.problems else "overdue", x, _FOUND_Y, _LANE_HEIGHT))
        if one.is_away:
            bars.append(TimelineBar(one, "never", x, _AWAY_Y, _LANE_HEIGHT))
    return Timeline(bars, len(days) * _DAY_WIDTH, round(_AWAY_Y + _LANE_HEIGHT))


class RatePoint(NamedTuple):
    """A bar of a chart: time (seconds UTC), value, and place in units of the drawing; the chart is 100 units high."""

    at: int
    value: float
    x: float
    width: float
    height: float


def layout_bars(values: Sequence[tuple[int, float]]) -> list[RatePoint]:
    """Lay out values at times, in this order, as bars side by side in 1,000 units; they are 1 to 100 units high."""
    most = max((value for _, value in values), default=0.0)
    width = min(40.0, _BAR_WIDTH / max(1, len(values)))
    return [
        RatePoint(at, value, round(number * width, 2), round(width * 0.8, 2), round(max(1.0, 100 * value / most), 2))
        for number, (at, value) in enumerate(values)
    ]


class Tile(NamedTuple):
    """A rectangle of a tree map, and the number of the item that it stands for."""

    number: int
    x: float
    y: float
    width: float
    height: float


def layout_tree_map(sizes: Sequence[float], width: float, height: float) -> list[Tile]:
    """
    Divide a rectangle among sizes, in tiles that are nearly square.

    Args:
        sizes: positive, in descending order.

    Source: M. Bruls, K. Huizing, J. van Wijk, Squarified Treemaps (2000).
    """
    total = sum(sizes)
    if not total:
        return []
    scale = width * height / total
    areas = [size * scale for size in sizes]
    tiles: list[Tile] = []
    x = y = 0.0
    begin = 0
    while begin < len(areas):
        side = min(width, height)
        end = begin + 1
        while end < len(areas) and _worst(areas[begin : end + 1], side) <= _worst(areas[begin:end], side):
            end += 1
        # Limited: by rounding, what is 1e-13 of the whole would stick out.
        thickness = min(sum(areas[begin:end]) / side, max(width, height)) if side else 0.0
        offset = 0.0
        for index in range(begin, end):
            length = min(areas[index] / thickness, side - offset) if thickness else 0.0
            if width >= height:
                tiles.append(Tile(index, x, y + offset, thickness, length))
            else:
                tiles.append(Tile(index, x + offset, y, length, thickness))
            offset += length
        if width >= height:
            x, width = x + thickness, max(0.0, width - thickness)
        else:
            y, height = y + thickness, max(0.0, height - thickness)
        begin = end
    return tiles


def _worst(areas: Sequence[float], side: float) -> float:
    """Return the worst ratio of the sides of tiles that are laid along a side."""
    total = sum(areas)
    return max(side * side * max(areas) / (total * total), total * total / (side * side * min(areas))) if side else 0.0
