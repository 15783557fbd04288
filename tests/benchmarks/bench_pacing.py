"""
What a scrub leaves of a disk to somebody else who reads it, with the service's pace and without any.

    python tests/benchmarks/bench_pacing.py [--runs 4]

The disk is a simulated one with one arm: 60 MB/s, 10 ms for each seek. Each measurement stands between two of the other
reader alone. Needs root.
"""

from __future__ import annotations

import argparse
import statistics
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from support.diskload import SLOW_DISK, Load, measure, plant_load
from support.flakydisk import FlakyDisk
from support.namespaces import enter_private_mounts
from support.waiting import wait_until

FLOOR_BYTES_PER_S = 2 << 20
NO_PACE_BYTES_PER_S = 1 << 40


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=4)
    options = parser.parse_args()
    enter_private_mounts()
    with FlakyDisk("ext4") as disk:
        plant_load(disk.folder)
        disk.add(SLOW_DISK)
        for jobs in (1, 2):
            for name, floor in (("paced", FLOOR_BYTES_PER_S), ("not paced", NO_PACE_BYTES_PER_S)):
                shares, ours = zip(*(share(disk.folder, jobs, floor) for _ in range(options.runs)), strict=True)
                print(
                    f"{name}, {jobs} at once: the other reads at {statistics.median(shares):.2f} of its speed alone"
                    f" ({min(shares):.2f} to {max(shares):.2f}), the scrub {statistics.median(ours) / 1e6:.1f} MB/s"
                )


def share(folder: Path, jobs: int, floor_bytes_per_s: int) -> tuple[float, float]:
    """Return which part of its speed the other reader has beside a scrub, and the scrub's speed."""
    with Load("rival", folder) as rival:
        before = rival.measure(1.0)
        with Load("scrub", folder, jobs=jobs, floor_bytes_per_s=floor_bytes_per_s) as scrub:
            wait_until(lambda: scrub.measure(0.6) < 1.6 * floor_bytes_per_s, "the floor", timeout_s=30)
            theirs, ours = measure(2.0, rival, scrub)
        return theirs / max(before, rival.measure(1.0)), ours


if __name__ == "__main__":
    main()
