"""
Scrub of few large files from the disk, against dd with O_DIRECT.

    python tests/benchmarks/bench_scrub.py [--mib 512] [--count 8] [--folder DIR]

The start-up (the time of a ``status``) is taken off ours. Bytes are those that the process itself fetched from storage.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from measure import integrity, make_large_files, median_of, row, scratch

from support.proc import measure


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--mib", type=int, default=512)
    parser.add_argument("--count", type=int, default=8)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--folder", help="where to make the files: a local disk")
    options = parser.parse_args()
    with scratch(options.folder) as folder:
        tree, catalog = folder / "tree", folder / "catalog.db"
        make_large_files(tree, options.count, options.mib << 20)
        bench(tree, catalog, options.runs)


def bench(tree: Path, catalog: Path, runs: int) -> None:
    """Compare the rates."""
    first = measure(integrity(catalog, "scan", tree))
    dd = ["sh", "-c", f"for f in '{tree}'/*; do dd if=\"$f\" of=/dev/null bs=8M iflag=direct status=none; done"]
    start_up = median_of(runs, integrity(catalog, "status"))
    ratios = []
    for _ in range(runs):  # in turn, because shared disks drift
        peer = measure(dd)
        ours = measure(integrity(catalog, "scrub", tree))
        ratios.append((rate(ours.read_bytes, ours.wall_s - start_up.wall_s), rate(peer.read_bytes, peer.wall_s)))
    size = sum(path.stat().st_size for path in tree.iterdir())
    print(f"first scan {first.wall_s:.1f} s; a scrub fetches {ours.read_bytes / size:.3f} of the bytes from the disk")
    ratios.sort(key=lambda pair: pair[0] / pair[1])
    mine, theirs = ratios[len(ratios) // 2]
    row("scrub: rate from the disk, against dd iflag=direct", mine, theirs, 0.95, unit="MiB/s", at_least=True)


def rate(size_bytes: int, duration_s: float) -> float:
    """MiB a second."""
    return size_bytes / 2**20 / duration_s


if __name__ == "__main__":
    main()
