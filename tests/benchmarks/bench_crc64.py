"""
CRC-64/NVME in one thread on each path, against Amazon's library in the same run.

    python tests/benchmarks/bench_crc64.py [--runs 15]

Data in cache; the best of several runs of each, taken in turn.
"""

from __future__ import annotations

import argparse
import os

from awscrt import checksums
from measure import fastest, rate_row, row

from integrity.hashing import crc64_native, crc64_standin

MIB = 1 << 20
# Amazon's library multiplies in registers four times as wide as those of clmul where the machine has them.
BARS = {"vclmul": 0.9, "clmul": 0.2, "table": 0.02}


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=15)
    runs = parser.parse_args().runs
    block, short = os.urandom(MIB), os.urandom(4096)
    for path in crc64_native.PATHS:
        with crc64_native.only_path(path):
            ours, peer = fastest(runs, lambda: crc64_native.crc64(block), lambda: checksums.crc64nvme(block))
            rate_row(f"1 MiB, {path}, against awscrt", MIB, ours, peer, BARS[path])
    ours, peer = fastest(runs * 10, lambda: crc64_native.crc64(short), lambda: checksums.crc64nvme(short))
    rate_row("4 KiB, against awscrt", len(short), ours, peer, 0.5)
    ours, peer = fastest(1, lambda: crc64_native.crc64(block), lambda: crc64_standin.crc64(block))
    rate_row("1 MiB, against the stand-in", MIB, ours, peer, 100)
    packed = os.urandom(8 * 100_000)
    (took,) = fastest(3, lambda: crc64_native.combine_blocks(packed, MIB, 100_000 * MIB))
    row("combine 100,000 blocks", took * 1000, 50, 1.0, unit="ms")


if __name__ == "__main__":
    main()
