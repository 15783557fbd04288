"""Writes while the program reads: within a second, under way for longer, into a mapping, or under a lease."""

from __future__ import annotations

import fcntl
import mmap
import os
import shutil
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from itertools import count, takewhile
from pathlib import Path

import pytest

from integrity.jobs import runner
from integrity.jobs.context import Context
from integrity.jobs.options import ScanOptions
from integrity.model import Outcome
from support.bitrot import identity, rot
from support.cli import Box
from support.clock import Clock
from support.faultfs import FaultFS, Rule
from support.jobs import open_context, run_scan, run_scrub, tally
from support.loopfs import LoopFS
from support.mounts import small_tmpfs
from support.preload import Shims
from support.repairs import context_of
from support.results import tallies
from support.shapes import damage, put
from support.stored import is_recorded, query
from support.waiting import wait_until


@pytest.fixture
def seconds() -> Iterator[Path]:
    """Make a folder on an ext4 whose times have whole seconds only."""
    with LoopFS("ext4", mkfs=("-I", "128")) as fs:
        folder = fs.folder / "data"
        folder.mkdir()
        yield folder


@pytest.mark.root
def test_edit_within_the_second_of_the_reading(seconds: Path, integrity: Box) -> None:
    """Where times have whole seconds, an edit that leaves size and times as they were is a change, never rot."""
    put(seconds / "other", b"makes the catalog")
    integrity.run("scan", seconds, expect=0)
    path = write_and_edit_while_scanned(seconds, integrity)

    done = integrity.run("--json", "scrub", seconds, expect=0)

    assert ([], {"verified": len(os.listdir(seconds))}) == (done.findings, tallies(done))
    reasons = integrity.run("explain", path, expect=0).stdout
    assert "racy" in reasons
    rot(path, 5_000)
    done = integrity.run("--json", "scrub", seconds, expect=1)
    assert [("rot", str(path), "proven")] == [(one["kind"], one["path"], one["certainty"]) for one in done.findings]


def write_and_edit_while_scanned(folder: Path, box: Box) -> Path:
    """Edit a new file after a scan has read it, within the second of its writing; try again if that was too late."""
    deadline = time.monotonic() + 180.0
    for attempt in takewhile(lambda _: time.monotonic() < deadline, count()):
        path = folder / f"file-{attempt}"
        with context_of(box) as context:  # in this process: a start may take longer than the second
            edits = iter([b"B"])

            def edit_and_wait(
                duration_s: float, path: Path = path, edits: Iterator[bytes] = edits, context: Context = context
            ) -> bool:
                for data in edits:
                    assert is_recorded(box, path.name)
                    with open(path, "r+b") as file:
                        file.write(data)
                return context.stop.wait(duration_s)

            context.wait = edit_and_wait
            wait_until(lambda: time.time() % 1 < 0.05, "beginning of a second", every_s=0.001)
            put(path, b"A" * 9_000)
            before = identity(path)
            summary = runner.scan(context, (os.fsencode(folder),), ScanOptions())
        assert Outcome.CLEAN == summary.outcome
        if not list(edits) and identity(path) == before:
            return path
    pytest.fail("no edit came in the second of the reading")


@contextmanager
def stalled_write(path: Path, source: Path, stop_at: int) -> Iterator[bytes]:
    """
    Overwrite a file by one write(2) that waits for its source when it has copied so much; the end lets it go on.

    The source is mapped, on a file system that doesn't answer: like that of a server that is down.

    Yields:
        What the whole file is to contain afterwards.
    """
    content = os.urandom(path.stat().st_size)
    put(source / "source", content)
    before_ns = path.stat().st_mtime_ns
    with FaultFS(source, is_cached=True) as faulty, open(path, "r+b", buffering=0) as file:
        rule = faulty.add(Rule("read", path="*/source", offset=stop_at, is_hung=True))
        with (
            open(faulty.folder / "source", "rb") as remote,
            mmap.mmap(remote.fileno(), 0, prot=mmap.PROT_READ) as mapped,
        ):
            writer = threading.Thread(target=os.pwrite, args=(file.fileno(), mapped, 0))
            writer.start()
            try:
                wait_until(lambda: path.stat().st_mtime_ns != before_ns, "beginning of the write", every_s=0.001)
                wait_until(faulty.get_fired, "stall of the write")
                wait_until(lambda: time.time_ns() - path.stat().st_mtime_ns > 10**9, "end of the granule")
                yield content
            finally:
                faulty.clear(rule)
                writer.join()
    assert path.read_bytes() == content


