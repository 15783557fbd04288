"""The fault rig does what it says: every other test of damage rests on it."""

from __future__ import annotations

import errno
import os
import signal
import sqlite3
import stat
import subprocess
import sys
import time
from contextlib import closing
from pathlib import Path

import pytest

from support.bitrot import (
    NoPlainBytesError,
    NotOursError,
    Position,
    allow_damage,
    cached_bytes,
    drop_cache,
    flip_at,
    flip_bit,
    get_positions,
    identity,
    read_direct,
    rot,
)
from support.crashdisk import CrashDisk
from support.faultfs import FaultFS, Rule
from support.flakydisk import FlakyDisk
from support.loopfs import LoopFS
from support.mountinfo import find_mounts
from support.nastytree import nasty_tree
from support.preload import Shims
from support.privileges import as_nobody, let_in
from support.proc import find_moments, kill_after, measure, signal_at
from support.programs import sh
from support.shapes import TIB, put, put_sparse
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


@pytest.mark.root
@pytest.mark.parametrize("fs_type", ["ext4", "xfs"])
def test_flipped_bit_changes_the_disk_and_nothing_else(fs_type: str) -> None:
    """One bit differs on the disk, the cached content and all that stat says are as before."""
    with LoopFS(fs_type) as fs:
        path = fs.path(b"a\nphoto \xff.jpg")
        data = put_synced(path)
        before, at = identity(path), 400_000

        flip_bit(path, at, bit=3)

        assert data == read(path, 0, SIZE_BYTES)
        assert SIZE_BYTES == cached_bytes(path)
        page = at // 4096 * 4096
        on_disk = read_direct(path, page)
        assert [at - page] == [k for k in range(4096) if on_disk[k] != data[page + k]]
        assert 0 == drop_cache(path)
        assert data[at] ^ 1 << 3 == read(path, at, 1)[0]  # type: ignore[index]
        fs.remount()
        assert data[at] ^ 1 << 3 == read(path, at, 1)[0]  # type: ignore[index]
        assert before == identity(path)


