"""
How the time for a shared tree falls with the number of workers, each limited to the rate of a slow disk.

    python tests/benchmarks/bench_shards.py --files 1000000 --rate 1M

A tree of small files is made once, and read by one worker and by several, each time with a new hub on a PostgreSQL of
its own. The rate must be slow enough for the processors to wait for it: what is measured is the sharing of the work and
not this machine. Reported are the time until every shard is recorded, what each worker does in a second, the time of
the survey, and the processor time of the workers and the hub.
"""

from __future__ import annotations

import argparse
import os
import resource
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

sys.path.insert(0, str(Path(__file__).parents[1]))

from integrity.units import parse_size
from support.hubserver import make_tables
from support.postgres import PostgresServer
from support.shardrig import ShardRig
from support.waiting import wait_until

_SIZE_BYTES = 1024
_IN_FOLDER = 500
_DAY_S = 86_400.0


class Timed(NamedTuple):
    """One run."""

    workers: int
    shards: int
    survey_s: float
    total_s: float
    files: int
    bytes: int


def make_small_files(top: Path, count: int) -> None:
    """Make files of 1 KiB, 500 in a folder, 20 folders in each folder above."""
    content = os.urandom(_SIZE_BYTES - 16)
    for number in range(-(-count // _IN_FOLDER)):
        folder = top / f"{number // 20:04}" / f"{number % 20:02}"
        folder.mkdir(parents=True)
        for index in range(min(_IN_FOLDER, count - number * _IN_FOLDER)):
            (folder / f"{index:03}").write_bytes(b"%015d " % (number * _IN_FOLDER + index) + content)


def drop_from_memory(tree: Path) -> None:
    """Have the files read from the disk: what is in memory is not limited."""
    os.sync()
    for folder, _, names in os.walk(tree):
        for name in names:
            fd = os.open(os.path.join(folder, name), os.O_RDONLY)
            os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
            os.close(fd)


def run(tree: Path, scratch: Path, workers: int, *, files: int, rate: int) -> Timed:
    """Let workers record a tree; return how long it took."""
    with PostgresServer() as server:
        url = make_tables(server.create_database())
        most = max(100, files // 80)
        folder = scratch / f"rig{workers}"
        with ShardRig(url, folder, tree, most_files=most, lease_s=30, verify_every="90d") as rig:
            began = time.monotonic()
            for _ in range(workers):
                rig.start_worker(None, "--rate", str(rate))
            wait_until(rig.is_surveyed, "the survey", timeout_s=_DAY_S, every_s=0.05)
            survey_s = time.monotonic() - began
            wait_until(lambda: rig.has_read_since(0), "all shards", timeout_s=_DAY_S, every_s=0.2)
            total_s = time.monotonic() - began
            rows = rig.shards()
            return Timed(
                workers,
                len(rows),
                survey_s,
                total_s,
                sum(int(str(row.file_count)) for row in rows),
                sum(int(str(row.byte_count)) for row in rows),
            )


def main() -> None:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(description="Time of a shared tree with one worker and with several.")
    parser.add_argument("--files", type=int, default=1_000_000)
    parser.add_argument("--rate", type=parse_size, default=1 << 20, help="of each worker, bytes a second")
    parser.add_argument("--workers", type=int, nargs="+", default=[1, 4])
    parser.add_argument("--folder", type=Path, help="where to work; default: a temporary folder")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=options.folder) as name:
        tree = Path(name) / "tree"
        make_small_files(tree, options.files)
        print(f"{options.files:,} files of {_SIZE_BYTES:,} bytes, each worker limited to {options.rate:,} bytes/s")
        first: Timed | None = None
        for count in options.workers:
            drop_from_memory(tree)
            cpu = _cpu_s()
            done = run(tree, Path(name), count, files=options.files, rate=options.rate)
            first = first or done
            assert done.files == options.files, f"{done.files:,} files were recorded"
            print(
                f"workers {done.workers}: {done.total_s:8.1f} s, survey {done.survey_s:6.1f} s, shards {done.shards},"
                f" {done.bytes / done.total_s / done.workers:,.0f} bytes/s each, processor {_cpu_s() - cpu:.1f} s,"
                f" ratio {first.total_s / done.total_s:.2f}",
                flush=True,
            )


def _cpu_s() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


if __name__ == "__main__":
    main()
