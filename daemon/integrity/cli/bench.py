"""
The rows of ``bench``: as aligned columns for people, as objects for programs.

``integrity bench``.
"""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import groupby
from types import FrameType
from typing import TYPE_CHECKING, NamedTuple

import click

from integrity.cli.exitcodes import ExitCode
from integrity.cli.help import examples
from integrity.cli.output import Output, OutputError
from integrity.cli.params import PATH, SIZE
from integrity.cli.session import Session
from integrity.errors import printable, show_path
from integrity.views.objects import JsonObject

if TYPE_CHECKING:
    from integrity.jobs.bench.measure import Cost, Row, Table
    from integrity.jobs.bench.workspace import Machine


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


# Written down here as well as in jobs.bench.rows, so that --help need not load it.
TABLES = ("large", "objects", "tools", "algorithms", "python", "lanes")
_SIGNALS = (signal.SIGTERM, signal.SIGHUP)


@click.command(
    epilog=examples(("integrity bench", "all tables"), ("integrity bench algorithms --runs 1", "one of them, quickly"))
)
@click.argument("names", nargs=-1, type=click.Choice(TABLES), metavar="[TABLE]...")
@click.option(
    "--size", "size_bytes", type=SIZE, default="1G", show_default=True, metavar="SIZE",
    help="Make the large file so large; that of `algorithms` is a quarter of it.",
)  # fmt: skip
@click.option(
    "--files", type=click.IntRange(min=1), default=5000, show_default=True, metavar="N",
    help="Fill the folder of `tools` with so many small files.",
)  # fmt: skip
@click.option(
    "--tree", type=PATH, metavar="DIR", help="Let `tools` hash this folder of yours instead; it is only read."
)
@click.option("--folder", type=PATH, metavar="DIR", help="Make the files here, instead of in $TMPDIR or /var/tmp.")
@click.option(
    "--runs", type=click.IntRange(min=1), default=3, show_default=True, metavar="N",
    help="Measure N times and take the median.",
)  # fmt: skip
@click.option("--plot", type=PATH, metavar="FILE.svg|png", help="Draw the tables as well; needs matplotlib.")
@click.pass_obj
def bench(
    session: Session,
    names: tuple[str, ...],
    size_bytes: int,
    files: int,
    tree: bytes | None,
    folder: bytes | None,
    runs: int,
    plot: bytes | None,
) -> int:
    """
    Measure the speed of hashing on this machine.

    Without TABLE all of them, which takes about a minute. No catalog is used, and the files that are made are removed.

    \b
    large       MD5 of one large file: integrity, hashlib, md5sum, openssl
    objects     MD5 of 16, 64 and 1,024 bytes: operations a second, memory
    tools       a folder and a large file: md5sum, md5deep, openssl, integrity sum
    algorithms  CPU seconds for each GiB: XXH128, XXH64, MD5, SHA-*, BLAKE3
    python      every algorithm of this Python, plain and as HMAC
    lanes       MD5 of many messages at once, on each path of the C core

    `x NAME` is how many times as fast as NAME something is: 2.00 is twice as fast, by the time that elapses, for
    `algorithms` by CPU time. `bytes/operation` is what an object and its digest take while they live.
    """  # noqa: D301 - \b is click's mark for lines that it must not join
    from integrity.jobs.bench.measure import Table
    from integrity.jobs.bench.plot import check_plot
    from integrity.jobs.bench.tables import measure_table
    from integrity.jobs.bench.workspace import Settings, describe_machine, open_workspace

    tables = list(dict.fromkeys(Table(name) for name in names or TABLES))
    settings = Settings(size_bytes=size_bytes, runs=runs, files=files, folder=folder, tree=tree)
    if plot is not None:
        check_plot(plot)
    measured: list[list[Row]] = []
    with _interrupt_on_signals(), open_workspace(settings, tables) as workspace:
        _print_machine(session.output, describe_machine(), runs)
        for table in tables:
            _print_title(session.output, table)
            rows = measure_table(table, workspace)
            for line in describe_rows(rows):
                session.output.tell(line)
            for row in rows:
                session.output.give("bench", row_object(row))
            measured.append(rows)
    if plot is not None:
        _draw(session.output, plot, measured)
    return ExitCode.OK


@contextmanager
def _interrupt_on_signals() -> Iterator[None]:
    """Let other signals that end a process do what Ctrl-C does: programs are stopped and large files removed."""

    def interrupt(_: int, __: FrameType | None) -> None:
        raise KeyboardInterrupt

    former = {number: signal.getsignal(number) for number in _SIGNALS}
    for number, handler in former.items():
        if handler is not signal.SIG_IGN:
            signal.signal(number, interrupt)
    try:
        yield
    finally:
        for number, handler in former.items():
            signal.signal(number, handler)


def _draw(output: Output, path: bytes, tables: Sequence[Sequence[Row]]) -> None:
    from integrity.jobs.bench.plot import draw_plot

    try:
        draw_plot(path, tables)
    except OSError as error:
        raise OutputError(error, f"the plot {show_path(path)}") from error
    output.say(f"drawn: {show_path(path)}")


def _print_machine(output: Output, machine: Machine, runs: int) -> None:
    from integrity.views.text import count, describe_core

    core = describe_core()
    output.tell(f"{printable(machine.processor)}, {count(machine.processors, 'processor')}; hash core: {core}")
    output.tell(f"Python {machine.python}, {machine.openssl}; each figure is the median of {count(runs, 'run')}")
    output.give(
        "machine",
        {
            "processor": machine.processor,
            "processors": machine.processors,
            "python": machine.python,
            "openssl": machine.openssl,
            "hash_core": core,
            "runs": runs,
        },
    )


def _print_title(output: Output, table: Table) -> None:
    """Print the title before its figures are there, so that the user sees what is going on."""
    from integrity.jobs.bench.measure import TITLES

    output.tell()
    output.tell(output.style(f"{table.value}: {TITLES[table]}", "cyan"))