@pytest.mark.root
@pytest.mark.parametrize("is_known", [True, False])
def test_write_that_is_under_way_while_the_file_is_recorded(
    data: Path, integrity: Box, tmp_path: Path, is_known: bool
) -> None:
    """A write that was held up for longer than the clock's tick ends as a change, and rot is rot again afterwards."""
    path, size = data / "file", 14 << 16  # a larger one is read past the cache, which waits for the writer
    put(data / "other", os.urandom(5_000))
    if is_known:
        put(path, os.urandom(size))
    integrity.run("scan", data, expect=0)
    integrity.run("scrub", data, expect=0)
    if not is_known:
        put(path, os.urandom(size))
    (tmp_path / "source").mkdir()
    with stalled_write(path, tmp_path / "source", size // 2):
        before = path.stat()
        integrity.run("scan", data, expect=0)
        (file,) = integrity.json("explain", path)
        assert file["is_racy"]
    assert (before.st_mtime_ns, before.st_ctime_ns) == (path.stat().st_mtime_ns, path.stat().st_ctime_ns)

    done = integrity.run("--json", "scrub", data, expect=0)

    assert ({"changed": 1, "verified": 1}, []) == (tallies(done), done.findings)
    (file,) = integrity.json("explain", path)
    assert not file["is_racy"]
    rot(path, 5_000)
    done = integrity.run("--json", "scrub", data, expect=1)
    assert [("rot", str(path), "proven")] == [(one["kind"], one["path"], one["certainty"]) for one in done.findings]


@pytest.mark.root
def test_stores_into_a_mapping_on_a_tmpfs_while_it_is_confirmed_blame_no_hardware(
    tmp_path: Path, integrity: Box, shims: Shims
) -> None:
    """The readings disagree and no time moves: somebody may be writing, so the file is unstable, and that is all."""
    later = shims.clock(tmp_path / "clock", 3600)
    with small_tmpfs(tmp_path / "memory", 1 << 20):
        path = tmp_path / "memory" / "ring"
        put(path, os.urandom(8192))
        is_over = threading.Event()
        with open(path, "r+b") as file, mmap.mmap(file.fileno(), 0) as ring:
            ring[0:4] = b"once"
            integrity.run("scan", path.parent, expect=0)
            integrity.run("scrub", path.parent, env=later, expect=0)

            def write() -> None:
                for number in count():
                    ring[8:16] = number.to_bytes(8)
                    if is_over.wait(0.001):
                        return

            writer = threading.Thread(target=write)
            writer.start()
            try:
                done = integrity.run("--json", "scrub", path.parent, env=later, expect=3)
            finally:
                is_over.set()
                writer.join()

    assert [] == done.findings
    assert {"unstable": 1} == tallies(done)


def test_file_under_a_lease_is_said_to_be_in_use(root: Path, integrity: Box) -> None:
    """A program that does not let go of its write lease, as Samba may, keeps everybody out: nothing changed."""
    put(root / "held", b"content")
    integrity.run("scan", root, expect=0)
    old = signal.signal(signal.SIGIO, signal.SIG_IGN)  # the kernel asks the holder to give the lease back
    try:
        with open(root / "held", "r+b") as holder:
            fcntl.fcntl(holder, fcntl.F_SETLEASE, fcntl.F_WRLCK)
            done = integrity.run("--json", "scrub", root, expect=3)
    finally:
        signal.signal(signal.SIGIO, old)

    assert {"unstable": 1} == tallies(done)
    (note,) = (one for one in done.of_type("note") if one["kind"] == "unstable")
    assert "lease" in str(note["message"])
    assert "changed" not in str(note["message"])


@pytest.mark.parametrize("is_copy_of_damage", [True, False])
def test_copy_within_the_second_of_a_verification(tmp_path: Path, root: Path, is_copy_of_damage: bool) -> None:
    """The catalog's seconds don't say whether the copy or the good reading was first: the record of the file does."""
    file, other, clock = root / "file", root / "other", Clock(int(time.time()))
    paths = (file,) if is_copy_of_damage else (file, other)
    for path in paths:
        put(path, os.urandom(5_000))
        os.utime(path, ns=(10**18 + 1, 10**18 + 1))
    with open_context(tmp_path / "catalog.db") as context:
        context = replace(context, clock=clock)
        runner.scan(context, [os.fsencode(root)], ScanOptions())
        clock.now += is_copy_of_damage
        run_scrub(context)
        if is_copy_of_damage:
            damage(file)
            shutil.copy2(file, other)
            run_scan(context)
        else:
            with file.open("r+b") as written:
                written.write(other.read_bytes())
            os.utime(file, ns=(10**18 + 1, 10**18 + 1))
        done = tally(run_scrub(context))

    assert ({"damaged": 2} if is_copy_of_damage else {"verified": 1, "changed": 1}) == done


@pytest.mark.root
def test_change_that_waits_is_read_again_if_its_witness_is_young(seconds: Path, integrity: Box) -> None:
    """Else what rots in it later would pass for a write that came within the second of the reading."""
    paths = [seconds / f"{number}" for number in range(4)]
    integrity.configure("[defaults]\nmass_change = { files = 1, percent = 1 }\n")
    for path in paths:
        put(path, os.urandom(5_000))
    integrity.run("scan", seconds, expect=0)
    for path in paths:
        put(path, os.urandom(5_001))
    integrity.run("scan", seconds, expect=1)
    wait_until(lambda: time.time() % 1 < 0.2, "a new second", every_s=0.01)
    paths[0].chmod(0o600)
    integrity.run("scan", seconds, expect=1)

    assert [(0,)] == query(integrity, "SELECT DISTINCT is_racy FROM version WHERE state = 'held'")
