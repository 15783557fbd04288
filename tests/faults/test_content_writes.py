"""Changes that somebody made, openly, quietly, at once or behind the clock: never rot, and never overlooked."""

from __future__ import annotations

import fcntl
import mmap
import os
import shutil
import signal
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count, takewhile
from pathlib import Path

import pytest

from integrity.jobs import runner
from integrity.jobs.context import Context
from integrity.jobs.options import ScanOptions
from integrity.model import Outcome
from support.bitrot import flip_bit, identity, rot
from support.cli import Box, Completed, complete, make_command
from support.faultfs import FaultFS, Rule
from support.loopfs import LoopFS
from support.mounts import small_tmpfs
from support.namespaces import with_binds
from support.preload import Shims
from support.programs import sh
from support.reading import let_age
from support.repairs import context_of
from support.results import met, notes, tallies
from support.shapes import put
from support.stored import is_recorded
from support.waiting import wait_until

DAY_S = 86_400
PAST_NS = 1_600_000_000 * 10**9


@pytest.fixture
def seconds() -> Iterator[Path]:
    """Make a folder on an ext4 whose times have whole seconds only."""
    with LoopFS("ext4", mkfs=("-I", "128")) as fs:
        folder = fs.folder / "data"
        folder.mkdir()
        yield folder


def run_after_reboot(box: Box, boot: Path, *args: str | Path) -> Completed:
    """Run the program as if the machine had been started again since."""
    command = with_binds({"/proc/sys/kernel/random/boot_id": boot}, *make_command(*args))
    done = subprocess.run(command, env=box.environment, capture_output=True, check=False)
    return complete(done.returncode, done.stdout, done.stderr, is_json="--json" in args)


def rewrite_quietly(path: Path, offset: int = 0, size: int = 1) -> None:
    """Write other bytes into a file, or behind its end, and put its mtime back, as ``touch -r`` does."""
    before = os.stat(path)
    with open(path, "r+b") as file:
        old = os.pread(file.fileno(), size, offset).ljust(size, b"?")
        os.pwrite(file.fileno(), bytes(byte ^ 1 for byte in old), offset)
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))


def test_quiet_rewrite_is_not_rot(root: Path, integrity: Box) -> None:
    """A byte changed by a program that puts the mtime back: silent_rewrite, for a write can't be excluded."""
    for name, size in (("small", 5_000), ("large", 3 << 20)):
        put(root / name, os.urandom(size))
        os.utime(root / name, ns=(PAST_NS, PAST_NS))
    integrity.run("scan", root, expect=0)
    integrity.run("scrub", root, expect=0)
    rewrite_quietly(root / "small")
    rewrite_quietly(root / "large", offset=(2 << 20) + 7)

    done = integrity.run("--json", "scrub", root, expect=1)

    found = {str(one["path"]): one for one in done.findings}
    assert {str(root / "small"), str(root / "large")} == set(found)
    for one in found.values():
        assert ("silent_rewrite", "ctime_moved", 2) == (one["kind"], one["certainty"], one["confirmed_reads"])
        assert "Either the file is damaged, or a program rewrote it" in str(one["message"])
    assert ([2], [[2 << 20, 1 << 20]]) == (found[str(root / "large")]["blocks"], found[str(root / "large")]["ranges"])
    assert {"damaged": 2} == tallies(done)
    again = integrity.run("--json", "scan", root, expect=0)
    assert ({"damaged": 2}, 0) == (tallies(again), again.summary["bytes_read"])
    integrity.run("accept", root / "small", root / "large", "--reason", "it was me", expect=0)
    assert {"verified": 2} == tallies(integrity.run("--json", "scrub", root, expect=0))


def test_quiet_rewrite_found_by_a_scan_that_reads_everything(root: Path, integrity: Box) -> None:
    """``scan --full`` reads what looks unchanged, and says the same as a scrub."""
    put(root / "file", os.urandom(5_000))
    os.utime(root / "file", ns=(PAST_NS, PAST_NS))
    integrity.run("scan", root, expect=0)
    rewrite_quietly(root / "file")

    done = integrity.run("--json", "scan", "--full", root, expect=1)

    assert ([("silent_rewrite", str(root / "file"))], {"damaged": 1}) == (met(done), tallies(done))


def test_quiet_append_to_whole_blocks(root: Path, integrity: Box) -> None:
    """All old blocks are right, but the file is longer under its old mtime: silent_rewrite, not a bad cable."""
    put(root / "file", os.urandom(2 << 20))
    put(root / "holes", os.urandom(4096))
    os.truncate(root / "holes", 4 << 30)
    for name in ("file", "holes"):
        os.utime(root / name, ns=(PAST_NS, PAST_NS))
    integrity.run("scan", root, expect=0)
    rewrite_quietly(root / "file", offset=2 << 20, size=4)
    os.truncate(root / "holes", 3 << 30)
    os.utime(root / "holes", ns=(PAST_NS, PAST_NS))

    done = integrity.run("--json", "scrub", root, expect=1)

    assert {("silent_rewrite", str(root / "file")), ("silent_rewrite", str(root / "holes"))} == set(met(done))
    assert {"damaged": 2} == tallies(done)


