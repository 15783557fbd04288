"""
A storm of events over the tree of the running service: does it stay small, does it answer, and does it know all of it?

Processes create, overwrite, rename, delete, append, make deep folders and move whole ones, at full speed in bursts. Now
and then the service is stopped until more has happened than the kernel's queue of events holds. Every few seconds its
memory, threads, descriptors and files are looked at, and ``status`` is asked. Then the tree rests, and catalog and tree
must agree.

By hand, as root: ``python -m campaigns.storm --seed 1 --minutes 30`` in ``tests``. What the writers do follows from the
seed; when, from the machine.
"""

from __future__ import annotations

import argparse
import math
import multiprocessing
import os
import random
import shutil
import signal
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, MutableSequence, Sequence
from contextlib import ExitStack, suppress
from multiprocessing.synchronize import Event
from pathlib import Path
from typing import NamedTuple

from campaigns.world import run_in_memory
from support.cli import REAL_PAUSES, Box
from support.inotify import read_queue_length
from support.loopfs import LoopFS
from support.planted import plant
from support.service import Service
from support.shapes import put
from support.stored import query
from support.waiting import TimedOutError, wait_until

_FS_BYTES = 512 << 20
_STOPPED_S = 8.0  # at most; a service that seems to hang is none of this campaign's
_STOP_EVERY = 100  # samples: it is blind for five minutes then
_BURST = 200
_FILES = 1500  # of each writer, at most
_CONFIG = """
[[root]]
path = "{root}"
settle = "1s"
mass_change = {{ files = 1000000000, percent = 100 }}
[schedule]
scan = "hourly"
scrub = "00:00-24:00"
"""

_STATUS_S = 5.0
"""Beyond what a command takes at that moment that does nothing: the writers, and whoever else, leave little time."""
_MOST_ANONYMOUS = 144 << 20  # 75 to 90 MiB between jobs on this tree, and up to 32 MiB of buffers in each of them
_MOST_DESCRIPTORS = 56  # 20, and two for each job of the last minute
_MOST_WAL = 160 << 20  # it is cut back to 64 MiB; a large commit, and readers that hold it up, come on top
_REST_S = 420.0  # a root whose events were lost is watched again after five minutes
# A job has buffers, and what it leaves is given back once a minute: so what counts is the least of each half a minute,
# and three of these are taken for one that says something of its own. More than three standard errors are growth,
# and more than ten MiB an hour, for the catalog's cache and the fragments of the heap still grow in the first hour.
_FLOOR_SAMPLES = 6
_ALIKE = 3
_ERRORS = 3.0
_STEADY_PER_H = 10.0


class Sample(NamedTuple):
    """The service at a moment; sizes in bytes."""

    at_s: float
    rss: int
    pss: int
    anonymous: int
    threads: int
    descriptors: int
    catalog: int
    wal: int
    status_s: float
    nothing_s: float  # that a command takes which does nothing
    files: int
    operations: int


Writer = Callable[[bytes, random.Random, int], None]


