"""
What hashing costs on this machine, beside md5sum, md5deep, openssl and hashlib: six tables.

    python tests/benchmarks/bench_hashing.py [TABLE]... [--size 1G] [--files 5000] [--runs 3]

`x NAME` is how many times as fast as NAME something is: 2.00 is twice as fast, by the time that elapses, for
`algorithms` by CPU time. `bytes/operation` is what an object and its digest take while they live. Contenders take
turns: a burst of load slows one run of each, and a figure is the run with the median elapsed time. Files have random
content and lie in memory, as far as they fit.
"""

from __future__ import annotations

import argparse
import gc
import hashlib
import hmac
import os
import platform
import resource
import shutil
import signal
import ssl
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from itertools import groupby, repeat
from pathlib import Path
from types import FrameType
from typing import NamedTuple

from blake3 import blake3
from xxhash import xxh3_128, xxh64

from integrity.hashing import Md5, native_status
from integrity.hashing.md5_standin import StandinMd5
from integrity.units import format_size, parse_size, spell_size
from integrity.words.text import describe_core

_LEAST_S = 0.01
"""Shorter work is repeated until it takes this long: clocks and scheduler are too coarse for it."""

_MIB, _GIB = 1 << 20, 1 << 30


class Cost(NamedTuple):
    """Seconds taken by one execution, on all processors."""

    wall_s: float
    user_s: float
    system_s: float

    @property
    def cpu_s(self) -> float:
        return self.user_s + self.system_s

    def per(self, count: float) -> Cost:
        """Divide by a number of executions."""
        return Cost(*(each / count for each in self))


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """
    Figures of one contender.

    Attributes:
        group: the task; only rows of one group can be compared.
        size_bytes: hashed by one execution.
        message_bytes: length of each message (``lanes``).
        cost: of one execution; None if there is none, and ``note`` gives the reason.
        create: cost of creating 1,000 objects (``python``).
        allocated_bytes: memory in use while the object and its digest of one execution live (``objects``).
        ratio: speed relative to the reference of the table.
    """

    group: str
    what: str
    size_bytes: int
    message_bytes: int = 0
    cost: Cost | None = None
    create: Cost | None = None
    allocated_bytes: float | None = None
    ratio: float | None = None
    note: str = ""

    @property
    def bytes_per_s(self) -> float | None:
        return self.size_bytes / self.cost.wall_s if self.cost else None

    @property
    def per_gib(self) -> Cost | None:
        return self.cost.per(self.size_bytes / _GIB) if self.cost else None


Run = Callable[[], Cost]
Contender = tuple[Row, Run | None]
"""A row without figures, and what measures it once; None if it can't be run, and the row gives the reason."""


def measure(work: Callable[[], object]) -> Cost:
    """Measure one execution in this process, with all of its threads."""
    gc.disable()
    before, began = resource.getrusage(resource.RUSAGE_SELF), time.perf_counter()
    work()
    ended, after = time.perf_counter(), resource.getrusage(resource.RUSAGE_SELF)
    gc.enable()
    return Cost(ended - began, after.ru_utime - before.ru_utime, after.ru_stime - before.ru_stime)


def measure_short(work: Callable[[], object]) -> Run:
    """Return what measures short work, repeated as often as it takes; with some 50 ns for loop and call."""

    def loop(count: int) -> None:
        for _ in repeat(None, count):
            work()

    count = 1
    while (wall_s := measure(partial(loop, count)).wall_s) < _LEAST_S:
        count *= max(2, min(10, int(_LEAST_S / wall_s) + 1))  # the first executions are slow
    return lambda: measure(partial(loop, count)).per(count)


def measure_program(command: Sequence[bytes | str]) -> Cost:
    """Run a program to its end, without its output; 1 is the exit code after a file that it could not read."""
    native = {name: value for name, value in os.environ.items() if name == "INTEGRITY_NATIVE"}
    environment = {name: value for name, value in os.environ.items() if not name.startswith("INTEGRITY_")} | native
    began, null = time.perf_counter(), subprocess.DEVNULL
    with subprocess.Popen(command, env=environment, stdin=null, stdout=null, stderr=null) as process:
        try:
            _, status, usage = os.wait4(process.pid, 0)
        except BaseException:
            process.kill()
            raise
        process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode not in (0, 1):
        raise subprocess.CalledProcessError(process.returncode, command)
    return Cost(time.perf_counter() - began, usage.ru_utime, usage.ru_stime)


