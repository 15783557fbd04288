"""
Take the time of a piece of work: wall, and CPU seconds in user and in system mode.

Work of our own is measured by the difference of getrusage(2) of this process, all of its threads included. A program is
measured by the rusage that wait4(2) gives of exactly that child and of the children that it waited for, so what runs
beside it does not count. Each figure is the middle one of several runs, by wall time: its three parts belong together.

The sum of user and system time is exact. How it is divided between the two many kernels only sample, at each tick of
their clock, so the division of what takes less than a second or so is rough.
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
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from itertools import repeat
from typing import NamedTuple

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


class Ended(NamedTuple):
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


def run_program(command: Sequence[bytes | str], environment: Mapping[str, str] | None = None) -> Ended:
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
    return Ended(Cost(wall_s, usage.ru_utime, usage.ru_stime), process.returncode, first)


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
