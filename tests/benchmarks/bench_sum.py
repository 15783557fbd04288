"""
``integrity sum`` against md5sum and xxh128sum: many small files, and few large ones.

    python tests/benchmarks/bench_sum.py [--files 100000] [--count 8] [--mib 512] [--folder DIR]

Warm cache; contenders in turn, medians.
"""

from __future__ import annotations

import argparse
import shutil
from pathlib import Path

from measure import find_regular_files, in_turn, integrity, make_large_files, make_small_files, row, scratch, warm


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--files", type=int, default=100_000)
    parser.add_argument("--count", type=int, default=8)
    parser.add_argument("--mib", type=int, default=512)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--folder", help="where to make the files: a local disk with some 10 GB free")
    options = parser.parse_args()
    with scratch(options.folder) as folder:
        bench_small(folder, options.files, options.runs)
        bench_large(folder, options.count, options.mib, options.runs)


def bench_small(folder: Path, at_least: int, runs: int) -> None:
    """Digest a tree of small files."""
    tree, names = folder / "small", folder / "names"
    print(f"{make_small_files(tree, at_least)} small files")
    names.write_bytes(b"".join(path + b"\0" for path in find_regular_files(tree)))
    peers = [["sh", "-c", f"xargs -0 {tool} <'{names}' >/dev/null"] for tool in ("md5sum", "xxh128sum")]
    if shutil.which("xxh128sum") is None:
        print("xxh128sum is not installed (Debian package xxhash)")
        peers.pop()
    warm(tree)
    ours, *others = in_turn(runs, integrity(folder / "none", "sum", "-r", tree), *peers)
    row("sum -r: wall, against xargs -0 md5sum", ours.wall_s, others[0].wall_s, 0.20)
    if others[1:]:
        row("sum -r: wall, against xargs -0 xxh128sum", ours.wall_s, others[1].wall_s, 1.2)
    row("sum -r: processor time, against md5sum", ours.cpu_s, others[0].cpu_s, 1.0)


def bench_large(folder: Path, count: int, mib: int, runs: int) -> None:
    """Digest a few large files."""
    tree = folder / "large"
    make_large_files(tree, count, mib << 20)
    files = sorted(tree.iterdir())
    warm(tree)
    ours, peer = in_turn(runs, integrity(folder / "none", "sum", *files), ["md5sum", *map(str, files)])
    row(f"sum of {count} x {mib} MiB: wall, against md5sum", ours.wall_s, peer.wall_s, 0.25)


if __name__ == "__main__":
    main()
