"""
Take the time of a piece of work: wall, and CPU seconds in user and in system mode.

Work of our own is measured by the difference of getrusage(2) of this process, all of its threads included. A program is
measured by the rusage that wait4(2) gives of exactly that child and of the children that it waited for, so what runs
beside it does not count. Each figure is the middle one of several runs, by wall time: its three parts belong together.

The sum of user and system time is exact. How it is divided between the two many kernels only sample, at each tick of
their clock, so the division of what takes less than a second or so is rough.

The rows of which all tables are made, and what follows from their figures.

Let contenders take turns: the first run of each, then the second of each, and so on.

Load from elsewhere comes in bursts. When the runs of one contender follow each other, a burst slows all of them, and no
median helps; when they take turns it slows one run of each, which the median leaves out.

Hash a file in this process: the one loop that all of our own rows about files share.
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
"""Shorter work is done again and again until it takes this long: the clocks and the scheduler are too coarse for it."""

_INTERRUPTIONS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Cost(NamedTuple):
    """What one execution of something took, in seconds."""

    wall_s: float
    user_s: float
    system_s: float

    @property
    def cpu_s(self) -> float:
        """The time of all processors together."""
        return self.user_s + self.system_s

    def per(self, count: float) -> Cost:
        """Divide by a count of executions."""
        return Cost(self.wall_s / count, self.user_s / count, self.system_s / count)


class ContenderFailed(NamedTuple):
    """How a program ended: what it took, its exit code (negative: a signal), its first line of complaint."""

    cost: Cost
    code: int
    complaint: str


def pick_median(costs: Sequence[Cost]) -> Cost:
    """Give the run with the median wall time; of an even number the lower of the middle two."""
    middle = statistics.median_low(cost.wall_s for cost in costs)
    return next(cost for cost in costs if cost.wall_s == middle)


def measure(work: Callable[[], object]) -> Cost:
    """Do the work once, in this process."""
    with _no_collection():
        before, began = resource.getrusage(resource.RUSAGE_SELF), time.perf_counter()
        work()
        ended, after = time.perf_counter(), resource.getrusage(resource.RUSAGE_SELF)
    return Cost(ended - began, after.ru_utime - before.ru_utime, after.ru_stime - before.ru_stime)


def repeat_short(work: Callable[[], object]) -> Callable[[], Cost]:
    """
    Find out how often short work must be done to be measured, and give what does it so often.

    Returns:
        What measures one such round, and gives the cost of one execution. The loop and the call are counted as well:
        some 50 nanoseconds.
    """
    count = 1
    while (wall_s := _measure_loop(work, count).wall_s) < _LEAST_S:
        # The first times are slow ones: what they promise is not believed for more than a factor of ten.
        count *= max(2, min(10, int(_LEAST_S / wall_s) + 1))
    return lambda: _measure_loop(work, count).per(count)


def run_program(command: Sequence[bytes | str], environment: Mapping[str, str] | None = None) -> ContenderFailed:
    """
    Run a program to its end, its output thrown away.

    It is the head of a process group of its own, which is killed if this process is interrupted meanwhile.

    Raises:
        OSError: it can't be started.
    """
    with tempfile.TemporaryFile() as complaints:
        began = time.perf_counter()
        # Held back until there is somebody to kill: between fork and here an interruption would leave the child behind.
        # It inherits that, which matters to nobody: it is in a group of its own, and is killed by SIGKILL.
        mask = signal.pthread_sigmask(signal.SIG_BLOCK, _INTERRUPTIONS)
        try:
            process = subprocess.Popen(
                command,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=complaints,
                process_group=0,
            )
        except BaseException:
            signal.pthread_sigmask(signal.SIG_SETMASK, mask)
            raise
        try:
            signal.pthread_sigmask(signal.SIG_SETMASK, mask)
            _, status, usage = os.wait4(process.pid, 0)
        except BaseException:
            with suppress(ProcessLookupError):  # it ended in this very moment
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            raise
        wall_s = time.perf_counter() - began
        process.returncode = os.waitstatus_to_exitcode(status)
        complaints.seek(0)
        first = complaints.readline(500).decode("utf-8", "backslashreplace").strip()
    return ContenderFailed(Cost(wall_s, usage.ru_utime, usage.ru_stime), process.returncode, first)


def _measure_loop(work: Callable[[], object], count: int) -> Cost:
    def loop() -> None:
        for _ in repeat(None, count):
            work()

    return measure(loop)


@contextmanager
def _no_collection() -> Iterator[None]:
    """Keep the collection of cycles, which comes when it likes, out of what is measured."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


