"""
Protecting files, against `par2 create` of the same files, and the space that it takes.

    python tests/benchmarks/bench_parity.py [--large 200] [--photos 10000] [--folder DIR]

CPU seconds of the program and of the par2 that it runs; the start-up (that of a ``status``) is taken off ours. par2
gets 400 files at once: of more small ones its 2,000 default slices would waste half, and make parity of 12 %.
"""

from __future__ import annotations

import argparse
import os
import random
import subprocess
from pathlib import Path

from measure import integrity, make_large_files, median_of, row, scratch

from integrity.copies.parity.program import find_par2
from support.proc import measure

_AT_ONCE = 400


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--large", type=int, default=200, help="MiB of large files")
    parser.add_argument("--photos", type=int, default=10_000)
    parser.add_argument("--photo-kib", type=int, default=20, help="average size")
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--folder", help="where to make the files: a local disk")
    options = parser.parse_args()
    with scratch(options.folder) as folder:
        make_large_files(folder / "large", 4, (options.large << 20) // 4)
        bench("large files", folder, folder / "large", options.runs)
        make_photos(folder / "photos", options.photos, options.photo_kib)
        bench("photos", folder, folder / "photos", options.runs)


def make_photos(target: Path, count: int, average_kib: int) -> None:
    """Write files of random bytes whose sizes are spread like those of photos."""
    rng = random.Random(1)
    for number in range(count):
        path = target / f"{number // 500}/IMG_{number:05}.jpg"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(rng.randbytes(max(2000, int(rng.lognormvariate(0, 0.5) * average_kib * 1024 / 1.13))))
    os.sync()


def bench(what: str, folder: Path, tree: Path, runs: int) -> None:
    """Compare the CPU time, and tell the space."""
    catalog, parity = folder / f"{tree.name}.db", folder / f"{tree.name}.parity"
    subprocess.run(integrity(catalog, "scan", tree), check=True, stdout=subprocess.DEVNULL)
    start_up = median_of(runs, integrity(catalog, "status"))
    ratios = []
    for number in range(runs):  # in turn, because shared machines drift
        target = parity / str(number)
        target.mkdir(parents=True)
        theirs = sum(measure(command).cpu_s for command in list_commands(tree, folder / f"{tree.name}.peer{number}"))
        ours = measure(integrity(catalog, "protect", tree, "--folder", target)).cpu_s - start_up.cpu_s
        forget(catalog)
        ratios.append((ours, theirs))
    ratios.sort(key=lambda pair: pair[0] / pair[1])
    mine, theirs = ratios[len(ratios) // 2]
    row(f"protect {what}: CPU time, against par2 create", mine, theirs, 1.15, unit="s")
    size = sum(path.stat().st_size for path in tree.rglob("*") if path.is_file())
    made = sum(path.stat().st_size for path in (parity / "0").rglob("*.par2"))
    row(f"parity of {what}: size, against that of the files", 100 * made / size, 100, 0.08, unit="%")


def list_commands(tree: Path, target: Path) -> list[list[str]]:
    """List the commands that protect the same files by par2 alone."""
    target.mkdir()
    files = sorted(str(path) for path in tree.rglob("*") if path.is_file())
    return [
        [find_par2(), "create", "-q", "-q", "-r5", "-m256", f"-B{tree}", str(target / f"{first}.par2"), *part]
        for first in range(0, len(files), _AT_ONCE)
        if (part := files[first : first + _AT_ONCE])
    ]


def forget(catalog: Path) -> None:
    """Let the sets be made once more."""
    from integrity.catalog.connection import Catalog

    with Catalog.open(os.fsencode(catalog), writes=True) as opened, opened.transaction() as connection:
        connection.run("DELETE FROM parity_set")


if __name__ == "__main__":
    main()