def test_another_file_under_the_same_time(root: Path, integrity: Box) -> None:
    """A file that took another's place, its mtime copied, is a silent rewrite that shows the other inode."""
    for name in ("here", "other"):
        put(root / name, os.urandom(5_000))
        os.utime(root / name, ns=(PAST_NS, PAST_NS))
    integrity.run("scan", root, expect=0)
    put(root / "new", os.urandom(5_000))
    os.utime(root / "new", ns=(PAST_NS, PAST_NS))
    os.rename(root / "new", root / "here")

    scan = integrity.run("--json", "scan", root, expect=0)
    done = integrity.run("--json", "scrub", root, expect=1)

    assert ({"not_due": 2}, 0) == (tallies(scan), scan.summary["bytes_read"])
    assert ([("silent_rewrite", str(root / "here"))], {"damaged": 1, "verified": 1}) == (met(done), tallies(done))
    assert "another file now stands under this name" in str(done.findings[0]["message"])


def test_rewrites_in_place_are_named_by_pattern(root: Path, integrity: Box) -> None:
    """Files of programs that leave the mtime alone are changes where the config says so, and nowhere else."""
    integrity.configure('[defaults]\nrewrites_in_place = ["*.tc"]\n')
    for name in ("box.tc", "box.jpg"):
        put(root / name, os.urandom(5_000))
        os.utime(root / name, ns=(PAST_NS, PAST_NS))
    integrity.run("scan", root, expect=0)
    for name in ("box.tc", "box.jpg"):
        rewrite_quietly(root / name)

    done = integrity.run("--json", "scrub", root, expect=1)

    assert ([("silent_rewrite", str(root / "box.jpg"))], {"changed": 1, "damaged": 1}) == (met(done), tallies(done))
    assert {"verified": 1, "damaged": 1} == tallies(integrity.run("--json", "scrub", root, expect=1))


def test_older_version_put_here_is_a_note(root: Path, integrity: Box) -> None:
    """A restored older file (new content, older mtime) is a change with a note; the exit code stays 0."""
    put(root / "file", b"version 2")
    integrity.run("scan", root, expect=0)
    put(root / "file", b"version 1")
    os.utime(root / "file", ns=(PAST_NS, PAST_NS))

    done = integrity.run("--json", "scan", root, expect=0)

    assert ({"changed": 1}, [str(root / "file")]) == (tallies(done), notes(done, "rolled_back"))
    assert {"verified": 1} == tallies(integrity.run("--json", "scrub", root, expect=0))


@pytest.mark.parametrize("size", [9_000, 3 << 20])
@pytest.mark.parametrize("job", ["scan", "scrub"])
def test_file_truncated_to_nothing_is_a_change(root: Path, integrity: Box, job: str, size: int) -> None:
    """In a mutable root an emptied file is an edit; the old digests go to history."""
    put(root / "file", os.urandom(size))
    integrity.run("scan", root, expect=0)
    os.truncate(root / "file", 0)

    assert {"changed": 1} == tallies(integrity.run("--json", job, root, expect=0))
    assert {"verified": 1} == tallies(integrity.run("--json", "scrub", root, expect=0))


@pytest.mark.parametrize("size", [5_000, 3 << 20])
def test_edit_right_after_the_scan(root: Path, integrity: Box, size: int) -> None:
    """A file written, scanned and edited at once is a change, however close together that was."""
    put(root / "file", os.urandom(size))
    integrity.run("scan", root, expect=0)
    with open(root / "file", "r+b") as file:
        file.write(b"edited")

    done = integrity.run("--json", "scrub", root, expect=0)

    assert ({"changed": 1}, []) == (tallies(done), done.findings)
    assert {"verified": 1} == tallies(integrity.run("--json", "scrub", root, expect=0))


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


@pytest.mark.root
def test_new_file_on_whole_seconds_is_counted_once(seconds: Path, integrity: Box) -> None:
    """A file that a scrub records within the granule of its write is verified by the same scrub, and counted once."""
    put(seconds / "file", os.urandom(5_000))

    integrity.run("scan", seconds, expect=0)
    assert {"verified": 1} == tallies(integrity.run("--json", "scrub", seconds, expect=0))
    (file,) = integrity.json("explain", seconds / "file")
    assert file["verified_at"] is not None