def measure_file(path: bytes, make: Callable[[], object]) -> Cost:
    """Read a file and hash it in pieces."""
    buffer = memoryview(bytearray(_MIB))

    def read() -> bytes:
        hasher = make()
        with open(path, "rb", buffering=0) as file:
            while count := file.readinto(buffer):
                hasher.update(buffer[:count])
        return hasher.digest()

    return measure(read)


def pick_median(costs: Sequence[Cost]) -> Cost:
    middle = statistics.median_low(cost.wall_s for cost in costs)
    return next(cost for cost in costs if cost.wall_s == middle)


def get_wall_s(cost: Cost) -> float:
    return cost.wall_s


def race(
    contenders: Sequence[Contender], runs: int, reference: str, seconds: Callable[[Cost], float] = get_wall_s
) -> list[Row]:
    """Measure contenders in turn, and compare each with the one of its group that is called ``reference``."""
    rows, taken = [row for row, _ in contenders], [list[Cost]() for _ in contenders]
    for _ in range(runs):
        for number, (_, run) in enumerate(contenders):
            if run is None or rows[number].note.startswith("failed"):
                continue
            try:
                taken[number].append(run())
            except subprocess.CalledProcessError as error:
                rows[number], taken[number] = (
                    replace(rows[number], note=f"failed with exit code {error.returncode}"),
                    [],
                )
    rows = [replace(row, cost=pick_median(costs) if costs else None) for row, costs in zip(rows, taken, strict=True)]
    best = {row.group: seconds(row.cost) for row in rows if row.what == reference and row.cost}
    return [
        replace(row, ratio=best[row.group] / seconds(row.cost)) if row.cost and row.group in best else row
        for row in rows
    ]


class Program(NamedTuple):
    """A program that prints digests of files; its package of Debian."""

    name: str
    package: str
    command: tuple[str, ...]


def coreutil(name: str) -> Program:
    return Program(name, "coreutils", (name,))


MD5SUM, MD5DEEP = coreutil("md5sum"), Program("md5deep", "hashdeep", ("md5deep",))
OPENSSL = Program("openssl md5", "openssl", ("openssl", "md5"))
OURS = Program("integrity sum", "", (sys.executable, "-P", "-m", "integrity", "sum"))


def enter(group: str, size_bytes: int, program: Program, command: Sequence[bytes | str]) -> Contender:
    """Let a program take part with a command, if it is installed."""
    row = Row(group=group, what=program.name, size_bytes=size_bytes)
    if shutil.which(program.command[0]) is None:
        return replace(row, note=f"not installed (Debian package {program.package})"), None
    return row, partial(measure_program, command)


_SMALL_FILE_BYTES = (0, 120, 700, 1500, 3000, 6000, 12_000, 25_000, 60_000, 250_000)
"""Sizes of small files, in rotation: many small and few larger ones, as in a home folder; 36 KB on average."""


