"""The fault rig does what it says: every other test of damage rests on it."""

from __future__ import annotations

import os
import signal
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from support.bitrot import (
    NotOursError,
    Position,
    allow_damage,
    drop_cache,
    flip_at,
    rot,
)
from support.crashdisk import CrashDisk
from support.loopfs import LoopFS
from support.mountinfo import find_mounts
from support.privileges import as_nobody, let_in
from support.proc import measure
from support.programs import sh
from support.shapes import put
from support.waiting import wait_until

SIZE_BYTES = 1 << 20


def put_synced(path: bytes) -> bytes:
    """Write random bytes to ``path``, to the disk, and return them."""
    data = os.urandom(SIZE_BYTES)
    put(path, data)
    sh("sync", "-f", path)
    return data


def read(path: bytes, offset: int = 0, length: int = 4096) -> bytes | int:
    """Return what one pread(2) gives, or its errno."""
    fd = os.open(path, os.O_RDONLY)
    try:
        return os.pread(fd, length, offset)
    except OSError as error:
        return error.errno
    finally:
        os.close(fd)


def test_image_that_no_test_made_is_not_damaged(tmp_path: Path) -> None:
    """A bit is flipped in a test's own disk only: a file of any other kind is left alone."""
    foreign = tmp_path / "disk.img"
    foreign.write_bytes(b"somebody's disk")

    with pytest.raises(NotOursError, match=r"disk\.img' is no image of a LoopFS .* nothing was written"):
        flip_at(Position(os.fsencode(foreign), 3))

    assert b"somebody's disk" == foreign.read_bytes()


@pytest.mark.root
def test_disk_that_no_test_made_is_not_damaged(tmp_path: Path) -> None:
    """A file on a loop device of somebody else can't be made to rot, mounted as it may be."""
    image, folder = tmp_path / "disk.img", tmp_path / "mnt"
    folder.mkdir()
    with image.open("xb") as file:
        file.truncate(64 << 20)
    sh("mkfs.ext4", "-q", "-F", image)
    sh("mount", "-o", "loop", image, folder)
    try:
        data = put_synced(os.fsencode(folder / "file"))
        with pytest.raises(NotOursError, match="nothing was written"):
            rot(folder / "file", 5000)
        assert 0 == drop_cache(folder / "file")
        assert data == read(os.fsencode(folder / "file"), 0, SIZE_BYTES)
    finally:
        sh("umount", folder)


def test_device_is_not_damaged(ext4: LoopFS) -> None:
    """Nothing is written to a block device, not even to one that a test has made, nor to one passed off as an image."""
    with pytest.raises(NotOursError, match="is no image of a LoopFS"):
        flip_at(Position(ext4.device, 0))
    allow_damage(ext4.device)
    with pytest.raises(NotOursError, match="is a device"):
        flip_at(Position(ext4.device, 0))


@pytest.mark.root
def test_faulty_file_system_ends_with_a_killed_test(tmp_path: Path) -> None:
    """The server unmounts and ends when nobody holds it any more."""
    script = (
        f"import os, sys; sys.path.insert(0, {str(Path(__file__).parents[1])!r})\n"
        "from support.faultfs import FaultFS, Rule\n"
        f"fs = FaultFS({str(tmp_path)!r}).__enter__(); fs.add(Rule('read', is_hung=True))\n"
        "print(os.fsdecode(fs.mnt), flush=True); os.kill(os.getpid(), 9)"
    )
    done = subprocess.run([sys.executable, "-c", script], stdout=subprocess.PIPE, check=False)
    mount_point = done.stdout.strip()

    assert -signal.SIGKILL == done.returncode
    wait_until(lambda: mount_point not in {mount.point for mount in find_mounts()}, "the unmount")
    folder = Path(os.fsdecode(mount_point))
    (folder.parent / "stderr").unlink()
    folder.rmdir()
    folder.parent.rmdir()


@pytest.mark.root
def test_power_cut_keeps_what_was_synced() -> None:
    """A committed row of a SQLite in WAL mode with synchronous=FULL outlives every cut; an unsynced file need not."""
    lost = 0
    with CrashDisk("ext4") as disk:
        with disk.running() as fs, closing(sqlite3.connect(fs.folder / "rows.db", isolation_level=None)) as db:
            db.execute("pragma journal_mode=wal")
            db.execute("pragma synchronous=full")
            db.execute("create table row (id integer primary key, filler)")
            for number in range(1, 21):
                db.execute("insert into row values (?, randomblob(3000))", (number,))
                put(fs.folder / f"unsynced-{number}", bytes(5000))
                disk.mark(str(number))
        for cut in disk.find_cuts(4):
            with disk.after(cut) as fs:
                if not cut.marks:
                    continue
                with closing(sqlite3.connect(fs.folder / "rows.db")) as db:
                    assert ("ok",) == db.execute("pragma integrity_check").fetchone(), cut
                    assert db.execute("select max(id) from row").fetchone()[0] >= int(cut.marks[-1]), cut
                unsynced = fs.folder / f"unsynced-{cut.marks[-1]}"
                lost += not (unsynced.exists() and unsynced.stat().st_size == 5000)

    assert lost > 0


@pytest.mark.root
def test_measure_sees_the_memory_of_the_command() -> None:
    """The peak is the command's own, not that of the process that runs the tests."""
    small = measure([sys.executable, "-I", "-S", "-c", "pass"])
    large = measure([sys.executable, "-I", "-S", "-c", "b'x' * (100 << 20)"])

    assert small.peak_rss_bytes < 20 << 20
    assert large.peak_rss_bytes > 100 << 20


@pytest.mark.root
def test_other_run_does_not_close_the_folders_of_this_one(tmp_path: Path) -> None:
    """Whoever a test has let in stays so when another run of pytest begins beside it."""
    let_in(tmp_path)
    (tmp_path / "test_other.py").write_text("def test_it(tmp_path): pass\n")
    others = {name: value for name, value in os.environ.items() if name != "PYTEST_DEBUG_TEMPROOT"}
    subprocess.run([sys.executable, "-m", "pytest", "-q", tmp_path], env=others, check=True, cwd=tmp_path)

    with as_nobody():
        assert ["test_other.py"] == [name for name in os.listdir(tmp_path) if name.endswith(".py")]
