"""
``integrity sum`` of few large files against md5sum; of many small ones see bench_tree.

    python tests/benchmarks/bench_sum.py [--count 8] [--mib 512] [--folder DIR]

Warm cache; contenders in turn, medians.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from measure import in_turn, integrity, make_large_files, row, scratch, warm


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=8)
    parser.add_argument("--mib", type=int, default=512)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--folder", help="where to make the files: a local disk with some 10 GB free")
    options = parser.parse_args()
    with scratch(options.folder) as folder:
        bench_large(folder, options.count, options.mib, options.runs)


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