GIB = 1 << 30


class Table(StrEnum):
    """What can be measured."""

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
    What one thing took.

    Args:
        table: that it belongs to.
        group: what was done; only rows of one group can be held against each other.
        what: did it.
        size_bytes: hashed by one execution.
        message_bytes: the length of each of the messages that this is made of (``lanes``).
        cost: of one execution; None if there is none, and ``note`` says why.
        create: what creating 1,000 objects took (table ``python``).
        allocated_bytes: that one execution leaves in use as long as its object and its digest live (``objects``).
        ratio: how many times as fast as ``reference``; None where either has no figures.
        reference: what the others of the group are held against.
        note: what must be known of it besides.
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
        """How busy it kept the processors; 100 is one of them."""
        return 100 * self.cost.cpu_s / self.cost.wall_s if self.cost else None

    @property
    def bytes_per_s(self) -> float | None:
        """How fast it hashed."""
        return self.size_bytes / self.cost.wall_s if self.cost else None

    @property
    def operations_per_s(self) -> float | None:
        """How often it can be done in a second."""
        return 1 / self.cost.wall_s if self.cost else None

    @property
    def per_gib(self) -> Cost | None:
        """What it takes for one GiB."""
        return self.cost.per(self.size_bytes / GIB) if self.cost else None


def spell_length(size_bytes: int) -> str:
    """Write the length of a message: "64 bytes", "4KiB"."""
    return spell_size(size_bytes) if size_bytes >= 1024 else f"{size_bytes} bytes"


def by_wall(row: Row) -> float | None:
    """Hold rows against each other by what a user waits for."""
    return row.cost.wall_s if row.cost else None


def by_cpu(row: Row) -> float | None:
    """Hold rows against each other by what the machine works."""
    return row.cost.cpu_s if row.cost else None


def compare(rows: Iterable[Row], reference: str, seconds: Callable[[Row], float | None] = by_wall) -> list[Row]:
    """
    Write into each row how many times as fast it was as the reference of its group.

    Args:
        rows: of one table.
        reference: the ``what`` of one row of each group.
        seconds: what is compared.
    """
    rows = list(rows)
    references = {row.group: seconds(row) for row in rows if row.what == reference}
    return [replace(row, reference=reference, ratio=_divide(references.get(row.group), seconds(row))) for row in rows]


def _divide(reference_s: float | None, own_s: float | None) -> float | None:
    return reference_s / own_s if reference_s is not None and own_s else None


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


_CHUNK_BYTES = 1 << 20


class BenchHasher(Protocol):
    """Takes bytes and gives a digest in the end."""

    def update(self, data: memoryview, /) -> object:
        """Append bytes."""

    def digest(self) -> bytes:
        """Return the digest of all of them."""


def hash_file(path: bytes, make: Callable[[], BenchHasher]) -> Turn:
    """Read a file and hash it, piece by piece."""
    with Buffers(_CHUNK_BYTES, count=1) as buffers:
        buffer = buffers.acquire()
        return Turn(measure(lambda: _read(path, make(), buffer)))


def _read(path: bytes, hasher: BenchHasher, buffer: memoryview) -> bytes:
    with open(path, "rb", buffering=0) as file:
        while count := file.readinto(buffer):
            hasher.update(buffer[:count])
    return hasher.digest()
