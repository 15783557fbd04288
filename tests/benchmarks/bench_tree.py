"""
What files of real sizes cost, on one tree, in one run: recording, scanning again, re-reading, digesting.

    python tests/benchmarks/bench_tree.py TREE [--runs 5] [--folder DIR] [--million]

Against what a user would pick instead: md5sum, hashdeep, xxh128sum, cat and find (Debian: hashdeep, xxhash). Contenders
take turns, for shared machines drift; medians. As root also with cold caches. ``--million`` makes a million small ones
in a thousand folders, and does the same with them; and in one folder, to see the memory (some minutes, and some 10 GB).
"""

from __future__ import annotations

import argparse
import hashlib
import os
import shutil
import sqlite3
import sys
import time
from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path

from measure import fastest, find_regular_files, in_turn, integrity, pick_median, rate_row, row, scratch, warm

from integrity.files.batch import READ, Arena, PlainBatchReader
from integrity.files.buffers import Buffers
from integrity.hashing import small_batch
from integrity.hashing.md5 import Md5
from integrity.hashing.md5_native import LaneScheduler
from integrity.hashing.small_batch import Lanes
from support.proc import Cost, measure

ARENA_BYTES = 1 << 20
PATHS_AT_ONCE = 256
MOST_S = 3600


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tree", type=Path, help="files to read; it stays as it is")
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--folder", help="where to put catalogs, and a million files: a local disk")
    parser.add_argument("--million", action="store_true")
    options = parser.parse_args()
    bench_start(options.runs)
    bench_short_messages(options.runs)
    bench_lanes(options.tree)
    with scratch(options.folder) as folder:
        bench_tree(options.tree, folder, options.runs)
        if options.million:
            bench_million(folder)


def bench_start(runs: int) -> None:
    """Start the program."""
    ours, peer = in_turn(runs * 3, integrity(Path("/none"), "--help"), [sys.executable, "-P", "-c", "import click"])
    row(
        "--help: processor time, against python -c 'import click'",
        ours.cpu_s * 1000,
        peer.cpu_s * 1000,
        1.15,
        unit="ms",
    )


def bench_short_messages(runs: int) -> None:
    """Digest a short message with an object of its own."""
    message = os.urandom(64)

    def repeat(digest: Callable[[], bytes]) -> Callable[[], None]:
        return lambda: [digest() for _ in range(20_000)] and None

    ours_s, peer_s = fastest(runs, repeat(lambda: Md5(message).digest()), repeat(lambda: hashlib.md5(message).digest()))
    rate_row("Md5(64 bytes).digest(), against hashlib", 64 * 20_000, ours_s, peer_s, 0.8)


def bench_lanes(tree: Path) -> None:
    """Compute MD5 of files as they lie in the engine's arenas, and with hashlib from the same memory."""
    pieces = Buffers(8 * ARENA_BYTES, 2).cut(ARENA_BYTES)
    scheduler = LaneScheduler()
    work: Lanes[None] = Lanes(scheduler, [Arena(piece.acquire()) for piece in pieces])
    ours_s = peer_s = 0.0
    size_bytes = 0
    paths = find_regular_files(tree)
    while left := list(islice(paths, PATHS_AT_ONCE)):
        while left:
            while (arena := work.arena) is None:
                ours_s += timed(work.wait)
                list(work.take_finished())
            PlainBatchReader().read(left, [], ARENA_BYTES, arena)
            left = left[arena.count :] if arena.count else []
            contents = [
                arena.memory[at : at + size] for status, size, _, _, _, at, *_ in arena.rows() if status == READ
            ]
            peer_s += timed(lambda contents=contents: [hashlib.md5(one).digest() for one in contents])  # type: ignore[misc]
            size_bytes += sum(map(len, contents))
            ours_s += timed(lambda: work.submit(None, small_batch.MD5))
            list(work.take_finished())
    ours_s += timed(scheduler.flush)
    rate_row("MD5 of files of up to 1 MiB, one thread, against hashlib", size_bytes, ours_s, peer_s, 9)


def timed(action: Callable[[], object]) -> float:
    """Do it, and give the processor time of this thread."""
    began = time.thread_time()
    action()
    return time.thread_time() - began


