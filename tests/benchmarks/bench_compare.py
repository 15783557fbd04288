"""
``integrity compare`` of a tree of small files with a mounted copy and with manifests, against ``diff -r`` and ``cat``.

    python tests/benchmarks/bench_compare.py [--files 100000] [--runs 3] [--folder DIR]

Five differences of every kind are planted in the copy. No file lies in memory when a contender begins; contenders in
turn, medians. The copies are compared for the first time, after a scan as always: a manifest of MD5s needs no byte of
any file, one of SHA-256s each once. The memory of a run over all files stands beside that of one over a few.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

from measure import find_regular_files, integrity, make_small_files, pick_median, row, scratch, warm

from support.proc import Cost, measure

_EACH = 5
_TIMEOUT_S = 3600


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--files", type=int, default=100_000)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--folder", help="where to make the files: a local disk with some 20 GB free")
    options = parser.parse_args()
    with scratch(options.folder) as folder:
        bench(folder, options.files, options.runs)


def bench(folder: Path, at_least: int, runs: int) -> None:
    """Compare with all kinds of copies."""
    root, copy, catalog = folder / "root", folder / "copy", folder / "catalog.db"
    print(f"{make_small_files(root, at_least)} small files")
    subprocess.run(["cp", "-a", root, copy], check=True)
    measure(integrity(catalog, "scan", root), timeout=_TIMEOUT_S)
    names = {tree: list_names(tree, folder / f"names-{tree.name}") for tree in (root, copy)}
    planted = plant(root, copy)
    measure(integrity(catalog, "scan", root), timeout=_TIMEOUT_S)
    against_diff(runs, root, copy, catalog)
    read = "xargs -0 cat >/dev/null"
    both = ["sh", "-c", f"cat '{names[root]}' '{names[copy]}' | {read}"]
    one = ["sh", "-c", f"{read} <'{names[root]}'"]
    ours, peer = in_turn(runs, [integrity(catalog, "compare", root, "--with", copy)] * runs, both, (root, copy))
    print("\n".join(ours.stdout.decode(errors="replace").splitlines()[-6:]), f"\nplanted: {planted} of each kind")
    row("mounted copy: wall, against reading both sides once", ours.wall_s, peer.wall_s, 1.3)
    whole = ours.peak_rss_bytes
    for tool in ("md5sum", "sha256sum"):
        manifests = write_manifests(root, names[root], folder, tool, runs)
        commands = [integrity(catalog, "compare", root, "--with", manifest) for manifest in manifests]
        ours, peer = in_turn(runs, commands, one, (root,))
        row(f"manifest of {tool}: wall, against reading one side once", ours.wall_s, peer.wall_s, 1.2)
    part = measure(integrity(catalog, "compare", root / "0" / "share" / "doc", "--with", copy))
    row(
        "peak memory of all files, against a folder of them",
        whole / 2**20,
        part.peak_rss_bytes / 2**20,
        1.5,
        unit="MiB",
    )


def against_diff(runs: int, root: Path, copy: Path, catalog: Path) -> None:
    """Compare with a mounted copy beside ``diff -r``: from the disk, and from memory."""
    ours = integrity(catalog, "compare", root, "--with", copy)
    diff = ["diff", "-r", "-q", "--no-dereference", str(root), str(copy)]
    mine, peer = in_turn(runs, [ours] * runs, diff, (root, copy))
    row("mounted copy, cold: wall, against diff -r", mine.wall_s, peer.wall_s, 1.0)
    mine, peer = in_turn(runs, [[*ours, "--read"]] * runs, diff, (root, copy))
    row("the same with --read, both sides verified", mine.wall_s, peer.wall_s, 1.5)
    for tree in (root, copy):
        warm(tree)
    mine, peer = in_turn(runs, [[*ours, "--cached"]] * runs, diff, ())
    row("mounted copy in memory, --cached: wall, against diff -r", mine.wall_s, peer.wall_s, 3.0)


def in_turn(runs: int, ours: Sequence[list[str]], peer: list[str], trees: Sequence[Path]) -> tuple[Cost, Cost]:
    """Run both in turn, several times, each from the disk; give the medians."""
    costs: tuple[list[Cost], list[Cost]] = [], []
    for number in range(runs):
        for into, command in zip(costs, (ours[number], peer), strict=True):
            for tree in trees:
                drop(tree)
            into.append(measure(command, timeout=_TIMEOUT_S))
    return pick_median(costs[0]), pick_median(costs[1])


def drop(tree: Path) -> None:
    """Take the files of a tree out of memory."""
    for path in find_regular_files(tree):
        fd = os.open(path, os.O_RDONLY)
        os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
        os.close(fd)


def list_names(tree: Path, target: Path) -> Path:
    """Write the names of all files, each with a NUL behind it, and bring the files to the disk."""
    target.write_bytes(b"".join(path + b"\0" for path in find_regular_files(tree)))
    os.sync()
    return target


def write_manifests(root: Path, names: Path, folder: Path, tool: str, count: int) -> list[Path]:
    """Write several manifests that are the same: each is compared for the first time."""
    manifests = [folder / f"{tool}-{number}" for number in range(count)]
    subprocess.run(["sh", "-c", f"xargs -0 {tool} <'{names}' >'{manifests[0]}'"], cwd=root, check=True)
    for manifest in manifests[1:]:
        shutil.copy(manifests[0], manifest)
    return manifests


def plant(root: Path, copy: Path) -> int:
    """Make five differences of every kind: missing, stale, flipped, cut, grown, other content, extra."""
    paths = [path for path in find_regular_files(copy) if os.path.getsize(path) > 1000]
    step = len(paths) // (6 * _EACH)
    for number, path in enumerate(paths[: 6 * _EACH * step : step]):
        size = os.path.getsize(path)
        kind = number % 6
        if kind == 0:
            os.unlink(path)
        elif kind == 1:
            own = os.path.join(bytes(root), os.path.relpath(path, bytes(copy)))
            os.unlink(own)  # it may have other names
            Path(os.fsdecode(own)).write_bytes(b"edited since")
        else:
            data = bytearray(Path(os.fsdecode(path)).read_bytes())
            data[500] ^= 1
            os.unlink(path)
            Path(os.fsdecode(path)).write_bytes((data, data[:-1], data + b"x", os.urandom(size))[kind - 2])
    for number in range(_EACH):
        (copy / f"extra {number}").write_bytes(b"extra")
    return _EACH


if __name__ == "__main__":
    main()
