"""Reads that fail, lie once, never come back, or meet a file that does not hold still: what is said of whom."""

from __future__ import annotations

import errno
import os
import sqlite3
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from integrity.errors import DeviceStalled
from integrity.files.span import ReadMode
from integrity.hashing.digests import want_to_record
from integrity.hashing.engine import Engine
from integrity.hashing.tasks import Failed, Task
from support.bitrot import drop_cache, rot
from support.cli import REAL_PAUSES, Box, complete, make_command
from support.faultfs import FaultFS, Rule
from support.flakydisk import FlakyDisk
from support.privileges import NOBODY, let_in, run_as_nobody
from support.reading import make_capability, reading
from support.results import kinds, met, tallies
from support.shapes import put
from support.stored import is_verified
from support.waiting import wait_until

MIB = 1 << 20

pytestmark = pytest.mark.root


@pytest.fixture
def data(flaky_ext4: FlakyDisk) -> Path:
    folder = flaky_ext4.folder / "data"
    folder.mkdir()
    return folder


def fill(folder: Path, sizes: dict[str, int]) -> None:
    for name, size in sizes.items():
        put(folder / name, os.urandom(size))
    os.sync()


def test_bad_sectors(flaky_ext4: FlakyDisk, data: Path, integrity: Box) -> None:
    """A bad sector is named to the byte, in a small and a large file; the others go on; repaired, it resolves."""
    fill(data, {"small": 20_000, "large": 9 * MIB + 5, "other": 5_000, "another": 2 * MIB})
    integrity.run("scan", data, expect=0)
    integrity.run("scrub", data, expect=0)
    digests = integrity.json("explain", data / "large")[0]["digests"]
    flaky_ext4.bad_sector(data / "small", 8192)
    flaky_ext4.bad_sector(data / "large", 5 * MIB + 4096, sectors=2)

    done = integrity.run("--json", "scrub", data, expect=3)

    found = {str(one["path"]): one for one in done.findings}
    assert {str(data / "small"), str(data / "large")} == set(found)
    assert {"unreadable"} == {one["kind"] for one in done.findings}
    assert [[8192, 4096]] == found[str(data / "small")]["ranges"]
    assert [[5 * MIB + 4096, 8192]] == found[str(data / "large")]["ranges"]
    assert "8192 bytes" in str(found[str(data / "large")]["message"])
    assert {"unreadable": 2, "verified": 2} == tallies(done)
    scan = integrity.run("--json", "scan", data, expect=0)
    assert {"damaged": 2, "not_due": 2} == tallies(scan)
    assert digests == integrity.json("explain", data / "large")[0]["digests"]
    flaky_ext4.clear()
    assert {"verified": 4} == tallies(integrity.run("--json", "scrub", data, expect=0))
    integrity.run("findings", expect=0)


def test_bad_sector_met_by_the_first_scan(flaky_ext4: FlakyDisk, data: Path, integrity: Box) -> None:
    """A file that can't be read at first is reported and not recorded; when it can be, it is new and all is well."""
    fill(data, {"bad": 20_000, "good": 5_000})
    flaky_ext4.bad_sector(data / "bad", 8192)

    done = integrity.run("--json", "scan", data, expect=3)

    assert ([("unreadable", str(data / "bad"))], {"unreadable": 1, "new": 1}) == (met(done), tallies(done))
    assert {"unreadable": 1, "not_due": 1} == tallies(integrity.run("--json", "scan", data, expect=3))
    flaky_ext4.clear()
    assert {"new": 1, "not_due": 1} == tallies(integrity.run("--json", "scan", data, expect=0))
    integrity.run("findings", expect=0)
    integrity.run("status", expect=0)


@pytest.mark.parametrize("size", [20_000, 3 * MIB])
def test_one_wrong_reading(flaky_ext4: FlakyDisk, data: Path, integrity: Box, size: int) -> None:
    """A bit that flips once on the way from the disk is transient: the machine is at fault, not the file."""
    fill(data, {"file": size, "other": 5_000})
    integrity.run("scan", data, expect=0)
    integrity.run("scrub", data, expect=0)
    flaky_ext4.flip_in_transit(data / "file", size - 5_000, 2, count=1)

    done = integrity.run("--json", "scrub", data, expect=1)

    (one,) = done.findings
    assert ("transient", None, str(data / "file")) == (one["kind"], one["certainty"], one["path"])
    assert {"damaged": 1, "verified": 1} == tallies(done)
    scan = integrity.run("--json", "scan", "--full", data, expect=0)
    assert {"verified": 2} == tallies(scan)
    with open(data / "file", "ab") as file:
        file.write(b"the baseline is free")
    assert {"changed": 1, "not_due": 1} == tallies(integrity.run("--json", "scan", data, expect=0))
    assert {"verified": 2} == tallies(integrity.run("--json", "scrub", data, expect=0))
    integrity.run("findings", expect=0)


