"""Comparisons while something fails: disks, rights, readings, records, the run itself; and names that are no text."""

from __future__ import annotations

import errno
import hashlib
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from support import AnyPath
from support.cli import Box
from support.comparing import back_up, compare, counts, said
from support.faultfs import FaultFS, Rule
from support.flakydisk import FlakyDisk
from support.loopfs import LoopFS
from support.machine import need_programs
from support.planted import plant, plant_path
from support.privileges import let_in, run_as_nobody
from support.running import Running
from support.shapes import put
from support.stored import query, rewrite
from support.waiting import wait_until

MIB = 1 << 20
COUNT = 60
pytestmark = pytest.mark.files(COUNT, size_bytes=3000, is_aged=True)


def names(*numbers: int) -> set[str]:
    return {f"d{number % 7}/{number}.txt" for number in numbers}


def test_copy_under_a_name_that_is_no_text(root: Path, integrity: Box, tmp_path: Path) -> None:
    """A copy's own path may be any bytes; what findings call it can be given to --with."""
    copy = os.fsencode(tmp_path) + b"/co\xffpy\n"
    subprocess.run(["cp", "-a", root, copy], check=True)
    put(copy + b"/d1/1.txt", b"other")
    done = compare(integrity, root, "--with", copy, expect=1)
    (finding,) = done.findings
    again = compare(integrity, root, "--with", str(finding["copy"]), expect=1)
    assert done.summary["url"] == again.summary["url"]
    shutil.copy2(root / "d1/1.txt", copy + b"/d1/1.txt")
    compare(integrity, root, "--with", copy, expect=0)
    integrity.run("findings", expect=0)
    assert 1 == len(query(integrity, "SELECT url FROM copy"))
    integrity.run("explain", root / "d1/1.txt", expect=0)
    integrity.run("--json", "explain", root / "d1/1.txt", expect=0)
    integrity.run("status", expect=0)


@pytest.mark.root
def test_copy_without_permission(root: Path, copy: Path, nobodys_box: Box) -> None:
    """Another day nobody may enter it: nothing was mistyped; it is exit 3 and a finding, as for a disk that is gone."""
    let_in(root)
    let_in(copy)
    assert 0 == run_as_nobody(nobodys_box, "compare", str(root), "--with", str(copy)).code
    copy.chmod(0)
    done = run_as_nobody(nobodys_box, "--json", "compare", str(root), "--with", str(copy))
    copy.chmod(0o755)
    assert 3 == done.code, done.stderr
    assert {"copy_unreadable": {""}} == said(done, root)
    assert "Permission denied" in str(done.findings[0]["message"])


@contextmanager
def mounted_by_rclone(source: Path, mount_point: Path, *options: str) -> Iterator[None]:
    """Show a folder through rclone, read-only."""
    need_programs("rclone", "fusermount3")
    command: list[AnyPath] = ["rclone", "mount", "--config", os.devnull, "--read-only", *options, source, mount_point]
    with subprocess.Popen(command, stdin=subprocess.DEVNULL) as rclone:
        try:
            wait_until(lambda: os.path.ismount(mount_point), "rclone's mount")
            yield
        finally:
            subprocess.run(["umount", "--lazy", mount_point], check=False)
            rclone.terminate()


@pytest.mark.root
def test_file_system_that_folds_names(root: Path, copy: Path, integrity: Box, tmp_path: Path) -> None:
    """What is there under another spelling is found by it, as a whole or in part, and that is said."""
    for number in (1, 2):
        plant_path(copy, number).rename(plant_path(copy, number).with_suffix(".TXT"))
    (copy / "d3").rename(copy / "D3")
    folding = tmp_path / "folding"
    folding.mkdir()
    with mounted_by_rclone(copy, folding, "--vfs-case-insensitive"):
        done = compare(integrity, root, "--with", folding, expect=0)
        assert {"verified": COUNT} == counts(done)
        assert "names in it are spelled otherwise than the files" in done.stdout
        for part in (plant_path(root, 1), root / "d3"):
            assert {"verified"} == set(counts(compare(integrity, part, "--with", folding, expect=0)))


@pytest.mark.root
def test_disk_that_dies_in_mid_run(integrity: Box, root: Path) -> None:
    """What could not be looked at any more is unreadable or not due, never missing or differing; exit 3."""
    with FlakyDisk("ext4") as disk:
        copy = back_up(root, disk.folder)
        integrity.run("scan", root, expect=0)
        subprocess.run(["sync", "-f", copy], check=True)
        disk.fs.remount()
        rule = disk.add(Rule("read", errno=errno.EIO, skip=40))
        done = compare(integrity, root, "--with", copy, "--no-scan")
        disk.clear(rule)
        assert 3 == done.code, done.stdout
        assert {"copy_unreadable"} == set(said(done, root))
        assert set(counts(done)) <= {"verified", "unreadable", "not_due"}
        disk.fs.remount()
        compare(integrity, root, "--with", copy, expect=0)
        integrity.run("findings", expect=0)


@pytest.mark.root
def test_file_system_that_vanishes_in_mid_run(faulty: FaultFS, integrity: Box, tmp_path: Path) -> None:
    """A server that goes away while files are read: exit 3, nothing missing, and all is well when it is back."""
    root = plant(tmp_path / "root", 400, size_bytes=3000)
    integrity.run("scan", root, expect=0)
    back_up(root, tmp_path / "source")
    faulty.add(Rule("read", path="/d3/*", is_hung=True))
    with Running(integrity, "--json", "compare", str(root), "--with", str(faulty.folder), "--no-scan") as running:
        wait_until(lambda: bool(faulty.get_fired()), "a read that hangs")
        faulty.kill()
        done = running.finish()
    assert 3 == done.code, (done.stdout[-2000:], done.stderr)
    assert {"copy_unreadable"} == set(said(done, root))
    assert set(counts(done)) <= {"verified", "unreadable", "not_due"}
    assert len(done.findings) < 150


