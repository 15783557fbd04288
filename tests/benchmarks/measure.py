"""Measure commands as a user runs them, or calls, and print them side by side with what he would use instead."""

from __future__ import annotations

import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from support.proc import Cost, measure

SOURCES = ("/usr/lib", "/usr/share")


@contextmanager
def scratch(folder: str | None) -> Iterator[Path]:
    """Make a folder for trees and catalogs, and remove it at the end."""
    path = Path(tempfile.mkdtemp(prefix="integrity-bench-", dir=folder))
    try:
        yield path
    finally:
        shutil.rmtree(path)


def make_small_files(target: Path, at_least: int) -> int:
    """Copy /usr/lib and /usr/share as often as it takes to have so many files; say how many there are."""
    count = copies = 0
    while count < at_least:
        folder = target / str(copies)
        folder.mkdir(parents=True)
        subprocess.run(["cp", "-a", *SOURCES, str(folder)], check=True, stderr=subprocess.DEVNULL)
        copies += 1
        count = sum(len(names) for _, _, names in os.walk(target))
    os.sync()
    return count


def make_large_files(target: Path, count: int, size_bytes: int) -> None:
    """Write files of random bytes and bring them to the disk."""
    target.mkdir(parents=True)
    for number in range(count):
        with (target / f"{number}.bin").open("wb") as file:
            for _ in range(size_bytes >> 20):
                file.write(os.urandom(1 << 20))
    os.sync()


def integrity(catalog: Path, *args: str | Path) -> list[str]:
    """Make the command line of the program, with a catalog of its own and no config."""
    return [sys.executable, "-P", "-m", "integrity", "--catalog", str(catalog), *map(str, args)]


def median_of(runs: int, command: Sequence[str], before: Callable[[], None] | None = None) -> Cost:
    """Run a command several times and give the run with the median wall time."""
    costs = []
    for _ in range(runs):
        if before is not None:
            before()
        costs.append(measure(command))
    return pick_median(costs)


def pick_median(costs: Sequence[Cost]) -> Cost:
    """Give the run with the median wall time."""
    middle = statistics.median_low(cost.wall_s for cost in costs)
    return next(cost for cost in costs if cost.wall_s == middle)


def in_turn(runs: int, *commands: Sequence[str], before: Callable[[], None] = lambda: None) -> list[Cost]:
    """Run each command in turn, several times, as shared machines drift; give the median of each."""
    costs: list[list[Cost]] = [[] for _ in commands]
    for _ in range(runs):
        before()
        for index, command in enumerate(commands):
            costs[index].append(measure(command))
    return [pick_median(each) for each in costs]


def fastest(runs: int, *actions: Callable[[], object]) -> list[float]:
    """Do each in turn, several times; give the least seconds of each."""
    times = [float("inf")] * len(actions)
    for _ in range(runs):
        for index, action in enumerate(actions):
            began = time.perf_counter()
            action()
            times[index] = min(times[index], time.perf_counter() - began)
    return times


def find_regular_files(tree: Path) -> Iterator[bytes]:
    """Give the path of each regular file, no links."""
    for folder, _, names in os.walk(os.fsencode(tree)):
        for name in names:
            path = os.path.join(folder, name)
            if not os.path.islink(path):
                yield path


def warm(tree: Path) -> None:
    """Read all files, so that they lie in memory."""
    for path in find_regular_files(tree):
        with open(path, "rb", buffering=0) as file:
            while file.read(1 << 20):
                pass


def row(what: str, ours: float, peer: float, bar: float, *, unit: str = "s", at_least: bool = False) -> None:
    """Print one line of the table: figures of both, their ratio and the bar."""
    ratio = ours / peer
    is_met = ratio >= bar if at_least else ratio <= bar
    sign = ">=" if at_least else "<="
    print(
        f"{what:<58} {ours:10.2f} {unit:<8} peer {peer:10.2f} {unit:<8} ratio {ratio:6.2f}  bar {sign} {bar:g}"
        f"  {'met' if is_met else 'MISSED'}",
        flush=True,
    )


def rate_row(what: str, size_bytes: int, ours_s: float, peer_s: float, bar: float) -> None:
    """Print a line of rates."""
    row(what, size_bytes / ours_s / 1e9, size_bytes / peer_s / 1e9, bar, unit="GB/s", at_least=True)
