"""
Digest trees of a million files: how long, how much memory, how many bytes go to the hub.

    python tests/benchmarks/bench_report.py 20000      # folders, with 1,000,000 files in all
    python tests/benchmarks/bench_report.py 1

The hub is the small one of the tests; it keeps everything in memory in another process.
"""

from __future__ import annotations

import os
import resource
import sys
import tempfile
import time
from multiprocessing import Pipe, Process
from multiprocessing.connection import Connection
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from support.catalogs import CatalogBox, make_reading
from support.reporting import ReportingBox
from support.smallhub import SmallHub

FILES = int(os.environ.get("BENCH_FILES", "1000000"))
AT_ONCE = 10_000


def serve(pipe: Connection) -> None:
    """Run the hub until the pipe says so."""
    with SmallHub() as hub:
        pipe.send(hub.url)
        pipe.recv()
        pipe.send((len(hub.calls), hub.settled))


def fill(box: CatalogBox, folders: int) -> None:
    """Record the files."""
    each = FILES // folders
    for start in range(0, FILES, AT_ONCE):
        numbers = range(start, start + AT_ONCE)
        box.record_all({b"%06d/%08d.jpg" % (number // each, number): make_reading(number) for number in numbers})


def measure(name: str, work: object) -> None:
    """Print how long something takes, and the memory of this process after it."""
    began_at, cpu_at = time.perf_counter(), time.process_time()
    work()  # type: ignore[operator]  # any function without arguments
    took, cpu = time.perf_counter() - began_at, time.process_time() - cpu_at
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
    print(f"{name:<40} {took:8.2f} s {cpu:8.2f} s CPU; peak memory {peak} MiB", flush=True)


def main() -> None:
    """Measure."""
    folders = int(sys.argv[1])
    here, there = Pipe()
    process = Process(target=serve, args=(there,), daemon=True)
    process.start()
    url = here.recv()
    with tempfile.TemporaryDirectory() as place, CatalogBox(os.fsencode(place) + b"/catalog.db") as box:
        reporting = ReportingBox(box, url)
        measure("first report of an empty root", reporting.report)
        measure(f"record {FILES:,} files in {folders:,} folders", lambda: fill(box, folders))
        renew = reporting.reporter._trees.renew
        measure("digest all folders, build the tree", lambda: renew(reporting.describe().roots))
        box.record(b"000000/new", make_reading("new"))
        measure("the same after one new file", lambda: renew(reporting.describe().roots))
        measure("report: send all", reporting.report)
        box.record(b"000000/newer", make_reading("newer"))
        measure("report after one new file", reporting.report)
        measure("report without news", reporting.report)
        reporting.close()
    here.send(None)
    print("calls, settled:", here.recv())
    process.join()


if __name__ == "__main__":
    main()