def test_every_reading_another(flaky_ext4: FlakyDisk, data: Path, integrity: Box) -> None:
    """Readings that all differ are unsteady: transient, never rot, and the message says so."""
    fill(data, {"file": 20_000})
    integrity.run("scan", data, expect=0)
    integrity.run("scrub", data, expect=0)
    position = flaky_ext4.position(data / "file", 9_000)
    for bit in range(3):
        flaky_ext4.add(Rule("read", flip=position, bit=bit, offset=position, length=1, skip=bit, count=1))
    drop_cache(data / "file")

    (one,) = integrity.run("--json", "scrub", data, expect=1).findings

    assert "transient" == one["kind"]
    assert "Every read gave different data" in str(one["message"])


def test_catalog_that_was_wrong_when_it_was_sealed(flaky_ext4: FlakyDisk, data: Path, integrity: Box) -> None:
    """MD5 right and XXH3 wrong: the catalog is damaged, the file is not said to be."""
    fill(data, {"file": 20_000, "large": 3 * MIB})
    integrity.run("scan", data, expect=0)
    integrity.run("scrub", data, expect=0)
    with closing(sqlite3.connect(integrity.catalog)) as db, db:
        db.execute("UPDATE file SET xxh3_128 = randomblob(16) WHERE name = ?", [b"file"])
        row = db.execute("SELECT file_id, xxh3_128 FROM block_run").fetchone()
        assert row is not None
        db.execute("UPDATE block_run SET xxh3_128 = randomblob(?)", [len(row[1])])
    broken = integrity.run("--json", "scrub", data, expect=1)
    assert {"catalog_damaged"} == set(kinds(broken))
    assert {"skipped": 2} == tallies(broken)
    integrity.run("catalog", "reseal", "--yes")

    done = integrity.run("--json", "scrub", data, expect=1)

    assert {"catalog_damaged"} == set(kinds(done))
    assert {"skipped": 2} == tallies(done)


def test_many_errors_leave_the_device_alone(flaky_ext4: FlakyDisk, data: Path, integrity: Box) -> None:
    """After 100 failing reads the disk is left alone: one finding, the rest skipped; repaired, all is well again."""
    fill(data, {f"{number:03}": 8_192 for number in range(200)})
    integrity.run("scan", data, expect=0)
    integrity.run("scrub", data, expect=0)
    for number in range(200):
        flaky_ext4.bad_sector(data / f"{number:03}", 4096)

    done = integrity.run("--json", "scrub", data, expect=3)

    assert 1 == len([kind for kind, _ in met(done) if kind == "device_failing"])
    counts = tallies(done)
    assert {"unreadable", "skipped"} == set(counts)
    assert 200 == sum(counts.values())
    assert counts["unreadable"] <= 100
    assert "after replacing the disk" in integrity.run("scrub", data, expect=3).stdout
    flaky_ext4.clear()
    assert {"verified": 200} == tallies(integrity.run("--json", "scrub", data, expect=0))
    integrity.run("findings", expect=0)
    integrity.run("status", expect=0)


def test_device_that_hangs(faulty: FaultFS, tmp_path: Path) -> None:
    """A read that does not come back is given up after a time; the other files are answered for."""
    fill(tmp_path / "source", {"hangs": 5_000, "good": 5_000})
    faulty.add(Rule("read", path="/hangs", is_hung=True))
    try:
        with reading(faulty.mnt, ReadMode.DISK, capability=make_capability("fuse", has_direct_io=False)) as reader:
            engine = Engine(reader, jobs=2, stall_s=1.0)
            tasks = [Task(name, 5 * MIB, want_to_record(blake3=False), MIB) for name in (b"hangs", b"good")]
            results = {result.task.path: result for result in engine.run(tasks)}
    finally:
        faulty.clear()

    stalled = results[b"hangs"]
    assert isinstance(stalled, Failed)
    assert isinstance(stalled.error, DeviceStalled)
    assert not isinstance(results[b"good"], Failed)


def test_file_that_may_not_be_read(tmp_path: Path, integrity: Box) -> None:
    """Without permission a file is unreadable, its record stays; with it again it is verified, whatever chmod did."""
    root = tmp_path / "root"
    root.mkdir()
    fill(root, {"secret": 5_000, "never": 5_000, "open": 5_000})
    for path in root.iterdir():
        os.chown(path, NOBODY, NOBODY)  # of files of others nobody may ask whether they are open for writing
    os.chmod(root / "never", 0)
    let_in(tmp_path)
    integrity.configure("")
    for path in (integrity.home, *integrity.home.iterdir()):
        os.chown(path, NOBODY, NOBODY)
    first = run_as_nobody(integrity, "--json", "scan", root)
    assert (3, {"new": 2, "unreadable": 1}) == (first.code, tallies(first)), first.stderr
    os.chmod(root / "secret", 0)

    scan = run_as_nobody(integrity, "--json", "scan", root)
    scrub = run_as_nobody(integrity, "--json", "scrub", root)

    assert (3, {"not_due": 2, "unreadable": 1}) == (scan.code, tallies(scan))
    assert (3, {"unreadable": 2, "verified": 1}) == (scrub.code, tallies(scrub))
    found = {str(one["path"]): str(one["message"]) for one in scrub.findings}
    assert {str(root / "secret"), str(root / "never")} == set(found)
    assert all("Permission denied" in message for message in found.values())
    for name in ("secret", "never"):
        os.chmod(root / name, 0o644)
    scan = run_as_nobody(integrity, "--json", "scan", root)
    assert (0, {"new": 1, "verified": 1, "not_due": 1}) == (scan.code, tallies(scan))
    scrub = run_as_nobody(integrity, "--json", "scrub", root)
    assert (0, {"verified": 3}) == (scrub.code, tallies(scrub))
    assert 0 == run_as_nobody(integrity, "findings").code