def test_flipped_bit_on_btrfs_is_an_error_to_the_reader(btrfs: LoopFS) -> None:
    """A file system with checksums refuses the damaged bytes, while the cache still has good ones."""
    path = btrfs.path("photo.jpg")
    data = put_synced(path)
    before = identity(path)

    flip_bit(path, 400_000)

    assert data == read(path, 0, SIZE_BYTES)
    with pytest.raises(OSError, match="Input/output") as caught:
        read_direct(path, 400_000 // 4096 * 4096)
    assert errno.EIO == caught.value.errno
    assert 0 == drop_cache(path)
    assert errno.EIO == read(path, 400_000)
    assert before == identity(path)


def test_bit_can_be_flipped_while_the_file_system_is_not_mounted(ext4: LoopFS) -> None:
    """A position found while mounted is good for damage at rest."""
    path = ext4.path("file")
    data = put_synced(path)
    position = get_positions(path, 5000)[0]
    ext4.umount()
    assert [] == os.listdir(ext4.mnt)

    flip_at(position, bit=7)

    ext4.mount()
    assert bytes([data[5000] ^ 1 << 7]) == read(path, 5000, 1)


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


def test_hole_can_not_rot(ext4: LoopFS) -> None:
    """Where a file has no bytes on the disk, the rig refuses to damage some other file's."""
    path = ext4.path("sparse")
    put_sparse(path, SIZE_BYTES)

    with pytest.raises(NoPlainBytesError):
        flip_bit(path, 0)


def test_fault_hits_its_byte_range_and_nothing_else(faulty: FaultFS, tmp_path: Path) -> None:
    """A rule fails the reads that touch its range, until it is cleared."""
    data = os.urandom(20_000)
    put(tmp_path / "source/b.jpg", data)
    path = faulty.path("b.jpg")

    rule = faulty.add(Rule("read", path="*/b.jpg", errno=errno.EIO, offset=8192, length=4096))

    assert data[4096:8192] == read(path, 4096)
    assert errno.EIO == read(path, 8192)
    assert errno.EIO == read(path, 8191, 2)
    assert data[12288:16384] == read(path, 12288)
    assert [(rule, "/b.jpg", 8192), (rule, "/b.jpg", 8191)] == [(f.rule, f.path, f.offset) for f in faulty.get_fired()]
    faulty.clear(rule)
    assert data == read(path, 0, 20_000)


def test_reads_can_be_short_flipped_and_cut_off(faulty: FaultFS, tmp_path: Path) -> None:
    """What a read returns can be less, or other, than what the file holds."""
    put(tmp_path / "source/file", bytes(10_000))
    path = faulty.path("file")

    short = faulty.add(Rule("read", short=100))
    assert bytes(100) == read(path)
    faulty.clear(short)
    end = faulty.add(Rule("read", eof=5000))
    assert bytes(904) == read(path, 4096)
    assert 10_000 == os.stat(path).st_size
    faulty.clear(end)
    faulty.add(Rule("read", flip=4100, bit=1, skip=1, count=1))
    assert [bytes(8), bytes([0, 0, 0, 0, 2, 0, 0, 0]), bytes(8)] == [read(path, 4096, 8) for _ in range(3)]


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
@pytest.mark.parametrize("fs_type", ["ext4", "xfs", "btrfs"])
def test_bad_sector_is_unreadable_to_the_byte(fs_type: str) -> None:
    """A real file system gives EIO for one 4 KiB block, and good data again when the sector is mended."""
    with FlakyDisk(fs_type) as disk:
        path = disk.path("film")
        data = put_synced(path)
        before = identity(path)

        bad = disk.bad_sector(path, 409_600 + 17)

        assert data[405_504:409_600] == read(path, 405_504)
        assert errno.EIO == read(path, 409_600)
        assert data[413_696:417_792] == read(path, 413_696)
        disk.clear(bad)
        assert 0 == disk.drop(path)
        assert data == read(path, 0, SIZE_BYTES)
        assert before == identity(path)


def test_failed_write_shows_at_fsync(flaky_ext4: FlakyDisk) -> None:
    """A disk that takes no writes lets write(2) pass and fails fsync(2)."""
    flaky_ext4.add(Rule("write", errno=errno.EIO))

    with open(flaky_ext4.path("new"), "wb") as file:
        file.write(bytes(100_000))
        file.flush()
        with pytest.raises(OSError, match="Input/output"):
            os.fsync(file.fileno())


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
                lost += not is_whole(fs.folder / f"unsynced-{cut.marks[-1]}")

    assert lost > 0


def is_whole(path: Path) -> bool:
    """Tell whether the unsynced file is as it was written."""
    return path.exists() and path.stat().st_size == 5000


@pytest.mark.root
def test_power_cut_can_be_repeated() -> None:
    """The same cut gives the same disk."""
    with CrashDisk("ext4") as disk:
        with disk.running() as fs:
            for number in range(10):
                put(fs.folder / str(number), bytes(9000))
            sh("sync", "-f", fs.mnt)
        *_, cut = disk.find_cuts(3, is_torn=True)
        seen = []
        for _ in range(2):
            with disk.after(cut) as fs:
                seen.append(sorted(os.listdir(fs.mnt)))

    assert seen[0] == seen[1]


def test_shim_moves_the_wall_clock_only(shims: Shims, tmp_path: Path) -> None:
    """The wall clock jumps while a program runs, its monotonic clock does not."""
    script = "import time\nwhile True:\n input(); print(time.time(), time.monotonic(), flush=True)"
    env = shims.clock(tmp_path / "offset")
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with subprocess.Popen([sys.executable, "-c", script], env=env, text=True, **pipes) as program:  # type: ignore[call-overload]
        times = []
        for offset_s in (0, -86_400, 157_680_000):
            (tmp_path / "offset").write_text(str(offset_s))
            program.stdin.write("\n")
            program.stdin.flush()
            times.append([float(word) for word in program.stdout.readline().split()])
        program.kill()

    walls = [round((wall - time.time()) / 3600) for wall, _ in times]
    assert [0, -24, 43_800] == walls
    assert times[2][1] - times[0][1] < 60


@pytest.mark.root
def test_measure_tells_disk_from_cache(ext4: LoopFS) -> None:
    """A command that read the disk shows its bytes; one that read the cache shows none."""
    path = ext4.path("film")
    put_synced(path)

    warm = measure(["cat", path])
    drop_cache(path)
    cold = measure(["cat", path])

    assert (0, 0) == (warm.code, cold.code)
    assert SIZE_BYTES == len(cold.stdout)
    assert warm.read_bytes < SIZE_BYTES <= cold.read_bytes
    assert min(warm.asked_bytes, cold.asked_bytes) >= SIZE_BYTES


@pytest.mark.root
def test_measure_sees_the_memory_of_the_command() -> None:
    """The peak is the command's own, not that of the process that runs the tests."""
    small = measure([sys.executable, "-I", "-S", "-c", "pass"])
    large = measure([sys.executable, "-I", "-S", "-c", "b'x' * (100 << 20)"])

    assert small.peak_rss_bytes < 20 << 20
    assert large.peak_rss_bytes > 100 << 20


def test_program_is_killed_at_a_moment() -> None:
    """Kill -9 takes the whole process group, children too."""
    done = kill_after(["sh", "-c", "echo started; sleep 600; echo ended"], 0.1)

    assert done.was_killed
    assert b"ended" not in done.stdout
    assert find_moments(3, 1.0) == find_moments(3, 1.0)


@pytest.mark.root
def test_program_is_killed_at_a_system_call(tmp_path: Path) -> None:
    """The k-th call is the last; beyond the last call the program ends by itself."""
    path = tmp_path / "out"
    script = (
        f"import os; fd = os.open({str(path)!r}, os.O_CREAT | os.O_WRONLY); [os.pwrite(fd, b'x', k) for k in (0, 1)]"
    )
    lengths = []
    for nth in (1, 2, 3):
        done = signal_at([sys.executable, "-c", script], "pwrite64", nth)
        lengths.append((done.was_killed, path.stat().st_size))

    assert [(True, 0), (True, 1), (False, 2)] == lengths


def test_nasty_tree_is_there_and_goes(tmp_path: Path) -> None:
    """Everything in the list is on the disk, and nothing of it stays."""
    with nasty_tree(tmp_path / "tree", has_huge=True, has_cycles=True) as made:
        kinds = {thing.kind for thing in made}
        for thing in made:
            assert stat.S_ISREG(os.lstat(thing.path).st_mode) == thing.is_file, thing

        assert {"name: newline", "name: invalid UTF-8", "path of 6000 bytes", "1500 levels", "socket"} <= kinds
        assert len(made) > 60
        assert TIB == os.stat(tmp_path / "tree/contents/1-tib").st_size

    assert [] == os.listdir(tmp_path)


@pytest.mark.root
def test_other_run_does_not_close_the_folders_of_this_one(tmp_path: Path) -> None:
    """Whoever a test has let in stays so when another run of pytest begins beside it."""
    let_in(tmp_path)
    (tmp_path / "test_other.py").write_text("def test_it(tmp_path): pass\n")
    others = {name: value for name, value in os.environ.items() if name != "PYTEST_DEBUG_TEMPROOT"}
    subprocess.run([sys.executable, "-m", "pytest", "-q", tmp_path], env=others, check=True, cwd=tmp_path)

    with as_nobody():
        assert ["test_other.py"] == [name for name in os.listdir(tmp_path) if name.endswith(".py")]