@pytest.mark.root
def test_rot_right_after_a_scan_on_whole_seconds(seconds: Path, integrity: Box) -> None:
    """The racy mark goes away by itself: what rots afterwards is rot."""
    path = seconds / "file"
    put(path, os.urandom(9_000))
    integrity.run("scan", seconds, expect=0)
    rot(path, 5_000)

    done = integrity.run("--json", "scrub", seconds, expect=1)

    assert [("rot", str(path))] == met(done)
    assert "proven" == done.findings[0]["certainty"]


@pytest.mark.root
def test_rot_of_a_file_from_the_future(data: Path, integrity: Box) -> None:
    """A time of modification that lies ahead, or a clock that was set back, makes no file exempt from rot."""
    path = data / "file"
    put(path, os.urandom(9_000))
    os.utime(path, (2**32, 2**32))
    integrity.run("scan", data, expect=0)
    assert {"not_due": 1} == tallies(integrity.run("--json", "scan", data, expect=0))
    rot(path, 5_000)

    assert [("rot", str(path))] == met(integrity.run("--json", "scrub", data, expect=1))


@pytest.mark.root
def test_clock_set_back(data: Path, integrity: Box, shims: Shims, tmp_path: Path) -> None:
    """Runs under a clock that was set back go on: nothing is re-read for ever, rot is proven, edits are edits."""
    for name in ("rotten", "edited", "same"):
        put(data / name, os.urandom(9_000))
    integrity.run("scan", data, expect=0)
    integrity.run("scrub", data, expect=0)
    back = shims.clock(tmp_path / "clock", -400 * DAY_S)
    integrity.run("scan", data, env=back, expect=0)
    rot(data / "rotten", 5_000)
    with open(data / "edited", "ab") as file:
        file.write(b"more")

    done = integrity.run("--json", "scrub", data, env=back, expect=1)

    assert [("rot", str(data / "rotten"))] == met(done)
    assert {"damaged": 1, "changed": 1, "verified": 1} == tallies(done)
    again = integrity.run("--json", "scan", data, env=back, expect=0)
    assert 0 == again.summary["bytes_read"]


@pytest.mark.root
def test_times_after_a_power_cut(data: Path, integrity: Box, tmp_path: Path) -> None:
    """After a restart that may have been a power cut rot is after_crash; verified once more, it is proven again."""
    boot = tmp_path / "boot_id"
    boot.write_text("5a1b0000-0000-4000-8000-00000000beef\n", encoding="ascii")
    for name in ("one", "two", "three"):
        put(data / name, os.urandom(9_000))
    integrity.run("scan", data, expect=0)
    integrity.run("scrub", data, expect=0)
    rot(data / "one", 100)
    done = integrity.run("--json", "scrub", data, expect=1)
    assert ["proven"] == [one["certainty"] for one in done.findings]
    rot(data / "two", 100)

    crashed = run_after_reboot(integrity, boot, "--json", "scrub", str(data))

    found = {str(one["path"]): one for one in crashed.findings}
    assert (1, "after_crash") == (crashed.code, found[str(data / "two")]["certainty"])
    assert "power cut" in str(found[str(data / "two")]["message"])
    rot(data / "three", 100)
    last = run_after_reboot(integrity, boot, "--json", "scrub", str(data))
    found = {str(one["path"]): one for one in last.findings}
    assert "proven" == found[str(data / "three")]["certainty"]


@pytest.mark.root
def test_chown_before_real_rot(data: Path, integrity: Box) -> None:
    """A chown of everything costs a scan no reading; the scrub tells the flipped from the intact and forgets it."""
    names = [f"{number}.jpg" for number in range(6)]
    for name in names:
        put(data / name, os.urandom(9_000))
    integrity.run("scan", data, expect=0)
    integrity.run("scrub", data, expect=0)
    sh("chown", "-R", "12345:12345", data)
    flip_bit(data / "3.jpg", 4_321, 5)

    scan = integrity.run("--json", "scan", data, expect=0)
    scrub = integrity.run("--json", "scrub", data, expect=1)

    assert (0, {"not_due": 6}) == (scan.summary["bytes_read"], tallies(scan))
    assert [("silent_rewrite", str(data / "3.jpg"))] == met(scrub)
    assert "ctime_moved" == scrub.findings[0]["certainty"]
    assert {"verified": 5, "damaged": 1} == tallies(scrub)
    rot(data / "4.jpg", 4_321, 5)
    again = {str(one["path"]): one for one in integrity.run("--json", "scrub", data, expect=1).findings}
    found = again[str(data / "4.jpg")]
    assert ("rot", "proven") == (found["kind"], found["certainty"])


