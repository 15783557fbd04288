"""
Measure the wall and CPU time of competing work, and turn it into the rows of tables.

Work in this process is measured by getrusage(2) with all threads, a program by the rusage from wait4(2) for that child
and its children, so concurrent load is not included. A figure is the run with the median wall time; its parts belong
together.

The sum of user and system time is exact, but many kernels only sample their ratio at clock ticks: it is rough below
about a second. Contenders take turns: a burst of load slows one run of each, which the median removes, instead of all
runs of one.
"""

from __future__ import annotations

import gc
import os
import resource
import signal
import statistics
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from enum import StrEnum
from itertools import repeat
from typing import NamedTuple, Protocol

from integrity.config import spell_size
from integrity.files.buffers import Buffers

_LEAST_S = 0.01
"""Shorter work is repeated until it takes this long: clocks and scheduler are too coarse for it."""

_INTERRUPTIONS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Cost(NamedTuple):
    """Seconds taken by one execution."""

    wall_s: float
    user_s: float
    system_s: float

    @property
    def cpu_s(self) -> float:
        """Return the CPU time, summed over all processors."""
        return self.user_s + self.system_s

    def per(self, count: float) -> Cost:
        """Divide by a number of executions."""
        return Cost(self.wall_s / count, self.user_s / count, self.system_s / count)


class ProgramResult(NamedTuple):
    """Result of a program: cost, exit code (negative for a signal), first line of stderr."""

    cost: Cost
    code: int
    error: str


def pick_median(costs: Sequence[Cost]) -> Cost:
    """Return the run with the median wall time; of an even number the lower of the middle two."""
    middle = statistics.median_low(cost.wall_s for cost in costs)
    return next(cost for cost in costs if cost.wall_s == middle)


def measure(work: Callable[[], object]) -> Cost:
    """Measure one execution in this process."""
    with _no_collection():
        before, began = resource.getrusage(resource.RUSAGE_SELF), time.perf_counter()
        work()
        ended, after = time.perf_counter(), resource.getrusage(resource.RUSAGE_SELF)
    return Cost(ended - began, after.ru_utime - before.ru_utime, after.ru_stime - before.ru_stime)


def repeat_short(work: Callable[[], object]) -> Callable[[], Cost]:
    """
    Find how often short work must be repeated to be measured.

    Returns:
        A function that measures one such round and returns the cost of one execution, including about 50 nanoseconds
            for loop and call.
    """
    count = 1
    while (wall_s := _measure_loop(work, count).wall_s) < _LEAST_S:
        # The first executions are slow: extrapolate from them by at most a factor of ten.
        count *= max(2, min(10, int(_LEAST_S / wall_s) + 1))
    return lambda: _measure_loop(work, count).per(count)


def run_program(command: Sequence[bytes | str], environment: Mapping[str, str] | None = None) -> ProgramResult:
    """
    Run a program to its end and discard its output.

    It leads a process group of its own, which is killed if this process is interrupted.

    Raises:
        OSError: it can't be started.
    """
    with tempfile.TemporaryFile() as stderr:
        began = time.perf_counter()
        # Block signals until the process is known: an interruption after fork would leave the child behind.
        # The child inherits the mask; this is harmless, because SIGKILL ends it.
        mask = signal.pthread_sigmask(signal.SIG_BLOCK, _INTERRUPTIONS)
        try:
            process = subprocess.Popen(
                command,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=stderr,
                process_group=0,
            )
        except BaseException:
            signal.pthread_sigmask(signal.SIG_SETMASK, mask)
            raise
        try:
            signal.pthread_sigmask(signal.SIG_SETMASK, mask)
            _, status, usage = os.wait4(process.pid, 0)
        except BaseException:
            with suppress(ProcessLookupError):  # it has just ended
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            raise
        wall_s = time.perf_counter() - began
        process.returncode = os.waitstatus_to_exitcode(status)
        stderr.seek(0)
        first = stderr.readline(500).decode("utf-8", "backslashreplace").strip()
    return ProgramResult(Cost(wall_s, usage.ru_utime, usage.ru_stime), process.returncode, first)


def _measure_loop(work: Callable[[], object], count: int) -> Cost:
    def loop() -> None:
        for _ in repeat(None, count):
            work()

    return measure(loop)