def bench_tree(tree: Path, folder: Path, runs: int) -> None:
    """Do with all files of a tree what the program does."""
    catalog, names = folder / "catalog.db", folder / "names"
    names.write_bytes(b"".join(path + b"\0" for path in find_regular_files(tree)))
    count = names.read_bytes().count(b"\0")
    print(f"{count} files below {tree}")
    tools = {tool: ["sh", "-c", f"xargs -0 {tool} <'{names}' >/dev/null"] for tool in ("md5sum", "xxh128sum", "cat")}
    tools["hashdeep"] = ["sh", "-c", f"exec hashdeep -c md5 -r -l '{tree}' >/dev/null"]
    tools["find"] = ["sh", "-c", f"exec find '{tree}' -type f -printf '%p %s %T@ %C@ %i\\n' >/dev/null"]
    for missing in [tool for tool in tools if shutil.which(tool) is None]:
        print(f"{missing} is not installed")
        del tools[missing]
    warm(tree)
    first = dict(zip([*tools, "scan", "sum"], in_turn(
        runs, *tools.values(), integrity(catalog, "scan", tree), integrity(catalog, "sum", "-r", tree),
        before=lambda: remove(catalog),
    ), strict=True))  # fmt: skip
    second = measure(integrity(catalog, "scan", tree), timeout=MOST_S)
    again = [measure(integrity(catalog, "scan", tree), timeout=MOST_S) for _ in range(runs)]
    show(first, "first scan", "scan", "md5sum", 0.30)
    show(first, "first scan", "scan", "hashdeep", 0.45)
    show(first, "sum -r", "sum", "md5sum", 0.20)
    show(first, "sum -r", "sum", "xxh128sum", 1.2)
    show(first | {"second": second}, "second scan, once", "second", "find", 1.5)
    show(first | {"again": pick_median(again)}, "scan again", "again", "find", 1.5)
    row("first scan: peak memory", first["scan"].peak_rss_bytes / 2**20, 128, 1.0, unit="MiB")
    print(f"processor time a file: first scan {first['scan'].cpu_s / count * 1e6:.1f} us, again "
          f"{pick_median(again).cpu_s / count * 1e6:.1f} us")  # fmt: skip
    show_size(catalog)
    if os.geteuid() == 0:
        bench_cold(tree, catalog, tools["cat"], runs)


def bench_cold(tree: Path, catalog: Path, cat: list[str], runs: int) -> None:
    """Read all of it from the disk."""
    commands = {"cat": cat}
    commands |= {job: integrity(catalog, job, tree) for job in ("scrub", "scan")}  # the last one records all anew
    costs: dict[str, list[Cost]] = {job: [] for job in commands}
    for _ in range(runs):
        for job, command in commands.items():
            if job == "scan":
                remove(catalog)
            forget_caches()
            costs[job].append(measure(command, timeout=MOST_S))
    medians = {job: pick_median(some) for job, some in costs.items()}
    show(medians, "scrub, cold", "scrub", "cat", 0.9)
    show(medians, "first scan, cold", "scan", "cat", 1.0)


def forget_caches() -> None:
    """Have nothing in memory of what is on disks."""
    os.sync()
    Path("/proc/sys/vm/drop_caches").write_text("3")


def show(costs: dict[str, Cost], what: str, ours: str, peer: str, bar: float) -> None:
    """Print a line, if the peer is installed."""
    if peer in costs:
        row(f"{what}: wall, against {peer}", costs[ours].wall_s, costs[peer].wall_s, bar)


def remove(catalog: Path) -> None:
    """Remove a catalog with all that lies beside it."""
    for path in catalog.parent.glob(catalog.stem + "*"):
        path.unlink()


def show_size(catalog: Path) -> None:
    """Say what the catalog takes for each file beyond its path."""
    db = sqlite3.connect(catalog)
    count, paths = db.execute(
        "SELECT count(*), sum(length(folder.path) + length(file.name)) FROM file JOIN folder ON folder.id = folder_id"
    ).fetchone()
    db.close()
    row("catalog: bytes a file beyond its path", (catalog.stat().st_size - paths) / count, 350, 1.0, unit="bytes")


def bench_million(folder: Path) -> None:
    """Do the same with a million small files; hold the memory for them in one folder against that for 100,000."""
    make_tiny_files(folder / "many", 1000, 1000)
    bench_tree(folder / "many", folder, 1)
    peaks = []
    for count in (100_000, 1_000_000):
        tree, catalog = folder / f"tiny-{count}", folder / f"tiny-{count}.db"
        make_tiny_files(tree, 1, count)
        peaks.append(measure(integrity(catalog, "scan", tree), timeout=MOST_S).peak_rss_bytes / 2**20)
    row("memory for 1,000,000 files in one folder, against 100,000 + 20 MiB", peaks[1], peaks[0] + 20, 1.0, unit="MiB")


def make_tiny_files(tree: Path, folders: int, count: int) -> None:
    """Make ``count`` files of some 150 bytes in each of some folders."""
    files = tiny_files()
    for number in range(folders):
        folder = tree / f"{number:04}"
        folder.mkdir(parents=True)
        for name, content in islice(files, count):
            (folder / name).write_bytes(content)
    os.sync()


def tiny_files() -> Iterator[tuple[str, bytes]]:
    """Give names and contents, each different."""
    number = 0
    while True:
        yield f"{number:07}", b"%d " % number * (150 // len(b"%d " % number))
        number += 1


if __name__ == "__main__":
    main()
