"""
``integrity compare`` of many small files with repositories of restic and borg, against what these programs take alone.

    python tests/benchmarks/bench_archives.py [--files 50000] [--size 3000] [--runs 3] [--folder DIR]

Everything lies in memory. The peer of reading back is the program that writes all of a backup as a tar archive, that
of comparing without reading its listing. Contenders in turn, medians of the elapsed time; the processor time is that of
all processes. The load of the machine stands beside each pair: above its processors, compare the processor times.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

from measure import in_turn, integrity, row, scratch

from support.archives import Archive, Borg, Restic

_LIST_START_S = 2.0


class PlainBorg(Borg):
    """A repository of borg without encryption, of which it reads most per second."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        shutil.rmtree(self.place)
        self.environment |= {"BORG_UNKNOWN_UNENCRYPTED_REPO_ACCESS_IS_OK": "yes"}
        self.run("init", "--encryption", "none", self.place)


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--files", type=int, default=50_000)
    parser.add_argument("--size", type=int, default=3000, help="bytes of each")
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--folder", help="where to make the files and the repositories")
    parser.add_argument("--only", choices=["restic", "borg"])
    options = parser.parse_args()
    with scratch(options.folder) as folder:
        root = folder / "root"
        make_files(root, options.files, options.size)
        for kind in (Restic, PlainBorg):
            if options.only in (None, kind.program):
                bench(folder, root, kind(folder), options.runs)


def make_files(root: Path, count: int, size_bytes: int) -> None:
    """Write files of random bytes, a thousand in a folder."""
    for number in range(count):
        folder = root / f"{number // 1000:04}"
        if number % 1000 == 0:
            folder.mkdir(parents=True)
        (folder / f"file-{number:07}.dat").write_bytes(os.urandom(size_bytes))


def bench(folder: Path, root: Path, archive: Archive, runs: int) -> None:
    """Compare a repository."""
    archive.back_up(root)
    os.environ |= archive.environment
    catalog = folder / f"{archive.program}.db"
    ours = [*integrity(catalog, "compare", root, "--with", archive.url)]
    subprocess.run(integrity(catalog, "scan", root), check=True, stdout=subprocess.DEVNULL)
    stream, listing = find_peers(archive)
    show(f"{archive.program}: read back, against tar", runs, [*ours, "--read-percent", "100"], stream, 1.15)
    both = ["sh", "-c", f"{stream[-1]}; cat '{root}'/*/* >/dev/null"]
    show(f"{archive.program}: --read, against tar and cat of the files", runs, [*ours, "--read"], both, 1.15)
    show(f"{archive.program}: not read, against a listing", runs, ours, listing, 1.5, allowance_s=_LIST_START_S)


def find_peers(archive: Archive) -> tuple[list[str], list[str]]:
    """Return how the program alone writes all content of the newest backup, and how it lists it."""
    if archive.program == "restic":
        run = f"restic -r '{archive.place}' --no-cache --no-lock"
        commands = f"{run} dump --archive tar latest /", f"{run} ls --json latest"
    else:
        name = f"'{archive.place}::backup-1'"
        commands = f"borg export-tar {name} -", f"borg list --json-lines {name}"
    stream, listing = (["sh", "-c", f"{command} | cat >/dev/null"] for command in commands)
    return stream, listing


def show(
    what: str, runs: int, ours: Sequence[str], peer: Sequence[str], bar: float, *, allowance_s: float = 0.0
) -> None:
    """Print elapsed and processor time of both; ``allowance_s`` is added to the peer's elapsed time times the bar."""
    mine, other = in_turn(runs, ours, peer)
    assert mine.code == other.code == 0, (mine, other)
    load = os.getloadavg()[0]
    row(f"{what}: elapsed (load {load:.1f})", mine.wall_s, other.wall_s, bar + allowance_s / other.wall_s)
    row(f"{what}: processor", mine.cpu_s, other.cpu_s, bar + allowance_s / other.cpu_s)


if __name__ == "__main__":
    main()
