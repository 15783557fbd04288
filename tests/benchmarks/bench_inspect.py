"""
Measure ``integrity inspect``: flipped bits that are seen, false alarms on this machine, speed beside the usual tools.

    python tests/benchmarks/bench_inspect.py [FOLDER...]

Files of a format are those of the machine, and made ones where there are fewer than 20. A flip is one bit anywhere in a
file; those that no checksum covers (names in a zip, tags) are counted apart. Speed is in CPU seconds, of one process
and its children, over a large file and over many small ones.
"""

from __future__ import annotations

import bz2
import gzip
import lzma
import os
import random
import resource
import shutil
import subprocess
import sys
import zipfile
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import soundfile
from PIL import Image

from benchmarks.measure import scratch
from integrity.errors import ReadError
from integrity.inspect.formats import FORMATS
from integrity.inspect.inspector import Inspector
from integrity.inspect.outcome import CheckResult
from support.formats import MAKERS, flip, make_text

_FOLDERS = ("/usr", "/opt", "/root/.cache", "/work")
_FILES, _FLIPS = 20, 10
_MOST_BYTES = 2 << 20
_GOOD = (CheckResult.PASSES, CheckResult.WHOLE)


def find_files(folders: list[str]) -> Iterator[Path]:
    """Yield regular files, each once."""
    for top in folders:
        for folder, _, names in os.walk(top):
            yield from (path for name in names if (path := Path(folder, name)).is_file() and not path.is_symlink())


def inspect_machine(inspector: Inspector, folders: list[str]) -> dict[str, list[Path]]:
    """Inspect what is there, print what fails, and return files of each format."""
    counts: Counter[str] = Counter()
    kept = defaultdict[str, list[Path]](list)
    for path in find_files(folders):
        try:
            found = inspector.inspect_path(os.fsencode(path))
        except (ReadError, OSError):
            continue
        counts[found.result.value] += 1
        if found.result is CheckResult.FAILS:
            print(f"    fails: {path}: {found.format}: {found.reason}")
        elif found.result in _GOOD and path.stat().st_size <= _MOST_BYTES and len(kept[found.format]) < _FILES:
            kept[found.format].append(path)
    tested = sum(counts[one] for one in (*_GOOD, CheckResult.FAILS))
    print(f"{tested:,} files of known formats: {counts[CheckResult.FAILS]:,} fail; {dict(counts)}")
    return kept


def count_flips(inspector: Inspector, folder: Path, known: dict[str, list[Path]]) -> None:
    """Print the share of flipped bits that is seen, by format."""
    print(f"{'format':<11}{'files':>6}{'of the machine':>16}{'flips':>7}{'seen':>7}{'  where a checksum covers'}")
    for one in FORMATS:
        rng, total, seen, covered, covered_seen = random.Random(one.name), 0, 0, 0, 0
        sources = known.get(one.name, [])[:_FILES]
        suffix, make = MAKERS.get(one.name, ("", None))
        for number in range(_FILES):
            path = folder / f"{number}{sources[number].suffix if number < len(sources) else suffix}"
            if number < len(sources):
                shutil.copyfile(sources[number], path)
            elif make is not None:
                make(rng, path)
            else:
                continue
            uncovered = inspector.inspect_path(os.fsencode(path)).uncovered
            data = path.read_bytes()
            for _ in range(_FLIPS):
                bit = rng.randrange(len(data) * 8)
                path.write_bytes(flip(data, bit))
                is_seen = inspector.inspect_path(os.fsencode(path)).result is CheckResult.FAILS
                total, seen = total + 1, seen + is_seen
                if uncovered is not None and not any(a <= bit // 8 < b for a, b in uncovered):
                    covered, covered_seen = covered + 1, covered_seen + is_seen
            path.unlink()
        if total:
            share = f"  {covered_seen} of {covered}" if covered else "  (structure)"
            print(f"{one.name:<11}{total // _FLIPS:>6}{len(sources):>16}{total:>7}{seen / total:>7.0%}{share}")


def _make_large(folder: Path) -> dict[str, Path]:
    rng = random.Random(5)
    text = b"".join(make_text(rng) for _ in range(1200))
    paths = {name: folder / name for name in ("a.gz", "a.bz2", "a.xz", "a.zip", "many.zip", "a.png", "a.jpg", "a.flac")}
    paths["a.gz"].write_bytes(gzip.compress(text, 6))
    paths["a.bz2"].write_bytes(bz2.compress(text[: 16 << 20]))
    paths["a.xz"].write_bytes(lzma.compress(text[: 16 << 20], preset=3))
    with zipfile.ZipFile(paths["a.zip"], "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("a.txt", text)
    with zipfile.ZipFile(paths["many.zip"], "w", zipfile.ZIP_DEFLATED) as archive:
        for number in range(20_000):
            archive.writestr(f"{number // 100}/{number}.txt", text[number * 500 : number * 500 + 1000])
    picture = Image.frombytes("RGB", (3000, 2000), rng.randbytes(3000 * 2000 * 3)).resize((6000, 4000))
    picture.save(paths["a.png"], compress_level=1)
    picture.save(paths["a.jpg"], quality=92)
    soundfile.write(paths["a.flac"], [rng.random() / 4 for _ in range(4_000_000)], 44_100)
    return paths


_TOOLS = {
    "a.gz": ("gzip", "-t"),
    "a.bz2": ("bzip2", "-t"),
    "a.xz": ("xz", "-t"),
    "a.zip": ("unzip", "-tqq"),
    "many.zip": ("unzip", "-tqq"),
    "a.png": ("pngcheck", "-q"),
    "a.jpg": ("djpeg", "-outfile", "/dev/null"),
    "a.flac": ("flac", "-ts"),
}


def _spend(command: list[str]) -> float:
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def compare_speed(folder: Path) -> None:
    """Print CPU seconds for a large file of each format, without the start of the program, and those of its tool."""
    program = [sys.executable, "-P", "-m", "integrity", "-q", "inspect"]
    print(f"{'file':<10}{'MB':>7}{'ours':>8}{'tool':>8}  speed of the tool's")
    for name, path in _make_large(folder).items():
        starts = {".jpg": MAKERS["JPEG"], ".flac": MAKERS["FLAC"]}.get(path.suffix, MAKERS["gzip"])
        small = folder / f"small{starts[0]}"
        starts[1](random.Random(1), small)
        ours = min(_spend([*program, str(path)]) - _spend([*program, str(small)]) for _ in range(3))
        megabytes, tool = path.stat().st_size / 1e6, _TOOLS[name]
        if shutil.which(tool[0]) is None:
            print(f"{name:<10}{megabytes:>7.1f}{ours:>8.2f}       -  ({tool[0]} is not here)")
            continue
        theirs = min(_spend([*tool, str(path)]) for _ in range(3))
        print(f"{name:<10}{megabytes:>7.1f}{ours:>8.2f}{theirs:>8.2f}  {theirs / max(ours, 0.001):.2f} x ({tool[0]})")


def main(folders: list[str]) -> None:
    """Print all three."""
    with scratch(None) as folder:
        compare_speed(folder)
        with Inspector() as inspector:
            known = inspect_machine(inspector, folders)
            count_flips(inspector, folder, known)


if __name__ == "__main__":
    main(sys.argv[1:] or [top for top in _FOLDERS if os.path.isdir(top)])
