"""
Scan of many small files in which nothing changed, against find looking at each of them.

    python tests/benchmarks/bench_rescan.py [--files 100000] [--runs 5] [--folder DIR]

Warm cache, start-up included; the two take turns, for shared machines drift. Needs root for the I/O counters.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from measure import integrity, make_small_files, pick_median, row, scratch

from support.proc import measure


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--files", type=int, default=100_000)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--folder", help="where to make the tree: a local disk with some 5 GB free")
    options = parser.parse_args()
    with scratch(options.folder) as folder:
        tree, catalog = folder / "tree", folder / "catalog.db"
        count = make_small_files(tree, options.files)
        measure(integrity(catalog, "scan", tree), timeout=3600)  # a baseline for each, and a warm cache
        measure(integrity(catalog, "scan", tree))  # those whose time was too fresh to be trusted are hashed once more
        print(f"{count} small files")
        bench(tree, catalog, options.runs)


def bench(tree: Path, catalog: Path, runs: int) -> None:
    """Compare the times."""
    find = ["sh", "-c", f"exec find '{tree}' -type f -printf '%p %s %T@ %i\\n' >/dev/null"]
    pairs = [(measure(integrity(catalog, "scan", tree)), measure(find)) for _ in range(runs)]
    ours, peer = pick_median([pair[0] for pair in pairs]), pick_median([pair[1] for pair in pairs])
    row("rescan, nothing changed: wall, against find -printf", ours.wall_s, peer.wall_s, 3.0)
    ours, peer = (min(costs, key=lambda cost: cost.cpu_s) for costs in zip(*pairs, strict=True))
    print(f"the least that they took of the processors: {ours.cpu_s:.2f} s, find {peer.cpu_s:.2f} s")


if __name__ == "__main__":
    main()