class Files:
    """What is hashed; made when it is first asked for."""

    def __init__(self, folder: Path, options: argparse.Namespace) -> None:
        self._folder, self._options = folder, options
        self.runs, self.large_bytes = options.runs, options.size
        self.quarter_bytes = max(options.size // 4, 1)  # all algorithms have their turn on it

    @cached_property
    def large(self) -> bytes:
        return self._make("large", self.large_bytes)

    @cached_property
    def quarter(self) -> bytes:
        return self._make("quarter", self.quarter_bytes)

    @cached_property
    def tree(self) -> Path:
        """The folder of small files, or the user's own."""
        if self._options.tree is not None:
            return Path(self._options.tree)
        for number in range(self._options.files):
            (self._folder / f"tree/{number // 100:03}").mkdir(parents=True, exist_ok=True)
            self._make(f"tree/{number // 100:03}/{number:06}", _SMALL_FILE_BYTES[number % len(_SMALL_FILE_BYTES)])
        os.sync()
        return self._folder / "tree"

    def _make(self, name: str, size_bytes: int) -> bytes:
        with open(self._folder / name, "xb") as file:
            for offset in range(0, size_bytes, _MIB):
                file.write(os.urandom(min(_MIB, size_bytes - offset)))
        return bytes(self._folder / name)


def measure_large(files: Files) -> list[Row]:
    """Compare streams over one large file."""
    group, native = f"one file of {format_size(files.large_bytes)}", native_status()
    contenders = [
        (Row(group=group, what=what, size_bytes=files.large_bytes, note=note), partial(measure_file, files.large, make))
        for what, make, note in (
            ("integrity", Md5, "" if native.is_native else f"not the C core: {native.path}"),
            ("hashlib", hashlib.md5, ""),
            ("integrity fallback", StandinMd5, ""),
        )
    ]
    programs = (enter(group, files.large_bytes, one, [*one.command, files.large]) for one in (MD5SUM, OPENSSL))
    return race([*contenders, *programs], files.runs, "md5sum")


_KEEP = """
import ctypes, hashlib, os, sys
from integrity.hashing import Md5
class Info(ctypes.Structure):  # of mallinfo2(3), glibc 2.33
    names = "arena ordblks smblks hblks hblkhd usmblks fsmblks uordblks fordblks keepcost"
    _fields_ = [(name, ctypes.c_size_t) for name in names.split()]
read = ctypes.CDLL(None).mallinfo2
read.restype = Info
make, message = {"integrity": Md5, "hashlib": hashlib.md5}[sys.argv[1]], os.urandom(int(sys.argv[2]))
for _ in range(2):  # what the first object costs once does not count
    kept = [None] * 2000
    before = read()
    for number in range(0, 2000, 2):
        kept[number] = make(message)
        kept[number + 1] = kept[number].digest()
    after = read()
print((after.uordblks + after.hblkhd - before.uordblks - before.hblkhd) / 1000)
"""


def measure_allocation(what: str, size_bytes: int) -> float | None:
    """Return the bytes of malloc for an object and its digest; None if the C library can't tell."""
    environment = {**os.environ, "PYTHONMALLOC": "malloc"}
    command = [sys.executable, "-P", "-c", _KEEP, what, str(size_bytes)]
    done = subprocess.run(command, env=environment, capture_output=True, check=False)
    return float(done.stdout) if done.returncode == 0 else None


def measure_objects(files: Files) -> list[Row]:
    """Compare objects for short messages."""
    contenders: list[Contender] = []
    for size_bytes in (16, 64, 1024):
        message = os.urandom(size_bytes)
        for what, make in (("integrity", Md5), ("hashlib", hashlib.md5)):
            allocated = measure_allocation(what, size_bytes)
            row = Row(group=f"{size_bytes:,} bytes", what=what, size_bytes=size_bytes, allocated_bytes=allocated)
            contenders.append((row, measure_short(lambda make=make, message=message: make(message).digest())))
    return race(contenders, files.runs, "hashlib")


def measure_tools(files: Files) -> list[Row]:
    """Compare what a user would type for a folder and for a large file; programs with their start."""
    sizes = [one.stat().st_size for one in files.tree.rglob("*") if one.is_file() and one.read_bytes() is not None]
    group = f"folder of {len(sizes):,} files, {format_size(sum(sizes))}"
    find = ["find", files.tree, "-type", "f", "-exec"]  # for programs that can't walk; its time is included
    folder = [
        enter(group, sum(sizes), MD5SUM, [*find, *MD5SUM.command, "{}", "+"]),
        enter(group, sum(sizes), MD5DEEP, [*MD5DEEP.command, "-r", "-o", "f", files.tree]),
        enter(group, sum(sizes), OPENSSL, [*find, *OPENSSL.command, "{}", "+"]),
        enter(group, sum(sizes), OURS, [*OURS.command, "-r", files.tree]),
    ]
    group, tools = f"one file of {format_size(files.large_bytes)}", (MD5SUM, MD5DEEP, OPENSSL, OURS)
    large = [enter(group, files.large_bytes, one, [*one.command, files.large]) for one in tools]
    return race(folder, files.runs, "md5sum") + race(large, files.runs, "md5sum")


_ALGORITHMS = (
    ("XXH128", xxh3_128, Program("xxh128sum", "xxhash", ("xxh128sum",))),
    ("XXH64", xxh64, Program("xxh64sum", "xxhash", ("xxh64sum",))),
    ("MD5", Md5, MD5SUM),
    ("SHA-1", hashlib.sha1, coreutil("sha1sum")),
    ("SHA-512", hashlib.sha512, coreutil("sha512sum")),
    ("SHA-256", hashlib.sha256, coreutil("sha256sum")),
    ("BLAKE3", blake3, Program("b3sum", "b3sum", ("b3sum",))),
)


def measure_algorithms(files: Files) -> list[Row]:
    """Compare CPU seconds: some programs use several processors."""
    group, size_bytes = f"one file of {format_size(files.quarter_bytes)}", files.quarter_bytes
    contenders: list[Contender] = []
    for name, make, program in _ALGORITHMS:
        row = Row(group=group, what=name, size_bytes=size_bytes)
        contenders.append((row, partial(measure_file, files.quarter, make)))
        contenders.append(enter(group, size_bytes, program, [*program.command, files.quarter]))
    return race(contenders, files.runs, "MD5", lambda cost: cost.cpu_s)


def measure_python(files: Files) -> list[Row]:
    """Compare every algorithm of this Python, plain and as HMAC."""
    message, contenders = os.urandom(1_000_000), list[Contender]()
    for group, open_hash in (
        ("plain", lambda name: partial(hashlib.new, name, usedforsecurity=False)),
        ("HMAC", lambda name: partial(hmac.new, bytes(32), digestmod=name)),
    ):
        for name in sorted(hashlib.algorithms_available):
            row, create = Row(group=group, what=name, size_bytes=len(message)), open_hash(name)
            try:
                length = () if create().digest_size else (32,)  # SHAKE digests have any length
                create().digest(*length)
            except (TypeError, ValueError) as error:  # no HMAC of SHAKE; disabled by the system's configuration
                contenders.append((replace(row, note=f"not to be had here: {error}"), None))
                continue

            def work(create: Callable[[], object] = create, length: tuple[int, ...] = length) -> None:
                stream = create()
                stream.update(message)
                stream.digest(*length)

            made = replace(row, create=measure_short(create)().per(1 / 1000))
            contenders.append((made, measure_short(work)))
    return race(contenders, files.runs, "md5")


def digest_in_turn(arena: memoryview, message_bytes: int) -> None:
    for offset in range(0, len(arena), message_bytes):
        hashlib.md5(arena[offset : offset + message_bytes], usedforsecurity=False).digest()


def measure_lanes(files: Files) -> list[Row]:
    """Compare the paths of the C core on many messages of one length, on one thread."""
    contenders: list[Contender] = []
    for message_bytes in (64, 4 << 10, 64 << 10, 1 << 20):
        arena = os.urandom(max(64 * message_bytes, _MIB))  # fills the widest path twice over
        group = f"messages of {spell_length(message_bytes)}"
        make_row = partial(Row, group=group, size_bytes=len(arena), message_bytes=message_bytes)
        if native_status().is_native:
            from integrity.hashing.md5_native import digest_arena, list_paths, only_path

            for path in list_paths():
                with only_path(path):
                    once = measure_short(partial(digest_arena, arena, message_bytes))

                def run(path: str = path, once: Run = once) -> Cost:
                    with only_path(path):
                        return once()

                contenders.append((make_row(what=path), run))
        else:
            contenders.append((make_row(what="C core", note=f"not in use: {native_status().path}"), None))

        digest = partial(digest_in_turn, memoryview(arena), message_bytes)
        contenders.append((make_row(what="hashlib"), measure_short(digest)))
    return race(contenders, files.runs, "hashlib")


def spell_length(size_bytes: int) -> str:
    """Format the length of a message: "64 bytes", "4KiB"."""
    return spell_size(size_bytes) if size_bytes >= 1024 else f"{size_bytes} bytes"


Column = tuple[str, Callable[[Row], float | None], int]
"""A heading with its unit, the figure below it (None where a row has none), and its decimals."""


def make_columns(pick: Callable[[Row], Cost | None], unit: str, decimals: int) -> list[Column]:
    """Make the columns of a cost."""
    parts = ("elapsed", "wall_s"), ("user", "user_s"), ("system", "system_s"), ("CPU", "cpu_s")
    return [
        (f"{name} {unit}", lambda row, field=field: getattr(pick(row), field) if pick(row) else None, decimals)
        for name, field in parts
    ]


def scale(pick: Callable[[Row], Cost | None], field: str, factor: float) -> Callable[[Row], float | None]:
    """Return what gives a part of a cost in another unit."""
    return lambda row: None if (cost := pick(row)) is None else getattr(cost, field) * factor


_GB_PER_S: Column = ("GB/s", lambda row: row.bytes_per_s and row.bytes_per_s / 1e9, 2)
_PERCENT: Column = ("% CPU", lambda row: 100 * row.cost.cpu_s / row.cost.wall_s if row.cost else None, 0)
_FILE_COLUMNS = [*make_columns(lambda row: row.cost, "s", 3), _PERCENT, _GB_PER_S]


class Table(NamedTuple):
    """A table: what it is about, what measures it, the contender that others are compared with, and its columns."""

    title: str
    measure: Callable[[Files], list[Row]]
    reference: str
    columns: Sequence[Column]


TABLES = {
    "large": Table("MD5 of one large file", measure_large, "md5sum", _FILE_COLUMNS),
    "objects": Table(
        "MD5 of one short message: make an object, hash, take the digest",
        measure_objects,
        "hashlib",
        (
            ("operations/s", lambda row: 1 / row.cost.wall_s if row.cost else None, 0),
            ("bytes/operation", lambda row: row.allocated_bytes, 0),
            ("elapsed ns", scale(lambda row: row.cost, "wall_s", 1e9), 0),
            ("CPU ns", scale(lambda row: row.cost, "cpu_s", 1e9), 0),
        ),
    ),
    "tools": Table("A folder, and one large file, with each tool", measure_tools, "md5sum", _FILE_COLUMNS),
    "algorithms": Table(
        "CPU time of each algorithm, for each GiB of a file",
        measure_algorithms,
        "MD5",
        [*make_columns(lambda row: row.per_gib, "s/GiB", 3), _PERCENT, _GB_PER_S],
    ),
    "python": Table(
        "Every algorithm of this Python: create 1,000 objects, hash 1 MB",
        measure_python,
        "md5",
        (
            ("create 1,000: ms", scale(lambda row: row.create, "wall_s", 1e3), 3),
            ("CPU ms", scale(lambda row: row.create, "cpu_s", 1e3), 3),
            ("hash 1 MB: ms", scale(lambda row: row.cost, "wall_s", 1e3), 3),
            ("CPU ms", scale(lambda row: row.cost, "cpu_s", 1e3), 3),
        ),
    ),
    "lanes": Table(
        "MD5 of many messages side by side, on each path of the C core, one thread",
        measure_lanes,
        "hashlib",
        (_GB_PER_S, ("CPU s/GiB", scale(lambda row: row.per_gib, "cpu_s", 1), 3), _PERCENT),
    ),
}


def describe_rows(table: Table, rows: Sequence[Row]) -> Iterator[str]:
    """Write the rows of one table: a line for each group, one with the headings, one for each row."""
    columns: list[Column] = [*table.columns, (f"x {table.reference}", lambda row: row.ratio, 2)]
    cells = [
        ["-" if (value := pick(row)) is None else f"{value:,.{decimals}f}" for _, pick, decimals in columns]
        for row in rows
    ]
    headings = [heading for heading, _, _ in columns]
    widths = [max(map(len, column)) for column in zip(headings, *cells, strict=True)]
    name_width = max(len(row.what) for row in rows)

    def line(name: str, texts: Sequence[str]) -> str:
        padded = (text.rjust(width) for text, width in zip(texts, widths, strict=False))
        return "  ".join(["", "", name.ljust(name_width), *padded])

    for group, members in groupby(zip(rows, cells, strict=True), key=lambda pair: pair[0].group):
        yield f"  {group}"
        yield line("", headings)
        for row, texts in members:  # a row without figures has its reason in their place
            yield f"{line(row.what, texts if row.cost else [])}  {row.note}".rstrip()


def main() -> None:
    """Measure the tables, and print each as soon as it is measured."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tables", nargs="*", metavar="TABLE", help=", ".join(TABLES))
    parser.add_argument("--size", type=parse_size, default="1G", help="of the large file")
    parser.add_argument("--files", type=int, default=5000, help="small files in the folder of `tools`")
    parser.add_argument("--tree", help="a folder that `tools` hashes instead")
    parser.add_argument("--folder", default=os.environ.get("TMPDIR", "/var/tmp"), help="where files are made")
    parser.add_argument("--runs", type=int, default=3, help="the median of so many counts")
    options = parser.parse_args()
    if unknown := set(options.tables) - TABLES.keys():
        parser.error(f"no such table: {', '.join(sorted(unknown))}")

    def interrupt(_: int, __: FrameType | None) -> None:
        raise KeyboardInterrupt

    signal.signal(signal.SIGTERM, interrupt)  # programs are stopped and files removed
    tables = {name: TABLES[name] for name in options.tables or TABLES}
    print(f"{_find_processor()}, {len(os.sched_getaffinity(0))} processors; hash core: {describe_core()}")
    print(
        f"Python {platform.python_version()}, {ssl.OPENSSL_VERSION}; each figure is the median of {options.runs} runs"
    )
    with tempfile.TemporaryDirectory(prefix="integrity-bench-", dir=options.folder) as folder:
        files = Files(Path(folder), options)
        for name, table in tables.items():
            print(f"\n{name}: {table.title}", flush=True)
            print("\n".join(describe_rows(table, table.measure(files))), flush=True)


def _find_processor() -> str:
    with open("/proc/cpuinfo", encoding="utf-8", errors="replace") as lines:
        names = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
        return next(names, platform.machine())


if __name__ == "__main__":
    main()
