"""
What hashing costs on this machine, beside md5sum, md5deep, openssl and hashlib: six tables, and plots of them.

    python tests/benchmarks/bench_hashing.py [TABLE]... [--size 1G] [--files 5000] [--runs 3] [--plot FILE.svg]

`x NAME` is how many times as fast as NAME something is: 2.00 is twice as fast, by the time that elapses, for
`algorithms` by CPU time. `bytes/operation` is what an object and its digest take while they live.
"""

from __future__ import annotations

import argparse
import os
import signal
import sys
from collections.abc import Callable, Iterator, Sequence
from itertools import groupby
from types import FrameType
from typing import NamedTuple

from hashing.measure import TITLES, Cost, Row, Table
from hashing.plot import check_plot, draw_plot
from hashing.tables import measure_table
from hashing.workspace import Settings, describe_machine, open_workspace

from integrity.config import parse_size
from integrity.errors import ConfigError
from integrity.words.text import describe_core

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
            yield f"{figures}{_GAP}{row.note}".rstrip()


def _line(name: str, cells: Sequence[str], name_width: int, widths: Sequence[int]) -> str:
    padded = [cell.rjust(width) for cell, width in zip(cells, widths, strict=False)]
    return _GAP.join(["", "", name.ljust(name_width), *padded])


def main() -> None:
    """Measure the tables, print each as soon as it is measured, and draw them."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tables", nargs="*", type=Table, metavar="TABLE", help=", ".join(Table))
    parser.add_argument("--size", type=parse_size, default="1G", help="of the large file")
    parser.add_argument("--files", type=int, default=5000, help="small files in the folder of `tools`")
    parser.add_argument("--tree", type=os.fsencode, help="a folder that `tools` hashes instead")
    parser.add_argument("--folder", type=os.fsencode, help="where files are made, instead of $TMPDIR or /var/tmp")
    parser.add_argument("--runs", type=int, default=3, help="the median of so many counts")
    parser.add_argument("--plot", type=os.fsencode, metavar="FILE.svg|png")
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, _interrupt)  # programs are stopped and large files removed
    tables = options.tables or list(Table)
    settings = Settings(options.size, options.runs, options.files, options.folder, options.tree)
    try:
        if options.plot is not None:
            check_plot(options.plot)
        with open_workspace(settings, tables) as workspace:
            machine = describe_machine()
            print(f"{machine.processor}, {machine.processors} processors; hash core: {describe_core()}")
            print(f"Python {machine.python}, {machine.openssl}; each figure is the median of {options.runs} runs")
            measured = []
            for table in tables:
                print(f"\n{table.value}: {TITLES[table]}", flush=True)
                measured.append(measure_table(table, workspace))
                print("\n".join(describe_rows(measured[-1])), flush=True)
        if options.plot is not None:
            draw_plot(options.plot, measured)
    except ConfigError as error:
        sys.exit(str(error))


def _interrupt(_: int, __: FrameType | None) -> None:
    raise KeyboardInterrupt


if __name__ == "__main__":
    main()
