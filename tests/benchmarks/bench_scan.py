"""
First scan of many small files, against md5sum; the catalog's size, memory, and --help.

    python tests/benchmarks/bench_scan.py [--files 100000] [--million] [--folder DIR]

Warm cache, one run after the other. Needs root for the I/O counters. ``--million`` adds a tree of a million tiny files
in one folder, for the memory bar (some minutes).
"""

from __future__ import annotations

import argparse
import sqlite3
from pathlib import Path

from measure import find_regular_files, in_turn, integrity, make_small_files, median_of, row, scratch, warm

from support.proc import measure


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--files", type=int, default=100_000)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--million", action="store_true")
    parser.add_argument("--folder", help="where to make the trees: a local disk with some 10 GB free")
    options = parser.parse_args()
    help_ = median_of(5, integrity(Path("/nonexistent"), "--help"))
    row("integrity --help", help_.wall_s * 1000, 100, 1.0, unit="ms")
    with scratch(options.folder) as folder:
        tree, catalog = folder / "tree", folder / "catalog.db"
        count = make_small_files(tree, options.files)
        print(f"{count} small files")
        bench_first_scan(tree, catalog, options.runs)
        bench_size(catalog)
        if options.million:
            bench_million(folder)


def bench_first_scan(tree: Path, catalog: Path, runs: int) -> None:
    """Scan a tree that is not known, each time into a new catalog."""
    names = catalog.with_name("names")
    names.write_bytes(b"".join(path + b"\0" for path in find_regular_files(tree)))
    md5sum = ["sh", "-c", f"xargs -0 md5sum <'{names}' >/dev/null"]
    warm(tree)
    ours, peer = in_turn(runs, integrity(catalog, "scan", tree), md5sum, before=lambda: remove(catalog))
    row("first scan: wall, against xargs -0 md5sum", ours.wall_s, peer.wall_s, 1.0)
    row("the same, with lanes", ours.wall_s, peer.wall_s, 0.25)
    row("first scan: processor time, against md5sum", ours.cpu_s, peer.cpu_s, 1.0)
    row("first scan: peak memory", ours.peak_rss_bytes / 2**20, 150, 1.0, unit="MiB")


def remove(catalog: Path) -> None:
    """Remove a catalog with all that lies beside it."""
    for path in catalog.parent.glob(catalog.stem + "*"):
        path.unlink()


def bench_size(catalog: Path) -> None:
    """Say what the catalog takes for each file beyond its path."""
    db = sqlite3.connect(catalog)
    count, paths = db.execute(
        "SELECT count(*), sum(length(folder.path) + length(file.name)) FROM file JOIN folder ON folder.id = folder_id"
    ).fetchone()
    db.close()
    row("catalog: bytes a file beyond its path", (catalog.stat().st_size - paths) / count, 350, 1.0, unit="bytes")


def bench_million(folder: Path) -> None:
    """Scan a million files in one folder, and a hundred thousand, and compare the memory."""
    peaks = []
    for count in (100_000, 1_000_000):
        tree, catalog = folder / f"tiny-{count}", folder / f"tiny-{count}.db"
        tree.mkdir()
        for number in range(count):
            (tree / f"{number:07}").write_bytes(b"%d" % number)
        cost = measure(integrity(catalog, "scan", tree), timeout=3600)
        again = measure(integrity(catalog, "scan", tree), timeout=3600)
        print(f"{count} tiny files in one folder: scan {cost.wall_s:.1f} s, again {again.wall_s:.1f} s")
        peaks.append(max(cost.peak_rss_bytes, again.peak_rss_bytes) / 2**20)
    row("memory for 1,000,000 files, against 100,000 + 20 MiB", peaks[1], peaks[0] + 20, 1.0, unit="MiB")


if __name__ == "__main__":
    main()