@pytest.mark.root
def test_comparison_that_is_stopped(faulty: FaultFS, integrity: Box, tmp_path: Path) -> None:
    """Exit 130; what was read counts, the rest is not due and comes first the next time; nothing wrong is kept."""
    root = plant(tmp_path / "root", COUNT, size_bytes=3000)
    integrity.run("scan", root, expect=0)
    back_up(root, tmp_path / "source")
    rule = faulty.add(Rule("read", path="*/3*.txt", is_hung=True))
    args = ("--json", "compare", str(root), "--with", str(faulty.folder), "--no-scan")
    with Running(integrity, *args) as running:
        wait_until(lambda: bool(faulty.get_fired()), "a read that hangs")
        running.signal(signal.SIGTERM)
        faulty.clear(rule)
        done = running.finish()
    assert 130 == done.code, done.stderr
    assert {"verified", "not_due"} >= set(counts(done))
    assert COUNT == sum(counts(done).values())
    ((kept,),) = query(integrity, "SELECT count(*) FROM copy_file")
    assert counts(done).get("verified", 0) == kept
    integrity.run("findings", expect=0)
    assert {"verified": COUNT} == counts(compare(integrity, root, "--with", faulty.folder, expect=0))


def test_time_limit_and_rate(integrity: Box, tmp_path: Path) -> None:
    """At two files a second a second of time is enough for a few; at 2 MiB a second 4 MB take almost two seconds."""
    root = plant(tmp_path / "root", 40, size_bytes=100_000)
    copy = back_up(root, tmp_path / "copy")
    integrity.run("scan", root, expect=0)
    some = compare(
        integrity, root, "--with", copy, "--no-scan", "--rate", "200K", "--time-limit", "1s", "--jobs", "1", expect=0
    )
    assert {"verified", "not_due"} == set(counts(some))
    assert counts(some)["verified"] < 20
    began = time.monotonic()
    compare(integrity, root, "--with", copy, "--no-scan", "--rate", "2M", expect=0)
    assert 1.3 < time.monotonic() - began < 15


@pytest.mark.root
def test_full_disk_under_the_catalog(root: Path, copy: Path, tmp_path: Path) -> None:
    """It is said, with exit 4; when there is room again all is compared and nothing is lost."""
    with LoopFS("ext4", size_bytes=64 << 20) as disk:
        box = Box(disk.folder / "home")
        box.run("scan", root, expect=0)
        for number in range(30):
            put(plant_path(copy, number), b"other")
        filler = disk.folder / "filler"
        subprocess.run(["sh", "-c", f"cat /dev/zero >'{filler}' 2>/dev/null; sync"], check=False)
        done = box.run("compare", root, "--with", copy)
        assert done.code in (3, 4), done.stdout + done.stderr
        assert "this is a bug" not in done.stderr
        filler.unlink()
        assert {"copy_newer": names(*range(30))} == said(compare(box, root, "--with", copy, expect=1), root)


@pytest.mark.long
@pytest.mark.root
def test_full_disk_under_temporary_files(integrity: Box, tmp_path: Path) -> None:
    """It is said where room is needed; with room there all is well, and nothing wrong was kept."""
    root, small, copy = tmp_path / "root", tmp_path / "small", tmp_path / "sums"
    root.mkdir()
    for number in range(25_000):
        put(root / str(number), b"x")
    line = hashlib.md5(b"x").hexdigest()
    copy.write_text("".join(f"{line}  {number}\n" for number in range(25_000)))
    integrity.run("scan", root, expect=0)
    small.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64k", "small", small], check=True)
    try:
        full = integrity.run("compare", root, "--with", copy, "--no-scan", env={"SQLITE_TMPDIR": str(small)})
    finally:
        subprocess.run(["umount", small], check=True)
    assert (4, True) == (full.code, "SQLITE_TMPDIR" in full.stderr), full.stderr
    assert {"verified": 25_000} == counts(compare(integrity, root, "--with", copy, "--no-scan", expect=0))
    integrity.run("findings", expect=0)


def test_damaged_record_proves_nothing(root: Path, copy: Path, integrity: Box) -> None:
    """A file whose record contradicts itself is neither good nor bad in its copy: the catalog is, exit 1."""
    integrity.run("scan", root, expect=0)
    rewrite(integrity, "UPDATE file SET xxh3_128 = randomblob(16) WHERE name = ?", [b"1.txt"])
    put(plant_path(copy, 1), b"other")
    for option in ((), ("--no-scan",)):
        done = compare(integrity, root, "--with", copy, *option, expect=1)
        assert {"verified": COUNT - 1, "skipped": 1, "not_comparable": 1} == counts(done)
        assert {"catalog_damaged": names(1), "copy_not_comparable": {"", *names(1)}} == said(done, root)


def test_damaged_blocks_prove_nothing(integrity: Box, tmp_path: Path) -> None:
    """The same where not the record of a large file is damaged but the digests of its blocks."""
    root = tmp_path / "root"
    root.mkdir()
    put(root / "large", os.urandom(3 * MIB))
    copy = back_up(root, tmp_path / "copy")
    integrity.run("scan", root, expect=0)
    rewrite(integrity, "UPDATE block_run SET xxh3_128 = randomblob(length(xxh3_128))")
    done = compare(integrity, root, "--with", copy, expect=1)
    assert {"skipped": 1, "not_comparable": 1} == counts(done)
    assert {"catalog_damaged", "copy_not_comparable"} == set(said(done, root))
