"""The rows of ``bench``: as aligned columns for people, as objects for programs."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import groupby
from typing import TYPE_CHECKING, NamedTuple

from integrity.cli.output import JsonObject, printable

if TYPE_CHECKING:
    from integrity.jobs.bench.measure import Cost
    from integrity.jobs.bench.rows import Row

_GAP = "  "


class _Column(NamedTuple):
    """A heading with its unit, and how the figure below it is written; None where a row has no such figure."""

    heading: str
    write: Callable[[Row], str | None]


def _figure(heading: str, pick: Callable[[Row], float | None], digits: int) -> _Column:
    def write(row: Row) -> str | None:
        value = pick(row)
        return None if value is None else f"{value:,.{digits}f}"

    return _Column(heading, write)


def _cost(pick: Callable[[Row], Cost | None], unit: str, scale: float, digits: int) -> tuple[_Column, ...]:
    """Make the columns of a cost; ``scale`` is how many of its unit are a second."""

    def figure(name: str, part: Callable[[Cost], float]) -> _Column:
        def pick_part(row: Row) -> float | None:
            cost = pick(row)
            return None if cost is None else part(cost) * scale

        return _figure(f"{name} {unit}", pick_part, digits)

    return (
        figure("elapsed", lambda cost: cost.wall_s),
        figure("user", lambda cost: cost.user_s),
        figure("system", lambda cost: cost.system_s),
        figure("CPU", lambda cost: cost.cpu_s),
    )


_CPU_PERCENT = _figure("% CPU", lambda row: row.cpu_percent, 0)
_GB_PER_S = _figure("GB/s", lambda row: row.bytes_per_s and row.bytes_per_s / 1e9, 2)

_FILE_COLUMNS = (*_cost(lambda row: row.cost, "s", 1, 3), _CPU_PERCENT, _GB_PER_S)
_COLUMNS: dict[str, tuple[_Column, ...]] = {
    "large": _FILE_COLUMNS,
    "tools": _FILE_COLUMNS,
    "algorithms": (*_cost(lambda row: row.per_gib, "s/GiB", 1, 3), _CPU_PERCENT, _GB_PER_S),
    "objects": (
        _figure("operations/s", lambda row: row.operations_per_s, 0),
        _figure("bytes/operation", lambda row: row.allocated_bytes, 0),
        _figure("elapsed ns", lambda row: row.cost and row.cost.wall_s * 1e9, 0),
        _figure("CPU ns", lambda row: row.cost and row.cost.cpu_s * 1e9, 0),
    ),
    "python": (
        _figure("create 1,000: ms", lambda row: row.create and row.create.wall_s * 1e3, 3),
        _figure("CPU ms", lambda row: row.create and row.create.cpu_s * 1e3, 3),
        _figure("hash 1 MB: ms", lambda row: row.cost and row.cost.wall_s * 1e3, 3),
        _figure("CPU ms", lambda row: row.cost and row.cost.cpu_s * 1e3, 3),
    ),
    "lanes": (
        _GB_PER_S,
        _figure("CPU s/GiB", lambda row: row.per_gib and row.per_gib.cpu_s, 3),
        _CPU_PERCENT,
    ),
}


def describe_rows(rows: Sequence[Row]) -> Iterator[str]:
    """Write the rows of one table: a line for each group, one with the headings, one for each row."""
    columns = (*_COLUMNS[rows[0].table], _figure(f"x {rows[0].reference}", lambda row: row.ratio, 2))
    headings = [column.heading for column in columns]
    cells = [[column.write(row) or "-" for column in columns] for row in rows]
    widths = [max(map(len, column)) for column in zip(headings, *cells, strict=True)]
    name_width = max(len(row.what) for row in rows)
    texts = dict(zip(map(id, rows), cells, strict=True))
    for group, members in groupby(rows, key=lambda row: row.group):
        yield f"{_GAP}{group}"
        yield _line("", headings, name_width, widths)
        for row in members:
            # A row without figures has its reason in their place.
            figures = _line(row.what, texts[id(row)] if row.cost else [], name_width, widths)
            yield f"{figures}{_GAP}{printable(row.note)}".rstrip()


def _line(name: str, cells: Sequence[str], name_width: int, widths: Sequence[int]) -> str:
    padded = [cell.rjust(width) for cell, width in zip(cells, widths, strict=False)]
    return _GAP.join(["", "", name.ljust(name_width), *padded])


def row_object(row: Row) -> JsonObject:
    """Write a row; figures that it does not have are null, times are seconds of one execution."""
    cost, create = row.cost, row.create
    return {
        "table": row.table.value,
        "group": row.group,
        "what": row.what,
        "size_bytes": row.size_bytes,
        "message_bytes": row.message_bytes,
        "wall_s": cost and cost.wall_s,
        "user_s": cost and cost.user_s,
        "system_s": cost and cost.system_s,
        "cpu_s": cost and cost.cpu_s,
        "cpu_percent": row.cpu_percent,
        "cpu_s_per_gib": row.per_gib and row.per_gib.cpu_s,
        "bytes_per_s": row.bytes_per_s,
        "operations_per_s": row.operations_per_s,
        "allocated_bytes": row.allocated_bytes,
        "create_1000_wall_s": create and create.wall_s,
        "create_1000_cpu_s": create and create.cpu_s,
        "reference": row.reference,
        "ratio": row.ratio,
        "note": row.note or None,
    }