@contextmanager
def _no_collection() -> Iterator[None]:
    """Disable the garbage collector during a measurement: it runs at unpredictable times."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


GIB = 1 << 30


class Table(StrEnum):
    """The tables that can be measured."""

    LARGE = "large"
    OBJECTS = "objects"
    TOOLS = "tools"
    ALGORITHMS = "algorithms"
    PYTHON = "python"
    LANES = "lanes"


TITLES = {
    Table.LARGE: "MD5 of one large file",
    Table.OBJECTS: "MD5 of one short message: make an object, hash, take the digest",
    Table.TOOLS: "A folder, and one large file, with each tool",
    Table.ALGORITHMS: "CPU time of each algorithm, for each GiB of a file",
    Table.PYTHON: "Every algorithm of this Python: create 1,000 objects, hash 1 MB",
    Table.LANES: "MD5 of many messages side by side, on each path of the C core, one thread",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """
    Figures of one contender.

    Args:
        group: the task; only rows of one group can be compared.
        size_bytes: hashed by one execution.
        message_bytes: length of each message (``lanes``).
        cost: of one execution; None if there is none, and ``note`` gives the reason.
        create: cost of creating 1,000 objects (``python``).
        allocated_bytes: memory in use while the object and its digest of one execution live (``objects``).
        ratio: speed relative to ``reference``; None if either has no figures.
        reference: the contender that the others of the group are compared with.
        note: remark on the figures.
    """

    table: Table
    group: str
    what: str
    size_bytes: int
    message_bytes: int | None = None
    cost: Cost | None = None
    create: Cost | None = None
    allocated_bytes: float | None = None
    ratio: float | None = None
    reference: str = ""
    note: str = ""

    @property
    def cpu_percent(self) -> float | None:
        """Return the CPU load in percent; 100 is one processor."""
        return 100 * self.cost.cpu_s / self.cost.wall_s if self.cost else None

    @property
    def bytes_per_s(self) -> float | None:
        """Return the hashing speed."""
        return self.size_bytes / self.cost.wall_s if self.cost else None

    @property
    def operations_per_s(self) -> float | None:
        """Return the executions per second."""
        return 1 / self.cost.wall_s if self.cost else None

    @property
    def per_gib(self) -> Cost | None:
        """Return the cost of hashing one GiB."""
        return self.cost.per(self.size_bytes / GIB) if self.cost else None


def spell_length(size_bytes: int) -> str:
    """Format the length of a message: "64 bytes", "4KiB"."""
    return spell_size(size_bytes) if size_bytes >= 1024 else f"{size_bytes} bytes"


def by_wall(row: Row) -> float | None:
    """Compare rows by the time that a user waits."""
    return row.cost.wall_s if row.cost else None


def by_cpu(row: Row) -> float | None:
    """Compare rows by CPU time."""
    return row.cost.cpu_s if row.cost else None


def compare(rows: Iterable[Row], reference: str, seconds: Callable[[Row], float | None] = by_wall) -> list[Row]:
    """
    Set in each row how many times as fast it was as the reference of its group.

    Args:
        rows: of one table.
        reference: the ``what`` of one row in each group.
        seconds: returns the time to compare.
    """
    rows = list(rows)
    references = {row.group: seconds(row) for row in rows if row.what == reference}
    return [replace(row, reference=reference, ratio=_divide(references.get(row.group), seconds(row))) for row in rows]


def _divide(reference_s: float | None, own_s: float | None) -> float | None:
    return reference_s / own_s if reference_s is not None and own_s else None


class Turn(NamedTuple):
    """
    Result of one run of a contender.

    Args:
        cost: None if it failed: it gets no further turn, and its row no figures.
        create: cost of creating 1,000 objects (table ``python``).
        note: remark; replaces the row's.
    """

    cost: Cost | None
    create: Cost | None = None
    note: str = ""


class Contender(NamedTuple):
    """A row without figures, and what runs it once; None if it can't run, and the row gives the reason."""

    row: Row
    run: Callable[[], Turn] | None


def make_short_contender(row: Row, work: Callable[[], object]) -> Contender:
    """Create a contender for short work: each turn repeats it often enough to be measured."""
    once = repeat_short(work)
    return Contender(row, lambda: Turn(once()))


def measure_in_turn(contenders: Sequence[Contender], runs: int) -> list[Row]:
    """Measure contenders in turn, ``runs`` times each, and return their rows in the same order."""
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


_CHUNK_BYTES = 1 << 20


class BenchHasher(Protocol):
    """Receives bytes and returns a digest in the end."""

    def update(self, data: memoryview, /) -> object:
        """Append bytes."""

    def digest(self) -> bytes:
        """Return the digest of all bytes."""


def hash_file(path: bytes, make: Callable[[], BenchHasher]) -> Turn:
    """Read a file and hash it in pieces."""
    with Buffers(_CHUNK_BYTES, count=1) as buffers:
        buffer = buffers.acquire()
        return Turn(measure(lambda: _read(path, make(), buffer)))


def _read(path: bytes, hasher: BenchHasher, buffer: memoryview) -> bytes:
    with open(path, "rb", buffering=0) as file:
        while count := file.readinto(buffer):
            hasher.update(buffer[:count])
    return hasher.digest()