def _name(folder: bytes, source: random.Random) -> bytes:
    return os.path.join(folder, b"d%d" % source.randrange(8), b"f%d" % source.randrange(_FILES // 8))


def _create(folder: bytes, source: random.Random, nth: int) -> None:
    """Make or remove a file."""
    path = _name(folder, source)
    if os.path.exists(path):
        os.unlink(path)
    else:
        put(path, source.randbytes(source.choice([0, 10, 3000, 70_000])))


def _overwrite(folder: bytes, source: random.Random, nth: int) -> None:
    """Write a file anew, in place or by another that is renamed over it."""
    path = _name(folder, source)
    if nth % 2:
        put(path + b".new", source.randbytes(source.randrange(5000)))
        os.rename(path + b".new", path)
    else:
        put(path, source.randbytes(source.randrange(5000)))


def _rename(folder: bytes, source: random.Random, nth: int) -> None:
    """Rename a file, over another one perhaps."""
    path = _name(folder, source)
    if os.path.exists(path):
        os.rename(path, _name(folder, source))
    else:
        put(path, b"%d" % nth)


def _deepen(folder: bytes, source: random.Random, nth: int) -> None:
    """Make a deep folder with files, or remove one."""
    top = os.path.join(folder, b"deep-%d" % source.randrange(10))
    if os.path.exists(top):
        shutil.rmtree(top)
        return
    path = top
    for level in range(source.randrange(5, 40)):
        path = os.path.join(path, b"level-%d" % level)
    os.makedirs(path)
    put(os.path.join(path, b"bottom"), b"%d" % nth)


def _move(folder: bytes, source: random.Random, nth: int) -> None:
    """Move a folder of files to another place, into another folder, or out of the tree and back."""
    number = source.randrange(6)
    places = [os.path.join(folder, name, b"moved-%d" % number) for name in (b"d0", b"d1", b"d2", b"d3/in")]
    here = [place for place in places if os.path.exists(place)]
    there = source.choice(places)
    os.makedirs(os.path.dirname(there), exist_ok=True)
    if not here:
        os.mkdir(there)
        for file in range(30):
            put(os.path.join(there, b"%d" % file), b"%d %d" % (number, file))
    elif here[0] != there:
        os.rename(here[0], there)


def _append(folder: bytes, source: random.Random, nth: int) -> None:
    """Append to a log, and rotate it when it is large."""
    path = os.path.join(folder, b"log-%d" % source.randrange(5))
    with open(path, "ab") as file:
        file.write(b"%d: a line of a log\n" % nth * source.randrange(1, 50))
        size = file.tell()
    if size > 2 << 20:
        os.rename(path, path + b".1")


_WRITERS: tuple[Writer, ...] = (_create, _overwrite, _rename, _deepen, _move, _append)


def _write(
    number: int, folder: bytes, seed: int, pause_s: float, begin: Event, end: Event, done: MutableSequence[int]
) -> None:
    """Be one of the writers."""
    source, write = random.Random(f"{seed} {number}"), _WRITERS[number]
    for nth in range(8):
        os.makedirs(os.path.join(folder, b"d%d" % nth), exist_ok=True)
    begin.wait()
    nth = 0
    while not end.is_set():
        for _ in range(_BURST):
            nth += 1
            write(folder, source, nth)
        done[number] = nth
        end.wait(pause_s)


class Storm:
    """
    The writers: processes that write below ``root`` between ``begin`` and ``end``.

    They are forked, so this process must have no threads yet.
    """

    def __init__(self, root: Path, seed: int, pause_s: float) -> None:
        context = multiprocessing.get_context("fork")
        self._begin, self._end = context.Event(), context.Event()
        self._done = context.Array("q", len(_WRITERS), lock=False)
        folders = [os.fsencode(root / writer.__name__[1:]) for writer in _WRITERS]
        shared = (seed, pause_s, self._begin, self._end, self._done)
        self._processes = [
            context.Process(target=_write, args=(number, folder, *shared), daemon=True)
            for number, folder in enumerate(folders)
        ]
        for process in self._processes:
            process.start()

    def begin(self) -> None:
        """Let them write."""
        self._begin.set()

    @property
    def operations(self) -> int:
        """How many things they have done."""
        return sum(self._done)

    def check(self) -> None:
        """Insist that all of them write."""
        assert all(process.is_alive() for process in self._processes), "a writer has ended"

    def end(self) -> None:
        """Have them end, and wait for it."""
        self._begin.set()
        self._end.set()
        for process in self._processes:
            process.join()


def _take(service: Service, box: Box, began: float, operations: int) -> Sample:
    """Take a sample."""
    process = Path(f"/proc/{service.pid}")
    sizes = dict(line.split(":", 1) for line in (process / "smaps_rollup").read_text().splitlines()[1:])
    rss, pss, anonymous = (int(sizes[name].split()[0]) << 10 for name in ("Rss", "Pss", "Anonymous"))
    asked = time.monotonic()
    box.run("--version", timeout=60)
    nothing_s = time.monotonic() - asked
    box.run("status", timeout=60)
    status_s = time.monotonic() - asked - nothing_s
    wal = Path(f"{box.catalog}-wal")
    return Sample(
        asked - began,
        rss,
        pss,
        anonymous,
        len(list((process / "task").iterdir())),
        len(list((process / "fd").iterdir())),
        box.catalog.stat().st_size,
        wal.stat().st_size if wal.exists() else 0,
        status_s,
        nothing_s,
        int(str(query(box, "SELECT count(*) FROM file")[0][0])),
        operations,
    )


_HEAD = "   min     RSS     PSS    anon  thr  fds  catalog     WAL  status  nothing   files    writes"


def _show(one: Sample) -> str:
    mib = 1 << 20
    sizes = f"{one.rss / mib:7.1f} {one.pss / mib:7.1f} {one.anonymous / mib:7.1f}"
    files = f"{one.catalog / mib:8.1f} {one.wal / mib:7.1f} {one.status_s:7.2f} {one.nothing_s:8.2f}"
    return f"{one.at_s / 60:6.2f} {sizes} {one.threads:4} {one.descriptors:4} {files} {one.files:7} {one.operations:9}"


class Slope(NamedTuple):
    """How fast something grows, by least squares, and the standard error of it; both per hour."""

    value: float
    error: float


def find_slope(times_s: Sequence[float], values: Sequence[float]) -> Slope:
    """Fit a line through the least of some values each; of too few of them nothing follows."""
    firsts = range(0, len(values) - _FLOOR_SAMPLES + 1, _FLOOR_SAMPLES)
    times = [times_s[first] for first in firsts]
    floor = [min(values[first : first + _FLOOR_SAMPLES]) for first in firsts]
    if len(floor) < 2 * _ALIKE:
        return Slope(0.0, math.inf)
    slope, start = statistics.linear_regression(times, floor)
    rest = [value - start - slope * at for at, value in zip(times, floor, strict=True)]
    free = max(1.0, len(floor) / _ALIKE - 2)
    return Slope(slope * 3600, statistics.pstdev(rest) / (statistics.pstdev(times) * free**0.5) * 3600)


def _judge(samples: Sequence[Sample]) -> Iterator[str]:
    """Say what the curve shows, as far as it is wrong."""
    for one in samples:
        if one.status_s - one.nothing_s > _STATUS_S:
            at = f"{one.at_s / 60:.1f} min"
            yield f"status took {one.status_s:.1f} s at {at}, and what does nothing {one.nothing_s:.1f} s"
    for what, limit, values in (
        ("bytes of memory", _MOST_ANONYMOUS, [one.anonymous for one in samples]),
        ("descriptors", _MOST_DESCRIPTORS, [one.descriptors for one in samples]),
        ("bytes of log", _MOST_WAL, [one.wal for one in samples]),
    ):
        if max(values) > limit:
            yield f"{max(values)} {what}, more than {limit}"
    half = samples[len(samples) // 2 :]
    for what, series in (
        ("MiB of memory", [one.anonymous / (1 << 20) for one in half]),
        ("threads", [float(one.threads) for one in half]),
        ("descriptors", [float(one.descriptors) for one in half]),
    ):
        slope = find_slope([one.at_s for one in half], series)
        limit_per_h = _STEADY_PER_H + _ERRORS * slope.error
        print(f"second half: {slope.value:+.1f} {what} an hour (limit {limit_per_h:.1f})")
        if slope.value > limit_per_h:
            yield f"{slope.value:.1f} {what} more each hour, limit {limit_per_h:.1f}"


def _list(root: Path) -> dict[object, object]:
    """Return the size of each file of a tree, by its path."""
    found: dict[object, object] = {}
    for folder, _, names in os.walk(os.fsencode(root)):
        for name in names:
            path = os.path.join(folder, name)
            found[os.path.relpath(path, os.fsencode(root))] = os.stat(path).st_size
    return found


_RECORDED = (
    "SELECT CASE folder.path WHEN x'' THEN name ELSE CAST(folder.path || x'2f' || name AS BLOB) END, size_bytes"
    " FROM file JOIN folder ON folder.id = folder_id"
)


def _compare(box: Box, root: Path) -> list[str]:
    """Say where catalog and tree differ."""
    there, known = _list(root), {row[0]: row[1] for row in query(box, _RECORDED)}
    wrong = [
        f"{path!r}: {there.get(path)} bytes, recorded {known.get(path)}"
        for path in there.keys() | known.keys()
        if there.get(path) != known.get(path)
    ]
    return [f"{len(wrong)} of {len(there)} files differ: {sorted(wrong)[:5]}"] if wrong else []


def _rest(box: Box, service: Service, root: Path) -> list[str]:
    """Let the service come to an end with what there is, and compare; then again after a scan through it."""
    try:
        wait_until(lambda: not _compare(box, root), "the service knows the tree", timeout_s=_REST_S, every_s=1.0)
        wrong = []
    except TimedOutError:
        wrong = [f"not known by itself within {_REST_S:g} s: {text}" for text in _compare(box, root)]
    done = box.run("scan", root, timeout=600)
    if done.code:
        wrong.append(f"scan: exit {done.code}: {done.stdout[-500:]}{done.stderr[-500:]}")
    wrong += _compare(box, root)
    done = box.run("scrub", root, timeout=600)
    if done.code:
        wrong.append(f"scrub: exit {done.code}: {done.stdout[-500:]}{done.stderr[-500:]}")
    kinds = "SELECT kind, path, message FROM finding WHERE kind != 'watch_blind'"
    wrong += [f"finding: {row}" for row in query(box, kinds)]
    wrong += [f"the log says: {line}" for line in service.log.splitlines() if "Traceback" in line or "ERROR" in line]
    return wrong


def run(seed: int, minutes: float, pause_s: float, every_s: float) -> list[str]:
    """Run the storm, and return what is wrong."""
    wrong: list[str] = []
    with tempfile.TemporaryDirectory(prefix="campaign-") as name, ExitStack() as stack:
        fs = stack.enter_context(LoopFS("ext4", size_bytes=_FS_BYTES, mkfs=("-N", "60000")))
        root = fs.folder / "data"
        plant(root / "quiet", 500, size_bytes=20_000)
        storm = Storm(root, seed, pause_s)
        stack.callback(storm.end)
        box = Box(Path(name) / "home")
        box.configure(_CONFIG.format(root=root))
        with Service(box, env=REAL_PAUSES) as service:
            service.wait_begun()
            box.run("status")  # what runs are forked from is started by the first
            wrong += _weather(box, service, storm, minutes, every_s)
            storm.end()
            overflows = service.log.count("reason=overflow")
            print(f"{overflows} messages of lost events in the log")
            if not service.has_ended:
                wrong += _rest(box, service, root)
                service.stop(within_s=30)
    return wrong


def _miss_events(service: Service, storm: Storm) -> None:
    """Have the kernel's queue overflow: each thing that a writer does is an event or more."""
    enough = storm.operations + read_queue_length()
    service.signal(signal.SIGSTOP)
    with suppress(TimedOutError):
        wait_until(lambda: storm.operations > enough, "events", timeout_s=_STOPPED_S, every_s=0.05)
    service.signal(signal.SIGCONT)


def _weather(box: Box, service: Service, storm: Storm, minutes: float, every_s: float) -> list[str]:
    """Sample while it storms."""
    samples: list[Sample] = []
    storm.begin()
    began = time.monotonic()
    print(_HEAD, flush=True)
    while (now := time.monotonic()) - began < 60 * minutes:
        storm.check()
        if service.has_ended:
            return [f"the service has ended with {service.wait_end()}: {service.log[-2000:]}"]
        samples.append(_take(service, box, began, storm.operations))
        print(_show(samples[-1]), flush=True)
        if len(samples) % _STOP_EVERY == 0:
            _miss_events(service, storm)
        time.sleep(max(0.0, now + every_s - time.monotonic()))
    print(f"longest status {max(one.status_s for one in samples):.2f} s")
    return list(_judge(samples))


def main() -> int:
    """Run the campaign, and say what it came to."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--minutes", type=float, default=30.0)
    parser.add_argument("--pause", type=float, default=0.3, help="seconds between two bursts of a writer")
    parser.add_argument("--every", type=float, default=5.0, help="seconds between two samples")
    options = parser.parse_args()
    run_in_memory()
    wrong = run(options.seed, options.minutes, options.pause, options.every)
    for text in wrong:
        print(text[:3000])
    print(f"seed {options.seed}: {options.minutes:g} minutes, {len(wrong)} failures")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