@contextmanager
def changing(path: Path) -> Iterator[None]:
    """Let a file change all the time."""
    stop = threading.Event()

    def change() -> None:
        with open(path, "r+b") as file:
            while not stop.is_set():
                file.seek(0)
                file.write(os.urandom(8))
                file.flush()

    thread = threading.Thread(target=change)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()


def test_file_that_never_holds_still(tmp_path: Path, integrity: Box) -> None:
    """A file that changes whenever it is read is unstable: neither good nor bad, and soon given up."""
    root = tmp_path / "root"
    root.mkdir()
    fill(root, {"busy": 48 * MIB, "quiet": 5_000})
    with changing(root / "busy"):
        began = time.monotonic()
        first = integrity.run("--json", "scan", root, expect=3)
        assert time.monotonic() - began < 15
    assert ({"unstable": 1, "new": 1}, []) == (tallies(first), first.findings)
    integrity.run("scan", root, expect=0)
    with changing(root / "busy"):
        scan = integrity.run("--json", "scan", root, expect=3)
        began = time.monotonic()
        scrub = integrity.run("--json", "scrub", root, expect=3)
        assert time.monotonic() - began < 20
    assert ({"unstable": 1, "not_due": 1}, []) == (tallies(scan), scan.findings)
    assert ({"unstable": 1, "verified": 1}, []) == (tallies(scrub), scrub.findings)
    done = integrity.run("--json", "scrub", root, expect=0)
    assert {"changed": 1, "verified": 1} == tallies(done)


def test_file_that_held_still_too_rarely(tmp_path: Path, integrity: Box) -> None:
    """Unstable for longer than the promise allows, a file is a finding, until it could be verified."""
    root = tmp_path / "root"
    root.mkdir()
    fill(root, {"busy": 4 * MIB})
    integrity.run("scan", root, expect=0)
    integrity.configure('[defaults]\nverify_every = "1s"\n')
    with changing(root / "busy"):
        done = integrity.run("--json", "scrub", root, env=REAL_PAUSES, expect=3)  # longer than a second
    assert ([("unstable", str(root / "busy"))], {"unstable": 1}) == (met(done), tallies(done))
    integrity.run("findings", expect=3)

    assert {"changed": 1} == tallies(integrity.run("--json", "scrub", root, expect=0))
    assert {"verified": 1} == tallies(integrity.run("--json", "scrub", root, expect=0))
    integrity.run("findings", expect=0)


def test_file_gone_between_listing_and_opening(faulty: FaultFS, tmp_path: Path, integrity: Box) -> None:
    """A name that vanishes under the scan is no error, and no harm to the others."""
    fill(tmp_path / "source", {"ghost": 5_000, "good": 5_000})
    faulty.add(Rule("open", path="/ghost", errno=errno.ENOENT))

    done = integrity.run("--json", "scan", faulty.folder, expect=0)

    assert {"new": 1} == tallies(done)
    faulty.clear()
    assert {"new": 1, "not_due": 1} == tallies(integrity.run("--json", "scan", faulty.folder, expect=0))


def test_file_edited_while_its_rot_is_confirmed(flaky_ext4: FlakyDisk, data: Path, integrity: Box) -> None:
    """An honest edit between the readings that confirm rot is judged as what it is: nobody's file is called rotten."""
    fill(data, {"file": 20_000, "large": 3 * MIB, "same": 5_000})
    integrity.run("scan", data, expect=0)
    rot(data / "file", 9_000)
    rot(data / "large", 2 * MIB)
    command = make_command("--json", "scrub", data)
    with subprocess.Popen(command, env=integrity.environment | REAL_PAUSES, stdout=subprocess.PIPE) as scrub:
        wait_until(lambda: is_verified(integrity, b"same"), "end of the first reading", every_s=0.01)
        for name in ("file", "large"):
            with open(data / name, "r+b") as file:
                file.write(b"edited")
        out, _ = scrub.communicate(timeout=60)
    done = complete(scrub.returncode, out, b"", is_json=True)

    assert ({"changed": 2, "verified": 1}, [], 0) == (tallies(done), done.findings, done.code)
    assert {"verified": 3} == tallies(integrity.run("--json", "scrub", data, expect=0))