@pytest.mark.root
def test_move_to_a_new_disk_with_one_file_damaged_on_the_way(ext4: LoopFS, xfs: LoopFS, integrity: Box) -> None:
    """After ``root rebind`` the copy is held against the old baselines: the one file that was damaged is found."""
    old, new = ext4.folder / "data", xfs.folder / "data"
    (old / "deep").mkdir(parents=True)
    for name in ("a", "b", "deep/c", "deep/d"):
        put(old / name, os.urandom(50_000))
    put(old / "film", os.urandom(3 << 20))
    integrity.run("scan", old, expect=0)
    integrity.run("scrub", old, expect=0)
    shutil.copytree(old, new)
    for path in new.rglob("*"):
        if path.is_file():
            shutil.copystat(old / path.relative_to(new), path)
    rewrite_quietly(new / "film", offset=1 << 20)
    ext4.umount()
    try:
        done = integrity.run("--json", "root", "rebind", old, new, expect=1)
        assert [("silent_rewrite", str(new / "film"))] == met(done)
        assert [1] == done.findings[0]["blocks"]
        assert {"verified": 4, "damaged": 1} == tallies(integrity.run("--json", "scrub", new, expect=1))
        assert {"not_due": 4, "damaged": 1} == tallies(integrity.run("--json", "scan", new, expect=0))
    finally:
        ext4.mount()


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
@pytest.mark.parametrize("job", ["scan", "scrub"])
def test_file_that_was_open_for_writing_becomes_solid(data: Path, integrity: Box, job: str) -> None:
    """What was written while recorded is read again by the next run, not within the same one, and is proven then."""
    path = data / "file"
    put(path, os.urandom(9_000))
    let_age(path)
    with open(path, "r+b"):
        first = integrity.run("--json", "scan", data, expect=0)
        (file,) = integrity.json("explain", path)
        assert (9_000, True) == (first.summary["bytes_read"], file["is_racy"])

    integrity.run("--json", job, data, expect=0)

    assert {"not_due": 1} == tallies(integrity.run("--json", "scan", data, expect=0))
    with open(path, "r+b"):  # whoever has it open later has not written to it
        integrity.run("scrub", data, expect=0)
    rot(path, 5_000)
    done = integrity.run("--json", "scrub", data, expect=1)
    assert [("rot", str(path), "proven")] == [(one["kind"], one["path"], one["certainty"]) for one in done.findings]


@pytest.mark.root
def test_rot_of_a_file_that_is_always_open_for_writing(
    data: Path, integrity: Box, shims: Shims, tmp_path: Path
) -> None:
    """A stamp that is older than any write takes is no write under way: an image that is in use all day can rot."""
    path = data / "image"
    put(path, os.urandom(9_000))
    with open(path, "r+b"):
        integrity.run("scan", data, env=shims.clock(tmp_path / "clock", 3600), expect=0)
        rot(path, 5_000)

        done = integrity.run("--json", "scrub", data, expect=1)

    assert [("rot", str(path), "proven")] == [(one["kind"], one["path"], one["certainty"]) for one in done.findings]


@pytest.mark.root
def test_store_into_a_mapping_on_a_tmpfs_is_not_called_proven(tmp_path: Path, integrity: Box, shims: Shims) -> None:
    """A mapped page of a tmpfs is not write-protected again, so later stores move no time: a write is not excluded."""
    later = shims.clock(tmp_path / "clock", 3600)  # its times are so old that nobody asks who has it open
    with small_tmpfs(tmp_path / "memory", 1 << 20):
        path = tmp_path / "memory" / "ring"
        put(path, os.urandom(8192))
        with open(path, "r+b") as file, mmap.mmap(file.fileno(), 0) as ring:
            ring[0:4] = b"once"
            integrity.run("scan", path.parent, expect=0)
            integrity.run("scrub", path.parent, env=later, expect=0)
            before = path.stat()
            ring[8:12] = b"more"

            done = integrity.run("--json", "scrub", path.parent, env=later, expect=1)

        assert (before.st_mtime_ns, before.st_ctime_ns) == (path.stat().st_mtime_ns, path.stat().st_ctime_ns)
    assert [("rot", "no_ctime")] == [(one["kind"], one["certainty"]) for one in done.findings]


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


@pytest.mark.root
def test_record_that_was_never_verified_may_be_wrong_itself(ext4: LoopFS, integrity: Box) -> None:
    """Recorded from memory and damaged before the first scrub, or recorded wrongly: it can't be told, and is said."""
    for name in ("recorded", "verified"):
        put(ext4.folder / name, os.urandom(20_000))
    integrity.run("scan", ext4.folder, expect=0)
    integrity.run("scrub", ext4.folder / "verified", expect=0)
    for name in ("recorded", "verified"):
        rot(ext4.folder / name, 7_000)

    done = integrity.run("--json", "scrub", ext4.folder, expect=1)

    said = {
        os.path.basename(str(one["path"])): "the recorded content was wrong" in str(one["message"])
        for one in done.findings
    }
    assert {"recorded": True, "verified": False} == said
    assert {"proven"} == {one["certainty"] for one in done.findings}


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
