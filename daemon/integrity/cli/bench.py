"""``integrity bench``."""

from __future__ import annotations

import signal
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from types import FrameType
from typing import TYPE_CHECKING

import click

from integrity.cli.benchrows import describe_rows, row_object
from integrity.cli.exitcodes import ExitCode
from integrity.cli.output import Output, OutputError, printable
from integrity.cli.params import PATH, SIZE
from integrity.cli.session import Session
from integrity.errors import show_path

if TYPE_CHECKING:
    from integrity.jobs.bench.machine import Machine
    from integrity.jobs.bench.rows import Row, Table

# Written down here as well as in jobs.bench.rows, so that --help need not load it.
TABLES = ("large", "objects", "tools", "algorithms", "python", "lanes")
_SIGNALS = (signal.SIGTERM, signal.SIGHUP)


@click.command()
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
    Measure what hashing costs on this machine.

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
    from integrity.jobs.bench.machine import describe_machine
    from integrity.jobs.bench.plot import check_plot
    from integrity.jobs.bench.rows import Table
    from integrity.jobs.bench.tables import measure_table
    from integrity.jobs.bench.workspace import Settings, open_workspace

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
    from integrity.cli.text import count, describe_core

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
    from integrity.jobs.bench.rows import TITLES

    output.tell()
    output.tell(output.style(f"{table.value}: {TITLES[table]}", "cyan"))
