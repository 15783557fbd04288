"""
The MD5 core in one thread, against hashlib in the same run.

    python tests/benchmarks/bench_md5.py [--runs 7]

Data in cache; the best of several runs of each, taken in turn. `integrity bench lanes` shows more lengths.
"""

from __future__ import annotations

import argparse
import hashlib
import os

from measure import fastest, rate_row, row

from integrity.hashing import Md5, md5_many
from integrity.hashing.md5_native import digest_arena, digest_many, list_paths, only_path

MIB = 1 << 20
BARS = {"avx512": 13, "avx2": 7.5}


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=7)
    runs = parser.parse_args().runs
    bench_one_stream(runs)
    bench_batches(runs)
    bench_short_messages(runs)


def bench_one_stream(runs: int) -> None:
    """Hash one stream; the same with the digests of its blocks beside it; save and take up its state."""
    data = os.urandom(8 * MIB)
    blocks = [memoryview(data)[at : at + MIB] for at in range(0, len(data), MIB)]

    def with_blocks() -> None:
        stream = Md5()
        digest_many(blocks, beside=[(stream, data)])

    piece = data[:MIB]
    ours, peer = fastest(runs * 5, lambda: Md5(piece).digest(), lambda: hashlib.md5(piece).digest())
    rate_row("one stream, 1 MiB, against hashlib", MIB, ours, peer, 1.0)
    both, one = fastest(runs, with_blocks, lambda: Md5(data).digest())
    rate_row("file and blocks in one pass, against one stream", len(data), both, one, 0.95)
    stream = Md5(data[:77])

    def save_and_take_up() -> None:
        for _ in range(1000):
            Md5.import_state(stream.export_state())

    (took,) = fastest(runs, save_and_take_up)
    row("export and import of a state", took * 1000, 2, 1.0, unit="us")


def bench_batches(runs: int) -> None:
    """Hash messages of 64 KiB on each path that this machine has."""
    messages = [os.urandom(64 << 10) for _ in range(256)]
    for path in list_paths():
        with only_path(path):
            ours, peer = fastest(runs, lambda: md5_many(messages), lambda: one_by_one(messages))
        rate_row(f"64 KiB messages, {path}, against hashlib", len(messages) << 16, ours, peer, BARS.get(path, 1.0))


def bench_short_messages(runs: int) -> None:
    """Hash a thousand messages of 64 bytes: as objects, and in one piece of memory."""
    messages = [os.urandom(64) for _ in range(1000)]
    arena = b"".join(messages)
    ours, joined, peer = fastest(
        runs * 10, lambda: md5_many(messages), lambda: digest_arena(arena, 64), lambda: one_by_one(messages)
    )
    rate_row("1,000 bytes objects of 64 bytes, against a loop of hashlib", len(arena), ours, peer, 3.0)
    rate_row("the same in one arena", len(arena), joined, peer, 3.0)


def one_by_one(messages: list[bytes]) -> list[bytes]:
    """Do it as everybody does."""
    return [hashlib.md5(message).digest() for message in messages]


if __name__ == "__main__":
    main()
